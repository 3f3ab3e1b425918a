-- What people read: README.md, the pages of examples/, and those of spec/ that README leads to.
-- Their snippets and links, for the specs that run and follow them.
local build = require "spec.support.build"
local sys = require "spec.support.sys"

local _M = {}

--- Paths from the root, in order: README.md first.
_M.list = { "README.md" }
for path in io.popen("cd " .. build.root .. " && ls examples/*/README.md"):lines() do
    _M.list[#_M.list + 1] = path
end
for _, path in ipairs { "SECURITY.md", "spec/SAFETY.md", "spec/ATTACKS.md",
    "spec/bench/README.md" } do
    _M.list[#_M.list + 1] = path
end

function _M.text(path)
    return assert(sys.read_file(build.root .. "/" .. path), path)
end

--- The snippets of a language, in the order of the page.
function _M.snippets(path, language)
    local list = {}
    for code in _M.text(path):gmatch("\n```" .. language .. "\n(.-)\n```\n") do
        list[#list + 1] = code
    end
    return list
end

--- The first of them that has this text.
function _M.snippet(path, language, text)
    for _, code in ipairs(_M.snippets(path, language)) do
        if code:find(text, 1, true) then
            return code
        end
    end
    error("no snippet has " .. text)
end

--- A snippet for nginx: what is in its init_by_lua_block, and what is in its server.
function _M.nginx(path, k)
    local init, rest = assert(_M.snippets(path, "nginx")[k])
        :match "^init_by_lua_block (%b{})\n?(.*)$"
    local server = rest:match "^server (%b{})$"
    return init:match "^{(.*)}$", server and server:match "^{%s*listen [^;]+;(.*)}$" or rest
end

--- How many snippets there are, by language.
function _M.languages(path)
    local count = {}
    for language in _M.text(path):gmatch "\n```(%w+)\n" do
        count[language] = (count[language] or 0) + 1
    end
    return count
end

-- "examples/locks/../kinds/x" -> "examples/kinds/x"
local function plain(path)
    local n
    repeat
        path, n = path:gsub("[^/]+/%.%./", "", 1)
    until n == 0
    return path
end

--- The links of a page that stay in the project: { { path, anchor }, ... }.
-- @param path  the page
-- @param text  what it says, if that is no file
function _M.links(path, text)
    local list, folder = {}, path:match "^(.*/)[^/]*$" or ""
    for link in (text or _M.text(path)):gmatch "%]%(([^)%s]+)%)" do
        if not link:find "^%a+://" then
            local target, anchor = link:match "^([^#]*)#?(.*)$"
            list[#list + 1] = { target == "" and path or plain(folder .. target), anchor }
        end
    end
    return list
end

--- The anchors of a page: its headings, as sites for code make them.
function _M.anchors(path)
    local set = {}
    for heading in ("\n" .. _M.text(path)):gmatch "\n#+ ([^\n]+)" do
        set[heading:lower():gsub("[^%w %-_]", ""):gsub(" ", "-")] = true
    end
    return set
end

--- Whether there is such a thing to make.
function _M.is_target(name)
    for _, path in ipairs { "Makefile", "rockspec/rules.mk", "spec/rules.mk" } do
        if _M.text(path):find("\n" .. name .. ":", 1, true) then
            return true
        end
    end
    return false
end

return _M
