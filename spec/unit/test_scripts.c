/* test_scripts.c - scripts that servers do not know, or not any more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- scripts that the server does not know (any more) ---- */

SIM_TEST(unknown_scripts_are_sent_in_full, sim_up(3))
{
    sim_flush_scripts(s);
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(3));
    sim_logs_are(s, "?a");
    sim_clear_logs(s);
    sim_acquire(s, "other", 5000, 1000);
    CHECK_INT(sim_release(s, h.lease), RL_GRANTED);
    sim_logs_are(s, "A?r");              /* acquire is loaded again, release was not */
}

/* A pipeline of requests for a script that is gone: each is answered. */
SIM_TEST(unknown_scripts_in_a_pipeline, sim_up(1))
{
    struct hold h[3];
    static const char *const names[] = {"a", "b", "c"};
    sim_flush_scripts(s);
    for (int k = 0; k < 3; k++)
        h[k] = sim_acquire(s, names[k], 5000, 1000);
    sim_run(s);
    CHECK_STR(s->server[0].log, "???aaa");
    for (int k = 0; k < 3; k++) {
        CHECK_INT(h[k].round->outcome, RL_GRANTED);
        sim_drop(s, &h[k]);
    }
}

/* The NOSCRIPT comes after the release was sent: the SET would come after it. */
SIM_TEST(unknown_script_of_a_lease_that_is_over, sim_up(1))
{
    sim_flush_scripts(s);
    s->server[0].holds = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    sim_run(s);
    rl_round *release = holder_release(h.lease, s->now_ms);
    CHECK_INT(h.round->outcome, RL_CANCELLED);
    s->server[0].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[0].log, "??r");
    CHECK_INT(sim_end(release), RL_EXPIRED);     /* nothing was there */
    sim_all_clean(s);
}

/* Healing a node that forgot its scripts is welcome while the lease lives ... */
SIM_TEST(unknown_script_of_a_living_lease, sim_up(3))
{
    memset(s->server[2].loaded, 0, SIM_SCRIPTS);
    s->server[2].holds = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    s->server[2].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[2].log, "?a");
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(3));
}

/* ... but not when its time is over, though nobody has said so yet: the key would stay
 * for a whole lease with no owner. */
SIM_TEST(unknown_script_after_the_deadline, sim_up(3))
{
    memset(s->server[2].loaded, 0, SIM_SCRIPTS);
    s->server[2].holds = 1;
    struct hold h = sim_acquire(s, "k", 300, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    sim_advance(s, 400);
    CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), 0);
    s->server[2].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[2].log, "?");
    CHECK_INT(sim_with(s, "k"), 0);
}

static void round_trips(struct sim *s, int n, int64_t ms)
{
    for (int k = 0; k < n; k++) {
        sim_clear_logs(s);
        sim_serve(s, 0);
        sim_execute(s, 0, SIM_LOG);
        sim_deliver(s, 0, SIZE_MAX);
        sim_skip(s, ms);
        sim_tick(s);
    }
}

/* A server, or something in front of it, that says NOSCRIPT to EVAL too. Each answer
 * must not make another request for ever. */
SIM_TEST(noscript_to_everything, sim_up(1))
{
    s->server[0].say[SIM_ACQUIRE] = s->server[0].say[SIM_RELEASE] = "-NOSCRIPT no\r\n";
    struct hold h = sim_acquire(s, "k", 1000, 500);
    const int64_t *requests = &s->core.nodes[0].stats.requests;
    int64_t before = *requests;
    round_trips(s, 30, 10);
    CHECK_INT(h.round->outcome, RL_NO_QUORUM);
    CHECK(*requests - before < 20);
    round_trips(s, 200, 10);
    CHECK(s->core.owing == NULL);        /* the lease is over, nobody is owed anything */
    before = *requests;
    round_trips(s, 30, 10);
    CHECK_INT(*requests, before);
}

/* ---- scripts ---- */

/* How many scripts of the server a node knows; all of them are on the server. */
static int count(const struct sim *s, int i)
{
    int n = 0;
    for (int k = 0; k < s->core.scripts.count; k++) {
        CHECK_INT(s->core.scripts.item[k]->at[i].loaded, s->server[i].loaded[k]);
        n += s->server[i].loaded[k];
    }
    return n;
}

SIM_TEST(same_script_same_number, sim_up(1))
{
    CHECK_INT(core_script(&s->core, "release", 7, s->now_ms), SIM_RELEASE);
    CHECK_INT(core_script(&s->core, "release ", 8, s->now_ms), SIM_SCRIPTS);
    CHECK_INT(core_script(&s->core, "rel\0ase", 7, s->now_ms), SIM_SCRIPTS + 1);
    CHECK_INT(core_script(&s->core, "", 0, s->now_ms), SIM_SCRIPTS + 2);
    sim_run(s);
    CHECK_INT(count(s, 0), SIM_SCRIPTS + 3);
    char body[16];
    for (int k = SIM_SCRIPTS + 3; k < SIM_MAX_SCRIPTS; k++) {
        int len = snprintf(body, sizeof(body), "script %d", k);
        CHECK_INT(core_script(&s->core, body, (size_t)len, s->now_ms), k);
    }
    CHECK_INT(core_script(&s->core, "acquire", 7, s->now_ms), SIM_ACQUIRE);
    sim_run(s);
    CHECK_INT(count(s, 0), SIM_MAX_SCRIPTS);
    struct scripts full = {.count = INT16_MAX, .item = calloc(INT16_MAX, sizeof(*full.item))};
    struct scripts before = s->core.scripts;
    REQUIRE(full.item != NULL);
    for (int k = 0; k < INT16_MAX; k++)
        full.item[k] = before.item[k % before.count];
    s->core.scripts = full;
    CHECK_INT(core_script(&s->core, "one more", 8, s->now_ms), -1);
    CHECK_INT(core_script(&s->core, "acquire", 7, s->now_ms), SIM_ACQUIRE);
    s->core.scripts = before;
    free(full.item);
}

/* A primitive that is first used while the connections are being made. */
SIM_TEST(script_during_the_handshake_is_loaded, sim_new(1))
{
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    sim_serve(s, 0);
    sim_open(s, 0);                      /* the handshake is written */
    CHECK_INT(s->core.nodes[0].state, NODE_HANDSHAKE);
    int late = core_script(&s->core, "late", 4, s->now_ms);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK(s->server[0].loaded[late] && s->core.scripts.item[late]->at[0].loaded);
}

SUITE(scripts, T(unknown_scripts_are_sent_in_full), T(unknown_scripts_in_a_pipeline),
      T(unknown_script_of_a_lease_that_is_over), T(unknown_script_of_a_living_lease),
      T(unknown_script_after_the_deadline), T(noscript_to_everything),
      T(same_script_same_number), T(script_during_the_handshake_is_loaded));
