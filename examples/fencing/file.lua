-- Fencing tokens for files whose writers are all on one host. A file beside the data holds the
-- largest token, and check and write happen under flock().
-- Needs nothing else. `make fencing` runs it; arguments: the servers of the lock.
--
-- flock() cannot replace the distributed lock: it is held for the moment of the write only. A
-- process that is stopped while it holds it makes the others wait.

local bit = require "bit"
local ffi = require "ffi"
local story = require "examples.fencing.story"
local support = require "spec.support"

ffi.cdef [[
int open(const char *path, int flags, ...);
int flock(int fd, int operation);
int fsync(int fd);
int close(int fd);
]]
local C = ffi.C

local O_RDONLY, O_RDWR, O_CREAT, O_CLOEXEC, LOCK_EX, EINTR = 0, 2, 0x40, 0x80000, 2, 4

local function open(path, flags)
    local fd = C.open(path, bit.bor(flags, O_CLOEXEC), ffi.new("int", 0x1b4))
    return fd >= 0 and fd or error("cannot open " .. path)
end

-- Waits until a file or a folder is on the disk: a mark must outlast a power failure.
local function sync(path)
    local fd = open(path, O_RDONLY)
    assert(C.fsync(fd) == 0, path)
    C.close(fd)
end

local function read_file(path)
    local file = io.open(path, "rb")
    local text = file and file:read "*a"
    if file then
        file:close()
    end
    return text
end

-- All of it or nothing, also when the power fails.
local function write_file(dir, name, text)
    local path = dir .. "/" .. name
    local file = assert(io.open(path .. ".new", "wb"))
    assert(file:write(text))
    assert(file:close())
    sync(path .. ".new")
    assert(os.rename(path .. ".new", path))
    sync(dir)
end

-- fn() as the only process that works in dir, if the token is not below the largest one seen.
-- The file that is locked is neither data nor mark, for those are replaced.
local function fenced(dir, token, fn)
    local fd = open(dir .. "/flock", bit.bor(O_RDWR, O_CREAT))
    while C.flock(fd, LOCK_EX) ~= 0 do
        assert(ffi.errno() == EINTR, "flock")
    end
    local ok, result = pcall(function()
        local mark = assert(tonumber(read_file(dir .. "/mark") or 0), "the mark is not a number")
        if token < mark then
            return false
        elseif token > mark then
            write_file(dir, "mark", ("%.0f"):format(token))
        end
        return fn()
    end)
    C.close(fd)
    if not ok then
        error(result, 0)
    elseif not result then
        return nil, "stale"
    end
    return result
end

local recipe = { title = "A file" }

function recipe.create()
    local dir = support.tmpdir()
    write_file(dir, "balance", "100")
    return dir
end

function recipe.balance(dir)
    return tonumber(read_file(dir .. "/balance"))
end

function recipe.checked(dir)
    local function read(token)
        return fenced(dir, token, function() return recipe.balance(dir) end)
    end

    local function write(token, balance)
        return fenced(dir, token, function()
            write_file(dir, "balance", ("%d"):format(balance))
            return true
        end)
    end

    return { read = read, write = write }
end

function recipe.unchecked(dir)
    local function write(_, balance)
        write_file(dir, "balance", ("%d"):format(balance))
        return true
    end

    return { read = function() return recipe.balance(dir) end, write = write }
end

story.run(arg[0], { recipe }, arg)
