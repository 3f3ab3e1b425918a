-- Begins scripts that keep expiry times themselves. now: the server's time, in ms, by the clock
-- that expires its keys.
local call = redis.call
local time = call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
