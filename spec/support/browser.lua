-- Chromium without a window, driven through a pipe, as a person would: sizes, keys, what is seen.
local cjson = require "cjson"
local proc = require "spec.support.proc"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}

local Browser = {}
Browser.__index = Browser

local FLAGS = "--headless=new --remote-debugging-pipe --no-sandbox --disable-gpu --no-first-run "
    .. "--disable-dev-shm-usage --disable-extensions --disable-background-networking"

local function note(self, message)
    local p = message.params
    if message.method == "Runtime.exceptionThrown" then
        self.errors[#self.errors + 1] = p.exceptionDetails.text
    elseif message.method == "Runtime.consoleAPICalled" and p.type ~= "log" then
        self.errors[#self.errors + 1] = p.type .. ": " .. cjson.encode(p.args)
    elseif message.method == "Log.entryAdded" then
        self.errors[#self.errors + 1] = p.entry.level .. ": " .. p.entry.text
    elseif message.method == "Network.requestWillBeSent" then
        self.requests[#self.requests + 1] = p.request.url
    elseif message.method == "Page.loadEventFired" then
        self.loads = self.loads + 1
    end
end

-- Reads what the browser says next.
local function read(self)
    local line = assert(self.proc:read_line(60), "the browser says nothing")
    local message = cjson.decode(line)
    if message.method then
        note(self, message)
    end
    return message
end

function Browser:call(method, params)
    self.id = self.id + 1
    local request = { id = self.id, method = method, params = params, sessionId = self.session }
    assert(self.proc:write(cjson.encode(request) .. "\0", 30))
    local id = self.id
    while true do
        local message = read(self)
        if message.id == id then
            assert(not message.error, message.error and message.error.message)
            return message.result
        end
    end
end

--- The value of an expression in the page; a promise is waited for.
function Browser:eval(expression)
    local result = self:call("Runtime.evaluate", { expression = expression,
        returnByValue = true, awaitPromise = true })
    if result.exceptionDetails then
        error(result.exceptionDetails.exception.description or result.exceptionDetails.text, 2)
    end
    return result.result.value
end

function Browser:open(url)
    local loads = self.loads
    self:call("Page.navigate", { url = url })
    while self.loads == loads do
        read(self)
    end
end

--- The width of the window, in pixels.
function Browser:resize(width)
    self:call("Emulation.setDeviceMetricsOverride", { width = width, height = 800,
        deviceScaleFactor = 1, mobile = width < 600 })
end

--- "light" or "dark".
function Browser:scheme(name)
    self:call("Emulation.setEmulatedMedia", { features = { {
        name = "prefers-color-scheme", value = name } } })
end

--- Presses a key: "Tab", " ".
function Browser:press(key)
    local codes = { Tab = 9, [" "] = 32 }
    for _, type in ipairs { "keyDown", "keyUp" } do
        self:call("Input.dispatchKeyEvent", { type = type, key = key,
            code = key == " " and "Space" or key, windowsVirtualKeyCode = codes[key],
            text = key == " " and type == "keyDown" and " " or nil })
    end
end

function Browser:close()
    self.session = nil
    self.id = self.id + 1
    self.proc:write(cjson.encode { id = self.id, method = "Browser.close" } .. "\0", 5)
    self.proc:wait(20)
    self.proc:close()
end

--- A browser with an empty page; nil: there is none here (Debian's package chromium;
-- CHROMIUM=path). errors: what the console was told; requests: whatever was asked for.
function _M.new()
    local path = os.getenv "CHROMIUM" or "chromium"
    if not sys.sh("command -v " .. path .. " >/dev/null") then
        return nil
    end
    local dir = scope.tmpdir()
    -- Each message ends with a NUL; none has a line break.
    local command = ([[{ '%s' %s --user-data-dir='%s' about:blank 3<&0 4>&1 >/dev/null; } |
        stdbuf -oL tr '\000' '\n']]):format(path, FLAGS, dir)
    local self = setmetatable({ id = 0, loads = 0, errors = {}, requests = {}, dir = dir },
        Browser)
    self.proc = proc.spawn { "sh", "-c", command, stdin = "pipe", stdout = "pipe",
        stderr = dir .. "/log", env = { HOME = dir } }
    local target = self:call("Target.createTarget", { url = "about:blank" })
    self.session = self:call("Target.attachToTarget", { targetId = target.targetId,
        flatten = true }).sessionId
    for _, domain in ipairs { "Page", "Runtime", "Log", "Network" } do
        self:call(domain .. ".enable")
    end
    return self
end

return _M
