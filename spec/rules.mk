# What tests need and do; part of the Makefile.

TOOLS = $(BUILD)/spec

# ---- programs of the specs ---------------------------------------------------------

$(TOOLS)/launch $(TOOLS)/hostile: $(TOOLS)/%: spec/support/%.c $(wildcard spec/support/*.h)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -O1 -g -o $@ $<

$(TOOLS)/proxy: spec/support/proxy.c spec/support/carry.c $(wildcard spec/support/*.h)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -O1 -g -o $@ $(filter %.c,$^)

$(TOOLS)/floor: spec/bench/floor.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(CFLAGS) -o $@ $< $(LIBHIREDIS)

.PHONY: tools
tools: $(TOOLS)/launch $(TOOLS)/hostile $(TOOLS)/proxy

# ---- unit tests, and the whole core under sanitizers --------------------------------

ASAN = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
TSAN = -fsanitize=thread

# Objects of c/ and spec/unit/ that are compiled in another way: $(BUILD)/asan/c/node/wire.o.
define variant
$(BUILD)/$1/%.o: %.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(FLAGS) $$(DEPS) $$(HIDE) -g $2 $$(LEVEL) -c -o $$@ $$<
endef
# Compiled faster: they run once.
$(BUILD)/asan/spec/unit/test_%.o: private LEVEL = -O0
$(eval $(call variant,test,))
$(eval $(call variant,asan,-O1 $(ASAN)))
$(eval $(call variant,tsan,-O1 $(TSAN)))

define program
@mkdir -p $(@D)
$(CC) $(FLAGS) -g -pthread -o $@ $(filter %.o,$^) $1 $(LIBHIREDIS) -ldl
endef

# The unit tests link the objects that ship; the sanitizers want them compiled again.
PURE = $(patsubst c/%.c,%,$(wildcard c/node/*.c c/core/*.c c/core/*/*.c) c/engine/cleanups.c \
       c/io/address.c)
UNIT = $(filter-out %/threads.o %/refused.o %/ends.o,\
       $(patsubst %.c,$(BUILD)/$1/%.o,$(wildcard spec/unit/*.c)))

# test_memory.c makes allocations fail.
WRAP = -Wl,--wrap=malloc,--wrap=calloc

$(TOOLS)/unit: $(call UNIT,test) $(PURE:%=$(BUILD)/obj/%.o)
	$(call program,$(LDFLAGS) $(WRAP))

$(TOOLS)/unit-sanitized: $(call UNIT,asan) $(PURE:%=$(BUILD)/asan/c/%.o)
	$(call program,$(ASAN) $(WRAP))

OBJ_OF = $(SRC:%.c=$(BUILD)/$1/%.o)

# Below a program with threads.
$(TOOLS)/threads-tsan: $(BUILD)/tsan/spec/unit/threads.o $(call OBJ_OF,tsan)
	$(call program,$(TSAN))

$(TOOLS)/threads-asan: $(BUILD)/asan/spec/unit/threads.o $(call OBJ_OF,asan)
	$(call program,$(ASAN))

# With calls of the system in between that may be refused; also the objects that ship.
REFUSE = $(foreach f,malloc calloc realloc strdup socket getsockopt epoll_create1 epoll_ctl \
    epoll_wait timerfd_create eventfd fcntl send recv getrandom \
    pthread_create,-Wl,--wrap=$f)

$(TOOLS)/refused: $(BUILD)/test/spec/unit/refused.o $(OBJ)
	$(call program,$(REFUSE))

$(TOOLS)/refused-asan: $(BUILD)/asan/spec/unit/refused.o $(call OBJ_OF,asan)
	$(call program,$(ASAN) $(REFUSE))

# Awkward moments for threads, forks, signals and exits.
AWKWARD = -Wl,--wrap=pthread_join,--wrap=getaddrinfo,--wrap=rl_now_ms,--wrap=read,--wrap=sem_wait

$(TOOLS)/ends: $(BUILD)/asan/spec/unit/ends.o $(call OBJ_OF,asan)
	$(call program,$(ASAN) $(AWKWARD))

$(TOOLS)/ends-tsan: $(BUILD)/tsan/spec/unit/ends.o $(call OBJ_OF,tsan)
	$(call program,$(TSAN) $(AWKWARD))

# Below Lua.
ASAN_CORE = $(BUILD)/asan/redlock/core-$(ABI).so

$(ASAN_CORE): $(call OBJ_OF,asan)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(ASAN) $(LINK) -o $@ $^ $(CORE_HIREDIS) -ldl

.PHONY: asan-core threads
asan-core: $(ASAN_CORE)
threads: $(addprefix $(TOOLS)/,threads-tsan threads-asan refused refused-asan ends ends-tsan)

.PHONY: check
check: ## quick tests, a minute; SPEC="files"
	@spec/setup test
	@$(MAKE) --no-print-directory -s -j$$(nproc) all tools $(TOOLS)/floor $(TOOLS)/unit sim-core
	@spec/run check

.PHONY: test
test: ## all tests; must pass before a change lands
	@spec/setup test
	@$(MAKE) --no-print-directory -j$$(nproc) all tools $(TOOLS)/floor $(TOOLS)/unit \
	    $(TOOLS)/unit-sanitized threads asan-core fuzzers sim-core
	@spec/run

# ---- compilers, releases of Debian, servers ------------------------------------------

.PHONY: compilers
compilers: ## build with each installed compiler, at each level
	@spec/compilers $(COMPILERS)

.PHONY: matrix
matrix: ## run the specs in clean Debian releases; ROWS="trixie sid"
	@spec/matrix/run $(ROWS)

.PHONY: nightly
nightly: ## the long tests, with one summary table; NIGHTLY=short
	@spec/nightly

# ---- coverage ----------------------------------------------------------------------

COVER = $(BUILD)/coverage
COVER_OBJ = $(SRC:c/%.c=$(COVER)/obj/%.o)

$(COVER)/obj/%.o: c/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(DEPS) $(HIDE) -g -O0 --coverage -fprofile-update=atomic -c -o $@ $<

COVER_CORE = $(COVER)/redlock/core-$(ABI).so

$(COVER_CORE): $(COVER_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LINK) --coverage -o $@ $^ $(CORE_HIREDIS) -ldl

$(COVER)/unit: $(call UNIT,test) $(PURE:%=$(COVER)/obj/%.o)
	$(call program,--coverage $(WRAP))

$(COVER)/threads: $(BUILD)/test/spec/unit/threads.o $(COVER_OBJ)
	$(call program,--coverage)

$(COVER)/refused: $(BUILD)/test/spec/unit/refused.o $(COVER_OBJ)
	$(call program,--coverage $(REFUSE))

$(COVER)/sim/redlock/core-$(ABI).so: $(COVER_OBJ) $(WORLD_CORE)
	@mkdir -p $(@D)
	$(CC) $(LINK) --coverage -o $@ $(filter-out $(COVER)/obj/world/%,\
	    $(WORLD_OBJ:$(BUILD)/obj/%=$(COVER)/obj/%)) $(filter $(BUILD)/obj/world/%,$(WORLD_OBJ)) \
	    $(CORE_HIREDIS) -ldl

# Specs in worlds run that of the simulator.
$(COVER)/redlock/world-$(ABI).so: $(COVER)/sim/redlock/core-$(ABI).so
	ln -sf ../sim/redlock/core-$(ABI).so $@

.PHONY: coverage
coverage: ## list the lines that no test runs; twenty minutes
	@spec/setup test
	@$(MAKE) --no-print-directory -s all tools sim-core
	@$(MAKE) --no-print-directory -s $(COVER_CORE) $(COVER)/unit $(COVER)/threads \
	    $(COVER)/refused $(COVER)/redlock/world-$(ABI).so
	@$(MAKE) --no-print-directory -s all TLS=no BUILD=$(COVER)/no_tls LDFLAGS=--coverage \
	    CFLAGS="-g -O0 --coverage -fprofile-update=atomic"
	@spec/coverage/run

# ---- fuzzing: any bytes, calls and arguments -----------------------------------------

FUZZERS = $(addprefix $(BUILD)/fuzz/,resp core guarded marker)
FUZZ = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

$(eval $(call variant,fuzz,-O1 -Ispec/fuzz -fsanitize=fuzzer-no-link $(FUZZ)))

$(BUILD)/fuzz/%: private CC = clang
$(FUZZERS): $(BUILD)/fuzz/%: $(BUILD)/fuzz/spec/fuzz/%.o \
        $(patsubst %,$(BUILD)/fuzz/c/%.o,$(filter-out engine/cleanups,$(PURE)))
	$(call program,-fsanitize=fuzzer $(FUZZ))

.PHONY: fuzzers fuzz
fuzzers: all tools asan-core $(FUZZERS)
fuzz: ## fuzz replies, calls and arguments; T=seconds each (30)
	@spec/setup test
	@$(MAKE) --no-print-directory -s fuzzers
	@spec/fuzz/run $(or $(T),30)

# ---- the simulator (spec/sim/README.md), and models ------------------------------------

# What redlock.testing loads, by the name of the core.
SIM      = $(BUILD)/sim
SIM_CORE = $(SIM)/redlock/core-$(ABI).so

$(SIM_CORE): $(WORLD_CORE)
	@mkdir -p $(@D)
	ln -sf ../../redlock/$(notdir $(WORLD_CORE)) $@

.PHONY: sim-core
sim-core: $(SIM_CORE) $(BUILD)/redlock/cdef.lua

.PHONY: sim
sim: sim-core ## simulate schedules; N=, T=seconds, J=cores; SEED=n: one
	@luajit spec/sim/run.lua

.PHONY: judge
judge: all tools ## ask every verb about every cause of trouble; CAUSE=, PLACE="2 of 3", PART=40, SHOW=1
	@luajit spec/judge/run.lua

.PHONY: exhaust
exhaust: all ## visit small worlds whole; WORLD=, KIND=, PART="0 60"
	@luajit spec/exhaust/run.lua

# How the simulated core, and the unit tests, are made with one file of c/ changed: $$NAME.c in $$DIR.
# spec/sim/mutate.lua leaves that file's own object out, and runs these without make.
define mutant_recipes
compile $(CC) $(FLAGS) -w $(HIDE) -O0 -c -o $$DIR/$$NAME.o $$DIR/$$NAME.c
core $(CC) $(LINK) -Wl,-S -o $$DIR/redlock/core-$(ABI).so $$DIR/$$NAME.o $(WORLD_OBJ) $(CORE_HIREDIS) -ldl
unit $(CC) -pthread -Wl,-S -o $$DIR/unit $$DIR/$$NAME.o $(call UNIT,test) $(PURE:%=$(BUILD)/obj/%.o) $\
    $(LDFLAGS) $(WRAP) $(LIBHIREDIS) -ldl
endef

.PHONY: mutant-recipes
mutant-recipes: sim-core $(call UNIT,test) $(PURE:%=$(BUILD)/obj/%.o)
	$(shell mkdir -p $(BUILD)/mutants)$(file > $(BUILD)/mutants/recipes,$(mutant_recipes))

.PHONY: mutants
mutants: ## check that wrong variants are caught; ONLY=name
	@RECORD=1 luajit spec/sim/mutate.lua

.PHONY: power
power: ## insert random faults, see which tests notice; N=, SEED=
	@spec/setup test
	@luajit spec/power.lua

.PHONY: models
models: ## model-check the protocol and its broken variants (spin)
	@spec/setup test
	@spec/models/run full

# ---- what is shown and measured ------------------------------------------------------

# Lua in this checkout, from its root.
RUN_LUA = LUA_PATH="./lua/?.lua;./lua/?/init.lua;./build/?.lua;./?.lua;./?/init.lua;;" \
          LUA_CPATH="./build/?.so;;" $(LUAJIT)

.PHONY: demo
demo: ## two processes, one lock, five servers, one killed
	@spec/setup demo
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) examples/demo.lua

.PHONY: fencing
fencing: ## a paused holder, with and without checks of its token
	@spec/setup fencing
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) examples/fencing/redis.lua
	@$(RUN_LUA) examples/fencing/sql.lua
	@$(RUN_LUA) examples/fencing/file.lua

# These, and the specs, take Debian's nginx; or OPENRESTY=prefix; or NGINX_PROGRAM=file with
# NGINX_MODULES=folder (empty: built in).
.PHONY: demo-nginx
demo-nginx: ## nginx with pages that lock; PORT=8099 OPENRESTY=prefix
	@spec/setup nginx
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) examples/nginx/run.lua $(PORT)

SEED ?=
NODES ?= 5
BEYOND ?=
RATE ?= 1
GUARD ?= 1

.PHONY: chaos
chaos: ## real servers and clients under faults; T=seconds (60)
	@spec/setup chaos
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) spec/chaos/main.lua "$(or $(T),60)" "$(SEED)" "$(NODES)" \
	    "$(BEYOND)" "$(RATE)" "$(GUARD)"

.PHONY: soak
soak: ## hours of chaos, and a report; T=seconds (7200)
	@spec/setup chaos
	@$(MAKE) --no-print-directory -s all tools
	@spec/soak $(or $(T),7200) $(EACH)

# run.lua reads ONLY, ROUNDS, CYCLES, SECONDS, HELD and KEPT from its environment, where make puts
# them.
.PHONY: bench
bench: BENCH ?= $(BUILD)/bench
bench: ## compare with a C loop; ten minutes; ONLY="one many"
	@spec/setup test
	@$(MAKE) --no-print-directory -s all tools $(TOOLS)/floor
	@mkdir -p $(BENCH)
	@BENCH=$(BENCH) $(RUN_LUA) spec/bench/run.lua

# PEERS: names of those to compare with, with commas between them; all by default.
.PHONY: bench-peers
bench-peers: BENCH ?= $(BUILD)/bench/peers
bench-peers: ## compare with other locks, fetched into build/peers
	@spec/setup test
	@$(MAKE) --no-print-directory -s all tools
	@mkdir -p $(BENCH)
	@spec/bench/peers/fetch $(BUILD)/peers > $(BENCH)/peers.txt
	@$(RUN_LUA) spec/bench/peers.lua $(BUILD)/peers $(or $(ROUNDS),20) $(or $(CYCLES),100) \
	    "$(PEERS)" >> $(BENCH)/peers.txt
	@cat $(BENCH)/peers.txt

.PHONY: instructions
instructions: ## count and record the instructions of a cycle
	@spec/setup test
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) spec/bench/instructions.lua accept

# CYCLES of each batch; SECONDS of each row after those.
.PHONY: bench-nginx
bench-nginx: ## bench in an nginx worker; OPENRESTY=prefix
	@spec/setup test
	@$(MAKE) --no-print-directory -s all tools $(TOOLS)/floor
	@$(RUN_LUA) spec/bench/nginx.lua $(or $(SECONDS),5) $(or $(CYCLES),1000)

.PHONY: bench-scale
bench-scale: ## measure connections, bytes and rates at two sizes
	@spec/setup test
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) spec/bench/scale.lua $(LESS) $(MORE)

# Locks N fenced names once each: prints the memory that they take on the servers, and that it is freed when
# their counters have expired, here after SECONDS.
.PHONY: bench-fencing
bench-fencing: ## measure the memory of fenced names; N=1000000: 10 minutes
	@spec/setup demo
	@$(MAKE) --no-print-directory -s all tools
	@$(RUN_LUA) spec/bench/fence_memory.lua $(or $(N),1000000) $(SECONDS)

.PHONY: types
types: ## write options and codes into the reference and pages
	@$(RUN_LUA) -e 'require("spec.docs.types").write()'

# Below build/docs/inside: what modules give each other. A warning is an error.
.PHONY: docs
docs: ## the reference as HTML: build/docs/index.html
	@spec/setup docs
	@rm -rf $(BUILD)/docs
	@mkdir -p $(BUILD)/docs/src
	@$(RUN_LUA) spec/docs/pages.lua $(BUILD)/docs/src
	@cd $(BUILD)/docs/src && ldoc -q --fatalwarnings -c config.ld -d .. . > /dev/null
	@cd $(BUILD)/docs/src && ldoc -q --fatalwarnings -c inside.ld -d ../inside . > /dev/null
	@rm -r $(BUILD)/docs/src
	@echo $(BUILD)/docs/index.html

.PHONY: site
site: docs ## pages and reference as a site: build/site/index.html
	@spec/setup site
	@rm -rf $(BUILD)/site $(BUILD)/site-src
	@mkdir -p $(BUILD)/site-src
	@$(RUN_LUA) spec/docs/site.lua $(BUILD)/site-src $(BUILD)/docs
	@mkdocs build --strict -f $(BUILD)/site-src/mkdocs.yml > $(BUILD)/site-src/log 2>&1 || \
	    { cat $(BUILD)/site-src/log >&2; exit 1; }
	@rm -r $(BUILD)/site-src
	@echo $(BUILD)/site/index.html
