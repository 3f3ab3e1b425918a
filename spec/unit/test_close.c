/* test_close.c - a core that is about to close: its releases go on for a while, and
 * nothing else is begun. And one that is closed, or lives on in the child of a fork.
 */
#include "sim.h"

static void closed(struct sim *s)
{
    close_finish(&s->core, s->now_ms);
    CHECK_INT(close_unreleased(&s->core, 0), 0);
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
    closed(s);
}

static void all_rounds_end(void)
{
    struct sim *s = sim_up(3);
    rl_lease *lease = sim_hold(s, "k", 9000);
    rl_round *rounds[] = {
        holder_extend(lease, 9000, s->now_ms),
        holder_release(sim_hold(s, "b", 9000), s->now_ms),
        sim_ask(s, "k"),
        subscription_pause(&s->core, NULL, 0, 1000, s->now_ms),
    };
    struct hold begun = sim_acquire(s, "c", 9000, 1000);
    close_begin(&s->core, s->now_ms);
    for (int k = 0; k < 4; k++)
        CHECK(rounds[k]->outcome != RL_OK);
    CHECK_INT(begun.round->outcome, RL_CLOSED);
    CHECK(subscription_pause(&s->core, NULL, 0, 1, s->now_ms) == NULL);
    sim_run(s);
    CHECK_INT(sim_with(s, "k") | sim_with(s, "b") | sim_with(s, "c"), 0);
    for (int k = 0; k < 4; k++)
        round_free(rounds[k]);
    closed(s);
}

/* A server that has nothing of ours is not waited for. */
static void only_those_who_may_have_it(void)
{
    struct sim *s = sim_up(3);
    s->server[0].hushed = 1;
    sim_cut(s, 0);
    sim_advance(s, 50);
    sim_hold(s, "k", 9000);
    CHECK_INT(s->core.nodes[0].state, NODE_CONNECTING);
    close_begin(&s->core, s->now_ms);
    CHECK_INT(close_unreleased(&s->core, 0), bit(1) | bit(2));
    sim_run(s);
    CHECK_INT(close_unreleased(&s->core, 0), 0);
    closed(s);
}

/* Its connection is gone, noticed or not: it is made again for the release. */
static void a_connection_that_is_gone(int noticed)
{
    struct sim *s = sim_up(3);
    test_note("noticed %d", noticed);
    sim_hold(s, "k", 9000);
    if (noticed)
        sim_cut(s, 1);
    close_begin(&s->core, s->now_ms);
    if (!noticed)
        sim_cut(s, 1);
    sim_run(s);
    CHECK_INT(s->core.nodes[1].state, NODE_READY);
    CHECK_INT(sim_with(s, "k"), 0);
    closed(s);
}

static void connections_that_are_gone(void)
{
    a_connection_that_is_gone(0);
    a_connection_that_is_gone(1);
}

SIM_TEST(closing_connects_nothing, sim_up(3))
{
    sim_hold(s, "k", 9000);
    sim_cut(s, 1);
    close_finish(&s->core, s->now_ms);
    CHECK_INT(s->core.want_connect, 0);
    CHECK_INT(s->core.nodes[1].state, NODE_DOWN);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), bit(1));
    s->server[1].keys = 0;
}

/* What was given away is on its way to the third: that it arrives is waited for. */
SIM_TEST(what_was_asked_of_late, sim_up(3))
{
    CHECK_INT(close_unanswered(&s->core, 0), 0);
    sim_hold_answers(s, bit(2));
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    round_free(h.round);
    holder_disown(h.lease, s->now_ms);
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

/* ---- fork ---- */

/* A core in the middle of everything. */
struct busy {
    struct hold acquiring;
    rl_lease *held, *extending, *releasing;
    rl_round *extend, *release, *ask, *sleep;
};

static struct busy make_busy(struct sim *s)
{
    struct busy b;
    b.held = sim_hold(s, "held", 30000);
    b.extending = sim_hold(s, "extending", 30000);
    b.releasing = sim_hold(s, "releasing", 30000);
    sim_freeze(s, all_of(s->n));
    b.acquiring = sim_acquire(s, "acquiring", 30000, 10000);
    b.extend = holder_extend(b.extending, 40000, s->now_ms);
    b.release = holder_release(b.releasing, s->now_ms);
    b.ask = sim_ask(s, "held");
    b.sleep = subscription_pause(&s->core, NULL, 0, 5000, s->now_ms);
    return b;
}

static void free_busy(struct sim *s, struct busy *b)
{
    sim_drop(s, &b->acquiring);
    holder_drop(b->held, s->now_ms);
    holder_drop(b->extending, s->now_ms);
    holder_drop(b->releasing, s->now_ms);
    round_free(b->extend);
    round_free(b->release);
    round_free(b->ask);
    round_free(b->sleep);
}

static void all_closed(const struct busy *b)
{
    CHECK_INT(b->acquiring.round->outcome, RL_CLOSED);
    CHECK_INT(b->extend->outcome, RL_CLOSED);
    CHECK_INT(b->release->outcome, RL_CLOSED);
    CHECK_INT(b->ask->outcome, RL_CLOSED);
    CHECK_INT(b->sleep->outcome, RL_CLOSED);
}

SIM_TEST(fork_voids_everything, sim_up(3))
{
    struct busy b = make_busy(s);
    sim_fork(s);             /* writes nothing: the sockets are the parent's */
    all_closed(&b);
    CHECK_INT(lease_remaining_ms(b.held, s->now_ms), 0);
    CHECK_INT(lease_remaining_ms(b.acquiring.lease, s->now_ms), 0);
    CHECK(s->core.owing == NULL);
    sim_heal(s);
    sim_clear_logs(s);
    /* The parent's leases are not the child's to touch. */
    rl_round *extend = holder_extend(b.held, 9000, s->now_ms);
    rl_round *release = holder_release(b.held, s->now_ms);
    rl_round *cancel = holder_release(b.acquiring.lease, s->now_ms);
    CHECK_INT(sim_end(extend), RL_NOT_HELD);
    CHECK_INT(sim_end(release), RL_NOT_HELD);
    CHECK_INT(sim_end(cancel), RL_NOT_HELD);
    CHECK_INT(core_due_ms(&s->core), INT64_MAX);
    CHECK_INT(s->core.nodes[0].failures, 0);     /* the parent's troubles are not ours */
    CHECK_INT(s->core.nodes[0].retry_ms, 0);
    sim_advance(s, 10);
    sim_logs_are(s, "");
    CHECK_INT(s->server[0].opened, 1);
    /* It starts with connections of its own, at once. */
    struct hold h = sim_acquire(s, "new", 9000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(sim_mine(s, "held", b.held), all_of(3));
    CHECK_INT(s->server[0].opened, 2);
    free_busy(s, &b);
}

/* The parent's handles are dropped in the child without a word to the servers. */
SIM_TEST(fork_drops_quietly, sim_up(3))
{
    struct busy b = make_busy(s);
    sim_fork(s);             /* writes nothing: the sockets are the parent's */
    free_busy(s, &b);
    CHECK_INT(sim_live(s), 0);
    CHECK(!s->core.want_close && !s->core.want_connect && !s->core.want_write);
}

SIM_TEST(fork_while_connecting, sim_new(3))
{
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    close_void(&s->core);
    CHECK_INT(s->core.want_connect, 0);
    CHECK_INT(h.round->outcome, RL_CLOSED);
    sim_drop(s, &h);
    h = sim_acquire(s, "k", 9000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
}

/* ---- close ---- */

SIM_TEST(close_ends_everything, sim_up(3))
{
    struct busy b = make_busy(s);
    sim_run(s);
    close_finish(&s->core, s->now_ms);
    all_closed(&b);
    CHECK(s->core.active == NULL && s->core.owing == NULL);
    CHECK_INT(lease_remaining_ms(b.held, s->now_ms), 0);
    /* The release of what was being acquired is on its way. */
    sim_freeze(s, 0);
    sim_clear_logs(s);
    sim_run(s);
    sim_logs_are(s, "AERQRRR");
    CHECK_INT(sim_with(s, "acquiring") | sim_with(s, "releasing"), 0);
    /* Nothing can be started. */
    rl_bytes key = {"k", 1};
    rl_lease *lease = NULL;
    char value[RL_VALUE_LEN] = "";
    CHECK(acquire_begin(&s->core, &s->primitive, &key, 1, NULL, 0,
                        (rl_bytes){value, RL_VALUE_LEN}, 9000, 1000, -1, s->now_ms,
                        &lease) == NULL);
    CHECK(query_ask(&s->core, RL_ASK_MAJORITY, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms) == NULL);
    CHECK(subscription_pause(&s->core, NULL, 0, 1, s->now_ms) == NULL);
    rl_round *extend = holder_extend(b.held, 9000, s->now_ms);
    rl_round *release = holder_release(b.held, s->now_ms);
    CHECK_INT(sim_end(extend), RL_CLOSED);
    CHECK_INT(sim_end(release), RL_CLOSED);
    free_busy(s, &b);
}

SIM_TEST(close_while_connecting, sim_new(3))
{
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    close_finish(&s->core, s->now_ms);
    CHECK(h.round->outcome != RL_OK);
    sim_drop(s, &h);
    sim_run(s);
    sim_logs_are(s, "");
}

/* Freed with everything under way: valgrind and the sanitizers see what is left. */
SIM_TEST(free_in_the_middle, sim_up(3))
{
    struct busy b = make_busy(s);
    sim_run(s);
    free_busy(s, &b);
    close_finish(&s->core, s->now_ms);
}

SUITE(close, T(what_is_held_is_released_and_confirmed), T(all_rounds_end),
      T(only_those_who_may_have_it), T(connections_that_are_gone),
      T(closing_connects_nothing), T(what_was_asked_of_late),
      T(fork_voids_everything), T(fork_drops_quietly), T(fork_while_connecting),
      T(close_ends_everything), T(close_while_connecting), T(free_in_the_middle));
