-- What scripts with ends of their own begin with: the server's time, in ms, by the clock that its
-- keys end by.
local call = redis.call
local time = call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
