/* test_marked.c - what a marker says beside "admitted" and "in quarantine": other lives of
 * a server, versions, databases, and how far a quarantine is. */
#include "guard_fixture.h"

/* ---- other lives of a server ---- */

/* As by a failover, and back, while we were not connected: the memory is that of another
 * server, and older. */
SIM_TEST(another_life_is_a_restart, sim_admitted(3, MAX_LEASE_MS))
{
    sim_fail_over(s, 0);
    sim_cut(s, 0);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    marker_is(s, 0, MARKER_LOST);
    votes_in(s, GUARD_MS);
    marker_is(s, 0, MARKER_ADMITTED);
    sim_advance(s, 2000);
}

/* Looked at once a second, ahead of the acquire. */
SIM_TEST(another_life_is_found_while_connected, sim_admitted(3, MAX_LEASE_MS))
{
    sim_advance(s, 1100);
    sim_fail_over(s, 0);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    marker_is(s, 0, MARKER_LOST);
    votes_in(s, GUARD_MS);
    sim_advance(s, 2000);
}

/* Within that second where it has replicas, was one, or the connection says nothing of it. */
static void another_life_is_found_by_the_acquire(void)
{
    for (int k = 0; k < 3; k++) {
        struct sim *s = sim_admitted(3, MAX_LEASE_MS);
        test_note("%d", k);
        s->server[0].replicas = k == 0;
        s->server[0].promoted = k == 1;
        s->config[0].behind_proxy = k == 2;
        CHECK_INT(code_of(s, 0), RL_OK);
        sim_advance(s, 1100);
        CHECK_INT(code_of(s, 0), RL_OK);     /* looked at just now */
        sim_fail_over(s, 0);
        CHECK_INT(code_of(s, 0), RL_GUARDED);
        CHECK_INT(s->server[0].keys, 0);
        code_of(s, 0);
        marker_is(s, 0, MARKER_LOST);
        sim_advance(s, 2000);
        sim_finish(s);
    }
}

SIM_TEST(who_takes_no_writes_is_admitted_no_more, sim_admitted(3, MAX_LEASE_MS))
{
    CHECK_INT(code_of(s, 0), RL_OK);
    s->server[0].say[SIM_ACQUIRE] = "-READONLY You can't write against a read only replica.\r\n";
    s->server[0].replica = 1;
    CHECK_INT(code_of(s, 0), RL_READONLY);
    CHECK_INT(s->core.nodes[0].state, NODE_DOWN);
    CHECK_INT(s->core.nodes[0].why, RL_WHY_REPLICA);
    s->server[0].replica = 0;
    s->server[0].say[SIM_ACQUIRE] = NULL;
    sim_fail_over(s, 0);
    says(s, 2000, RL_GUARDED);
    sim_advance(s, 2000);
}

/* ---- markers of others ---- */

SIM_TEST(an_unknown_version_is_never_replaced, sim_admitted(3, MAX_LEASE_MS))
{
    strcpy(s->server[0].marker, "3f9c0a1b2c3d4e5f v5 what it says is anybody's guess");
    CHECK_INT(code_of(s, 0), RL_CONFIG);
    CHECK_INT(s->core.nodes[0].why, RL_WHY_OTHER_VERSION);
    CHECK_INT(info_of(s, 0).marker_version, 5);
    CHECK_INT(admit(s, 1, s->now_ms, 0), RL_GUARD_DISAGREES);
    says(s, 2 * GUARD_MS, RL_CONFIG);
    CHECK_INT(s->server[0].marks, 0);
    CHECK(strstr(s->server[0].marker, "guess") != NULL);
}

SIM_TEST(what_cannot_be_shown_is_replaced_once, sim_admitted(3, MAX_LEASE_MS))
{
    memset(s->server[0].marker, 'z', 200);
    s->server[0].marker[200] = '\0';
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    marker_is(s, 0, MARKER_LOST);
    CHECK_INT(s->server[0].marks, 2);        /* its digest had to be asked for */
    CHECK_INT(s->server[0].marked, 1);
    votes_in(s, GUARD_MS);
}

/* Who may not replace it, or is told something else each time, asks once a second. */
SIM_TEST(one_request_a_second, sim_admitted(3, MAX_LEASE_MS))
{
    s->server[0].stubborn = 1;
    s->server[0].marker[0] = '\0';
    for (int k = 0; k < 50; k++)
        CHECK_INT(code_of(s, 0), RL_GUARDED);
    CHECK_INT(s->server[0].marks, 1);
    int64_t began_ms = s->now_ms;
    for (int k = 0; k < 50; k++)
        says(s, 100, RL_GUARDED);
    CHECK(s->server[0].marks <= 1 + (s->now_ms - began_ms) / 1000);
    sim_advance(s, 2000);
}

SIM_TEST(another_database_is_named, sim_admitted(3, MAX_LEASE_MS))
{
    struct marker m = sim_marker(s, 0, MAX_LEASE_MS);
    m.db = 1;
    sim_set_marker(s, 0, &m);
    CHECK_INT(code_of(s, 0), RL_CONFIG);
    CHECK_INT(s->core.nodes[0].why, RL_WHY_OTHER_DATABASE);
    CHECK_INT(info_of(s, 0).marker_db, 1);
    CHECK_INT(s->server[0].marks, 0);
    CHECK_INT(admit(s, 1, s->now_ms, 0), RL_GUARD_ADMITTED);
    marker_is(s, 0, MARKER_ADMITTED);
}

/* ---- how far a quarantine is ---- */

static int64_t observed_ms(const struct sim *s, int i)
{
    struct marker m = marker_of(s, i);
    CHECK_INT(m.state, MARKER_LOST);
    return m.observed_ms;
}

/* What one client saw of it counts for the next, however short each of them lives. */
SIM_TEST(a_quarantine_goes_on_with_other_clients, restarted())
{
    sim_advance(s, 1000);
    guard_leave(&s->core, s->now_ms);
    sim_run(s);
    CHECK_INT(observed_ms(s, 0), 1000);
    guard_leave(&s->core, s->now_ms);        /* the same time is not counted twice */
    sim_run(s);
    CHECK_INT(observed_ms(s, 0), 1000);
    struct marker m = marker_of(s, 0);
    m.observed_ms = GUARD_MS - 1500;         /* by others, meanwhile */
    sim_set_marker(s, 0, &m);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    votes_in(s, 1500);
    sim_advance(s, 2000);
}

SIM_TEST(a_quarantine_is_noted_every_two_seconds, restarted())
{
    says(s, 1900, RL_GUARDED);
    CHECK_INT(observed_ms(s, 0), 0);
    says(s, 200, RL_GUARDED);
    int64_t first_ms = observed_ms(s, 0);
    CHECK(first_ms > 0 && first_ms <= 2100);
    says(s, 2100, RL_GUARDED);
    CHECK(observed_ms(s, 0) > first_ms && observed_ms(s, 0) <= 4200);
    sim_advance(s, 2000);
}

/* Another client was faster: what it has added is not added to again. */
SIM_TEST(no_time_is_counted_twice, restarted())
{
    sim_advance(s, 1500);
    struct marker m = marker_of(s, 0);
    m.observed_ms = 1500;
    sim_set_marker(s, 0, &m);
    guard_leave(&s->core, s->now_ms);
    sim_run(s);
    CHECK_INT(observed_ms(s, 0), 1500);
}

SUITE(marked, T(another_life_is_a_restart), T(another_life_is_found_while_connected),
      T(another_life_is_found_by_the_acquire), T(who_takes_no_writes_is_admitted_no_more),
      T(an_unknown_version_is_never_replaced), T(what_cannot_be_shown_is_replaced_once),
      T(one_request_a_second), T(another_database_is_named),
      T(a_quarantine_goes_on_with_other_clients),
      T(a_quarantine_is_noted_every_two_seconds), T(no_time_is_counted_twice));
