/* test_acquire.c - how an attempt is decided: by votes, and by time. */
#include <stdio.h>

#include "sim.h"

/* Runs a test for the numbers of nodes that are in use, and for the largest. */
static void for_each_n(void (*run)(int n))
{
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 32};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        test_note("n = %d", sizes[k]);
        run(sizes[k]);
    }
}

/* ---- all is well ---- */

static void grant(int n)
{
    struct sim *s = sim_up(n);
    int64_t t0 = s->now_ms;
    sim_hold_answers(s, all_of(n));
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), 0);
    sim_advance(s, 40);
    CHECK_INT(h.round->outcome, RL_OK);
    sim_hold_answers(s, 0);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    /* From the moment it was asked for, not from the answer. */
    CHECK_INT(h.lease->deadline_ms, t0 + 30000 - 302);
    CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), sim_validity(30000, 40));
    CHECK_INT(lease_remaining_ms(h.lease, t0 + 29697), 1);
    CHECK_INT(lease_remaining_ms(h.lease, t0 + 29698), 0);
    CHECK_INT(lease_remaining_ms(h.lease, t0 + 29699), 0);
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(n));
    sim_logs_are(s, "A");
    sim_finish(s);
}

static void all_up(void)
{
    for_each_n(grant);
}

static void grant_cold(int n)
{
    struct sim *s = sim_new(n);
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(h.round->outcome, RL_OK);
    CHECK_INT(s->core.want_connect, all_of(n));
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    /* Those that were not ready when it was decided have not been asked. */
    CHECK(__builtin_popcount(sim_mine(s, "k", h.lease)) >= quorum_size(n));
    sim_finish(s);
}

static void first_use_connects(void)
{
    for_each_n(grant_cold);
}

SIM_TEST(byte_by_byte, sim_new(5))
{
    s->chunk = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
}

/* Of 5 s there are 4948 ms that count. */
static void too_little_left(int late_ms, int outcome)
{
    struct sim *s = sim_up(3);
    s->core.options.min_validity_ms = 4900;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    for (int i = 0; i < 3; i++) {
        sim_serve(s, i);
        sim_execute(s, i, 1);
    }
    s->now_ms += late_ms;
    for (int i = 0; i < 2; i++)
        sim_deliver(s, i, SIZE_MAX);
    CHECK_INT(h.round->outcome, outcome);
    CHECK_INT(h.lease->state == LEASE_HELD, outcome == RL_GRANTED);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), outcome == RL_GRANTED ? all_of(3) : 0);
    sim_finish(s);
}

static void released_with_too_little_left(void)
{
    too_little_left(48, RL_GRANTED);
    too_little_left(49, RL_EXPIRED);
}

/* ---- no later than it is certain ---- */

static void win_early(int n)
{
    struct sim *s = sim_up(n);
    int q = quorum_size(n);
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    for (int i = 0; i < n; i++) {
        sim_serve(s, i);
        sim_execute(s, i, 1);
    }
    for (int i = 0; i < n; i++) {
        CHECK_INT(h.round->outcome, i < q ? RL_OK : RL_GRANTED);
        sim_deliver(s, n - 1 - i, SIZE_MAX);     /* the last node answers first */
    }
    CHECK_INT(h.round->outcome, RL_GRANTED);
    CHECK_INT(h.lease->state, LEASE_HELD);
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(n));
    sim_run(s);
    sim_logs_are(s, "A");
    sim_finish(s);
}

static void won_at_the_majority(void)
{
    for_each_n(win_early);
}

/* On an even number of nodes one more than the tie: half of them may have been refused by
 * somebody who gets no majority either. */
static void lose_early(int n)
{
    struct sim *s = sim_up(n);
    int no = quorum_size(n);
    for (int i = 0; i < no; i++)
        sim_put(s, i, "k", 9000);
    for (int i = no; i < n; i++)
        s->server[i].holds = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    for (int i = 0; i < no; i++) {
        CHECK_INT(h.round->outcome, RL_OK);
        sim_serve(s, i);
        sim_execute(s, i, 1);
        sim_deliver(s, i, SIZE_MAX);
    }
    CHECK_INT(h.round->outcome, RL_HELD);
    sim_run(s);
    sim_logs_are(s, "AR");       /* released everywhere, also where it was refused */
    CHECK_INT(sim_with(s, "k"), all_of(no));
    for (int i = 0; i < no; i++)
        CHECK_INT(h.round->slot[i].extra, 9000);
    sim_finish(s);
}

static void lost_when_a_majority_refuses(void)
{
    for_each_n(lose_early);
}

/* ---- contenders ---- */

static int asked(const struct sim_server *sv)
{
    int n = 0;
    for (size_t k = 0; k < sv->logged; k++)
        n += sv->log[k] == 'A';
    return n;
}

/* They meet at the node with the smallest run_id, which all see alike. */
SIM_TEST(gate_is_asked_first, sim_up(3))
{
    s->core.nodes[2].info.server.run_id[3] = '\0';
    sim_put(s, 2, "k", 9000);
    s->gate = 1;
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_HELD);
    for (int i = 0; i < 3; i++)
        CHECK_INT(asked(&s->server[i]), i == 2);
}

/* Who has the gate keeps it, and asks the rest twice. One says who has it, in more bytes than a
 * slot has: they are freed (sanitizers) before it says so again. */
SIM_TEST(gate_asks_the_rest_again, sim_up(3))
{
    sim_put(s, 1, "k", 9000);
    s->server[2].say[SIM_ACQUIRE] = "*3\r\n:0\r\n:9000\r\n$26\r\nabcdefghijklmnopqrstuvwxyz\r\n";
    s->gate = 1;
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_HELD);
    for (int i = 0; i < 3; i++)
        CHECK_INT(asked(&s->server[i]), i ? 2 : 1);
    CHECK_INT(h.round->slot[2].data_len, 26);
}

/* A contended attempt does not keep others out until a time-out. */
SIM_TEST(contended_does_not_wait_for_the_silent, sim_up(3))
{
    sim_put(s, 1, "k", 9000);
    s->server[2].frozen = 1;
    int64_t t0 = s->now_ms;
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    sim_wait(s, h.round, 1000);
    CHECK_INT(h.round->outcome, RL_HELD);
    CHECK(s->now_ms - t0 <= 2 * NODE_PAUSE_MS);
}

/* Nor for who was refused before and is not connected again, which is what is said of it. */
SIM_TEST(nor_for_the_refused, sim_up(3))
{
    sim_put(s, 1, "k", 30000);
    s->server[2].refuses = 1;
    sim_cut(s, 2);
    sim_let_go(s, sim_hold(s, "other", 1000));
    sim_advance(s, 5000);
    s->server[2].refuses = 0;
    s->server[2].hushed = 1;
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    CHECK_INT(sim_wait(s, h.round, SIM_TIMEOUT_MS - 1), RL_HELD);
    CHECK_INT(h.round->slot[2].code, RL_REFUSED);
}

static void tie(int n)
{
    if (n % 2)
        return;
    struct sim *s = sim_up(n);
    for (int i = 0; i < n / 2; i++)
        sim_put(s, i, "k", 9000);
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    for (int i = n - 1; i >= 0; i--) {   /* the grants first */
        CHECK_INT(h.round->outcome, RL_OK);
        sim_serve(s, i);
        sim_execute(s, i, 1);
        sim_deliver(s, i, SIZE_MAX);
        if (h.round->outcome)
            break;
    }
    CHECK_INT(h.round->outcome, RL_HELD);
    sim_run(s);
    CHECK_INT(sim_mine(s, "k", h.lease), 0);
    CHECK(s->core.owing == NULL);
    sim_finish(s);
}

static void a_tie_is_nobodys(void)
{
    for_each_n(tie);
}

/* ---- nodes that are down ---- */

static void too_few(int n)
{
    struct sim *s = sim_new(n);
    int down = n - quorum_size(n) + 1;
    for (int i = 0; i < down; i++)
        s->server[i].refuses = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    for (int i = down; i < n; i++)       /* the living ones grant first */
        for (int k = 0; k < 4; k++) {
            sim_serve(s, i);
            sim_open(s, i);
            sim_serve(s, i);
            sim_execute(s, i, SIM_LOG);
            sim_deliver(s, i, SIZE_MAX);
        }
    CHECK_INT(h.round->outcome, RL_OK);
    CHECK_INT(sim_outcome(s, h.round), RL_NO_QUORUM);
    for (int i = 0; i < n; i++) {
        CHECK_INT(h.round->slot[i].state, i < down ? SLOT_MISSING : SLOT_ANSWERED);
        CHECK_INT(h.round->slot[i].code, i < down ? RL_REFUSED : RL_OK);
        CHECK_STR(s->server[i].log, i < down ? "" : "AR");
    }
    CHECK_STR(s->core.nodes[0].text, "connection refused");
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK(s->core.owing == NULL);
    sim_drop(s, &h);
    /* The next one does not even wait for them: they are known to be down. */
    h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_REFUSED);
    CHECK_INT(sim_with(s, "k"), 0);
    sim_finish(s);
}

static void a_majority_is_down(void)
{
    for_each_n(too_few);
}

static void just_enough(int n)
{
    struct sim *s = sim_new(n);
    for (int i = quorum_size(n); i < n; i++)
        s->server[i].refuses = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(quorum_size(n)));
    sim_finish(s);
}

static void a_minority_is_down(void)
{
    for_each_n(just_enough);
}

/* ---- time ---- */

static void freeze_all(struct sim *s, int frozen)
{
    for (int i = 0; i < s->n; i++)
        s->server[i].frozen = frozen;
}

SIM_TEST(votes_end_at_the_time_out, sim_up(3))
{
    freeze_all(s, 1);
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    sim_advance(s, SIM_TIMEOUT_MS - 1);
    CHECK_INT(h.round->outcome, RL_OK);
    sim_advance(s, 1);
    CHECK_INT(h.round->outcome, RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_TIMEOUT);
    CHECK_INT(s->core.nodes[0].stats.timeouts, 1);
}

SIM_TEST(ends_within_its_time, sim_up(3))
{
    freeze_all(s, 1);
    struct hold h = sim_acquire(s, "k", 5000, 100);
    sim_advance(s, 99);
    CHECK_INT(h.round->outcome, RL_OK);
    sim_advance(s, 1);
    CHECK_INT(h.round->outcome, RL_NO_QUORUM);
    sim_drop(s, &h);
    h = sim_acquire(s, "k", 5000, 0);
    sim_tick(s);
    CHECK_INT(h.round->outcome, RL_NO_QUORUM);
}

/* Asked late, because the connection had to be made first: it has one time-out from
 * then on, not what was granted to the connection. */
SIM_TEST(asked_late_waits_one_time_out, sim_new(1))
{
    s->server[0].hushed = 1;
    struct hold h = sim_acquire(s, "k", 9000, 9000);
    sim_advance(s, 100);
    s->server[0].hushed = 0;
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    sim_drop(s, &h);
    sim_cut(s, 0);
    sim_advance(s, 100);
    s->server[0].hushed = 1;
    s->core.nodes[0].failures = 0;       /* it has the whole time to connect */
    h = sim_acquire(s, "other", 9000, 9000);
    sim_advance(s, 100);
    s->server[0].hushed = 0;
    sim_serve(s, 0);
    sim_open(s, 0);
    sim_serve(s, 0);
    sim_execute(s, 0, SIM_LOG);
    s->server[0].frozen = 1;
    int64_t t0 = s->now_ms;
    CHECK_INT(sim_wait(s, h.round, 5000), RL_NO_QUORUM);
    CHECK_INT(s->now_ms - t0, SIM_TIMEOUT_MS);
}

/* A late vote still counts while the round is open. */
SIM_TEST(late_votes_count, sim_up(3))
{
    s->server[0].holds = s->server[1].holds = 1;
    sim_leave(s, 2);
    struct hold h = sim_acquire(s, "k", 5000, 5000);
    sim_advance(s, 200);
    CHECK_INT(h.round->outcome, RL_OK);
    s->server[0].holds = 0;
    sim_advance(s, 40);
    s->server[1].holds = 0;
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
}

/* The votes come at the moment when the lease is worth nothing any more. */
SIM_TEST(too_late_is_expired, sim_up(3))
{
    struct hold h = sim_acquire(s, "k", 200, 10000);
    for (int i = 0; i < 3; i++) {
        s->server[i].holds = 1;
        sim_serve(s, i);
        sim_execute(s, i, 1);
    }
    sim_skip(s, sim_validity(200, 0));
    sim_hold_answers(s, 0);
    sim_run(s);              /* before the tick that would end it */
    CHECK_INT(h.round->outcome, RL_EXPIRED);
    CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), 0);
    CHECK_INT(sim_with(s, "k"), 0);
    sim_logs_are(s, "AR");
}

SIM_TEST(one_millisecond_is_enough, sim_up(3))
{
    struct hold h = sim_acquire(s, "k", 200, 10000);
    sim_skip(s, sim_validity(200, 0) - 1);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), 1);
}

/* Nothing is gained by waiting beyond the validity, whatever the caller's patience. */
SIM_TEST(does_not_wait_beyond_validity, sim_up(3))
{
    freeze_all(s, 1);
    struct hold h = sim_acquire(s, "k", 200, 10000);
    sim_advance(s, sim_validity(200, 0) - 1);
    CHECK_INT(h.round->outcome, RL_OK);
    sim_advance(s, 1);
    CHECK_INT(h.round->outcome, RL_NO_QUORUM);
    freeze_all(s, 0);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), 0);
    sim_logs_are(s, "AR");
}

SIM_TEST(a_lease_that_is_all_drift, sim_up(3))
{
    for (int64_t lease_ms = 1; lease_ms <= 3; lease_ms++) {
        struct hold h = sim_acquire(s, "k", lease_ms, 1000);
        CHECK_INT(sim_outcome(s, h.round), RL_EXPIRED);
        CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), 0);
        CHECK_INT(sim_with(s, "k"), 0);
        sim_drop(s, &h);
    }
    struct hold h = sim_acquire(s, "k", 4, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), 1);
}

/* ---- several attempts at once ---- */

static void contenders(int n)
{
    enum { MANY = 8 };
    struct sim *s = sim_up(n);
    struct hold h[MANY];
    for (int k = 0; k < MANY; k++)
        h[k] = sim_acquire(s, "k", 5000, 1000);
    sim_run(s);
    for (int k = 0; k < MANY; k++)       /* all nodes were asked in the same order */
        CHECK_INT(h[k].round->outcome, k == 0 ? RL_GRANTED : RL_HELD);
    CHECK_INT(sim_mine(s, "k", h[0].lease), all_of(n));
    sim_finish(s);
}

static void one_of_many_wins(void)
{
    for_each_n(contenders);
}

static void many_keys_in_one_write(void)
{
    enum { MANY = 300 };
    static struct hold h[MANY];
    struct sim *s = sim_up(3);
    char name[16];
    for (int k = 0; k < MANY; k++) {
        for (int i = 0; i < 3; i++)      /* answers only: the table is too small */
            s->server[i].say[SIM_ACQUIRE] = ":1\r\n";
        snprintf(name, sizeof(name), "k%d", k);
        h[k] = sim_acquire(s, name, 5000, 1000);
    }
    sim_run(s);
    for (int k = 0; k < MANY; k++) {
        CHECK_INT(h[k].round->outcome, RL_GRANTED);
        sim_drop(s, &h[k]);
    }
    sim_advance(s, 5000);
    CHECK_INT(sim_live(s), 0);
    sim_finish(s);
}

SUITE(acquire, T(released_with_too_little_left),
      T(all_up), T(first_use_connects), T(byte_by_byte),
      T(won_at_the_majority), T(lost_when_a_majority_refuses),
      T(gate_is_asked_first), T(gate_asks_the_rest_again),
      T(contended_does_not_wait_for_the_silent), T(nor_for_the_refused),
      T(a_tie_is_nobodys), T(a_majority_is_down), T(a_minority_is_down),
      T(votes_end_at_the_time_out), T(ends_within_its_time),
      T(asked_late_waits_one_time_out), T(late_votes_count), T(too_late_is_expired),
      T(one_millisecond_is_enough), T(does_not_wait_beyond_validity),
      T(a_lease_that_is_all_drift), T(one_of_many_wins), T(many_keys_in_one_write));
