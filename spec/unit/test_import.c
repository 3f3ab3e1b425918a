/* test_import.c - a hold that another process gave away is taken over by compare and set:
 * once, with its token, and without taking what is free. */
#include "sim.h"

#include <string.h>

static struct sim *fenced(int n, int64_t counter)
{
    struct sim *s = sim_up(n);
    sim_fence(s);
    for (int i = 0; i < n; i++)
        s->server[i].counter = counter;
    return s;
}

/* Takes a lock and gives it away. */
static struct parcel given(struct sim *s, int64_t lease_ms)
{
    struct parcel p = sim_export(s, sim_hold(s, "k", lease_ms));
    sim_clear_logs(s);
    return p;
}

/* Which servers have the exported value. */
static uint32_t with_old(struct sim *s, const struct parcel *p)
{
    uint32_t mask = 0;
    for (int i = 0; i < s->n; i++) {
        const struct sim_key *key = sim_key(s, i, "k");
        mask |= key && !memcmp(key->value, p->value, RL_VALUE_LEN) ? bit(i) : 0;
    }
    return mask;
}

static void nothing_is_left(struct sim *s, const rl_lease *lease)
{
    sim_heal(s);
    sim_advance(s, 5000);
    sim_all_clean(s);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    sim_finish(s);
}

static void released(struct sim *s, rl_lease *lease)
{
    CHECK_INT(sim_release(s, lease), RL_GRANTED);
    nothing_is_left(s, lease);
}

static void one_round_and_nothing_else(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 32};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct sim *s = sim_up(sizes[k]);
        test_note("n = %d", sizes[k]);
        struct parcel p = given(s, 9000);
        sim_advance(s, 1000);
        sim_clear_logs(s);
        struct hold h = sim_import(s, "k", &p, 4000);
        int64_t t0 = s->now_ms;
        CHECK_INT(lease_remaining_ms(h.lease, t0), 0);
        CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
        CHECK_INT(h.lease->deadline_ms, t0 + sim_validity(4000, 0));
        CHECK_INT(sim_mine(s, "k", h.lease), all_of(s->n));
        CHECK_INT(sim_key(s, 0, "k")->until_ms, t0 + 4000);
        sim_logs_are(s, "H");
        released(s, h.lease);
    }
}

static void a_second_import_is_lost(void)
{
    struct sim *s = fenced(3, 6);
    struct parcel p = given(s, 9000);
    struct hold a = sim_import(s, "k", &p, 9000);
    CHECK_INT(sim_outcome(s, a.round), RL_GRANTED);
    CHECK_INT(a.lease->token, 7);
    struct hold b = sim_import(s, "k", &p, 9000);
    CHECK_INT(sim_outcome(s, b.round), RL_LOST);
    CHECK_INT(b.lease->token, 0);
    sim_drop(s, &b);
    sim_advance(s, 1000);
    CHECK_INT(sim_mine(s, "k", a.lease), all_of(3));
    CHECK_INT(sim_result(s, holder_extend(a.lease, 9000, s->now_ms)), RL_GRANTED);
    CHECK_INT(s->server[0].counter, 7);
    released(s, a.lease);
}

/* Two at one instant: the servers of a_first execute the request of A first, the others
 * that of B, some of them never. */
static void two_at_once(int n, uint32_t a_first, uint32_t down, int a_is, int b_is)
{
    struct sim *s = sim_up(n);
    test_note("n %d, first A %x, down %x", n, a_first, down);
    struct parcel p = given(s, 60000);
    sim_freeze(s, down);
    struct hold a = sim_import(s, "k", &p, 60000), b = sim_import(s, "k", &p, 60000);
    for (int i = 0; i < n; i++) {
        if ((a_first | down) & bit(i))
            continue;
        memcpy(sim_key(s, i, "k")->value, cmd_value(b.lease->cmd).data, RL_VALUE_LEN);
        b.round->slot[i].resends = 1;       /* it has been there already */
    }
    CHECK_INT(sim_wait(s, a.round, 5000), a_is);
    CHECK_INT(sim_wait(s, b.round, 5000), b_is);
    if (a_is == RL_GRANTED || b_is == RL_GRANTED) {
        struct hold *winner = a_is == RL_GRANTED ? &a : &b;
        CHECK(__builtin_popcount(sim_mine(s, "k", winner->lease)) >= quorum_size(n));
        CHECK_INT(sim_release(s, winner->lease), RL_GRANTED);
    }
    sim_drop(s, &a);
    nothing_is_left(s, b.lease);
}

static void at_most_one_of_two(void)
{
    two_at_once(3, 7, 0, RL_GRANTED, RL_LOST);
    two_at_once(3, 3, 0, RL_GRANTED, RL_LOST);
    two_at_once(3, 1, 0, RL_LOST, RL_GRANTED);
    two_at_once(5, 7, 0, RL_GRANTED, RL_LOST);
    two_at_once(3, 1, 4, RL_UNKNOWN, RL_UNKNOWN);
    two_at_once(4, 3, 0, RL_UNKNOWN, RL_UNKNOWN);
}

/* What it has taken without a majority is released, also where that came late. */
static void a_majority_that_is_frozen(void)
{
    struct sim *s = fenced(5, 6);
    struct parcel p = given(s, 60000);
    sim_freeze(s, 7);
    struct hold h = sim_import(s, "k", &p, 60000);
    CHECK_INT(sim_wait(s, h.round, 5000), RL_UNKNOWN);
    CHECK_INT(h.lease->token, 0);
    CHECK_INT(with_old(s, &p), 7);
    CHECK_INT(s->server[4].counter, 7);
    nothing_is_left(s, h.lease);
}

static void a_minority_that_is_frozen(void)
{
    struct sim *s = sim_up(5);
    struct parcel p = given(s, 60000);
    sim_freeze(s, 3);
    struct hold h = sim_import(s, "k", &p, 60000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(with_old(s, &p), 3);
    s->server[0].frozen = s->server[1].frozen = 0;
    sim_advance(s, 100);
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(5));
    CHECK_INT(__builtin_popcount(h.lease->confirmed), 5);
    released(s, h.lease);
}

/* The connection breaks with the import on it, executed or not, and it is sent again. */
static void sent_again(void)
{
    for (int executed = 0; executed < 2; executed++) {
        struct sim *s = fenced(1, 6);
        test_note("executed %d", executed);
        struct parcel p = given(s, 9000);
        struct hold h = sim_import(s, "k", &p, 9000);
        sim_serve(s, 0);
        sim_execute(s, 0, executed);
        sim_cut(s, 0);
        CHECK_INT(sim_wait(s, h.round, 1000), RL_GRANTED);
        CHECK_INT(h.lease->token, 7);
        CHECK_INT(s->server[0].counter, 7);
        released(s, h.lease);
    }
}

/* What is to be given away itself has one chance on each server: neither a connection that breaks
 * nor a server that forgets brings its value there a second time. */
static void once_on_each_server(void)
{
    for (int executed = 0; executed < 2; executed++) {
        struct sim *s = fenced(3, 6);
        test_note("executed %d", executed);
        struct parcel p = given(s, 9000);
        p.once = 1;
        struct hold h = sim_import(s, "k", &p, 3000);
        sim_serve(s, 0);
        sim_execute(s, 0, executed);
        sim_cut(s, 0);
        CHECK_INT(sim_wait(s, h.round, 1000), RL_GRANTED);
        s->server[1].keys = 0;
        watchdog_start(h.lease, 3000, 0, s->now_ms);
        sim_advance(s, 1500);
        CHECK_STR(s->server[0].log, executed ? "PX" : "X");
        CHECK_STR(s->server[1].log, "PX");
        CHECK_INT(sim_mine(s, "k", h.lease), executed ? bit(0) | bit(2) : bit(2));
        sim_drop(s, &h);
        sim_finish(s);
    }
}

/* The third server had no request, as its connection broke: it has the exported value until
 * the release, and nobody else would delete it there. */
static void what_it_did_not_reach_is_released(void)
{
    for (int down = 0; down < 2; down++) {
        struct sim *s = fenced(3, 6);
        test_note("down %d", down);
        struct parcel p = given(s, 60000);
        if (down)
            sim_cut(s, 2);
        struct hold h = sim_import(s, "k", &p, 60000);
        sim_cut(s, 2);
        CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
        sim_advance(s, 3000);
        CHECK_INT(with_old(s, &p), bit(2));
        CHECK_INT(sim_result(s, holder_release(h.lease, s->now_ms)), RL_GRANTED);
        sim_advance(s, 3000);
        CHECK_INT(with_old(s, &p), 0);
        nothing_is_left(s, h.lease);
    }
}

/* Its refusals come after the release has begun. */
static void what_is_left_by_a_server_that_loads_is_released(void)
{
    struct sim *s = sim_up(3);
    struct parcel p = given(s, 60000);
    sim_freeze(s, bit(2));
    struct hold h = sim_import(s, "k", &p, 60000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(sim_result(s, holder_release(h.lease, s->now_ms)), RL_GRANTED);
    const char **say = s->server[2].say;
    say[SIM_IMPORT] = say[SIM_RELEASE] = "-LOADING Redis is loading the dataset in memory\r\n";
    sim_freeze(s, 0);
    sim_advance(s, 10);
    CHECK_INT(with_old(s, &p), bit(2));
    say[SIM_IMPORT] = say[SIM_RELEASE] = NULL;
    sim_advance(s, 3000);
    CHECK_INT(with_old(s, &p), 0);
    nothing_is_left(s, h.lease);
}

/* Whoever has the new value, and was asked once, has voted under another address. */
static void one_server_twice(void)
{
    struct sim *s = sim_up(3);
    struct parcel p = given(s, 9000);
    s->server[1].instead[SIM_IMPORT] = s->server[2].instead[SIM_IMPORT] = ":2\r\n";
    struct hold h = sim_import(s, "k", &p, 9000);
    CHECK_INT(sim_outcome(s, h.round), RL_UNKNOWN);
    CHECK_INT(h.round->slot[1].code, RL_CONFIG);
    nothing_is_left(s, h.lease);
}

/* It replaces, it never takes: a server that forgot is no vote, somebody else's key is
 * left alone. */
static void servers_that_do_not_have_it(void)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct sim *s = sim_up(3);
        test_note("foreign %d", foreign);
        struct parcel p = given(s, 9000);
        for (int i = 0; i < 2; i++) {
            s->server[i].keys = 0;
            if (foreign)
                sim_put(s, i, "k", 60000);
        }
        struct hold h = sim_import(s, "k", &p, 9000);
        CHECK_INT(sim_outcome(s, h.round), RL_LOST);
        sim_run(s);
        CHECK_INT(sim_with(s, "k"), foreign ? 3 : 0);
        s->server[0].keys = s->server[1].keys = 0;
        nothing_is_left(s, h.lease);
    }
}

static void one_that_forgot_is_healed(void)
{
    struct sim *s = sim_up(3);
    struct parcel p = given(s, 3000);
    s->server[1].keys = 0;
    struct hold h = sim_import(s, "k", &p, 3000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(sim_mine(s, "k", h.lease), bit(0) | bit(2));
    watchdog_start(h.lease, 3000, 0, s->now_ms);
    sim_advance(s, 1500);
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(3));
    released(s, h.lease);
}

/* The scripts were flushed: the text is sent, and it is one vote. */
static void without_the_script(void)
{
    struct sim *s = sim_up(3);
    struct parcel p = given(s, 9000);
    sim_flush_scripts(s);
    sim_clear_logs(s);
    struct hold h = sim_import(s, "k", &p, 9000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    sim_logs_are(s, "?h");
    released(s, h.lease);
}

/* An extension of who exported it is on its way: it finds nothing of his. */
static void an_extension_in_flight(void)
{
    struct sim *s = sim_up(3);
    rl_lease *lease = sim_hold(s, "k", 3000);
    rl_round *extend = holder_extend(lease, 9000, s->now_ms);
    struct parcel p = sim_export(s, lease);
    struct hold h = sim_import(s, "k", &p, 4000);
    int64_t t0 = s->now_ms;
    sim_run(s);
    CHECK_INT(sim_end(extend), RL_NOT_HELD);
    CHECK_INT(h.round->outcome, RL_GRANTED);
    CHECK_INT(sim_key(s, 0, "k")->until_ms, t0 + 4000);
    released(s, h.lease);
}

/* A token that a majority did not count for the hold is refused, and nothing is changed. */
static void a_token_that_was_not_counted(void)
{
    for (int64_t wrong = -1; wrong <= 1; wrong += 2) {
        struct sim *s = fenced(3, 6);
        struct parcel p = given(s, 9000);
        p.token += wrong;
        struct hold h = sim_import(s, "k", &p, 9000);
        CHECK_INT(sim_outcome(s, h.round), RL_LOST);
        sim_drop(s, &h);
        sim_advance(s, 1000);
        CHECK_INT(with_old(s, &p), all_of(3));
        for (int i = 0; i < 3; i++)
            CHECK_INT(s->server[i].counter, 7);
        p.token -= wrong;
        h = sim_import(s, "k", &p, 9000);
        CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
        CHECK_INT(h.lease->token, 7);
        released(s, h.lease);
    }
}

/* Until a majority has said so the lease does not know the token: no release raises a
 * counter to it. */
SIM_TEST(a_failed_import_raises_nothing, fenced(3, 6))
{
    struct parcel p = given(s, 60000);
    s->server[1].counter = s->server[2].counter = 5;
    struct hold h = sim_import(s, "k", &p, 60000);
    CHECK_INT(sim_outcome(s, h.round), RL_LOST);
    sim_run(s);
    CHECK_INT(sim_key(s, 0, "k") != NULL, 0);
    CHECK_INT(s->server[0].counter, 7);
    CHECK_INT(s->server[1].counter, 5);
}

/* As an acquire: more than a majority, and some validity. */
static void what_an_acquire_needs(void)
{
    struct sim *s = sim_up(3);
    struct parcel p = given(s, 9000);
    s->core.options.margin = 1;
    s->server[0].frozen = 1;
    struct hold h = sim_import(s, "k", &p, 9000);
    CHECK_INT(sim_wait(s, h.round, 1000), RL_UNKNOWN);
    nothing_is_left(s, h.lease);

    s = sim_up(3);
    p = given(s, 9000);
    s->core.options.min_validity_ms = 2000;
    h = sim_import(s, "k", &p, 2001);
    CHECK_INT(sim_outcome(s, h.round), RL_EXPIRED);
    nothing_is_left(s, h.lease);
}

/* The one who would hold it is gone before it knows. */
SIM_TEST(a_dead_taker, sim_up(3))
{
    struct parcel p = given(s, 60000);
    struct hold h = sim_import(s, "k", &p, 60000);
    sim_serve(s, 0);
    sim_execute(s, 0, 1);
    holder_drop(h.lease, s->now_ms);
    CHECK_INT(sim_outcome(s, h.round), RL_CANCELLED);
    CHECK_INT(sim_with(s, "k"), 0);
}

static void closing_in_the_middle(void)
{
    struct sim *s = sim_up(3);
    struct parcel p = given(s, 60000);
    struct hold h = sim_import(s, "k", &p, 60000);
    sim_serve(s, 0);
    close_finish(&s->core, s->now_ms);
    CHECK_INT(sim_outcome(s, h.round), RL_CLOSED);
    nothing_is_left(s, h.lease);
}

static void forking_in_the_middle(void)
{
    struct sim *s = sim_up(3);
    struct parcel p = given(s, 3000);
    struct hold h = sim_import(s, "k", &p, 3000);
    sim_fork(s);
    CHECK_INT(h.round->outcome, RL_CLOSED);
    sim_run(s);
    CHECK_INT(with_old(s, &p), all_of(3));       /* the parent's, not ours to touch */
    nothing_is_left(s, h.lease);
}

SUITE(import, T(one_round_and_nothing_else), T(a_second_import_is_lost),
      T(at_most_one_of_two), T(a_majority_that_is_frozen),
      T(a_minority_that_is_frozen), T(sent_again), T(once_on_each_server),
      T(what_it_did_not_reach_is_released), T(what_is_left_by_a_server_that_loads_is_released),
      T(one_server_twice), T(servers_that_do_not_have_it), T(one_that_forgot_is_healed),
      T(without_the_script), T(an_extension_in_flight), T(a_token_that_was_not_counted),
      T(a_failed_import_raises_nothing), T(what_an_acquire_needs), T(a_dead_taker),
      T(closing_in_the_middle), T(forking_in_the_middle));
