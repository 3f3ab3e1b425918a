/* test_extend.c - a lease grows only with a majority, in time, and never shrinks. */
#include "sim.h"

/* An extension that is waited for. Its outcome. */
static int extend(struct sim *s, rl_lease *lease, int64_t lease_ms)
{
    rl_round *round = holder_extend(lease, lease_ms, s->now_ms);
    REQUIRE(round != NULL);
    sim_wait(s, round, 5000);
    return sim_end(round);
}

static void extends_from_its_own_start(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 32};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct sim *s = sim_up(sizes[k]);
        test_note("n = %d", sizes[k]);
        rl_lease *lease = sim_hold(s, "k", 3000);
        sim_advance(s, 1000);
        sim_hold_answers(s, all_of(s->n));
        rl_round *round = holder_extend(lease, 3000, s->now_ms);
        int64_t t0 = s->now_ms;
        sim_advance(s, 50);
        CHECK_INT(round->outcome, RL_OK);
        sim_hold_answers(s, 0);
        CHECK_INT(sim_result(s, round), RL_GRANTED);
        CHECK_INT(lease->deadline_ms, t0 + sim_validity(3000, 0));
        for (int i = 0; i < s->n; i++)
            CHECK_INT(sim_key(s, i, "k")->until_ms, t0 + 3000);
        sim_finish(s);
    }
}

SIM_TEST(never_shortens, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 10000);
    int64_t deadline_ms = lease->deadline_ms;
    CHECK_INT(extend(s, lease, 500), RL_GRANTED);
    CHECK_INT(lease->deadline_ms, deadline_ms);
    CHECK_INT(sim_key(s, 0, "k")->until_ms, s->now_ms + 10000);
    CHECK_INT(extend(s, lease, 20000), RL_GRANTED);
    CHECK_INT(lease->deadline_ms, s->now_ms + sim_validity(20000, 0));
}

/* Two extensions at once: the longer one counts, whichever is answered last. */
SIM_TEST(overlapping_extensions, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    rl_round *longer = holder_extend(lease, 9000, s->now_ms);
    rl_round *shorter = holder_extend(lease, 2000, s->now_ms);
    CHECK_INT(sim_result(s, longer), RL_GRANTED);
    CHECK_INT(sim_end(shorter), RL_GRANTED);
    CHECK_INT(lease->deadline_ms, s->now_ms + sim_validity(9000, 0));
}

SIM_TEST(a_majority_is_enough, sim_up(5))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    s->server[0].frozen = 1;
    sim_leave(s, 1);
    CHECK_INT(extend(s, lease, 5000), RL_GRANTED);
    CHECK_INT(lease->deadline_ms, s->now_ms + sim_validity(5000, 0));
}

/* Without a majority the old validity stands; the next one may succeed. */
SIM_TEST(no_quorum_keeps_the_old_deadline, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    int64_t deadline_ms = lease->deadline_ms;
    s->server[0].frozen = s->server[1].frozen = 1;
    CHECK_INT(extend(s, lease, 5000), RL_NO_QUORUM);
    CHECK_INT(lease->deadline_ms, deadline_ms);
    CHECK_INT(lease->state, LEASE_HELD);
    CHECK(lease_remaining_ms(lease, s->now_ms) > 0);
    s->server[0].frozen = s->server[1].frozen = 0;
    sim_run(s);
    CHECK_INT(lease->deadline_ms, deadline_ms);  /* late answers change nothing */
    CHECK_INT(extend(s, lease, 5000), RL_GRANTED);
    CHECK(lease->deadline_ms > deadline_ms);
}

/* A tie is no majority: one node of two has lost the key. */
SIM_TEST(a_tie_is_no_majority, sim_up(2))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    int64_t deadline_ms = lease->deadline_ms;
    s->server[0].keys = 0;
    CHECK_INT(extend(s, lease, 5000), RL_NO_QUORUM);
    CHECK_INT(lease->deadline_ms, deadline_ms);
}

static void disown(int foreign, int absent)
{
    struct sim *s = sim_up(5);
    test_note("%d foreign, %d absent", foreign, absent);
    rl_lease *lease = sim_hold(s, "k", 3000);
    int64_t promised_ms = lease->deadline_ms;
    for (int i = 0; i < foreign + absent; i++)
        s->server[i].keys = 0;
    for (int i = 0; i < foreign; i++)
        sim_put(s, i, "k", 9000);
    sim_clear_logs(s);
    rl_round *round = holder_extend(lease, 5000, s->now_ms);
    for (int i = 0; i < foreign + absent; i++) {
        CHECK_INT(round->outcome, RL_OK);
        CHECK(lease_remaining_ms(lease, s->now_ms) > 0);
        sim_serve(s, i);
        sim_execute(s, i, 1);
        sim_deliver(s, i, SIZE_MAX);
    }
    CHECK_INT(round->outcome, RL_LOST);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    sim_run(s);
    /* What is left of it stays as long as it was said to be valid. */
    sim_advance(s, promised_ms - s->now_ms);
    CHECK_INT(sim_mine(s, "k", lease), all_of(5) & ~all_of(foreign + absent));
    CHECK_INT(extend(s, lease, 5000), RL_LOST);
    sim_logs_are(s, "E");
    sim_advance(s, 1);
    sim_logs_are(s, "ER");
    CHECK_INT(sim_mine(s, "k", lease), 0);
    CHECK_INT(sim_with(s, "k"), all_of(foreign));
    CHECK(s->core.owing == NULL);
    sim_end(round);
    CHECK_INT(extend(s, lease, 5000), RL_NOT_HELD);
    sim_finish(s);
}

static void lost_when_a_majority_disowns(void)
{
    disown(3, 0);
    disown(0, 3);
    disown(1, 2);
}

/* Two nodes have lost it, three answer: not lost yet, and not extended. */
SIM_TEST(a_minority_cannot_disown, sim_up(5))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    int64_t deadline_ms = lease->deadline_ms;
    s->server[0].keys = s->server[1].keys = 0;
    sim_leave(s, 2);
    CHECK_INT(extend(s, lease, 5000), RL_NO_QUORUM);
    CHECK_INT(lease->deadline_ms, deadline_ms);
    CHECK_INT(lease->state, LEASE_HELD);
}

/* One has lost it, one is down: the third one's word tells a lease that is lost from
 * one that stands. */
static void the_last_word(int lost)
{
    struct sim *s = sim_up(3);
    test_note("lost %d", lost);
    rl_lease *lease = sim_hold(s, "k", 3000);
    s->server[0].keys = 0;
    if (lost)
        s->server[2].keys = 0;
    sim_leave(s, 1);
    s->server[2].holds = 1;
    rl_round *round = holder_extend(lease, 5000, s->now_ms);
    sim_run(s);
    CHECK_INT(round->slot[0].state, SLOT_ANSWERED);
    CHECK_INT(round->slot[1].state, SLOT_MISSING);
    CHECK_INT(round->outcome, RL_OK);
    s->server[2].holds = 0;
    sim_run(s);
    CHECK_INT(sim_end(round), lost ? RL_LOST : RL_NO_QUORUM);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), lost ? 0 : sim_validity(3000, 0));
    sim_finish(s);
}

static void waits_to_know_who_disowns(void)
{
    the_last_word(0);
    the_last_word(1);
}

/* Nodes that lost the key get it again once a majority has confirmed the extension. */
SIM_TEST(heals_a_minority, sim_up(5))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    s->server[0].keys = s->server[1].keys = 0;
    CHECK_INT(extend(s, lease, 5000), RL_GRANTED);
    sim_run(s);
    CHECK_INT(sim_mine(s, "k", lease), all_of(5));
}

/* A node that was healed confirms the lease; one that refuses the heal does not. */
SIM_TEST(a_healed_node_confirms, sim_up(5))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    s->server[0].keys = s->server[1].keys = 0;
    rl_round *round = holder_extend(lease, 5000, s->now_ms);
    for (int i = 0; i < 5; i++)
        sim_pass(s, i);
    CHECK_INT(sim_end(round), RL_GRANTED);
    CHECK_INT(lease->confirmed, all_of(5) & ~all_of(2));
    sim_put(s, 1, "k", 3000);            /* somebody is faster than the heal */
    sim_run(s);
    CHECK_INT(sim_mine(s, "k", lease), all_of(5) & ~bit(1));
    CHECK_INT(lease->confirmed, all_of(5) & ~bit(1));
}

/* A node that forgot the script is sent its text although the others have granted the
 * extension: it may need healing. Not after the release. */
static void forgot_the_script(int released)
{
    struct sim *s = sim_up(3);
    test_note("released %d", released);
    rl_lease *lease = sim_hold(s, "k", 3000);
    rl_round *release = NULL;
    s->server[2].keys = 0;
    s->server[2].loaded[SIM_EXTEND] = 0;
    sim_clear_logs(s);
    rl_round *round = holder_extend(lease, 5000, s->now_ms);
    for (int i = 0; i < 3; i++)
        sim_serve(s, i);
    sim_pass(s, 0);
    sim_pass(s, 1);
    CHECK_INT(round->outcome, RL_GRANTED);
    if (released)
        release = holder_release(lease, s->now_ms);
    sim_run(s);
    CHECK_STR(s->server[2].log, released ? "?R" : "?eA");
    CHECK_INT(sim_mine(s, "k", lease), released ? 0 : all_of(3));
    sim_end(round);
    if (release)
        sim_end(release);
    sim_finish(s);
}

static void a_forgotten_script_is_sent_after_the_grant(void)
{
    forgot_the_script(0);
    forgot_the_script(1);
}

/* Without a majority nothing is made again, not even where it is missing. */
SIM_TEST(recreates_nothing, sim_up(5))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    s->server[0].keys = s->server[1].keys = s->server[2].keys = 0;
    CHECK_INT(extend(s, lease, 5000), RL_LOST);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), all_of(5) & ~all_of(3));
    round_free(holder_release(lease, s->now_ms));
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), 0);      /* he has heard of it */
}

SIM_TEST(after_the_deadline_nobody_is_asked, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_clear_logs(s);
    sim_advance(s, sim_validity(1000, 0) - 1);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 1);
    sim_advance(s, 1);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    CHECK_INT(sim_mine(s, "k", lease), all_of(3));       /* they would say yes */
    CHECK_INT(extend(s, lease, 5000), RL_LOST);
    sim_logs_are(s, "");
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
}

/* The majority's yes comes when the old validity is over: it must not come back. */
SIM_TEST(late_majority_is_lost, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_hold_answers(s, all_of(3));
    sim_advance(s, sim_validity(1000, 0) - 10);
    rl_round *round = holder_extend(lease, 5000, s->now_ms);
    sim_run(s);
    sim_skip(s, 10);
    sim_hold_answers(s, 0);
    sim_run(s);                          /* before the tick */
    CHECK_INT(sim_end(round), RL_LOST);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
    sim_advance(s, 1);
    CHECK_INT(sim_with(s, "k"), 0);      /* released: nobody waits for it to run out */
}

SIM_TEST(undecided_at_the_deadline_is_lost, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_hold_answers(s, all_of(3));
    sim_advance(s, sim_validity(1000, 0) - 10);
    rl_round *round = holder_extend(lease, 5000, s->now_ms);
    sim_advance(s, 9);
    CHECK_INT(round->outcome, RL_OK);
    sim_advance(s, 1);
    CHECK_INT(round->outcome, RL_LOST);
    sim_hold_answers(s, 0);
    CHECK_INT(sim_result(s, round), RL_LOST);
    sim_advance(s, 1);
    CHECK_INT(sim_with(s, "k"), 0);
}

/* The same of an orphan that has ended before, because servers' clocks were stepped. */
SIM_TEST(late_for_an_orphan, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_advance(s, sim_validity(1000, 0) - 10);
    for (int i = 0; i < 3; i++)
        sim_cut(s, i);
    round_free(holder_extend(lease, 5000, s->now_ms));
    holder_drop(lease, s->now_ms);
    watchdog_hurry(&s->core, 5, s->now_ms);
    sim_skip(s, 10);
    sim_tick(s);
    sim_advance(s, 5000);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(sim_live(s), 0);
}

SIM_TEST(not_held_in_other_states, sim_up(3))
{
    struct hold h = sim_acquire(s, "k", 1000, 1000);
    rl_round *early = holder_extend(h.lease, 5000, s->now_ms);
    CHECK_INT(sim_end(early), RL_NOT_HELD);
    sim_run(s);
    rl_round *release = holder_release(h.lease, s->now_ms);
    rl_round *late = holder_extend(h.lease, 5000, s->now_ms);
    CHECK_INT(sim_end(late), RL_NOT_HELD);
    CHECK_INT(sim_result(s, release), RL_GRANTED);
}

/* Released while an extension is in flight: no extension outlives the release. */
SIM_TEST(release_overtakes_an_extension, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_freeze(s, all_of(3));
    rl_round *round = holder_extend(lease, 5000, s->now_ms);
    rl_round *release = holder_release(lease, s->now_ms);
    sim_clear_logs(s);
    sim_freeze(s, 0);
    sim_run(s);
    sim_logs_are(s, "ER");
    CHECK_INT(sim_end(round), RL_NOT_HELD);
    CHECK_INT(sim_end(release), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(lease_remaining_ms(lease, s->now_ms), 0);
}

SIM_TEST(some_primitives_cannot, sim_up(3))
{
    s->primitive.extend = -1;
    rl_lease *lease = sim_hold(s, "k", 1000);
    CHECK_INT(extend(s, lease, 5000), RL_UNSUPPORTED);
    CHECK_INT(lease->state, LEASE_HELD);
}

/* A hung node gets no questions, but it gets the extension: it may still hold it. */
SIM_TEST(hung_nodes_are_extended_too, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    s->server[0].frozen = 1;
    rl_round *ask = sim_ask(s, "k");
    sim_advance(s, SIM_TIMEOUT_MS);
    CHECK(health_hung(&s->core.nodes[0], s->now_ms));
    sim_clear_logs(s);
    CHECK_INT(extend(s, lease, 5000), RL_GRANTED);
    s->server[0].frozen = 0;
    sim_run(s);
    CHECK_STR(s->server[0].log, "QE");
    sim_end(ask);
}

/* A broken connection under an extension: it is sent again. */
SIM_TEST(extension_survives_a_break, sim_up(1))
{
    rl_lease *lease = sim_hold(s, "k", 3000);
    s->server[0].holds = 1;
    rl_round *round = holder_extend(lease, 5000, s->now_ms);
    sim_cut_after(s, 0);
    s->server[0].holds = 0;
    CHECK_INT(sim_result(s, round), RL_GRANTED);
    CHECK_INT(lease->deadline_ms, s->now_ms + sim_validity(5000, 0));
}

/* What the servers keep longer by an extension is owed as long. */
SIM_TEST(clean_up_lasts_as_long_as_the_extension, sim_up(1))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    CHECK_INT(extend(s, lease, 20000), RL_GRANTED);
    CHECK_INT(extend(s, lease, 100), RL_GRANTED);        /* shortens nothing */
    sim_leave(s, 0);
    rl_round *release = holder_release(lease, s->now_ms);
    sim_advance(s, 15000);
    CHECK(s->core.owing == lease);
    s->server[0].refuses = 0;
    sim_advance(s, 4000);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK(s->core.owing == NULL);
    sim_end(release);
}

SUITE(extend, T(extends_from_its_own_start), T(never_shortens),
      T(overlapping_extensions), T(a_majority_is_enough),
      T(no_quorum_keeps_the_old_deadline), T(a_tie_is_no_majority),
      T(lost_when_a_majority_disowns), T(a_minority_cannot_disown),
      T(waits_to_know_who_disowns), T(heals_a_minority), T(a_healed_node_confirms),
      T(a_forgotten_script_is_sent_after_the_grant), T(recreates_nothing),
      T(after_the_deadline_nobody_is_asked), T(late_majority_is_lost),
      T(undecided_at_the_deadline_is_lost), T(late_for_an_orphan), T(not_held_in_other_states),
      T(release_overtakes_an_extension), T(some_primitives_cannot),
      T(hung_nodes_are_extended_too), T(extension_survives_a_break),
      T(clean_up_lasts_as_long_as_the_extension));
