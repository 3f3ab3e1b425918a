/* test_node_down.c - how a node goes down and comes back, and its queue. */
#include "node/health.h"

#include "node_fixture.h"

/* ---- going down ---- */

NODE_TEST(abandon_knows_what_was_written)
{
    struct request request;
    add_script(f, "return 1");
    /* Cut at every byte of three requests. */
    for (size_t cut = 0;; cut++) {
        int owner[3], written;
        uint64_t start[3], end;
        test_note("%zu bytes written", cut);
        go_up(f, 0);
        for (int i = 0; i < 3; i++) {
            start[i] = buf_offset(&f->node.out);
            REQUIRE(node_call(&f->node, 0, f->cmd, NULL, &owner[i], 0) == 0);
        }
        end = buf_offset(&f->node.out) - start[0];
        REQUIRE(cut <= end);
        buf_take(&f->node.out, cut);
        node_down(&f->node, RL_REFUSED, "cut", 5000, 0);
        for (int i = 0; i < 3; i++) {
            REQUIRE(node_abandon(&f->node, &request, &written) == 1);
            CHECK(request.owner == &owner[i]);
            CHECK_INT(request.kind, REQUEST_CALL);
            CHECK_INT(written, cut > start[i] - start[0]);
        }
        CHECK_INT(node_abandon(&f->node, &request, &written), 0);
        CHECK_INT(buf_len(&f->node.out), 0);
        if (cut == end)
            break;
    }
}

NODE_TEST(abandon_returns_the_handshake)
{
    struct request request;
    int written;
    f->config.password = "pw";
    node_connecting(&f->node, 0);
    REQUIRE(node_connected(&f->node, 0) == 0);
    node_down(&f->node, RL_TIMEOUT, "late", 1000, 0);
    CHECK_INT(f->node.code, RL_TIMEOUT);
    CHECK_STR(f->node.text, "late");
    REQUIRE(node_abandon(&f->node, &request, &written) == 1);
    CHECK_INT(request.kind, REQUEST_AUTH);
    CHECK_INT(written, 0);
    for (int i = 0; i < 5; i++)
        REQUIRE(node_abandon(&f->node, &request, &written) == 1);   /* INFO, TIME */
    REQUIRE(node_abandon(&f->node, &request, &written) == 1);
    CHECK_INT(request.kind, REQUEST_PING);
    CHECK_INT(node_abandon(&f->node, &request, &written), 0);
    node_connecting(&f->node, 1000);              /* ready to be connected again */
}

/* A silent server keeps what it is sent, on each connection: it gets little, until it says
 * something, whatever that is. */
NODE_TEST(silent_ones_are_asked_whether_they_are_there)
{
    f->config.password = "pw";
    node_connecting(&f->node, 0);
    REQUIRE(node_connected(&f->node, 0) == 0);
    CHECK_STR(sent(f), "AUTH pw; " ASKS "PING");
    for (int64_t now_ms = 1000; now_ms < 9000; now_ms += 2000) {
        go_down(f, RL_TIMEOUT, now_ms, 0);
        node_connecting(&f->node, now_ms);
        if (now_ms == 5000) {
            go_down(f, RL_TIMEOUT, now_ms, 0);      /* no connection: nothing is known */
            node_connecting(&f->node, now_ms);
        }
        REQUIRE(node_connected(&f->node, now_ms) == 0);
        CHECK_STR(sent(f), "PING");
    }
    feed(f, "-NOAUTH Authentication required.\r\n");
    CHECK_INT(next(f, 9000), NODE_HEARD);
    CHECK_INT(next(f, 9000), NODE_IDLE);
    CHECK_INT(f->node.state, NODE_HANDSHAKE);
    REQUIRE(node_greet(&f->node, 9000) == 0);
    CHECK_STR(sent(f), "AUTH pw; " ASKS "PING");
    feed(f, "+OK\r\n" TELLS "+PONG\r\n");
    CHECK_INT(next(f, 9000), NODE_UP);
    go_down(f, RL_REFUSED, 9100, 0);                /* that is no silence */
    node_connecting(&f->node, 9200);
    REQUIRE(node_connected(&f->node, 9200) == 0);
    CHECK_STR(sent(f), "AUTH pw; " ASKS "PING");
}

static void fail_once(struct fixture *f, int64_t now_ms, uint64_t random)
{
    node_connecting(&f->node, now_ms);
    go_down(f, RL_REFUSED, now_ms, random);
}

NODE_TEST(back_off_grows_to_a_bound)
{
    static const int wait_ms[] = {20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000};
    struct rng r = {test_seed()};
    for (int k = 0; k < 60; k++) {
        int mean = wait_ms[k < 10 ? k : 9];
        int64_t now_ms = 1000 * k;
        test_note("failure %d", k + 1);
        fail_once(f, now_ms, rng_next(&r));
        int64_t wait = f->node.retry_ms - now_ms;
        CHECK(2 * wait >= mean && 2 * wait <= 3 * mean);
    }
    CHECK_INT(f->node.failures, 60);
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

NODE_TEST(stable_connections_start_afresh)
{
    for (int i = 0; i < 5; i++)
        fail_once(f, 0, 0);
    go_up(f, 1000);
    go_down(f, RL_REFUSED, 1000 + NODE_STABLE_MS - 1, 0);
    CHECK_INT(f->node.failures, 6);               /* flapping is failing */
    CHECK(f->node.retry_ms > 2000);
    go_up(f, 10000);
    go_down(f, RL_REFUSED, 10000 + NODE_STABLE_MS, 0);
    CHECK_INT(f->node.failures, 0);
    CHECK_INT(f->node.retry_ms, 10000 + NODE_STABLE_MS);  /* at once */
    CHECK_INT(f->node.stats.disconnects, 7);
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

NODE_TEST(ten_thousand_in_order)
{
    struct rng r = {test_seed()};
    int asked = 0, answered = 0;
    add_script(f, "return 1");
    go_up(f, 0);
    while (asked < 10000) {
        int n = rng_below(&r, 200);
        for (int i = 0; i < n; i++)
            REQUIRE(node_call(&f->node, 0, f->cmd, NULL, owner_of(asked++), 0) == 0);
        buf_take(&f->node.out, buf_len(&f->node.out));
        /* More are asked than answered, so that the ring grows while it wraps. */
        answer(f, rng_below(&r, n / 2 + 1), &answered);
    }
    CHECK_INT(f->node.queue_len, asked - answered);
    answer(f, asked - answered, &answered);
    CHECK_INT(next(f, 0), NODE_IDLE);
}

NODE_TEST(queue_has_a_bound)
{
    struct request request;
    int asked = 0, answered = 0, written;
    add_script(f, "return 1");
    go_up(f, 0);
    while (asked < NODE_QUEUE_MAX) {
        REQUIRE(node_call(&f->node, 0, f->cmd, NULL, owner_of(asked++), 0) == 0);
        buf_take(&f->node.out, buf_len(&f->node.out));
    }
    CHECK_INT(node_call(&f->node, 0, f->cmd, NULL, NULL, 0), RL_OVERLOAD);
    CHECK_INT(node_load(&f->node, 0, 0), -1);
    CHECK_INT(buf_len(&f->node.out), 0);
    CHECK_INT(f->node.queue_len, NODE_QUEUE_MAX);
    answer(f, 1, &answered);
    CHECK_INT(node_call(&f->node, 0, f->cmd, NULL, owner_of(asked++), 0), 0);
    CHECK_INT(node_call(&f->node, 0, f->cmd, NULL, NULL, 0), RL_OVERLOAD);
    node_down(&f->node, RL_REFUSED, "gone", 0, 0);
    while (node_abandon(&f->node, &request, &written))
        REQUIRE(request.owner == owner_of(answered++));
    CHECK_INT(answered, asked);
}

/* Many requests, and either no answer at all, or answers that are too late. */
NODE_TEST(falls_behind)
{
    int asked = 0, answered = 0;
    add_script(f, "return 1");
    go_up(f, 0);
    while (asked < NODE_BEHIND_MIN - 1)
        REQUIRE(node_call(&f->node, 0, f->cmd, NULL, owner_of(asked++), 1000) == 0);
    CHECK(!health_behind(&f->node, 1200));
    REQUIRE(node_call(&f->node, 0, f->cmd, NULL, owner_of(asked++), 1000) == 0);
    CHECK(!health_behind(&f->node, 1000 + NODE_PAUSE_MS - 1));
    CHECK(health_behind(&f->node, 1000 + NODE_PAUSE_MS));
    f->node.answered_ms = 1090;                   /* far away, and answers steadily */
    REQUIRE(node_call(&f->node, 0, f->cmd, NULL, owner_of(asked++), 1090) == 0);
    CHECK(!health_behind(&f->node, 1091));
    f->node.answered_ms = 1124;
    CHECK(!health_behind(&f->node, 1124));
    CHECK(health_behind(&f->node, 1125));           /* half of the time-out */
    answer(f, 2, &answered);
    CHECK(!health_behind(&f->node, 1125));
}

/* A server that is far away has not stopped because a round trip is not over. */
NODE_TEST(far_is_not_behind)
{
    struct request request;
    add_script(f, "return 1");
    go_up(f, 0);
    for (int64_t now_ms = 1000; now_ms < 9000; now_ms += 100) {
        REQUIRE(node_call(&f->node, 0, f->cmd, NULL, NULL, now_ms) == 0);
        feed(f, ":1\r\n");
        REQUIRE(node_next(&f->node, &request, now_ms + 40) == NODE_ANSWER);
    }
    for (int i = 0; i < NODE_BEHIND_MIN; i++)
        REQUIRE(node_call(&f->node, 0, f->cmd, NULL, NULL, 9000) == 0);
    CHECK(!health_behind(&f->node, 9060));
    CHECK(health_behind(&f->node, 9080));
}

/* The more is unanswered, the less silence it takes; but a pause it must be. */
static void the_longer_the_queue_the_shorter_the_pause(void)
{
    static const struct { int asked, silent_ms; } rows[] = {
        {NODE_BEHIND_MIN, NODE_PAUSE_MS},
        {2 * NODE_BEHIND_MIN, NODE_PAUSE_MS / 2},
        {20 * NODE_BEHIND_MIN, NODE_PAUSE_MIN_MS},
    };
    for (size_t row = 0; row < sizeof(rows) / sizeof(*rows); row++) {
        struct fixture f;
        struct request request;
        int written;
        set_up(&f);
        add_script(&f, "return 1");
        go_up(&f, 0);
        for (int i = 0; i < rows[row].asked; i++)
            REQUIRE(node_call(&f.node, 0, f.cmd, NULL, NULL, 1000) == 0);
        CHECK(!health_behind(&f.node, 1000 + rows[row].silent_ms - 1));
        CHECK(health_behind(&f.node, 1000 + rows[row].silent_ms));
        node_down(&f.node, RL_REFUSED, "gone", 2000, 0);
        while (node_abandon(&f.node, &request, &written))
            ;
        tear_down(&f);
    }
}

SUITE(node_down, T(the_longer_the_queue_the_shorter_the_pause), T(far_is_not_behind), T(falls_behind),
      T(silent_ones_are_asked_whether_they_are_there),
      T(abandon_knows_what_was_written), T(abandon_returns_the_handshake),
      T(back_off_grows_to_a_bound), T(back_off_has_jitter),
      T(stable_connections_start_afresh), T(ten_thousand_in_order),
      T(queue_has_a_bound));
