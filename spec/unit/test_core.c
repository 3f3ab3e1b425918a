/* test_core.c - connections, health, questions, pauses, fork, close, dropped handles. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

/* ---- hung and silent nodes ---- */

SIM_TEST(hung_node_is_spared_and_asked_again, sim_up(3))
{
    s->server[2].frozen = 1;
    rl_lease *a = sim_hold(s, "a", 9000);
    sim_advance(s, SIM_TIMEOUT_MS - 1);
    struct hold b = sim_acquire(s, "b", 9000, 1000);     /* not hung yet: it is asked */
    CHECK_INT(sim_outcome(s, b.round), RL_GRANTED);
    CHECK_INT(b.round->slot[2].state, SLOT_SENT);
    sim_advance(s, 1);
    struct hold c = sim_acquire(s, "c", 9000, 1000);
    CHECK_INT(c.round->slot[2].state, SLOT_MISSING);
    CHECK_INT(c.round->slot[2].code, RL_TIMEOUT);
    CHECK_INT(sim_outcome(s, c.round), RL_GRANTED);
    rl_round *ask = sim_ask(s, "c");
    CHECK_INT(ask->slot[2].code, RL_TIMEOUT);
    CHECK_INT(sim_result(s, ask), RL_GRANTED);
    /* What it was asked for is released there, in order; c it was not asked for. */
    rl_round *ra = release_begin(a, s->now_ms), *rc = release_begin(c.lease, s->now_ms);
    CHECK_INT(sim_result(s, ra), RL_GRANTED);
    CHECK_INT(sim_end(rc), RL_GRANTED);
    CHECK_STR(s->server[2].log, "");
    s->server[2].frozen = 0;
    sim_run(s);
    CHECK_STR(s->server[2].log, "AAR");
    CHECK_INT(sim_with(s, "a") | sim_with(s, "c"), 0);
    CHECK_INT(sim_mine(s, "b", b.lease), all_of(3));
    struct hold d = sim_acquire(s, "d", 9000, 1000);     /* it answers again */
    sim_run(s);
    CHECK_INT(sim_mine(s, "d", d.lease), all_of(3));
    lease_drop(a, s->now_ms);
    sim_drop(s, &b);
    sim_drop(s, &c);
    sim_drop(s, &d);
}

SIM_TEST(silent_connection_is_given_up, sim_up(3))
{
    s->server[2].frozen = 1;
    rl_lease *lease = sim_hold(s, "k", 9000);
    sim_advance(s, 4 * SIM_TIMEOUT_MS - 1);
    CHECK_INT(s->server[2].state, SIM_OPEN);
    sim_advance(s, 1);
    CHECK_INT(s->core.nodes[2].state, NODE_DOWN);
    CHECK_INT(s->core.nodes[2].code, RL_TIMEOUT);
    CHECK_STR(s->core.nodes[2].text, "no answer");
    CHECK_INT(s->server[2].state, SIM_CLOSED);
    CHECK_INT(s->server[2].opened, 1);   /* nobody wants it now */
    s->server[2].frozen = 0;
    struct hold other = sim_acquire(s, "other", 9000, 1000);
    sim_run(s);
    CHECK_INT(s->server[2].opened, 2);
    rl_round *release = release_begin(lease, s->now_ms);
    sim_advance(s, 1000);
    CHECK_INT(sim_end(release), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
    lease_drop(lease, s->now_ms);
    sim_drop(s, &other);
}

/* Answers that keep coming, however slowly, keep a connection. */
SIM_TEST(slow_is_not_silent, sim_up(1))
{
    struct hold h[12];
    char name[16];
    s->server[0].holds = 1;
    for (int k = 0; k < 12; k++) {
        snprintf(name, sizeof(name), "k%d", k);
        h[k] = sim_acquire(s, name, 9000, 9000);
        sim_run(s);
        sim_advance(s, 100);
        if (k < 6)
            continue;
        s->server[0].holds = 0;
        sim_deliver(s, 0, 4);            /* one ":1\r\n" */
        s->server[0].holds = 1;
    }
    CHECK_INT(s->server[0].opened, 1);
    CHECK_INT(s->server[0].state, SIM_OPEN);
    for (int k = 0; k < 12; k++)
        sim_drop(s, &h[k]);
}

/* ---- connecting ---- */

SIM_TEST(no_connection_in_time, sim_new(1))
{
    s->server[0].hushed = 1;
    struct hold h = sim_acquire(s, "k", 9000, 9000);
    sim_advance(s, SIM_CONNECT_MS - 1);
    CHECK_INT(h.round->outcome, RL_OK);  /* pending until then: it was fine so far */
    sim_advance(s, 1);
    CHECK_INT(h.round->outcome, RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_TIMEOUT);
    CHECK_STR(s->core.nodes[0].text, "no connection in time");
    sim_drop(s, &h);
    /* It failed: from now on it costs no more than an answer. */
    sim_advance(s, NODE_BACKOFF_MAX_MS);
    h = sim_acquire(s, "k", 9000, 9000);
    sim_run(s);
    CHECK_INT(s->core.nodes[0].state, NODE_CONNECTING);
    int64_t t0 = s->now_ms;
    CHECK_INT(sim_wait(s, h.round, 5000), RL_NO_QUORUM);
    CHECK_INT(s->now_ms - t0, SIM_TIMEOUT_MS);
    sim_drop(s, &h);
}

/* A driver that had no time to connect: it must not do so afterwards. */
SIM_TEST(given_up_before_it_was_begun, sim_new(1))
{
    struct hold h = sim_acquire(s, "k", 9000, 9000);
    sim_skip(s, SIM_CONNECT_MS);
    sim_tick(s);
    CHECK_INT(h.round->outcome, RL_NO_QUORUM);
    CHECK_INT(s->core.want_connect, 0);
    CHECK_INT(s->core.want_close, 1);
    sim_drop(s, &h);
}

SIM_TEST(no_handshake_in_time, sim_new(1))
{
    s->server[0].frozen = 1;
    struct hold h = sim_acquire(s, "k", 9000, 9000);
    CHECK_INT(sim_wait(s, h.round, 5000), RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_TIMEOUT);
    CHECK_STR(s->core.nodes[0].text, "no answer to the handshake");
    CHECK_INT(s->server[0].state, SIM_CLOSED);
    CHECK_STR(s->server[0].log, "");
    sim_drop(s, &h);
}

SIM_TEST(refused_handshake_is_the_vote, sim_new(3))
{
    for (int i = 0; i < 3; i++)
        s->config[i].password = "pw";
    s->server[0].greets = s->server[1].greets = "-WRONGPASS invalid password\r\n";
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_AUTH);
    CHECK_INT(h.round->slot[1].code, RL_AUTH);
    CHECK_STR(s->core.nodes[0].text, "WRONGPASS invalid password");
    CHECK_INT(s->server[0].state, SIM_CLOSED);
    sim_drop(s, &h);
}

/* Somebody who tries all the time. */
static void try_in_vain(struct sim *s, int times)
{
    for (int k = 0; k < times; k++) {
        struct hold h = sim_acquire(s, "k", 9000, 1000);
        sim_advance(s, 20);
        CHECK_INT(h.round->outcome, RL_NO_QUORUM);
        sim_drop(s, &h);
    }
}

SIM_TEST(back_off_spares_the_server, sim_up(1))
{
    rl_lease *lease = sim_hold(s, "k", 30000);
    sim_leave(s, 0);
    lease_drop(lease, s->now_ms);
    int64_t before = s->core.nodes[0].stats.disconnects;
    try_in_vain(s, 1000);
    int64_t tries = s->core.nodes[0].stats.disconnects - before;
    CHECK(tries >= 10 && tries <= 30);   /* 20 s */
}

/* For who listens: a server that cannot be reached is news once for each reason. */
SIM_TEST(changes_are_news_once, sim_new(1))
{
    s->server[0].refuses = 1;
    try_in_vain(s, 500);
    CHECK(s->core.nodes[0].stats.disconnects > 3);
    CHECK_INT(s->core.node_changes, 1);
    CHECK_INT(s->core.nodes[0].lost, RL_REFUSED);
    s->server[0].refuses = 0;
    s->config[0].password = "pw";
    s->server[0].greets = "-WRONGPASS invalid password\r\n";
    try_in_vain(s, 500);
    CHECK_INT(s->core.node_changes, 2);
    CHECK_INT(s->core.nodes[0].lost, RL_AUTH);
    s->server[0].greets = NULL;
    sim_skip(s, NODE_BACKOFF_MAX_MS * 2);
    struct hold h = sim_acquire(s, "k", 9000, 9000);
    CHECK_INT(sim_wait(s, h.round, 5000), RL_GRANTED);
    CHECK_INT(s->core.node_changes, 3);
    CHECK_INT(s->core.nodes[0].lost, RL_OK);
    sim_cut(s, 0);
    CHECK_INT(s->core.node_changes, 4);
    CHECK_INT(s->core.nodes[0].lost, RL_REFUSED);
    sim_drop(s, &h);
}

/* Nobody connects what nobody uses. */
SIM_TEST(idle_nodes_stay_down, sim_up(3))
{
    for (int i = 0; i < 3; i++)
        sim_cut(s, i);
    sim_advance(s, 60000);
    CHECK_INT(s->server[0].opened, 1);
    CHECK_INT(core_due_ms(&s->core), INT64_MAX);
}

/* What is not RESP ends the connection, and counts as a break: asked again. */
SIM_TEST(garbage_is_a_break, sim_up(1))
{
    s->server[0].say[SIM_ACQUIRE] = "garbage\r\n";
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    sim_serve(s, 0);
    sim_execute(s, 0, 1);
    sim_deliver(s, 0, SIZE_MAX);
    CHECK_INT(s->core.want_close, 1);
    CHECK_INT(s->core.nodes[0].code, RL_PROTOCOL);
    CHECK_INT(h.lease->torn, 1);
    s->server[0].say[SIM_ACQUIRE] = NULL;
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(s->server[0].opened, 2);
    sim_drop(s, &h);
}

/* ---- questions ---- */

/* Answers of the nodes, the outcome and the mask that agrees. */
static void ask_outcome(int n, const char *const *answers, int outcome, uint32_t agreed)
{
    struct sim *s = sim_up(n);
    for (int i = 0; i < n; i++) {
        s->server[i].say[SIM_ASK] = answers[i];
        if (!answers[i])
            s->server[i].frozen = 1;
    }
    rl_round *round = sim_ask(s, "k");
    sim_wait(s, round, 1000);
    CHECK_INT(round->outcome, outcome);
    CHECK_INT(round->agreed, agreed);
    sim_end(round);
    sim_finish(s);
}

/* Decided neither by a majority that agrees, nor by one that answers. */
static void questions_to_all_wait_for_all(void)
{
    static const char *const answers[] = {":1\r\n", ":1\r\n", "-OOM no\r\n", ":7\r\n"};
    struct sim *s = sim_up(5);
    for (int i = 0; i < 4; i++)
        s->server[i].say[SIM_ASK] = answers[i];
    s->server[4].frozen = 1;
    rl_bytes key = {"k", 1};
    rl_round *round =
        query_ask_all(&s->core, SIM_ASK, &key, 1, NULL, 0, 10000, s->now_ms);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(round->outcome, RL_OK);
        sim_pass(s, i);
    }
    CHECK_INT(round->outcome, RL_OK);
    int64_t t0 = s->now_ms;
    sim_wait(s, round, 1000);
    CHECK_INT(round->outcome, RL_GRANTED);
    CHECK_INT(s->now_ms - t0, SIM_TIMEOUT_MS);
    CHECK_INT(round->slot[0].vote, 1);
    CHECK_INT(round->slot[2].code, RL_OOM);
    CHECK_INT(round->slot[3].vote, 7);
    CHECK_INT(round->slot[4].code, RL_TIMEOUT);
    sim_end(round);
    close_finish(&s->core, s->now_ms);
    CHECK(query_ask_all(&s->core, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms) == NULL);
    sim_finish(s);
}

static void questions_find_the_majority(void)
{
    static const char *const same[] = {":0\r\n", ":0\r\n", ":0\r\n"};
    static const char *const two[] = {":0\r\n", ":1\r\n", ":1\r\n"};
    static const char *const split[] = {":0\r\n", ":1\r\n", ":2\r\n"};
    static const char *const one_down[] = {":7\r\n", NULL, ":7\r\n"};
    static const char *const split_and_down[] = {":7\r\n", NULL, ":8\r\n"};
    static const char *const two_down[] = {NULL, NULL, ":7\r\n"};
    static const char *const error[] = {"-OOM no\r\n", "-OOM no\r\n", ":7\r\n"};
    static const char *const negative[] = {":-5\r\n", ":1\r\n", ":-5\r\n"};
    static const char *const tie[] = {":1\r\n", ":1\r\n", ":2\r\n", ":2\r\n"};
    static const char *const alone[] = {":9\r\n"};
    ask_outcome(3, same, RL_GRANTED, 3);         /* decided by the first two */
    ask_outcome(3, two, RL_GRANTED, 6);
    ask_outcome(3, split, RL_GRANTED, 0);
    ask_outcome(3, one_down, RL_GRANTED, 5);
    ask_outcome(3, split_and_down, RL_GRANTED, 0);
    ask_outcome(3, two_down, RL_NO_QUORUM, 0);
    ask_outcome(3, error, RL_NO_QUORUM, 0);
    ask_outcome(3, negative, RL_GRANTED, 5);
    ask_outcome(4, tie, RL_GRANTED, 0);
    ask_outcome(1, alone, RL_GRANTED, 1);
}

/* The same vote with other data is another answer; the info may differ. */
static void questions_compare_the_data(void)
{
    static const char *const data[] = {
        "*3\r\n:1\r\n:10\r\n$2\r\nab\r\n",
        "*3\r\n:1\r\n:20\r\n$2\r\nxy\r\n",
        "*3\r\n:1\r\n:30\r\n$2\r\nab\r\n",
    };
    static const char *const prefix[] = {
        "*2\r\n:1\r\n$2\r\nab\r\n", "*2\r\n:1\r\n$3\r\nabc\r\n", ":1\r\n",
    };
    ask_outcome(3, data, RL_GRANTED, 5);
    ask_outcome(3, prefix, RL_GRANTED, 0);
}

/* A server that answers in time for others is missing when the question's time is over. */
SIM_TEST(questions_end_in_time, sim_up(3))
{
    for (int i = 1; i < 3; i++)
        s->server[i].holds = 1;
    rl_round *round = sim_ask_within(s, "k", 40);
    rl_round *at_once = sim_ask_within(s, "k", 0);
    sim_tick(s);
    CHECK_INT(sim_end(at_once), RL_NO_QUORUM);
    sim_advance(s, 39);
    CHECK_INT(round->outcome, RL_OK);
    sim_advance(s, 1);
    CHECK_INT(round->outcome, RL_NO_QUORUM);
    CHECK_INT(round->slot[0].state, SLOT_ANSWERED);
    CHECK_INT(round->slot[1].code, RL_TIMEOUT);
    sim_end(round);
}

SIM_TEST(question_sees_the_holder, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 9000);
    rl_round *round = sim_ask(s, "k");
    CHECK_INT(sim_outcome(s, round), RL_GRANTED);
    CHECK_INT(__builtin_popcount(round->agreed), 2);
    CHECK_INT(round->slot[0].vote, 1);
    CHECK_INT(round->slot[0].extra, 9000);
    CHECK_INT(round->slot[0].data_len, RL_VALUE_LEN);
    CHECK(!memcmp(round->slot[0].data, lease->value, RL_VALUE_LEN));
    sim_end(round);
    lease_drop(lease, s->now_ms);
}

/* ---- pauses ---- */

SIM_TEST(sleeps, sim_new(3))
{
    rl_round *a = query_sleep(&s->core, 100, s->now_ms);
    rl_round *b = query_sleep(&s->core, 50, s->now_ms);
    rl_round *c = query_sleep(&s->core, 0, s->now_ms);
    CHECK_INT(a->outcome, RL_OK);
    sim_tick(s);
    CHECK_INT(sim_end(c), RL_GRANTED);
    sim_advance(s, 49);
    CHECK_INT(b->outcome, RL_OK);
    sim_advance(s, 1);
    CHECK_INT(sim_end(b), RL_GRANTED);
    CHECK_INT(a->outcome, RL_OK);
    sim_advance(s, 50);
    CHECK_INT(sim_end(a), RL_GRANTED);
    rl_round *dropped = query_sleep(&s->core, 100, s->now_ms);
    round_notify(dropped);
    round_free(dropped);
    CHECK_INT(sim_live(s), 0);           /* nor is it there any more */
    CHECK(round_next(&s->core) == NULL);
    CHECK_INT(s->server[0].opened, 0);   /* it asks nobody */
}

/* ---- scripts ---- */

SIM_TEST(same_script_same_number, sim_up(1))
{
    CHECK_INT(core_script(&s->core, "release", 7, s->now_ms), SIM_RELEASE);
    CHECK_INT(core_script(&s->core, "release ", 8, s->now_ms), SIM_SCRIPTS);
    CHECK_INT(core_script(&s->core, "rel\0ase", 7, s->now_ms), SIM_SCRIPTS + 1);
    CHECK_INT(core_script(&s->core, "", 0, s->now_ms), SIM_SCRIPTS + 2);
    sim_run(s);
    CHECK_INT(s->server[0].loaded, (1 << (SIM_SCRIPTS + 3)) - 1);
    CHECK_INT(s->core.nodes[0].loaded, (1 << (SIM_SCRIPTS + 3)) - 1);
    char body[16];
    for (int k = SIM_SCRIPTS + 3; k < RL_MAX_SCRIPTS; k++) {
        int len = snprintf(body, sizeof(body), "script %d", k);
        CHECK_INT(core_script(&s->core, body, (size_t)len, s->now_ms), k);
    }
    CHECK_INT(core_script(&s->core, "one more", 8, s->now_ms), -1);
    CHECK_INT(core_script(&s->core, "acquire", 7, s->now_ms), SIM_ACQUIRE);
    sim_run(s);
    CHECK_INT(s->core.nodes[0].loaded, -1);
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
    CHECK_INT(s->server[0].loaded >> late & 1, 1);
    CHECK_INT(s->core.nodes[0].loaded >> late & 1, 1);
    sim_drop(s, &h);
}

/* ---- fork ---- */

/* A core in the middle of everything. */
struct busy {
    struct hold acquiring;
    rl_lease *held, *extending, *releasing;
    rl_round *extend, *release, *ask, *sleep;
};

static struct busy make_busy(struct sim *s)
{
    struct busy b;
    b.held = sim_hold(s, "held", 30000);
    b.extending = sim_hold(s, "extending", 30000);
    b.releasing = sim_hold(s, "releasing", 30000);
    sim_freeze(s, all_of(s->n));
    b.acquiring = sim_acquire(s, "acquiring", 30000, 10000);
    b.extend = lease_extend(b.extending, 40000, s->now_ms);
    b.release = release_begin(b.releasing, s->now_ms);
    b.ask = sim_ask(s, "held");
    b.sleep = query_sleep(&s->core, 5000, s->now_ms);
    return b;
}

static void free_busy(struct sim *s, struct busy *b)
{
    sim_drop(s, &b->acquiring);
    lease_drop(b->held, s->now_ms);
    lease_drop(b->extending, s->now_ms);
    lease_drop(b->releasing, s->now_ms);
    round_free(b->extend);
    round_free(b->release);
    round_free(b->ask);
    round_free(b->sleep);
}

static void all_closed(const struct busy *b)
{
    CHECK_INT(b->acquiring.round->outcome, RL_CLOSED);
    CHECK_INT(b->extend->outcome, RL_CLOSED);
    CHECK_INT(b->release->outcome, RL_CLOSED);
    CHECK_INT(b->ask->outcome, RL_CLOSED);
    CHECK_INT(b->sleep->outcome, RL_CLOSED);
}

SIM_TEST(fork_voids_everything, sim_up(3))
{
    struct busy b = make_busy(s);
    sim_fork(s);             /* writes nothing: the sockets are the parent's */
    all_closed(&b);
    CHECK_INT(lease_remaining_ms(b.held, s->now_ms), 0);
    CHECK_INT(lease_remaining_ms(b.acquiring.lease, s->now_ms), 0);
    CHECK(s->core.owing == NULL);
    sim_heal(s);
    sim_clear_logs(s);
    /* The parent's leases are not the child's to touch. */
    rl_round *extend = lease_extend(b.held, 9000, s->now_ms);
    rl_round *release = release_begin(b.held, s->now_ms);
    rl_round *cancel = release_begin(b.acquiring.lease, s->now_ms);
    CHECK_INT(sim_end(extend), RL_NOT_HELD);
    CHECK_INT(sim_end(release), RL_NOT_HELD);
    CHECK_INT(sim_end(cancel), RL_NOT_HELD);
    CHECK_INT(core_due_ms(&s->core), INT64_MAX);
    CHECK_INT(s->core.nodes[0].failures, 0);     /* the parent's troubles are not ours */
    CHECK_INT(s->core.nodes[0].retry_ms, 0);
    sim_advance(s, 10);
    sim_logs_are(s, "");
    CHECK_INT(s->server[0].opened, 1);
    /* It starts with connections of its own, at once. */
    struct hold h = sim_acquire(s, "new", 9000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(sim_mine(s, "held", b.held), all_of(3));
    CHECK_INT(s->server[0].opened, 2);
    free_busy(s, &b);
    sim_drop(s, &h);
}

/* The parent's handles are dropped in the child without a word to the servers. */
SIM_TEST(fork_drops_quietly, sim_up(3))
{
    struct busy b = make_busy(s);
    sim_fork(s);             /* writes nothing: the sockets are the parent's */
    free_busy(s, &b);
    CHECK_INT(sim_live(s), 0);
    CHECK(!s->core.want_close && !s->core.want_connect && !s->core.want_write);
}

SIM_TEST(fork_while_connecting, sim_new(3))
{
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    close_void(&s->core);
    CHECK_INT(s->core.want_connect, 0);
    CHECK_INT(h.round->outcome, RL_CLOSED);
    sim_drop(s, &h);
    h = sim_acquire(s, "k", 9000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    sim_drop(s, &h);
}

/* ---- close ---- */

SIM_TEST(close_ends_everything, sim_up(3))
{
    struct busy b = make_busy(s);
    sim_run(s);
    close_finish(&s->core, s->now_ms);
    all_closed(&b);
    CHECK(s->core.active == NULL && s->core.owing == NULL);
    CHECK_INT(lease_remaining_ms(b.held, s->now_ms), 0);
    /* The release of what was being acquired is on its way. */
    sim_freeze(s, 0);
    sim_clear_logs(s);
    sim_run(s);
    sim_logs_are(s, "AERQRRR");
    CHECK_INT(sim_with(s, "acquiring") | sim_with(s, "releasing"), 0);
    /* Nothing can be started. */
    rl_bytes key = {"k", 1};
    rl_lease *lease = NULL;
    char value[RL_VALUE_LEN] = "";
    CHECK(lease_acquire(&s->core, &s->primitive, &key, 1, NULL, 0, value, 9000, 1000, -1,
                        s->now_ms, &lease) == NULL);
    CHECK(query_ask(&s->core, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms) == NULL);
    CHECK(query_sleep(&s->core, 1, s->now_ms) == NULL);
    rl_round *extend = lease_extend(b.held, 9000, s->now_ms);
    rl_round *release = release_begin(b.held, s->now_ms);
    CHECK_INT(sim_end(extend), RL_CLOSED);
    CHECK_INT(sim_end(release), RL_CLOSED);
    free_busy(s, &b);
}

SIM_TEST(close_while_connecting, sim_new(3))
{
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    close_finish(&s->core, s->now_ms);
    CHECK(h.round->outcome != RL_OK);
    sim_drop(s, &h);
    sim_run(s);
    sim_logs_are(s, "");
}

/* Freed with everything under way: valgrind and the sanitizers see what is left. */
SIM_TEST(free_in_the_middle, sim_up(3))
{
    struct busy b = make_busy(s);
    sim_run(s);
    free_busy(s, &b);
    close_finish(&s->core, s->now_ms);
}

/* ---- dropped handles ---- */

enum { DROP_STEPS = 14 };

/* Drops the handles of one lease's life at one of its steps, in one of two orders. */
static void drop_at(int step, int lease_first, int up)
{
    struct sim *s = up ? sim_up(3) : sim_new(3);
    struct hold h = sim_acquire(s, "k", 3000, 1000);
    rl_round *extend = NULL, *release = NULL;
    for (int k = 0; k < step; k++) {
        if (k == 7)
            extend = lease_extend(h.lease, 5000, s->now_ms);
        else if (k == 9)
            release = release_begin(h.lease, s->now_ms);
        for (int i = 0; i < 3 && k != 7 && k != 9; i++) {
            sim_serve(s, i);
            sim_open(s, i);
            sim_serve(s, i);
            sim_execute(s, i, 3);
            sim_deliver(s, i, 30);
        }
    }
    if (lease_first) {
        lease_drop(h.lease, s->now_ms);
        h.lease = NULL;
    }
    if (extend)
        round_free(extend);
    sim_drop(s, &h);
    if (release)
        round_free(release);
    sim_advance(s, 10000);
    CHECK_INT(sim_live(s), 0);
    CHECK_INT(s->core.handles, 0);
    CHECK_INT(sim_with(s, "k"), 0);
    sim_finish(s);
}

static void handles_may_be_dropped_any_time(void)
{
    for (int step = 0; step <= DROP_STEPS; step++) {
        for (int way = 0; way < 4; way++) {
            test_note("step %d, way %d", step, way);
            drop_at(step, way & 1, way & 2);
        }
    }
}

SIM_TEST(dropping_an_attempt_cancels_it, sim_up(3))
{
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    lease_drop(h.lease, s->now_ms);
    CHECK_INT(h.round->outcome, RL_CANCELLED);
    round_free(h.round);
    sim_run(s);
    sim_logs_are(s, "AR");
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(sim_live(s), 0);
}

SIM_TEST(dropping_a_lease_releases_nothing, sim_up(3))
{
    rl_lease *lease = sim_hold(s, "k", 9000);
    lease_drop(lease, s->now_ms);
    sim_run(s);
    sim_logs_are(s, "A");
    CHECK_INT(sim_with(s, "k"), all_of(3));
    CHECK(sim_live(s) > 0);              /* known, so that close_finish() can release it */
    sim_advance(s, 9000);
    CHECK_INT(sim_live(s), 0);
}

/* Freeing the round of an attempt is no cancelling: the lease goes on. */
SIM_TEST(dropping_a_round_goes_on, sim_up(3))
{
    struct hold h = sim_acquire(s, "k", 9000, 1000);
    round_free(h.round);
    h.round = NULL;
    sim_run(s);
    CHECK_INT(lease_remaining_ms(h.lease, s->now_ms), sim_validity(9000, 0));
    sim_drop(s, &h);
}

/* Told of twice, done once, in the order in which they were. */
SIM_TEST(done_rounds_are_given_once, sim_new(1))
{
    rl_round *late = query_sleep(&s->core, 20, s->now_ms);
    rl_round *early = query_sleep(&s->core, 10, s->now_ms);
    for (int k = 0; k < 2; k++) {
        round_notify(late);
        round_notify(early);
    }
    sim_advance(s, 30);
    round_notify(late);
    CHECK(round_next(&s->core) == early);
    CHECK(round_next(&s->core) == late);
    CHECK(round_next(&s->core) == NULL);
    round_free(late);
    round_free(early);
}

/* Everything comes from the pools after the first time. */
SIM_TEST(nothing_is_allocated_twice, sim_up(3))
{
    uint32_t objects = 0;
    for (int k = 0; k < 50; k++) {
        rl_lease *lease = sim_hold(s, "k", 9000);
        CHECK_INT(sim_result(s, lease_extend(lease, 9000, s->now_ms)), RL_GRANTED);
        CHECK_INT(sim_result(s, release_begin(lease, s->now_ms)), RL_GRANTED);
        lease_drop(lease, s->now_ms);
        CHECK_INT(sim_live(s), 0);
        if (k == 0)
            objects = s->core.timers_wanted;
        sim_clear_logs(s);
    }
    CHECK_INT(s->core.timers_wanted, objects);
}

/* Questions without an end, one after the other, with this many to go. */
static void ask_often(struct sim *s, int n)
{
    while (n-- > 0) {
        rl_round *round = sim_ask(s, "k");
        sim_run(s);
        round_free(round);
        sim_clear_logs(s);
    }
}

SIM_TEST(who_is_behind_is_asked_for_nothing_new, sim_up(5))
{
    rl_lease *before = sim_hold(s, "k", 9000);
    s->server[4].frozen = 1;
    ask_often(s, NODE_BEHIND_MIN);
    CHECK_INT(s->core.nodes[4].queue_len, NODE_BEHIND_MIN);
    sim_skip(s, NODE_PAUSE_MS);
    rl_round *round = sim_ask(s, "k");
    CHECK_INT(round->slot[4].code, RL_OVERLOAD);
    CHECK_INT(sim_result(s, round), RL_GRANTED);
    struct hold h = sim_acquire(s, "other", 9000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->touched, all_of(4));
    round_free(release_begin(h.lease, s->now_ms));
    sim_run(s);
    CHECK(s->core.owing == NULL);
    CHECK_INT(s->core.nodes[4].queue_len, NODE_BEHIND_MIN);
    /* It may have this one, so it gets the release whatever else it has to do. */
    round_free(release_begin(before, s->now_ms));
    sim_run(s);
    CHECK_INT(s->core.nodes[4].queue_len, NODE_BEHIND_MIN + 1);
    CHECK_INT(s->core.nodes[4].stats.owed, 1);
    s->server[4].frozen = 0;
    sim_run(s);
    CHECK_INT(s->core.nodes[4].stats.owed, 0);
    CHECK_INT(sim_with(s, "k") | sim_with(s, "other"), 0);
    round = sim_ask(s, "k");
    CHECK_INT(round->slot[4].state, SLOT_SENT);
    sim_run(s);
    sim_end(round);
    lease_drop(before, s->now_ms);
    sim_drop(s, &h);
}

/* Where a majority is behind, or away, or says nothing now, nobody is spared: that would be
 * no service at all. */
static void a_majority_is_not_spared(void)
{
    enum { BEHIND, AWAY, PAUSING, CASES };
    for (int what = 0; what < CASES; what++) {
        int away = what == AWAY;
        struct sim *s = sim_up(5);
        if (away) {
            s->server[0].refuses = s->server[1].refuses = 1;
            sim_cut(s, 0);
            sim_cut(s, 1);
            sim_advance(s, 2 * NODE_BACKOFF_MAX_MS);
        }
        s->server[2].frozen = what == BEHIND;
        s->server[3].frozen = s->server[4].frozen = 1;
        ask_often(s, NODE_BEHIND_MIN + 10);
        if (what == PAUSING) {           /* with hardly anything to answer */
            s->server[2].frozen = 1;
            ask_often(s, 1);
        }
        sim_advance(s, NODE_PAUSE_MS);
        for (int i = 3; i < 5; i++) {
            CHECK(health_behind(&s->core.nodes[i], s->now_ms));
            CHECK_INT(state_spares(&s->core, i, s->now_ms), RL_OK);
        }
        rl_round *round = sim_ask(s, "k");
        CHECK_INT(round->slot[4].state, SLOT_SENT);
        sim_heal(s);
        CHECK_INT(sim_wait(s, round, 1000), RL_GRANTED);
        sim_end(round);
        sim_clear_logs(s);
        sim_finish(s);
    }
}

SUITE(core, T(who_is_behind_is_asked_for_nothing_new), T(a_majority_is_not_spared),
      T(hung_node_is_spared_and_asked_again), T(silent_connection_is_given_up),
      T(slow_is_not_silent), T(no_connection_in_time), T(given_up_before_it_was_begun),
      T(no_handshake_in_time), T(refused_handshake_is_the_vote),
      T(back_off_spares_the_server), T(changes_are_news_once), T(idle_nodes_stay_down),
      T(garbage_is_a_break), T(questions_to_all_wait_for_all),
      T(questions_find_the_majority), T(questions_compare_the_data),
      T(questions_end_in_time), T(question_sees_the_holder), T(sleeps), T(same_script_same_number),
      T(script_during_the_handshake_is_loaded), T(fork_voids_everything),
      T(fork_drops_quietly), T(fork_while_connecting), T(close_ends_everything),
      T(close_while_connecting), T(free_in_the_middle),
      T(handles_may_be_dropped_any_time), T(dropping_an_attempt_cancels_it),
      T(dropping_a_lease_releases_nothing), T(dropping_a_round_goes_on),
      T(done_rounds_are_given_once), T(nothing_is_allocated_twice));
