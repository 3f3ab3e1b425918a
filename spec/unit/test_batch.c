/* test_batch.c - calls that go to a server as one, and their answers. */
#include "node_fixture.h"

#include "node/batch.h"

enum { ONE, MANY };

#define BATCH_TEST(name)                              \
    static void with_##name(struct fixture *f);       \
    static void name(void)                            \
    {                                                 \
        struct fixture f;                             \
        set_up(&f);                                   \
        begin(&f);                                    \
        with_##name(&f);                              \
        end(&f);                                      \
    }                                                 \
    static void with_##name(struct fixture *f)

static struct cmd *lease_of[BATCH_MAX + 1];
static char owner[BATCH_MAX + 1];

static void begin(struct fixture *f)
{
    char key[8], value[RL_VALUE_LEN + 1];
    add_script(f, "return 1");
    add_script(f, "return '1'");
    go_up(f, 0);
    for (int i = 0; i <= BATCH_MAX; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        snprintf(value, sizeof(value), "%040d", i);
        lease_of[i] = cmd_new_lease(&f->pool, &(rl_bytes){key, strlen(key)}, 1,
                                    (rl_bytes){value, RL_VALUE_LEN}, 1000 + i, -1,
                                    &(rl_bytes){"more", 4}, 1);
        REQUIRE(lease_of[i] != NULL);
    }
}

static void end(struct fixture *f)
{
    for (int i = 0; i <= BATCH_MAX; i++)
        cmd_unref(&f->pool, lease_of[i]);
    tear_down(f);
}

static void call_all(struct fixture *f, int first, int last, int64_t now_ms)
{
    for (int i = first; i <= last; i++)
        CHECK_INT(node_call_with(&f->node, MANY, ONE, lease_of[i], NULL, &owner[i], now_ms), 0);
    node_flush(&f->node);
}

/* The next answer is for that owner. */
static enum node_event next_for(struct fixture *f, int i, int64_t now_ms)
{
    struct request request;
    enum node_event event = node_next(&f->node, &request, now_ms);
    CHECK(request.owner == &owner[i]);
    return event;
}

#define V(n) "000000000000000000000000000000000000000" #n

BATCH_TEST(they_go_as_one)
{
    call_all(f, 0, 2, 5);
    CHECK_STR(sent(f), "EVALSHA " SHA1 " 3 k0 k1 k2 " V(0) " 1000 " V(1) " 1001 " V(2) " 1002");
    CHECK_INT(f->node.queue_len, 3);
    CHECK_INT(f->node.stats.requests, 3);
    feed(f, "$3\r\n101\r\n");
    CHECK_INT(next_for(f, 0, 9), NODE_ANSWER);
    CHECK_INT(f->node.wire.reply.type, REPLY_INTEGER);
    CHECK_INT(f->node.wire.reply.nums, 1);
    CHECK_INT(f->node.wire.reply.num[0], 1);
    CHECK_INT(next_for(f, 1, 9), NODE_ALONE);
    CHECK_INT(next_for(f, 2, 9), NODE_ANSWER);
    CHECK_INT(next(f, 9), NODE_IDLE);
    CHECK_INT(f->node.stats.replies, 3);
    CHECK_INT(f->node.stats.errors, 0);
}

BATCH_TEST(one_goes_as_ever)
{
    call_all(f, 7, 7, 5);
    CHECK_STR(sent(f), "EVALSHA " SHA0 " 1 k7 " V(7) " 1007 more");
    feed(f, ":0\r\n");
    CHECK_INT(next_for(f, 7, 9), NODE_ANSWER);
    CHECK_INT(f->node.wire.reply.num[0], 0);
}

BATCH_TEST(what_comes_behind_goes_behind)
{
    int later;
    CHECK_INT(node_call_with(&f->node, MANY, ONE, lease_of[0], NULL, &owner[0], 5), 0);
    CHECK_INT(node_call_with(&f->node, MANY, ONE, lease_of[1], NULL, &owner[1], 5), 0);
    CHECK_INT(node_call(&f->node, ONE, f->cmd, NULL, &later, 5), 0);
    CHECK_STR(sent(f), "EVALSHA " SHA1 " 2 k0 k1 " V(0) " 1000 " V(1) " 1001; "
                       "EVALSHA " SHA0 " 1 key arg");
    node_flush(&f->node);
    CHECK_STR(sent(f), "");
}

BATCH_TEST(no_more_than_the_most)
{
    call_all(f, 0, BATCH_MAX, 5);
    CHECK_INT(f->node.queue_len, BATCH_MAX + 1);
    char ones[BATCH_MAX + 16];
    int head = snprintf(ones, sizeof(ones), "$%d\r\n", BATCH_MAX);
    memset(ones + head, '1', BATCH_MAX);
    strcpy(ones + head + BATCH_MAX, "\r\n");
    feed(f, ones);
    for (int i = 0; i < BATCH_MAX; i++)
        CHECK_INT(next_for(f, i, 9), NODE_ANSWER);
    CHECK_INT(next(f, 9), NODE_IDLE);
    feed(f, ":1\r\n");
    CHECK_INT(next_for(f, BATCH_MAX, 9), NODE_ANSWER);
}

/* A server that refuses is asked for each alone, for a while. */
static void answers_to_all_may_be_none(void)
{
    static const struct {
        const char *answer;
        int apart, errors;
    } rows[] = {
        {"-NOPERM no\r\n", 1, 1},          /* a key may be forbidden */
        {"$3\r\n111\r\n", 1, 0},
        {"$0\r\n\r\n", 1, 0},
        {":1\r\n", 1, 0},
        {"-NOSCRIPT no\r\n", 0, 1},        /* it may be gone, and is sent again */
    };
    for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); k++) {
        struct fixture f;
        test_note("%s", rows[k].answer);
        set_up(&f);
        begin(&f);
        call_all(&f, 0, 1, 1000);
        sent(&f);
        feed(&f, rows[k].answer);
        CHECK_INT(next_for(&f, 0, 1001), NODE_ALONE);
        CHECK_INT(next_for(&f, 1, 1001), NODE_ALONE);
        CHECK_INT(f.node.stats.errors, rows[k].errors);
        call_all(&f, 0, 1, 1002);
        CHECK_INT(strstr(sent(&f), " 2 k0 k1") == NULL, rows[k].apart);
        call_all(&f, 0, 1, 11001);
        CHECK(strstr(sent(&f), " 2 k0 k1") != NULL);
        end(&f);
    }
}

BATCH_TEST(its_text_goes_with_it_then)
{
    call_all(f, 0, 1, 5);
    sent(f);
    feed(f, "-NOSCRIPT no\r\n");
    CHECK_INT(next_for(f, 0, 6), NODE_ALONE);
    CHECK_INT(next_for(f, 1, 6), NODE_ALONE);
    call_all(f, 0, 1, 7);
    CHECK_STR(sent(f), "EVAL return '1' 2 k0 k1 " V(0) " 1000 " V(1) " 1001");
    call_all(f, 2, 2, 7);
    CHECK(!strncmp(sent(f), "EVALSHA " SHA0, 48));      /* that of one is there still */
}

BATCH_TEST(a_connection_may_break)
{
    struct request request;
    int written;
    call_all(f, 0, 1, 5);
    sent(f);
    call_all(f, 2, 3, 5);
    CHECK_INT(node_call_with(&f->node, MANY, ONE, lease_of[4], NULL, &owner[4], 5), 0);
    node_down(&f->node, RL_REFUSED, "gone", 6, 0);
    for (int i = 0; i < 5; i++) {
        REQUIRE(node_abandon(&f->node, &request, &written));
        CHECK(request.owner == &owner[i]);
        CHECK_INT(written, i < 2);
    }
    CHECK(!node_abandon(&f->node, &request, &written));
}

BATCH_TEST(half_an_answer_given_out_is_torn)
{
    struct request request;
    int written;
    call_all(f, 0, 1, 5);
    sent(f);
    feed(f, "$2\r\n11\r\n");
    CHECK_INT(next_for(f, 0, 6), NODE_ANSWER);
    node_down(&f->node, RL_REFUSED, "gone", 6, 0);
    REQUIRE(node_abandon(&f->node, &request, &written));
    CHECK(request.owner == &owner[1] && written);
    CHECK(!node_abandon(&f->node, &request, &written));
    go_up(f, 2000);
    CHECK_INT(next(f, 2001), NODE_IDLE);
}

SUITE(batch, T(they_go_as_one), T(one_goes_as_ever), T(what_comes_behind_goes_behind),
      T(no_more_than_the_most), T(answers_to_all_may_be_none),
      T(its_text_goes_with_it_then), T(a_connection_may_break),
      T(half_an_answer_given_out_is_torn));
