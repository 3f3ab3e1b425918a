/* test_watchdog.c - the watchdog: renewed in time, released in time. */
#include <string.h>

#include "sim.h"

static void freeze(struct sim *s, int servers, int frozen)
{
    for (int i = 0; i < servers; i++)
        s->server[i].frozen = frozen;
}

/* ---- in time ---- */

static void renews_after_a_third(void)
{
    static const int leases[] = {50, 299, 3000, 30000, 3600000};
    for (size_t k = 0; k < sizeof(leases) / sizeof(leases[0]); k++) {
        int64_t lease_ms = leases[k], grain_ms = lease_ms / 32 + 1;
        struct sim *s = sim_up(3);
        test_note("lease %d", leases[k]);
        rl_lease *lease = sim_keep(s, "k", lease_ms);
        for (int round = 0; round < 4; round++) {
            int64_t from_ms = s->now_ms;
            CHECK(lease->renew_ms <= from_ms + lease_ms / 3);
            CHECK(lease->renew_ms > from_ms + lease_ms / 3 - grain_ms);
            sim_advance(s, lease->renew_ms - s->now_ms - 1);
            sim_logs_are(s, "");
            sim_advance(s, 1);
            sim_logs_are(s, "E");
            sim_clear_logs(s);
            CHECK_INT(lease->deadline_ms, s->now_ms + sim_validity(lease_ms, 0));
            CHECK_INT(sim_key(s, 0, "k")->until_ms, s->now_ms + lease_ms);
        }
        sim_let_go(s, lease);
        sim_advance(s, 2 * lease_ms);
        sim_logs_are(s, "R");            /* and not renewed after that */
        sim_finish(s);
    }
}

SIM_TEST(counts_from_the_start_of_its_round, sim_up(5))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    int64_t old_ms = lease->deadline_ms, t0 = sim_begin_renewal(s, lease);
    sim_hold_answers(s, all_of(5));
    sim_advance(s, 100);
    CHECK_INT(lease->deadline_ms, old_ms);
    sim_hold_answers(s, 0);
    sim_run(s);
    CHECK_INT(lease->deadline_ms, t0 + sim_validity(3000, 0));
    CHECK(lease->renewal == NULL);
}

/* Two thirds of a lease are for the renewals, however long it took to get it. */
SIM_TEST(what_was_slow_is_renewed_soon, sim_up(3))
{
    sim_hold_answers(s, all_of(3));
    struct hold h = sim_acquire(s, "k", 300, 1000);
    sim_run(s);
    sim_advance(s, 240);
    sim_hold_answers(s, 0);
    sim_run(s);
    REQUIRE(sim_end(h.round) == RL_GRANTED);
    watchdog_start(h.lease, 300, 0, s->now_ms);
    sim_clear_logs(s);
    sim_advance(s, 1);
    sim_logs_are(s, "E");
    CHECK(lease_remaining_ms(h.lease, s->now_ms) > 200);

    /* A renewal that took long is followed by the next one in time, too. */
    sim_begin_renewal(s, h.lease);
    sim_hold_answers(s, all_of(3));
    sim_advance(s, 190);
    sim_hold_answers(s, 0);
    sim_run(s);
    sim_advance(s, 110);
    CHECK(lease_remaining_ms(h.lease, s->now_ms) > 200);
    CHECK_INT(s->core.losses, 0);
    sim_let_go(s, h.lease);
}

/* A lease with a later deadline than a renewal would give is renewed at its third. */
SIM_TEST(an_extended_lease_is_renewed_as_any, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 60000);
    watchdog_start(lease, 3000, 0, s->now_ms);
    CHECK(lease->renew_ms <= s->now_ms + 1000);
    int64_t deadline_ms = lease->deadline_ms;
    sim_advance(s, 20000);
    CHECK_INT(lease->deadline_ms, deadline_ms);       /* never shortened */
    sim_advance(s, 60000);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 1900);
}

static int commands_in(struct buf *out)
{
    int count = 0;
    for (size_t k = out->start; k + 7 <= out->end; k++)
        count += !memcmp(out->data + k, "EVALSHA", 7);
    return count;
}

/* What is due within a grain goes out in one write per node. */
SIM_TEST(renewals_go_together, sim_up(3))
{
    rl_lease *lease[12];
    char key[] = "a";
    sim_advance(s, 938 - s->now_ms % 938);           /* the beginning of a grain */
    for (int k = 0; k < 12; k++, key[0]++) {
        lease[k] = sim_keep(s, key, 30000);
        sim_advance(s, 25);
    }
    sim_advance(s, lease[0]->renew_ms - s->now_ms - 1);
    CHECK_INT(core_due_ms(&s->core), s->now_ms + 1);
    sim_begin_renewal(s, lease[0]);
    for (int i = 0; i < 3; i++)
        CHECK_INT(commands_in(core_out(&s->core, i)), 12);
    sim_run(s);
    for (int k = 0; k < 12; k++) {
        CHECK_INT(lease[k]->deadline_ms, s->now_ms + sim_validity(30000, 0));
        CHECK_INT(lease[k]->renew_ms, lease[0]->renew_ms);
    }
}

/* ---- failing ---- */

SIM_TEST(a_failing_minority_loses_nothing, sim_up(5))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].frozen = 1;
    sim_leave(s, 1);
    for (int k = 0; k < 40; k++) {
        sim_clear_logs(s);
        sim_advance(s, 1000);
        CHECK(lease_remaining_ms(lease, s->now_ms) >= 1900);
    }
    CHECK_INT(lease->failures, 0);
    sim_heal(s);
    sim_let_go(s, lease);
    sim_advance(s, 10000);
    CHECK_INT(sim_with(s, "k"), 0);
}

/* kind 0: frozen, 1: errors, 2: no connections; for as long as it can last. */
static void silence(int kind)
{
    struct sim *s = sim_up(5);
    test_note("kind %d", kind);
    rl_lease *lease = sim_keep(s, "k", 6000);
    for (int i = 0; i < 5; i++)
        s->server[i].say[SIM_EXTEND] = kind == 1 ? "-BUSY\r\n" : NULL;
    if (kind == 0)
        freeze(s, 5, 1);
    else if (kind == 2)
        sim_leave_first(s, 5);
    /* Connections need a back-off of their own. */
    sim_advance(s, kind == 2 ? 4000 : 5000);
    CHECK(lease->failures > 3);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 0);
    sim_heal(s);
    sim_advance(s, kind == 2 ? 1900 : 900);
    CHECK_INT(lease->failures, 0);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 4000);
    sim_advance(s, 12000);
    CHECK_INT(s->core.losses, 0);
    sim_let_go(s, lease);
    sim_advance(s, 10000);
    CHECK_INT(sim_with(s, "k"), 0);
    sim_finish(s);
}

static void silence_for_a_while_loses_nothing(void)
{
    silence(0);
    silence(1);
    silence(2);
}

/* Answers that take longer than the time-out of one: a renewal can wait for them. */
SIM_TEST(slow_answers_confirm_too, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 30000);
    for (int k = 0; k < 5; k++) {
        int64_t t0 = sim_begin_renewal(s, lease);
        sim_hold_answers(s, all_of(3));
        sim_advance(s, 3 * SIM_TIMEOUT_MS);
        sim_hold_answers(s, 0);
        sim_run(s);
        CHECK_INT(lease->deadline_ms, t0 + sim_validity(30000, 0));
        CHECK_INT(lease->failures, 0);
    }
    CHECK_INT(s->core.nodes[0].stats.timeouts, 0);
}

/* How many renewals fail in one lease, kinds as above. */
static int attempts(int kind, int64_t lease_ms)
{
    struct sim *s = sim_up(3);
    test_note("kind %d, lease %d", kind, (int)lease_ms);
    rl_lease *lease = sim_keep(s, "k", lease_ms);
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_EXTEND] = kind == 1 ? "-BUSY\r\n" : NULL;
    if (kind == 0)
        freeze(s, 3, 1);
    else if (kind == 2)
        sim_leave_first(s, 3);
    sim_advance(s, lease_ms);
    int count = lease->failures;
    CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
    holder_drop(lease, s->now_ms);
    sim_heal(s);
    sim_advance(s, 5000);
    sim_finish(s);
    return count;
}

static void attempts_are_bounded(void)
{
    static const int leases[] = {50, 60, 100, 299, 300, 1000, 3000, 30000, 3600000};
    for (size_t k = 0; k < sizeof(leases) / sizeof(leases[0]); k++) {
        for (int kind = 0; kind < 3; kind++) {
            int count = attempts(kind, leases[k]);
            CHECK(count <= 16);
            CHECK(count >= (leases[k] < 6000 ? 1 : 8));
        }
    }
}

/* ---- letting go ---- */

/* steps: how far the renewal, and the heal of one node, got before the release. */
static void release_at(int steps, int forgotten)
{
    struct sim *s = sim_up(3);
    test_note("after %d steps, scripts %s", steps, forgotten ? "forgotten" : "known");
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = 0;
    sim_begin_renewal(s, lease);
    for (int k = 0; k < steps; k++) {
        int i = k / 3 % 3;
        if (k % 3 == 0)
            sim_serve(s, i);
        else if (k % 3 == 1)
            sim_execute(s, i, 1);
        else
            sim_deliver(s, i, SIZE_MAX);
    }
    if (forgotten)
        sim_flush_scripts(s);
    rl_round *release = holder_release(lease, s->now_ms);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    CHECK_INT(sim_result(s, release), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(lease->lost, RL_NOT_LOST);
    CHECK(lease->renewal == NULL);
    sim_clear_logs(s);
    sim_advance(s, 9000);
    sim_logs_are(s, "");
    CHECK_INT(s->core.losses, 0);
    sim_finish(s);
}

static void released_in_the_middle_of_a_renewal(void)
{
    for (int steps = 0; steps <= 15; steps++) {
        release_at(steps, 0);
        release_at(steps, 1);
    }
}

SIM_TEST(orphans_end_with_their_time, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000), *fixed = sim_hold(s, "f", 3000);
    sim_clear_logs(s);
    holder_drop(lease, s->now_ms);
    holder_drop(fixed, s->now_ms);
    CHECK_INT(sim_live(s), 4);           /* with their releases */
    sim_advance(s, sim_validity(3000, 0) - 1);
    CHECK(s->core.held != NULL);
    sim_advance(s, 1);
    CHECK(s->core.held == NULL);
    CHECK_INT(sim_live(s), 0);
    sim_logs_are(s, "");
    CHECK_INT(s->core.losses, 0);             /* there is nobody to tell */
    sim_advance(s, 100);
    CHECK_INT(sim_with(s, "k"), 0);

    /* One whose renewal is under way: that one is the last. */
    lease = sim_keep(s, "k", 3000);
    sim_begin_renewal(s, lease);
    holder_drop(lease, s->now_ms);
    sim_run(s);
    sim_advance(s, 3000);
    sim_logs_are(s, "E");
    CHECK_INT(sim_with(s, "k"), 0);

    /* One that a majority disowns meanwhile. */
    lease = sim_keep(s, "k", 3000);
    sim_begin_renewal(s, lease);
    holder_drop(lease, s->now_ms);
    s->server[0].keys = s->server[1].keys = 0;
    sim_run(s);
    sim_advance(s, 3000);
    sim_logs_are(s, "ER");
    CHECK_INT(sim_live(s), 0);

    /* One that was disowned before. */
    lease = sim_keep(s, "k", 3000);
    sim_begin_renewal(s, lease);
    s->server[0].keys = s->server[1].keys = 0;
    sim_run(s);
    holder_drop(lease, s->now_ms);
    CHECK(sim_live(s) > 0);
    sim_advance(s, 3000);
    sim_logs_are(s, "ER");
    CHECK_INT(sim_live(s), 0);

    /* One that is lost already. */
    lease = sim_keep(s, "k", 3000);
    sim_skip(s, 3000);
    sim_tick(s);
    holder_drop(lease, s->now_ms);
    sim_run(s);                          /* the release of what a renewal prolonged */
    CHECK_INT(sim_live(s), 0);
}

/* The client is closed before the orphan's time is over: it is let go. */
SIM_TEST(orphans_are_released_at_the_end, sim_up(3))
{
    holder_drop(sim_keep(s, "k", 30000), s->now_ms);
    close_finish(&s->core, s->now_ms);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), 0);
}

SIM_TEST(losses_count_once, sim_up(3))
{
    rl_lease *lease[6];
    char key[] = "a";
    for (int k = 0; k < 6; k++, key[0]++)
        lease[k] = k % 2 ? sim_keep(s, key, 3000) : sim_hold(s, key, 3000);
    sim_leave_first(s, 3);
    rl_round *extend = holder_extend(lease[1], 3000, s->now_ms);
    sim_advance(s, 9000);
    CHECK_INT(s->core.losses, 6);
    for (int k = 0; k < 6; k++)
        CHECK_INT(watchdog_lost_why(lease[k], s->now_ms), RL_LOSS_EXPIRED);
    uint32_t known = 0;
    for (int k = 0; k < 36; k++)
        known |= (uint32_t)(s->core.lost[k % 6] == lease[k / 6]) << k / 6;
    CHECK_INT(known, 63);
    sim_end(extend);
    extend = holder_extend(lease[0], 3000, s->now_ms);
    CHECK_INT(sim_end(extend), RL_LOST);
    sim_heal(s);
    for (int k = 0; k < 6; k++)
        sim_let_go(s, lease[k]);
    CHECK_INT(s->core.losses, 6);
}

/* ---- what the keeper has to know ---- */

SIM_TEST(busy_while_there_is_something_to_do, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    CHECK(!core_busy(&s->core));
    sim_begin_renewal(s, lease);
    CHECK(core_busy(&s->core));
    sim_pass(s, 0);
    sim_serve(s, 1);
    sim_serve(s, 2);
    CHECK(core_busy(&s->core));          /* written, but nobody else reads it */
    sim_pass(s, 1);
    CHECK(!core_busy(&s->core));         /* the third one's answer is for later */
    sim_run(s);

    freeze(s, 3, 1);
    sim_begin_renewal(s, lease);
    sim_run(s);
    CHECK(core_busy(&s->core));
    sim_advance(s, SIM_TIMEOUT_MS);
    CHECK(!core_busy(&s->core));         /* backs off */
    freeze(s, 3, 0);
    sim_run(s);

    rl_round *round = sim_ask(s, "k");
    CHECK(core_busy(&s->core));
    for (int i = 0; i < 3; i++)
        sim_serve(s, i);
    CHECK(!core_busy(&s->core));         /* somebody waits for it */
    sim_run(s);
    sim_end(round);

    CHECK(!core_owes_away(&s->core));
    sim_leave_first(s, 1);
    round_free(holder_release(lease, s->now_ms));
    sim_run(s);
    CHECK(core_owes_away(&s->core));
    CHECK(core_due_ms(&s->core) != INT64_MAX);
    sim_heal(s);
    sim_advance(s, 3000);
    CHECK(!core_owes_away(&s->core));
    CHECK(!core_busy(&s->core));
    CHECK_INT(sim_with(s, "k"), 0);
}

/* Of five servers three say that somebody else has it, the second one of them who. */
static void taken_by(const char *second, int named)
{
    static const char by[] = "*3\r\n:-1\r\n:0\r\n$36\r\n"
                             "0123456789abcdef0123 19ab0000000 bob\r\n";
    struct sim *s = sim_up(5);
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].say[SIM_EXTEND] = s->server[2].say[SIM_EXTEND] = by;
    s->server[1].say[SIM_EXTEND] = second ? second : by;
    sim_begin_renewal(s, lease);
    for (int i = 0; i < 3; i++)
        sim_pass(s, i);
    CHECK_INT(lease->lost, RL_LOSS_TAKEN);
    if (CHECK_INT(lease->taker.data != NULL, named) && named)
        CHECK(lease->taker.len == 36 && !memcmp(lease->taker.data + 33, "bob", 3));
    sim_run(s);
    sim_finish(s);
}

static void taken_by_whom_a_majority_names(void)
{
    taken_by(NULL, 1);
    taken_by("*3\r\n:-1\r\n:0\r\n$36\r\n0123456789abcdef0123 19ab0000000 eve\r\n", 0);
    taken_by("*3\r\n:-1\r\n:0\r\n$20\r\n0123456789abcdef0123\r\n", 0);
    taken_by(":-1\r\n", 0);
    taken_by(":0\r\n", 0);
}

static void holders_come_back_in_time(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim *s = sim_up(3);
        s->core.random = seed * 0x9E3779B97F4A7C15ULL;
        s->core.lease_ms = 1000;
        rl_lease *lease = sim_keep(s, "k", 1000);
        for (int i = 0; i < 3; i++) {
            s->server[i].refuses = 1;
            sim_cut(s, i);
        }
        sim_advance(s, 690);
        for (int i = 0; i < 3; i++)
            s->server[i].refuses = 0;
        sim_advance(s, 295);
        CHECK(lease->deadline_ms > s->now_ms + 500);
        sim_let_go(s, lease);
        sim_finish(s);
    }
}

SIM_TEST(holders_beside_a_majority_do_not_hurry, sim_up(3))
{
    s->core.lease_ms = 1000;
    rl_lease *lease = sim_keep(s, "k", 1000);
    s->server[0].refuses = 1;
    sim_cut(s, 0);
    sim_advance(s, 5000);
    int64_t failed = s->core.nodes[0].stats.disconnects;
    sim_advance(s, 20000);
    CHECK(s->core.nodes[0].stats.disconnects - failed <= 30);
    sim_let_go(s, lease);
}

SUITE(watchdog, T(renews_after_a_third), T(holders_come_back_in_time),
      T(holders_beside_a_majority_do_not_hurry), T(counts_from_the_start_of_its_round),
      T(what_was_slow_is_renewed_soon), T(an_extended_lease_is_renewed_as_any),
      T(renewals_go_together), T(a_failing_minority_loses_nothing),
      T(silence_for_a_while_loses_nothing), T(slow_answers_confirm_too),
      T(attempts_are_bounded), T(released_in_the_middle_of_a_renewal),
      T(orphans_end_with_their_time), T(orphans_are_released_at_the_end),
      T(losses_count_once), T(busy_while_there_is_something_to_do),
      T(taken_by_whom_a_majority_names));
