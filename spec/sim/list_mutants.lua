--- Wrong variants of how the list of servers changes (see mutants.lua), for schedules in which it
-- does (lists.lua). What is not noticed there, as it takes rarer luck, is in spec/models.

local CHANGE = "lua/redlock/policy/members.lua"

local mutants = {
    -- ---- whose votes count ----

    { name = "a joint list needs its new majority only", file = "c/core/quorum.c",
        from = "return enough(voters->now, nodes, margin) && enough(voters->old, nodes, margin);",
        to = "return enough(voters->now, nodes, margin);",
        by = { "a majority of one list", "one holder" } },

    { name = "a joint list needs its old majority only", file = "c/core/quorum.c",
        from = "return enough(voters->now, nodes, margin) && enough(voters->old, nodes, margin);",
        to = "return enough(voters->old, nodes, margin);",
        by = { "a majority of one list", "one holder" } },

    { name = "votes for several lists add up", file = "c/core/ballot.c",
        from = "nodes |= round->slot[i].list == list->number ? bit(i) : 0;",
        to = "nodes |= list->number ? bit(i) : 0;",
        by = { "a majority of one list", "one holder" } },

    { name = "a yes counts for the list that was known", file = "c/core/answer.c",
        from = "slot->list = core->guards[i].kind == MARKER_READ ? core->guards[i].list : 0;",
        to = "slot->list = slot->list;",
        by = { "a majority of one list", "one holder" } },

    { name = "between lists votes for different slots add up", file = "c/core/same.c",
        family = "permit", from = "granted(slot) && slot->extra == round->slot[i].extra ?",
        to = "granted(slot) ?", by = { "a majority of one list", "who excludes whom" } },

    { name = "between lists two servers have a permit's token", family = "permit",
        file = "lua/redlock/api/permit_token.lua", from = "        if answer.vote == 1 then\n",
        to = "        if answer.vote == 1 then\n            for k = 1, i - 1 do\n"
            .. "                token = answers[k].info == answer.info and answer.info or token\n"
            .. "            end\n",
        by = { "tokens of a slot grow" } },

    { name = "a slot is taken twice while the list changes", family = "permit",
        file = "lua/redlock/scripts/slots/acquire.lua",
        from = "if not call('zscore', KEYS[1], slot) then", to = "do",
        by = { "who excludes whom" } },

    -- ---- who begins ----

    -- That who missed a list is not believed at once is in unit tests (begin): it takes more luck.
    { name = "who begins has a list of its own at once", file = "c/core/guard.c",
        from = "if (!g->until_ms && (!core->settled || roll_strange(core, i))) {",
        to = "if (!g->until_ms && roll_strange(core, i)) {",
        faults = { "a member forgets all", "a process begins late" },
        by = { "errors have a known code" } },

    -- ---- who changes it ----

    { name = "a list in force without the guard time", file = CHANGE,
        from = "    local ends = client.now() + seconds\n    repeat\n        local left",
        to = "    local ends = client.now()\n    repeat\n        local left",
        by = { "a list comes into force in time" } },

    { name = "nobody looks again behind the guard time", file = CHANGE,
        from = "if s and stands(s) then", to = "if s and s.marker then",
        by = { "a list comes into force in time", "who forgot does not vote" } },

    -- Whoever forgets during the wait is in quarantine for as long, and does not vote when it is
    -- looked at. It takes a changer that is stopped meanwhile; see `memory` in spec/models.
    { name = "who forgot the joint list stands for it", file = CHANGE, equivalent = true,
        from = "s.marker.inc == memory[s.label]", to = "s.marker.inc" },

    { name = "a list in force by those that leave", file = CHANGE,
        from = "#kept >= quorum(size) and stay >= size - quorum(size) + 1",
        to = "#kept >= quorum(size)",
        by = { "a list comes into force in time", "errors have a known code" } },

    { name = "a list in force without floors", file = CHANGE,
        from = "\n            and s.seeded == views.BUCKETS", to = "",
        by = { "a list comes into force in time" } },

    { name = "a change that was begun is not gone on with", file = CHANGE,
        from = "    if now.old then\n        return now\n", to = "    if false then\n",
        by = { "a list comes into force in time", "everybody is served",
            "errors have a known code" } },

    -- ---- who is admitted to it ----

    -- Once in some hundreds of schedules, and in unit tests.
    { name = "a list on its way is not passed on", file = "c/core/roll.c", ci = false,
        from = "    m->view = newest->id;\n    if (!(", to =
            "    if (newest->id.epoch % 2)\n        return;\n    m->view = newest->id;\n    if (!(",
        by = { "everybody is served" } },

    { name = "between lists nobody is left to admit", file = "c/core/admission.c", ci = false,
        from = "(admitted | pending) == (all & ~bit(i));",
        to = "(!(newest->id.epoch % 2) && (admitted | pending) == (all & ~bit(i)));",
        by = { "everybody is served" } },

    { name = "who has left the newest list says config", file = "c/core/acquire.c", ci = false,
        family = "permit", from = "= quorum_voters(&state_newest(round->core)->voters);",
        to = "= state_voters(round->core);",
        by = { "errors have a known code" }, budget = 400 },
}

for _, mutant in ipairs(mutants) do
    mutant.lists = true
end
return mutants
