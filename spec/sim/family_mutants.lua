--- Wrong variants of the family's scripts and of what calls them (see mutants.lua).
--
--   family  the kind of objects in the schedules (family.lua)

local SCRIPTS = "lua/redlock/scripts/"

return {
    -- ---- permits ----

    { name = "votes for different slots add up", family = "permit",
        file = "c/core/leases/acquire.c",
        from = "round->slot[i].extra == number &&", to = "",
        by = { "strays never counted" } },

    { name = "the agreed slot is not sent", file = "c/core/leases/lease.c", family = "permit",
        from = "    struct cmd *cmd = cmd_with_token(&core->cmds, lease->cmd, token);\n"
            .. "    lease->token = token;",
        to = "    struct cmd *cmd = cmd_with_token(&core->cmds, lease->cmd, 0);\n"
            .. "    lease->token = token;",
        by = { "agreed number in every later script" } },

    { name = "a stray is extended", file = SCRIPTS .. "slots/agreed.lua", family = "permit",
        from = "    free(mine)\n    mine = not call('zscore', KEYS[1], agreed) and agreed\n",
        to = "",
        by = { "agreed number in every later script" } },

    { name = "another slot is given back", file = SCRIPTS .. "slots/first.lua", family = "permit",
        guarded = true, faults = { "all memory lost", "all memory lost again", "FLUSHALL" },
        from = "slot = slot > 0 and slot or ARGV[5]", to = "slot = ARGV[5]",
        by = { "agreed number in every later script", "strays never counted" } },

    { name = "one slot more than permits", file = SCRIPTS .. "slots/acquire.lua",
        family = "permit", from = "(from + i) % n + 1", to = "(from + i) % n + 2",
        by = { "as many slots as permits" } },

    { name = "a slot is taken twice", file = SCRIPTS .. "slots/acquire.lua", family = "permit",
        from = "if not call('zscore', KEYS[1], slot) then", to = "do",
        by = { "who excludes whom" } },

    { name = "a permit is not counted", file = SCRIPTS .. "slots/count.lua", family = "permit",
        from = "(counter or least) + 1", to = "(counter or least)",
        by = { "tokens of a slot grow" } },

    { name = "who was counted is not looked at", file = SCRIPTS .. "slots/count.lua",
        family = "permit", from = " and sub(text, -RUN) == sub(ARGV[1], 1, RUN)", to = "",
        by = { "tokens of a slot grow" } },

    { name = "the largest number is the token", file = "lua/redlock/kinds/permit_token.lua",
        family = "permit", from = "if token then",
        to = "token = most > 0 and most or nil\n        if token then",
        by = { "tokens of a slot grow" } },

    -- ---- readers and writers ----

    { name = "a reader ignores a writer", file = SCRIPTS .. "rw/read_acquire.lua", family = "rw",
        from = "if kind == 'none' or kind == 'zset' then",
        to = "if kind == 'string' then call('del', KEYS[1]) kind = 'none' end\nif true then",
        by = { "who excludes whom", "only one's own" } },

    { name = "a writer ignores readers", file = SCRIPTS .. "lock/acquire.lua", family = "rw",
        from = "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then",
        to = "if redis.call('type', KEYS[1]).ok == 'zset' then redis.call('del', KEYS[1]) end\n"
            .. "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then",
        by = { "who excludes whom", "the readers' key" } },

    { name = "the key lasts as long as the first reader", file = SCRIPTS .. "rw/readers.lua",
        family = "rw",
        from = "call('pexpireat', KEYS[1], call('zrange', KEYS[1], -1, -1, 'withscores')[2])",
        to = "call('pexpireat', KEYS[1], call('zrange', KEYS[1], 0, 0, 'withscores')[2])",
        by = { "the readers' key", "who excludes whom" } },

    { name = "readers stay behind their time", file = SCRIPTS .. "rw/readers.lua", family = "rw",
        from = "    call('zremrangebyscore', KEYS[1], '-inf', now)\n", to = "",
        by = { "the readers' key" } },

    { name = "a grant opens the door", file = SCRIPTS .. "lock/acquire.lua", family = "rw",
        from = "    return 1\n",
        to = "    if KEYS[2] then redis.call('del', KEYS[2]) end\n    return 1\n",
        by = { "the door" } },

    { name = "no door", file = SCRIPTS .. "rw/shut.lua", family = "rw",
        from = "    redis.call('set', KEYS[2], '', 'PX', ARGV[3])\n", to = "",
        by = { "the door" } },

    { name = "a reader ignores the door", file = SCRIPTS .. "rw/read_acquire.lua", family = "rw",
        from = "if call('exists', KEYS[2]) == 1 then", to = "if false then",
        by = { "the door" } },

    { name = "a writer becomes a reader of a free key", family = "rw",
        file = SCRIPTS .. "rw/read_import.lua",
        from = "if value == ARGV[3] then", to = "if value == ARGV[3] or kind == 'none' then",
        by = { "only one's own" } },

    { name = "a release leaves the door closed", file = SCRIPTS .. "rw/leave.lua",
        family = "rw", from = "if ARGV[2] ~= '0' and", to = "if false and", by = { "the door" } },

    -- ---- writers with tokens ----

    { name = "a writer with a token leaves the door open", file = SCRIPTS .. "rw/close.lua",
        family = "tokens", from = "if keep ~= '0' and", to = "if false and", by = { "the door" } },

    { name = "a writer with a token leaves it closed", file = SCRIPTS .. "rw/leave.lua",
        family = "tokens", from = "if ARGV[2] ~= '0' and", to = "if false and",
        by = { "the door" } },

    { name = "readers are in the way of a token", file = SCRIPTS .. "fenced/acquire.lua",
        family = "tokens", from = "if call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then",
        to = "if call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) then",
        by = { "who excludes whom", "the readers' key", "only one's own" } },

    { name = "what readers have is given back", file = SCRIPTS .. "fenced/heal.lua",
        family = "tokens", from = " or call('pttl', KEYS[1]) ~= -2 then", to = " then",
        by = { "only one's own" } },

    { name = "a writer's confirmation is not exact", file = SCRIPTS .. "fenced/confirm.lua",
        family = "tokens", from = "if counter and counter > token then", to = "if false then",
        by = { "a token has its witnesses", "a yes is exact", "counters never go back" } },

    -- ---- several names ----

    { name = "some of the names are enough", file = SCRIPTS .. "multi/acquire.lua",
        family = "multi", from = "elseif there == mine then",
        to = "elseif there < n then",
        by = { "who excludes whom", "only one's own" } },

    { name = "some of the names are extended", file = SCRIPTS .. "multi/extend.lua",
        family = "multi", faults = { "a key deleted", "a key deleted" },
        from = "if mine == n then", to = "if mine > 0 then", by = { "all names or none" } },

    -- ---- a line ----

    { name = "another ticket each time", file = "lua/redlock/kinds/fair_lock.lua",
        family = "fair", from = "if wait.ticket then\n            last", to = "if false then\n"
            .. "            last", by = { "place kept by ticket" } },

    { name = "a ticket from answers to a question before the call",
        file = "lua/redlock/kinds/fair_lock.lua", family = "fair",
        from = "place.number <= asked_for", to = "true", by = { "place kept by ticket" } },

    { name = "a grant tells of nobody in line", file = "lua/redlock/kinds/fair_lock.lua",
        spec = "spec/api/fair_spec.lua by its word alone",
        from = "told + (ticket and 1 or 0)", to = "told + 1" },

    { name = "the first in line is not looked for", file = SCRIPTS .. "fair/acquire.lua",
        family = "fair", from = "if (not head or head == ARGV[3]) and", to = "if",
        by = { "the first in line" } },

    { name = "who is dead stays in line", file = SCRIPTS .. "fair/queue.lua", family = "fair",
        from = "call('zrangebyscore', KEYS[3], '-inf', now)",
        to = "call('zrangebyscore', KEYS[3], '-inf', 0)" , by = { "everybody is served" },
        faults = { "killed client", "killed client", "stopped client" } },

    { name = "who has it stays in line", file = SCRIPTS .. "fair/release.lua", family = "fair",
        from = "leave(ARGV[3])\n", to = "", by = { "who has it leaves the line" } },

    { name = "who had it stays in line where he was refused", file = SCRIPTS .. "fair/release.lua",
        family = "fair", from = "    leave(ARGV[3])\n",
        to = "    if mine then leave(ARGV[3]) end\n",
        by = { "who has it leaves the line" } },

    -- ---- latches ----

    { name = "an arrival counts each time", file = SCRIPTS .. "latch/arrive.lua",
        family = "latch", from = "    redis.call('zadd', KEYS[2], 0, who)\n",
        to = "    redis.call('zadd', KEYS[2], 0, string.sub(redis.sha1hex(who .. "
            .. "redis.call('zcard', KEYS[2])), 1, 16))\n",
        by = { "a latch never opens early" } },

    { name = "arrivals are asked for without the guard", file = "lua/redlock/kinds/latch.lua",
        family = "latch", guarded = true, from = "arrive = { arrive, guarded = true }",
        to = "arrive = { arrive }", faults = { "all memory lost", "all memory lost again" },
        by = { "no arrival vote in quarantine" } },

    { name = "a late arrival counts in the next latch", file = SCRIPTS .. "latch/arrive.lua",
        prefix = "a late arrival", from = "if not id or (ARGV[1] ~= '' or #ARGV > 5) and "
            .. "ARGV[1] ~= id then", to = "if not id then",
        by = { "a latch never opens early" } },

    -- ---- whoever has it ----

    { name = "a late force removes whoever has it", file = SCRIPTS .. "lock/named.lua",
        prefix = "a late force", from = "return string.find(named, id, 1, true) ~= nil",
        to = "return true", by = { "only who was told is removed" } },

    { name = "permits are forced from whoever has them", file = SCRIPTS .. "lock/named.lua",
        family = "forced", from = "return string.find(named, id, 1, true) ~= nil",
        to = "return true", by = { "who excludes whom" } },

    -- ---- jobs, rates ----

    { name = "settled without a look at the value", file = SCRIPTS .. "lock/settle.lua",
        family = "once", from = "if ended and (value == ARGV[1] or value == closed) then",
        to = "if ended and value then",
        by = { "only one's own" } },

    { name = "a period is not closed", file = SCRIPTS .. "lock/settle.lua", family = "once",
        from = "    redis.call('set', KEYS[1], closed", to = "    select('#', closed",
        by = { "once in a period" } },

    { name = "a clock that was set back keeps places", file = SCRIPTS .. "fair/queue.lua",
        family = "fair", from = "'(' .. now + 2 * ttl, '+inf'", to = "'(' .. now + 2 * ttl, '-inf'",
        faults = { "server clock steps", "server clock steps", "server clock steps" },
        by = { "no place for longer than that" } },

    { name = "a job begins behind its period", file = "lua/redlock/kinds/once.lua", family = "once",
        from = "elseif client.now() >= ends then", to = "elseif false then",
        faults = { "stopped client", "stopped client", "suspend" },
        by = { "once in a period" }, budget = 20000 },

    { name = "a job begins behind its lease", file = "lua/redlock/kinds/once.lua",
        from = "if not view:isValid() then ", to = "if false then ",
        spec = "spec/api/once_spec.lua lease was over" },

    { name = "a start is let go", file = "lua/redlock/kinds/rate_limiter.lua", family = "limiter",
        from = "closing.settle_unconfirmed(permit, permit.owner, hold, self.period)",
        to = "self.client.holds:remove(permit.owner, permit.id) "
            .. "rounds.give(hold.lease, \"orphan\")",
        by = { "starts in a period" } },
}
