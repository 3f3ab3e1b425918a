/* test_node.c - one server's conversation: what is sent, what answers do to it, how long
 * it is waited for. */
#include "node/health.h"
#include "node/node.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define SHA0 "00000000000000000000000000000000000000aa"
#define SHA1 "11111111111111111111111111111111111111bb"

#define ASKS "INFO server; INFO replication; INFO persistence; INFO memory; TIME; "
#define TELLS                                                              \
    "$12\r\nrun_id:abcde\r\n$13\r\nrole:master\r\n\r\n$2\r\n\r\n\r\n$2\r\n\r\n\r\n"  \
    "*2\r\n$1\r\n9\r\n$1\r\n8\r\n"

struct fixture {
    struct node_config config;
    struct scripts scripts;
    struct node node;
    struct cmd_pool pool;
    struct cmd *cmd;
    char sent[4096];
};

static void set_up(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->config.timeout_ms = 250;
    f->config.connect_timeout_ms = 1000;
    REQUIRE(node_init(&f->node, &f->config, &f->scripts) == 0);
    f->cmd = cmd_new(&f->pool, &(rl_bytes){"key", 3}, 1, &(rl_bytes){"arg", 3}, 1);
    REQUIRE(f->cmd != NULL);
}

static void tear_down(struct fixture *f)
{
    node_free(&f->node);
    cmd_unref(&f->pool, f->cmd);
    cmd_pool_free(&f->pool);
}

static void add_script(struct fixture *f, char *body)
{
    f->scripts.item[f->scripts.count].body = body;
    f->scripts.item[f->scripts.count++].len = strlen(body);
}

/* Takes what was written: words with spaces between, commands with "; ". */
static const char *sent(struct fixture *f)
{
    struct buf *out = &f->node.out;
    redisReader *reader = redisReaderCreate();
    size_t len = 0;
    void *reply = NULL;
    f->sent[0] = '\0';
    redisReaderFeed(reader, out->data + out->start, buf_len(out));
    buf_take(out, buf_len(out));
    while (CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK) && reply) {
        redisReply *command = reply;
        for (size_t i = 0; i < command->elements; i++)
            len += (size_t)snprintf(f->sent + len, sizeof(f->sent) - len, "%s%s",
                                    i ? " " : len ? "; " : "",
                                    command->element[i]->str);
        freeReplyObject(reply);
    }
    CHECK_INT(reader->len, reader->pos);     /* no half command */
    redisReaderFree(reader);
    return f->sent;
}

static void feed(struct fixture *f, const char *bytes)
{
    REQUIRE(node_feed(&f->node, bytes, strlen(bytes)) == 0);
}

/* The next event; what the server tells of itself is none here. */
static enum node_event next(struct fixture *f, int64_t now_ms)
{
    struct request request;
    enum node_event event;
    do
        event = node_next(&f->node, &request, now_ms);
    while (event == NODE_TOLD);
    if (event == NODE_UP)
        node_ready(&f->node, now_ms);
    return event;
}

/* Brings it up; the answers are those of a server without troubles. */
static void go_up(struct fixture *f, int64_t now_ms)
{
    const struct node_config *c = &f->config;
    node_connecting(&f->node, now_ms);
    REQUIRE(node_connected(&f->node, now_ms) == 0);
    sent(f);
    if (c->password)
        feed(f, "+OK\r\n");
    if (c->db)
        feed(f, "+OK\r\n");
    if (c->client_name)
        feed(f, "+OK\r\n");
    feed(f, TELLS);
    for (int i = 0; i < f->scripts.count; i++)
        feed(f, i ? "$40\r\n" SHA1 "\r\n" : "$40\r\n" SHA0 "\r\n");
    feed(f, "+PONG\r\n");
    REQUIRE(next(f, now_ms) == NODE_UP);
}

static void go_down(struct fixture *f, int code, int64_t now_ms, uint64_t random)
{
    struct request request;
    int written;
    node_down(&f->node, code, "gone", now_ms, random);
    while (node_abandon(&f->node, &request, &written))
        ;
}

/* ---- going up ---- */

static void shakes_hands(void)
{
    struct fixture f;
    set_up(&f);
    CHECK_INT(f.node.state, NODE_DOWN);
    CHECK_INT(f.node.code, RL_REFUSED);
    node_connecting(&f.node, 100);
    CHECK_INT(f.node.state, NODE_CONNECTING);
    CHECK_INT(health_give_up_ms(&f.node), 1100);
    REQUIRE(node_connected(&f.node, 300) == 0);
    CHECK_INT(f.node.state, NODE_HANDSHAKE);
    CHECK_STR(sent(&f), ASKS "PING");
    CHECK_INT(health_give_up_ms(&f.node), 1100);   /* name, TCP and handshake together */
    CHECK_INT(next(&f, 300), NODE_IDLE);
    feed(&f, TELLS "+PONG\r\n");
    CHECK_INT(next(&f, 310), NODE_UP);
    CHECK_INT(f.node.state, NODE_READY);
    CHECK_INT(f.node.code, RL_OK);
    CHECK_INT(f.node.stats.connects, 1);
    CHECK_INT(next(&f, 310), NODE_IDLE);
    CHECK_INT(health_give_up_ms(&f.node), INT64_MAX);
    tear_down(&f);
}

static void handshake_says_all(void)
{
    struct fixture f;
    set_up(&f);
    f.config.user = "app";
    f.config.password = "secret word";
    f.config.client_name = "redlock";
    f.config.db = 3;
    add_script(&f, "return 1");
    add_script(&f, "return 2");
    node_connecting(&f.node, 0);
    REQUIRE(node_connected(&f.node, 0) == 0);
    CHECK_STR(sent(&f),
              "AUTH app secret word; SELECT 3; CLIENT SETNAME redlock; " ASKS
              "SCRIPT LOAD return 1; SCRIPT LOAD return 2; PING");
    const char *answers = "+OK\r\n+OK\r\n+OK\r\n" TELLS "$40\r\n" SHA0 "\r\n$40\r\n" SHA1
                          "\r\n+PONG\r\n";
    for (size_t i = 0; answers[i]; i++) {
        CHECK_INT(next(&f, 5), NODE_IDLE);
        CHECK_INT(f.node.state, NODE_HANDSHAKE);
        REQUIRE(node_feed(&f.node, answers + i, 1) == 0);
    }
    CHECK_INT(next(&f, 5), NODE_UP);
    CHECK_INT(f.node.loaded, 3);
    CHECK(!memcmp(f.node.sha[0], SHA0, 40) && !memcmp(f.node.sha[1], SHA1, 40));
    tear_down(&f);
}

static void password_without_a_user(void)
{
    struct fixture f;
    set_up(&f);
    f.config.password = "pw";
    node_connecting(&f.node, 0);
    REQUIRE(node_connected(&f.node, 0) == 0);
    CHECK_STR(sent(&f), "AUTH pw; " ASKS "PING");
    tear_down(&f);
}

/* ---- handshakes that fail ---- */

/* The answers, and what becomes of it: an rl_code, or RL_OK: it is up. */
static void handshake_ends(const char *answers, int code)
{
    struct fixture f;
    set_up(&f);
    f.config.password = "pw";
    f.config.db = 1;
    f.config.client_name = "n";
    add_script(&f, "return 1");
    test_note("%s", answers);
    node_connecting(&f.node, 0);
    REQUIRE(node_connected(&f.node, 0) == 0);
    feed(&f, answers);
    CHECK_INT(next(&f, 0), code ? NODE_FAILED : NODE_UP);
    CHECK_INT(f.node.code, code);
    if (code)
        CHECK(f.node.text[0] != '\0');
    tear_down(&f);
}

static void refused_handshakes(void)
{
    handshake_ends("-WRONGPASS invalid username-password pair\r\n", RL_AUTH);
    handshake_ends("-ERR invalid password\r\n", RL_AUTH);
    handshake_ends("-ERR AUTH <password> called without any password configured for "
                   "the default user.\r\n", RL_AUTH);
    handshake_ends("-ERR unknown command 'AUTH'\r\n", RL_AUTH);
    handshake_ends("+OK\r\n-ERR DB index is out of range\r\n", RL_CONFIG);
    handshake_ends("+OK\r\n-ERR SELECT is not allowed in cluster mode\r\n", RL_CONFIG);
    handshake_ends("+OK\r\n-NOAUTH Authentication required.\r\n", RL_AUTH);
    handshake_ends("+OK\r\n+OK\r\n-NOAUTH Authentication required.\r\n", RL_AUTH);
    handshake_ends("+OK\r\n+OK\r\n+OK\r\n-NOAUTH Authentication required.\r\n", RL_AUTH);
    handshake_ends("HTTP/1.1 400 Bad Request\r\n", RL_PROTOCOL);
    handshake_ends("*1000\r\n", RL_PROTOCOL);
    handshake_ends("+OK\r\n+OK\r\n+OK\r\n" TELLS "$40\r\n" SHA0 "\r\n+PONG\r\n", RL_OK);
}

/* A user who may run scripts but not load them, or a server that is loading its data,
 * can still vote, or can soon. */
static void pardoned_handshakes(void)
{
    handshake_ends("+OK\r\n+OK\r\n-NOPERM no permission for 'client'\r\n" TELLS "$40\r\n" SHA0
                   "\r\n+PONG\r\n", RL_OK);
    handshake_ends("+OK\r\n+OK\r\n+OK\r\n" TELLS "-NOPERM no permission for 'script|load'\r\n"
                   "+PONG\r\n", RL_OK);
    handshake_ends("+OK\r\n+OK\r\n+OK\r\n" TELLS "$40\r\n" SHA0 "\r\n-NOPERM 'ping'\r\n", RL_OK);
    handshake_ends("+OK\r\n+OK\r\n+OK\r\n" TELLS "-LOADING Redis is loading the dataset\r\n"
                   "-LOADING Redis is loading the dataset\r\n", RL_OK);
}

/* Servers say this on a new connection before anything was asked; it is taken for the
 * answer to the first command, which must not hide what it is about. */
static void greeted_with_a_refusal(void)
{
    static const char *const refusals[] = {
        "-ERR max number of clients reached\r\n",
        "-DENIED Redis is running in protected mode because protected mode is on\r\n",
    };
    for (int k = 0; k < 2; k++) {
        struct fixture f;
        set_up(&f);
        f.config.password = "pw";
        node_connecting(&f.node, 0);
        REQUIRE(node_connected(&f.node, 0) == 0);
        feed(&f, refusals[k]);
        CHECK_INT(next(&f, 0), NODE_FAILED);
        CHECK(strstr(refusals[k], f.node.text) != NULL);
        tear_down(&f);
    }
}

/* ---- answers ---- */

static void answers_come_in_order(void)
{
    struct fixture f;
    struct request request;
    set_up(&f);
    add_script(&f, "return 1");
    go_up(&f, 0);
    int owner[3];
    for (int i = 0; i < 3; i++)
        REQUIRE(node_call(&f.node, 0, f.cmd, NULL, &owner[i], 10 + i) == 0);
    CHECK_STR(sent(&f), "EVALSHA " SHA0 " 1 key arg; EVALSHA " SHA0 " 1 key arg; "
                        "EVALSHA " SHA0 " 1 key arg");
    const char *answers = ":1\r\n-ERR two\r\n*2\r\n:3\r\n:4\r\n";
    int got = 0;
    for (size_t i = 0; answers[i]; i++) {
        REQUIRE(node_feed(&f.node, answers + i, 1) == 0);
        enum node_event event = node_next(&f.node, &request, 20);
        if (event == NODE_IDLE)
            continue;
        REQUIRE(event == NODE_ANSWER);
        CHECK(request.owner == &owner[got]);
        CHECK_INT(request.sent_ms, 10 + got);
        CHECK_INT(f.node.wire.reply.type,
                  got == 0 ? REPLY_INTEGER : got == 1 ? REPLY_ERROR : REPLY_ARRAY);
        got++;
    }
    CHECK_INT(got, 3);
    CHECK_INT(f.node.stats.requests, 3);
    CHECK_INT(f.node.stats.replies, 3);
    CHECK_INT(f.node.stats.errors, 1);
    tear_down(&f);
}

static void unasked_answers_end_it(void)
{
    struct fixture f;
    set_up(&f);
    go_up(&f, 0);
    feed(&f, "+OK\r\n");
    CHECK_INT(next(&f, 1), NODE_FAILED);
    CHECK_INT(f.node.code, RL_PROTOCOL);
    tear_down(&f);
}

static void garbage_ends_it(void)
{
    struct fixture f;
    set_up(&f);
    add_script(&f, "return 1");
    go_up(&f, 0);
    REQUIRE(node_call(&f.node, 0, f.cmd, NULL, &f, 0) == 0);
    feed(&f, ":1\r\ngarbage\r\n");
    CHECK_INT(next(&f, 1), NODE_ANSWER);
    CHECK_INT(next(&f, 1), NODE_FAILED);
    CHECK_INT(f.node.code, RL_PROTOCOL);
    tear_down(&f);
}

static void input_of_the_last_connection_is_forgotten(void)
{
    struct fixture f;
    set_up(&f);
    add_script(&f, "return 1");
    go_up(&f, 0);
    REQUIRE(node_call(&f.node, 0, f.cmd, NULL, &f, 0) == 0);
    feed(&f, "$100\r\nhalf a rep");
    CHECK_INT(next(&f, 1), NODE_IDLE);
    go_down(&f, RL_REFUSED, 2000, 0);
    CHECK_INT(buf_len(&f.node.out), 0);
    go_up(&f, 2000);
    CHECK_INT(f.node.stats.connects, 2);
    tear_down(&f);
}

/* ---- scripts ---- */

static void eval_where_it_is_not_loaded(void)
{
    struct fixture f;
    set_up(&f);
    add_script(&f, "return 1");
    go_up(&f, 0);
    node_unload(&f.node, 0);
    REQUIRE(node_call(&f.node, 0, f.cmd, NULL, &f, 0) == 0);
    CHECK_STR(sent(&f), "EVAL return 1 1 key arg");
    /* The sha is known, and EVAL loads the script as well. */
    REQUIRE(node_call(&f.node, 0, f.cmd, NULL, &f, 0) == 0);
    CHECK_STR(sent(&f), "EVALSHA " SHA0 " 1 key arg");
    tear_down(&f);
}

static void eval_where_loading_is_forbidden(void)
{
    struct fixture f;
    set_up(&f);
    add_script(&f, "return 1");
    node_connecting(&f.node, 0);
    REQUIRE(node_connected(&f.node, 0) == 0);
    sent(&f);
    feed(&f, TELLS "-NOPERM no SCRIPT for you\r\n+PONG\r\n");
    REQUIRE(next(&f, 0) == NODE_UP);
    for (int i = 0; i < 2; i++) {        /* the sha stays unknown */
        REQUIRE(node_call(&f.node, 0, f.cmd, NULL, &f, 0) == 0);
        CHECK_STR(sent(&f), "EVAL return 1 1 key arg");
    }
    tear_down(&f);
}

/* What a restarted server has loaded is asked for again by each handshake. */
static void loads_again_after_a_break(void)
{
    struct fixture f;
    set_up(&f);
    add_script(&f, "return 1");
    go_up(&f, 0);
    go_down(&f, RL_REFUSED, 5000, 0);
    node_connecting(&f.node, 5000);
    REQUIRE(node_connected(&f.node, 5000) == 0);
    CHECK_STR(sent(&f), ASKS "SCRIPT LOAD return 1; PING");
    CHECK_INT(f.node.loaded, 0);
    tear_down(&f);
}

static void scripts_come_later(void)
{
    struct fixture f;
    set_up(&f);
    add_script(&f, "return 1");
    REQUIRE(node_load(&f.node, 0, 0) == 0);      /* DOWN: the handshake will */
    CHECK_INT(buf_len(&f.node.out), 0);
    go_up(&f, 0);
    add_script(&f, "return 2");
    REQUIRE(node_load(&f.node, 1, 5) == 0);
    CHECK_STR(sent(&f), "SCRIPT LOAD return 2");
    REQUIRE(node_call(&f.node, 1, f.cmd, NULL, &f, 5) == 0);
    CHECK_STR(sent(&f), "EVAL return 2 1 key arg");      /* the sha is not known yet */
    feed(&f, "$40\r\n" SHA1 "\r\n:1\r\n");
    CHECK_INT(next(&f, 6), NODE_ANSWER);
    REQUIRE(node_call(&f.node, 1, f.cmd, NULL, &f, 6) == 0);
    CHECK_STR(sent(&f), "EVALSHA " SHA1 " 1 key arg");
    tear_down(&f);
}

/* node_load: "Queues SCRIPT LOAD when READY; else the handshake will." A handshake that
 * is under way has been written already. */
static void scripts_come_during_the_handshake(void)
{
    struct fixture f;
    set_up(&f);
    node_connecting(&f.node, 0);
    REQUIRE(node_connected(&f.node, 0) == 0);
    CHECK_STR(sent(&f), ASKS "PING");
    add_script(&f, "return 1");
    REQUIRE(node_load(&f.node, 0, 1) == 0);
    feed(&f, TELLS "+PONG\r\n");
    REQUIRE(next(&f, 2) == NODE_UP);
    CHECK_STR(sent(&f), "SCRIPT LOAD return 1");
    feed(&f, "$40\r\n" SHA0 "\r\n");
    CHECK_INT(next(&f, 3), NODE_IDLE);
    CHECK_INT(f.node.loaded, 1);
    tear_down(&f);
}

/* ---- health ---- */

static void hangs_after_one_time_out(void)
{
    struct fixture f;
    set_up(&f);
    add_script(&f, "return 1");
    go_up(&f, 0);
    CHECK(!health_hung(&f.node, 1 << 20));         /* nothing is awaited */
    REQUIRE(node_call(&f.node, 0, f.cmd, NULL, &f, 1000) == 0);
    REQUIRE(node_call(&f.node, 0, f.cmd, NULL, &f, 1200) == 0);
    CHECK(!health_hung(&f.node, 1249));
    CHECK(health_hung(&f.node, 1250));
    CHECK_INT(health_give_up_ms(&f.node), 2000);   /* 4 time-outs */
    feed(&f, ":1\r\n");
    CHECK_INT(next(&f, 1300), NODE_ANSWER);
    CHECK(!health_hung(&f.node, 1300));            /* the second one has its own time */
    CHECK(!health_hung(&f.node, 1549));             /* from the last answer on */
    CHECK(health_hung(&f.node, 1550));
    CHECK_INT(health_give_up_ms(&f.node), 2300);
    feed(&f, ":1\r\n");
    CHECK_INT(next(&f, 1500), NODE_ANSWER);
    CHECK(!health_hung(&f.node, 1 << 20));
    CHECK_INT(health_give_up_ms(&f.node), INT64_MAX);
    f.config.connect_timeout_ms = 5000;
    REQUIRE(node_call(&f.node, 0, f.cmd, NULL, &f, 2000) == 0);
    CHECK_INT(health_give_up_ms(&f.node), 7000);   /* not before a connect would be */
    tear_down(&f);
}

/* ---- going down ---- */

static void abandon_knows_what_was_written(void)
{
    struct fixture f;
    struct request request;
    set_up(&f);
    add_script(&f, "return 1");
    /* Cut at every byte of three requests. */
    for (size_t cut = 0;; cut++) {
        int owner[3], written;
        uint64_t start[3], end;
        test_note("%zu bytes written", cut);
        go_up(&f, 0);
        for (int i = 0; i < 3; i++) {
            start[i] = buf_offset(&f.node.out);
            REQUIRE(node_call(&f.node, 0, f.cmd, NULL, &owner[i], 0) == 0);
        }
        end = buf_offset(&f.node.out) - start[0];
        REQUIRE(cut <= end);
        buf_take(&f.node.out, cut);
        node_down(&f.node, RL_REFUSED, "cut", 5000, 0);
        for (int i = 0; i < 3; i++) {
            REQUIRE(node_abandon(&f.node, &request, &written) == 1);
            CHECK(request.owner == &owner[i]);
            CHECK_INT(request.kind, REQUEST_CALL);
            CHECK_INT(written, cut > start[i] - start[0]);
        }
        CHECK_INT(node_abandon(&f.node, &request, &written), 0);
        CHECK_INT(buf_len(&f.node.out), 0);
        if (cut == end)
            break;
    }
    tear_down(&f);
}

static void abandon_returns_the_handshake(void)
{
    struct fixture f;
    struct request request;
    int written;
    set_up(&f);
    f.config.password = "pw";
    node_connecting(&f.node, 0);
    REQUIRE(node_connected(&f.node, 0) == 0);
    node_down(&f.node, RL_TIMEOUT, "late", 1000, 0);
    CHECK_INT(f.node.code, RL_TIMEOUT);
    CHECK_STR(f.node.text, "late");
    REQUIRE(node_abandon(&f.node, &request, &written) == 1);
    CHECK_INT(request.kind, REQUEST_AUTH);
    CHECK_INT(written, 0);
    for (int i = 0; i < 5; i++)
        REQUIRE(node_abandon(&f.node, &request, &written) == 1);   /* INFO, TIME */
    REQUIRE(node_abandon(&f.node, &request, &written) == 1);
    CHECK_INT(request.kind, REQUEST_PING);
    CHECK_INT(node_abandon(&f.node, &request, &written), 0);
    node_connecting(&f.node, 1000);              /* ready to be connected again */
    tear_down(&f);
}

/* A silent server keeps what it is sent, on each connection: it gets little, until it says
 * something, whatever that is. */
static void silent_ones_are_asked_whether_they_are_there(void)
{
    struct fixture f;
    set_up(&f);
    f.config.password = "pw";
    node_connecting(&f.node, 0);
    REQUIRE(node_connected(&f.node, 0) == 0);
    CHECK_STR(sent(&f), "AUTH pw; " ASKS "PING");
    for (int64_t now_ms = 1000; now_ms < 9000; now_ms += 2000) {
        go_down(&f, RL_TIMEOUT, now_ms, 0);
        node_connecting(&f.node, now_ms);
        if (now_ms == 5000) {
            go_down(&f, RL_TIMEOUT, now_ms, 0);      /* no connection: nothing is known */
            node_connecting(&f.node, now_ms);
        }
        REQUIRE(node_connected(&f.node, now_ms) == 0);
        CHECK_STR(sent(&f), "PING");
    }
    feed(&f, "-NOAUTH Authentication required.\r\n");
    CHECK_INT(next(&f, 9000), NODE_HEARD);
    CHECK_INT(next(&f, 9000), NODE_IDLE);
    CHECK_INT(f.node.state, NODE_HANDSHAKE);
    REQUIRE(node_greet(&f.node, 9000) == 0);
    CHECK_STR(sent(&f), "AUTH pw; " ASKS "PING");
    feed(&f, "+OK\r\n" TELLS "+PONG\r\n");
    CHECK_INT(next(&f, 9000), NODE_UP);
    go_down(&f, RL_REFUSED, 9100, 0);                /* that is no silence */
    node_connecting(&f.node, 9200);
    REQUIRE(node_connected(&f.node, 9200) == 0);
    CHECK_STR(sent(&f), "AUTH pw; " ASKS "PING");
    tear_down(&f);
}

static void fail_once(struct fixture *f, int64_t now_ms, uint64_t random)
{
    node_connecting(&f->node, now_ms);
    go_down(f, RL_REFUSED, now_ms, random);
}

static void back_off_grows_to_a_bound(void)
{
    static const int wait_ms[] = {20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000};
    struct rng r = {test_seed()};
    struct fixture f;
    set_up(&f);
    for (int k = 0; k < 60; k++) {
        int mean = wait_ms[k < 10 ? k : 9];
        int64_t now_ms = 1000 * k;
        test_note("failure %d", k + 1);
        fail_once(&f, now_ms, rng_next(&r));
        int64_t wait = f.node.retry_ms - now_ms;
        CHECK(2 * wait >= mean && 2 * wait <= 3 * mean);
    }
    CHECK_INT(f.node.failures, 60);
    tear_down(&f);
}

static void back_off_has_jitter(void)
{
    int64_t least = INT64_MAX, most = 0, sum = 0;
    struct rng r = {test_seed()};
    enum { RUNS = 2000 };
    for (int k = 0; k < RUNS; k++) {
        struct fixture f;
        set_up(&f);
        for (int i = 0; i < 4; i++)      /* the fourth: 160 ms */
            fail_once(&f, 0, rng_next(&r));
        int64_t wait = f.node.retry_ms;
        least = wait < least ? wait : least;
        most = wait > most ? wait : most;
        sum += wait;
        tear_down(&f);
    }
    CHECK(least >= 80 && least < 90);
    CHECK(most <= 240 && most > 230);
    CHECK(sum / RUNS > 155 && sum / RUNS < 165);
}

static void stable_connections_start_afresh(void)
{
    struct fixture f;
    set_up(&f);
    for (int i = 0; i < 5; i++)
        fail_once(&f, 0, 0);
    go_up(&f, 1000);
    go_down(&f, RL_REFUSED, 1000 + NODE_STABLE_MS - 1, 0);
    CHECK_INT(f.node.failures, 6);               /* flapping is failing */
    CHECK(f.node.retry_ms > 2000);
    go_up(&f, 10000);
    go_down(&f, RL_REFUSED, 10000 + NODE_STABLE_MS, 0);
    CHECK_INT(f.node.failures, 0);
    CHECK_INT(f.node.retry_ms, 10000 + NODE_STABLE_MS);  /* at once */
    CHECK_INT(f.node.stats.disconnects, 7);
    tear_down(&f);
}

/* ---- the queue ---- */

static char *owner_of(int k)
{
    static char owners[1 << 18];
    return &owners[k & ((1 << 18) - 1)];
}

/* Takes n answers; they must be those of the requests from *first on. */
static void answer(struct fixture *f, int n, int *first)
{
    struct request request;
    for (int i = 0; i < n; i++) {
        feed(f, ":1\r\n");
        REQUIRE(node_next(&f->node, &request, 0) == NODE_ANSWER);
        REQUIRE(request.owner == owner_of((*first)++));
    }
}

static void ten_thousand_in_order(void)
{
    struct fixture f;
    struct rng r = {test_seed()};
    int asked = 0, answered = 0;
    set_up(&f);
    add_script(&f, "return 1");
    go_up(&f, 0);
    while (asked < 10000) {
        int n = rng_below(&r, 200);
        for (int i = 0; i < n; i++)
            REQUIRE(node_call(&f.node, 0, f.cmd, NULL, owner_of(asked++), 0) == 0);
        buf_take(&f.node.out, buf_len(&f.node.out));
        /* More are asked than answered, so that the ring grows while it wraps. */
        answer(&f, rng_below(&r, n / 2 + 1), &answered);
    }
    CHECK_INT(f.node.queue_len, asked - answered);
    answer(&f, asked - answered, &answered);
    CHECK_INT(next(&f, 0), NODE_IDLE);
    tear_down(&f);
}

static void queue_has_a_bound(void)
{
    struct fixture f;
    struct request request;
    int asked = 0, answered = 0, written;
    set_up(&f);
    add_script(&f, "return 1");
    go_up(&f, 0);
    while (asked < NODE_QUEUE_MAX) {
        REQUIRE(node_call(&f.node, 0, f.cmd, NULL, owner_of(asked++), 0) == 0);
        buf_take(&f.node.out, buf_len(&f.node.out));
    }
    CHECK_INT(node_call(&f.node, 0, f.cmd, NULL, NULL, 0), RL_OVERLOAD);
    CHECK_INT(node_load(&f.node, 0, 0), -1);
    CHECK_INT(buf_len(&f.node.out), 0);
    CHECK_INT(f.node.queue_len, NODE_QUEUE_MAX);
    answer(&f, 1, &answered);
    CHECK_INT(node_call(&f.node, 0, f.cmd, NULL, owner_of(asked++), 0), 0);
    CHECK_INT(node_call(&f.node, 0, f.cmd, NULL, NULL, 0), RL_OVERLOAD);
    node_down(&f.node, RL_REFUSED, "gone", 0, 0);
    while (node_abandon(&f.node, &request, &written))
        REQUIRE(request.owner == owner_of(answered++));
    CHECK_INT(answered, asked);
    tear_down(&f);
}

/* Many requests, and either no answer at all, or answers that are too late. */
static void falls_behind(void)
{
    struct fixture f;
    int asked = 0, answered = 0;
    set_up(&f);
    add_script(&f, "return 1");
    go_up(&f, 0);
    while (asked < NODE_BEHIND_MIN - 1)
        REQUIRE(node_call(&f.node, 0, f.cmd, NULL, owner_of(asked++), 1000) == 0);
    CHECK(!health_behind(&f.node, 1200));
    REQUIRE(node_call(&f.node, 0, f.cmd, NULL, owner_of(asked++), 1000) == 0);
    CHECK(!health_behind(&f.node, 1000 + NODE_PAUSE_MS - 1));
    CHECK(health_behind(&f.node, 1000 + NODE_PAUSE_MS));
    f.node.answered_ms = 1090;                   /* far away, and answers steadily */
    REQUIRE(node_call(&f.node, 0, f.cmd, NULL, owner_of(asked++), 1090) == 0);
    CHECK(!health_behind(&f.node, 1091));
    f.node.answered_ms = 1124;
    CHECK(!health_behind(&f.node, 1124));
    CHECK(health_behind(&f.node, 1125));           /* half of the time-out */
    answer(&f, 2, &answered);
    CHECK(!health_behind(&f.node, 1125));
    tear_down(&f);
}

/* A server that is far away has not stopped because a round trip is not over. */
static void far_is_not_behind(void)
{
    struct fixture f;
    struct request request;
    set_up(&f);
    add_script(&f, "return 1");
    go_up(&f, 0);
    for (int64_t now_ms = 1000; now_ms < 9000; now_ms += 100) {
        REQUIRE(node_call(&f.node, 0, f.cmd, NULL, NULL, now_ms) == 0);
        feed(&f, ":1\r\n");
        REQUIRE(node_next(&f.node, &request, now_ms + 40) == NODE_ANSWER);
    }
    for (int i = 0; i < NODE_BEHIND_MIN; i++)
        REQUIRE(node_call(&f.node, 0, f.cmd, NULL, NULL, 9000) == 0);
    CHECK(!health_behind(&f.node, 9060));
    CHECK(health_behind(&f.node, 9080));
    tear_down(&f);
}

SUITE(node, T(far_is_not_behind), T(falls_behind), T(silent_ones_are_asked_whether_they_are_there), T(shakes_hands), T(handshake_says_all), T(password_without_a_user),
      T(refused_handshakes), T(pardoned_handshakes), T(greeted_with_a_refusal),
      T(answers_come_in_order), T(unasked_answers_end_it), T(garbage_ends_it),
      T(input_of_the_last_connection_is_forgotten), T(eval_where_it_is_not_loaded),
      T(eval_where_loading_is_forbidden), T(loads_again_after_a_break),
      T(scripts_come_later), T(scripts_come_during_the_handshake),
      T(hangs_after_one_time_out), T(abandon_knows_what_was_written),
      T(abandon_returns_the_handshake), T(back_off_grows_to_a_bound),
      T(back_off_has_jitter), T(stable_connections_start_afresh),
      T(ten_thousand_in_order), T(queue_has_a_bound));
