-- Whether values are what the reference (annotations.lua) says of them.
local _M = {}

-- ---- type expressions ------------------------------------------------------------

local CLOSES = { ["("] = ")", ["{"] = "}", ["<"] = ">", ["["] = "]" }

-- "a|(b|c)[]|fun(x: d|e)" in its parts. What `fun(...):` returns is the last of it.
local function alternatives(type)
    local parts, depth, from = {}, 0, 1
    for i = 1, #type do
        local c = type:sub(i, i)
        if depth == 0 and type:find("^fun%(", from) then
            break
        elseif CLOSES[c] then
            depth = depth + 1
        elseif c == ")" or c == "}" or c == ">" or c == "]" then
            depth = depth - 1
        elseif c == "|" and depth == 0 then
            parts[#parts + 1] = type:sub(from, i - 1)
            from = i + 1
        end
    end
    parts[#parts + 1] = type:sub(from)
    return parts
end

local BASIC = { boolean = true, number = true, string = true, table = true, ["function"] = true,
    ["nil"] = true }

-- All fields of a class, also those of its parents.
function _M.fields(model, name)
    local all = {}
    for _, parent in ipairs(model[name] and model[name].parents or {}) do
        for key, field in pairs(_M.fields(model, parent)) do
            all[key] = field
        end
    end
    for _, field in ipairs(model[name] and model[name].fields or {}) do
        all[field.name] = field
    end
    return all
end

-- All methods of a class, also those of its parents, but for one that is left out, or nil.
function _M.methods(model, name, out)
    local all = {}
    for _, parent in ipairs(model[name] and model[name].parents or {}) do
        for key, method in pairs(_M.methods(model, parent)) do
            all[key] = method
        end
    end
    for _, method in ipairs(model[name] and model[name].methods or {}) do
        all[method.name] = method ~= out and method or all[method.name]
    end
    return all
end

-- ---- values ----------------------------------------------------------------------

local matches

local function show(value)
    return type(value) == "string" and ("%q"):format(value) or tostring(value)
end

-- Whether a table has the fields of a class, and if that is an exact one no others.
local function has_fields(model, value, name, path)
    local fields = _M.fields(model, name)
    local element = fields["[integer]"]
    for key, v in pairs(value) do
        local field = type(key) == "number" and element or fields[key]
        local where = ("%s.%s"):format(path, tostring(key))
        if not field and model[name].exact then
            return false, ("%s is no field of %s"):format(where, name)
        end
        local ok, why = matches(model, v, field and field.type or "any", where)
        if not ok then
            return false, why
        end
    end
    for key, field in pairs(fields) do
        if value[key] == nil and field ~= element and not field.optional
            and not matches(model, nil, field.type, path) then
            return false, ("%s.%s is missing (%s)"):format(path, key, name)
        end
    end
    return true
end

local function is_object(value, methods)
    for method in pairs(methods) do
        if type(value[method]) ~= "function" then
            return false
        end
    end
    return true
end

local function is_of_class(model, value, class, path)
    if #class.fields == 0 and #class.methods == 0 then      -- one or the other of its parents
        return matches(model, value, table.concat(class.parents, "|"), path)
    elseif type(value) ~= "table" then
        return false
    end
    local methods = _M.methods(model, class.name)
    if next(methods) then
        return is_object(value, methods)
    end
    return has_fields(model, value, class.name, path)
end

local function is_one(model, value, t, path)
    local elements = t:match "^(.+)%[%]$"
    if t:find "^fun%(" then
        return type(value) == "function"
    elseif elements then
        if type(value) ~= "table" then
            return false
        end
        for i, v in ipairs(value) do
            local ok, why = matches(model, v, elements, ("%s[%d]"):format(path, i))
            if not ok then
                return false, why
            end
        end
        return true
    elseif t:find "^%(.*%)$" then
        return matches(model, value, t:sub(2, -2), path)
    elseif t:find "%?$" then
        return value == nil or matches(model, value, t:sub(1, -2), path)
    elseif t:find '^".*"$' then
        return value == t:sub(2, -2)
    elseif t == "true" or t == "false" then
        return tostring(value) == t and type(value) == "boolean"
    elseif t == "any" then
        return true
    elseif t == "integer" then
        return type(value) == "number" and value % 1 == 0
    elseif t:find "^table<" then
        return type(value) == "table"
    elseif BASIC[t] then
        return type(value) == t
    end
    local known = assert(model[t], "no such type: " .. t)
    if known.kind == "alias" then
        local types = {}
        for i, v in ipairs(known.values) do
            types[i] = v.type
        end
        return matches(model, value, table.concat(types, "|"), path)
    end
    return is_of_class(model, value, known, path)
end

-- Whether a value is of a type: true; or false and why not.
function matches(model, value, t, path)
    path = path or "it"
    local reason
    for _, part in ipairs(alternatives(t)) do
        local ok, why = is_one(model, value, part, path)
        if ok then
            return true
        end
        reason = reason or why
    end
    return false, reason or ("%s is %s, not %s"):format(path, show(value), t)
end
_M.matches = matches

return _M
