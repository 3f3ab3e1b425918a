/* test_handover.c - a hold passes to the next holder in one round, and whatever goes
 * wrong on the way leaves neither value behind. */
#include "sim.h"

/* Both are over, and no server has anything of them. */
static void nothing_is_left(struct sim *s, rl_lease *old, struct hold *next)
{
    sim_heal(s);
    sim_advance(s, 5000);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(lease_remaining_ms(old, s->now_ms), 0);
    CHECK_INT(lease_remaining_ms(next->lease, s->now_ms), 0);
    CHECK(s->core.owing == NULL);
    holder_drop(old, s->now_ms);
    sim_drop(s, next);
    sim_finish(s);
}

/* What is held is held by the next one alone; its release empties the servers. */
static void held_by_the_next(struct sim *s, rl_lease *old, struct hold *next)
{
    CHECK_INT(lease_remaining_ms(old, s->now_ms), 0);
    CHECK(lease_remaining_ms(next->lease, s->now_ms) > 0);
    CHECK_INT(sim_mine(s, "k", old), 0);
    CHECK_INT(sim_result(s, holder_release(next->lease, s->now_ms)), RL_GRANTED);
    nothing_is_left(s, old, next);
}

static void one_round_and_nothing_else(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 32};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct sim *s = sim_up(sizes[k]);
        test_note("n = %d", sizes[k]);
        rl_lease *old = sim_hold(s, "k", 9000);
        sim_advance(s, 1000);
        sim_clear_logs(s);
        struct hold next = sim_handover(s, old, 4000);
        int64_t t0 = s->now_ms;
        CHECK_INT(lease_remaining_ms(old, t0), 0);      /* before anything is sent */
        CHECK_INT(lease_remaining_ms(next.lease, t0), 0);
        CHECK_INT(sim_outcome(s, next.round), RL_GRANTED);
        CHECK_INT(next.lease->deadline_ms, t0 + sim_validity(4000, 0));
        CHECK_INT(sim_mine(s, "k", next.lease), all_of(s->n));
        CHECK_INT(sim_key(s, 0, "k")->until_ms, t0 + 4000);
        CHECK(s->core.owing == NULL);
        sim_advance(s, 3000);
        sim_logs_are(s, "H");
        held_by_the_next(s, old, &next);
    }
}

/* Hands over along a chain; the first ones are forgotten on the way. */
SIM_TEST(many_in_a_row, sim_up(3))
{
    rl_lease *old = sim_hold(s, "k", 9000);
    int live = sim_live(s);
    for (int k = 0; k < 50; k++) {
        struct hold next = sim_handover(s, old, 9000);
        sim_run(s);
        CHECK_INT(sim_end(next.round), RL_GRANTED);
        holder_drop(old, s->now_ms);
        old = next.lease;
    }
    CHECK(sim_live(s) <= 2 * live);
    CHECK_INT(sim_mine(s, "k", old), all_of(3));
    holder_drop(old, s->now_ms);
}

/* A server that answers late does all in the order it was sent. */
static void a_frozen_minority(void)
{
    struct sim *s = sim_up(5);
    rl_lease *old = sim_hold(s, "k", 9000);
    s->server[1].frozen = s->server[3].frozen = 1;
    struct hold next = sim_handover(s, old, 9000);
    CHECK_INT(sim_outcome(s, next.round), RL_GRANTED);
    CHECK_INT(sim_mine(s, "k", old), bit(1) | bit(3));
    sim_advance(s, 400);                 /* a release of the old value queues up there */
    s->server[1].frozen = s->server[3].frozen = 0;
    sim_advance(s, 2000);
    CHECK_INT(sim_mine(s, "k", next.lease), all_of(5));
    held_by_the_next(s, old, &next);
}

/* A connection breaks with the hand-over on it, executed or not. */
static void a_torn_minority(int executed, int lingers)
{
    struct sim *s = sim_up(3);
    test_note("executed %d, lingers %d", executed, lingers);
    s->server[2].lingers = lingers;
    rl_lease *old = sim_hold(s, "k", 9000);
    struct hold next = sim_handover(s, old, 9000);
    sim_serve(s, 2);
    sim_execute(s, 2, executed);
    sim_cut(s, 2);
    CHECK_INT(sim_outcome(s, next.round), RL_GRANTED);
    sim_advance(s, 1000);
    while (sim_haunt(s, 2, 1))
        sim_advance(s, 1);
    sim_advance(s, 3000);
    CHECK((sim_mine(s, "k", next.lease) & 3) == 3);
    held_by_the_next(s, old, &next);
}

static void torn_minorities(void)
{
    a_torn_minority(0, 0);
    a_torn_minority(1, 0);
    a_torn_minority(0, 1);
}

/* Down all the time: its old key goes when it is back. */
static void a_minority_that_is_down(void)
{
    struct sim *s = sim_up(3);
    rl_lease *old = sim_hold(s, "k", 60000);
    sim_leave(s, 0);
    sim_advance(s, 100);
    struct hold next = sim_handover(s, old, 60000);
    CHECK_INT(sim_outcome(s, next.round), RL_GRANTED);
    CHECK_INT(sim_mine(s, "k", old), bit(0));
    sim_advance(s, 3000);
    s->server[0].refuses = 0;
    sim_advance(s, 3000);
    held_by_the_next(s, old, &next);
}

/* Too few answer: some have the new value, some the old, and both are released. */
static void a_majority_that_is_frozen(void)
{
    struct sim *s = sim_up(5);
    rl_lease *old = sim_hold(s, "k", 60000);
    sim_clear_logs(s);
    for (int i = 0; i < 3; i++)
        s->server[i].frozen = 1;
    struct hold next = sim_handover(s, old, 60000);
    CHECK_INT(sim_wait(s, next.round, 5000), RL_NO_QUORUM);
    for (int i = 0; i < 3; i++)
        s->server[i].frozen = 0;
    sim_run(s);
    sim_logs_are(s, "HRR");
    nothing_is_left(s, old, &next);
}

/* A replacement that was cut off is executed between the two releases, or after them:
 * the old value goes first, and the new one is asked for once more. */
static void a_straggler(int between)
{
    struct sim *s = sim_up(3);
    test_note("between %d", between);
    rl_lease *old = sim_hold(s, "k", 60000);
    for (int i = 0; i < 3; i++)
        s->server[i].lingers = 1;
    struct hold next = sim_handover(s, old, 60000);
    for (int i = 0; i < 3; i++) {
        sim_serve(s, i);
        sim_leave(s, i);
    }
    CHECK_INT(sim_wait(s, next.round, 5000), RL_NO_QUORUM);
    sim_heal(s);
    for (int k = 0; k < 3000 && s->server[0].state != SIM_OPEN; k++) {
        sim_advance(s, 1);
        for (int i = 0; i < 3 && between; i++) {
            sim_serve(s, i);
            sim_open(s, i);
            sim_serve(s, i);
            while (sim_execute(s, i, 1) && sim_mine(s, "k", old) & bit(i))
                continue;
            sim_haunt(s, i, 1);
        }
    }
    sim_run(s);
    for (int i = 0; i < 3; i++)
        sim_haunt(s, i, SIM_LOG);
    nothing_is_left(s, old, &next);
}

static void stragglers(void)
{
    a_straggler(0);
    a_straggler(1);
}

/* It replaces, it never takes: a server that forgot is no vote, somebody else's key is
 * left alone. */
static void servers_that_do_not_have_it(int foreign)
{
    struct sim *s = sim_up(3);
    test_note("foreign %d", foreign);
    rl_lease *old = sim_hold(s, "k", 9000);
    for (int i = 0; i < 2; i++) {
        s->server[i].keys = 0;
        if (foreign)
            sim_put(s, i, "k", 60000);
    }
    struct hold next = sim_handover(s, old, 9000);
    CHECK_INT(sim_outcome(s, next.round), RL_LOST);
    CHECK_INT(sim_with(s, "k"), foreign ? 3 : 0);
    s->server[0].keys = s->server[1].keys = 0;
    nothing_is_left(s, old, &next);
}

static void losses(void)
{
    servers_that_do_not_have_it(0);
    servers_that_do_not_have_it(1);
}

static void one_that_forgot_is_healed(void)
{
    struct sim *s = sim_up(3);
    rl_lease *old = sim_hold(s, "k", 3000);
    s->server[1].keys = 0;
    struct hold next = sim_handover(s, old, 3000);
    CHECK_INT(sim_outcome(s, next.round), RL_GRANTED);
    CHECK_INT(sim_mine(s, "k", next.lease), bit(0) | bit(2));
    watchdog_start(next.lease, 3000, 0, s->now_ms);
    sim_advance(s, 1500);
    CHECK_INT(sim_mine(s, "k", next.lease), all_of(3));
    held_by_the_next(s, old, &next);
}

/* The scripts were flushed: the text is sent, and it is one vote. */
static void without_the_script(void)
{
    struct sim *s = sim_up(3);
    rl_lease *old = sim_hold(s, "k", 9000);
    sim_flush_scripts(s);
    sim_clear_logs(s);
    struct hold next = sim_handover(s, old, 9000);
    CHECK_INT(sim_outcome(s, next.round), RL_GRANTED);
    sim_logs_are(s, "?h");
    held_by_the_next(s, old, &next);
}

/* A renewal of the old lease is on its way. */
static void a_renewal_in_flight(void)
{
    struct sim *s = sim_up(3);
    rl_lease *old = sim_hold(s, "k", 3000);
    watchdog_start(old, 3000, 0, s->now_ms);
    sim_hold_answers(s, all_of(3));
    while (!old->renewal)
        sim_advance(s, 10);
    struct hold next = sim_handover(s, old, 9000);
    sim_heal(s);
    CHECK_INT(sim_outcome(s, next.round), RL_GRANTED);
    sim_advance(s, 5000);
    CHECK_INT(sim_mine(s, "k", next.lease), all_of(3));
    CHECK_INT(old->lost, RL_NOT_LOST);
    held_by_the_next(s, old, &next);
}

/* An extension of the hold before, longer than what the next one asks for, reaches servers or
 * is answered when they have changed hands: neither the next one nor its keys last longer. */
static void an_extension_in_flight(void)
{
    enum { ANSWERED_LATE, ASKED_LATE, ASKED_AGAIN, WAYS };
    for (int way = 0; way < WAYS; way++) {
        struct sim *s = sim_up(3);
        test_note("way %d", way);
        rl_lease *old = sim_hold(s, "k", 3000);
        if (way == ASKED_AGAIN)
            sim_flush_scripts(s);      /* NOSCRIPT: its text comes behind the hand-over */
        rl_round *extend = holder_extend(old, 9000, s->now_ms);
        if (way == ANSWERED_LATE) {
            sim_hold_answers(s, all_of(3));
            sim_run(s);
            CHECK_INT(sim_key(s, 0, "k")->until_ms, s->now_ms + 9000);
        }
        struct hold next = sim_handover(s, old, 4000);
        int64_t t0 = s->now_ms;
        sim_hold_answers(s, 0);
        sim_run(s);
        sim_advance(s, 300);
        CHECK_INT(sim_end(extend), RL_NOT_HELD);
        CHECK_INT(next.round->outcome, RL_GRANTED);
        CHECK_INT(next.lease->deadline_ms, t0 + sim_validity(4000, 0));
        for (int i = 0; i < 3; i++)
            CHECK_INT(sim_key(s, i, "k")->until_ms, t0 + 4000);
        held_by_the_next(s, old, &next);
    }
}

/* The one who would hold it is gone before it knows. */
SIM_TEST(a_dead_taker, sim_up(3))
{
    rl_lease *old = sim_hold(s, "k", 60000);
    struct hold next = sim_handover(s, old, 60000);
    sim_serve(s, 0);
    sim_execute(s, 0, 1);
    holder_drop(next.lease, s->now_ms);
    CHECK_INT(sim_outcome(s, next.round), RL_CANCELLED);
    CHECK_INT(sim_with(s, "k"), 0);
    round_free(next.round);
    holder_drop(old, s->now_ms);
}

static void closing_in_the_middle(void)
{
    struct sim *s = sim_up(3);
    rl_lease *old = sim_hold(s, "k", 60000);
    struct hold next = sim_handover(s, old, 60000);
    sim_serve(s, 0);
    close_finish(&s->core, s->now_ms);
    CHECK_INT(sim_outcome(s, next.round), RL_CLOSED);
    nothing_is_left(s, old, &next);
}

static void forking_in_the_middle(void)
{
    struct sim *s = sim_up(3);
    rl_lease *old = sim_hold(s, "k", 3000);
    struct hold next = sim_handover(s, old, 3000);
    sim_fork(s);
    CHECK_INT(next.round->outcome, RL_CLOSED);
    struct hold more = sim_handover(s, old, 3000);
    CHECK_INT(more.round->outcome, RL_NOT_HELD);
    sim_drop(s, &more);
    sim_run(s);
    CHECK_INT(sim_mine(s, "k", old), all_of(3));       /* the parent's, not ours to touch */
    nothing_is_left(s, old, &next);
}

static void what_cannot_be_handed_over(void)
{
    struct sim *s = sim_up(3);
    rl_lease *lease = sim_hold(s, "k", 3000);
    lease->primitive.handover = -1;
    struct hold next = sim_handover(s, lease, 3000);
    CHECK_INT(next.round->outcome, RL_UNSUPPORTED);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 0);      /* as before */
    sim_drop(s, &next);
    lease->primitive.handover = SIM_HANDOVER;
    sim_skip(s, 3000);
    next = sim_handover(s, lease, 3000);
    CHECK_INT(next.round->outcome, RL_LOST);
    sim_drop(s, &next);
    round_free(holder_release(lease, s->now_ms));
    next = sim_handover(s, lease, 3000);
    CHECK_INT(next.round->outcome, RL_NOT_HELD);
    nothing_is_left(s, lease, &next);
}

SUITE(handover, T(one_round_and_nothing_else), T(many_in_a_row), T(a_frozen_minority),
      T(torn_minorities), T(a_minority_that_is_down), T(a_majority_that_is_frozen),
      T(stragglers), T(losses), T(one_that_forgot_is_healed), T(without_the_script),
      T(a_renewal_in_flight), T(an_extension_in_flight),
      T(a_dead_taker), T(closing_in_the_middle),
      T(forking_in_the_middle), T(what_cannot_be_handed_over));
