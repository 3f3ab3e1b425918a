-- Requests of nginx that start a crowd: many owners of one name in one process, each with a
-- light thread of its own.
--   /crowd?n=&kind=&lease=&hold=   says how many were inside at once, how many were handed the
--                                  lock meanwhile, and the tokens, if any, in their order
local _M = {}

_M.SERVER = [[
    location /crowd { content_by_lua_block {
        local n, lease = tonumber(ngx.var.arg_n), tonumber(ngx.var.arg_lease)
        local hold, kind = tonumber(ngx.var.arg_hold), ngx.var.arg_kind or "getLock"
        local inside, most, tokens, threads = 0, 0, {}, {}
        local before = client:stats().handed_over
        for i = 1, n do
            threads[i] = ngx.thread.spawn(function()
                local l = client[kind](client, "x", { owner = i })
                local _, token = assert(l:tryLock(60, lease))
                inside = inside + 1
                most = math.max(most, inside)
                tokens[#tokens + 1] = token and ("%.0f"):format(token)
                if hold then
                    ngx.sleep(hold)
                end
                assert(l:remaining() > 0)
                assert(kind == "getLock" or l:token() == token)
                inside = inside - 1
                assert(l:unlock())
            end)
        end
        for i = 1, n do
            assert(ngx.thread.wait(threads[i]))
        end
        ngx.print(most, " ", client:stats().handed_over - before, " ",
            table.concat(tokens, ","))
    } }
]]

return _M
