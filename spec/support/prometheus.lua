-- What Prometheus would read: the samples of a text, and promtool's word on it.
local proc = require "spec.support.proc"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}

--- The samples of a text: 'name{a="b"}' -> number.
function _M.samples(text)
    local list = {}
    for line in text:gmatch "[^\n]+" do
        if not line:find "^#" then
            local name, value = line:match "^(.-) (%S+)$"
            assert(list[name] == nil, "twice: " .. line)
            list[name] = assert(tonumber(value), line)
        end
    end
    return list
end

local function found()
    local path = os.getenv "PROMTOOL" or "promtool"
    return sys.sh("command -v " .. path .. " >/dev/null") and path
end

local function run(argv)
    argv.stdout, argv.stderr = "pipe", "stdout"
    local p = proc.spawn(argv)
    local said = p:read_all(60)
    return p:wait(10), said
end

--- promtool's complaints about a text in a format; "": none; nil: there is no promtool (Debian's
-- package prometheus; PROMTOOL=path).
function _M.complaints(text, how)
    local promtool = found()
    if not promtool then
        return nil
    end
    local dir = scope.tmpdir()
    if how == "openmetrics" then         -- it reads that with a time behind each sample alone
        text = text:gsub("([^\n]+)\n", function(line)
            return line:find "^#" and line .. "\n" or line .. " 1700000000\n"
        end)
    end
    sys.write_file(dir .. "/text", text)
    local status, said
    if how == "openmetrics" then
        status, said = run { promtool, "tsdb", "create-blocks-from", "openmetrics", dir .. "/text",
            dir .. "/blocks" }
        said = status == 0 and "" or said
    else
        status, said = run { "sh", "-c", ('"$0" check metrics < %s/text'):format(dir), promtool }
    end
    return status == 0 and said or said .. "\nstatus " .. status
end

--- The same of a file of rules, or of a configuration ("rules", "config").
function _M.check(what, path)
    local promtool = found()
    if not promtool then
        return nil
    end
    local status, said = run { promtool, "check", what, path }
    return status == 0 and "" or said
end

--- The same of a file of tests of rules.
function _M.test(path)
    local promtool = found()
    if not promtool then
        return nil
    end
    local status, said = run { promtool, "test", "rules", path }
    return status == 0 and "" or said
end

return _M
