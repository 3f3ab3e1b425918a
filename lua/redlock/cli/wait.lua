--- redlock wait: waits until a name is free.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local detail = require "redlock.inspect.detail"
local primitive = require "redlock.kinds.primitive"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"
local subscription = require "redlock.runtime.subscription"
local waiting = require "redlock.cli.waiting"

local _M = { usage = "wait NAME", summary = "wait until nobody holds NAME",
    flags = { { "--wait", "S", "give up after S seconds, with status 124 (default: never)",
        short = "-w" } } }

_M.help = [[
redlock wait NAME [--wait S]

Waits until NAME is free: until a majority of the servers says that it has no holder, no readers and
no permits, and that a latch of that name is open. If no majority knows that for 10 s, it fails. It
does not acquire the lock, so another caller may hold NAME again when the next command runs. To run
a command under the lock, use redlock run.

FLAGS

STATUSES

  redlock wait deploy:web --wait 600 && ./report]]

local HELD = 124
local PAUSE, PATIENCE = 0.2, 10      -- seconds

function _M.main(given, names)
    local name = args.name(names, "wait")
    local client = config.client(given)
    if given["--wait"] ~= 0 then
        waiting.check(client, names)
    end
    config.connect(client)
    process.catch()
    local lock, now = client:getLock(name), client.now
    local ends, answered = now() + (given["--wait"] or math.huge), now()
    local channel = client.core and subscription.open(client, primitive.channel(client, name))
    local status, seen = nil, 0
    repeat
        local holder, err = detail.holder(lock)
        if holder == false then
            report.no_pattern(name)
            status = 0
        elseif holder then
            answered = now()
            status = now() >= ends and HELD
            if status then
                report.note(report.name(name), " is held", holder.label and " by " .. holder.label
                    or "")
            end
        elseif now() - answered >= PATIENCE or err.code ~= "no_quorum" then
            report.need(nil, err)
        end
        if not status then
            local left = math.min(holder and holder.remaining + 0.005 or PAUSE, ends - now())
            seen = subscription.sleep(client, channel, seen, math.min(PAUSE, math.max(left, 0.005)))
            local signo = stay.pause(0)
            status = signo and 128 + signo
        end
    until status
    client:close()
    return status
end

return _M
