/* test_connection.c - connections that break or are full, or lead to servers that cannot vote. */
#include <string.h>

#include "core/eligibility/guard.h"
#include "sim.h"

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
    rl_round *extend = holder_extend(held, 9000, s->now_ms);
    rl_round *release = holder_release(going, s->now_ms);
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
    holder_drop(h.lease, s->now_ms);
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
    CHECK_INT(sim_release(s, lease), RL_GRANTED);
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
    holder_drop(lease, s->now_ms);
    sim_cut(s, 0);                       /* the rest of the queue */
}

/* ---- bounds ---- */

SIM_TEST(too_much_debt_is_forgone, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 1000);
    sim_leave(s, 0);
    s->core.owing_len += OWING_MAX;
    round_free(holder_release(lease, s->now_ms));
    holder_drop(lease, s->now_ms);
    CHECK_INT(s->core.forgone, 1);
    CHECK(s->core.owing == NULL);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), 1);          /* where it could not be sent */
    s->core.owing_len -= OWING_MAX;
    CHECK_INT(s->core.owing_len, 0);
}

/* A hundred thousand refusals in a row: less than two attempts a second, and no more
 * memory than for one. */
SIM_TEST(endless_refusals_are_bounded, sim_up(3))
{
    int refusals = test_runs(100000), before = sim_live(s);
    sim_leave(s, 0);
    int64_t from = s->core.nodes[0].stats.disconnects, since_ms = s->now_ms;
    while (s->core.nodes[0].stats.disconnects - from < refusals) {
        sim_clear_logs(s);
        CHECK_INT(try(s, "k"), RL_GRANTED);  /* the others are not affected */
        sim_advance(s, 1000);
    }
    CHECK((s->now_ms - since_ms) / 500 > refusals);
    CHECK(sim_live(s) <= before + 4);
    CHECK_INT(s->core.owing_len, 0);
}

/* ---- servers that are not what they should be ---- */

SIM_TEST(twins_are_refused_by_name, sim_new(3))
{
    s->config[0].label = (char *)"redis://a";
    s->config[1].label = (char *)"redis://b";
    strcpy(s->server[1].run_id, s->server[0].run_id);
    CHECK_INT(try(s, "k"), RL_GRANTED);      /* the other two are a majority */
    CHECK_INT(s->core.nodes[1].state, NODE_DOWN);
    CHECK_INT(s->core.nodes[1].code, RL_CONFIG);
    CHECK_INT(s->core.nodes[1].why, RL_WHY_TWIN);
    CHECK_INT(guard_twin(&s->core, 1), 0);
    CHECK_STR(s->server[1].log, "");
    sim_leave(s, 2);
    CHECK_INT(try(s, "j"), RL_CONFIG);
}

/* The lock was taken through node 1, and its release goes through node 2. */
SIM_TEST(a_twin_pays_for_the_other, sim_new(3))
{
    strcpy(s->server[2].run_id, s->server[1].run_id);
    s->server[2].refuses = 1;
    struct hold h = sim_acquire(s, "k", 20000, 1000);
    sim_run(s);
    CHECK_INT(h.round->outcome, RL_GRANTED);
    s->server[1].refuses = 1;
    sim_cut(s, 1);
    CHECK_INT(sim_release(s, h.lease), RL_UNKNOWN);
    CHECK(s->core.owing != NULL);
    s->server[2].refuses = 0;
    sim_advance(s, 2000);
    CHECK_INT(try(s, "j"), RL_GRANTED);
    CHECK_INT(s->core.nodes[2].state, NODE_READY);
    sim_clear_logs(s);
    s->server[1].refuses = 0;
    sim_advance(s, 5000);
    CHECK_INT(s->core.nodes[1].code, RL_CONFIG);
    CHECK_STR(s->server[2].log, "R");
    CHECK(s->core.owing == NULL);
}

/* An extension that node 1 has confirmed, and goes to node 2 when that one comes up. */
SIM_TEST(a_twin_extends_once, sim_new(3))
{
    strcpy(s->server[2].run_id, s->server[1].run_id);
    s->server[2].hushed = 1;
    struct hold h = sim_acquire(s, "k", 20000, 1000);
    sim_run(s);
    CHECK_INT(h.round->outcome, RL_GRANTED);
    s->server[2].key[s->server[2].keys++] = s->server[1].key[0];
    s->server[0].frozen = 1;
    rl_round *round = holder_extend(h.lease, 20000, s->now_ms);
    sim_run(s);
    s->server[1].refuses = 1;
    sim_cut(s, 1);
    s->server[2].hushed = 0;
    sim_run(s);
    CHECK_INT(s->core.nodes[2].state, NODE_READY);
    CHECK(strchr(s->server[1].log, 'E') && strchr(s->server[2].log, 'E'));
    sim_advance(s, SIM_TIMEOUT_MS);
    CHECK_INT(sim_result(s, round), RL_NO_QUORUM);
}

SIM_TEST(replicas_are_refused, sim_new(3))
{
    s->server[1].info = "$59\r\nrun_id:x\r\nrole:slave\r\nmaster_host:h\r\n"
                        "master_port:1\r\n#1234\r\n\r\n";
    CHECK_INT(try(s, "k"), RL_GRANTED);
    CHECK_INT(s->core.nodes[1].code, RL_READONLY);
    CHECK_INT(s->core.nodes[1].why, RL_WHY_REPLICA);
    CHECK_STR(s->core.nodes[1].info.server.master_host, "h");
    CHECK_INT(s->core.nodes[1].info.server.master_port, 1);
    s->server[1].info = "$22\r\nrun_id:x\r\nrole:slave\r\n\r\n";
    sim_advance(s, 2000);
    CHECK_INT(try(s, "j"), RL_GRANTED);
    CHECK_INT(s->core.nodes[1].why, RL_WHY_REPLICA);
}

/* ---- what is held wants every server ---- */

SIM_TEST(holds_want_every_server, sim_up(3))
{
    sim_leave_first(s, 1);
    sim_cut(s, 1);
    sim_advance(s, 9000);
    CHECK_INT(s->core.nodes[1].state, NODE_DOWN);        /* nobody wants it */
    rl_lease *lease = sim_hold(s, "k", 60000);           /* nobody renews it */
    s->server[0].refuses = 0;
    sim_advance(s, 1000 + STATE_HOLDS_MS);
    CHECK_INT(s->core.nodes[0].state, NODE_READY);
    for (int i = 0; i < 3; i++)
        sim_restart(s, i);
    sim_advance(s, STATE_HOLDS_MS);
    for (int i = 0; i < 3; i++)
        CHECK_INT(s->core.nodes[i].state, NODE_READY);
    sim_let_go(s, lease);
    sim_restart(s, 0);
    sim_advance(s, 9000);
    CHECK_INT(s->core.nodes[0].state, NODE_DOWN);
}

/* How often a server that refuses us is asked within two minutes. */
static int asked_in_vain(struct sim *s, int code)
{
    rl_lease *lease = sim_hold(s, "k", 200000);
    sim_cut(s, 0);
    int opened = s->server[0].opened;
    sim_advance(s, 120000);
    CHECK_INT(s->core.nodes[0].code, code);
    opened = s->server[0].opened - opened;
    s->server[0].greets = s->server[0].info = NULL;
    sim_advance(s, STATE_REFUSED_MS + STATE_HOLDS_MS);
    CHECK_INT(s->core.nodes[0].state, NODE_READY);
    sim_let_go(s, lease);
    return opened;
}

SIM_TEST(holds_seldom_ask_who_refuses_them, sim_up(3))
{
    s->server[0].greets = "-WRONGPASS no\r\n";
    int opened = asked_in_vain(s, RL_AUTH);
    CHECK(opened == 4 || opened == 5);
    s->server[0].info = "$22\r\nrun_id:x\r\nrole:slave\r\n\r\n";
    opened = asked_in_vain(s, RL_READONLY);
    CHECK(opened == 4 || opened == 5);
}

/* While a majority is away, holders come back in time: but never without a pause. */
static void a_short_lease_leaves_a_pause(void)
{
    struct sim *s = sim_up(3);
    sim_hold(s, "k", 7);
    for (int i = 0; i < 2; i++) {
        s->server[i].refuses = 1;
        sim_cut(s, i);
    }
    struct hold h = sim_acquire(s, "l", 1000, 1000);
    sim_run(s);                        /* ends */
    CHECK(s->core.nodes[1].failures > 0);
    CHECK(s->core.nodes[1].retry_ms > s->now_ms);
    sim_heal(s);
    sim_result(s, h.round);
    sim_finish(s);
}

/* A server goes down under HOLDERS clients, in one moment, for a minute: when each tries to
 * connect, and what it is told. */
enum { HOLDERS = 64, MINUTE_MS = 60000 };

static void try_for_a_minute(uint64_t seed, int attempts[MINUTE_MS])
{
    struct sim *s = sim_up(3);
    struct core other;
    REQUIRE(core_init(&other, s->config, 1, SIM_DRIFT_PPM, seed) == 0);
    s->core.moment_ms = other.moment_ms;
    close_free(&other);
    sim_hold(s, "k", 2 * MINUTE_MS);
    int64_t from_ms = s->now_ms, told = s->core.node_changes;
    s->server[0].refuses = 1;
    sim_cut(s, 0);
    while (s->now_ms < from_ms + MINUTE_MS - 1) {
        int64_t due_ms = core_due_ms(&s->core), failed = s->core.nodes[0].stats.disconnects;
        int64_t left_ms = from_ms + MINUTE_MS - 1 - s->now_ms;
        sim_advance(s, due_ms - s->now_ms < left_ms ? due_ms - s->now_ms : left_ms);
        attempts[s->now_ms - from_ms] += s->core.nodes[0].stats.disconnects != failed;
    }
    CHECK_INT(s->core.node_changes - told, 1);
    s->server[0].refuses = 0;
    sim_finish(s);
}

static int most_within(const int attempts[MINUTE_MS], int ms)
{
    int most = 0, now = 0;
    for (int k = 0; k < MINUTE_MS; k++) {
        now += attempts[k] - (k >= ms ? attempts[k - ms] : 0);
        most = now > most ? now : most;
    }
    return most;
}

static void many_holders_do_not_come_at_once(void)
{
    static int attempts[MINUTE_MS];
    for (int k = 0; k < HOLDERS; k++)
        try_for_a_minute((k + 1) * 0x9E3779B97F4A7C15ULL, attempts);
    int all = most_within(attempts, MINUTE_MS);
    CHECK(all >= HOLDERS * (MINUTE_MS / STATE_HOLDS_MS - 1));
    CHECK(most_within(attempts, 1000) <= HOLDERS);
    CHECK(most_within(attempts, 50) <= 10);
}

SUITE(connection, T(holds_want_every_server), T(holds_seldom_ask_who_refuses_them),
      T(a_short_lease_leaves_a_pause), T(many_holders_do_not_come_at_once),
      T(break_at_the_deadline), T(second_break_of_a_stable_connection),
      T(break_under_everything), T(full_queue_delays_the_release),
      T(too_much_debt_is_forgone), T(endless_refusals_are_bounded),
      T(twins_are_refused_by_name), T(a_twin_pays_for_the_other),
      T(a_twin_extends_once),
      T(replicas_are_refused));
