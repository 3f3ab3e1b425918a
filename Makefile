# redlock - make demo | make fencing | make test | make sim | make bench | make install
#
# The core is one shared object: hiredis linked in statically where it can be had so,
# nothing exported but rl_*, never unloaded. Why: nginx modules bring their own copies of
# hiredis, and a library with threads must outlive the Lua state that loaded it.

PREFIX  ?= /usr/local
DESTDIR ?=
LUADIR  ?= $(PREFIX)/share/lua/5.1
LIBDIR  ?= $(PREFIX)/lib/lua/5.1
BINDIR  ?= $(PREFIX)/bin

CC      ?= cc
STD     ?= c11
CFLAGS  ?= -O2 -g
LUAJIT  ?= luajit
BUILD   ?= build

# HIREDIS=static links libhiredis.a in; HIREDIS=shared loads libhiredis.so at run time
# (c/reader.h), the default where there is no static one. HIREDIS_INCDIR, HIREDIS_LIBDIR:
# of one that the compiler does not find by itself.
HIREDIS_INCDIR ?=
HIREDIS_LIBDIR ?=
find_hiredis = $(wildcard $(if $(HIREDIS_LIBDIR),$(HIREDIS_LIBDIR)/libhiredis.$1,$\
    $(shell $(CC) -print-file-name=libhiredis.$1)))
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

ABI := $(shell sed -n 's/^\#define RL_ABI //p' c/redlock.h)

WARN  = -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror=incompatible-pointer-types \
        -Wno-unknown-warning-option -Wno-format-truncation $(if $(STRICT),-Werror)
FLAGS = $(if $(STD),-std=$(STD)) -D_GNU_SOURCE $(CPPFLAGS) $(WARN) $(if $(HIREDIS_INCDIR),-I$(HIREDIS_INCDIR)) \
        $(if $(HIREDIS_NAME),-DHIREDIS_SHARED='"$(HIREDIS_NAME)"')
HIDE  = -fPIC -fvisibility=hidden
LINK  = -shared -pthread -Wl,-z,nodelete -Wl,-z,relro,-z,now -Wl,-Bsymbolic \
        -Wl,--exclude-libs,ALL $(if $(HIREDIS_LIBDIR),-L$(HIREDIS_LIBDIR))

# TLS=no builds without OpenSSL, TLS=yes insists on it. Its functions are called through a
# table that is filled at run time: nothing is linked.
ifndef TLS
TLS := $(shell pkg-config --atleast-version=1.1.1 openssl 2>/dev/null && echo yes || echo no)
endif
FLAGS += $(if $(filter yes,$(TLS)),$(shell pkg-config --cflags openssl 2>/dev/null))

SRC  = $(filter-out $(if $(filter yes,$(TLS)),c/tls_none.c,c/tls.c c/openssl.c),$(wildcard c/*.c))
OBJ  = $(SRC:c/%.c=$(BUILD)/obj/%.o)
CORE = $(BUILD)/redlock/core-$(ABI).so

.PHONY: all
all: $(BUILD)/redlock/core.so $(BUILD)/redlock/cdef.lua

$(BUILD)/obj/%.o: c/%.c $(wildcard c/*.h)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(HIDE) $(CFLAGS) -c -o $@ $<

$(CORE): $(OBJ)
	@mkdir -p $(@D)
	$(CC) $(LINK) $(LDFLAGS) -o $@ $(OBJ) $(CORE_HIREDIS) -ldl

# The name without the ABI is for tools and tests; Lua loads core-<abi>.so.
$(BUILD)/redlock/core.so: $(CORE)
	ln -sf core-$(ABI).so $@

# The FFI declarations are the public header itself, less comments.
$(BUILD)/redlock/cdef.lua: c/redlock.h
	@mkdir -p $(@D)
	( echo 'return { abi = $(ABI), tls = $(if $(filter yes,$(TLS)),true,false), cdef = [[' && \
	  sed -e '1,/cdef begin/d' -e '/cdef end/,$$d' c/redlock.h && echo ']] }' ) > $@

# ---- installing --------------------------------------------------------------------

LUA_FILES = $(shell find lua -name '*.lua')

.PHONY: install
install: all
	for f in $(LUA_FILES); do \
	    install -D -m 644 $$f "$(DESTDIR)$(LUADIR)/$${f#lua/}" || exit 1; done
	install -D -m 644 $(BUILD)/redlock/cdef.lua "$(DESTDIR)$(LUADIR)/redlock/cdef.lua"
	install -D -m 755 $(CORE) "$(DESTDIR)$(LIBDIR)/redlock/core-$(ABI).so"
	install -D -m 755 lua/redlock/cli/redlock "$(DESTDIR)$(BINDIR)/redlock"

# ---- trying and testing ------------------------------------------------------------

TOOLS = $(BUILD)/spec

$(TOOLS)/launch $(TOOLS)/hostile: $(TOOLS)/%: spec/support/%.c $(wildcard spec/support/*.h)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -O1 -g -o $@ $<

$(TOOLS)/proxy: spec/support/proxy.c spec/support/carry.c $(wildcard spec/support/*.h)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -O1 -g -o $@ $(filter %.c,$^)

$(TOOLS)/floor: spec/bench/floor.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(CFLAGS) -o $@ $< $(LIBHIREDIS)

ASAN = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
TSAN = -fsanitize=thread

# The unit tests link the objects that ship; the sanitizer build compiles them again.
PURE = buf reader wire quorum timer cmd info clock node core close guard round answer vote fence lease release handover keep watch

# test_memory.c makes allocations fail.
WRAP = -Wl,--wrap=malloc,--wrap=calloc

UNIT = $(filter-out spec/c/threads.c spec/c/refused.c spec/c/ends.c,$(wildcard spec/c/*.[ch]))

$(TOOLS)/unit: $(UNIT) $(PURE:%=$(BUILD)/obj/%.o)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -g -Ic -o $@ $(filter %.c %.o,$^) $(LDFLAGS) $(WRAP) $(LIBHIREDIS) -ldl

$(TOOLS)/unit-sanitized: $(UNIT) $(PURE:%=c/%.c)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -g -O1 $(ASAN) -Ic -o $@ $(filter %.c,$^) $(WRAP) $(LIBHIREDIS) -ldl

# The whole core under the sanitizers: below a program with threads, and below Lua.
THREADS = spec/c/threads.c spec/c/test.h $(SRC) $(wildcard c/*.h)

$(TOOLS)/threads-tsan: SANITIZER = $(TSAN)
$(TOOLS)/threads-asan: SANITIZER = $(ASAN)
$(TOOLS)/threads-tsan $(TOOLS)/threads-asan: $(THREADS)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -g -O1 $(SANITIZER) -pthread -Ic -o $@ $(filter %.c,$^) \
	    $(if $(HIREDIS_LIBDIR),-L$(HIREDIS_LIBDIR)) $(LIBHIREDIS) -ldl

# The objects that ship, with calls of the system in between that may be refused.
REFUSE = $(foreach f,malloc calloc realloc strdup socket getsockopt epoll_create1 epoll_ctl \
    epoll_wait timerfd_create eventfd fcntl bind accept4 mkdtemp send recv getrandom \
    pthread_create,-Wl,--wrap=$f)

$(TOOLS)/refused: spec/c/refused.c $(OBJ)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -g -pthread -Ic -o $@ $^ $(REFUSE) $(LIBHIREDIS) -ldl

$(TOOLS)/refused-asan: spec/c/refused.c $(SRC) $(wildcard c/*.h)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -g -O1 $(ASAN) -pthread -Ic -o $@ $(filter %.c,$^) $(REFUSE) $(LIBHIREDIS) -ldl

# Awkward moments for threads, forks, signals and exits.
$(TOOLS)/ends: SANITIZER = $(ASAN)
$(TOOLS)/ends-tsan: SANITIZER = $(TSAN)
$(TOOLS)/ends $(TOOLS)/ends-tsan: spec/c/ends.c $(SRC) $(wildcard c/*.h)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -g -O1 $(SANITIZER) -pthread -Ic -o $@ $(filter %.c,$^) \
	    -Wl,--wrap=pthread_join,--wrap=getaddrinfo $(LIBHIREDIS) -ldl

ASAN_CORE = $(BUILD)/asan/redlock/core-$(ABI).so

$(ASAN_CORE): $(SRC) $(wildcard c/*.h)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(HIDE) -g -O1 $(ASAN) $(LINK) -o $@ $(SRC) $(CORE_HIREDIS) -ldl

.PHONY: asan-core threads
asan-core: $(ASAN_CORE)
threads: $(TOOLS)/threads-tsan $(TOOLS)/threads-asan $(TOOLS)/refused $(TOOLS)/refused-asan $(TOOLS)/ends \
    $(TOOLS)/ends-tsan

# ---- coverage ----------------------------------------------------------------------

COVER = $(BUILD)/coverage
COVER_OBJ = $(SRC:c/%.c=$(COVER)/obj/%.o)

$(COVER)/obj/%.o: c/%.c $(wildcard c/*.h)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(HIDE) -g -O0 --coverage -fprofile-update=atomic -c -o $@ $<

COVER_CORE = $(COVER)/redlock/core-$(ABI).so

$(COVER_CORE): $(COVER_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LINK) --coverage -o $@ $^ $(CORE_HIREDIS) -ldl

$(COVER)/unit: $(UNIT) $(PURE:%=$(COVER)/obj/%.o)
	$(CC) $(FLAGS) -g --coverage -Ic -o $@ $(filter %.c %.o,$^) $(WRAP) $(LIBHIREDIS)

$(COVER)/threads: spec/c/threads.c spec/c/test.h $(COVER_OBJ)
	$(CC) $(FLAGS) -g --coverage -pthread -Ic -o $@ $(filter %.c %.o,$^) $(LIBHIREDIS) -ldl

$(COVER)/refused: spec/c/refused.c $(COVER_OBJ)
	$(CC) $(FLAGS) -g --coverage -pthread -Ic -o $@ $^ $(REFUSE) $(LIBHIREDIS) -ldl

$(COVER)/sim/redlock/core-$(ABI).so: $(COVER_OBJ) $(wildcard spec/sim/*.[ch])
	@mkdir -p $(@D)
	$(CC) $(LINK) --coverage -o $@ $(SIM_OBJ:$(BUILD)/obj/%=$(COVER)/obj/%) \
	    $(wildcard $(SIM)/obj/*.o) $(CORE_HIREDIS) -ldl

# Percent of each file, and the lines that did not run; ten minutes.
.PHONY: coverage
coverage:
	@spec/setup test
	@$(MAKE) --no-print-directory -s all tools sim-core
	@$(MAKE) --no-print-directory -s $(COVER_CORE) $(COVER)/unit $(COVER)/threads \
	    $(COVER)/refused $(COVER)/sim/redlock/core-$(ABI).so
	@$(MAKE) --no-print-directory -s all TLS=no BUILD=$(COVER)/no_tls LDFLAGS=--coverage \
	    CFLAGS="-g -O0 --coverage -fprofile-update=atomic"
	@spec/coverage/run

# ---- fuzzing: any bytes, calls and arguments; T seconds each (30) ------------------

FUZZERS = $(BUILD)/fuzz/resp $(BUILD)/fuzz/core $(BUILD)/fuzz/lua
FUZZ = clang $(filter-out -Wno-format-truncation,$(FLAGS)) -g -O1 -fsanitize=fuzzer,address,undefined \
       -fno-sanitize-recover=all -fno-omit-frame-pointer -Ispec/fuzz

$(BUILD)/fuzz/resp $(BUILD)/fuzz/core: $(BUILD)/fuzz/%: spec/fuzz/%.c spec/fuzz/fuzz.h \
        $(PURE:%=c/%.c) $(wildcard c/*.h)
	@mkdir -p $(@D)
	$(FUZZ) -Ic -o $@ $< $(PURE:%=c/%.c) $(LIBHIREDIS) -ldl

$(BUILD)/fuzz/lua: spec/fuzz/lua.c spec/fuzz/fuzz.h
	@mkdir -p $(@D)
	$(FUZZ) -I/usr/include/luajit-2.1 -o $@ $< -lluajit-5.1

.PHONY: fuzzers fuzz
fuzzers: all $(FUZZERS)
fuzz:
	@spec/setup test
	@$(MAKE) --no-print-directory -s fuzzers
	@spec/fuzz/run $(or $(T),30)

# The protocol and its broken variants in all schedules (spin).
.PHONY: models
models:
	@spec/setup test
	@spec/models/run full

.PHONY: tools
tools: $(TOOLS)/launch $(TOOLS)/hostile $(TOOLS)/proxy

# Lua in this checkout, from its root.
RUN_LUA = LUA_PATH="./lua/?.lua;./lua/?/init.lua;./build/?.lua;./?.lua;./?/init.lua;;" \
          LUA_CPATH="./build/?.so;;" $(LUAJIT)

.PHONY: demo
demo:
	@spec/setup demo
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) examples/demo.lua

# A paused holder at resources that check its token, and at some that do not.
.PHONY: fencing
fencing:
	@spec/setup fencing
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) examples/fencing/redis.lua
	@$(RUN_LUA) examples/fencing/sql.lua
	@$(RUN_LUA) examples/fencing/file.lua

.PHONY: demo-nginx
demo-nginx:
	@spec/setup nginx
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) examples/nginx/run.lua

.PHONY: test
test:
	@spec/setup test
	@$(MAKE) --no-print-directory -j$$(nproc) all tools $(TOOLS)/floor $(TOOLS)/unit \
	    $(TOOLS)/unit-sanitized threads asan-core fuzzers sim-core
	@spec/run

# Each compiler that is here, at each level, in each dialect; see spec/compilers.
.PHONY: compilers
compilers:
	@spec/compilers $(COMPILERS)

# Real servers and clients under faults drawn from a seed; see spec/chaos/README.md.
SEED ?=
NODES ?= 5
BEYOND ?=
RATE ?= 1
GUARD ?= 1

.PHONY: chaos
chaos:
	@spec/setup chaos
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) spec/chaos/main.lua "$(or $(T),60)" "$(SEED)" "$(NODES)" \
	    "$(BEYOND)" "$(RATE)" "$(GUARD)"

# Fencing tokens under everything that may happen; N=holds, SEED, VARIANT: see the file.
.PHONY: stress
stress:
	@spec/setup demo
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) spec/stress/fence.lua $(or $(N),200000) $(or $(SEED),1) $(VARIANT)

# Ratios to a hand-written C loop that does the same commands, and the hand-off; a minute.
# ROUNDS, CYCLES: batches of each row, and their size; SECONDS of each hand-off.
.PHONY: bench
bench:
	@spec/setup demo
	@$(MAKE) --no-print-directory -s all tools $(TOOLS)/floor
	@$(RUN_LUA) spec/bench/run.lua $(or $(ROUNDS),30) $(or $(CYCLES),150)
	@$(RUN_LUA) spec/bench/handoff.lua $(or $(SECONDS),10)

# CYCLES of each batch; SECONDS of each row after those.
.PHONY: bench-nginx
bench-nginx:
	@spec/setup test
	@$(MAKE) --no-print-directory -s all tools $(TOOLS)/floor
	@$(RUN_LUA) spec/bench/nginx.lua $(or $(SECONDS),5) $(or $(CYCLES),1000)

# N fenced names, each locked once: what they cost the servers, and that it is over after
# fence_ttl (SECONDS); ten minutes for a million.
.PHONY: bench-fencing
bench-fencing:
	@spec/setup demo
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) spec/bench/fence_memory.lua $(or $(N),1000000) $(SECONDS)

# ---- the simulator (spec/sim/README.md) --------------------------------------------

# The objects that ship, but for those that touch sockets and threads: spec/sim/*.c takes
# their places.
SIM      = $(BUILD)/sim
SIM_CORE = $(SIM)/redlock/core-$(ABI).so
SIM_OBJ  = $(filter-out $(addprefix $(BUILD)/obj/,net.o conn.o linger.o keeper.o resolve.o),$(OBJ))

$(SIM)/obj/%.o: spec/sim/%.c spec/sim/world.h $(wildcard c/*.h)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -Ic $(HIDE) $(CFLAGS) -c -o $@ $<

$(SIM_CORE): $(SIM_OBJ) $(patsubst spec/sim/%.c,$(SIM)/obj/%.o,$(wildcard spec/sim/*.c))
	@mkdir -p $(@D)
	$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(CORE_HIREDIS)

.PHONY: sim-core
sim-core: $(SIM_CORE) $(BUILD)/redlock/cdef.lua

# N=schedules, T=seconds instead, J=cores; SEED=first seed, alone: replays that schedule.
.PHONY: sim
sim: sim-core
	@luajit spec/sim/run.lua

# The simulated core with one file of c/ changed; see spec/sim/mutate.lua.
.PHONY: mutant-core
mutant-core:
	@mkdir -p $(DIR)/redlock
	@$(CC) $(FLAGS) -w -Ic $(HIDE) $(CFLAGS) -c -o $(DIR)/$(MUTANT).o $(DIR)/$(MUTANT).c
	@$(CC) $(LINK) -o $(DIR)/redlock/core-$(ABI).so $(DIR)/$(MUTANT).o \
	    $(filter-out $(BUILD)/obj/$(MUTANT).o,$(SIM_OBJ)) $(wildcard $(SIM)/obj/*.o) \
	    $(CORE_HIREDIS)

# ONLY=part of a name; CI=1: those that are caught fast; J=cores.
.PHONY: mutants
mutants: sim-core
	@luajit spec/sim/mutate.lua

# The reference (lua/redlock/types.lua) as HTML: build/docs/index.html; below it inside/, what
# modules give each other. A warning is an error.
.PHONY: docs
docs:
	@spec/setup docs
	@rm -rf $(BUILD)/docs
	@mkdir -p $(BUILD)/docs/src
	@$(RUN_LUA) spec/docs/pages.lua $(BUILD)/docs/src
	@cd $(BUILD)/docs/src && ldoc -q --fatalwarnings -c config.ld -d .. . > /dev/null
	@cd $(BUILD)/docs/src && ldoc -q --fatalwarnings -c inside.ld -d ../inside . > /dev/null
	@rm -r $(BUILD)/docs/src
	@echo $(BUILD)/docs/index.html

.PHONY: clean
clean:
	rm -rf $(BUILD)
