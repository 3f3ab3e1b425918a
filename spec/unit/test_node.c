/* test_node.c - one server's conversation: what is sent, what answers do to it, how long
 * it is waited for. */
#include "node/health.h"

#include <string.h>

#include "node_fixture.h"

/* ---- going up ---- */

NODE_TEST(shakes_hands)
{
    CHECK_INT(f->node.state, NODE_DOWN);
    CHECK_INT(f->node.code, RL_REFUSED);
    node_connecting(&f->node, 100);
    CHECK_INT(f->node.state, NODE_CONNECTING);
    CHECK_INT(health_give_up_ms(&f->node), 1100);
    REQUIRE(node_connected(&f->node, 300) == 0);
    CHECK_INT(f->node.state, NODE_HANDSHAKE);
    CHECK_STR(sent(f), ASKS "PING");
    CHECK_INT(health_give_up_ms(&f->node), 1100);   /* name, TCP and handshake together */
    CHECK_INT(next(f, 300), NODE_IDLE);
    feed(f, TELLS "+PONG\r\n");
    CHECK_INT(next(f, 310), NODE_UP);
    CHECK_INT(f->node.state, NODE_READY);
    CHECK_INT(f->node.code, RL_OK);
    CHECK_INT(f->node.stats.connects, 1);
    CHECK_INT(next(f, 310), NODE_IDLE);
    CHECK_INT(health_give_up_ms(&f->node), INT64_MAX);
}

NODE_TEST(handshake_says_all)
{
    f->config.user = "app";
    f->config.password = "secret word";
    f->config.client_name = "redlock";
    f->config.db = 3;
    add_script(f, "return 1");
    add_script(f, "return 2");
    node_connecting(&f->node, 0);
    REQUIRE(node_connected(&f->node, 0) == 0);
    CHECK_STR(sent(f),
              "AUTH app secret word; SELECT 3; CLIENT SETNAME redlock; " ASKS
              "SCRIPT LOAD return 1; SCRIPT LOAD return 2; PING");
    const char *answers = "+OK\r\n+OK\r\n+OK\r\n" TELLS "$40\r\n" SHA0 "\r\n$40\r\n" SHA1
                          "\r\n+PONG\r\n";
    for (size_t i = 0; answers[i]; i++) {
        CHECK_INT(next(f, 5), NODE_IDLE);
        CHECK_INT(f->node.state, NODE_HANDSHAKE);
        REQUIRE(wire_feed(&f->node.wire, answers + i, 1) == 0);
    }
    CHECK_INT(next(f, 5), NODE_UP);
    CHECK(f->item[0]->at[0].loaded && f->item[1]->at[0].loaded);
    CHECK(!memcmp(f->item[0]->at[0].evalsha + SHA_AT, SHA0, SHA_LEN));
    CHECK(!memcmp(f->item[1]->at[0].evalsha + SHA_AT, SHA1, SHA_LEN));
}

NODE_TEST(password_without_a_user)
{
    f->config.password = "pw";
    node_connecting(&f->node, 0);
    REQUIRE(node_connected(&f->node, 0) == 0);
    CHECK_STR(sent(f), "AUTH pw; " ASKS "PING");
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

/* A server may quote what it was sent. */
static void quotes_no_password(void)
{
    static const struct { const char *answers, *text; } rows[] = {
        {"-WRONGPASS invalid pw\r\n", "AUTH: WRONGPASS"},
        {"-ERR unknown command 'AUTH', with args beginning with: 'pw'\r\n",
         "AUTH: ERR unknown command"},
        {"-pw\r\n", "AUTH: "},
        {"-PW0\r\n", "AUTH: "},
        {"-ERR max number of clients reached: pw\r\n",
         "ERR max number of clients reached"},
        {"+OK\r\n-NOAUTH pw\r\n", "NOAUTH"},
        {"+OK\r\n-PONG pw\r\n", "gone; it said: PONG"},
        {"HTTP/1.1 400 pw\r\n", "Protocol error, got \"H\" as reply type byte; "
         "it began with \"HTTP\""},
        {"pw\r\n", "Protocol error, got \"p\" as reply type byte; it began with \"\""},
        {"+OK\r\n" TELLS "+PONG\r\n-ERR pw\r\n",
         "it sent a reply without a request: ERR"},
    };
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        struct fixture f;
        test_note("%s", rows[k].answers);
        set_up(&f);
        f.config.password = "pw";
        node_connecting(&f.node, 0);
        REQUIRE(node_connected(&f.node, 0) == 0);
        feed(&f, rows[k].answers);
        enum node_event event;
        while ((event = next(&f, 0)) == NODE_UP)
            ;
        if (event == NODE_IDLE)
            go_down(&f, RL_REFUSED, 0, 0);
        CHECK_STR(f.node.text, rows[k].text);
        tear_down(&f);
    }
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

NODE_TEST(answers_come_in_order)
{
    struct request request;
    add_script(f, "return 1");
    go_up(f, 0);
    int owner[3];
    for (int i = 0; i < 3; i++)
        REQUIRE(node_call(&f->node, 0, f->cmd, NULL, &owner[i], 10 + i) == 0);
    CHECK_STR(sent(f), "EVALSHA " SHA0 " 1 key arg; EVALSHA " SHA0 " 1 key arg; "
                        "EVALSHA " SHA0 " 1 key arg");
    const char *answers = ":1\r\n-ERR two\r\n*2\r\n:3\r\n:4\r\n";
    int got = 0;
    for (size_t i = 0; answers[i]; i++) {
        REQUIRE(wire_feed(&f->node.wire, answers + i, 1) == 0);
        enum node_event event = node_next(&f->node, &request, 20);
        if (event == NODE_IDLE)
            continue;
        REQUIRE(event == NODE_ANSWER);
        CHECK(request.owner == &owner[got]);
        CHECK_INT(request.sent_ms, 10 + got);
        CHECK_INT(f->node.wire.reply.type,
                  got == 0 ? REPLY_INTEGER : got == 1 ? REPLY_ERROR : REPLY_ARRAY);
        got++;
    }
    CHECK_INT(got, 3);
    CHECK_INT(f->node.stats.requests, 3);
    CHECK_INT(f->node.stats.replies, 3);
    CHECK_INT(f->node.stats.errors, 1);
}

NODE_TEST(unasked_answers_end_it)
{
    go_up(f, 0);
    feed(f, "+OK\r\n");
    CHECK_INT(next(f, 1), NODE_FAILED);
    CHECK_INT(f->node.code, RL_PROTOCOL);
}

NODE_TEST(garbage_ends_it)
{
    add_script(f, "return 1");
    go_up(f, 0);
    REQUIRE(node_call(&f->node, 0, f->cmd, NULL, f, 0) == 0);
    feed(f, ":1\r\ngarbage\r\n");
    CHECK_INT(next(f, 1), NODE_ANSWER);
    CHECK_INT(next(f, 1), NODE_FAILED);
    CHECK_INT(f->node.code, RL_PROTOCOL);
}

NODE_TEST(input_of_the_last_connection_is_forgotten)
{
    add_script(f, "return 1");
    go_up(f, 0);
    REQUIRE(node_call(&f->node, 0, f->cmd, NULL, f, 0) == 0);
    feed(f, "$100\r\nhalf a rep");
    CHECK_INT(next(f, 1), NODE_IDLE);
    go_down(f, RL_REFUSED, 2000, 0);
    CHECK_INT(buf_len(&f->node.out), 0);
    go_up(f, 2000);
    CHECK_INT(f->node.stats.connects, 2);
}

/* ---- scripts ---- */

NODE_TEST(eval_where_it_is_not_loaded)
{
    add_script(f, "return 1");
    go_up(f, 0);
    node_unload(&f->node, 0);
    REQUIRE(node_call(&f->node, 0, f->cmd, NULL, f, 0) == 0);
    CHECK_STR(sent(f), "EVAL return 1 1 key arg");
    /* The sha is known, and EVAL loads the script as well. */
    REQUIRE(node_call(&f->node, 0, f->cmd, NULL, f, 0) == 0);
    CHECK_STR(sent(f), "EVALSHA " SHA0 " 1 key arg");
}

NODE_TEST(eval_where_loading_is_forbidden)
{
    add_script(f, "return 1");
    node_connecting(&f->node, 0);
    REQUIRE(node_connected(&f->node, 0) == 0);
    sent(f);
    feed(f, TELLS "-NOPERM no SCRIPT for you\r\n+PONG\r\n");
    REQUIRE(next(f, 0) == NODE_UP);
    for (int i = 0; i < 2; i++) {        /* the sha stays unknown */
        REQUIRE(node_call(&f->node, 0, f->cmd, NULL, f, 0) == 0);
        CHECK_STR(sent(f), "EVAL return 1 1 key arg");
    }
}

/* What a restarted server has loaded is asked for again by each handshake. */
NODE_TEST(loads_again_after_a_break)
{
    add_script(f, "return 1");
    go_up(f, 0);
    go_down(f, RL_REFUSED, 5000, 0);
    node_connecting(&f->node, 5000);
    REQUIRE(node_connected(&f->node, 5000) == 0);
    CHECK_STR(sent(f), ASKS "SCRIPT LOAD return 1; PING");
    CHECK(!f->item[0]->at[0].loaded);
}

NODE_TEST(scripts_come_later)
{
    add_script(f, "return 1");
    REQUIRE(node_load(&f->node, 0, 0) == 0);      /* DOWN: the handshake will */
    CHECK_INT(buf_len(&f->node.out), 0);
    go_up(f, 0);
    add_script(f, "return 2");
    REQUIRE(node_load(&f->node, 1, 5) == 0);
    CHECK_STR(sent(f), "SCRIPT LOAD return 2");
    REQUIRE(node_call(&f->node, 1, f->cmd, NULL, f, 5) == 0);
    CHECK_STR(sent(f), "EVAL return 2 1 key arg");      /* the sha is not known yet */
    feed(f, "$40\r\n" SHA1 "\r\n:1\r\n");
    CHECK_INT(next(f, 6), NODE_ANSWER);
    REQUIRE(node_call(&f->node, 1, f->cmd, NULL, f, 6) == 0);
    CHECK_STR(sent(f), "EVALSHA " SHA1 " 1 key arg");
}

/* node_load: "Queues SCRIPT LOAD when READY; else the handshake will." A handshake that
 * is under way has been written already. */
NODE_TEST(scripts_come_during_the_handshake)
{
    node_connecting(&f->node, 0);
    REQUIRE(node_connected(&f->node, 0) == 0);
    CHECK_STR(sent(f), ASKS "PING");
    add_script(f, "return 1");
    REQUIRE(node_load(&f->node, 0, 1) == 0);
    feed(f, TELLS "+PONG\r\n");
    REQUIRE(next(f, 2) == NODE_UP);
    CHECK_STR(sent(f), "SCRIPT LOAD return 1");
    feed(f, "$40\r\n" SHA0 "\r\n");
    CHECK_INT(next(f, 3), NODE_IDLE);
    CHECK(f->item[0]->at[0].loaded);
}

/* ---- health ---- */

NODE_TEST(hangs_after_one_time_out)
{
    add_script(f, "return 1");
    go_up(f, 0);
    CHECK(!health_hung(&f->node, 1 << 20));         /* nothing is awaited */
    REQUIRE(node_call(&f->node, 0, f->cmd, NULL, f, 1000) == 0);
    REQUIRE(node_call(&f->node, 0, f->cmd, NULL, f, 1200) == 0);
    CHECK(!health_hung(&f->node, 1249));
    CHECK(health_hung(&f->node, 1250));
    CHECK_INT(health_give_up_ms(&f->node), 2000);   /* 4 time-outs */
    feed(f, ":1\r\n");
    CHECK_INT(next(f, 1300), NODE_ANSWER);
    CHECK(!health_hung(&f->node, 1300));            /* the second one has its own time */
    CHECK(!health_hung(&f->node, 1549));             /* from the last answer on */
    CHECK(health_hung(&f->node, 1550));
    CHECK_INT(health_give_up_ms(&f->node), 2300);
    feed(f, ":1\r\n");
    CHECK_INT(next(f, 1500), NODE_ANSWER);
    CHECK(!health_hung(&f->node, 1 << 20));
    CHECK_INT(health_give_up_ms(&f->node), INT64_MAX);
    f->config.connect_timeout_ms = 5000;
    REQUIRE(node_call(&f->node, 0, f->cmd, NULL, f, 2000) == 0);
    CHECK_INT(health_give_up_ms(&f->node), 7000);   /* not before a connect would be */
}

SUITE(node, T(shakes_hands), T(handshake_says_all), T(password_without_a_user),
      T(refused_handshakes), T(quotes_no_password), T(pardoned_handshakes),
      T(greeted_with_a_refusal), T(answers_come_in_order), T(unasked_answers_end_it),
      T(garbage_ends_it),
      T(input_of_the_last_connection_is_forgotten), T(eval_where_it_is_not_loaded),
      T(eval_where_loading_is_forbidden), T(loads_again_after_a_break),
      T(scripts_come_later), T(scripts_come_during_the_handshake),
      T(hangs_after_one_time_out));
