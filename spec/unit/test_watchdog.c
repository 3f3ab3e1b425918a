/* test_watchdog.c - the watchdog: renewed in time, lost in time, healed with a majority
 * only, and never at the expense of others. */
#include <string.h>

#include "sim.h"

static void drop(struct sim *s, rl_lease *lease)
{
    lease_drop(lease, s->now_ms);
}

static void let_go(struct sim *s, rl_lease *lease)
{
    round_free(release_begin(lease, s->now_ms));
    sim_run(s);
    drop(s, lease);
}

/* The next renewal is in core_out(), its start is returned. Nothing has moved yet. */
static int64_t begin_renewal(struct sim *s, const rl_lease *lease)
{
    sim_skip(s, lease->renew_ms - s->now_ms);
    sim_tick(s);
    REQUIRE(lease->renewal != NULL);
    return s->now_ms;
}

/* No connections to the first servers. */
static void disconnect(struct sim *s, int servers)
{
    for (int i = 0; i < servers; i++) {
        sim_leave(s, i);
    }
}

static void freeze(struct sim *s, int servers, int frozen)
{
    for (int i = 0; i < servers; i++)
        s->server[i].frozen = frozen;
}

static int64_t losses(const struct sim *s)
{
    return s->core.losses;
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
        let_go(s, lease);
        sim_advance(s, 2 * lease_ms);
        sim_logs_are(s, "R");            /* and not renewed after that */
        sim_finish(s);
    }
}

SIM_TEST(counts_from_the_start_of_its_round, sim_up(5))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    int64_t old_ms = lease->deadline_ms, t0 = begin_renewal(s, lease);
    sim_hold_answers(s, all_of(5));
    sim_advance(s, 100);
    CHECK_INT(lease->deadline_ms, old_ms);
    sim_hold_answers(s, 0);
    sim_run(s);
    CHECK_INT(lease->deadline_ms, t0 + sim_validity(3000, 0));
    CHECK(lease->renewal == NULL);
    let_go(s, lease);
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
    begin_renewal(s, h.lease);
    sim_hold_answers(s, all_of(3));
    sim_advance(s, 190);
    sim_hold_answers(s, 0);
    sim_run(s);
    sim_advance(s, 110);
    CHECK(lease_remaining_ms(h.lease, s->now_ms) > 200);
    CHECK_INT(losses(s), 0);
    let_go(s, h.lease);
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
    let_go(s, lease);
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
    begin_renewal(s, lease[0]);
    for (int i = 0; i < 3; i++)
        CHECK_INT(commands_in(core_out(&s->core, i)), 12);
    sim_run(s);
    for (int k = 0; k < 12; k++) {
        CHECK_INT(lease[k]->deadline_ms, s->now_ms + sim_validity(30000, 0));
        CHECK_INT(lease[k]->renew_ms, lease[0]->renew_ms);
    }
    for (int k = 0; k < 12; k++)
        let_go(s, lease[k]);
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
    let_go(s, lease);
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
        disconnect(s, 5);
    /* Connections need a back-off of their own. */
    sim_advance(s, kind == 2 ? 4000 : 5000);
    CHECK(lease->failures > 3);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 0);
    sim_heal(s);
    sim_advance(s, kind == 2 ? 1900 : 900);
    CHECK_INT(lease->failures, 0);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 4000);
    sim_advance(s, 12000);
    CHECK_INT(losses(s), 0);
    let_go(s, lease);
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
        int64_t t0 = begin_renewal(s, lease);
        sim_hold_answers(s, all_of(3));
        sim_advance(s, 3 * SIM_TIMEOUT_MS);
        sim_hold_answers(s, 0);
        sim_run(s);
        CHECK_INT(lease->deadline_ms, t0 + sim_validity(30000, 0));
        CHECK_INT(lease->failures, 0);
    }
    CHECK_INT(s->core.nodes[0].stats.timeouts, 0);
    let_go(s, lease);
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
        disconnect(s, 3);
    sim_advance(s, lease_ms);
    int count = lease->failures;
    CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
    drop(s, lease);
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

/* ---- losing ---- */

SIM_TEST(lost_at_the_deadline_and_not_before, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    sim_advance(s, 1500);
    disconnect(s, 2);
    int64_t deadline_ms = lease->deadline_ms;
    while (s->now_ms < deadline_ms - 1) {
        sim_advance(s, 1);
        REQUIRE(watchdog_lost_why(lease, s->now_ms) == RL_NOT_LOST);
        REQUIRE(lease_remaining_ms(lease, s->now_ms) == deadline_ms - s->now_ms);
    }
    CHECK_INT(losses(s), 0);
    sim_advance(s, 1);
    CHECK_INT(s->now_ms, deadline_ms);
    CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    CHECK_INT(losses(s), 1);
    sim_heal(s);
    sim_clear_logs(s);
    sim_advance(s, 9000);
    CHECK(!strchr(s->server[2].log, 'E'));            /* it is over */
    CHECK_INT(watchdog_lost_why(lease, s->now_ms), RL_LOSS_EXPIRED);
    CHECK_INT(losses(s), 1);
    let_go(s, lease);
    CHECK_INT(losses(s), 1);
}

/* Who asks before the tick is told the truth, and it counts once. */
SIM_TEST(lost_before_the_tick, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);         /* fixed: not kept */
    sim_skip(s, sim_validity(1000, 0) - 1);
    CHECK_INT(watchdog_lost_why(lease, s->now_ms), RL_NOT_LOST);
    sim_skip(s, 1);
    CHECK_INT(losses(s), 0);
    CHECK_INT(watchdog_lost_why(lease, s->now_ms), RL_LOSS_EXPIRED);
    CHECK_INT(losses(s), 1);
    sim_tick(s);
    sim_run(s);
    CHECK_INT(losses(s), 1);
    sim_logs_are(s, "A");
    drop(s, lease);
    CHECK_INT(losses(s), 1);
    CHECK(s->core.held == NULL);
}

SIM_TEST(fixed_leases_are_lost_too, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000), *released = sim_hold(s, "r", 1000);
    let_go(s, released);
    sim_clear_logs(s);
    sim_advance(s, sim_validity(1000, 0) - 1);
    CHECK_INT(lease->lost, RL_NOT_LOST);
    sim_advance(s, 1);
    CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
    CHECK_INT(losses(s), 1);                          /* not the released one */
    sim_logs_are(s, "");
    drop(s, lease);
}

static void taken(int absent, int foreign)
{
    struct sim *s = sim_up(5);
    test_note("%d absent, %d foreign", absent, foreign);
    rl_lease *lease = sim_keep(s, "k", 3000);
    for (int i = 0; i < absent + foreign; i++)
        s->server[i].keys = 0;
    for (int i = absent; i < absent + foreign; i++)
        sim_put(s, i, "k", 60000);
    begin_renewal(s, lease);
    int64_t promised_ms = lease->deadline_ms;
    for (int i = 0; i < absent + foreign; i++) {
        CHECK(lease_remaining_ms(lease, s->now_ms) > 0);
        CHECK_INT(lease->lost, RL_NOT_LOST);
        sim_pass(s, i);
    }
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    CHECK_INT(lease->lost, foreign ? RL_LOSS_TAKEN : RL_LOSS_FORGOTTEN);
    sim_run(s);
    sim_advance(s, promised_ms - s->now_ms);
    sim_logs_are(s, "E");                /* he may not have heard of it */
    sim_advance(s, 1);
    sim_logs_are(s, "ER");
    CHECK_INT(sim_mine(s, "k", lease), 0);
    CHECK_INT(sim_with(s, "k"), all_of(absent + foreign) & ~all_of(absent));
    CHECK(s->core.owing == NULL);
    sim_advance(s, 9000);
    CHECK_INT(losses(s), 1);
    rl_round *release = release_begin(lease, s->now_ms);
    CHECK(release->outcome != RL_OK && release->outcome != RL_GRANTED);
    round_free(release);
    sim_logs_are(s, "ER");
    drop(s, lease);
    CHECK_INT(losses(s), 1);
    sim_finish(s);
}

static void taken_when_a_majority_disowns(void)
{
    taken(0, 3);
    taken(3, 0);
    taken(2, 1);
    taken(1, 2);
}

SIM_TEST(max_hold_is_a_bound, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    watchdog_start(lease, 3000, 10000, s->now_ms);
    int64_t from_ms = s->now_ms;
    sim_clear_logs(s);
    sim_advance(s, 10000);
    CHECK_INT(lease->lost, RL_NOT_LOST);
    int64_t deadline_ms = lease->deadline_ms;
    CHECK(deadline_ms < from_ms + 10000 + 3000);
    sim_clear_logs(s);
    sim_advance(s, deadline_ms - s->now_ms - 1);
    sim_logs_are(s, "");
    CHECK_INT(lease->lost, RL_NOT_LOST);
    sim_advance(s, 1);
    CHECK_INT(lease->lost, RL_LOSS_MAX_HOLD);
    CHECK_INT(losses(s), 1);
    let_go(s, lease);
}

/* how 0: a tick finds out, 1: a question before it, 2: an answer before it. */
static void suspended(int how)
{
    struct sim *s = sim_up(3);
    test_note("how %d", how);
    rl_lease *lease = sim_keep(s, "k", 3000);
    sim_advance(s, 500);
    if (how == 2) {
        begin_renewal(s, lease);
        sim_hold_answers(s, all_of(3));
        sim_run(s);
        sim_hold_answers(s, 0);
    }
    sim_skip(s, 60000);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    if (how == 0)
        sim_tick(s);
    else if (how == 1)
        watchdog_lost_why(lease, s->now_ms);
    else
        sim_run(s);
    CHECK_INT(lease->lost, RL_LOSS_SUSPENDED);
    sim_tick(s);
    CHECK_INT(lease->lost, RL_LOSS_SUSPENDED);
    CHECK_INT(losses(s), 1);
    let_go(s, lease);
    sim_finish(s);
}

static void suspended_is_told_from_expired(void)
{
    suspended(0);
    suspended(1);
    suspended(2);
}

/* Away, but not for too long: renewed at once. */
SIM_TEST(a_short_pause_is_no_loss, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    sim_skip(s, 2900);
    sim_tick(s);
    sim_run(s);
    sim_logs_are(s, "E");
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), sim_validity(3000, 0));
    CHECK_INT(losses(s), 0);
    let_go(s, lease);
}

SIM_TEST(closed_with_the_client, sim_up(3))
{
    rl_lease *kept = sim_keep(s, "k", 3000), *fixed = sim_hold(s, "f", 3000);
    rl_lease *busy = sim_keep(s, "b", 1500), *lost = sim_hold(s, "l", 100);
    sim_advance(s, 200);
    begin_renewal(s, busy);
    CHECK_INT(losses(s), 1);
    close_finish(&s->core, s->now_ms);
    CHECK_INT(kept->lost, RL_LOSS_CLOSED);
    CHECK_INT(fixed->lost, RL_LOSS_CLOSED);
    CHECK_INT(busy->lost, RL_LOSS_CLOSED);
    CHECK_INT(lost->lost, RL_LOSS_EXPIRED);
    CHECK_INT(losses(s), 4);
    CHECK_INT(lease_remaining_ms(kept, s->now_ms), 0);
    sim_run(s);
    CHECK_INT(sim_with(s, "k") | sim_with(s, "f") | sim_with(s, "b"), 0);
    CHECK_INT(s->core.unattended, 0);
    drop(s, kept);
    drop(s, fixed);
    drop(s, busy);
    drop(s, lost);
}

SIM_TEST(lost_in_the_child_of_a_fork, sim_up(3))
{
    rl_lease *kept = sim_keep(s, "k", 3000), *busy = sim_keep(s, "b", 1500);
    begin_renewal(s, busy);
    sim_fork(s);
    CHECK_INT(kept->lost, RL_LOSS_CLOSED);
    CHECK_INT(busy->lost, RL_LOSS_CLOSED);
    CHECK_INT(watchdog_lost_why(kept, s->now_ms), RL_LOSS_CLOSED);
    CHECK_INT(s->core.unattended, 0);
    CHECK(!core_busy(&s->core));
    watchdog_start(kept, 3000, 0, s->now_ms);              /* of no effect */
    CHECK_INT(core_due_ms(&s->core), INT64_MAX);
    CHECK_INT(sim_with(s, "k"), all_of(3));           /* the parent's */
    rl_lease *own = sim_keep(s, "own", 3000);
    sim_advance(s, 9000);
    CHECK(lease_remaining_ms(own, s->now_ms) > 1900);
    let_go(s, own);
    drop(s, kept);
    drop(s, busy);
}

/* ---- healing ---- */

SIM_TEST(heals_after_the_majority_only, sim_up(5))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = s->server[1].keys = 0;
    int64_t t0 = begin_renewal(s, lease);
    sim_pass(s, 0);
    sim_pass(s, 2);
    sim_skip(s, 20);
    sim_pass(s, 3);
    sim_pass(s, 0);
    CHECK_STR(s->server[0].log, "E");
    CHECK_INT(buf_len(core_out(&s->core, 0)), 0);
    CHECK_INT(lease->renewal->tally.yes, 2);
    sim_pass(s, 4);                        /* the third of five */
    CHECK_INT(lease->deadline_ms, t0 + sim_validity(3000, 0));
    sim_skip(s, 30);
    sim_pass(s, 0);
    CHECK_STR(s->server[0].log, "EA");
    CHECK_INT(sim_mine(s, "k", lease), 1 | 4 | 8 | 16);
    /* Asked for 20 ms after the start, for what was left then; 30 ms on its way. */
    CHECK_INT(sim_key(s, 0, "k")->until_ms, t0 + 3000 + 30);
    sim_pass(s, 1);                        /* its "no" is late: healed as well */
    CHECK_STR(s->server[1].log, "E");
    sim_pass(s, 1);
    CHECK_STR(s->server[1].log, "EA");
    CHECK_INT(sim_key(s, 1, "k")->until_ms, t0 + 3000);
    CHECK_INT(sim_mine(s, "k", lease), all_of(5));
    CHECK_INT(lease->deadline_ms, t0 + sim_validity(3000, 0));
    let_go(s, lease);
    CHECK_INT(sim_with(s, "k"), 0);
}

/* Two are gone, one does not answer: two confirm, and nothing is made again. */
SIM_TEST(heals_nothing_without_a_majority, sim_up(5))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = s->server[1].keys = 0;
    s->server[2].frozen = 1;
    int64_t deadline_ms = lease->deadline_ms;
    sim_advance(s, deadline_ms - s->now_ms - 1);
    CHECK(!strchr(s->server[0].log, 'A') && !strchr(s->server[1].log, 'A'));
    CHECK_INT(lease->deadline_ms, deadline_ms);
    CHECK(lease->failures > 2);
    sim_advance(s, 1);
    CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
    s->server[2].frozen = 0;             /* all its answers are late now */
    sim_run(s);
    CHECK(!strchr(s->server[0].log, 'A') && !strchr(s->server[1].log, 'A'));
    let_go(s, lease);
    sim_advance(s, 5000);
    CHECK_INT(sim_with(s, "k"), 0);
}

/* A "no" that comes late to a round that failed, or to a lease that was let go since. */
SIM_TEST(late_answers_heal_what_is_held, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = 0;
    begin_renewal(s, lease);
    sim_hold_answers(s, all_of(3));
    sim_advance(s, SIM_TIMEOUT_MS);
    CHECK_INT(lease->failures, 1);
    CHECK(lease->renewal == NULL);
    sim_hold_answers(s, 0);
    sim_run(s);
    sim_logs_are(s, "E");
    sim_advance(s, lease->renew_ms - s->now_ms);
    sim_run(s);
    CHECK_STR(s->server[0].log, "EEA");  /* the next one is confirmed */

    s->server[0].keys = 0;
    sim_clear_logs(s);
    begin_renewal(s, lease);
    sim_pass(s, 1);
    sim_pass(s, 2);
    CHECK(lease->renewal == NULL);
    round_free(release_begin(lease, s->now_ms));
    sim_run(s);
    sim_logs_are(s, "ER");
    CHECK_INT(sim_with(s, "k"), 0);
    drop(s, lease);
}

SIM_TEST(heals_no_foreign_key, sim_up(5))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = s->server[1].keys = 0;
    sim_put(s, 0, "k", 60000);
    begin_renewal(s, lease);
    for (int i = 1; i < 5; i++)
        sim_pass(s, i);
    sim_pass(s, 0);
    sim_put(s, 1, "k", 60000);           /* just before the heal comes */
    sim_run(s);
    CHECK_STR(s->server[0].log, "E");
    CHECK_STR(s->server[1].log, "EA");
    CHECK_INT(sim_mine(s, "k", lease), all_of(5) & ~all_of(2));
    sim_clear_logs(s);
    sim_advance(s, 3000);
    CHECK(!strchr(s->server[0].log, 'A') && !strchr(s->server[1].log, 'A'));
    let_go(s, lease);
    CHECK_INT(sim_with(s, "k"), all_of(2));
    CHECK_INT(sim_key(s, 1, "k")->until_ms > s->now_ms + 50000, 1);
}

SIM_TEST(heals_where_the_script_is_gone, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = 0;
    begin_renewal(s, lease);
    sim_pass(s, 0);
    s->server[0].loaded = 0;
    sim_run(s);
    CHECK_STR(s->server[0].log, "E?a");
    CHECK_INT(sim_mine(s, "k", lease), all_of(3));
    /* The same, but released before the NOSCRIPT is read: not sent again. */
    s->server[0].keys = 0;
    s->server[0].loaded = bit(SIM_SCRIPTS) - 1;
    begin_renewal(s, lease);
    sim_pass(s, 0);
    s->server[0].loaded = 0;
    sim_pass(s, 1);
    sim_pass(s, 2);
    rl_round *release = release_begin(lease, s->now_ms);
    sim_clear_logs(s);
    sim_run(s);
    CHECK_STR(s->server[0].log, "??r");
    CHECK_INT(sim_end(release), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
    drop(s, lease);
}

/* The connection breaks with the heal on its way; what may come of it is cleaned up.
 * how 0: it was executed; 1: it is executed later than the release. */
static void torn_heal(int how)
{
    struct sim *s = sim_up(3);
    test_note("how %d", how);
    rl_lease *lease = sim_keep(s, "k", 30000);
    s->server[0].keys = 0;
    s->server[0].lingers = how;
    begin_renewal(s, lease);
    for (int i = 0; i < 3; i++)
        sim_pass(s, i);
    CHECK_STR(s->server[0].log, "E");
    sim_serve(s, 0);
    if (how)
        sim_cut(s, 0);
    else
        sim_cut_after(s, 0);
    CHECK_INT(sim_result(s, release_begin(lease, s->now_ms)), RL_GRANTED);
    sim_haunt(s, 0, SIM_LOG);
    CHECK(how == 0 || sim_with(s, "k") == 1);
    sim_advance(s, 2000);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK(s->core.owing == NULL);
    drop(s, lease);
    sim_finish(s);
}

static void a_torn_heal_is_cleaned_up(void)
{
    torn_heal(0);
    torn_heal(1);
}

/* Two extensions heal one node; the second heal never left, the first one did. */
SIM_TEST(a_heal_that_never_left_hides_no_other, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 30000);
    s->server[0].keys = 0;
    begin_renewal(s, lease);
    rl_round *extend = lease_extend(lease, 30000, s->now_ms);
    sim_pass(s, 1);
    sim_pass(s, 2);
    CHECK_INT(sim_end(extend), RL_GRANTED);
    sim_serve(s, 0);
    sim_execute(s, 0, 2);
    sim_deliver(s, 0, 4);                /* the first "no" */
    sim_pass(s, 0);                        /* its heal, and the second "no" */
    CHECK_INT(sim_mine(s, "k", lease), all_of(3));
    disconnect(s, 1);
    round_free(sim_ask(s, "k"));    /* from now on it backs off */
    sim_run(s);
    CHECK_INT(sim_result(s, release_begin(lease, s->now_ms)), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 1);
    CHECK_INT(lease->owed, 1);
    s->server[0].refuses = 0;
    sim_advance(s, 3000);
    CHECK_INT(sim_with(s, "k"), 0);
    drop(s, lease);
}

/* ---- letting go ---- */

/* steps: how far the renewal, and the heal of one node, got before the release. */
static void release_at(int steps, int forgotten)
{
    struct sim *s = sim_up(3);
    test_note("after %d steps, scripts %s", steps, forgotten ? "forgotten" : "known");
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = 0;
    begin_renewal(s, lease);
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
    rl_round *release = release_begin(lease, s->now_ms);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    CHECK_INT(sim_result(s, release), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(lease->lost, RL_NOT_LOST);
    CHECK(lease->renewal == NULL);
    sim_clear_logs(s);
    sim_advance(s, 9000);
    sim_logs_are(s, "");
    CHECK_INT(losses(s), 0);
    drop(s, lease);
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
    drop(s, lease);
    drop(s, fixed);
    CHECK_INT(sim_live(s), 4);           /* with their releases */
    sim_advance(s, sim_validity(3000, 0) - 1);
    CHECK(s->core.held != NULL);
    sim_advance(s, 1);
    CHECK(s->core.held == NULL);
    CHECK_INT(sim_live(s), 0);
    sim_logs_are(s, "");
    CHECK_INT(losses(s), 0);             /* there is nobody to tell */
    sim_advance(s, 100);
    CHECK_INT(sim_with(s, "k"), 0);

    /* One whose renewal is under way: that one is the last. */
    lease = sim_keep(s, "k", 3000);
    begin_renewal(s, lease);
    drop(s, lease);
    sim_run(s);
    sim_advance(s, 3000);
    sim_logs_are(s, "E");
    CHECK_INT(sim_with(s, "k"), 0);

    /* One that a majority disowns meanwhile. */
    lease = sim_keep(s, "k", 3000);
    begin_renewal(s, lease);
    drop(s, lease);
    s->server[0].keys = s->server[1].keys = 0;
    sim_run(s);
    sim_advance(s, 3000);
    sim_logs_are(s, "ER");
    CHECK_INT(sim_live(s), 0);

    /* One that was disowned before. */
    lease = sim_keep(s, "k", 3000);
    begin_renewal(s, lease);
    s->server[0].keys = s->server[1].keys = 0;
    sim_run(s);
    drop(s, lease);
    CHECK(sim_live(s) > 0);
    sim_advance(s, 3000);
    sim_logs_are(s, "ER");
    CHECK_INT(sim_live(s), 0);

    /* One that is lost already. */
    lease = sim_keep(s, "k", 3000);
    sim_skip(s, 3000);
    sim_tick(s);
    drop(s, lease);
    sim_run(s);                          /* the release of what a renewal prolonged */
    CHECK_INT(sim_live(s), 0);
}

/* The client is closed before the orphan's time is over: it is let go. */
SIM_TEST(orphans_are_released_at_the_end, sim_up(3))
{
    drop(s, sim_keep(s, "k", 30000));
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
    disconnect(s, 3);
    rl_round *extend = lease_extend(lease[1], 3000, s->now_ms);
    sim_advance(s, 9000);
    CHECK_INT(losses(s), 6);
    for (int k = 0; k < 6; k++)
        CHECK_INT(watchdog_lost_why(lease[k], s->now_ms), RL_LOSS_EXPIRED);
    uint32_t known = 0;
    for (int k = 0; k < 36; k++)
        known |= (uint32_t)(s->core.lost[k % 6] == lease[k / 6]) << k / 6;
    CHECK_INT(known, 63);
    sim_end(extend);
    extend = lease_extend(lease[0], 3000, s->now_ms);
    CHECK_INT(sim_end(extend), RL_LOST);
    sim_heal(s);
    for (int k = 0; k < 6; k++)
        let_go(s, lease[k]);
    CHECK_INT(losses(s), 6);
}

/* ---- beside the user's own extensions ---- */

SIM_TEST(beside_an_extension, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    int64_t t0 = begin_renewal(s, lease);
    CHECK_INT(sim_result(s, lease_extend(lease, 9000, s->now_ms)), RL_GRANTED);
    CHECK(lease->renewal == NULL);
    CHECK_INT(lease->deadline_ms, t0 + sim_validity(9000, 0));
    sim_clear_logs(s);
    sim_advance(s, 1000);
    sim_logs_are(s, "E");                /* renewed on */

    /* A short one between the renewals shortens nothing, and ends nothing. */
    CHECK_INT(sim_result(s, lease_extend(lease, 100, s->now_ms)), RL_GRANTED);
    sim_advance(s, 20000);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 1900);

    /* Whichever of the two is told first that it is gone. */
    begin_renewal(s, lease);
    rl_round *extend = lease_extend(lease, 9000, s->now_ms);
    s->server[0].keys = s->server[1].keys = 0;
    sim_run(s);
    CHECK(extend->outcome == RL_LOST || extend->outcome == RL_NOT_HELD);
    sim_end(extend);
    CHECK_INT(lease->lost, RL_LOSS_FORGOTTEN);
    CHECK_INT(losses(s), 1);
    CHECK_INT(sim_with(s, "k"), 1 << 2);
    sim_advance(s, 9000);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(s->core.unattended, 0);
    drop(s, lease);
}

/* What cannot be extended is not kept. */
SIM_TEST(keeps_only_what_it_can, sim_up(3))
{
    s->primitive.extend = -1;
    rl_lease *lease = sim_keep(s, "k", 3000);
    sim_advance(s, 3000);
    sim_logs_are(s, "");
    CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
    watchdog_start(lease, 3000, 0, s->now_ms);
    CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
    drop(s, lease);
}

/* ---- what the keeper has to know ---- */

SIM_TEST(busy_while_there_is_something_to_do, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    CHECK(!core_busy(&s->core));
    begin_renewal(s, lease);
    CHECK(core_busy(&s->core));
    sim_pass(s, 0);
    sim_serve(s, 1);
    sim_serve(s, 2);
    CHECK(core_busy(&s->core));          /* written, but nobody else reads it */
    sim_pass(s, 1);
    CHECK(!core_busy(&s->core));         /* the third one's answer is for later */
    sim_run(s);

    freeze(s, 3, 1);
    begin_renewal(s, lease);
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
    disconnect(s, 1);
    round_free(release_begin(lease, s->now_ms));
    sim_run(s);
    CHECK(core_owes_away(&s->core));
    CHECK(core_due_ms(&s->core) != INT64_MAX);
    sim_heal(s);
    sim_advance(s, 3000);
    CHECK(!core_owes_away(&s->core));
    CHECK(!core_busy(&s->core));
    CHECK_INT(sim_with(s, "k"), 0);
    drop(s, lease);
}

SUITE(watchdog, T(renews_after_a_third), T(counts_from_the_start_of_its_round),
      T(what_was_slow_is_renewed_soon), T(an_extended_lease_is_renewed_as_any),
      T(renewals_go_together), T(a_failing_minority_loses_nothing),
      T(silence_for_a_while_loses_nothing), T(slow_answers_confirm_too),
      T(attempts_are_bounded),
      T(lost_at_the_deadline_and_not_before), T(lost_before_the_tick),
      T(fixed_leases_are_lost_too), T(taken_when_a_majority_disowns),
      T(max_hold_is_a_bound), T(suspended_is_told_from_expired),
      T(a_short_pause_is_no_loss), T(closed_with_the_client),
      T(lost_in_the_child_of_a_fork), T(heals_after_the_majority_only),
      T(heals_nothing_without_a_majority), T(late_answers_heal_what_is_held),
      T(heals_no_foreign_key), T(heals_where_the_script_is_gone),
      T(a_torn_heal_is_cleaned_up),
      T(a_heal_that_never_left_hides_no_other), T(released_in_the_middle_of_a_renewal),
      T(orphans_end_with_their_time), T(orphans_are_released_at_the_end),
      T(losses_count_once), T(beside_an_extension), T(keeps_only_what_it_can),
      T(busy_while_there_is_something_to_do));
