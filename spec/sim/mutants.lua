--- Wrong variants of the library, which the simulator must catch. Each is an entry:
--
--   file    of the library
--   from    a text that is in it exactly once (white space at line ends aside)
--   to      what stands there instead; or a list of { from, to } instead of the two
--   by      the invariants that may catch it; absent: any
--   faults  names of the faults of the schedules; absent: as the seeds will have it
--   guarded, fenced, lease  of the schedules (run.lua); absent: as the seeds will have it
--   prefix  how the schedules begin (prefixes.lua); absent: as the seeds will have it
--   budget  schedules within which it must be caught; default 3000
--   unit    a part of the names of unit tests, which must notice it instead: it is about c/core or
--           c/node, and takes more luck than schedules have
--   spec    a spec file and a part of the names of its tests, which must notice it instead: it is
--           about a script, and takes more luck than schedules have

-- A quarantine that counts too much is found by either, whichever looks first.
local OLDER = { "a quarantine is no older than it says", "a marker's step is one of the model's" }

return {
    -- ---- counting ----

    { name = "quorum of a half", file = "c/core/base/quorum.c",
        from = "return n / 2 + 1;", to = "return n > 1 ? n / 2 : 1;",
        by = { "a majority confirmed" } },

    { name = "a tie wins", file = "c/core/base/quorum.c",
        from = "return n / 2 + 1;", to = "return (n + 1) / 2;", prefix = "C11",
        by = { "a majority confirmed" } },

    { name = "lost one vote too early", file = "c/core/base/quorum.c",
        from = "return t->yes + t->pending < want ? LOST", to =
            "return t->yes + t->pending <= want ? LOST",
        faults = { "gone for good", "gone for good" } },

    { name = "errors count as yes", file = "c/core/rounds/answer.c",
        from = "    if (code) {\n        round_miss(round, i, code, now_ms);\n"
            .. "        return;\n    }\n    if (keep_data",
        to = "    if (code)\n        vote.vote = RL_VOTE_YES;\n    if (keep_data",
        by = { "a majority confirmed", "a majority let go" } },

    { name = "a re-sent attempt counts as refused", file = "c/core/leases/acquire.c",
        from = "        vote->vote = RL_VOTE_YES;\n", to = "        vote->vote = RL_VOTE_ABSENT;\n",
        prefix = "an attempt sent again" },

    { name = "kept after a majority disowned it", file = "c/core/base/quorum.c",
        from = "return t->absent + t->foreign >= quorum_size(t->n);", to = "return 0;",
        by = { "no is no" } },

    { name = "released before the holder knows of the loss", file = "c/core/leases/watchdog.c",
        from = "&& !lease->promised_ms)\n        expire_when_promised(lease);",
        to = ")\n        release_end(lease, now_ms);",
        by = { "valid as long as it was said" } },

    { name = "a missing key counts as extended", file = "c/core/rounds/answer.c",
        from = "vote.vote >= RL_VOTE_YES ",
        to = "vote.vote >= RL_VOTE_YES || (vote.vote == 0 && kind->expired == RL_LOST) ",
        by = { "a majority confirmed", "keys outlive the hold" } },

    { name = "a loser opens the name", file = "c/core/leases/holder.c",
        from = "    if (watchdog_delays(lease, now_ms))\n", to = "    if (0)\n",
        prefix = "a loser lets go", by = { "closed behind a loser" } },

    -- ---- time ----

    { name = "no drift subtracted", file = "c/core/base/quorum.c",
        from = "return started_ms + lease_ms - quorum_drift_ms(lease_ms, drift_ppm);",
        to = "return (void)drift_ppm, started_ms + lease_ms;" },

    { name = "wall clock", file = "c/io/monotonic.c",
        from = "clock_ms(CLOCK_BOOTTIME)", to = "clock_ms(CLOCK_REALTIME)" },

    { name = "a clock that stops in suspend", file = "c/io/monotonic.c",
        from = "clock_ms(CLOCK_BOOTTIME)", to = "clock_ms(CLOCK_MONOTONIC)" },

    { name = "validity counted from the end", file = "c/core/leases/acquire.c",
        from = "quorum_deadline_ms(round->started_ms, round->lease_ms,\n"
            .. "                                             lease->core->drift_ppm);",
        to = "quorum_deadline_ms(now_ms, round->lease_ms, lease->core->drift_ppm);" },

    { name = "extension counted from the end", file = "c/core/leases/watchdog.c",
        from = "quorum_deadline_ms(round->started_ms, round->lease_ms,\n"
            .. "                                             lease->core->drift_ppm);",
        to = "quorum_deadline_ms(now_ms, round->lease_ms, lease->core->drift_ppm);" },

    { name = "granted too late is granted", file = "c/core/leases/acquire.c",
        from = "    if (now_ms >= deadline_ms ||\n        deadline_ms - now_ms < "
            .. "lease->core->options.min_validity_ms)\n        return RL_EXPIRED;\n", to = "",
        by = { "validity" }, faults = { "stopped client", "stopped client", "suspend" } },

    { name = "the deadline is seen late", file = "c/core/leases/lease.c",
        from = "int64_t left_ms = lease->deadline_ms - now_ms;",
        to = "int64_t left_ms = lease->deadline_ms - now_ms + 20;" },

    { name = "max_hold is ignored", file = "c/core/leases/watchdog.c",
        from = "    if (now_ms >= lease->hold_until_ms)\n        lease->keep_ms = 0;\n", to = "",
        prefix = "held beyond max_hold", by = { "max_hold" } },

    -- ---- scripts ----

    { name = "release without a look at the value", file = "lua/redlock/scripts/lock/release.lua",
        from = "if value == ARGV[1] then", to = "if value then",
        by = { "only what is ours" } },

    { name = "extend without a look at the value", file = "lua/redlock/scripts/lock/extend.lua",
        from = "if value == ARGV[1] then", to = "if value then",
        by = { "only what is ours", "a majority confirmed", "one holder" } },

    { name = "extend shortens", file = "lua/redlock/scripts/lock/extend.lua",
        from = "if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then", to = "do",
        by = { "only what is ours" } },

    { name = "a permit's settle shortens what goes on",
        file = "lua/redlock/scripts/slots/settle.lua",
        spec = "spec/api/ends_spec.lua still that of a valid permit", from = "ARGV[#ARGV] == ''",
        to = "false" },

    { name = "extend makes the key again", file = "lua/redlock/scripts/lock/extend.lua",
        from = "local value = redis.pcall('get', KEYS[1])",
        to = "redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX')\n"
            .. "local value = redis.pcall('get', KEYS[1])",
        by = { "only what is ours" } },

    { name = "acquire overwrites", file = "lua/redlock/scripts/lock/acquire.lua",
        from = "ARGV[1], 'NX', 'PX', ARGV[2]", to = "ARGV[1], 'PX', ARGV[2]",
        by = { "only what is ours" } },

    { name = "a key without an end", file = "lua/redlock/scripts/lock/acquire.lua",
        from = "ARGV[1], 'NX', 'PX', ARGV[2]", to = "ARGV[1], 'NX'",
        by = { "keys end" } },

    -- ---- keeping ----

    { name = "heal without a majority", file = "c/core/leases/watchdog.c",
        from = "for (int i = 0; round->outcome == RL_GRANTED && i < round->core->n; i++) {",
        to = "for (int i = 0; i < round->core->n; i++) {",
        by = { "heals after a majority" }, prefix = "an extension alone" },

    { name = "a loss is not told", file = "lua/redlock/lock/holds.lua",
        from = "local those = hold.on_lost or {}", to = "local those = {}",
        by = { "lost is told" } },

    { name = "a loss is told twice", file = "lua/redlock/lock/holds.lua",
        from = "        report(self, hold, those[i])\n",
        to = "        report(self, hold, those[i])\n        report(self, hold, those[i])\n",
        by = { "lost is told" } },

    { name = "what is forgotten is taken", file = "c/core/leases/watchdog.c",
        from = "round->tally.foreign ? RL_LOSS_TAKEN : RL_LOSS_FORGOTTEN",
        to = "round->tally.foreign >= 0 ? RL_LOSS_TAKEN : RL_LOSS_FORGOTTEN",
        by = { "taken is by somebody" } },

    { name = "a counter that was lost is somebody's",
        file = "lua/redlock/scripts/fenced/extend.lua",
        from = "return stored and -1 or 0", to = "return -1", fenced = 100,
        by = { "a lost counter is nobody's" } },

    { name = "the watchdog's losses are not counted", file = "c/core/leases/watchdog.c",
        from = "    core->losses++;\n", to = "",
        by = { "lost is told" } },

    { name = "the wrong lease is noted as lost", file = "c/core/leases/watchdog.c",
        from = "core->lost[core->losses % NOTED_MAX] = lease;",
        to = "core->lost[core->losses % NOTED_MAX] = lease - 1;",
        by = { "lost is told" } },

    { name = "renewed without a pause", file = "c/core/leases/watchdog.c",
        from = "lease->renew_ms = now_ms + (wait_ms > RETRY_MIN_MS ? wait_ms : RETRY_MIN_MS);",
        to = "(void)wait_ms, lease->renew_ms = now_ms;", by = { "requests are bounded" },
        faults = { "errors", "errors", "errors" } },

    { name = "holders come back as late as others", file = "c/core/core.c",
        unit = "watchdog.holders_come_back",
        from = "nd->backoff_ms = urgent ?", to = "nd->backoff_ms = 0 && urgent ?" },

    { name = "holders hurry beside a majority", file = "c/core/core.c",
        unit = "watchdog.holders_beside_a_majority",
        from = "core->held && !state_majority(core, others) &&", to = "core->held && others &&" },

    { name = "renewed at once after success", file = "c/core/leases/watchdog.c",
        from = "lease->renew_ms = from_ms + lease->keep_ms / RENEW_AFTER;",
        to = "lease->renew_ms = from_ms + 1;",
        by = { "requests are bounded", "time goes on" } },

    { name = "who waits for a turn is kept no more", file = "c/core/leases/pace.c",
        { "    return lease->deadline_ms - lease->keep_ms / URGENT;",
            "    return lease->deadline_ms;" },
        { "    if (core->unattended >= UNDER_WAY_MAX)\n", "    if (pace)\n" },
        prefix = "kept for long", by = { "kept in good health" } },

    { name = "a child of a fork inherits", file = "c/core/close.c",
        from = "    core->epoch++;\n", to = "", faults = { "fork", "fork" }, budget = 6000 },

    -- ---- letting go ----

    { name = "only what was granted is released", file = "c/core/rounds/round.c",
        { '#include "core/eligibility/guard.h"\n',
            '#include "core/eligibility/guard.h"\n#include "core/leases/lease.h"\n' },
        { "    if (nd->state == NODE_READY) {\n        int spared",
            "    if (round->kind->to_all && !insists) {\n"
            .. "        round_miss(round, i, RL_TIMEOUT, now_ms);\n        return;\n    }\n"
            .. "    if (nd->state == NODE_READY) {\n        int spared" },
        { "    if (code == RL_TIMEOUT)\n",
            "    if (round->kind->unknown == lease_unknown)\n"
            .. "        round->lease->touched &= ~bit(i);\n    if (code == RL_TIMEOUT)\n" },
        guarded = false, fenced = 0, budget = 20000 },

    { name = "no debt to servers that are away", file = "c/core/leases/release.c",
        from = "lease_owes(lease, lease->touched);\n    release->cap_ms",
        to = "lease_owes(lease, 0);\n    release->cap_ms",
        lease = 20, guarded = false, faults = { "cut", "crash", "crash", "gone for good" },
        by = { "nothing is left" }, budget = 20000 },

    -- What is left shows when it outlives the calm.
    { name = "a torn write is forgotten", file = "c/core/leases/acquire.c",
        from = "    lease_broken(round, i, written, now_ms);\n    if (!written && !(",
        to = "    (void)written, (void)now_ms;\n    if (!(", lease = 20, guarded = false,
        faults = { "cut", "cut", "cut", "lost replies", "crash" },
        by = { "nothing is left" }, budget = 20000 },

    { name = "a torn write is released once", file = "c/core/leases/release.c",
        from = "if (!code && lease->broken & bit(i)) {", to = "if (0) {",
        prefix = "a straggler",
        by = { "nothing is left" } },

    { name = "a cancelled attempt is not released", file = "c/core/leases/holder.c",
        from = "if (lease->state == LEASE_ACQUIRING && !lease_void(lease))\n        "
            .. "release_end(lease, now_ms);\n    else if",
        to = "if", unit = "core.dropping_an_attempt" },

    { name = "a release is sure without a majority", file = "c/core/base/quorum.c",
        from = "if (!quorum_answered(t) || t->foreign + t->pending >= q)\n"
            .. "        return UNDECIDED;",
        to = "if (t->yes + t->absent + t->foreign == 0)\n        return UNDECIDED;",
        by = { "a majority let go" } },

    { name = "a re-sent release believes others", file = "c/core/leases/release.c",
        from = "vote->vote <= RL_VOTE_ABSENT && ", to = "vote->vote == RL_VOTE_ABSENT && ",
        by = { "lost only by time" }, prefix = "a release sent again" },

    { name = "an unknown script is not sent again", file = "c/core/rounds/answer.c",
        from = "    if (wanted)\n", to = "    if (0)\n",
        faults = { "scripts forgotten", "scripts forgotten", "crash" } },

    { name = "the last leave does not release", file = "lua/redlock/lock/lock.lua",
        from = "if hold.count > 1 then", to = "if hold.count >= 1 then" },

    { name = "an inner leave does not say that it is over", file = "lua/redlock/lock/lock.lua",
        from = "if client.holds:remaining(hold) <= 0 then\n            return _M.failure(self, "
            .. "\"expired\")", to = "if false then\n            return nil",
        by = { "validity" }, budget = 20000 },

    { name = "entering again is not counted", file = "lua/redlock/lock/reentry.lua",
        from = "hold.count = hold.count + 1\n", to = "hold.count = hold.count + 0\n" },

    -- ---- values, replies ----

    { name = "one value for all attempts", file = "c/engine/api.c",
        from = "    for (size_t i = 0; i < len / 2; i++) {\n",
        to = "    for (size_t i = 0; i < len / 2; i++) {\n        raw[i] = 7;\n",
        by = { "fresh values" } },

    { name = "the last request gets the first reply", file = "c/node/node.c",
        { "    struct request r = nd->queue[nd->queue_head];\n",
            "    struct request r = nd->queue[(nd->queue_head + nd->queue_len - 1) &\n"
            .. "                                 (nd->queue_cap - 1)];\n" },
        { "    nd->queue_head = (nd->queue_head + 1) & (nd->queue_cap - 1);\n", "" } },

    { name = "half a reply survives its connection", file = "c/node/node.c",
        from = "    if (wire_reset(&nd->wire) < 0)\n        return -1;\n", to = "",
        faults = { "fragments", "cut", "cut", "lost replies", "silence" } },

    -- ---- fencing tokens: design rules 1 to 7, and counterexamples ----

    { name = "no confirmation", file = "c/core/leases/fence.c",
        from = "        if (witnessed)\n            return WON;\n    }",
        to = "        return WON;\n    }",
        prefix = "C1", by = { "a token has its witnesses", "tokens grow" } },

    { name = "the second largest of all counters", file = "c/core/leases/fence.c", prefix = "C5",
        from = "    if (!round->fence.token) {\n"
            .. "        enum verdict v = quorum_vote(&round->tally);",
        to = "    const struct tally *t = &round->tally;\n"
            .. "    if (!round->fence.token && t->yes == t->n) {\n        int64_t token = 0;\n"
            .. "        for (int i = 0; i < t->n; i++) {\n            int as_large = 0;\n"
            .. "            for (int k = 0; k < t->n; k++)\n"
            .. "                as_large += round->slot[k].extra >= round->slot[i].extra;\n"
            .. "            if (as_large >= quorum_size(t->n) && round->slot[i].extra > token)\n"
            .. "                token = round->slot[i].extra;\n        }\n"
            .. "        round->fence.token = token;\n        return WON;\n    }\n"
            .. "    if (!round->fence.token && t->pending && t->yes + t->pending == t->n)\n"
            .. "        return UNDECIDED;\n"
            .. "    if (!round->fence.token) {\n"
            .. "        enum verdict v = quorum_vote(&round->tally);",
        by = { "a token has its witnesses", "tokens grow" } },

    { name = "late grants count unconfirmed", file = "c/core/leases/fence.c",
        { "    for (int i = 0; i < round->core->n; i++) {\n"
            .. "        if (round_is_yes(&round->slot[i]) && ",
            "    int late = round->fence.confirm\n"
            .. "               && round->fence.confirm->fence.token == round->fence.token;\n"
            .. "    for (int i = 0; !late && i < round->core->n; i++) {\n"
            .. "        if (round_is_yes(&round->slot[i]) && " },
        prefix = "C3 below", by = { "a token has its witnesses", "tokens grow" } },

    { name = "late grants may be above the token", file = "c/core/leases/fence.c",
        from = "    if (most > round->fence.token)\n        round->fence.token = most;\n", to = "",
        prefix = "C3", by = { "a token has its witnesses", "tokens grow" } },

    { name = "confirmed if above the token, too", file = "lua/redlock/scripts/fenced/confirm.lua",
        { "if counter and counter > token then\n    return {0, counter}\nend\n", "" },
        { "counter and count_to(token) and 1",
            "counter and (counter >= token or count_to(token)) and 1" },
        prefix = "C4", by = { "a yes is exact", "tokens grow" } },

    { name = "confirmed by whoever has counted", file = "lua/redlock/scripts/fenced/confirm.lua",
        from = "if value ~= ARGV[1] then\n    return -1\nend\n", to = "",
        prefix = "C2", by = { "a yes is exact", "tokens grow" } },

    { name = "extended past a newer token", file = "lua/redlock/scripts/fenced/extend.lua",
        { "if counter and counter > token and not borrowed then", "if false then" },
        { "not count_to(token)", "not (counter > token or count_to(token))" },
        prefix = "C9", by = { "a yes is exact", "extended before a newer token" } },

    { name = "healed past a newer token", file = "lua/redlock/scripts/fenced/heal.lua",
        { " or counter > token and stored or", " or" },
        { "elseif counter > token then", "elseif counter > token and stored then\n"
            .. "    stored = nil\nelseif counter > token then" },
        prefix = "C10", by = { "a yes is exact", "extended before a newer token" } },

    { name = "lent by a server that has counted past the token",
        file = "lua/redlock/scripts/fenced/heal.lua", from = "counter > token and stored",
        to = "false", by = { "counters never go back", "extended before a newer token" } },

    { name = "a release leaves the counter behind", file = "lua/redlock/scripts/fenced/release.lua",
        fenced = 100, from = "if found[2] ~= run .. ARGV[3] .. mine then", to = "if false then",
        by = { "a release leaves the token behind" } },

    { name = "any lock makes a sequencer current", file = "lua/redlock/scripts/fenced/current.lua",
        { "string.gsub(string.sub(found[2] or '', 9), '^=', '')",
            "string.match(found[2] or '', '^%d+', 9)" },
        { "ARGV[1] .. ' ' .. string.sub(value, 1, 8)", "ARGV[1]" },
        fenced = 50, by = { "a sequencer ends with its hold" } },

    { name = "counted after it was told", file = "lua/redlock/scripts/fenced/acquire.lua",
        fenced = 100, from = "counter = counter + 1\n    if not write(counter, floor) then",
        to = "if not write(counter + 1, floor) then",
        by = { "a yes is exact", "a token has its witnesses", "tokens grow" } },

    { name = "floors are not raised",
        file = "lua/redlock/scripts/fenced/counter.lua", prefix = "C8",
        from = "        call('hset', KEYS[3], ARGV[4], run .. floor, 'most', run .. max(floor, "
            .. "most))\n",
        to = "",
        by = { "what is counted has a floor above it", "counted above what was witnessed" } },

    { name = "a counter goes on without a floor", file = "lua/redlock/scripts/fenced/acquire.lua",
        fenced = 100, from = "local floor = floor_of_bucket()",
        to = "local floor = floor_of_bucket() or\n"
            .. "    counted_in(found[2]) and 1e14",
        by = { "what is counted has a floor above it" }, budget = 20000 },

    { name = "a number out of range is one", file = "lua/redlock/scripts/fenced/counter.lua",
        fenced = 100, faults = { "a floor out of range", "a floor out of range" },
        { "n >= 0 and n < limit and n or nil", "n >= 0 and n or nil" },
        { "if n >= limit then", "if false then" },
        by = { "tokens fit", "nobody learns a floor out of range",
            "a lost counter is nobody's" } },

    { name = "a floor out of range is taught", file = "lua/redlock/scripts/fenced/tell.lua",
        guarded = true, fenced = 100, faults = { "a floor out of range", "a floor out of range",
            "crash", "floors lost" },
        from = "return {n + 1 < limit and 1 or 2, n}", to = "return {1, n}",
        by = { "nobody learns a floor out of range", "a base is what others gave out",
            "tokens fit" } },

    { name = "an import raises counters", file = "lua/redlock/scripts/fenced/import.lua",
        fenced = 100,
        from = "not value or not n then", to = "not value then",
        by = { "a forged token is refused", "a yes is exact" } },

    { name = "any number is a counter", file = "c/core/leases/acquire.c", fenced = 100,
        from = "    if ((rule == RL_RULE_LARGEST && !fence_is_token(vote->extra)) ||\n"
            .. "        (rule == RL_RULE_SAME && vote->extra <= 0))\n"
            .. "        return RL_PROTOCOL;\n", to = "    (void)rule;\n",
        faults = { "says what cannot be", "says what cannot be" },
        by = { "tokens fit", "a majority confirmed" } },

    { name = "counts of a run before are counts", file = "lua/redlock/scripts/fenced/counter.lua",
        fenced = 100, guarded = true,
        from = "local n = text and sub(text, 1, RUN) == run and", to = "local n = text and" },

    { name = "floors by too few", file = "c/core/rounds/teach.c", prefix = "C6",
        from = "*guessed = told < n - quorum_size(n) + 1;", to = "*guessed = told < 1;",
        by = { "counted above what was witnessed", "tokens grow" } },

    -- ---- the restart guard ----

    { name = "the guard is off", file = "lua/redlock/servers/restart_guard.lua", guarded = true,
        from = "return options.restart_guard\n", to = "return false\n",
        by = { "who forgot does not vote", "one holder", "a base is taught after the quarantine",
            "no vote without an admitted marker" } },

    { name = "the quarantine is too short", file = "c/core/base/state.c", guarded = true,
        from = "return core->max_lease_ms + (core->max_lease_ms + 99) / 100 + STATE_SLACK_MS;",
        to = "return core->max_lease_ms / 2;",
        by = { "who forgot does not vote", "one holder", "a marker's step is one of the model's",
            "a base is taught after the quarantine" } },

    { name = "one stepped clock ends what all have", file = "c/core/eligibility/suspect.c",
        faults = { "server clock steps" }, by = { "lost only by time" },
        from = "quorum_nth_ms(back, core->n, quorum_size(core->n))",
        to = "quorum_nth_ms(back, core->n, 1)" },

    { name = "a step is told only to us", file = "c/core/eligibility/guard.c",
        prefix = "late client after a step", by = { "a step is told" },
        from = "if (g->step == STEP_COUNTS && known", to =
            "if (0 && g->step == STEP_COUNTS && known" },

    { name = "another's longer quarantine is as short as ours", file =
        "c/core/eligibility/guard.c", guarded = true, faults = { "another max_lease", "FLUSHALL",
            "FLUSHALL" }, by = OLDER,
        { "m->max_lease_ms > ours_ms ||\n               (m->max_lease_ms < ours_ms",
            "(m->max_lease_ms < ours_ms" },
        { "!alive || m->max_lease_ms != ours_ms", "!alive || m->max_lease_ms < ours_ms" } },

    { name = "a vote beside another max_lease", file = "c/core/eligibility/guard.c",
        guarded = true, faults = { "another max_lease" },
        by = { "no vote without an admitted marker" },
        { "m->max_lease_ms > ours_ms ||\n               (m->max_lease_ms < ours_ms && alive && "
            .. "!pending)", "0" }, { "!alive || m->max_lease_ms != ours_ms", "!alive" } },

    { name = "a vote for who has no guard", file = "c/core/eligibility/eligibility.c",
        guarded = true, faults = { "one without the guard" },
        by = { "no vote without an admitted marker" },
        from = "if (core->marker || !g->marker[0])", to = "if (1)" },

    { name = "the marker is not checked", file = "lua/redlock/scripts/marker/check.lua",
        guarded = true, fenced = 0,
        from = "if want ~= '' and marker ~= want then", to = "if false then",
        by = { "who forgot does not vote", "one holder" } },

    { name = "the marker is not checked with tokens",
        file = "lua/redlock/scripts/fenced/voting.lua",
        guarded = true, fenced = 100,
        from = "if guarded and found[3] ~= ARGV[7] then", to = "if false then" },

    { name = "a server in another life is admitted", file = "c/core/eligibility/guard.c",
        guarded = true,
        fenced = 0, from = "return !replid[0] || !strcmp(replid, core->guards[i].fields.replid);",
        to = "return 1;",
        by = { "who forgot does not vote", "one holder", "everybody is served" } },

    { name = "a quarantine admits", file = "c/core/eligibility/guard.c", guarded = true,
        from = "pending = m->state != MARKER_ADMITTED;", to = "pending = 0;" },

    { name = "a quarantine keeps holds", file = "c/core/eligibility/guard.c", guarded = true,
        from = "return state == RL_GUARD_ADMITTED || (all && state != RL_GUARD_DISAGREES);",
        to = "return 1;", prefix = "half a majority from before a loss",
        by = { "one holder", "a majority confirmed" } },

    -- ---- changes of servers ----

    { name = "a change closes nothing", file = "lua/redlock/client/change.lua",
        from = "local ok, base = close(change)", to = "local ok, base = true, nil",
        spec = "spec/policy/changes_spec.lua no name to two" },

    { name = "a change closes a majority alone", file = "lua/redlock/client/change.lua",
        from = "elseif #places == 0 and has_ended then", to = "elseif has_ended then",
        spec = "spec/policy/changes_spec.lua no name to two" },

    { name = "a change forgets the largest token", file = "lua/redlock/client/change.lua",
        from = "and format(\"%.0f\", most) or nil", to = "and \"1\" or nil",
        spec = "spec/policy/changes_spec.lua no name to two" },

    { name = "a change passes on what too few know", file = "lua/redlock/client/change.lua",
        from = "return known > old.size - quorum(old.size) and", to = "return most > 0 and",
        spec = "spec/servers/change_spec.lua goes on from the clocks" },

    { name = "a change begins no quarantine", file = "lua/redlock/client/change.lua",
        from = "rows[place].marker, \"l\",", to = "rows[place].marker, \"a\",",
        spec = "spec/policy/changes_spec.lua no name to two" },

    { name = "a change passes over servers that answer", file = "lua/redlock/client/change.lua",
        from = "elseif not row.marker and change.gone[row.node] then",
        to = "elseif change.gone[row.node] then",
        spec = "spec/policy/changes_spec.lua no name to two" },

    { name = "a change stops at a server that forgot", file = "lua/redlock/client/change.lua",
        from = "elseif row.marker.text == \"\" or word", to = "elseif word",
        spec = "spec/policy/changes_spec.lua give no name to two" },

    { name = "a batch shows no marker", file = "c/node/batch.c",
        from = "    reply->num[b->shown] = 1;\n",
        to = "    reply->num[b->shown] = reply->num[0] = 1;\n",
        spec = "spec/policy/quarantine_spec.lua in a batch" },

    { name = "questions show no marker", file = "c/core/rounds/query.c",
        from = "    .shown = 1,\n", to = "",
        spec = "spec/policy/quarantine_spec.lua closes no name" },

    { name = "the marker is not shown", file = "lua/redlock/scripts/marker/show.lua",
        guarded = true, from = "if shown == want then", to = "if true then",
        by = { "one holder", "a majority confirmed" } },

    { name = "the life is not looked at by the acquire", file = "c/core/eligibility/guard.c",
        guarded = true,
        faults = { "fails over and back", "fails over and back", "fails over and back" },
        from = "return nd->config->behind_proxy || nd->info.replicas || nd->info.failed_over;",
        to = "return 0 * nd->info.replicas;", by = { "who forgot does not vote", "one holder" } },

    { name = "the acquire says that it is the same life",
        file = "lua/redlock/scripts/marker/check.lua", guarded = true, fenced = 0,
        faults = { "fails over and back", "fails over and back", "fails over and back" },
        from = "if look and not string.find(", to = "if false and not string.find(",
        by = { "who forgot does not vote", "one holder" } },

    { name = "the fenced acquire says that it is the same life",
        file = "lua/redlock/scripts/fenced/voting.lua", guarded = true, fenced = 100,
        faults = { "fails over and back", "fails over and back", "fails over and back" },
        from = "    elseif not string.find(", to = "    elseif false and not string.find(" },

    -- Clients of one schedule agree on everything, so the unit tests have to notice these.
    { name = "a server is admitted without a majority", file = "c/core/eligibility/guard.c",
        unit = "guard.admission_needs_a_majority",
        from = "    return state_majority(core, known) &&", to = "    return known != 0 &&" },

    { name = "a server is admitted beside one that disagrees", file = "c/core/eligibility/guard.c",
        unit = "guard.who_disagrees",
        from = "!NODES_WHERE(core, i, g[i].state == RL_GUARD_DISAGREES)", to = "1" },

    { name = "our clock alone ends a quarantine", file = "c/core/eligibility/guard.c",
        unit = "quarantine.our_clock_alone",
        from = "core->guards[i].fields.observed_ms >= state_guard_ms(core) &&",
        to = "core->guards[i].seen_ms - core->guards[i].text_ms >= state_guard_ms(core) &&" },

    { name = "what was seen is not said", file = "c/core/eligibility/marking.c",
        unit = "quarantine.the_servers_clock_alone",
        from = "now_ms - g->text_ms);\n    marking_replace",
        to = "INT64_C(99999999));\n    marking_replace" },

    { name = "a last count for everybody", file = "c/core/eligibility/guard.c",
        unit = "quarantine.the_last_count",
        from = "(ends && own_ms >= TICK_MS)", to = "ends" },

    { name = "a last count that is early", file = "c/core/eligibility/guard.c",
        unit = "quarantine.nor_is_it_without",
        from = ">= state_guard_ms(core) + CUT_MS;", to = ">= state_guard_ms(core) - TICK_MS;" },

    { name = "nobody knows", file = "c/core/eligibility/guard.c",
        unit = "quarantine.a_majority_tells",
        from = "core->knows |= state_majority(core, seen(core, 0, 0));", to = "(void)seen;" },

    { name = "one server makes them known", file = "c/core/eligibility/guard.c",
        unit = "quarantine.a_majority_tells",
        from = "core->knows |= state_majority(core, seen(core, 0, 0));",
        to = "core->knows |= seen(core, 0, 0) != 0;" },

    { name = "who was there makes them known", file = "c/core/eligibility/guard.c",
        unit = "quarantine.never_a_majority",
        from = "core->nodes[i].state == NODE_READY && g[i].seen_ms", to = "g[i].seen_ms" },

    { name = "who forgot is new", file = "c/core/eligibility/guard.c",
        unit = "quarantine.a_majority_tells",
        from = "return was_new && !core->knows ? MARKER_NEW : MARKER_LOST;",
        to = "return was_new ? MARKER_NEW : MARKER_LOST;" },

    { name = "another life is new", file = "c/core/eligibility/guard.c",
        unit = "quarantine.what_is_not_ours",
        from = "(g->kind == MARKER_READ && of_this_life(core, i) &&",
        to = "(g->kind == MARKER_READ &&" },

    { name = "n stays", file = "c/core/eligibility/guard.c",
        unit = "quarantine.who_knows_turns",
        from = "marking_progress(core, i, MARKER_LOST, now_ms);",
        to = "marking_progress(core, i, MARKER_NEW, now_ms);" },

    { name = "n is turned beside those that vote", file = "c/core/eligibility/guard.c",
        unit = "quarantine.but_not_beside",
        from = "core->knows &&\n               !state_majority(core, seen(core, 1, now_ms - "
            .. "LIVE_MS))) {",
        to = "core->knows) {" },

    { name = "n stays beside those that voted once", file = "c/core/eligibility/guard.c",
        unit = "quarantine.but_not_beside",
        from = "seen(core, 1, now_ms - LIVE_MS)", to = "seen(core, 1, 0)" },

    { name = "init admits who forgot", file = "c/core/eligibility/guard.c",
        unit = "quarantine.never_one_that",
        from = "g->begun && g->fields.state == MARKER_NEW &&\n                  g->fields",
        to = "g->begun && g->fields" },

    { name = "init does not wait", file = "c/core/eligibility/guard.c",
        unit = "quarantine.only_new",
        from = "g->fields.observed_ms >= least_ms && g->inc_ms", to = "least_ms && g->inc_ms" },

    { name = "init admits what it has not seen", file = "c/core/eligibility/guard.c",
        unit = "quarantine.the_same_memory",
        from = " && g->inc_ms <= seen_ms;", to = ";\n        (void)seen_ms;" },

    { name = "a vote names nobody", file = "c/core/leases/acquire.c",
        prefix = "init after a loss",
        by = { "who forgot does not vote", "a marker's step is one of the model's" },
        from = "} else if (!objection) {", to = "} else if (0) {" },

    { name = "a vote that does not count names us", file = "c/core/leases/acquire.c",
        unit = "quarantine.a_vote_that_does_not",
        from = "} else if (!objection) {", to = "} else {" },

    { name = "a step is anybody's", file = "c/core/eligibility/suspect.c",
        unit = "steps.a_majority_of_clocks",
        from = "state_majority(core, steady(core, i))", to = "steady(core, i)" },

    { name = "clocks of before tell", file = "c/core/eligibility/suspect.c",
        unit = "steps.only_clocks_of_since",
        from = "other[k].compared_ms >= g->asked_ms);", to = "1);" },

    { name = "clocks that were not known before tell", file = "c/core/eligibility/suspect.c",
        unit = "steps.nor_one",
        from = "other[k].since_ms <= g->before_ms &&", to = "" },

    { name = "a clock is known for ever", file = "c/core/eligibility/suspect.c",
        unit = "steps.nor_one",
        from = "if (!soon)", to = "if (!g->sampled_ms)" },

    { name = "a step was at a time of ours", file = "c/core/eligibility/suspect.c",
        unit = "steps.a_quarantine_begins",
        from = "g->stepped_at_ms = server_ms;", to = "g->stepped_at_ms = request->sent_ms;" },

    { name = "a step is never over", file = "c/core/eligibility/suspect.c",
        unit = "steps.a_step_of_long_ago",
        from = "g->steps && now_ms - g->stepped_ms <= state_guard_ms(core) ?",
        to = "g->steps ?" },

    { name = "who was a replica stays in its life", file = "c/core/eligibility/guard.c",
        unit = "marked.another_life_is_found_by",
        from = " || nd->info.failed_over;", to = ";" },

    { name = "a step of long ago is written", file = "c/core/eligibility/suspect.c",
        unit = "steps.the_gap",
        from = "if (soon && step_ms > 0)", to = "if (step_ms > 0)" },

    { name = "what a clock drifts while an answer waits is a step", file = "c/core/base/clock.c",
        unit = "clock.drift_while_an_answer_waits",
        from = "server_ms - sent_ms + drift(now_ms - sent_ms, drift_ppm)",
        to = "server_ms - sent_ms + 1" },

    { name = "a step back is written", file = "c/core/eligibility/suspect.c",
        unit = "steps.a_step_back",
        from = "if (soon && step_ms > 0)", to = "if (soon && step_ms)" },

    { name = "a step is written at the next look", file = "c/core/eligibility/suspect.c",
        unit = "steps.a_step_is_written_at_once",
        from = "            timer_set(&core->timers, &core->health, now_ms);\n", to = "" },

    { name = "a step is open for ever", file = "c/core/eligibility/suspect.c",
        unit = "steps.a_step_is_not_open",
        from = "else if (now_ms - g->stepped_ms > OPEN_MS)", to = "else if (0)" },

    { name = "a step begins no quarantine anew", file = "c/core/eligibility/guard.c",
        unit = "steps.a_quarantine_begins",
        from = "g->fields.observed_ms > g->fields.at_ms - g->stepped_at_ms)", to = "0)" },

    { name = "a quarantine of before will do", file = "c/core/eligibility/guard.c",
        unit = "steps.it_was_forgotten",
        from = "g->fields.observed_ms > g->fields.at_ms - g->stepped_at_ms)",
        to = "g->fields.observed_ms > g->text_ms - g->stepped_ms)" },

    { name = "a step is forgotten with the life", file = "c/core/eligibility/guard.c",
        unit = "steps.a_step_is_written_when",
        { "int known = g->begun || g->state == RL_GUARD_ADMITTED;", "int known = 1;" },
        { "if (!g->begun || g->fields.observed_ms > g->fields.at_ms - g->stepped_at_ms)",
            "if (g->state == RL_GUARD_ADMITTED || (g->begun &&\n        g->fields.observed_ms > "
            .. "g->fields.at_ms - g->stepped_at_ms))" } },

    { name = "a step is written into others' markers", file = "c/core/eligibility/guard.c",
        unit = "steps.nor_into_a_marker", from = "int known = g->begun || g->state == "
            .. "RL_GUARD_ADMITTED;", to = "int known = 1;" },

    { name = "a step is written for ever", file = "c/core/eligibility/guard.c",
        unit = "steps.a_step_is_not_written",
        from = "known && now_ms < g->suspect_ms && ", to = "known && " },

    { name = "a stepped clock is a lost memory", file = "c/core/eligibility/guard.c",
        unit = "steps.a_majority_of_clocks",
        from = "g->begun ? g->fields.state : MARKER_STEPPED",
        to = "g->begun ? g->fields.state : MARKER_LOST" },

    { name = "only kept holds ask after a step", file = "c/core/leases/watchdog.c",
        prefix = "late client after a step", by = { "a step is told" },
        from = "lease->asks = lease->primitive.extend >= 0 && !lease->lost;",
        to = "lease->asks = 0;" },

    { name = "holds ask for ever", file = "c/core/leases/watchdog.c",
        unit = "steps.holds_ask",
        from = "    lease->renewal = NULL;\n    lease->asks = 0;\n",
        to = "    lease->renewal = NULL;\n" },

    { name = "a base by a single server", file = "c/core/rounds/teach.c",
        unit = "teach.so_many",
        from = "told < n - quorum_size(n) + 1;", to = "told < 1;" },

    { name = "its own number teaches it", file = "c/core/rounds/teach.c",
        unit = "teach.so_many",
        from = "TELLS_ALL) && k != i)", to = "TELLS_ALL))" },

    { name = "clocks guess what the silent know", file = "c/core/rounds/teach.c",
        unit = "teach.it_is_admitted_without",
        from = "if (lacking < quorum_size(n) && ", to = "if (0 && " },

    { name = "who is in quarantine lacks floors", file = "c/core/rounds/teach.c",
        unit = "teach.a_quarantine_lacks",
        from = "tells(round, k, TELLS_NOTHING) && round->teach.pupils & bit(k);",
        to = "tells(round, k, TELLS_NOTHING);" },

    { name = "out of range is none", file = "c/core/rounds/teach.c",
        unit = "teach.what_is_out_of_range",
        from = "lacking += tells(round, k, TELLS_NOTHING) &&",
        to = "lacking += (tells(round, k, TELLS_NOTHING) || tells(round, k, TELLS_WILD)) &&" },

    { name = "the earliest clock decides", file = "c/core/rounds/teach.c",
        unit = "teach.new_servers_get",
        from = "quorum_nth_ms(ms, known, quorum_size(known))",
        to = "quorum_nth_ms(ms, known, 1)" },

    { name = "the latest clock decides", file = "c/core/rounds/teach.c",
        unit = "teach.nor_one",
        from = "quorum_nth_ms(ms, known, quorum_size(known))",
        to = "quorum_nth_ms(ms, known, known)" },

    { name = "old floors are nothing", file = "c/core/rounds/teach.c",
        unit = "teach.and_above",
        from = "base = earlier > base ? earlier : base;", to = "(void)earlier;" },

    { name = "taught by what was told before", file = "c/core/rounds/teach.c",
        unit = "teach.what_was_told",
        from = "            round->teach.pupils &= ~bit(i);", to = "            (void)bit(i);" },

    { name = "taught before the end", file = "c/core/rounds/teach.c",
        unit = "teach.what_was_told",
        from = "(round->teach.pupils & over(core))", to = "over(core)" },

    { name = "force needs the others", file = "c/core/rounds/teach.c",
        unit = "teach.force",
        from = "!(round->teach.force && round->teach.admits & bit(i))", to = "1" },

    { name = "who may not ask admits", file = "c/core/rounds/teach.c",
        unit = "teach.who_may_not_ask_waits",
        from = "< STRANGE_MS;", to = "< 0;" },

    { name = "who may not ask never admits", file = "c/core/rounds/teach.c",
        unit = "teach.who_may_not_ask_waits",
        from = "< STRANGE_MS;", to = "< 10 * STRANGE_MS;" },

    { name = "vanished floors are no loss", file = "c/core/rounds/teach.c",
        unit = "teach.floors_that_vanished",
        from = "tells(round, i, TELLS_VANISHED) || (", to = "(" },

    { name = "floors out of range stay", file = "c/core/rounds/teach.c",
        unit = "teach.so_are_those",
        from = " || (tells(round, i, TELLS_WILD) && !guessed)", to = "" },

    { name = "floors out of range go untaught", file = "c/core/rounds/teach.c",
        unit = "teach.so_are_those",
        from = "(tells(round, i, TELLS_WILD) && !guessed)", to = "tells(round, i, TELLS_WILD)" },

    { name = "who has a base is taught", file = "c/core/rounds/teach.c",
        unit = "teach.who_has",
        from = "} else if (tells(round, i, TELLS_NOTHING) && base) {", to = "} else if (base) {" },

    { name = "without the guard all are taught", file = "c/core/rounds/teach.c",
        unit = "teach.without_the_guard",
        from = "if (!base || !tells(round, i, TELLS_NOTHING))", to = "if (!base)" },

    { name = "a question without end", file = "c/core/rounds/teach.c",
        unit = "teach.the_silent",
        from = "    round->cap_ms = now_ms + WITHIN_MS;\n",
        to = "    round->cap_ms = INT64_MAX;\n" },

    { name = "a question longer than the call", file = "c/core/rounds/teach.c",
        unit = "teach.a_caller_in_a_hurry", from = "if (within_ms < WITHIN_MS)", to = "if (0)" },

    { name = "clusters are not compared", file = "c/core/eligibility/guard.c", unit = "cluster.",
        from = "strcmp(m->cluster, core->cluster)", to = "0" },

    { name = "a marker of another type is none", file = "c/core/eligibility/guard.c",
        unit = "guard.a_marker_of_another_type",
        from = '!strncmp(reply->text, "WRONGTYPE", 9)', to = "0" },

    { name = "who was healed does not confirm", file = "c/core/leases/heal.c",
        unit = "extend.a_healed_node_confirms",
        from = "heal->lease->confirmed |= bit(i);", to = ";" },

    { name = "who refuses a heal confirms", file = "c/core/leases/heal.c",
        unit = "extend.a_healed_node_confirms",
        from = "vote->vote >= RL_VOTE_YES", to = "vote->vote >= RL_VOTE_FOREIGN" },

    { name = "a text is not sent after the grant", file = "c/core/leases/watchdog.c",
        unit = "extend.a_forgotten_script_is_sent_after", to = "return !round->outcome;",
        from = "return !round->outcome || (round->outcome == RL_GRANTED &&\n"
            .. "                               lease_remaining_ms(round->lease, now_ms) > 0);" },

    { name = "a text is sent after the release", file = "c/core/leases/watchdog.c",
        unit = "extend.a_forgotten_script_is_sent_after",
        from = "return !round->outcome || (round->outcome == RL_GRANTED &&\n"
            .. "                               lease_remaining_ms(round->lease, now_ms) > 0);",
        to = "return !round->outcome || round->outcome == RL_GRANTED;" },

    { name = "refused at the token is still ours", file = "c/core/leases/fence.c",
        unit = "fence.a_refusal_that_is_not_above",
        from = "vote->extra > confirm->fence.token", to = "vote->extra >= confirm->fence.token" },

    { name = "refused below the token is still ours", file = "c/core/leases/fence.c",
        unit = "fence.a_refusal_that_is_not_above",
        from = " && vote->extra > confirm->fence.token", to = "" },

    { name = "another's above the token is still ours", file = "c/core/leases/fence.c",
        unit = "fence.a_refusal_that_is_not_above",
        from = "vote->vote == RL_VOTE_ABSENT && vote->extra > confirm->fence.token",
        to = "vote->extra > confirm->fence.token" },

    { name = "a late confirmation is of the token asked later", file = "c/core/leases/fence.c",
        unit = "fence.c3", from = "slot->extra = confirm->fence.token;", to =
            "slot->extra = round->fence.token;" },

    { name = "tokens need no margin", file = "c/core/leases/fence.c",
        unit = "fence.the_margin_witnesses",
        from = "witnesses >= quorum_with(round->tally.n, round->tally.margin)",
        to = "witnesses >= quorum_size(round->tally.n)" },

    { name = "a closed channel has sleepers", file = "c/core/rounds/subscription.c",
        unit = "subscription.pauses_outlast", to = "",
        from = "    while (s->sleepers)\n        leave(s->sleepers);\n" },

    { name = "a closed channel has one sleeper", file = "c/core/rounds/subscription.c",
        unit = "subscription.pauses_outlast",
        from = "    while (s->sleepers)\n        leave", to =
            "    if (s->sleepers)\n        leave" },

    { name = "a lost subscriber listens", file = "c/core/rounds/subscription.c",
        unit = "subscription.a_lost_subscriber_is_asked",
        from = "            s->subscribed &= ~bit(i);\n            s->requested", to =
            "            s->requested" },

    { name = "a lost subscriber was asked", file = "c/core/rounds/subscription.c",
        unit = "subscription.a_lost_subscriber", to = "",
        from = "            s->requested &= ~bit(i);\n" },

    { name = "a lost subscriber keeps closed channels", file = "c/core/rounds/subscription.c",
        unit = "subscription.a_lost_subscriber_ends", to = "            s->requested &= ~bit(i);\n",
        from = "            s->requested &= ~bit(i);\n            if (!s->refs && !s->requested)\n"
            .. "                forget(s);\n" },

    { name = "many are extended by one lease", file = "lua/redlock/scripts/lock/extend_many.lua",
        spec = "spec/testing/scripts_spec.lua extend each of many",
        from = "local lease = ARGV[2 * i]", to = "local lease = ARGV[2]" },

    { name = "a clock set back counts backward", file = "lua/redlock/scripts/marker/set.lua",
        spec = "spec/policy/marker_spec.lua clock was set back",
        from = "math.max(0, math.min(own, age))", to = "math.min(own, age)" },

    { name = "a brief client starts the count of a quarantine anew",
        file = "lua/redlock/scripts/marker/set.lua",
        spec = "spec/policy/guard_spec.lua come and go", from = "2 * own < age", to = "false" },

    { name = "brief clients alone count nothing", file = "lua/redlock/scripts/marker/set.lua",
        spec = "spec/policy/guard_spec.lua clients that stay for a second",
        from = " and age < 5000", to = "" },

    { name = "floors of another life are told", file = "lua/redlock/scripts/fenced/tell.lua",
        spec = "spec/policy/floors_spec.lua no floors of another life",
        from = " or of ~= string.sub(life, 1, 16) then", to = " then" },

    { name = "init admits who forgot after others were",
        file = "lua/redlock/servers/restart_guard.lua",
        spec = "spec/api/init_spec.lua if it forgets when others vote",
        from = "seen, sent = seen or now, true", to = "seen, sent = now, true" },

    { name = "an extension forgets the lock delay", file = "c/core/leases/watchdog.c",
        unit = "delay.a_late_extension", from = "lease_ms ? lease_ttl_ms(core, lease_ms) : 0",
        to = "lease_ms" },

    { name = "an import leaves the counter", file = "lua/redlock/scripts/fenced/import.lua",
        spec = "spec/api/import_spec.lua keeps the counter",
        from = "call('pexpire', KEYS[2], ARGV[5])\n", to = "" },

    { name = "a latch has no patience", file = "lua/redlock/kinds/latch.lua",
        spec = "spec/api/latch_spec.lua bears an outage",
        from = "now - answered > patience", to = "true" },

    { name = "some of the names are imported", file = "lua/redlock/scripts/multi/import.lua",
        spec = "spec/testing/scripts_spec.lua import all names",
        from = "elseif old < n then", to = "elseif old == 0 then" },

    { name = "the agreed slot is taken from its holder", file =
        "lua/redlock/scripts/slots/agreed.lua",
        spec = "spec/testing/scripts_spec.lua leave the slot",
        from = "mine = not call('zscore', KEYS[1], agreed) and agreed", to = "mine = agreed" },

    { name = "a reader is healed over a writer", file = "lua/redlock/scripts/rw/read_heal.lua",
        spec = "spec/testing/scripts_spec.lua heal a reader",
        from = "    return 0\n", to = "    call('del', KEYS[1]) kind = 'none'\n" },

    { name = "an error quotes the password", file = "c/node/node.c",
        unit = "node.quotes_no_password",
        from = "nd->config->password && (nd->state == NODE_HANDSHAKE || !nd->queue_len);",
        to = "nd->config->password && nd->queue_len && nd->state == NODE_HANDSHAKE;" },

    { name = "an error quotes what proves ownership", file = "c/node/wire.c", unit = "wire.",
        from = "digits > RL_VALUE_LEN / 2", to = "digits > RL_VALUE_LEN" },

    { name = "the order of servers makes another cluster", file = "c/io/address.c",
        unit = "cluster.", to = "",
        from = "        qsort(address, (size_t)n, sizeof(address[0]), by_text);\n" },

    { name = "a marker need not be as it is written", file = "c/core/base/marker.c",
        unit = "marker.", from = "return !strcmp(again, text);", to = "return 1;" },

    { name = "what counts does not compare the memory", file =
        "lua/redlock/scripts/fenced/counted.lua", guarded = true, fenced = 100,
        from = "if guarded and sub(found[3] or '', 1, RUN) ~= run then", to = "if false then",
        budget = 20000 },

    { name = "what was seen of a quarantine is counted again", file = "c/core/eligibility/guard.c",
        guarded = true, from = "        g->text_ms = now_ms;\n", to =
            "        g->text_ms = g->text_ms && g->state == RL_GUARD_QUARANTINED ? g->text_ms"
            .. " : now_ms;\n",
        by = { "a quarantine is no older than it says", "who forgot does not vote",
            "one holder" } },

    { name = "the server's clock alone ends a quarantine",
        file = "lua/redlock/scripts/marker/set.lua", guarded = true,
        from = "math.min(own, age)", to = "age",
        faults = { "server clock steps", "server clock races" },
        by = OLDER },

    { name = "a client's clock alone ends a quarantine",
        file = "lua/redlock/scripts/marker/set.lua", guarded = true,
        from = "math.min(own, age)", to = "own",
        by = OLDER },

    { name = "a count does not say when it was", file = "lua/redlock/scripts/marker/set.lua",
        guarded = true, from = "text, observed, now)",
        to = "text, observed, same and tonumber(at) or now)",
        by = OLDER },

    { name = "the clocks decide where servers are silent", file = "c/core/rounds/teach.c",
        guarded = true, fenced = 100, from = "if (lacking < quorum_size(n) && ", to = "if (0 && ",
        by = { "a base is what others gave out" } },

    { name = "a base for less than was told", file = "c/core/rounds/teach.c", guarded = true,
        fenced = 100, from = "return most;", to = "return most - 1;",
        by = { "a base is what others gave out" } },

    { name = "a base for more than was told", file = "c/core/rounds/teach.c", guarded = true,
        fenced = 100, from = "return most;", to = "return most + 1;",
        by = { "a base is what others gave out" } },

    { name = "a server tells what it was taught, not what it gave out",
        file = "lua/redlock/scripts/fenced/tell.lua", guarded = true, fenced = 100,
        from = "math.max(number(base), number(most))", to = "number(base)",
        by = { "a base is what others gave out" } },

    { name = "a marker is set over another one", file = "lua/redlock/scripts/marker/set.lua",
        from = "if marker ~= ARGV[1] then", to = "if false then",
        spec = "spec/api/init_spec.lua stays admitted" },

    -- ---- passing on ----

    { name = "passed on for ever", file = "lua/redlock/lock/handover.lua",
        from = "hold.passed >= client.options.handover", to = "false",
        by = { "passed on within bounds" } },

    { name = "passed on for longer than the run", file = "lua/redlock/lock/handover.lua",
        from = "client.now() - _M.run_since(hold) >= RUN", to = "false",
        spec = "spec/policy/handover_spec.lua in a row for longer than 50 ms" },

    { name = "passing on is not counted", file = "lua/redlock/lock/attempt.lua",
        from = "hold.passed, hold.run = from.passed + 1,", to = "hold.passed, hold.run = 0,",
        by = { "passed on within bounds" } },

    { name = "a worn lease passes on as it is", file = "lua/redlock/lock/local_queue.lua",
        from = "left >= _M.least_left(self.client, seconds)", to = "left >= 0",
        by = { "passed on as good as new" } },

    { name = "a lease of another length passes on", file = "lua/redlock/lock/local_queue.lua",
        { " and hold.seconds == seconds and hold.kept == (self.lease == nil)\n", "\n" },
        { "\n        and left <= seconds\n", "\n" },
        by = { "passed on as good as new" } },

    { name = "an extended lease passes on as it is", file = "lua/redlock/lock/local_queue.lua",
        from = "not hold.extended and ", to = "true and ", prefix = "an extension at a hand-over",
        by = { "a lease as long as was asked for", "passed on as good as new" } },

    { name = "a token passes on with the lock", file = "lua/redlock/lock/local_queue.lua",
        from = "prim.vote ~= \"largest\" and ", to = "",
        by = { "passed on as good as new" } },

    { name = "what was offered to the dead is forgotten", file = "lua/redlock/lock/local_queue.lua",
        from = "    if hold and not _M.offer(self.queue, hold) then\n", to = "    if false then\n",
        prefix = "an offer to the dead" },

    -- ---- from process to process ----

    { name = "an export keeps the value", file = "lua/redlock/kinds/transfer.lua",
        prefix = "a late heal after an export", by = { "imported once" },
        { "    local ok, handle, round = pcall(rounds.import, call, ffi_values.value(hold.lease), "
            .. "hold.seconds,\n        parcel.token, true)\n",
            "    local ok, handle, round = true, hold.lease, nil\n" },
        { "    rounds.give(hold.lease, \"disown\")\n    rounds.claim(call)\n", "" } },

    { name = "an export is sent again", file = "c/core/leases/acquire.c",
        from = "if (written && round->lease->once)", to = "if (0)",
        unit = "import.once_on_each_server" },

    { name = "an export is healed", file = "c/core/leases/heal.c",
        from = "lease->once || ", to = "", unit = "import.once_on_each_server" },

    { name = "an import needs no majority", file = "c/core/leases/acquire.c",
        from = "    int outcome = v == WON ", to = "    int outcome = round->tally.yes ",
        by = { "a held lock is held", "a majority confirmed", "one holder", "imported once",
            "keys outlive the hold", "a token has its witnesses" } },

    { name = "an import takes what is free", file = "lua/redlock/scripts/lock/import.lua",
        from = "if value == ARGV[3] then", to = "if not value or value == ARGV[3] then",
        by = { "only what is ours" }, fenced = 0 },

    { name = "an import takes what others have", file = "lua/redlock/scripts/lock/import.lua",
        from = "if value == ARGV[3] then", to = "if value and value ~= ARGV[1] then",
        by = { "only what is ours" }, fenced = 0 },

    { name = "an import with a token takes what others have", fenced = 100,
        file = "lua/redlock/scripts/fenced/import.lua",
        from = "if value and value ~= replaced and value ~= ARGV[1] then", to = "if false then",
        by = { "only what is ours" } },

    { name = "an import leaves the exported value", file = "lua/redlock/scripts/lock/import.lua",
        from = "    redis.call('set', KEYS[1], ARGV[1], 'PX', math.max(ARGV[2], "
            .. "redis.call('pttl', KEYS[1])))\n", to = "", fenced = 0, prefix = "delivered twice" },

    { name = "what was given away is held still", file = "lua/redlock/kinds/transfer.lua",
        { "    client.holds:remove(owner, self.id)\n", "" },
        { "    rounds.give(hold.lease, \"disown\")\n", "" },
        by = { "one holder", "a held lock is held" } },

    -- ---- closing ----

    { name = "a close forgets attempts in flight", file = "c/core/close.c",
        from = "        round_end(round, RL_CLOSED);\n        release_end(lease, now_ms);\n",
        to = "        round_end(round, RL_CLOSED);\n",
        prefix = "a close under fire", by = { "a close lets go" } },

    { name = "a close has no end", file = "lua/redlock/client/client.lua",
        from = "RL_LINGER_MS) / 1000", to = "RL_LINGER_MS) / 10", prefix = "a close under fire",
        by = { "calls return in time", "a close lets go" } },

    { name = "a lock is taken while it is closed", file = "lua/redlock/lock/attempt.lua",
        from = "if client.closed or kept and not", to = "if kept and not",
        prefix = "a close that waits", by = { "closed is closed", "crash" } },

    { name = "owed to who was not asked", file = "c/core/leases/release.c",
        from = "lease_owes(lease, lease->touched);\n    release->cap_ms",
        to = "lease_owes(lease, (uint32_t)(link_bit(core->n) - 1));\n    release->cap_ms",
        by = { "nothing is owed in vain" } },

    { name = "what an import did not reach stays", file = "c/core/leases/release.c",
        unit = "import.what_it_did_not_reach",
        from = "    heal_imported(release->lease, i, now_ms);\n", to = "" },

    { name = "owed where nothing was written", file = "c/core/leases/release.c",
        from = "    if (lease_owing(lease) && !(lease->touched & bit(i)))\n"
            .. "        lease_untouched(lease, i);", to = "    if (0)\n        ;",
        by = { "nothing is owed in vain" } },

    { name = "what was paid is owed", file = "c/core/leases/lease.c",
        from = "        lease->core->nodes[i].stats.owed += nodes & bit(i) ? 1 : -1;",
        to = "        lease->core->nodes[i].stats.owed += nodes & bit(i) ? 1 : 0;",
        by = { "nothing is owed in vain" } },

    -- ---- one server under two addresses ----

    { name = "one server under two addresses is not refused", file = "c/core/eligibility/guard.c",
        from = "    if (guard_twin(core, i) >= 0)", to = "    if (0)",
        prefix = "one server twice", by = { "one server, one vote" } },

    { name = "ours already counts as a vote, always", file = "c/core/leases/acquire.c",
        { "        if (!slot->resends && !(round->asked_again & bit(i)))\n"
            .. "            return RL_CONFIG;",
            "        if (0)\n            return RL_CONFIG;" },
        { "k != i && slot[k].vote", "0 && slot[k].vote" },
        prefix = "one server twice, in secret", by = { "a majority confirmed" } },

    { name = "a server votes through two addresses, in turn", file = "c/core/leases/acquire.c",
        from = "k != i && slot[k].vote", to = "0 && slot[k].vote",
        unit = "release_late.a_server_that_may_have_voted_has_no_second_vote" },

    -- ---- owners that are gone ----

    { name = "who is gone is not looked for", file = "lua/redlock/lock/holds.lua",
        from = "    elseif not self.client.host.alive(owner) then\n"
            .. "        self.client:free_owner(owner)\n    end\nend",
        to = "    end\nend", by = { "everybody is served" } },

    { name = "what one held who is gone is renewed on", file = "lua/redlock/client/client.lua",
        from = "        self.holds:orphan(hold)\n        local_queue.wake_first",
        to = "        local_queue.wake_first", by = { "everybody is served" } },

    { name = "what one held who is gone is not his only", file = "lua/redlock/client/client.lua",
        from = "    for _, hold in ipairs(self.holds:all_of(owner)) do\n"
            .. "        self.holds:orphan(hold)",
        to = "    for _, hold in ipairs(self.holds:all()) do\n"
            .. "        self.holds:orphan(hold)",
        by = { "lost only by time" } },

    -- ---- waiting ----

    { name = "who is not first is told that it is held", file = "lua/redlock/lock/turn.lua",
        from = "pause > 0 and is_held(call)", to = "pause > 0",
        by = { "held means held" } },

    { name = "woken is granted", file = "lua/redlock/lock/acquire.lua",
        from = "    return attempt.make(call) or try_again(call)\n", to =
            "    return attempt.make(call) or try_again(call)\n"
            .. "        or call.sleeps and call.sleeps.seen > 0 or nil\n" },

    { name = "a waiter without a timer", file = "lua/redlock/lock/waking.lua",
        from = "min(pause_of(call, free_in), left)",
        to = "call.sleeps.subscription and 1 / 0 or min(pause_of(call, free_in), left)" },

    { name = "the next one in the queue is not woken", file = "lua/redlock/lock/local_queue.lua",
        from = "        rounds.wake(first.round)\n", to = "        first.round = nil\n" },

    { name = "waiters wake each other", file = "c/core/leases/release.c",
        from = "    if (lease->state == LEASE_ACQUIRING)\n        leave_unannounced(lease);\n",
        to = "", unit = "release.what_a_minority_granted" },

    { name = "waits for less than a millisecond", file = "lua/redlock/lock/acquire.lua",
        from = "rounds.to_ms(call.deadline - now) <= 0", to = "call.deadline - now <= 0",
        by = { "time goes on" }, prefix = "the last of a wait" },

    { name = "silence is a no", file = "lua/redlock/runtime/limits.lua",
        from = "elseif #said < q or most > 0 and most + n - #said >= q then",
        to = "elseif false then", by = { "a holder sees its lock" } },

    -- ---- split votes ----

    { name = "whoever is refused hears held", file = "lua/redlock/lock/votes.lua",
        from = 'if most >= q and (whose ~= "" or yes == 0) then', to = "if true then",
        prefix = "all at one instant", by = { "one of all gets it" } },

    { name = "one server names the holder", file = "lua/redlock/lock/votes.lua",
        from = "if most >= q and (", to = "if most >= 1 and (",
        prefix = "all at one instant", by = { "one of all gets it" } },

    { name = "split votes are not tried again", file = "lua/redlock/lock/acquire.lua",
        from = "call.votes.split and votes.try_again(call, now)", to = "false",
        prefix = "all at one instant", by = { "one of all gets it" } },

    { name = "no gate", file = "c/core/leases/acquire.c", unit = "acquire.gate_is_asked_first",
        from = "gate < 0 ? -1 : pick_gate(core, now_ms)", to = "-1" },

    { name = "each has a gate of its own", file = "c/core/leases/acquire.c",
        unit = "acquire.gate_is_asked_first",
        from = "core->nodes[gate].info.server.run_id) < 0))",
        to = "core->nodes[gate].info.server.run_id) > 0))" },

    { name = "the gate lets go at once", file = "c/core/leases/acquire.c",
        unit = "acquire.gate_asks_the_rest_again",
        from = "            round_ask_again(round, i, now_ms);\n            return 1;\n",
        to = "            return 0;\n" },

    { name = "a silent server keeps contenders out", file = "c/core/leases/acquire.c",
        unit = "acquire.contended_does_not_wait_for_the_silent",
        from = "state == SLOT_SENT && health_pauses(nd, now_ms)", to = "0" },

    { name = "each server picks a slot of its own", file = "c/core/leases/acquire.c",
        unit = "same.home_picks_the_number",
        from = "rule == RL_RULE_SAME && round->at_gate", to = "0" },

    { name = "a server in quarantine has no key before the first extension",
        file = "c/core/leases/acquire.c", spec = "spec/policy/quarantine_spec.lua taken meanwhile",
        from = "    heal_if_needed(lease, round, i, code, vote, now_ms);\n    return",
        to = "    return" },

    { name = "a server known to be in quarantine has no key before the first extension",
        file = "c/core/leases/acquire.c", spec = "spec/policy/quarantine_spec.lua taken meanwhile",
        from = " || slot->state == SLOT_MISSING)", to = ")" },

    { name = "strays stay", file = "c/core/leases/acquire.c", unit = "same.strays_are_mended",
        from = "    heal_rest(lease, round, now_ms);\n", to = "" },
}
