/* test_release_late.c - nothing is left behind: late grants, lost replies, broken
 * connections, forgotten scripts. */
#include <string.h>

#include "sim.h"

/* Nothing can be left, and nobody is asked any more. */
static void all_clean(struct sim *s)
{
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK(s->core.owing == NULL);
}

static int released(struct sim *s, rl_lease *lease)
{
    rl_round *round = release_begin(lease, s->now_ms);
    sim_run(s);
    return sim_end(round);
}

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
    sim_drop(s, &h);
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
    all_clean(s);
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
    CHECK_INT(h.lease->torn, bit(0));
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
    CHECK_INT(released(s, h.lease), RL_GRANTED);
    CHECK_STR(s->server[0].log, "R");
    CHECK(s->core.owing == h.lease);     /* the first request may be executed late */
    sim_advance(s, SIM_TIMEOUT_MS);
    CHECK_STR(s->server[0].log, "RR");
    CHECK_STR(s->server[1].log, "R");
    all_clean(s);
    sim_drop(s, &h);
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
    all_clean(s);
    sim_drop(s, &h);
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
        CHECK_INT(h.lease->torn, 0);
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
    sim_drop(s, &h);
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
    sim_drop(s, &h);
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
    CHECK_INT(h.lease->torn, bit(0));
    s->server[0].room = SIZE_MAX;
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_STR(s->server[0].log, "A");
    sim_drop(s, &h);
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
    CHECK_INT(h.lease->torn, bit(0));
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
    sim_drop(s, &h);
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
    sim_drop(s, &h);
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
    rl_round *round = release_begin(lease, s->now_ms);
    CHECK_INT(lease->owed, bit(1) | bit(2));
    CHECK_INT(sim_result(s, round), RL_GRANTED);
    CHECK(s->core.owing == NULL);
    lease_drop(lease, s->now_ms);
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
        CHECK_INT(released(s, h.lease), RL_GRANTED);
        sim_drop(s, &h);
        CHECK(s->core.owing == NULL);
        CHECK_INT(sim_live(s), 0);
    }
}

/* The node has forgotten the acquire script; behind that, an extension is refused, and
 * behind that the acquire comes in full. The refusal is older than the grant. */
SIM_TEST(extension_refused_before_the_grant, sim_up(3))
{
    s->server[2].loaded &= ~1ULL << SIM_ACQUIRE;
    s->server[2].holds = 1;
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    rl_round *extend = lease_extend(h.lease, 9000, s->now_ms);
    CHECK_INT(sim_end(extend), RL_NOT_HELD);     /* not yet */
    sim_run(s);
    CHECK_INT(sim_result(s, lease_extend(h.lease, 9000, s->now_ms)), RL_GRANTED);
    s->server[2].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[2].log, "?EaA");         /* healed by the next extension */
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(3));
    sim_leave(s, 2);
    rl_round *ask = sim_ask(s, "k");
    sim_run(s);
    sim_end(ask);
    CHECK_INT(sim_result(s, release_begin(h.lease, s->now_ms)), RL_GRANTED);
    s->server[2].refuses = 0;
    sim_advance(s, 5000);
    all_clean(s);
    sim_drop(s, &h);
}

/* The release is sent twice where a write broke off; its votes are counted once. */
SIM_TEST(confirmed_twice_counts_once, sim_up(3))
{
    s->server[0].holds = 1;
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    sim_cut_after(s, 0);
    s->server[0].holds = 0;
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->torn, bit(0));
    sim_advance(s, NODE_STABLE_MS);
    for (int i = 1; i < 3; i++) {
        sim_cut(s, i);
        s->server[i].hushed = 1;         /* the round stays open */
    }
    rl_round *round = release_begin(h.lease, s->now_ms);
    sim_advance(s, 2 * SIM_TIMEOUT_MS);
    CHECK_STR(s->server[0].log, "AARR");
    CHECK_INT(round->outcome, RL_OK);
    CHECK_INT(round->tally.yes, 1);
    CHECK_INT(round->tally.pending, 2);
    s->server[1].hushed = s->server[2].hushed = 0;
    CHECK_INT(sim_result(s, round), RL_GRANTED);
    all_clean(s);
    sim_drop(s, &h);
}

/* A release whose answer is lost is sent again; that nothing is there then is no
 * proof that it had run out. */
SIM_TEST(lost_release_is_sent_again, sim_up(1))
{
    rl_lease *lease = sim_hold(s, "k", 5000);
    sim_clear_logs(s);
    s->server[0].holds = 1;
    rl_round *round = release_begin(lease, s->now_ms);
    sim_cut_after(s, 0);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(round->outcome, RL_OK);
    s->server[0].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[0].log, "RR");
    CHECK_INT(sim_end(round), RL_GRANTED);
    all_clean(s);
    lease_drop(lease, s->now_ms);
}

/* ---- connections that break under several requests at once ---- */

/* A connection breaks at the very moment when the votes on it are due: the rounds end
 * while their requests are being taken off the queue. */
SIM_TEST(break_at_the_deadline, sim_up(1))
{
    s->server[0].frozen = 1;
    struct hold a = sim_acquire(s, "a", 5000, 1000);
    struct hold b = sim_acquire(s, "b", 5000, 1000);
    sim_run(s);
    sim_skip(s, SIM_TIMEOUT_MS);         /* no tick yet */
    sim_cut(s, 0);
    CHECK_INT(a.round->outcome, RL_NO_QUORUM);
    CHECK_INT(b.round->outcome, RL_NO_QUORUM);
    sim_drop(s, &a);
    sim_drop(s, &b);
    s->server[0].frozen = 0;
    sim_advance(s, 1000);
    CHECK(s->core.owing == NULL);
}

/* The same by way of a second break: with a long time-out a connection is stable before
 * the votes are due. */
SIM_TEST(second_break_of_a_stable_connection, sim_up(1))
{
    s->config[0].timeout_ms = 3000;
    s->server[0].frozen = 1;
    struct hold a = sim_acquire(s, "a", 9000, 9000);
    struct hold b = sim_acquire(s, "b", 9000, 9000);
    sim_run(s);
    sim_cut(s, 0);
    s->server[0].frozen = 0;
    sim_serve(s, 0);                     /* connect and shake hands, but no more */
    sim_open(s, 0);
    sim_serve(s, 0);
    sim_execute(s, 0, SIM_LOG);
    sim_deliver(s, 0, SIZE_MAX);
    s->server[0].frozen = 1;
    CHECK_INT(a.round->slot[0].resends, 1);
    sim_run(s);
    sim_skip(s, NODE_STABLE_MS);
    sim_cut(s, 0);
    CHECK_INT(a.round->outcome, RL_NO_QUORUM);
    CHECK_INT(b.round->outcome, RL_NO_QUORUM);
    sim_drop(s, &a);
    sim_drop(s, &b);
    s->server[0].frozen = 0;
    sim_advance(s, 10000);
    CHECK(s->core.owing == NULL);
}

/* Everything is under way on one connection when it breaks. */
SIM_TEST(break_under_everything, sim_up(3))
{
    rl_lease *held = sim_hold(s, "held", 5000);
    rl_lease *going = sim_hold(s, "going", 5000);
    s->server[0].frozen = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    rl_round *extend = lease_extend(held, 9000, s->now_ms);
    rl_round *release = release_begin(going, s->now_ms);
    rl_round *ask = sim_ask(s, "held");
    sim_run(s);
    sim_cut(s, 0);
    s->server[0].frozen = 0;
    sim_advance(s, 1000);
    CHECK_INT(sim_end(h.round), RL_GRANTED);
    CHECK_INT(sim_end(extend), RL_GRANTED);
    CHECK_INT(sim_end(release), RL_GRANTED);
    CHECK_INT(sim_end(ask), RL_GRANTED);
    CHECK_INT(sim_with(s, "going"), 0);
    CHECK(s->core.owing == NULL);
    lease_drop(h.lease, s->now_ms);
    lease_drop(held, s->now_ms);
    lease_drop(going, s->now_ms);
}

/* ---- scripts that the server does not know (any more) ---- */

SIM_TEST(unknown_scripts_are_sent_in_full, sim_up(3))
{
    sim_flush_scripts(s);
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(3));
    sim_logs_are(s, "?a");
    sim_clear_logs(s);
    struct hold other = sim_acquire(s, "other", 5000, 1000);
    CHECK_INT(released(s, h.lease), RL_GRANTED);
    sim_logs_are(s, "A?r");              /* acquire is loaded again, release was not */
    sim_drop(s, &h);
    sim_drop(s, &other);
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
    rl_round *release = release_begin(h.lease, s->now_ms);
    CHECK_INT(h.round->outcome, RL_CANCELLED);
    s->server[0].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[0].log, "??r");
    CHECK_INT(sim_end(release), RL_EXPIRED);     /* nothing was there */
    all_clean(s);
    sim_drop(s, &h);
}

/* Healing a node that forgot its scripts is welcome while the lease lives ... */
SIM_TEST(unknown_script_of_a_living_lease, sim_up(3))
{
    s->server[2].loaded = 0;
    s->server[2].holds = 1;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    s->server[2].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[2].log, "?a");
    CHECK_INT(sim_mine(s, "k", h.lease), all_of(3));
    sim_drop(s, &h);
}

/* ... but not when its time is over, though nobody has said so yet: the key would stay
 * for a whole lease with no owner. */
SIM_TEST(unknown_script_after_the_deadline, sim_up(3))
{
    s->server[2].loaded = 0;
    s->server[2].holds = 1;
    struct hold h = sim_acquire(s, "k", 300, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    sim_advance(s, 400);
    CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), 0);
    s->server[2].holds = 0;
    sim_run(s);
    CHECK_STR(s->server[2].log, "?");
    CHECK_INT(sim_with(s, "k"), 0);
    sim_drop(s, &h);
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
    sim_drop(s, &h);
}

/* ---- releases that fail ---- */

SIM_TEST(failing_release_is_retried_until_it_succeeds, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 5000);
    s->server[1].say[SIM_RELEASE] = "-BUSY Redis is busy running a script.\r\n";
    sim_clear_logs(s);
    CHECK_INT(released(s, lease), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), bit(1));
    CHECK_INT(lease->owed, bit(1));
    sim_advance(s, 1000);
    CHECK(s->server[1].logged >= 2 && s->server[1].logged <= 4);
    CHECK_STR(s->server[0].log, "R");
    s->server[1].say[SIM_RELEASE] = NULL;
    sim_advance(s, 2000);
    all_clean(s);
    lease_drop(lease, s->now_ms);
}

SIM_TEST(failing_release_is_forgotten_with_the_lease, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 5100);
    int64_t t0 = s->now_ms;
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_RELEASE] = "-BUSY Redis is busy running a script.\r\n";
    CHECK_INT(released(s, lease), RL_UNKNOWN);
    lease_drop(lease, s->now_ms);
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
    CHECK_INT(released(s, lease), RL_GRANTED);
    CHECK_INT(lease->owed, bit(2));
    lease_drop(lease, s->now_ms);
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
    CHECK_INT(released(s, lease), RL_GRANTED);
    lease_drop(lease, s->now_ms);
    sim_advance(s, 5000);
    CHECK_INT(sim_with(s, "k"), bit(2));
    s->server[2].refuses = 0;
    sim_advance(s, NODE_BACKOFF_MAX_MS * 3 / 2);
    all_clean(s);
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
    sim_drop(s, &b);
}

/* ---- a queue that is full ---- */

static void fill_queue(struct sim *s, int i, rl_round *owner)
{
    struct node *nd = &s->core.nodes[i];
    while (nd->queue_len < NODE_QUEUE_MAX) {
        REQUIRE(node_call(nd, SIM_ASK, owner->cmd, NULL, owner, s->now_ms) == 0);
        round_ref(owner);
        buf_take(&nd->out, buf_len(&nd->out));   /* swallowed: never answered */
    }
}

/* No room for the release at first, nor at its first retry. */
SIM_TEST(full_queue_delays_the_release, sim_up(3))
{
    s->config[0].connect_timeout_ms = 60000;     /* it is not given up */
    rl_lease *lease = sim_hold(s, "k", 30000);
    rl_round *owner = sim_ask(s, "x");
    sim_run(s);
    fill_queue(s, 0, owner);
    struct hold h = sim_acquire(s, "other", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.round->slot[0].code, RL_OVERLOAD);
    sim_drop(s, &h);
    CHECK_INT(released(s, lease), RL_GRANTED);
    CHECK_INT(lease->release->slot[0].code, RL_OVERLOAD);
    CHECK_INT(lease->owed, bit(0));
    sim_advance(s, 3000);
    CHECK_INT(sim_with(s, "k"), bit(0));
    /* Ten answers make room. */
    for (int k = 0; k < 10; k++)
        core_feed(&s->core, 0, ":1\r\n", 4, s->now_ms);
    sim_clear_logs(s);
    sim_advance(s, 3000);
    CHECK_STR(s->server[0].log, "R");
    CHECK_INT(sim_with(s, "k"), 0);
    round_free(owner);
    lease_drop(lease, s->now_ms);
    sim_cut(s, 0);                       /* the rest of the queue */
}

SUITE(release_late, T(late_grant_is_released_behind), T(timed_out_attempt_is_released),
      T(lost_reply_is_asked_for_again), T(asks_again_only_once),
      T(unsent_requests_do_not_count_as_asked),
      T(a_server_that_may_have_voted_has_no_second_vote), T(half_written_counts_as_sent),
      T(lost_grant_is_cleaned_after_reconnect),
      T(straggler_is_released_by_the_second_one),
      T(refusal_does_not_excuse_a_straggler), T(nothing_is_owed_to_who_refused),
      T(nothing_is_owed_to_who_was_not_asked),
      T(extension_refused_before_the_grant), T(confirmed_twice_counts_once),
      T(lost_release_is_sent_again), T(break_at_the_deadline),
      T(second_break_of_a_stable_connection), T(break_under_everything),
      T(unknown_scripts_are_sent_in_full), T(unknown_scripts_in_a_pipeline),
      T(unknown_script_of_a_lease_that_is_over), T(unknown_script_of_a_living_lease),
      T(unknown_script_after_the_deadline), T(noscript_to_everything),
      T(failing_release_is_retried_until_it_succeeds),
      T(failing_release_is_forgotten_with_the_lease),
      T(unreachable_node_is_forgotten_with_the_lease), T(returning_node_is_cleaned),
      T(debts_are_paid_before_new_attempts), T(full_queue_delays_the_release));
