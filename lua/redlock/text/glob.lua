--- Redis's patterns: * ? [abc] [a-z] [^a], and \ before a literal character.

local byte, find, gsub, match, sub = string.byte, string.find, string.gsub, string.match, string.sub

local _M = {}

-- Whether the class whose `[` is before p contains byte c; and the position after the class.
local function class_has(pattern, p, c)
    local negated, found = sub(pattern, p, p) == "^", false
    p = negated and p + 1 or p
    while p <= #pattern and sub(pattern, p, p) ~= "]" do
        if sub(pattern, p, p) == "\\" and p < #pattern then
            p = p + 1
            found = found or byte(pattern, p) == c
        elseif sub(pattern, p + 1, p + 1) == "-" and p + 2 <= #pattern then
            local from, to = byte(pattern, p), byte(pattern, p + 2)
            if from > to then
                from, to = to, from
            end
            found = found or from <= c and c <= to
            p = p + 2
        else
            found = found or byte(pattern, p) == c
        end
        p = p + 1
    end
    return found ~= negated, p + 1
end

-- Whether the element at p matches byte c; and the position of the next element.
local function takes(pattern, p, c)
    local what = sub(pattern, p, p)
    if what == "?" then
        return true, p + 1
    elseif what == "[" then
        return class_has(pattern, p + 1, c)
    elseif what == "\\" and p < #pattern then
        p = p + 1
    end
    return byte(pattern, p) == c, p + 1
end

--- Whether a text matches a pattern. Takes time O(#pattern * #text).
function _M.matches(pattern, text)
    local p, t = 1, 1
    local star, behind           -- the last *, and where its last try began in the text
    while t <= #text do
        local ok, after
        if sub(pattern, p, p) == "*" then
            star, behind, p = p, t, p + 1
        else
            if p <= #pattern then
                ok, after = takes(pattern, p, byte(text, t))
            end
            if ok then
                p, t = after, t + 1
            elseif star then
                behind = behind + 1
                p, t = star + 1, behind
            else
                return false
            end
        end
    end
    return not find(pattern, "[^*]", p)
end

--- The literal text that a pattern begins with.
function _M.literal(pattern)
    return match(pattern, "^[^%*%?%[\\]*")
end

--- A pattern that matches only this text.
function _M.escaped(text)
    return (gsub(text, "[%*%?%[%]\\]", "\\%0"))
end

return _M
