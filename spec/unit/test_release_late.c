/* test_release_late.c - nothing is left behind: late grants and lost replies. */
#include "sim.h"

/* ---- grants that come when nobody wants them ---- */

SIM_TEST(late_grant_is_released_behind, sim_up(3))
{
    sim_put(s, 0, "k", 9000);
    sim_put(s, 1, "k", 9000);
    s->server[2].frozen = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_HELD);
    CHECK(s->core.owing == h.lease);
    CHECK_INT(h.lease->owed, bit(2));
    sim_advance(s, 700);
    s->server[2].frozen = 0;
    sim_run(s);
    CHECK_STR(s->server[2].log, "AR");
    CHECK_INT(s->server[2].opened, 1);   /* the same connection, hence the order */
    CHECK_INT(sim_with(s, "k"), bit(0) | bit(1));
    CHECK(s->core.owing == NULL);
}

SIM_TEST(timed_out_attempt_is_released, sim_up(5))
{
    sim_freeze(s, all_of(5));
    struct hold h = sim_acquire(s, "k", 5000, 100);
    CHECK_INT(sim_wait(s, h.round, 200), RL_NO_QUORUM);
    sim_drop(s, &h);                     /* the caller is gone as well */
    sim_freeze(s, 0);
    sim_run(s);
    sim_logs_are(s, "AR");
    sim_all_clean(s);
    CHECK_INT(sim_live(s), 0);
}

/* ---- replies that get lost ---- */

SIM_TEST(lost_reply_is_asked_for_again, sim_up(3))
{
    s->server[0].holds = 1;
    s->server[1].frozen = s->server[2].frozen = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    sim_advance(s, 50);
    sim_cut_after(s, 0);
    CHECK_INT(sim_with(s, "k"), bit(0));
    CHECK_INT(h.lease->broken, bit(0));
    /* For all we know it is executed only now. */
    CHECK_INT(h.lease->gone_ms, s->now_ms + 5000);
    CHECK_INT(h.round->slot[0].state, SLOT_WAITING);
    s->server[0].holds = 0;
    sim_run(s);
    /* It recognises its own value: a yes, though the server says "again". */
    CHECK_STR(s->server[0].log, "AA");
    CHECK_INT(h.round->slot[0].state, SLOT_ANSWERED);
    CHECK_INT(h.round->slot[0].vote, RL_VOTE_YES);
    s->server[1].frozen = 0;
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->deadline_ms, h.round->started_ms + sim_validity(5000, 0));
    s->server[2].frozen = 0;
    sim_run(s);
    sim_clear_logs(s);
    CHECK_INT(sim_release(s, h.lease), RL_GRANTED);
    CHECK_STR(s->server[0].log, "R");
    CHECK(s->core.owing == h.lease);     /* the first request may be executed late */
    sim_advance(s, SIM_TIMEOUT_MS);
    CHECK_STR(s->server[0].log, "RR");
    CHECK_STR(s->server[1].log, "R");
    sim_all_clean(s);
}

/* What was written to a frozen server is executed when it goes on: one release behind that
 * is enough. */
SIM_TEST(server_given_up_in_silence_is_sent_one_release, sim_up(3))
{
    s->server[2].frozen = 1;
    struct hold h = sim_acquire(s, "k", 60000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(sim_release(s, h.lease), RL_GRANTED);
    sim_advance(s, 8 * SIM_TIMEOUT_MS);
    CHECK_INT(h.lease->broken, bit(2));
    s->server[2].frozen = 0;
    sim_clear_logs(s);
    sim_advance(s, 20 * SIM_TIMEOUT_MS);
    CHECK_STR(s->server[2].log, "R");
    sim_all_clean(s);
    CHECK(s->core.owing == NULL);
}

/* Somebody waits for that one: it does not wait, and is not enough. */
SIM_TEST(release_that_is_awaited_is_sent_at_once_and_again, sim_up(1))
{
    s->server[0].frozen = 1;
    struct hold h = sim_acquire(s, "k", 60000, 1000);
    sim_run(s);
    sim_skip(s, 20 * SIM_TIMEOUT_MS);          /* this process stood still as well */
    rl_round *release = holder_release(h.lease, s->now_ms);
    sim_tick(s);
    CHECK_INT(h.lease->broken, bit(0));
    CHECK_INT(release->slot[0].state, SLOT_WAITING);
    s->server[0].frozen = 0;
    sim_run(s);
    CHECK_STR(s->server[0].log, "R");
    sim_advance(s, 20 * SIM_TIMEOUT_MS);
    CHECK_STR(s->server[0].log, "RR");
    sim_end(release);
}

SIM_TEST(asks_again_only_once, sim_up(1))
{
    s->server[0].holds = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    sim_cut_after(s, 0);
    sim_run(s);
    CHECK_INT(s->server[0].opened, 2);
    s->server[0].holds = 0;
    sim_deliver(s, 0, SIZE_MAX);         /* the handshake's answers */
    s->server[0].holds = 1;
    sim_run(s);
    CHECK_STR(s->server[0].log, "AA");
    CHECK_INT(h.round->slot[0].state, SLOT_SENT);
    sim_cut(s, 0);
    CHECK_INT(h.round->outcome, RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_REFUSED);
    s->server[0].holds = 0;
    sim_advance(s, 2000);
    CHECK_STR(s->server[0].log, "AARR");
    sim_all_clean(s);
}

/* What was not written cannot have been executed: it may be sent as often as need be,
 * and its own value cannot be there. */
SIM_TEST(unsent_requests_do_not_count_as_asked, sim_up(1))
{
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    for (int k = 0; k < 3; k++) {
        s->server[0].room = 0;
        CHECK_INT(h.lease->touched, bit(0));
        sim_cut(s, 0);
        CHECK_INT(h.round->slot[0].state, SLOT_WAITING);
        CHECK_INT(h.round->slot[0].resends, 0);
        CHECK_INT(h.lease->broken, 0);
        CHECK_INT(h.lease->touched, 0);
        s->server[0].room = SIZE_MAX;
        for (int turn = 0; turn < 200 && h.round->slot[0].state != SLOT_SENT; turn++) {
            sim_skip(s, 1);
            sim_tick(s);
            sim_serve(s, 0);
            sim_open(s, 0);
            sim_serve(s, 0);
            sim_execute(s, 0, SIM_LOG);
            sim_deliver(s, 0, SIZE_MAX);
        }
        CHECK_INT(h.round->slot[0].state, SLOT_SENT);
    }
    CHECK_STR(s->server[0].log, "");
    s->server[0].say[SIM_ACQUIRE] = ":2\r\n";
    sim_run(s);
    CHECK_INT(h.round->slot[0].code, RL_CONFIG);
    CHECK_INT(h.round->outcome, RL_CONFIG);
}

/* Nodes 1 and 2 may be one server under two addresses: 2 finds its value when it is asked
 * again, and 1 votes before that, or after. */
static int found_again(const char *info, int breaks, int later)
{
    struct sim *s = sim_up(3);
    for (int i = 0; i < 3; i++) {
        s->server[i].info = info;
        sim_cut(s, i);
    }
    rl_round *round = sim_ask(s, "nothing");
    sim_advance(s, 2 * NODE_STABLE_MS);
    CHECK_INT(sim_end(round), RL_GRANTED);
    sim_clear_logs(s);
    s->server[0].frozen = s->server[1].holds = s->server[2].holds = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    sim_run(s);
    sim_cut(s, 2);
    s->server[1].holds = later;
    sim_deliver(s, 1, SIZE_MAX);
    CHECK_INT(h.round->tally.yes, !later);
    if (breaks) {
        sim_leave(s, 1);
    }
    s->server[2].holds = 0;
    sim_run(s);
    s->server[1].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[2].log, "AA");
    int yes = h.round->tally.yes;
    CHECK_INT(h.round->slot[later ? 1 : 2].code, yes == 2 ? RL_OK : RL_TIMEOUT);
    CHECK_INT(sim_wait(s, h.round, 1000), yes == 2 ? RL_GRANTED : RL_NO_QUORUM);
    sim_finish(s);
    return yes;
}

static void a_server_that_may_have_voted_has_no_second_vote(void)
{
    CHECK_INT(found_again(NULL, 0, 0), 2);
    CHECK_INT(found_again(NULL, 0, 1), 2);
    CHECK_INT(found_again(NULL, 1, 0), 1);
    CHECK_INT(found_again("-NOPERM no INFO\r\n", 0, 0), 1);
    CHECK_INT(found_again("-NOPERM no INFO\r\n", 0, 1), 1);
}

SIM_TEST(half_written_counts_as_sent, sim_up(1))
{
    s->server[0].room = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    sim_run(s);
    sim_cut(s, 0);
    CHECK_INT(h.round->slot[0].resends, 1);
    CHECK_INT(h.lease->broken, bit(0));
    s->server[0].room = SIZE_MAX;
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_STR(s->server[0].log, "A");
}

/* The SET was executed, its answer is lost, the attempt fails: the key must be gone
 * within one reconnect. */
SIM_TEST(lost_grant_is_cleaned_after_reconnect, sim_up(3))
{
    sim_put(s, 1, "k", 9000);
    sim_put(s, 2, "k", 9000);
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    for (int i = 0; i < 3; i++) {
        sim_serve(s, i);
        sim_execute(s, i, 1);
        if (i > 0)
            sim_deliver(s, i, SIZE_MAX);
    }
    CHECK_INT(h.round->outcome, RL_HELD);
    sim_cut(s, 0);                       /* the release is not written yet */
    CHECK_INT(sim_mine(s, "k", h.lease), bit(0));
    CHECK_INT(h.lease->broken, bit(0));
    CHECK_INT(h.lease->owed & bit(0), bit(0));
    sim_drop(s, &h);
    sim_clear_logs(s);
    s->server[0].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[0].log, "R");
    CHECK_INT(sim_with(s, "k"), bit(1) | bit(2));
    sim_advance(s, SIM_TIMEOUT_MS);
    CHECK_STR(s->server[0].log, "RR");
    CHECK(s->core.owing == NULL);
    CHECK_INT(sim_live(s), 0);
}

/* The old connection's SET is executed even after the first release. */
SIM_TEST(straggler_is_released_by_the_second_one, sim_up(3))
{
    sim_put(s, 1, "k", 9000);
    sim_put(s, 2, "k", 9000);
    s->server[0].lingers = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    sim_serve(s, 0);
    sim_cut(s, 0);                       /* sent, not executed, and not forgotten */
    sim_serve(s, 0);
    s->server[0].hushed = 1;
    CHECK_INT(sim_outcome(s, h.round), RL_HELD);
    s->server[0].hushed = 0;
    sim_run(s);
    CHECK_STR(s->server[0].log, "R");
    sim_haunt(s, 0, 1);
    CHECK_STR(s->server[0].log, "RA");
    CHECK(sim_with(s, "k") & bit(0));
    sim_advance(s, SIM_TIMEOUT_MS);
    CHECK_STR(s->server[0].log, "RAR");
    CHECK(!(sim_with(s, "k") & bit(0)));
    CHECK(s->core.owing == NULL);
}

/* The second request was refused, but the first one may still be executed. */
SIM_TEST(refusal_does_not_excuse_a_straggler, sim_up(3))
{
    sim_put(s, 0, "k", 500);
    s->server[1].frozen = s->server[2].frozen = 1;
    s->server[0].lingers = 1;
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    sim_serve(s, 0);
    sim_cut(s, 0);
    sim_run(s);
    CHECK_STR(s->server[0].log, "A");
    CHECK_INT(h.round->slot[0].vote, RL_VOTE_ABSENT);
    sim_leave(s, 0);
    sim_advance(s, SIM_TIMEOUT_MS - 5);
    rl_round *ask = sim_ask(s, "x");     /* fails to connect: now it backs off */
    sim_run(s);
    CHECK_INT(s->core.nodes[0].state, NODE_DOWN);
    CHECK(sim_wait(s, h.round, 5) != RL_OK);
    sim_end(ask);
    CHECK_INT(h.lease->state, LEASE_OVER);
    CHECK(h.lease->owed & bit(0));
    sim_advance(s, 500);
    sim_haunt(s, 0, 1);
    CHECK_INT(sim_mine(s, "k", h.lease), bit(0));
    s->server[0].refuses = 0;
    sim_advance(s, 3000);
    CHECK_INT(sim_mine(s, "k", h.lease), 0);
}

/* A node that refused has nothing of ours: nobody runs after it. */
SIM_TEST(nothing_is_owed_to_who_refused, sim_up(3))
{
    sim_put(s, 0, "k", 90000);
    rl_lease *lease = sim_hold(s, "k", 9000);
    CHECK_INT(lease->touched, bit(1) | bit(2));
    sim_leave(s, 0);
    rl_round *ask = sim_ask(s, "k");     /* the first failure, and a back-off */
    sim_run(s);
    sim_end(ask);
    CHECK(s->core.nodes[0].retry_ms > s->now_ms);
    rl_round *round = holder_release(lease, s->now_ms);
    CHECK_INT(lease->owed, bit(1) | bit(2));
    CHECK_INT(sim_result(s, round), RL_GRANTED);
    CHECK(s->core.owing == NULL);
}

/* Nor to a node that was asked for nothing: one whose connection hangs is never paid. */
SIM_TEST(nothing_is_owed_to_who_was_not_asked, sim_up(3))
{
    sim_leave(s, 2);
    sim_run(s);
    s->server[2].refuses = 0;
    s->server[2].frozen = 1;
    sim_advance(s, 100);
    for (int k = 0; k < 20; k++) {
        struct hold h = sim_acquire(s, "k", 9000, 1000);
        CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
        CHECK_INT(s->core.nodes[2].state, NODE_HANDSHAKE);
        CHECK_INT(h.lease->touched, bit(0) | bit(1));
        CHECK_INT(sim_release(s, h.lease), RL_GRANTED);
        sim_drop(s, &h);
        CHECK(s->core.owing == NULL);
        CHECK_INT(sim_live(s), 0);
    }
}

/* The node has forgotten the acquire script; behind that, an extension is refused, and
 * behind that the acquire comes in full. The refusal is older than the grant. */
SIM_TEST(extension_refused_before_the_grant, sim_up(3))
{
    s->server[2].loaded[SIM_ACQUIRE] = 0;
    s->server[2].holds = 1;
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    rl_round *extend = holder_extend(h.lease, 9000, s->now_ms);
    CHECK_INT(sim_end(extend), RL_NOT_HELD);     /* not yet */
    sim_run(s);
    CHECK_INT(sim_result(s, holder_extend(h.lease, 9000, s->now_ms)), RL_GRANTED);
    s->server[2].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[2].log, "?EaA");         /* healed by the next extension */
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(3));
    sim_leave(s, 2);
    rl_round *ask = sim_ask(s, "k");
    sim_run(s);
    sim_end(ask);
    CHECK_INT(sim_result(s, holder_release(h.lease, s->now_ms)), RL_GRANTED);
    s->server[2].refuses = 0;
    sim_advance(s, 5000);
    sim_all_clean(s);
}

/* The release is sent twice where a write broke off; its votes are counted once. */
SIM_TEST(confirmed_twice_counts_once, sim_up(3))
{
    s->server[0].holds = 1;
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    sim_cut_after(s, 0);
    s->server[0].holds = 0;
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->broken, bit(0));
    sim_advance(s, NODE_STABLE_MS);
    for (int i = 1; i < 3; i++) {
        sim_cut(s, i);
        s->server[i].hushed = 1;         /* the round stays open */
    }
    rl_round *round = holder_release(h.lease, s->now_ms);
    sim_advance(s, 2 * SIM_TIMEOUT_MS);
    CHECK_STR(s->server[0].log, "AARR");
    CHECK_INT(round->outcome, RL_OK);
    CHECK_INT(round->tally.yes, 1);
    CHECK_INT(round->tally.pending, 2);
    s->server[1].hushed = s->server[2].hushed = 0;
    CHECK_INT(sim_result(s, round), RL_GRANTED);
    sim_all_clean(s);
}

/* A release whose answer is lost is sent again; that nothing is there then is no
 * proof that it had run out. */
SIM_TEST(lost_release_is_sent_again, sim_up(1))
{
    rl_lease *lease = sim_hold(s, "k", 5000);
    sim_clear_logs(s);
    s->server[0].holds = 1;
    rl_round *round = holder_release(lease, s->now_ms);
    sim_cut_after(s, 0);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(round->outcome, RL_OK);
    s->server[0].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[0].log, "RR");
    CHECK_INT(sim_end(round), RL_GRANTED);
    sim_all_clean(s);
}

/* The same where the answer was missing before the connection broke: another server lost
 * the key, and a third one is still to be connected. */
SIM_TEST(missing_release_is_sent_again, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 60000);
    sim_key(s, 0, "k")->name[0] = '-';
    s->server[1].hushed = 1;
    sim_cut(s, 1);
    s->server[2].holds = 1;
    rl_round *round = holder_release(lease, s->now_ms);
    sim_advance(s, SIM_TIMEOUT_MS);
    CHECK_INT(round->slot[2].state, SLOT_MISSING);
    sim_cut_after(s, 2);
    s->server[2].holds = 0;
    sim_advance(s, NODE_BACKOFF_MIN_MS * 2);
    CHECK_INT(sim_end(round), RL_GRANTED);
    s->server[1].hushed = 0;
    sim_heal(s);
    sim_advance(s, SIM_CONNECT_MS + 2 * NODE_BACKOFF_MAX_MS);
    sim_all_clean(s);
}

SUITE(release_late, T(missing_release_is_sent_again), T(late_grant_is_released_behind),
      T(timed_out_attempt_is_released), T(lost_reply_is_asked_for_again),
      T(server_given_up_in_silence_is_sent_one_release),
      T(release_that_is_awaited_is_sent_at_once_and_again), T(asks_again_only_once),
      T(unsent_requests_do_not_count_as_asked),
      T(a_server_that_may_have_voted_has_no_second_vote),
      T(half_written_counts_as_sent), T(lost_grant_is_cleaned_after_reconnect),
      T(straggler_is_released_by_the_second_one),
      T(refusal_does_not_excuse_a_straggler), T(nothing_is_owed_to_who_refused),
      T(nothing_is_owed_to_who_was_not_asked), T(extension_refused_before_the_grant),
      T(confirmed_twice_counts_once), T(lost_release_is_sent_again));
