/* test_pace.c - many renewals that are due together: a few at a time, and all in time. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

enum { MANY = 400, LEASE_MS = 30000 };

static rl_lease *kept[MANY];

/* Holds "first", "first + 1", ... that are due for renewal together. */
static void keep(struct sim *s, int first, int count, int64_t lease_ms)
{
    char key[16];
    for (int k = first; k < first + count; k++) {
        snprintf(key, sizeof(key), "%d", k);
        kept[k] = sim_keep(s, key, lease_ms);
    }
}

static struct sim *sim_keeping(int servers, int count, int64_t lease_ms)
{
    struct sim *s = sim_up(servers);
    int64_t grain_ms = lease_ms / 32 + 1;
    sim_advance(s, grain_ms - s->now_ms % grain_ms);
    keep(s, 0, count, lease_ms);
    return s;
}

/* To the moment in which they are due. */
static void to_the_third(struct sim *s)
{
    sim_advance(s, kept[0]->renew_ms - s->now_ms - 1);
    sim_clear_logs(s);
    sim_skip(s, 1);
    sim_tick(s);
}

static int under_way(int first, int count)
{
    int renewals = 0;
    for (int k = first; k < first + count; k++)
        renewals += kept[k]->renewal != NULL;
    return renewals;
}

SIM_TEST(few_do_not_wait, sim_keeping(3, 16, LEASE_MS))
{
    to_the_third(s);
    CHECK_INT(under_way(0, 16), 16);
    sim_run(s);
}

/* What begins at once takes a server 2 ms at most, and all have begun when the next ones of
 * their kind could be due. */
SIM_TEST(many_are_spread, sim_keeping(3, MANY, LEASE_MS))
{
    to_the_third(s);
    int64_t from_ms = s->now_ms;
    int most = under_way(0, MANY), renewed = 0;
    CHECK(most > 0);
    while (renewed < MANY && s->now_ms < from_ms + LEASE_MS / 6) {
        sim_run(s);
        sim_advance(s, 1);
        for (int k = renewed = 0; k < MANY; k++)
            renewed += kept[k]->deadline_ms >= from_ms + sim_validity(LEASE_MS, 0);
        int begun = (int)s->server[0].logged;
        most = begun > most ? begun : most;
        sim_clear_logs(s);
    }
    CHECK_INT(renewed, MANY);
    CHECK(most <= 40);
    CHECK(s->now_ms - from_ms <= LEASE_MS / 32);
    CHECK(s->now_ms - from_ms >= MANY / 16 * 2 - 4);
}

/* The less time there is, the more begin together. */
static void short_leases_go_faster(void)
{
    enum { SHORT_MS = 400 };
    struct sim *s = sim_keeping(3, MANY, SHORT_MS);
    to_the_third(s);
    int first = under_way(0, MANY);
    CHECK(first >= 22 && first <= 33);
    sim_run(s);
    sim_advance(s, SHORT_MS / 8);
    CHECK_INT(s->core.pace.waiting.len, 0);
    sim_finish(s);
}

/* Servers that do not answer are not asked for more, until the leases are half over: then
 * each of them is on its own. */
static void nobody_waits_beyond_a_half(void)
{
    enum { SHORT_MS = 1400 };          /* of which a sixth is less than an answer may take */
    struct sim *s = sim_keeping(3, MANY, SHORT_MS);
    int64_t half_ms = kept[0]->deadline_ms - SHORT_MS / 2;
    to_the_third(s);
    sim_hold_answers(s, all_of(3));
    sim_advance(s, half_ms - s->now_ms - 1);
    CHECK_INT(under_way(0, MANY), 256);
    CHECK_INT((int)s->server[0].logged, 256);
    sim_advance(s, 1);
    CHECK_INT(under_way(0, MANY), MANY);
    sim_hold_answers(s, 0);
    sim_run(s);
    for (int k = 0; k < MANY; k++)
        CHECK(lease_remaining_ms(kept[k], s->now_ms) > SHORT_MS / 2);
    sim_finish(s);
}

/* Others are due as well, and asked to renew before. */
SIM_TEST(the_shortest_go_first, sim_keeping(3, MANY - 10, LEASE_MS))
{
    sim_advance(s, kept[0]->renew_ms - s->now_ms - LEASE_MS / 30);
    keep(s, MANY - 10, 10, LEASE_MS / 10);
    int64_t due_ms = kept[MANY - 10]->renew_ms;
    CHECK(due_ms < kept[0]->renew_ms);
    sim_skip(s, kept[0]->renew_ms - s->now_ms);
    sim_tick(s);
    CHECK_INT(under_way(MANY - 10, 10), 10);
    CHECK(under_way(0, MANY - 10) < 100);
    sim_run(s);
}

/* A lease that is let go, dropped or over while it waits is not renewed. */
SIM_TEST(who_waits_may_go, sim_keeping(3, 100, LEASE_MS))
{
    to_the_third(s);
    REQUIRE(s->core.pace.waiting.len == 84);
    int gone = 0;
    for (int k = 0; k < 100; k++) {
        if (!kept[k]->turn.at)
            continue;
        rl_lease *lease = kept[k];
        if (++gone % 2)
            sim_let_go(s, lease);
        else
            holder_drop(lease, s->now_ms);
        kept[k] = NULL;
    }
    CHECK_INT(s->core.pace.waiting.len, 0);
    sim_clear_logs(s);
    sim_advance(s, LEASE_MS / 6);
    sim_logs_are(s, "");
    for (int k = 0; k < 100; k++) {
        if (kept[k])
            sim_let_go(s, kept[k]);
    }
}

/* The watchdog's bound passes while they wait. */
SIM_TEST(who_waits_may_be_kept_no_longer, sim_keeping(3, 100, LEASE_MS))
{
    for (int k = 0; k < 100; k++)
        watchdog_start(kept[k], LEASE_MS, kept[k]->renew_ms + 2 - s->now_ms, s->now_ms);
    to_the_third(s);
    REQUIRE(s->core.pace.waiting.len == 84);
    sim_run(s);
    sim_advance(s, LEASE_MS / 6);
    int renewals = 0;
    for (int k = 0; k < 100; k++)
        renewals += kept[k]->renew_ms > s->now_ms;
    CHECK_INT(renewals, 16);
    CHECK_INT((int)s->server[0].logged, 16);
}

/* The client ends, or its process forks, while some wait. */
static void the_end_comes_while_some_wait(void)
{
    for (int forks = 0; forks < 2; forks++) {
        struct sim *s = sim_keeping(3, 100, LEASE_MS);
        to_the_third(s);
        REQUIRE(s->core.pace.waiting.len == 84);
        if (forks)
            sim_fork(s);
        else
            close_finish(&s->core, s->now_ms);
        CHECK_INT(s->core.pace.waiting.len, 0);
        for (int k = 0; k < 100; k++)
            holder_drop(kept[k], s->now_ms);
        sim_finish(s);
    }
}

SUITE(pace, T(few_do_not_wait), T(many_are_spread), T(short_leases_go_faster),
      T(nobody_waits_beyond_a_half), T(the_shortest_go_first), T(who_waits_may_go),
      T(who_waits_may_be_kept_no_longer), T(the_end_comes_while_some_wait));
