-- What the command takes, what --help says, the manual page, and what shells complete agree.
local cli = require "spec.support.command"
local options = require "redlock.servers.options"
local help = require "redlock.cli.help"
local flags = require "redlock.cli.flags"
local support = require "spec.support"
local sys = require "spec.support.sys"

local home, cluster

setup(function()
    home = support.tmpdir()
    cluster = support.cluster(1)
    for _, shell in ipairs { "bash", "zsh", "fish" } do
        local name = shell == "zsh" and "_redlock" or shell
        assert(support.sh(("luajit rockspec/completion %s %s/%s"):format(shell, home, name)))
    end
    assert(support.sh(("luajit rockspec/man %s/redlock.1"):format(home)))
end)

local function redlock(...)
    local status, text = cli.ends(cli.start(cluster, home, {}, ...))
    return text, status
end

-- A sorted list of the words that a pattern finds.
local function found(text, pattern)
    local set, list = {}, {}
    for word in text:gmatch(pattern) do
        if not set[word] then
            set[word] = true
            list[#list + 1] = word
        end
    end
    table.sort(list)
    return list
end

-- Where a help has a row for a flag.
local function flags_in(text)
    return found(("\n" .. text):gsub("\n  (%-%w), %-%-", "\n  --"), "\n  (%-%-[%w-]+)")
end

local function flags_of(word)
    local set = {}
    for _, rows in ipairs { flags.common, word and help.verb(word).flags or { { "--version" } } } do
        for _, row in ipairs(rows) do
            set[#set + 1] = row[1]
        end
    end
    table.sort(set)
    return set
end

-- A program of the shell that says what is completed at the end of a line, a word a line.
local COMPLETE = {
    bash = [[
        . "$0/bash"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _redlock
        printf '%s\n' "${COMPREPLY[@]}"]],
    -- Not what has the same letters somewhere, which fish 4.0 adds.
    fish = [[
        set home $argv[1]
        source $home/fish
        complete -C (string join -- ' ' $argv[2..-1]) | string replace -r '\t.*' '' \
            | string match -- "$argv[-1]*"]],
    -- A terminal in which TAB is pressed; what is offered comes between two NULs.
    zsh = [==[
        zmodload zsh/zpty
        zpty shell zsh -f -i
        cat > $0/init <<'END'
            PROMPT=
            fpath=($DIR $fpath)
            autoload -U compinit && compinit -u -d $DIR/zcompdump
            bindkey '^I' complete-word
            said() { print -rn -- $'\0' }
            finished() { print -rn -- $'\0'; exit }
            compprefuncs=(said) comppostfuncs=(finished)
            zstyle ':completion:*' insert-tab false
            compadd() {
                if [[ " ${@[1,(i)(-|--)]} " == *' -'[OAD]' '* ]]; then
                    builtin compadd "$@"
                    return
                fi
                local -a hits
                builtin compadd -A hits "$@"
                (( $#hits )) && print -rl -- $hits
                builtin compadd "$@"
            }
            print ready
END
        zpty -w shell "DIR=${(q)0}; source ${(q)0}/init"
        until zpty -r shell line && [[ $line == ready* ]]; do :; done
        shift_=$*
        zpty -w -n shell "$shift_"$'\t'
        zpty -r shell line $'*\0'
        zpty -r shell line $'*\0'
        print -r -- $line | tr -d '\r\0']==],
}

local function is_here(program)
    return support.sh(("command -v %s > /dev/null"):format(program))
end

local function completes(shell, ...)
    local spec = { shell, "-c", COMPLETE[shell], stdout = "pipe",
        env = { HOME = home, XDG_CONFIG_HOME = home, XDG_DATA_HOME = home, TERM = "dumb" } }
    if shell == "zsh" then
        table.insert(spec, 2, "-f")
    elseif shell == "fish" then        -- fish 3.1 hands what is behind -c no arguments
        spec[2], spec[3] = home .. "/complete.fish", nil
        sys.write_file(spec[2], COMPLETE.fish)
    end
    for _, word in ipairs { home, "redlock", ... } do
        spec[#spec + 1] = word
    end
    local p = support.spawn(spec)
    local text = p:read_all(30)
    p:wait(10)
    return text
end

describe("redlock --help", function()
    it("has each flag that the command takes", function()
        assert.same(flags_of(), flags_in(redlock "--help"))
        for _, word in ipairs(help.verbs) do
            local own = {}
            for i, row in ipairs(help.verb(word).flags) do
                own[i] = row[1]
            end
            table.sort(own)
            assert.same(own, flags_in(redlock(word, "--help")), word)
        end
    end)

    -- Hundreds of command lines, in one process.
    it("has flags that are taken, and no others are", function()
        local p = support.lua([[
            local main = require("redlock.cli.main").main
            for line in io.lines() do
                local words = {}
                for word in line:gmatch "%S+" do words[#words + 1] = word end
                print("\n\0" .. main(words))
            end
        ]], { stderr = "stdout" })
        local function says(...)
            p:write(table.concat({ ... }, " ") .. "\n")
            local lines = {}
            for line in function() return p:read_line(30) end do
                if line:sub(1, 1) == "\0" then
                    return table.concat(lines, "\n"), tonumber(line:sub(2))
                end
                lines[#lines + 1] = line
            end
            error(table.concat(lines, "\n"))
        end
        for _, word in ipairs(help.verbs) do
            for _, flag in ipairs(flags_of(word)) do
                local text, status = says(word, flag .. "=1", "--help")
                assert.is_true(status == 0 or text:find "takes no value" ~= nil, text)
            end
            for _, flag in ipairs { "--wait", "--force", "--server", "-w", "-f", "-n" } do
                local text, status = says(word, flag, "1", "--help")
                local known = flags.kinds(help.verb(word).flags)[flag] ~= nil
                assert.equal(known, not text:find("unknown option " .. flag, 1, true), text)
                assert.equal(known, status == 0, text)
            end
        end
    end)

    it("has all that are options of the client", function()
        for _, row in ipairs(options.rows) do
            local kind = flags.kinds(row.of and help.verb(row.of).flags)[row.flag or "--json"]
            assert.truthy(kind, row.flag)
            local seconds = type(row.default) == "number" or row.name == "max_hold"
            assert.equal(row.flag ~= nil and seconds, kind == "=S", row.flag)
        end
    end)
end)

describe("completion in bash at a terminal", function()
    it("takes verbs for words where a folder is called so, and files for files", function()
        if not is_here "script" then
            return pending "no script (util-linux) here"
        end
        local dir = home .. "/folder"
        assert(support.sh("mkdir -p " .. dir .. "/run " .. dir .. "/conf"))
        sys.write_file(dir .. "/rc", ([[
            . %s/bash
            redlock() { printf '<%%s>' "$@"; echo; }
            PS1=
        ]]):format(home))
        sys.write_file(dir .. "/typed", "redlock ru\thello\nredlock lua con\t\nexit\n")
        local pipe = io.popen(("cd %s && script -qec 'bash --noprofile --rcfile rc -i' /dev/null "
            .. "< typed 2>&1"):format(dir))
        local text = pipe:read "*a"
        pipe:close()
        assert.matches("<run><hello>", text)
        assert.matches("<lua><conf/>", text)
    end)
end)

describe("the manual page", function()
    it("says what --help says, in 80 columns", function()
        if not (is_here "man" and is_here "col") then
            return pending "no man here"
        end
        local pipe = io.popen(("cd %s && MANWIDTH=80 man --warnings -l redlock.1 2> warnings "
            .. "| col -bx"):format(home))
        local page = pipe:read "*a"
        pipe:close()
        assert.equal("", sys.read_file(home .. "/warnings"))
        for line in page:gmatch "[^\n]+" do
            assert.is_true(#line <= 80, line)
        end
        page = page:gsub("%s+", " ")
        local function has(text)
            for line in text:gmatch "[^\n]+" do
                local plain = line:gsub("%s+", " "):gsub("^ ", "")
                assert.truthy(page:find(plain, 1, true), plain)
            end
        end
        has((redlock "--help"):gsub("^[^\n]*\n", ""))
        for _, word in ipairs(help.verbs) do
            has(redlock(word, "--help"))
        end
    end)
end)

it("the first example of --help works as typed", function()
    local held, wait = redlock "--help":match "run hello %-%- sleep (%d+)\n.-hello %-%-wait (%d+) "
    assert.is_true(tonumber(wait) > tonumber(held))
end)

describe("the exit statuses", function()
    it("are in the help, all together and for each verb", function()
        local general = help.general():gsub("%s+", " ")
        for _, row in ipairs(help.statuses) do
            assert.matches(table.concat(row, " "), general, 1, true)
            for verb in (row[2] == "all" and "run, dev" or row[2]):gmatch "%l+" do
                assert.matches(row[1] .. " " .. row[3], help.for_verb(verb):gsub("%s+", " "), 1,
                    true)
            end
        end
    end)
end)

describe("what is completed in", function()
    for shell in pairs(COMPLETE) do
        it(shell .. " is what --help has", function()
            if not is_here(shell) then
                return pending("no " .. shell .. " here")
            end
            local function offers(pattern, ...)
                return found("\n" .. completes(shell, ...), "\n(" .. pattern .. ")")
            end
            local verbs = { "help", unpack(help.verbs) }
            table.sort(verbs)
            assert.same(verbs, offers("%a+", ""))
            assert.same(flags_of(), offers("%-%-[%w-]+", "--"))
            for _, word in ipairs(help.verbs) do
                assert.same(flags_of(word), offers("%-%-[%w-]+", word, "--"), word)
            end
            assert.same({ "--wait" }, offers("[%w-]+", "run", "x", "--wa"))
            assert.same({ "--json" }, offers("[%w-]+", "check", "--wait", "--js"))
            assert.same({}, offers("[%w-]+", "--timeout", "st"))
            assert.same({ "status" }, offers("%S+", "st"))
            assert.same({ "status" }, offers("%S+", "--json", "st"))
            assert.same({ "unlock" }, offers("%S+", "help", "un"))
        end)

        it(shell .. " are files and commands, where they belong", function()
            if not is_here(shell) then
                return pending("no " .. shell .. " here")
            end
            sys.write_file(home .. "/alone.lua", "")
            for _, words in ipairs { { "lua" }, { "--config" }, { "run", "--ca-file" },
                { "lua", home .. "/alone.lua" }, { "dev", "--server" } } do
                words[#words + 1] = home .. "/alo"
                assert.matches("alone.lua", completes(shell, unpack(words)))
            end
            assert.matches("luajit", completes(shell, "run", "x", "--", "luaji"))
            assert.is_nil(completes(shell, "status", home .. "/alo"):find "alone")
            assert.is_nil(completes(shell, "run", "x", "--", "true", "--"):find "wait")
            assert.is_nil(completes(shell, "lua", home .. "/alone.lua", "--"):find "timeout")
        end)
    end
end)
