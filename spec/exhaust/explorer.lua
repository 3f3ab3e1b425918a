--- Visits every run of a small world, up to some odd choices.
--
-- A world is a function of choices: wherever something may go in more than one way it calls
-- choose(). The first option is what usually happens; each other one is odd, and counts against
-- the limit of its class. Two runs with the same choices are the same, so the explorer needs no
-- copies of a world: it runs one without odd choices, sees which there were, and runs each
-- again with one more odd choice after the last one. What comes after an odd choice is thus
-- chosen among the events of the run that has it.

local concat, floor, insert, remove = table.concat, math.floor, table.insert, table.remove
local format, gmatch = string.format, string.gmatch
local ipairs, pairs, setmetatable, tonumber = ipairs, pairs, setmetatable, tonumber

local _M = {}

local Choices = {}
Choices.__index = Choices

--- @param tape  the odd choices: a list of { at: which call of choose() it is, option }
-- If `tell`, a function of the choices, is set, each odd choice calls it.
function _M.choices(tape, limits)
    local left = {}
    for class, n in pairs(limits) do
        left[class] = n
    end
    return setmetatable({ tape = tape, next = 1, n = 0, left = left, points = {}, said = {} },
        Choices)
end

--- Chooses one of some options.
-- @param class    what the choice counts against; where that has none left, it is the first option
-- @param options  a list; the first word of each is its name
-- @param ...      words before the name, for people
-- @return its number
function Choices:choose(class, options, ...)
    local left, odd = self.left, self.tape[self.next]
    if left[class] == 0 or class ~= "start" and left.odd == 0 then
        return 1
    end
    self.n = self.n + 1
    if not odd then              -- before the last odd one all was tried already
        insert(self.points, { at = self.n, options = #options })
    elseif odd.at == self.n then
        if not options[odd.option] then
            error("there is no such run: its world has changed", 0)
        end
        self.next, left[class] = self.next + 1, left[class] - 1
        left.odd = left.odd - (class ~= "start" and 1 or 0)
        local words = { ... }
        insert(words, options[odd.option][1])
        insert(self.said, concat(words, " "))
        if self.tell then
            self:tell()
        end
        return odd.option
    end
    return 1
end

--- The choices as a person reads them.
function Choices:sentence()
    return #self.said == 0 and "all goes as usual" or concat(self.said, "; ")
end

local function with(tape, at, option)
    local longer = {}
    for i, odd in ipairs(tape) do
        longer[i] = odd
    end
    insert(longer, { at = at, option = option })
    return longer
end

--- The tape as a word, which read() understands: "3.2,17.5"; "-": no odd choice.
function _M.word(tape)
    local list = {}
    for i, odd in ipairs(tape) do
        list[i] = format("%d.%d", odd.at, odd.option)
    end
    return #list > 0 and concat(list, ",") or "-"
end

function _M.read(word)
    local tape = {}
    for at, option in gmatch(word, "(%d+)%.(%d+)") do
        insert(tape, { at = tonumber(at), option = tonumber(option) })
    end
    return tape
end

-- Shares are by the first odd choice, and where these are too few by the second one, too: a share
-- repeats what its runs begin with, so it should have few first ones. With three odd choices
-- that costs little, and they are by the second one, or shares would differ much.
local FIRST_ONES = 60

-- The largest divisor that is not larger than FIRST_ONES.
local function by_first(shares)
    local by = math.min(shares, FIRST_ONES)
    while shares % by > 0 do
        by = by - 1
    end
    return by
end

--- Runs all, or a share.
-- @param limits  how many odd choices of each class a run may have
-- @param run     function(choices, tape, mine): one run; mine: of this share. false: no more
-- @param share   0 .. shares - 1
-- @return how many runs of this share there were
function _M.visit(limits, run, share, shares)
    local of = { [0] = limits.odd > 2 and 1 or by_first(shares) }
    of[1] = shares / of[0]
    local part = { [0] = share % of[0], floor(share / of[0]) }
    local runs, number, tapes = 0, { [0] = 0, 0 }, { {} }
    while #tapes > 0 do
        local tape = remove(tapes)
        local choices, n = _M.choices(tape, limits), #tape
        local mine = n >= 2 or part[1] == 0 and (n == 1 or part[0] == 0)
        local more = run(choices, tape, mine)
        runs = runs + (mine and 1 or 0)
        if more == false then
            break
        end
        for _, point in ipairs(choices.points) do
            for option = 2, point.options do
                number[n] = n < 2 and number[n] + 1 or nil
                if n >= 2 or number[n] % of[n] == part[n] then
                    insert(tapes, with(tape, point.at, option))
                end
            end
        end
    end
    return runs
end

return _M
