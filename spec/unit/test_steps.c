/* test_steps.c - clocks of a majority that are stepped forward, or our own that stood still:
 * keys end earlier, and nothing may be valid for longer than they last. */
#include "core/eligibility/guard.h"
#include "sim.h"

enum { STEP_MS = 20000, LEASE_MS = 30000, MAX_LEASE_MS = 60000 };

static void step_server(struct sim *s, int i, int64_t ms)
{
    s->server[i].wall_ms += ms;
    for (int k = 0; k < s->server[i].keys; k++)
        s->server[i].key[k].until_ms -= ms;
}

static void end(struct sim *s, rl_lease *lease)
{
    round_free(holder_release(lease, s->now_ms));
    holder_drop(lease, s->now_ms);
    sim_finish(s);
}

/* The step shows while the confirmation of an acquire is under way. */
SIM_TEST(before_a_confirmation, sim_admitted(3, MAX_LEASE_MS))
{
    rl_lease *other = sim_hold(s, "other", 50000);
    s->core.marker = NULL;             /* the scripted servers know no guarded fenced calls */
    sim_fence(s);
    s->server[0].counter = 5;
    sim_leave(s, 2);
    sim_advance(s, 1500);
    int64_t looked_ms = s->core.nodes[0].looked_ms;
    if (s->core.nodes[1].looked_ms > looked_ms)
        looked_ms = s->core.nodes[1].looked_ms;
    sim_skip(s, looked_ms + 998 - s->now_ms);
    struct hold h = sim_acquire(s, "k", LEASE_MS, 1000);
    sim_pass(s, 0);
    sim_pass(s, 1);
    CHECK_INT(h.round->outcome, RL_OK);             /* 6 and 1 */
    step_server(s, 0, STEP_MS);
    step_server(s, 1, STEP_MS);
    int64_t until_ms = sim_key(s, 0, "k")->until_ms;
    sim_skip(s, 3);
    rl_round *extend = holder_extend(other, 50000, s->now_ms);    /* brings TIME of both */
    sim_pass(s, 0);
    sim_tick(s);                                    /* the confirmation, to 1 */
    sim_pass(s, 1);
    sim_run(s);
    CHECK_INT(s->core.guards[0].steps + s->core.guards[1].steps, 2);
    CHECK_INT(h.round->outcome, RL_GRANTED);
    CHECK(h.lease->deadline_ms <= until_ms);
    round_free(extend);
    holder_drop(other, s->now_ms);
    sim_drop(s, &h);
}

/* An extension: yes, an error, and a yes that comes after the step showed. */
static void before_the_last_vote(void)
{
    struct sim *s = sim_admitted(3, MAX_LEASE_MS);
    rl_lease *lease = sim_hold(s, "k", LEASE_MS);
    sim_advance(s, 1500);
    sim_skip(s, s->core.nodes[0].looked_ms + 900 - s->now_ms);
    s->server[1].say[SIM_EXTEND] = "-BUSY\r\n";
    rl_round *extend = holder_extend(lease, LEASE_MS, s->now_ms);
    sim_pass(s, 0);
    sim_pass(s, 1);
    sim_hold_answers(s, bit(2));
    sim_serve(s, 2);
    sim_execute(s, 2, SIM_LOG);
    for (int i = 0; i < 3; i++)
        step_server(s, i, STEP_MS);
    int64_t until_ms = sim_key(s, 0, "k")->until_ms;
    sim_advance(s, 150);                            /* the health tick */
    CHECK(lease->deadline_ms <= until_ms);
    sim_hold_answers(s, 0);
    CHECK_INT(sim_outcome(s, extend), RL_GRANTED);
    CHECK(lease->deadline_ms <= until_ms);
    round_free(extend);
    end(s, lease);
}

/* One server frees the key while a renewal is under way that it has answered: the next one
 * puts it back at once. */
static void during_a_renewal(void)
{
    struct sim *s = sim_admitted(3, MAX_LEASE_MS);
    rl_lease *lease = sim_keep(s, "k", LEASE_MS);
    sim_advance(s, lease->renew_ms - s->now_ms - 1);
    int64_t due_ms = s->core.nodes[0].looked_ms + 1000;
    sim_skip(s, 1);
    sim_tick(s);
    REQUIRE(lease->renewal != NULL);
    sim_hold_answers(s, bit(1) | bit(2));
    sim_run(s);                                     /* 0 has answered */
    s->server[0].wall_ms = MAX_LEASE_MS;
    s->server[0].keys = 0;
    sim_advance(s, due_ms - s->now_ms + 1050);
    CHECK_INT(s->core.guards[0].steps, 1);
    REQUIRE(lease->renewal != NULL);
    sim_hold_answers(s, 0);
    sim_run(s);
    CHECK(lease->renewal == NULL);
    sim_advance(s, 1100);
    CHECK_INT(sim_mine(s, "k", lease), all_of(3));
    end(s, lease);
}

static void twice(void)
{
    static const int gaps_ms[] = {1100, 1500, 1900, 2500, 3500};
    for (int k = 0; k < 5; k++) {
        struct sim *s = sim_admitted(3, MAX_LEASE_MS);
        test_note("%d ms apart", gaps_ms[k]);
        rl_lease *lease = sim_hold(s, "k", MAX_LEASE_MS);
        for (int step = 0; step < 2; step++) {
            for (int i = 0; i < 3; i++)
                step_server(s, i, 10000);
            sim_advance(s, step ? 1100 : gaps_ms[k]);
        }
        CHECK(lease->deadline_ms <= sim_key(s, 0, "k")->until_ms);
        end(s, lease);
    }
}

/* One after the other, within a lease; and once more when no lease of before is left. */
static void one_by_one(void)
{
    struct sim *s = sim_admitted(3, MAX_LEASE_MS);
    rl_lease *lease = sim_hold(s, "k", MAX_LEASE_MS);
    for (int i = 0; i < 2; i++) {
        step_server(s, i, 10000);
        sim_advance(s, 8000);
    }
    CHECK(lease->deadline_ms <= sim_key(s, 0, "k")->until_ms);
    round_free(holder_release(lease, s->now_ms));
    holder_drop(lease, s->now_ms);
    sim_advance(s, 2 * MAX_LEASE_MS);
    lease = sim_hold(s, "k", LEASE_MS);
    int64_t deadline_ms = lease->deadline_ms;
    step_server(s, 2, 10000);
    sim_advance(s, 3000);
    CHECK_INT(lease->deadline_ms, deadline_ms);     /* two of three have it as long as that */
    end(s, lease);
}

SUITE(steps, T(before_a_confirmation), T(before_the_last_vote), T(during_a_renewal), T(twice),
      T(one_by_one));
