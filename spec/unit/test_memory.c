/* test_memory.c - out of memory, at every allocation in turn: what is asked for fails and
 * says so, or works later; nothing crashes, nothing is lost or left behind.
 *
 * The linker hands the allocations of everything in this program to us (--wrap).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/rounds/subscription.h"
#include "sim.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);

static long until_failure;           /* allocations until one fails; 0: none will */
static int failed;

static int fails(void)
{
    if (!until_failure || --until_failure)
        return 0;
    failed = 1;
    errno = ENOMEM;
    return 1;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

/* What the servers of the simulation allocate is not what is tested: only what is done
 * between these two may fail. */
static void fail_at(long k)
{
    until_failure = k;
    failed = 0;
}

static void no_failure(void)
{
    until_failure = 0;
}

/* Tries what `act` does with a failure at the first, second, ... allocation, until it gets
 * through without. */
static void at_every_allocation(void (*act)(long k))
{
    for (long k = 1; k < 200; k++) {
        test_note("allocation %ld", k);
        act(k);
        no_failure();
        if (!failed)
            return;
    }
    CHECK(!"it never gets through");
}

static void begin_once(long k)
{
    struct core core;
    struct node_config config[3] = {{.timeout_ms = 100, .connect_timeout_ms = 100}};
    fail_at(k);
    int ok = core_init(&core, config, 3, 10000, 1) == 0;
    no_failure();
    CHECK_INT(ok, !failed);
    if (ok)
        close_free(&core);
}

static void connect_once(long k)
{
    struct sim *s = sim_new(1);
    s->config[0].user = "u";
    s->config[0].password = "p";
    s->config[0].client_name = "n";
    s->config[0].db = 1;
    struct hold h = sim_acquire(s, "a", 30000, 10000);
    core_lost(&s->core, 0, RL_REFUSED, "not yet", s->now_ms);
    sim_advance(s, 5000);
    sim_drop(s, &h);
    h = sim_acquire(s, "a", 30000, 10000);
    fail_at(k);
    core_connected(&s->core, 0, s->now_ms);
    no_failure();
    CHECK_INT(s->core.nodes[0].state, failed ? NODE_DOWN : NODE_HANDSHAKE);
    core_lost(&s->core, 0, RL_REFUSED, "done", s->now_ms);
    sim_finish(s);
}

static void acquire_once(long k)
{
    struct sim *s = sim_up(3);
    struct hold h = {NULL, NULL};
    rl_bytes key = {"a", 1};
    char value[RL_VALUE_LEN + 1];
    snprintf(value, sizeof(value), "%040d", 7);
    fail_at(k);
    h.round = acquire_begin(&s->core, &s->primitive, &key, 1, NULL, 0,
                            (rl_bytes){value, RL_VALUE_LEN}, 30000, 10000, -1, s->now_ms,
                            &h.lease);
    no_failure();
    if (h.round) {
        int outcome = sim_wait(s, h.round, 11000);
        CHECK(outcome == RL_GRANTED || outcome == RL_NO_QUORUM);
    } else {
        CHECK(failed && !h.lease);
    }
    sim_drop(s, &h);
    sim_finish(s);
}

static void extend_once(long k)
{
    struct sim *s = sim_up(3);
    rl_lease *lease = sim_hold(s, "a", 30000);
    int64_t before_ms = lease_remaining_ms(lease, s->now_ms);
    fail_at(k);
    rl_round *round = holder_extend(lease, 40000, s->now_ms);
    no_failure();
    CHECK(round || failed);
    if (round)
        sim_wait(s, round, 1000);
    CHECK(lease_remaining_ms(lease, s->now_ms) >= before_ms - 1000);
    if (round)
        round_free(round);
    sim_finish(s);
}

/* What cannot begin leaves the exported hold; what fails on the way leaves nothing. */
static void import_once(long k)
{
    struct sim *s = sim_up(3);
    sim_fence(s);
    struct parcel p = sim_export(s, sim_hold(s, "a", 30000));
    rl_bytes key = {"a", 1}, old = {p.value, RL_VALUE_LEN};
    struct hold h = {NULL, NULL};
    char value[RL_VALUE_LEN + 1];
    snprintf(value, sizeof(value), "%040d", 7);
    fail_at(k);
    h.round = acquire_import(&s->core, &s->primitive, &key, 1, NULL, 0, old,
                             (rl_bytes){value, RL_VALUE_LEN}, 30000, p.token, 0, s->now_ms,
                             &h.lease);
    no_failure();
    CHECK(h.round || (failed && !h.lease));
    CHECK_INT(__builtin_popcount(sim_with(s, "a")), 3);
    int outcome = h.round ? sim_wait(s, h.round, 1000) : RL_OK;
    CHECK(outcome == RL_GRANTED || failed);
    CHECK_INT(h.lease ? h.lease->token : 0, outcome == RL_GRANTED ? 1 : 0);
    int was = failed;
    if (h.lease) {
        round_free(holder_release(h.lease, s->now_ms));
        sim_advance(s, 2000);
        CHECK_INT(sim_with(s, "a"), 0);
    }
    sim_finish(s);
    failed = was;
}

/* A renewal that cannot be allocated is repeated. */
static void renew_once(long k)
{
    struct sim *s = sim_up(3);
    rl_lease *lease = sim_hold(s, "a", 3000);
    watchdog_start(lease, 3000, 0, s->now_ms);
    sim_skip(s, 1100);
    fail_at(k);
    core_tick(&s->core, s->now_ms);
    no_failure();
    sim_advance(s, 6000);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 0);
    sim_finish(s);
}

/* All of three servers answer, in turn, until the k-th allocation of what an answer leads to
 * is refused. Whether one was. */
static int fail_answers(struct sim *s, long k)
{
    for (int i = 0; i < 3; i++) {
        sim_serve(s, i);
        sim_execute(s, i, 1);
    }
    for (int i = 0; i < 3; i++) {
        struct buf *out = &s->server[i].out;
        size_t len = buf_len(out);
        fail_at(k);
        core_feed(&s->core, i, out->data + out->start, len, s->now_ms);
        no_failure();
        buf_take(out, len);
        if (failed)
            break;
    }
    return failed;
}

static void heal_once(long k)
{
    struct sim *s = sim_up(3);
    rl_lease *lease = sim_hold(s, "a", 3000);
    sim_run(s);
    watchdog_start(lease, 3000, 0, s->now_ms);
    s->server[2].keys = 0;
    sim_skip(s, 1100);
    core_tick(&s->core, s->now_ms);
    /* The majority's answers, and then the one of the server that lost the key. */
    int was = fail_answers(s, k);
    sim_advance(s, 6000);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 0);
    CHECK_INT(sim_with(s, "a"), 7);
    round_free(holder_release(lease, s->now_ms));
    sim_finish(s);
    failed = was;
}

/* Answers to an attempt for a fenced lock that cannot be acted upon: it is lost, or its token
 * is larger than all before. */
static void count_once(long k)
{
    struct sim *s = sim_up(3);
    sim_fence(s);
    struct hold h = sim_acquire(s, "a", 30000, 10000);
    int was = fail_answers(s, k);
    int outcome = sim_wait(s, h.round, 11000);
    CHECK(outcome == RL_GRANTED || was);
    int64_t token = outcome == RL_GRANTED ? h.lease->token : 0;
    CHECK((token > 0) == (outcome == RL_GRANTED));
    round_free(holder_release(h.lease, s->now_ms));
    sim_advance(s, 2000);
    CHECK_INT(sim_with(s, "a"), 0);
    sim_drop(s, &h);
    h = sim_acquire(s, "a", 30000, 10000);
    CHECK_INT(sim_wait(s, h.round, 11000), RL_GRANTED);
    CHECK(h.lease->token > token);
    sim_finish(s);
    failed = was;
}

/* A release is repeated, whoever waits for it. */
static void release_once(long k)
{
    struct sim *s = sim_up(3);
    sim_fence(s);
    rl_lease *lease = sim_hold(s, "a", 30000);
    sim_advance(s, 10);
    fail_at(k);
    rl_round *round = holder_release(lease, s->now_ms);
    no_failure();
    CHECK(round || failed);
    int was = failed;
    if (round)
        round_free(round);
    sim_advance(s, 5000);
    CHECK_INT(sim_with(s, "a"), 0);
    sim_finish(s);
    failed = was;
}

static void ask_and_subscribe_once(long k)
{
    struct core core;
    struct node_config config = {.timeout_ms = 100, .connect_timeout_ms = 100};
    REQUIRE(core_init(&core, &config, 1, 10000, 1) == 0);
    rl_bytes key = {"a", 1};
    REQUIRE(core_script(&core, "return 4", 8, 1000) == 0);
    fail_at(k);
    rl_subscription *subscription = subscription_open(&core, "c", 1, 1000);
    rl_round *round[] = {
        subscription ? subscription_pause(&core, subscription, 0, 10, 1000) : NULL,
        query_ask(&core, RL_ASK_MAJORITY, 0, &key, 1, NULL, 0, 1000, 1000),
        subscription_pause(&core, NULL, 0, 10, 1000),
    };
    int script = core_script(&core, "return 5", 8, 1000);
    no_failure();
    CHECK(failed || (subscription && round[0] && round[1] && round[2] && script == 1));
    core_tick(&core, 2000);
    for (int i = 0; i < 3; i++) {
        CHECK(!round[i] || round[i]->outcome == (i == 1 ? RL_NO_QUORUM : RL_GRANTED));
        if (round[i])
            round_free(round[i]);
    }
    if (subscription)
        subscription_close(subscription, 2000);
    CHECK_INT(core.handles, 0);
    close_free(&core);
}

static void clean_up_once(long k)
{
    fail_at(k);
    rl_cleanups *list = rl_cleanups_open(NULL);
    void *added = list ? rl_cleanups_add(list, 1) : NULL;
    no_failure();
    CHECK(failed || added);
    if (added)
        rl_cleanup_done(added);
    if (!list)
        return;
    CHECK_INT(rl_cleanups_take(list), added ? 1 : 0);
    rl_cleanups_close(list);
}

static void nothing_begins(void) { at_every_allocation(begin_once); }
static void no_connection(void) { at_every_allocation(connect_once); }
static void no_attempt(void) { at_every_allocation(acquire_once); }
static void no_extension(void) { at_every_allocation(extend_once); }
static void no_import(void) { at_every_allocation(import_once); }
static void no_token(void) { at_every_allocation(count_once); }
static void releases_are_repeated(void) { at_every_allocation(release_once); }
static void renewals_are_repeated(void) { at_every_allocation(renew_once); }
static void heals_are_repeated(void) { at_every_allocation(heal_once); }
static void no_question_no_subscription(void) { at_every_allocation(ask_and_subscribe_once); }
static void no_clean_up(void) { at_every_allocation(clean_up_once); }

SUITE(memory, T(nothing_begins), T(no_connection), T(no_attempt), T(no_extension),
      T(no_import), T(no_token), T(releases_are_repeated), T(renewals_are_repeated),
      T(heals_are_repeated), T(no_question_no_subscription), T(no_clean_up));
