-- Tries the commands that locks need, for client:check(). KEYS[1]: a lock that no other client
-- uses. ARGV: "take" or "release", its counter, the floors, its channel, the marker ("": none;
-- not in KEYS, as for check.lua). {1, the number of connections or -1, a line "COMMAND why" for
-- each command that failed}.
local OURS = 'redlock check'
local fence, floor, failed = ARGV[2], ARGV[3], ''
local function try(...)
    local said = redis.pcall(...)
    if type(said) == 'table' and said.err and not string.find(said.err, '^WRONGTYPE') then
        failed = failed .. (...) .. ' ' .. string.gsub(said.err, '\n', ' ') .. '\n'
    end
    return said
end
if ARGV[1] == 'take' then
    try('SET', KEYS[1], OURS, 'NX', 'PX', 5000)
    try('GET', KEYS[1])
    if ARGV[5] ~= '' then try('GET', ARGV[5]) end
    try('GETRANGE', KEYS[1], 0, 256)
    try('PTTL', KEYS[1])
    try('MGET', fence, KEYS[1])
    try('HMGET', floor, '0')
else
    if redis.pcall('GET', KEYS[1]) == OURS then
        try('PEXPIRE', KEYS[1], 5000)
        try('DEL', KEYS[1])
    else
        failed = 'KEPT it was not there any more\n'
    end
    try('PUBLISH', ARGV[4], '')
    try('HSET', fence, '0', '')
    redis.pcall('DEL', fence)
end
local info = redis.pcall('INFO', 'clients')
local clients = type(info) == 'string' and string.match(info, 'connected_clients:(%d+)')
return {1, tonumber(clients or -1), failed}
