/* test_core.c - connections, health, and handles that are dropped. */
#include <stdio.h>

#include "sim.h"

/* ---- hung and silent nodes ---- */

SIM_TEST(hung_node_is_spared_and_asked_again, sim_up(3))
{
    s->server[2].frozen = 1;
    rl_lease *a = sim_hold(s, "a", 9000);
    sim_advance(s, SIM_TIMEOUT_MS - 1);
    struct hold b = sim_acquire(s, "b", 9000, 1000);     /* not hung yet: it is asked */
    CHECK_INT(sim_outcome(s, b.round), RL_GRANTED);
    CHECK_INT(b.round->slot[2].state, SLOT_SENT);
    sim_advance(s, 1);
    struct hold c = sim_acquire(s, "c", 9000, 1000);
    CHECK_INT(c.round->slot[2].state, SLOT_MISSING);
    CHECK_INT(c.round->slot[2].code, RL_TIMEOUT);
    CHECK_INT(sim_outcome(s, c.round), RL_GRANTED);
    rl_round *ask = sim_ask(s, "c");
    CHECK_INT(ask->slot[2].code, RL_TIMEOUT);
    CHECK_INT(sim_result(s, ask), RL_GRANTED);
    /* What it was asked for is released there, in order; c it was not asked for. */
    rl_round *ra = holder_release(a, s->now_ms), *rc = holder_release(c.lease, s->now_ms);
    CHECK_INT(sim_result(s, ra), RL_GRANTED);
    CHECK_INT(sim_end(rc), RL_GRANTED);
    CHECK_STR(s->server[2].log, "");
    s->server[2].frozen = 0;
    sim_run(s);
    CHECK_STR(s->server[2].log, "AAR");
    CHECK_INT(sim_with(s, "a") | sim_with(s, "c"), 0);
    CHECK_INT(sim_mine(s, "b", b.lease), all_of(3));
    struct hold d = sim_acquire(s, "d", 9000, 1000);     /* it answers again */
    sim_run(s);
    CHECK_INT(sim_mine(s, "d", d.lease), all_of(3));
}

SIM_TEST(silent_connection_is_given_up, sim_up(3))
{
    s->server[2].frozen = 1;
    rl_lease *lease = sim_hold(s, "k", 9000);
    sim_advance(s, 4 * SIM_TIMEOUT_MS - 1);
    CHECK_INT(s->server[2].state, SIM_OPEN);
    sim_advance(s, 1);
    CHECK_INT(s->core.nodes[2].state, NODE_DOWN);
    CHECK_INT(s->core.nodes[2].code, RL_TIMEOUT);
    CHECK_STR(s->core.nodes[2].text, "no answer");
    CHECK_INT(s->server[2].state, SIM_CLOSED);
    CHECK_INT(s->server[2].opened, 1);   /* nobody wants it now */
    s->server[2].frozen = 0;
    sim_acquire(s, "other", 9000, 1000);
    sim_run(s);
    CHECK_INT(s->server[2].opened, 2);
    rl_round *release = holder_release(lease, s->now_ms);
    sim_advance(s, 1000);
    CHECK_INT(sim_end(release), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
}

/* Answers that keep coming, however slowly, keep a connection. */
SIM_TEST(slow_is_not_silent, sim_up(1))
{
    char name[16];
    s->server[0].holds = 1;
    for (int k = 0; k < 12; k++) {
        snprintf(name, sizeof(name), "k%d", k);
        sim_acquire(s, name, 9000, 9000);
        sim_run(s);
        sim_advance(s, 100);
        if (k < 6)
            continue;
        s->server[0].holds = 0;
        sim_deliver(s, 0, 4);            /* one ":1\r\n" */
        s->server[0].holds = 1;
    }
    CHECK_INT(s->server[0].opened, 1);
    CHECK_INT(s->server[0].state, SIM_OPEN);
}

/* ---- connecting ---- */

SIM_TEST(no_connection_in_time, sim_new(1))
{
    s->server[0].hushed = 1;
    struct hold h = sim_acquire(s, "k", 9000, 9000);
    sim_advance(s, SIM_CONNECT_MS - 1);
    CHECK_INT(h.round->outcome, RL_OK);  /* pending until then: it was fine so far */
    sim_advance(s, 1);
    CHECK_INT(h.round->outcome, RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_TIMEOUT);
    CHECK_STR(s->core.nodes[0].text, "no connection in time");
    sim_drop(s, &h);
    /* It failed: from now on it costs no more than an answer. */
    sim_advance(s, NODE_BACKOFF_MAX_MS);
    h = sim_acquire(s, "k", 9000, 9000);
    sim_run(s);
    CHECK_INT(s->core.nodes[0].state, NODE_CONNECTING);
    int64_t t0 = s->now_ms;
    CHECK_INT(sim_wait(s, h.round, 5000), RL_NO_QUORUM);
    CHECK_INT(s->now_ms - t0, SIM_TIMEOUT_MS);
}

/* A driver that had no time to connect: it must not do so afterwards. */
SIM_TEST(given_up_before_it_was_begun, sim_new(1))
{
    struct hold h = sim_acquire(s, "k", 9000, 9000);
    sim_skip(s, SIM_CONNECT_MS);
    sim_tick(s);
    CHECK_INT(h.round->outcome, RL_NO_QUORUM);
    CHECK_INT(s->core.want_connect, 0);
    CHECK_INT(s->core.want_close, 1);
}

SIM_TEST(no_handshake_in_time, sim_new(1))
{
    s->server[0].frozen = 1;
    struct hold h = sim_acquire(s, "k", 9000, 9000);
    CHECK_INT(sim_wait(s, h.round, 5000), RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_TIMEOUT);
    CHECK_STR(s->core.nodes[0].text, "no answer to the handshake");
    CHECK_INT(s->server[0].state, SIM_CLOSED);
    CHECK_STR(s->server[0].log, "");
}

SIM_TEST(refused_handshake_is_the_vote, sim_new(3))
{
    for (int i = 0; i < 3; i++)
        s->config[i].password = "pw";
    s->server[0].greets = s->server[1].greets = "-WRONGPASS invalid password\r\n";
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_AUTH);
    CHECK_INT(h.round->slot[1].code, RL_AUTH);
    CHECK_STR(s->core.nodes[0].text, "AUTH: WRONGPASS");
    CHECK_INT(s->server[0].state, SIM_CLOSED);
}

/* Somebody who tries all the time. */
static void try_in_vain(struct sim *s, int times)
{
    for (int k = 0; k < times; k++) {
        struct hold h = sim_acquire(s, "k", 9000, 1000);
        sim_advance(s, 20);
        CHECK_INT(h.round->outcome, RL_NO_QUORUM);
        sim_drop(s, &h);
    }
}

SIM_TEST(back_off_spares_the_server, sim_up(1))
{
    rl_lease *lease = sim_hold(s, "k", 30000);
    sim_leave(s, 0);
    holder_drop(lease, s->now_ms);
    int64_t before = s->core.nodes[0].stats.disconnects;
    try_in_vain(s, 1000);
    int64_t tries = s->core.nodes[0].stats.disconnects - before;
    CHECK(tries >= 10 && tries <= 30);   /* 20 s */
}

/* For who listens: a server that cannot be reached is news once for each reason. */
SIM_TEST(changes_are_news_once, sim_new(1))
{
    s->server[0].refuses = 1;
    try_in_vain(s, 500);
    CHECK(s->core.nodes[0].stats.disconnects > 3);
    CHECK_INT(s->core.node_changes, 1);
    CHECK_INT(s->core.nodes[0].lost, RL_REFUSED);
    s->server[0].refuses = 0;
    s->config[0].password = "pw";
    s->server[0].greets = "-WRONGPASS invalid password\r\n";
    try_in_vain(s, 500);
    CHECK_INT(s->core.node_changes, 2);
    CHECK_INT(s->core.nodes[0].lost, RL_AUTH);
    s->server[0].greets = NULL;
    sim_skip(s, NODE_BACKOFF_MAX_MS * 2);
    struct hold h = sim_acquire(s, "k", 9000, 9000);
    CHECK_INT(sim_wait(s, h.round, 5000), RL_GRANTED);
    CHECK_INT(s->core.node_changes, 3);
    CHECK_INT(s->core.nodes[0].lost, RL_OK);
    sim_cut(s, 0);
    CHECK_INT(s->core.node_changes, 4);
    CHECK_INT(s->core.nodes[0].lost, RL_REFUSED);
}

/* Nobody connects what nobody uses. */
SIM_TEST(idle_nodes_stay_down, sim_up(3))
{
    for (int i = 0; i < 3; i++)
        sim_cut(s, i);
    sim_advance(s, 60000);
    CHECK_INT(s->server[0].opened, 1);
    CHECK_INT(core_due_ms(&s->core), INT64_MAX);
}

/* What is not RESP ends the connection, and counts as a break: asked again. */
SIM_TEST(garbage_is_a_break, sim_up(1))
{
    s->server[0].say[SIM_ACQUIRE] = "garbage\r\n";
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    sim_serve(s, 0);
    sim_execute(s, 0, 1);
    sim_deliver(s, 0, SIZE_MAX);
    CHECK_INT(s->core.want_close, 1);
    CHECK_INT(s->core.nodes[0].code, RL_PROTOCOL);
    CHECK_INT(h.lease->broken, 1);
    s->server[0].say[SIM_ACQUIRE] = NULL;
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(s->server[0].opened, 2);
}

/* ---- dropped handles ---- */

enum { DROP_STEPS = 14 };

/* Drops the handles of one lease's life at one of its steps, in one of two orders. */
static void drop_at(int step, int lease_first, int up)
{
    struct sim *s = up ? sim_up(3) : sim_new(3);
    struct hold h = sim_acquire(s, "k", 3000, 1000);
    rl_round *extend = NULL, *release = NULL;
    for (int k = 0; k < step; k++) {
        if (k == 7)
            extend = holder_extend(h.lease, 5000, s->now_ms);
        else if (k == 9)
            release = holder_release(h.lease, s->now_ms);
        for (int i = 0; i < 3 && k != 7 && k != 9; i++) {
            sim_serve(s, i);
            sim_open(s, i);
            sim_serve(s, i);
            sim_execute(s, i, 3);
            sim_deliver(s, i, 30);
        }
    }
    if (lease_first) {
        holder_drop(h.lease, s->now_ms);
        h.lease = NULL;
    }
    if (extend)
        round_free(extend);
    sim_drop(s, &h);
    if (release)
        round_free(release);
    sim_advance(s, 10000);
    CHECK_INT(sim_live(s), 0);
    CHECK_INT(s->core.handles, 0);
    CHECK_INT(sim_with(s, "k"), 0);
    sim_finish(s);
}

static void handles_may_be_dropped_any_time(void)
{
    for (int step = 0; step <= DROP_STEPS; step++) {
        for (int way = 0; way < 4; way++) {
            test_note("step %d, way %d", step, way);
            drop_at(step, way & 1, way & 2);
        }
    }
}

SIM_TEST(dropping_an_attempt_cancels_it, sim_up(3))
{
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    holder_drop(h.lease, s->now_ms);
    CHECK_INT(h.round->outcome, RL_CANCELLED);
    round_free(h.round);
    sim_run(s);
    sim_logs_are(s, "AR");
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(sim_live(s), 0);
}

SIM_TEST(dropping_a_lease_releases_nothing, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 9000);
    holder_drop(lease, s->now_ms);
    sim_run(s);
    sim_logs_are(s, "A");
    CHECK_INT(sim_with(s, "k"), all_of(3));
    CHECK(sim_live(s) > 0);              /* known, so that close_finish() can release it */
    sim_advance(s, 9000);
    CHECK_INT(sim_live(s), 0);
}

/* Freeing the round of an attempt is no cancelling: the lease goes on. */
SIM_TEST(dropping_a_round_goes_on, sim_up(3))
{
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    round_free(h.round);
    h.round = NULL;
    sim_run(s);
    CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), sim_validity(9000, 0));
}

/* Told of twice, done once, in the order in which they were. */
SIM_TEST(done_rounds_are_given_once, sim_new(1))
{
    rl_round *late = subscription_pause(&s->core, NULL, 0, 20, s->now_ms);
    rl_round *early = subscription_pause(&s->core, NULL, 0, 10, s->now_ms);
    for (int k = 0; k < 2; k++) {
        round_notify(late);
        round_notify(early);
    }
    sim_advance(s, 30);
    round_notify(late);
    CHECK(round_next(&s->core) == early);
    CHECK(round_next(&s->core) == late);
    CHECK(round_next(&s->core) == NULL);
    round_free(late);
    round_free(early);
}

/* Everything comes from the pools after the first time. */
SIM_TEST(nothing_is_allocated_twice, sim_up(3))
{
    uint32_t objects = 0;
    for (int k = 0; k < 50; k++) {
        rl_lease *lease = sim_hold(s, "k", 9000);
        CHECK_INT(sim_result(s, holder_extend(lease, 9000, s->now_ms)), RL_GRANTED);
        CHECK_INT(sim_result(s, holder_release(lease, s->now_ms)), RL_GRANTED);
        holder_drop(lease, s->now_ms);
        CHECK_INT(sim_live(s), 0);
        if (k == 0)
            objects = s->core.timers_wanted;
        sim_clear_logs(s);
    }
    CHECK_INT(s->core.timers_wanted, objects);
}

/* Questions without an end, one after the other, with this many to go. */
static void ask_often(struct sim *s, int n)
{
    while (n-- > 0) {
        rl_round *round = sim_ask(s, "k");
        sim_run(s);
        round_free(round);
        sim_clear_logs(s);
    }
}

SIM_TEST(who_is_behind_is_asked_for_nothing_new, sim_up(5))
{
    rl_lease *before = sim_hold(s, "k", 9000);
    s->server[4].frozen = 1;
    ask_often(s, NODE_BEHIND_MIN);
    CHECK_INT(s->core.nodes[4].queue_len, NODE_BEHIND_MIN);
    sim_skip(s, NODE_PAUSE_MS);
    rl_round *round = sim_ask(s, "k");
    CHECK_INT(round->slot[4].code, RL_OVERLOAD);
    CHECK_INT(sim_result(s, round), RL_GRANTED);
    struct hold h = sim_acquire(s, "other", 9000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->touched, all_of(4));
    round_free(holder_release(h.lease, s->now_ms));
    sim_run(s);
    CHECK(s->core.owing == NULL);
    CHECK_INT(s->core.nodes[4].queue_len, NODE_BEHIND_MIN);
    /* It may have this one, so it gets the release whatever else it has to do. */
    round_free(holder_release(before, s->now_ms));
    sim_run(s);
    CHECK_INT(s->core.nodes[4].queue_len, NODE_BEHIND_MIN + 1);
    CHECK_INT(s->core.nodes[4].stats.owed, 1);
    s->server[4].frozen = 0;
    sim_run(s);
    CHECK_INT(s->core.nodes[4].stats.owed, 0);
    CHECK_INT(sim_with(s, "k") | sim_with(s, "other"), 0);
    round = sim_ask(s, "k");
    CHECK_INT(round->slot[4].state, SLOT_SENT);
    sim_run(s);
}

/* Where a majority is behind, or away, or says nothing now, nobody is spared: that would be
 * no service at all. */
static void a_majority_is_not_spared(void)
{
    enum { BEHIND, AWAY, PAUSING, CASES };
    for (int what = 0; what < CASES; what++) {
        int away = what == AWAY;
        struct sim *s = sim_up(5);
        if (away) {
            s->server[0].refuses = s->server[1].refuses = 1;
            sim_cut(s, 0);
            sim_cut(s, 1);
            sim_advance(s, 2 * NODE_BACKOFF_MAX_MS);
        }
        s->server[2].frozen = what == BEHIND;
        s->server[3].frozen = s->server[4].frozen = 1;
        ask_often(s, NODE_BEHIND_MIN + 10);
        if (what == PAUSING) {           /* with hardly anything to answer */
            s->server[2].frozen = 1;
            ask_often(s, 1);
        }
        sim_advance(s, NODE_PAUSE_MS);
        for (int i = 3; i < 5; i++) {
            CHECK(health_behind(&s->core.nodes[i], s->now_ms));
            CHECK_INT(state_spares(&s->core, i, s->now_ms), RL_OK);
        }
        rl_round *round = sim_ask(s, "k");
        CHECK_INT(round->slot[4].state, SLOT_SENT);
        sim_heal(s);
        CHECK_INT(sim_wait(s, round, 1000), RL_GRANTED);
        sim_end(round);
        sim_clear_logs(s);
        sim_finish(s);
    }
}

SUITE(core, T(who_is_behind_is_asked_for_nothing_new), T(a_majority_is_not_spared),
      T(hung_node_is_spared_and_asked_again), T(silent_connection_is_given_up),
      T(slow_is_not_silent), T(no_connection_in_time),
      T(given_up_before_it_was_begun), T(no_handshake_in_time),
      T(refused_handshake_is_the_vote), T(back_off_spares_the_server),
      T(changes_are_news_once), T(idle_nodes_stay_down), T(garbage_is_a_break),
      T(handles_may_be_dropped_any_time), T(dropping_an_attempt_cancels_it),
      T(dropping_a_lease_releases_nothing), T(dropping_a_round_goes_on),
      T(done_rounds_are_given_once), T(nothing_is_allocated_twice));
