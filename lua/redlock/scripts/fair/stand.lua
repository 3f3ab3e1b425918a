-- Enters waiters of the process of ARGV[3], which asks for all, or keeps their places. ARGV[7]: for
-- each 'waiter ticket' and a sign; =: its label is that of ARGV[3], whose card is kept as a request
-- of lease 0 with zeros for digits. Returns 1.
local card = string.match(call('hget', KEYS[4], ARGV[3]) or '', '^1 %d+ %x+(.*) %d+$')
local request = card and '1 0 ' .. string.rep('0', 40) .. card .. ' 0'
local tickets, ends, requests = {}, {}, { 'format', 1 }
for waiter, ticket, sign in string.gmatch(ARGV[7], '(%x+) (%d+)([=-])') do
    local n = #tickets
    tickets[n + 1], tickets[n + 2] = ticket, waiter
    ends[n + 1], ends[n + 2] = now + ttl, waiter
    if request and sign == '=' then
        n = #requests
        requests[n + 1], requests[n + 2] = waiter, request
    end
end
call('zadd', KEYS[2], unpack(tickets))
call('zadd', KEYS[3], unpack(ends))
call('hset', KEYS[4], unpack(requests))
for i = 2, 4 do
    call('pexpire', KEYS[i], 2 * ttl)
end
return 1
