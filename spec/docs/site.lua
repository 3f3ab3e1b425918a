-- Writes what mkdocs makes the site from: README, the pages that links lead to from there, and the
-- reference as ldoc made it. A file of code, or a folder, that a link leads to becomes a page.
--
--     luajit spec/docs/site.lua DIR REFERENCE      make site
local pages = require "spec.support.pages"
local sys = require "spec.support.sys"

local DIR, REFERENCE = assert(arg[1]), assert(arg[2])
local SITE = sys.realpath "examples/site"
local LANGUAGES = { lua = "lua", c = "c", sh = "sh", conf = "nginx", yml = "yaml", yaml = "yaml",
    service = "ini", timer = "ini" }

local function write(path, text)
    assert(sys.sh(("mkdir -p '%s/docs/%s'"):format(DIR, path:match "^(.*/)" or "")))
    sys.write_file(DIR .. "/docs/" .. path, text)
end

local function files_of(command)
    local list, pipe = {}, io.popen(command)
    for path in pipe:lines() do
        list[#list + 1] = path
    end
    pipe:close()
    return list
end

-- Where a link leads on the site: a path from its root.
local function place_of(path)
    if path:find "%.md$" or path:find "%.svg$" or path:find "%.png$" then
        return path
    elseif path:find "^lua/redlock/types" then
        local name = path:match "types/(%w+)%.lua$"
        return name and sys.read_file(("%s/modules/%s.html"):format(REFERENCE, name))
            and ("reference/modules/%s.md"):format(name) or "reference/index.md"
    elseif sys.sh("test -d " .. path) then
        return path .. "/index.md"
    end
    return path .. ".md"
end

local function code_page(path)
    return ("# %s\n\n```%s\n%s```\n"):format(path, LANGUAGES[path:match "%.(%w+)$"] or "text",
        pages.text(path))
end

local function folder_page(path)
    local lines = { "# " .. path, "" }
    for _, name in ipairs(files_of("ls " .. path)) do
        lines[#lines + 1] = ("- [%s](%s)"):format(name, name)
    end
    return table.concat(lines, "\n") .. "\n"
end

-- A text with its links to other files of the project as links to their places on the site.
local function relinked(path, text)
    local up = ("../"):rep(select(2, path:gsub("/", "")))
    return (text:gsub("%]%([^)%s]+%)", function(link)
        local to = pages.links(path, link)[1]
        if to and to[1] ~= path then
            local place = place_of((to[1]:gsub("/$", "")))
            return ("](%s%s%s)"):format(up, place, to[2] ~= "" and "#" .. to[2] or "")
        end
    end))
end

-- The text of a page, and the path that its links start from; nil: code has no links.
local function source_of(path, place)
    if path:find "%.md$" then
        return pages.text(path), path
    elseif place == path .. "/index.md" then
        return folder_page(path), place
    end
    return code_page(path)
end

-- A page, and those that it leads to.
local done = {}
local function add(path)
    path = path:gsub("/$", "")
    local place = place_of(path)
    if done[place] or place:find "^reference/" then
        return
    end
    done[place] = true
    if not place:find "%.md$" then
        return write(place, pages.text(path))
    end
    local text, from = source_of(path, place)
    write(place, from and relinked(from, text) or text)
    for _, link in ipairs(from and pages.links(from, text) or {}) do
        add(link[1])
    end
end

-- What ldoc made, less its own navigation.
local function add_reference()
    for _, path in ipairs(files_of("cd " .. REFERENCE .. " && ls index.html modules/*.html")) do
        local html = sys.read_file(REFERENCE .. "/" .. path)
        local content = html:match '<div id="content">(.*)</div> <!%-%- id="content" %-%->'
        write("reference/" .. path:gsub("html$", "md"),
            ('<div class="reference">%s</div>\n'):format(assert(content, path)))
    end
end

-- README's table of pages is the site's navigation, with the parts of the reference, and the pages
-- that only other pages lead to.
local function navigation()
    local lines, listed = { "nav:", "  - redlock: README.md" }, { ["README.md"] = true }
    local function entry(name, place)
        lines[#lines + 1], listed[place] = ("    - %q: %s"):format(name, place), true
    end
    for title, links in pages.text("README.md"):match "\n## Pages\n(.*)"
        :gmatch "\n| (%l[^|]*) | ([^\n]*) |" do
        lines[#lines + 1] = ("  - %s:"):format(title)
        for name, path in links:gmatch "%[([^%]]+)%]%(([^)]+)%)" do
            entry(name, place_of(path))
        end
    end
    lines[#lines + 1] = "  - reference:"
    for _, path in ipairs(files_of("cd " .. REFERENCE .. " && ls modules/*.html")) do
        entry(path:match "([%w_.]+)%.html$", "reference/" .. path:gsub("html$", "md"))
    end
    lines[#lines + 1] = "  - tests:"
    for _, path in ipairs(files_of "ls spec/*/README.md") do
        if done[path] and not listed[path] then
            entry(path:match "/(%w+)/", path)
        end
    end
    return table.concat(lines, "\n")
end

add "README.md"
add_reference()
write("extra.css", pages.text "examples/site/extra.css")
sys.write_file(DIR .. "/mkdocs.yml", ("INHERIT: %s/mkdocs.yml\nhooks: [%s/toc.py]\ndocs_dir: docs\n"
    .. "site_dir: ../site\n%s\n"):format(SITE, SITE, navigation()))
