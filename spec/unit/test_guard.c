/* test_guard.c - who may vote on an acquire: markers, quarantines, steps of clocks, and
 * servers that are not what they should be. */
#include "core/eligibility/guard.h"

#include <stdio.h>
#include <string.h>

#include "core/eligibility/eligibility.h"
#include "guard_fixture.h"

static struct sim *brand_new(int n)
{
    struct sim *s = sim_new(n);
    sim_guard(s, MAX_LEASE_MS);
    return s;
}

SIM_TEST(admitted_servers_vote_at_once, sim_admitted(3, MAX_LEASE_MS))
{
    CHECK_INT(eligibility_left_ms(&s->core, s->now_ms), 0);
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_logs_are(s, "A");
    CHECK_INT(sim_mine(s, "k", lease), 7);
}

/* Nobody votes before the quarantine's end, and what is left of it is told. */
static void waits_for_quarantine(struct sim *s)
{
    CHECK_INT(eligibility_left_ms(&s->core, s->now_ms), GUARD_MS);
    sim_advance(s, GUARD_MS - 1000);
    CHECK_INT(try(s, "k"), RL_NO_QUORUM);
    CHECK_INT(eligibility_left_ms(&s->core, s->now_ms), 1000);
    sim_advance(s, 1000 + CUT_MS);
    CHECK_INT(try(s, "k"), RL_NO_QUORUM);
}

SIM_TEST(new_servers_vote_after_a_quarantine, brand_new(3))
{
    CHECK_INT(try(s, "k"), RL_NO_QUORUM);
    for (int i = 0; i < 3; i++)
        marker_is(s, i, MARKER_NEW);
    CHECK_INT(s->core.nodes[0].why, RL_WHY_NEW);
    CHECK_INT(sim_with(s, "k"), 0);
    waits_for_quarantine(s);
    CHECK_INT(marker_of(s, 0).observed_ms, GUARD_MS);
    sim_advance(s, 1);                       /* asked for their floors, and admitted */
    CHECK_INT(eligibility_left_ms(&s->core, s->now_ms), 0);
    CHECK_INT(try(s, "k"), RL_GRANTED);
    for (int i = 0; i < 3; i++)
        marker_is(s, i, MARKER_ADMITTED);
    sim_advance(s, 1000);                    /* nobody releases a dropped lease */
}

SIM_TEST(a_restarted_server_is_out_for_the_guard_time, restarted())
{
    CHECK_INT(guard_of(s, 0), RL_GUARD_QUARANTINED);
    says(s, GUARD_MS - 10, RL_GUARDED);
    sim_restart(s, 0);                       /* once more: from the beginning */
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    votes_in(s, GUARD_MS);
    sim_advance(s, 2000);
}

/* A restart after which the marker of the former life comes back, as from a file; who
 * connects while that is loaded cannot ask for it. */
static void restart_loading(struct sim *s, int i)
{
    char marker[MARKER_MAX];
    memcpy(marker, s->server[i].marker, sizeof(marker));
    sim_restart(s, i);
    s->server[i].loading = 1;
    CHECK_INT(code_of(s, i), RL_LOADING);
    s->server[i].loading = 0;
    memcpy(s->server[i].marker, marker, sizeof(marker));
}

SIM_TEST(a_marker_that_was_loaded_is_not_believed, sim_admitted(3, MAX_LEASE_MS))
{
    restart_loading(s, 0);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    says(s, 1000, RL_GUARDED);               /* asked once a second to replace it */
    votes_in(s, GUARD_MS);
    sim_advance(s, 2000);
}

/* Nor is a nonce that was seen for long enough before. */
SIM_TEST(a_nonce_that_was_loaded_is_not_believed, restarted())
{
    sim_advance(s, GUARD_MS + 10);
    restart_loading(s, 0);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    says(s, 1000, RL_GUARDED);
    votes_in(s, GUARD_MS);
    sim_advance(s, 2000);
}

/* A server that is busy with a script does not even say which run of it this is. */
SIM_TEST(who_is_busy_is_asked_again, sim_admitted(3, MAX_LEASE_MS))
{
    char marker[MARKER_MAX];
    memcpy(marker, s->server[0].marker, sizeof(marker));
    s->server[0].info = "-BUSY Redis is busy running a script.\r\n";
    sim_restart(s, 0);
    memcpy(s->server[0].marker, marker, sizeof(marker));
    CHECK_INT(code_of(s, 0), RL_LOADING);
    CHECK(strstr(s->core.nodes[0].text, "BUSY") != NULL);
    s->server[0].info = NULL;
    says(s, 2000, RL_GUARDED);
}

/* A server that was admitted without floors, and one in quarantine: the first can be taught when
 * the other's quarantine has ended, too. Then that takes a while. */
SIM_TEST(fenced_locks_wait_for_who_can_be_taught, sim_admitted(3, MAX_LEASE_MS))
{
    sim_fence(s);
    quarantined_by_others(s, 1, MAX_LEASE_MS);
    s->server[0].say[SIM_FENCED_ACQUIRE] = "*2\r\n:-2\r\n:0\r\n";
    CHECK_INT(try(s, "k"), RL_NO_QUORUM);
    waits_for_quarantine(s);
    marker_is(s, 1, MARKER_ADMITTED);
    CHECK_INT(eligibility_left_ms(&s->core, s->now_ms), 0);
    s->server[1].say[SIM_FENCED_ACQUIRE] = s->server[0].say[SIM_FENCED_ACQUIRE];
    CHECK_INT(try(s, "k"), RL_NO_QUORUM);
    CHECK_INT(eligibility_left_ms(&s->core, s->now_ms), 250);
    sim_advance(s, 5000);
    CHECK_INT(eligibility_left_ms(&s->core, s->now_ms), 0);
    s->server[1].refuses = 1;
    sim_cut(s, 1);
    CHECK_INT(eligibility_left_ms(&s->core, s->now_ms), -1);       /* one alone learns nothing */
    s->server[0].say[SIM_FENCED_ACQUIRE] = NULL;
    CHECK_INT(try(s, "k"), RL_GRANTED);
    CHECK_INT(eligibility_left_ms(&s->core, s->now_ms), 0);
}

/* What was healed to it in the quarantine is lost by the second flush. */
SIM_TEST(a_flush_in_the_quarantine_begins_it_anew, sim_admitted(3, MAX_LEASE_MS))
{
    s->server[0].marker[0] = '\0';
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    marker_is(s, 0, MARKER_LOST);
    sim_advance(s, GUARD_MS - 10);
    s->server[0].marker[0] = '\0';
    says(s, 20, RL_GUARDED);
    marker_is(s, 0, MARKER_LOST);
    votes_in(s, GUARD_MS);
    sim_advance(s, 2000);
}

/* A connection that broke is no reason to count from the beginning, another server is. */
SIM_TEST(a_quarantine_outlives_connections, restarted())
{
    sim_advance(s, GUARD_MS / 2);
    sim_cut(s, 0);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    votes_in(s, GUARD_MS - GUARD_MS / 2);
    sim_advance(s, 2000);
}

SIM_TEST(others_may_admit_it, restarted())
{
    struct marker theirs = marker_of(s, 0);
    theirs.state = MARKER_ADMITTED;
    theirs.observed_ms = 0;
    sim_set_marker(s, 0, &theirs);
    CHECK_INT(code_of(s, 0), RL_OK);         /* found, and asked again, in one attempt */
    CHECK_INT(guard_of(s, 0), RL_GUARD_ADMITTED);
    sim_advance(s, 2000);
}

/* Another client's nonce is as good as ours, from when we saw it. */
SIM_TEST(counts_from_its_own_first_look, sim_admitted(3, MAX_LEASE_MS))
{
    sim_restart(s, 0);
    quarantined_by_others(s, 0, MAX_LEASE_MS);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    CHECK(is_theirs(s, 0));
    votes_in(s, GUARD_MS);
    sim_advance(s, 2000);
}

static void clients_must_agree_on_max_lease(void)
{
    for (int theirs_ms = MAX_LEASE_MS / 2; theirs_ms <= 2 * MAX_LEASE_MS;
         theirs_ms += 3 * MAX_LEASE_MS / 2) {
        struct sim *s = sim_admitted(3, MAX_LEASE_MS);
        for (int i = 0; i < 2; i++)
            admitted_by_others(s, i, theirs_ms);
        CHECK_INT(try(s, "k"), RL_CONFIG);
        CHECK_INT(s->core.nodes[0].why, RL_WHY_OTHER_MAX_LEASE);
        CHECK_INT(info_of(s, 0).marker_max_lease_ms, theirs_ms);
        CHECK_INT(eligibility_left_ms(&s->core, s->now_ms), -1);
        /* It admits nobody, though the third has lost its memory long ago. */
        sim_restart(s, 2);
        CHECK_INT(try(s, "k"), RL_CONFIG);
        sim_advance(s, 4 * GUARD_MS);
        CHECK_INT(try(s, "k"), RL_CONFIG);
        marker_is(s, 2, MARKER_LOST);
        sim_finish(s);
    }
}

/* One that disagrees is enough: it may be the only one that still remembers. */
SIM_TEST(who_disagrees_with_one_admits_nobody, sim_admitted(3, MAX_LEASE_MS))
{
    admitted_by_others(s, 0, 2 * MAX_LEASE_MS);
    sim_restart(s, 2);
    code_of(s, 0);
    code_of(s, 2);
    s->server[0].refuses = 1;                /* nor when it is gone again */
    sim_advance(s, 2000);
    sim_cut(s, 0);
    sim_advance(s, 2 * GUARD_MS);
    for (int i = 0; i < 3; i++) {            /* it would be counted, asked for floors, admitted */
        CHECK_INT(code_of(s, 2), RL_GUARDED);
        sim_advance(s, 3000);
        marker_is(s, 2, MARKER_LOST);
    }
}

/* A flush that nobody saw, but for another client who has begun a quarantine since. */
SIM_TEST(another_nonce_is_another_quarantine, restarted())
{
    sim_advance(s, GUARD_MS - 100);
    quarantined_by_others(s, 0, MAX_LEASE_MS);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    votes_in(s, GUARD_MS);
}

/* A quarantine for shorter leases is none for ours. */
SIM_TEST(a_shorter_quarantine_is_superseded, sim_admitted(3, MAX_LEASE_MS))
{
    sim_restart(s, 0);
    quarantined_by_others(s, 0, MAX_LEASE_MS / 2);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    marker_is(s, 0, MARKER_LOST);
    quarantined_by_others(s, 0, MAX_LEASE_MS * 2);
    CHECK_INT(code_of(s, 0), RL_CONFIG);
    CHECK(is_theirs(s, 0));
}

/* As one that was deleted: somebody wrote another key over it. */
SIM_TEST(a_marker_of_another_type_begins_a_quarantine, sim_admitted(3, MAX_LEASE_MS))
{
    strcpy(s->server[0].marker, "#");
    sim_cut(s, 0);
    probe(s);                                /* reads the markers, and acquires nothing */
    CHECK_INT(guard_of(s, 0), RL_GUARD_QUARANTINED);
    marker_is(s, 0, MARKER_LOST);
    votes_in(s, GUARD_MS);
    sim_advance(s, 2000);
}

SIM_TEST(admission_needs_a_majority, brand_new(3))
{
    s->server[2].refuses = 1;
    try(s, "k");
    marker_is(s, 0, MARKER_NEW);
    marker_is(s, 1, MARKER_NEW);
    sim_leave(s, 1);
    sim_advance(s, 2 * GUARD_MS);
    CHECK_INT(try(s, "k"), RL_NO_QUORUM);
    sim_advance(s, 2000);
    CHECK_INT(try(s, "k"), RL_NO_QUORUM);
    CHECK_INT(marker_of(s, 0).observed_ms, GUARD_MS);
    marker_is(s, 0, MARKER_NEW);
    s->server[1].refuses = 0;
    sim_advance(s, 2000);
    try(s, "k");                             /* now the second is there again */
    sim_advance(s, 4000);                    /* the third says nothing of its floors */
    marker_is(s, 0, MARKER_ADMITTED);
}

SIM_TEST(a_quarantined_server_extends_heals_and_releases, sim_admitted(3, MAX_LEASE_MS))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    sim_restart(s, 0);
    sim_cut(s, 1);
    rl_round *extend = holder_extend(lease, 3000, s->now_ms);
    sim_advance(s, 200);
    CHECK_INT(sim_end(extend), RL_GRANTED);
    CHECK_INT(sim_mine(s, "k", lease), 7);   /* healed, without its consent to a vote */
    marker_is(s, 0, MARKER_LOST);
    s->server[2].keys = 0;
    CHECK_INT(sim_result(s, holder_extend(lease, 3000, s->now_ms)), RL_GRANTED);
    CHECK_INT(sim_result(s, holder_release(lease, s->now_ms)), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
}

/* ---- clocks ---- */

/* A step back frees nothing early: only who saw it counts no votes. */
SIM_TEST(a_step_back_silences_a_server, sim_admitted(3, MAX_LEASE_MS))
{
    rl_lease *lease = sim_hold(s, "k", 4900);
    sim_advance(s, 2500);
    s->server[0].wall_ms = -60000;
    sim_advance(s, 1100);                    /* looked at once a second */
    CHECK_INT(s->core.guards[0].steps, 1);
    int64_t error_ms = s->core.guards[0].step_ms + 60000;
    CHECK(error_ms > -50 && error_ms < 50);
    sim_clear_logs(s);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    CHECK_STR(s->server[0].log, "R");        /* not even asked */
    CHECK_INT(s->core.nodes[0].why, RL_WHY_CLOCK_STEPPED);
    CHECK_INT(info_of(s, 0).step_ms, s->core.guards[0].step_ms);
    CHECK_INT(sim_result(s, holder_extend(lease, 4000, s->now_ms)), RL_GRANTED);
    CHECK_STR(s->server[0].log, "RE");
    sim_let_go(s, lease);
    int64_t left_ms = s->core.guards[0].suspect_ms - s->now_ms;
    CHECK(left_ms > GUARD_MS - 1000 && left_ms <= GUARD_MS);
    sim_advance(s, left_ms - 10);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    marker_is(s, 0, MARKER_ADMITTED);
    CHECK_INT(s->server[0].marks, 0);
    sim_advance(s, 20);
    CHECK_INT(code_of(s, 0), RL_OK);
    sim_advance(s, 2000);
}

/* All clients: the marker says so. It extends what it has. */
SIM_TEST(a_step_ahead_begins_a_quarantine, sim_admitted(3, MAX_LEASE_MS))
{
    rl_lease *lease = sim_hold(s, "k", 4900);
    sim_advance(s, 2500);
    s->server[0].wall_ms = 60000;
    sim_advance(s, 2100);
    marker_is(s, 0, MARKER_STEPPED);
    CHECK_INT(marker_of(s, 0).inc[MARKER_HEX - 1], '1');        /* it has its memory */
    CHECK_INT(s->core.guards[0].suspect_ms, 0);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    CHECK_INT(s->core.nodes[0].why, RL_WHY_CLOCK_STEPPED);
    CHECK(info_of(s, 0).guard_left_ms > 0);
    sim_clear_logs(s);
    CHECK_INT(sim_result(s, holder_extend(lease, 4000, s->now_ms)), RL_GRANTED);
    CHECK_STR(s->server[0].log, "E");
    sim_let_go(s, lease);
    votes_in(s, s->server[0].began_ms + GUARD_MS - s->now_ms);
    CHECK_INT(marker_of(s, 0).inc[MARKER_HEX - 1], '1');
    sim_advance(s, 2000);
}

/* One server of three has freed the key: it is put back within a second, not at the next
 * renewal. */
SIM_TEST(a_step_hurries_the_watchdog, sim_admitted(3, MAX_LEASE_MS))
{
    rl_lease *lease = sim_hold(s, "k", MAX_LEASE_MS);
    watchdog_start(lease, MAX_LEASE_MS, 0, s->now_ms);
    int64_t deadline_ms = lease->deadline_ms;
    s->server[0].wall_ms = 60000;
    s->server[0].keys = 0;
    sim_advance(s, 1100);
    CHECK_INT(sim_mine(s, "k", lease), 7);
    CHECK(lease->deadline_ms > deadline_ms + 900);
    CHECK_INT(lease->lost, RL_NOT_LOST);
}

/* On a majority every lease ends earlier: it was freed, or our clock stood still. */
static void a_majority_that_steps_ends_leases(void)
{
    for (int ms = 1000; ms <= 60000; ms += 59000) {
        struct sim *s = sim_admitted(3, MAX_LEASE_MS);
        rl_lease *lease = sim_hold(s, "k", MAX_LEASE_MS);
        int64_t deadline_ms = lease->deadline_ms;
        for (int i = 0; i < 3; i++)
            s->server[i].wall_ms = ms;
        sim_advance(s, 1100);
        int64_t error_ms = lease->deadline_ms - (deadline_ms - ms);
        if (ms == 1000)
            CHECK(error_ms >= 0 && error_ms < 50);        /* once, not for each */
        else
            CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
        CHECK_INT(lease_remaining_ms(lease, s->now_ms) > 0, ms == 1000);
        sim_finish(s);
    }
}

/* Over a reconnection the clock is the same, after a restart it may be any. */
SIM_TEST(a_step_is_one_of_the_same_run, sim_admitted(3, MAX_LEASE_MS))
{
    sim_advance(s, 2000);
    sim_restart(s, 0);
    s->server[0].wall_ms = 60000;
    code_of(s, 0);
    CHECK_INT(s->core.guards[0].steps, 0);
    sim_advance(s, 2000);
    sim_cut(s, 0);
    s->server[0].wall_ms = 0;
    code_of(s, 0);
    CHECK_INT(s->core.guards[0].steps, 1);
}

/* TIME goes ahead of the acquire: a yes behind it does not count, and is released. */
SIM_TEST(a_step_is_found_by_the_acquire_itself, sim_admitted(3, MAX_LEASE_MS))
{
    sim_advance(s, 5000);
    s->server[0].wall_ms = s->server[1].wall_ms = 60000;
    sim_clear_logs(s);
    CHECK_INT(try(s, "k"), RL_NO_QUORUM);
    CHECK_STR(s->server[0].log, "AR");
    CHECK_INT(sim_with(s, "k"), 0);
}

SIM_TEST(without_a_lease_nothing_is_awaited, sim_admitted(3, MAX_LEASE_MS))
{
    sim_advance(s, 5000);
    CHECK_INT(core_due_ms(&s->core), INT64_MAX);
    CHECK(!core_timing(&s->core));
}

/* ---- servers that do not say who they are ---- */

SIM_TEST(without_info_the_marker_decides, sim_admitted(3, MAX_LEASE_MS))
{
    s->server[0].info = "-NOPERM this user has no permissions to run 'info'\r\n";
    sim_cut(s, 0);
    CHECK_INT(code_of(s, 0), RL_OK);         /* by whomever it was written */
    sim_advance(s, 2000);
    sim_restart(s, 0);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    CHECK_STR(marker_of(s, 0).replid, "");
    votes_in(s, GUARD_MS);
    CHECK_INT(marker_of(s, 0).state, MARKER_ADMITTED);
    CHECK_STR(marker_of(s, 0).replid, "");
    /* One who knows its life does not believe that. */
    s->server[0].info = NULL;
    sim_advance(s, 2000);
    sim_cut(s, 0);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    marker_is(s, 0, MARKER_LOST);
}

SUITE(guard, T(admitted_servers_vote_at_once), T(new_servers_vote_after_a_quarantine),
      T(a_restarted_server_is_out_for_the_guard_time),
      T(a_marker_that_was_loaded_is_not_believed),
      T(a_nonce_that_was_loaded_is_not_believed), T(who_is_busy_is_asked_again),
      T(fenced_locks_wait_for_who_can_be_taught),
      T(a_flush_in_the_quarantine_begins_it_anew),
      T(a_quarantine_outlives_connections), T(others_may_admit_it),
      T(counts_from_its_own_first_look), T(clients_must_agree_on_max_lease),
      T(who_disagrees_with_one_admits_nobody), T(another_nonce_is_another_quarantine),
      T(a_shorter_quarantine_is_superseded), T(admission_needs_a_majority),
      T(a_marker_of_another_type_begins_a_quarantine),
      T(a_quarantined_server_extends_heals_and_releases),
      T(a_step_back_silences_a_server), T(a_step_ahead_begins_a_quarantine),
      T(a_step_hurries_the_watchdog), T(a_majority_that_steps_ends_leases),
      T(a_step_is_one_of_the_same_run), T(a_step_is_found_by_the_acquire_itself),
      T(without_a_lease_nothing_is_awaited), T(without_info_the_marker_decides));
