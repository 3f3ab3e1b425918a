/* test_watchdog_loss.c - what the watchdog finds lost, what it heals, and what the user
 * extends meanwhile. */
#include <string.h>

#include "sim.h"

/* ---- losing ---- */

SIM_TEST(lost_at_the_deadline_and_not_before, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    sim_advance(s, 1500);
    sim_leave_first(s, 2);
    int64_t deadline_ms = lease->deadline_ms;
    while (s->now_ms < deadline_ms - 1) {
        sim_advance(s, 1);
        REQUIRE(watchdog_lost_why(lease, s->now_ms) == RL_NOT_LOST);
        REQUIRE(lease_remaining_ms(lease, s->now_ms) == deadline_ms - s->now_ms);
    }
    CHECK_INT(s->core.losses, 0);
    sim_advance(s, 1);
    CHECK_INT(s->now_ms, deadline_ms);
    CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    CHECK_INT(s->core.losses, 1);
    sim_heal(s);
    sim_clear_logs(s);
    sim_advance(s, 9000);
    CHECK(!strchr(s->server[2].log, 'E'));            /* it is over */
    CHECK_INT(watchdog_lost_why(lease, s->now_ms), RL_LOSS_EXPIRED);
    CHECK_INT(s->core.losses, 1);
    sim_let_go(s, lease);
    CHECK_INT(s->core.losses, 1);
}

/* Who asks before the tick is told the truth, and it counts once. */
SIM_TEST(lost_before_the_tick, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);         /* fixed: not kept */
    sim_skip(s, sim_validity(1000, 0) - 1);
    CHECK_INT(watchdog_lost_why(lease, s->now_ms), RL_NOT_LOST);
    sim_skip(s, 1);
    CHECK_INT(s->core.losses, 0);
    CHECK_INT(watchdog_lost_why(lease, s->now_ms), RL_LOSS_EXPIRED);
    CHECK_INT(s->core.losses, 1);
    sim_tick(s);
    sim_run(s);
    CHECK_INT(s->core.losses, 1);
    sim_logs_are(s, "A");
    holder_drop(lease, s->now_ms);
    CHECK_INT(s->core.losses, 1);
    CHECK(s->core.held == NULL);
}

SIM_TEST(fixed_leases_are_lost_too, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000), *released = sim_hold(s, "r", 1000);
    sim_let_go(s, released);
    sim_clear_logs(s);
    sim_advance(s, sim_validity(1000, 0) - 1);
    CHECK_INT(lease->lost, RL_NOT_LOST);
    sim_advance(s, 1);
    CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
    CHECK_INT(s->core.losses, 1);                          /* not the released one */
    sim_logs_are(s, "");
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
    sim_begin_renewal(s, lease);
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
    CHECK_INT(s->core.losses, 1);
    rl_round *release = holder_release(lease, s->now_ms);
    CHECK(release->outcome != RL_OK && release->outcome != RL_GRANTED);
    round_free(release);
    sim_logs_are(s, "ER");
    holder_drop(lease, s->now_ms);
    CHECK_INT(s->core.losses, 1);
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
    CHECK_INT(s->core.losses, 1);
}

/* how 0: a tick finds out, 1: a question before it, 2: an answer before it. */
static void suspended(int how)
{
    struct sim *s = sim_up(3);
    test_note("how %d", how);
    rl_lease *lease = sim_keep(s, "k", 3000);
    sim_advance(s, 500);
    if (how == 2) {
        sim_begin_renewal(s, lease);
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
    CHECK_INT(s->core.losses, 1);
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
    CHECK_INT(s->core.losses, 0);
}

SIM_TEST(closed_with_the_client, sim_up(3))
{
    rl_lease *kept = sim_keep(s, "k", 3000), *fixed = sim_hold(s, "f", 3000);
    rl_lease *busy = sim_keep(s, "b", 1500), *lost = sim_hold(s, "l", 100);
    sim_advance(s, 200);
    sim_begin_renewal(s, busy);
    CHECK_INT(s->core.losses, 1);
    close_finish(&s->core, s->now_ms);
    CHECK_INT(kept->lost, RL_LOSS_CLOSED);
    CHECK_INT(fixed->lost, RL_LOSS_CLOSED);
    CHECK_INT(busy->lost, RL_LOSS_CLOSED);
    CHECK_INT(lost->lost, RL_LOSS_EXPIRED);
    CHECK_INT(s->core.losses, 4);
    CHECK_INT(lease_remaining_ms(kept, s->now_ms), 0);
    sim_run(s);
    CHECK_INT(sim_with(s, "k") | sim_with(s, "f") | sim_with(s, "b"), 0);
    CHECK_INT(s->core.unattended, 0);
}

SIM_TEST(lost_in_the_child_of_a_fork, sim_up(3))
{
    rl_lease *kept = sim_keep(s, "k", 3000), *busy = sim_keep(s, "b", 1500);
    sim_begin_renewal(s, busy);
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
}

/* ---- healing ---- */

SIM_TEST(heals_after_the_majority_only, sim_up(5))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = s->server[1].keys = 0;
    int64_t t0 = sim_begin_renewal(s, lease);
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
    sim_let_go(s, lease);
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
    sim_let_go(s, lease);
    sim_advance(s, 5000);
    CHECK_INT(sim_with(s, "k"), 0);
}

/* A "no" that comes late to a round that failed, or to a lease that was let go since. */
SIM_TEST(late_answers_heal_what_is_held, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = 0;
    sim_begin_renewal(s, lease);
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
    sim_begin_renewal(s, lease);
    sim_pass(s, 1);
    sim_pass(s, 2);
    CHECK(lease->renewal == NULL);
    round_free(holder_release(lease, s->now_ms));
    sim_run(s);
    sim_logs_are(s, "ER");
    CHECK_INT(sim_with(s, "k"), 0);
}

SIM_TEST(heals_no_foreign_key, sim_up(5))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = s->server[1].keys = 0;
    sim_put(s, 0, "k", 60000);
    sim_begin_renewal(s, lease);
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
    sim_let_go(s, lease);
    CHECK_INT(sim_with(s, "k"), all_of(2));
    CHECK_INT(sim_key(s, 1, "k")->until_ms > s->now_ms + 50000, 1);
}

SIM_TEST(heals_where_the_script_is_gone, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    s->server[0].keys = 0;
    sim_begin_renewal(s, lease);
    sim_pass(s, 0);
    memset(s->server[0].loaded, 0, SIM_SCRIPTS);
    sim_run(s);
    CHECK_STR(s->server[0].log, "E?a");
    CHECK_INT(sim_mine(s, "k", lease), all_of(3));
    /* The same, but released before the NOSCRIPT is read: not sent again. */
    s->server[0].keys = 0;
    memset(s->server[0].loaded, 1, SIM_SCRIPTS);
    sim_begin_renewal(s, lease);
    sim_pass(s, 0);
    memset(s->server[0].loaded, 0, SIM_SCRIPTS);
    sim_pass(s, 1);
    sim_pass(s, 2);
    rl_round *release = holder_release(lease, s->now_ms);
    sim_clear_logs(s);
    sim_run(s);
    CHECK_STR(s->server[0].log, "??r");
    CHECK_INT(sim_end(release), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
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
    sim_begin_renewal(s, lease);
    for (int i = 0; i < 3; i++)
        sim_pass(s, i);
    CHECK_STR(s->server[0].log, "E");
    sim_serve(s, 0);
    if (how)
        sim_cut(s, 0);
    else
        sim_cut_after(s, 0);
    CHECK_INT(sim_result(s, holder_release(lease, s->now_ms)), RL_GRANTED);
    sim_haunt(s, 0, SIM_LOG);
    CHECK(how == 0 || sim_with(s, "k") == 1);
    sim_advance(s, 2000);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK(s->core.owing == NULL);
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
    sim_begin_renewal(s, lease);
    rl_round *extend = holder_extend(lease, 30000, s->now_ms);
    sim_pass(s, 1);
    sim_pass(s, 2);
    CHECK_INT(sim_end(extend), RL_GRANTED);
    sim_serve(s, 0);
    sim_execute(s, 0, 2);
    sim_deliver(s, 0, 4);                /* the first "no" */
    sim_pass(s, 0);                        /* its heal, and the second "no" */
    CHECK_INT(sim_mine(s, "k", lease), all_of(3));
    sim_leave_first(s, 1);
    round_free(sim_ask(s, "k"));    /* from now on it backs off */
    sim_run(s);
    CHECK_INT(sim_result(s, holder_release(lease, s->now_ms)), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 1);
    CHECK_INT(lease->owed, 1);
    s->server[0].refuses = 0;
    sim_advance(s, 3000);
    CHECK_INT(sim_with(s, "k"), 0);
}

/* ---- beside the user's own extensions ---- */

SIM_TEST(beside_an_extension, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000);
    int64_t t0 = sim_begin_renewal(s, lease);
    CHECK_INT(sim_result(s, holder_extend(lease, 9000, s->now_ms)), RL_GRANTED);
    CHECK(lease->renewal == NULL);
    CHECK_INT(lease->deadline_ms, t0 + sim_validity(9000, 0));
    sim_clear_logs(s);
    sim_advance(s, 1000);
    sim_logs_are(s, "E");                /* renewed on */

    /* A short one between the renewals shortens nothing, and ends nothing. */
    CHECK_INT(sim_result(s, holder_extend(lease, 100, s->now_ms)), RL_GRANTED);
    sim_advance(s, 20000);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 1900);

    /* Whichever of the two is told first that it is gone. */
    sim_begin_renewal(s, lease);
    rl_round *extend = holder_extend(lease, 9000, s->now_ms);
    s->server[0].keys = s->server[1].keys = 0;
    sim_run(s);
    CHECK(extend->outcome == RL_LOST || extend->outcome == RL_NOT_HELD);
    sim_end(extend);
    CHECK_INT(lease->lost, RL_LOSS_FORGOTTEN);
    CHECK_INT(s->core.losses, 1);
    CHECK_INT(sim_with(s, "k"), 1 << 2);
    sim_advance(s, 9000);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(s->core.unattended, 0);
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
}

SUITE(watchdog_loss, T(lost_at_the_deadline_and_not_before), T(lost_before_the_tick),
      T(fixed_leases_are_lost_too), T(taken_when_a_majority_disowns),
      T(max_hold_is_a_bound), T(suspended_is_told_from_expired),
      T(a_short_pause_is_no_loss), T(closed_with_the_client),
      T(lost_in_the_child_of_a_fork), T(heals_after_the_majority_only),
      T(heals_nothing_without_a_majority), T(late_answers_heal_what_is_held),
      T(heals_no_foreign_key), T(heals_where_the_script_is_gone),
      T(a_torn_heal_is_cleaned_up), T(a_heal_that_never_left_hides_no_other),
      T(beside_an_extension), T(keeps_only_what_it_can));
