--- Wrong variants of how deadlocks are looked for (see mutants.lua), for schedules in which they
-- are (deadlocks.lua).

local CYCLE, LOOK = "lua/redlock/policy/cycle.lua", "lua/redlock/scripts/cycle/look.lua"

local mutants = {
    { name = "a circle that was seen once is told", file = CYCLE,
        from = "cycle.digest, cycle.most = digest, most\n        return false",
        to = "cycle.digest, cycle.most = digest, most\n        return true",
        fenced = 100, by = { "a deadlock is one" } },

    { name = "one server names a circle", file = CYCLE, ci = false,
        { "if #said >= quorum(places.voters(client)) then\n            return digest",
            "if #said >= 1 then\n            return digest" },
        { "if same[text] == quorum(places.voters(client)) then",
            "if same[text] == 1 then" },
        by = { "a deadlock is one", "everybody is served" } },

    { name = "of a circle nobody ends", file = CYCLE,
        from = "return last == call.cycle.id", to = "return false",
        by = { "everybody is served", "nothing is left" } },

    { name = "what somebody holds is not what he holds", file = LOOK,
        from = "if mine[one.digest] then", to = "if next(mine) then",
        by = { "a deadlock is one" } },
}

for _, mutant in ipairs(mutants) do
    mutant.deadlocks = true
end
return mutants
