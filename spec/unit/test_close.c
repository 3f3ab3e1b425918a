/* test_close.c - a core that is about to close: its releases go on for a while, and
 * nothing else is begun.
 */
#include "sim.h"

static void closed(struct sim *s, rl_lease *lease)
{
    close_finish(&s->core, s->now_ms);
    CHECK_INT(close_unreleased(&s->core, 0), 0);
    lease_drop(lease, s->now_ms);
    sim_finish(s);
}

static void what_is_held_is_released_and_confirmed(void)
{
    struct sim *s = sim_up(3);
    rl_lease *lease = sim_hold(s, "k", 9000);
    close_begin(&s->core, s->now_ms);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    CHECK_INT(lease->lost, RL_LOSS_CLOSED);
    CHECK_INT(close_unreleased(&s->core, s->now_ms), all_of(3));
    CHECK_INT(close_unreleased(&s->core, s->now_ms + 1), 0);    /* begun before that */
    sim_run(s);
    CHECK_INT(close_unreleased(&s->core, s->now_ms), 0);
    CHECK_INT(sim_with(s, "k"), 0);
    closed(s, lease);
}

static void all_rounds_end(void)
{
    struct sim *s = sim_up(3);
    rl_lease *lease = sim_hold(s, "k", 9000);
    rl_round *rounds[] = {
        lease_extend(lease, 9000, s->now_ms),
        release_begin(sim_hold(s, "b", 9000), s->now_ms),
        sim_ask(s, "k"),
        query_sleep(&s->core, 1000, s->now_ms),
    };
    struct hold begun = sim_acquire(s, "c", 9000, 1000);
    close_begin(&s->core, s->now_ms);
    for (int k = 0; k < 4; k++)
        CHECK(rounds[k]->outcome != RL_OK);
    CHECK_INT(begun.round->outcome, RL_CLOSED);
    CHECK(query_sleep(&s->core, 1, s->now_ms) == NULL);
    sim_run(s);
    CHECK_INT(sim_with(s, "k") | sim_with(s, "b") | sim_with(s, "c"), 0);
    rl_lease *other = rounds[1]->lease;
    for (int k = 0; k < 4; k++)
        round_free(rounds[k]);
    lease_drop(other, s->now_ms);
    sim_drop(s, &begun);
    closed(s, lease);
}

/* A server that has nothing of ours is not waited for. */
static void only_those_who_may_have_it(void)
{
    struct sim *s = sim_up(3);
    s->server[0].hushed = 1;
    sim_cut(s, 0);
    sim_advance(s, 50);
    rl_lease *lease = sim_hold(s, "k", 9000);
    CHECK_INT(s->core.nodes[0].state, NODE_CONNECTING);
    close_begin(&s->core, s->now_ms);
    CHECK_INT(close_unreleased(&s->core, 0), bit(1) | bit(2));
    sim_run(s);
    CHECK_INT(close_unreleased(&s->core, 0), 0);
    closed(s, lease);
}

/* Its connection is gone, noticed or not: it is made again for the release. */
static void a_connection_that_is_gone(int noticed)
{
    struct sim *s = sim_up(3);
    test_note("noticed %d", noticed);
    rl_lease *lease = sim_hold(s, "k", 9000);
    if (noticed)
        sim_cut(s, 1);
    close_begin(&s->core, s->now_ms);
    if (!noticed)
        sim_cut(s, 1);
    sim_run(s);
    CHECK_INT(s->core.nodes[1].state, NODE_READY);
    CHECK_INT(sim_with(s, "k"), 0);
    closed(s, lease);
}

static void connections_that_are_gone(void)
{
    a_connection_that_is_gone(0);
    a_connection_that_is_gone(1);
}

SIM_TEST(closing_connects_nothing, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 9000);
    sim_cut(s, 1);
    close_finish(&s->core, s->now_ms);
    CHECK_INT(s->core.want_connect, 0);
    CHECK_INT(s->core.nodes[1].state, NODE_DOWN);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), bit(1));
    s->server[1].keys = 0;
    lease_drop(lease, s->now_ms);
}

/* What was given away is on its way to the third: that it arrives is waited for. */
SIM_TEST(what_was_asked_of_late, sim_up(3))
{
    CHECK_INT(close_unanswered(&s->core, 0), 0);
    sim_hold_answers(s, bit(2));
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    round_free(h.round);
    lease_disown(h.lease);
    close_begin(&s->core, s->now_ms);
    CHECK_INT(close_unreleased(&s->core, 0), 0);
    CHECK_INT(close_unanswered(&s->core, s->now_ms), bit(2));
    CHECK_INT(close_unanswered(&s->core, s->now_ms + 1), 0);    /* asked before that */
    sim_hold_answers(s, 0);
    sim_run(s);
    CHECK_INT(close_unanswered(&s->core, 0), 0);
    CHECK_INT(sim_with(s, "k"), all_of(3));
    close_finish(&s->core, s->now_ms);
    for (int i = 0; i < 3; i++)
        s->server[i].keys = 0;
}

SUITE(close, T(what_is_held_is_released_and_confirmed), T(all_rounds_end),
      T(only_those_who_may_have_it), T(connections_that_are_gone),
      T(closing_connects_nothing), T(what_was_asked_of_late));
