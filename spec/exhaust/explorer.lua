--- Visits every run of a small world, up to some odd choices.
--
-- A world is a function of choices: wherever something may go in more than one way it calls
-- choose(). The first option is what usually happens; each other one is odd, and counts against
-- the limit of its class. Two runs with the same choices are the same, so the explorer needs no
-- copies of a world: it runs one without odd choices, sees which there were, and runs each
-- again with one more odd choice after the last one. What comes after an odd choice is thus
-- chosen among the events of the run that has it.
--
-- A run has a word: "3.2,17.5" chooses option 2 in the third call of choose() that could be odd,
-- and option 5 in the 17th; "-" is the run without odd choices.

local concat, insert, unpack = table.concat, table.insert, unpack
local ipairs, pairs, setmetatable, tonumber = ipairs, pairs, setmetatable, tonumber

local _M = {}

local Choices = {}
Choices.__index = Choices

--- The choices of one run.
-- @param word    its odd ones
-- @param limits  how many of each class there may be; of `odd`: of all but "start"
-- @return choices; afterwards they have `longer`: the words with one more odd choice, and
--   `said`: what was odd
function _M.choices(word, limits)
    local odd, left = {}, {}
    for at, option in word:gmatch "(%d+)%.(%d+)" do
        insert(odd, { at = tonumber(at), option = tonumber(option) })
    end
    for class, n in pairs(limits) do
        left[class] = n
    end
    return setmetatable({ prefix = word == "-" and "" or word .. ",", odd = odd, next = 1, n = 0,
        left = left, longer = {}, said = {} }, Choices)
end

--- Chooses one of some options.
-- @param class    what the choice counts against; where that has none left, it is the first option
-- @param options  a list; the first word of each is its name
-- @param ...      words before the name, for people
-- @return its number
function Choices:choose(class, options, ...)
    local left, odd = self.left, self.odd[self.next]
    if left[class] == 0 or class ~= "start" and left.odd == 0 then
        return 1
    end
    self.n = self.n + 1
    if not odd then              -- before the last odd one all was tried already
        for option = 2, #options do
            insert(self.longer, self.prefix .. self.n .. "." .. option)
        end
    elseif odd.at == self.n then
        if not options[odd.option] then
            error("there is no such run: its world has changed", 0)
        end
        self.next, left[class] = self.next + 1, left[class] - 1
        left.odd = left.odd - (class ~= "start" and 1 or 0)
        local words = { ... }
        insert(words, options[odd.option][1])
        insert(self.said, concat(words, " "))
        return odd.option
    end
    return 1
end

--- The odd choices as a person reads them.
function Choices:sentence()
    return #self.said == 0 and "all goes as usual" or concat(self.said, "; ")
end

-- At most `most` of a list, evenly; which ones changes with `from`.
local function thin(list, most, from)
    local some, step = {}, math.max(1, math.ceil(#list / most))
    for i = from % step + 1, #list, step do
        insert(some, list[i])
    end
    return some
end

--- Runs all, or one of several shares: part of the numbers from 0 to 1. The first run has all of
-- them. Those with one more odd choice than a run divide what it has among them. A run belongs to
-- the share that has its first number; a share also runs what its runs begin with. Those with fewer
-- odd choices come first.
-- @param most  the largest number of runs that have equally many odd choices; nil: no limit
-- @param run  function(choices, word, mine): one run; mine: of this share. false: no more
-- @return how many runs of this share there were
function _M.visit(limits, run, share, shares, most)
    local from, to = share / shares, (share + 1) / shares
    local runs, now, later = 0, { { "-", 0, 1 } }, {}
    while #now > 0 do
        for _, one in ipairs(now) do
            local word, first, width = unpack(one)
            local choices, mine = _M.choices(word, limits), first >= from and first < to
            local more = run(choices, word, mine)
            runs = runs + (mine and 1 or 0)
            if more == false then
                return runs
            end
            width = width / #choices.longer
            for i, longer in ipairs(choices.longer) do
                local at = first + (i - 1) * width
                if at < to and at + width > from then
                    insert(later, { longer, at, width })
                end
            end
        end
        now, later = most and thin(later, most, share) or later, {}
    end
    return runs
end

return _M
