/* test_release.c - letting go: outcomes, cancelling, and releasing what is gone. */
#include <string.h>

#include "sim.h"

static int release(struct sim *s, rl_lease *lease)
{
    rl_round *round = holder_release(lease, s->now_ms);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);   /* over at once */
    sim_wait(s, round, 5000);
    return sim_end(round);
}

static void lets_go(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 32};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct sim *s = sim_up(sizes[k]);
        test_note("n = %d", sizes[k]);
        rl_lease *lease = sim_hold(s, "k", 3000);
        CHECK_INT(release(s, lease), RL_GRANTED);
        sim_logs_are(s, "AR");
        CHECK_INT(sim_with(s, "k"), 0);
        CHECK(s->core.owing == NULL);
        holder_drop(lease, s->now_ms);
        CHECK_INT(sim_live(s), 0);
        sim_finish(s);
    }
}

/* The first release was executed, its answer was lost, and somebody else has it since. */
SIM_TEST(asked_again_after_it_let_go, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    rl_round *round = holder_release(lease, s->now_ms);
    for (int i = 0; i < 3; i++) {
        sim_serve(s, i);
        sim_cut_after(s, i);
        sim_put(s, i, "k", 3000);
    }
    CHECK_INT(sim_wait(s, round, 5000), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), all_of(3));
    sim_end(round);
}

SIM_TEST(decided_at_the_majority, sim_up(5))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    s->server[0].frozen = s->server[1].frozen = 1;
    rl_round *round = holder_release(lease, s->now_ms);
    for (int i = 2; i < 5; i++) {
        CHECK_INT(round->outcome, RL_OK);
        sim_serve(s, i);
        sim_execute(s, i, 1);
        sim_deliver(s, i, SIZE_MAX);
    }
    CHECK_INT(sim_end(round), RL_GRANTED);
    CHECK_INT(lease->owed, bit(0) | bit(1));     /* the others get it all the same */
    sim_run(s);
    s->server[0].frozen = s->server[1].frozen = 0;
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK(s->core.owing == NULL);
}

/* Also that which took the lease over before. */
SIM_TEST(an_imported_lease_owes_a_node_that_is_down, sim_up(3))
{
    struct parcel p = sim_export(s, sim_hold(s, "k", 5000));
    struct hold h = sim_import(s, "k", &p, 5000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    sim_run(s);
    sim_leave(s, 0);
    CHECK_INT(release(s, h.lease), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), bit(0));
    CHECK_INT(h.lease->owed, bit(0));
    s->server[0].refuses = 0;
    sim_advance(s, 3000);
    sim_all_clean(s);
}

/* A minority kept nobody out. If its release woke waiters, they would wake each other. */
SIM_TEST(what_a_minority_granted_is_not_announced, sim_up(3))
{
    sim_put(s, 1, "k", 3000);
    sim_put(s, 2, "k", 3000);
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_HELD);
    CHECK_STR(s->server[0].log, "AR");
    CHECK_INT(s->server[0].announced, 0);
    sim_drop(s, &h);
    sim_let_go(s, sim_hold(s, "other", 5000));
    for (int i = 0; i < 3; i++)
        CHECK_INT(s->server[i].announced, 1);
}

/* ---- outcomes ---- */

SIM_TEST(expired_on_all, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_advance(s, 1500);
    CHECK_INT(release(s, lease), RL_EXPIRED);
    CHECK(s->core.owing == NULL);
}

/* Our validity is over, the servers' is not: too late to say that it was in time. */
SIM_TEST(expired_but_still_there, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_advance(s, sim_validity(1000, 0));
    CHECK_INT(sim_mine(s, "k", lease), all_of(3));
    CHECK_INT(release(s, lease), RL_EXPIRED);
    CHECK_INT(sim_with(s, "k"), 0);
}

SIM_TEST(in_time_by_a_millisecond, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_advance(s, sim_validity(1000, 0) - 1);
    CHECK_INT(release(s, lease), RL_GRANTED);
}

SIM_TEST(held_by_another, sim_up(3))
{
    rl_lease *mine = sim_hold(s, "k", 1000);
    sim_advance(s, 1500);
    rl_lease *other = sim_hold(s, "k", 5000);
    CHECK_INT(release(s, mine), RL_HELD);
    CHECK_INT(sim_mine(s, "k", other), all_of(3));       /* untouched */
    CHECK(lease_remaining_ms(other, s->now_ms) > 0);
}

SIM_TEST(unknown_without_answers, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 5000);
    for (int i = 0; i < 2; i++) {
        sim_leave(s, i);
    }
    CHECK_INT(release(s, lease), RL_UNKNOWN);
    CHECK_INT(sim_with(s, "k"), bit(0) | bit(1));
    CHECK_INT(lease->release->slot[0].code, RL_REFUSED);
    sim_advance(s, 500);
    s->server[0].refuses = s->server[1].refuses = 0;
    sim_advance(s, 3000);
    CHECK_INT(sim_with(s, "k"), 0);      /* cleaned all the same */
}

SIM_TEST(unknown_from_hung_nodes, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 5000);
    sim_freeze(s, all_of(3));
    int64_t t0 = s->now_ms;
    CHECK_INT(release(s, lease), RL_UNKNOWN);
    CHECK_INT(s->now_ms - t0, SIM_TIMEOUT_MS);
}

SIM_TEST(released_twice, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 5000);
    rl_round *a = holder_release(lease, s->now_ms);
    rl_round *b = holder_release(lease, s->now_ms);
    CHECK(a == b);
    CHECK_INT(sim_result(s, a), RL_GRANTED);
    CHECK_INT(sim_end(b), RL_GRANTED);
    CHECK_INT(release(s, lease), RL_GRANTED);
    sim_logs_are(s, "AR");               /* asked once */
}

/* ---- cancelling ---- */

SIM_TEST(cancels_an_attempt, sim_up(3))
{
    sim_freeze(s, all_of(3));
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    sim_run(s);
    rl_round *round = holder_release(h.lease, s->now_ms);
    CHECK_INT(h.round->outcome, RL_CANCELLED);
    sim_freeze(s, 0);
    sim_run(s);
    sim_logs_are(s, "AR");
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK(round->outcome != RL_OK);
    CHECK_INT(h.round->outcome, RL_CANCELLED);
    CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), 0);
    CHECK(s->core.owing == NULL);
    sim_end(round);
}

/* Cancelled before the connection stands: the acquire is not sent any more. */
SIM_TEST(cancels_before_it_is_sent, sim_new(3))
{
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    rl_round *round = holder_release(h.lease, s->now_ms);
    CHECK_INT(h.round->outcome, RL_CANCELLED);
    int outcome = sim_wait(s, round, 10);
    for (int i = 0; i < 3; i++)
        CHECK(strchr(s->server[i].log, 'A') == NULL);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(outcome, RL_EXPIRED);
    sim_end(round);
}

/* The same with a tick before the connections stand: it owes nothing to anybody, but
 * the release's caller waits. */
SIM_TEST(cancelled_release_is_answered_soon, sim_new(3))
{
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    rl_round *round = holder_release(h.lease, s->now_ms);
    sim_skip(s, 1);
    sim_tick(s);
    CHECK_INT(sim_wait(s, round, 10), RL_EXPIRED);
    sim_end(round);
}

/* Long expired, and the connections idle and broken: as soon as they stand again the
 * answer is known. */
SIM_TEST(expired_over_a_new_connection, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_advance(s, 5000);
    for (int i = 0; i < 3; i++)
        sim_cut(s, i);
    rl_round *round = holder_release(lease, s->now_ms);
    sim_skip(s, 1);
    sim_tick(s);                         /* nothing can be left: it is forgotten */
    CHECK_INT(sim_wait(s, round, 10), RL_EXPIRED);
    sim_end(round);
}

/* ---- who is asked ---- */

/* A release goes to nodes that refused and to nodes that failed. */
SIM_TEST(goes_to_all_nodes, sim_up(5))
{
    sim_put(s, 0, "k", 9000);
    s->server[1].say[SIM_ACQUIRE] = "-OOM command not allowed\r\n";
    rl_lease *lease = sim_hold(s, "k", 5000);
    CHECK_INT(release(s, lease), RL_GRANTED);
    sim_logs_are(s, "AR");
    CHECK_INT(sim_with(s, "k"), bit(0));
}

/* Nodes that were never asked are not connected for a release. */
SIM_TEST(leaves_strangers_alone, sim_new(3))
{
    s->server[2].refuses = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_wait(s, h.round, 1000), RL_GRANTED);
    CHECK_INT(release(s, h.lease), RL_GRANTED);
    sim_run(s);
    CHECK(s->core.owing == NULL);
}

/* One failing node stops nothing, and what it said is kept. */
SIM_TEST(errors_are_kept, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    s->server[0].say[SIM_RELEASE] = "-NOPERM this user has no permissions\r\n";
    CHECK_INT(release(s, lease), RL_GRANTED);
    CHECK_INT(lease->release->slot[0].code, RL_NOPERM);
    CHECK_INT(sim_with(s, "k"), bit(0));
}

/* A lease of another name on the same connection stays. */
SIM_TEST(releases_only_its_own, sim_up(3))
{
    rl_lease *a = sim_hold(s, "a", 5000);
    rl_lease *b = sim_hold(s, "b", 5000);
    CHECK_INT(release(s, a), RL_GRANTED);
    CHECK_INT(sim_with(s, "a"), 0);
    CHECK_INT(sim_mine(s, "b", b), all_of(3));
    CHECK_INT(lease_remaining_ms(b, s->now_ms), sim_validity(5000, 0));
}

/* Its owner is gone: it is released, as far as he had it. */
SIM_TEST(of_an_owner_who_is_gone, sim_up(3))
{
    rl_lease *lease = sim_keep(s, "k", 3000), *over = sim_hold(s, "o", 3000);
    round_free(holder_release(over, s->now_ms));
    sim_run(s);
    sim_clear_logs(s);
    sim_advance(s, 1000);                /* its renewal is under way */
    holder_orphan(lease, s->now_ms);
    holder_orphan(over, s->now_ms);
    sim_run(s);
    sim_logs_are(s, "ER");
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(sim_live(s), 0);
    CHECK_INT(s->core.losses, 0);

    /* Somebody else's are left alone: a majority has disowned it. */
    lease = sim_keep(s, "k", 3000);
    for (int i = 0; i < 2; i++) {
        s->server[i].keys = 0;
        sim_put(s, i, "k", 9000);
    }
    sim_advance(s, 1100);
    CHECK_INT(lease->lost, RL_LOSS_TAKEN);
    sim_clear_logs(s);
    holder_orphan(lease, s->now_ms);
    sim_run(s);
    sim_logs_are(s, "");                 /* the others keep the name closed till then */
    CHECK_INT(sim_mine(s, "k", lease), bit(2));
    sim_advance(s, 3000);
    CHECK_INT(sim_with(s, "k"), bit(0) | bit(1));
    CHECK_INT(sim_live(s), 0);
}

/* A lock delay is for those who could not let go. */
SIM_TEST(not_where_there_is_a_lock_delay, sim_up(3))
{
    s->core.options.lock_delay_ms = 5000;
    holder_orphan(sim_keep(s, "k", 3000), s->now_ms);
    sim_advance(s, 7900);
    CHECK_INT(sim_with(s, "k"), all_of(3));
    sim_advance(s, 200);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(sim_live(s), 0);
}

/* ---- releases that fail ---- */

SIM_TEST(failing_release_is_retried_until_it_succeeds, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 5000);
    s->server[1].say[SIM_RELEASE] = "-BUSY Redis is busy running a script.\r\n";
    sim_clear_logs(s);
    CHECK_INT(sim_release(s, lease), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), bit(1));
    CHECK_INT(lease->owed, bit(1));
    sim_advance(s, 1000);
    CHECK(s->server[1].logged >= 2 && s->server[1].logged <= 4);
    CHECK_STR(s->server[0].log, "R");
    s->server[1].say[SIM_RELEASE] = NULL;
    sim_advance(s, 2000);
    sim_all_clean(s);
}

SIM_TEST(failing_release_is_forgotten_with_the_lease, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 5100);
    int64_t t0 = s->now_ms;
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_RELEASE] = "-BUSY Redis is busy running a script.\r\n";
    CHECK_INT(sim_release(s, lease), RL_UNKNOWN);
    holder_drop(lease, s->now_ms);
    sim_advance(s, t0 + 5099 - s->now_ms);
    CHECK(s->core.owing != NULL);
    CHECK(s->server[0].logged < 10);             /* with growing pauses */
    sim_advance(s, 1);
    CHECK(s->core.owing == NULL);
    CHECK_INT(sim_live(s), 0);
    size_t tries = s->server[0].logged;
    sim_advance(s, 20000);
    CHECK_INT(s->server[0].logged, tries);
}

SIM_TEST(unreachable_node_is_forgotten_with_the_lease, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 5000);
    int64_t t0 = s->now_ms;
    sim_leave(s, 2);
    sim_run(s);
    CHECK_INT(sim_release(s, lease), RL_GRANTED);
    CHECK_INT(lease->owed, bit(2));
    holder_drop(lease, s->now_ms);
    sim_advance(s, t0 + 4999 - s->now_ms);
    CHECK(s->core.owing != NULL);
    sim_advance(s, 1);
    CHECK(s->core.owing == NULL);
    int64_t tries = s->core.nodes[2].stats.disconnects;
    sim_advance(s, 3 * NODE_BACKOFF_MAX_MS);
    CHECK_INT(s->core.nodes[2].stats.disconnects, tries);  /* nobody connects any more */
    CHECK_INT(core_due_ms(&s->core), INT64_MAX);
}

/* A node that comes back in time is cleaned. */
SIM_TEST(returning_node_is_cleaned, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 30000);
    sim_leave(s, 2);
    CHECK_INT(sim_release(s, lease), RL_GRANTED);
    holder_drop(lease, s->now_ms);
    sim_advance(s, 5000);
    CHECK_INT(sim_with(s, "k"), bit(2));
    s->server[2].refuses = 0;
    sim_advance(s, NODE_BACKOFF_MAX_MS * 3 / 2);
    sim_all_clean(s);
    CHECK_INT(sim_live(s), 0);
}

/* A leftover must not block the next attempt of the same client: what is owed goes
 * first when the connection is back. */
SIM_TEST(debts_are_paid_before_new_attempts, sim_up(1))
{
    struct hold a = sim_acquire(s, "k", 5000, 1000);
    s->server[0].holds = 1;
    sim_cut_after(s, 0);
    s->server[0].hushed = 1;
    s->server[0].holds = 0;
    sim_drop(s, &a);                     /* cancelled: the key is there, unknown to us */
    CHECK_INT(sim_with(s, "k"), bit(0));
    struct hold b = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, b.round), RL_OK);
    sim_clear_logs(s);
    s->server[0].hushed = 0;
    sim_run(s);
    CHECK_STR(s->server[0].log, "RA");
    CHECK_INT(b.round->outcome, RL_GRANTED);
}

SUITE(release, T(lets_go), T(asked_again_after_it_let_go), T(decided_at_the_majority), T(an_imported_lease_owes_a_node_that_is_down),
      T(what_a_minority_granted_is_not_announced),
      T(expired_on_all), T(expired_but_still_there), T(in_time_by_a_millisecond),
      T(held_by_another), T(unknown_without_answers), T(unknown_from_hung_nodes),
      T(released_twice), T(cancels_an_attempt), T(cancels_before_it_is_sent),
      T(cancelled_release_is_answered_soon), T(expired_over_a_new_connection),
      T(goes_to_all_nodes), T(leaves_strangers_alone), T(errors_are_kept),
      T(releases_only_its_own), T(of_an_owner_who_is_gone),
      T(not_where_there_is_a_lock_delay),
      T(failing_release_is_retried_until_it_succeeds),
      T(failing_release_is_forgotten_with_the_lease),
      T(unreachable_node_is_forgotten_with_the_lease), T(returning_node_is_cleaned),
      T(debts_are_paid_before_new_attempts));
