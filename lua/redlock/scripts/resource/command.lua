-- After mark.lua or owner.lua: runs a command, if any. ARGV[3] its name; KEYS[2..] and ARGV[4..]
-- its arguments. {1, reply}
if not ARGV[3] then
    return {1}
end
local command = {ARGV[3]}
for i = 2, #KEYS do
    command[i] = KEYS[i]
end
for i = 4, #ARGV do
    command[#command + 1] = ARGV[i]
end
local reply = redis.pcall(unpack(command))     -- Redis 6 hides the code of an error in call()
return type(reply) == 'table' and reply.err and reply or {1, reply}
