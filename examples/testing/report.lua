-- A program that several machines start at about the same time: one of them writes the report, page
-- by page, and stops when it no longer holds the lock.
local _M = {}

-- save(page, token) keeps a page; it may take long. "written"; or nil and why not.
function _M.write(client, pages, save)
    local lock = client:getFencedLock "report"
    local ok, token = lock:tryLock()
    if not ok then
        return nil, token.code
    end
    for page = 1, pages do
        if not lock:isValid() then
            return nil, "lost"
        end
        save(page, token)
    end
    local released, err = lock:unlock()
    return released and "written", err and err.code
end

return _M
