/* test_delay.c - lock_delay: what was lost stays closed for so long, whatever is under way. */
#include "sim.h"

enum { DELAY_MS = 5000, LEASE_MS = 3000 };

enum how { STOPPED, KEPT, EXTENDED };

/* An extension is under way at the deadline, executed and not answered in time: because the
 * process was stopped, or the answers are late; the watchdog's, or the user's. */
static void an_extension_at_the_end(enum how how)
{
    struct sim *s = sim_up(3);
    s->core.options.lock_delay_ms = DELAY_MS;
    rl_lease *lease = how == EXTENDED ? sim_hold(s, "k", LEASE_MS) : sim_keep(s, "k", LEASE_MS);
    rl_round *extend = NULL;
    if (how == EXTENDED) {
        sim_advance(s, LEASE_MS - 100);
        extend = holder_extend(lease, LEASE_MS, s->now_ms);
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
    CHECK(watchdog_lost_why(lease, s->now_ms) != 0);
    CHECK_INT(sim_with(s, "k"), all_of(3));
    if (extend)
        round_free(extend);
    holder_drop(lease, s->now_ms);
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
        s->core.options.lock_delay_ms = DELAY_MS;
        rl_lease *lease = sim_keep(s, "k", LEASE_MS);
        sim_advance(s, from);
        int64_t cut_ms = s->now_ms;
        for (int i = 0; i < 3; i++)
            s->server[i].say[SIM_EXTEND] = "";
        sim_hold_answers(s, all_of(3));
        while (!watchdog_lost_why(lease, s->now_ms) && s->now_ms < cut_ms + 2 * LEASE_MS)
            sim_advance(s, 1);
        CHECK_INT(lease->lost, RL_LOSS_EXPIRED);
        sim_heal(s);
        sim_advance(s, 1500);
        CHECK_INT(sim_with(s, "k"), all_of(3));
        holder_drop(lease, s->now_ms);
        sim_advance(s, 20000);
        sim_finish(s);
    }
}

/* ---- what a holder does who was lost ---- */

enum loss { RAN_OUT, RAN_OUT_UNSEEN, NOT_RENEWED, REACHED_ITS_BOUND, DISOWNED, LOSSES };

/* A lease that is lost; servers 0 and 1, or all but those that forgot, have its key for the
 * delay. until_ms: so long at least. */
static rl_lease *lost(struct sim *s, enum loss how, uint32_t *with, int64_t *until_ms)
{
    rl_lease *lease = how == RAN_OUT || how == RAN_OUT_UNSEEN ? sim_hold(s, "k", LEASE_MS)
                                                              : sim_keep(s, "k", LEASE_MS);
    *with = all_of(3);
    if (how == REACHED_ITS_BOUND)
        watchdog_start(lease, LEASE_MS, 100, s->now_ms);
    if (how == NOT_RENEWED) {
        for (int i = 0; i < 3; i++)
            s->server[i].say[SIM_EXTEND] = "-ERR no\r\n";
    }
    if (how == DISOWNED) {
        s->server[1].keys = s->server[2].keys = 0;
        *with = 1;
        sim_advance(s, LEASE_MS / 2);      /* a renewal is told so */
    }
    *until_ms = how == DISOWNED ? lease->promised_ms : lease->deadline_ms + DELAY_MS;
    if (how == RAN_OUT_UNSEEN)
        sim_skip(s, lease->deadline_ms + 5 - s->now_ms);
    else if (how != DISOWNED)
        sim_advance(s, lease->deadline_ms + 5 - s->now_ms);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    return lease;
}

/* Nothing is let go before the delay is over, and all of it is gone some time after. */
static void stays_closed(struct sim *s, uint32_t with, int64_t until_ms)
{
    while (s->now_ms < until_ms - 5 && !test_failures()) {
        sim_advance(s, 100);
        if (s->now_ms < until_ms - 5)
            CHECK_INT(sim_with(s, "k") & with, with);
    }
    sim_advance(s, LEASE_MS + DELAY_MS);
    CHECK_INT(sim_with(s, "k"), 0);
}

static void each_loss(void (*then)(struct sim *s, rl_lease *lease))
{
    for (enum loss how = RAN_OUT; how < LOSSES; how++) {
        struct sim *s = sim_up(3);
        uint32_t with;
        int64_t until_ms;
        test_note("loss %d", how);
        s->core.options.lock_delay_ms = DELAY_MS;
        rl_lease *lease = lost(s, how, &with, &until_ms);
        then(s, lease);
        stays_closed(s, with, until_ms);
        sim_finish(s);
    }
}

static void let_go(struct sim *s, rl_lease *lease)
{
    CHECK_INT(sim_end(holder_release(lease, s->now_ms)), RL_EXPIRED);
    CHECK_INT(sim_end(holder_release(lease, s->now_ms)), RL_EXPIRED);
    holder_drop(lease, s->now_ms);
}

static void a_loser_lets_go(void)
{
    each_loss(let_go);
}

static void leave(struct sim *s, rl_lease *lease)
{
    close_begin(&s->core, s->now_ms);
    CHECK(s->core.held == NULL);
    holder_drop(lease, s->now_ms);
}

static void a_loser_leaves(void)
{
    each_loss(leave);
}

static void dropped(struct sim *s, rl_lease *lease)
{
    holder_drop(lease, s->now_ms);
}

static void collected(struct sim *s, rl_lease *lease)
{
    holder_orphan(lease, s->now_ms);
}

static void a_loser_is_gone(void)
{
    each_loss(dropped);
    each_loss(collected);
}

/* Its time is over, but nobody was told that it is his, or he has let it go in time. */
SIM_TEST(what_was_nobodys, sim_up(3))
{
    s->core.options.lock_delay_ms = DELAY_MS;
    rl_lease *lease = sim_hold(s, "k", LEASE_MS);
    sim_skip(s, LEASE_MS + 10);
    CHECK(watchdog_lost_why(lease, s->now_ms) != 0);
    holder_abandon(lease, s->now_ms);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), 0);
}

/* A release in time opens at once; so does leaving. */
SIM_TEST(who_lets_go_in_time, sim_up(3))
{
    s->core.options.lock_delay_ms = DELAY_MS;
    rl_lease *lease = sim_hold(s, "k", LEASE_MS);
    CHECK_INT(sim_result(s, holder_release(lease, s->now_ms)), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
    holder_drop(lease, s->now_ms);
    lease = sim_keep(s, "k", LEASE_MS);
    close_begin(&s->core, s->now_ms);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), 0);
}

/* What an export has taken is nobody's when it fails: also if it has no outcome yet, or one
 * that its caller does not hear of. */
static void a_failed_export(void)
{
    enum { REFUSED, DROPPED, CLOSED, UNHEARD, ENDS };
    for (int end = REFUSED; end < ENDS; end++) {
        struct sim *s = sim_up(3);
        test_note("end %d", end);
        s->core.options.lock_delay_ms = DELAY_MS;
        struct parcel p = sim_export(s, sim_hold(s, "k", LEASE_MS));
        p.once = 1;
        if (end == REFUSED)
            s->server[1].keys = s->server[2].keys = 0;
        struct hold h = sim_import(s, "k", &p, LEASE_MS);
        int64_t until_ms = s->now_ms + LEASE_MS + DELAY_MS;
        if (end == REFUSED || end == UNHEARD)
            CHECK_INT(sim_outcome(s, h.round), end == REFUSED ? RL_LOST : RL_GRANTED);
        if (end == CLOSED) {
            close_begin(&s->core, s->now_ms);
        } else if (end == UNHEARD) {
            holder_abandon(h.lease, s->now_ms);
            h.lease = NULL;
        }
        sim_drop(s, &h);
        sim_run(s);
        stays_closed(s, end == REFUSED ? 1 : all_of(3), until_ms);
        sim_finish(s);
    }
}

SUITE(delay, T(a_renewal_of_a_stopped_process), T(a_late_renewal), T(a_late_extension),
      T(a_partition), T(a_loser_lets_go), T(a_loser_leaves), T(a_loser_is_gone),
      T(what_was_nobodys), T(a_failed_export),
      T(who_lets_go_in_time));
