/* test_delay.c - lock_delay: what was lost stays closed for so long, whatever is under way. */
#include "sim.h"

enum { DELAY_MS = 5000, LEASE_MS = 3000 };

enum how { STOPPED, KEPT, EXTENDED };

/* An extension is under way at the deadline, executed and not answered in time: because the
 * process was stopped, or the answers are late; the watchdog's, or the user's. */
static void an_extension_at_the_end(enum how how)
{
    struct sim *s = sim_up(3);
    s->core.lock_delay_ms = DELAY_MS;
    rl_lease *lease = how == EXTENDED ? sim_hold(s, "k", LEASE_MS) : sim_keep(s, "k", LEASE_MS);
    rl_round *extend = NULL;
    if (how == EXTENDED) {
        sim_advance(s, LEASE_MS - 100);
        extend = core_extend(lease, LEASE_MS, s->now_ms);
    } else {
        sim_skip(s, lease->renew_ms - s->now_ms);
        sim_tick(s);
        REQUIRE(lease->renewal != NULL);
    }
    sim_hold_answers(s, all_of(3));
    sim_run(s);
    CHECK_INT(sim_key(s, 0, "k")->until_ms, s->now_ms + LEASE_MS + DELAY_MS);
    int64_t over_ms = lease->deadline_ms + 10 - s->now_ms;
    if (how == STOPPED)
        sim_skip(s, over_ms);
    else
        sim_advance(s, over_ms);
    sim_hold_answers(s, 0);
    sim_run(s);
    sim_tick(s);
    sim_advance(s, 300);
    CHECK(core_lost_why(lease, s->now_ms) != 0);
    CHECK_INT(sim_with(s, "k"), all_of(3));
    if (extend)
        core_round_free(extend);
    core_lease_drop(lease, s->now_ms);
    sim_advance(s, 20000);
    sim_finish(s);
}

static void a_renewal_of_a_stopped_process(void)
{
    an_extension_at_the_end(STOPPED);
}

static void a_late_renewal(void)
{
    an_extension_at_the_end(KEPT);
}

static void a_late_extension(void)
{
    an_extension_at_the_end(EXTENDED);
}

/* Nothing is answered from some time on, and everything again after the loss. */
static void a_partition(void)
{
    for (int from = 0; from < LEASE_MS; from += 50) {
        struct sim *s = sim_up(3);
        test_note("from %d ms on", from);
        s->core.lock_delay_ms = DELAY_MS;
        rl_lease *lease = sim_keep(s, "k", LEASE_MS);
        sim_advance(s, from);
        int64_t cut_ms = s->now_ms;
        for (int i = 0; i < 3; i++)
            s->server[i].say[SIM_EXTEND] = "";
        sim_hold_answers(s, all_of(3));
        while (!core_lost_why(lease, s->now_ms) && s->now_ms < cut_ms + 2 * LEASE_MS)
            sim_advance(s, 1);
        CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
        sim_heal(s);
        sim_advance(s, 1500);
        CHECK_INT(sim_with(s, "k"), all_of(3));
        core_lease_drop(lease, s->now_ms);
        sim_advance(s, 20000);
        sim_finish(s);
    }
}

SUITE(delay, T(a_renewal_of_a_stopped_process), T(a_late_renewal), T(a_late_extension),
      T(a_partition));
