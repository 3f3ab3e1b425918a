#!/usr/bin/env -S redlock lua
-- redlock lua examples/recipes/hello.lua
local lock = client:getLock "hello"
local ok, err = lock:tryLock(5)                     -- waits for 5 s
if not ok then
    print("not now: " .. err.code)
    return false
end
print(("held for %.0f s, and renewed"):format(lock:remaining()))
assert(lock:unlock())
