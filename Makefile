# redlock - `make help` lists what there is to make.
#
# The core is one shared object: hiredis linked in statically where it can be had so,
# nothing exported but rl_*, never unloaded. Why: nginx modules bring their own copies of
# hiredis, and a library with threads must outlive the Lua state that loaded it.

VERSION := $(shell sed -n 's/.*_VERSION = "\([^"]*\)".*/\1/p' lua/redlock/init.lua)
ABI     := $(shell sed -n 's/^\#define RL_ABI //p' c/redlock.h)

PREFIX  ?= /usr/local
DESTDIR ?=
LUADIR  ?= $(PREFIX)/share/lua/5.1
LIBDIR  ?= $(PREFIX)/lib/lua/5.1
BINDIR  ?= $(PREFIX)/bin
CLIBDIR ?= $(PREFIX)/lib
INCDIR  ?= $(PREFIX)/include
DOCDIR  ?= $(PREFIX)/share/doc/redlock

CC      ?= cc
STD     ?= c11
CFLAGS  ?= -O2 -g $(HARDEN)
HARDEN   = -fstack-protector-strong $(X86_64) -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
X86_64  := $(if $(findstring x86_64,$(shell $(CC) -dumpmachine)),-fstack-clash-protection -fcf-protection)
LUAJIT  ?= luajit
BUILD   ?= build

# HIREDIS=static links libhiredis.a in; HIREDIS=shared loads libhiredis.so at run time
# (c/node/reader.h), the default where there is no static one. HIREDIS_INCDIR, HIREDIS_LIBDIR:
# of one that the compiler does not find by itself.
HIREDIS_INCDIR ?=
HIREDIS_LIBDIR ?=
find_hiredis = $(wildcard $(if $(HIREDIS_LIBDIR),$(HIREDIS_LIBDIR)/libhiredis.$1,$\
    $(shell $(CC) -print-file-name=libhiredis.$1 2> /dev/null)))
HIREDIS_A  := $(call find_hiredis,a)
HIREDIS_SO := $(call find_hiredis,so)
HIREDIS    ?= $(if $(HIREDIS_A),static,$(if $(HIREDIS_SO),shared,static))

ifeq ($(HIREDIS),shared)
HIREDIS_NAME := $(shell readelf -d $(HIREDIS_SO) | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
ifneq ($(HIREDIS_LIBDIR),)
CORE_HIREDIS := -Wl,-rpath,$(HIREDIS_LIBDIR)
endif
LIBHIREDIS   := $(HIREDIS_SO) $(CORE_HIREDIS)
else
LIBHIREDIS   := $(or $(HIREDIS_A),-l:libhiredis.a)
CORE_HIREDIS := $(LIBHIREDIS)
endif

# TLS=no builds without OpenSSL, TLS=yes insists on it. Its functions are called through a
# table that is filled at run time: nothing is linked.
OPENSSL := $(shell pkg-config --cflags 'openssl >= 1.1.1' 2> /dev/null && echo yes)
TLS     ?= $(or $(filter yes,$(OPENSSL)),no)

WARN  = -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror=incompatible-pointer-types \
        -Wno-unknown-warning-option -Wno-format-truncation $(if $(STRICT),-Werror)
FLAGS = $(if $(STD),-std=$(STD)) -D_GNU_SOURCE -Ic -I$(BUILD) $(CPPFLAGS) $(WARN) \
        $(if $(HIREDIS_INCDIR),-I$(HIREDIS_INCDIR)) \
        $(if $(HIREDIS_NAME),-DHIREDIS_SHARED='"$(HIREDIS_NAME)"') \
        $(if $(filter yes,$(TLS)),$(filter-out yes,$(OPENSSL)))
DEPS  = -MMD -MP
# Where it is built shows nowhere: builds in two folders are the same bytes.
HIDE  = -fPIC -fvisibility=hidden '-fdebug-prefix-map=$(CURDIR)=.'
LINK  = -shared -pthread -Wl,-z,nodelete -Wl,-z,relro,-z,now -Wl,-Bsymbolic \
        -Wl,--exclude-libs,ALL -Wl,-soname,libredlock.so.$(ABI) \
        $(if $(HIREDIS_LIBDIR),-L$(HIREDIS_LIBDIR))

SRC  = $(filter-out c/world/% $(if $(filter yes,$(TLS)),c/io/tls_none.c,c/io/tls.c c/io/openssl.c),\
           $(wildcard c/*/*.c c/*/*/*.c))
OBJ  = $(SRC:c/%.c=$(BUILD)/obj/%.o)
CORE = $(BUILD)/redlock/core-$(ABI).so

# The core in a world of its own (redlock.testing, and the simulator of the specs): the same
# objects, but for those that touch sockets and threads, whose places c/world takes.
IN_WORLD = $(filter-out $(addprefix c/,io/net.c io/conn.c io/linger.c \
               engine/keeper.c),$(SRC)) $(wildcard c/world/*.c)
WORLD_OBJ = $(IN_WORLD:c/%.c=$(BUILD)/obj/%.o)
WORLD_CORE = $(BUILD)/redlock/world-$(ABI).so

.PHONY: all
all: $(BUILD)/redlock/core.so $(WORLD_CORE) $(BUILD)/redlock/cdef.lua ## build the core, below build/

# The words of the codes, and of the reasons, from their names: report.c includes both.
$(BUILD)/code_words.h: c/redlock.h
	@mkdir -p $(@D)
	for e in code why; do awk -v e=$$e -F '[ ,]+' '$$0 ~ "^typedef enum rl_" e { on = 1 } \
	    /^}/ { on = 0 } on && $$2 ~ /^RL_/ && $$2 !~ /^RL_(CODES|WHYS)$$/ { word = tolower($$2); \
	    sub("^rl_(why_)?", "", word); printf "[%s] = \"%s\",\n", $$2, word }' $< > $(@D)/$${e}_words.h; done

# Compiled anew when one of the settings above changes.
.PHONY: always
$(BUILD)/flags: always $(BUILD)/code_words.h
	@mkdir -p $(@D)
	@echo '\#include <hiredis/hiredis.h>' | $(CC) $(FLAGS) -x c -E - > /dev/null || { \
	    echo "Please install a C compiler and hiredis. On Debian: apt-get install" \
	    "gcc libc6-dev luajit libhiredis-dev libssl-dev pkg-config" >&2; exit 1; }
	@new=$@.$$$$ && echo $(CC) $(FLAGS) $(CFLAGS) $(LDFLAGS) $(LIBHIREDIS) TLS=$(TLS) > $$new && \
	    if cmp -s $$new $@; then rm $$new; else mv $$new $@; fi

$(BUILD)/obj/%.o: c/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(DEPS) $(HIDE) $(CFLAGS) -c -o $@ $<

$(CORE): $(OBJ)
	@mkdir -p $(@D)
	$(CC) $(LINK) $(LDFLAGS) -o $@ $(OBJ) $(CORE_HIREDIS) -ldl

$(WORLD_CORE): $(WORLD_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LINK) -Wl,-soname,$(@F) $(LDFLAGS) -o $@ $(WORLD_OBJ) $(CORE_HIREDIS) -ldl

# The name without the ABI is for tools and tests; Lua loads core-<abi>.so.
$(BUILD)/redlock/core.so: $(CORE)
	ln -sf core-$(ABI).so $@

# The FFI declarations are the headers themselves, less comments.
declarations = sed -e '1,/cdef begin/d' -e '/cdef end/,$$d'
$(BUILD)/redlock/cdef.lua: c/redlock.h c/world/world.h $(BUILD)/flags
	@mkdir -p $(@D)
	( echo 'return { abi = $(ABI), tls = $(if $(filter yes,$(TLS)),true,false), cdef = [[' && \
	  $(declarations) c/redlock.h && echo ']], world = [[' && \
	  $(declarations) c/world/world.h && echo ']] }' ) > $@

# ---- installing --------------------------------------------------------------------

.PHONY: install install-lua install-c
install: install-lua install-c install-doc ## install all below PREFIX (/usr/local); DESTDIR= stages it

install-lua: all ## install only the Lua modules, core and command
	find lua -name '*.lua' | while read -r f; do \
	    install -D -m 644 $$f "$(DESTDIR)$(LUADIR)/$${f#lua/}" || exit 1; done
	install -D -m 644 $(BUILD)/redlock/cdef.lua "$(DESTDIR)$(LUADIR)/redlock/cdef.lua"
	install -D -m 755 $(CORE) "$(DESTDIR)$(LIBDIR)/redlock/core-$(ABI).so"
	install -D -m 755 $(WORLD_CORE) "$(DESTDIR)$(LIBDIR)/redlock/world-$(ABI).so"
	install -D -m 755 lua/redlock/cli/redlock "$(DESTDIR)$(BINDIR)/redlock"

install-c: all ## install only redlock.h, the C library and redlock.pc
	install -D -m 644 c/redlock.h "$(DESTDIR)$(INCDIR)/redlock.h"
	install -D -m 755 $(CORE) "$(DESTDIR)$(CLIBDIR)/libredlock.so.$(ABI)"
	ln -sf libredlock.so.$(ABI) "$(DESTDIR)$(CLIBDIR)/libredlock.so"
	[ -n "$(DESTDIR)" ] || PATH="$$PATH:/usr/sbin:/sbin" ldconfig 2> /dev/null || true
	install -d "$(DESTDIR)$(CLIBDIR)/pkgconfig"
	sed -e 's,@version@,$(VERSION),' -e 's,@libdir@,$(CLIBDIR),' -e 's,@incdir@,$(INCDIR),' \
	    rockspec/redlock.pc.in > "$(DESTDIR)$(CLIBDIR)/pkgconfig/redlock.pc"

# LuaRocks takes such files by itself.
install-doc:
	install -D -m 644 LICENSE "$(DESTDIR)$(DOCDIR)/LICENSE"

.PHONY: uninstall
uninstall: ## remove what was installed; same PREFIX and DESTDIR
	rm -rf "$(DESTDIR)$(LUADIR)/redlock" "$(DESTDIR)$(LIBDIR)/redlock" "$(DESTDIR)$(DOCDIR)"
	rm -f "$(DESTDIR)$(BINDIR)/redlock" "$(DESTDIR)$(INCDIR)/redlock.h" \
	    "$(DESTDIR)$(CLIBDIR)/pkgconfig/redlock.pc" "$(DESTDIR)$(CLIBDIR)"/libredlock.so*

# Not in a copy for users alone.
-include rockspec/rules.mk spec/rules.mk

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | \
	    awk -F '\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: clean
clean: ## remove build/
	rm -rf $(BUILD)

# What each object was made of.
-include $(shell find $(BUILD) -type f -name '*.d' 2> /dev/null)
