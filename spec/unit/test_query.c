/* test_query.c - questions to all nodes, and pauses. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

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
        query_ask(&s->core, RL_ASK_EACH, SIM_ASK, &key, 1, NULL, 0, 10000, s->now_ms);
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
    CHECK(query_ask(&s->core, RL_ASK_EACH, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms) == NULL);
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
    CHECK(!memcmp(round_data(&round->slot[0]), cmd_value(lease->cmd).data, RL_VALUE_LEN));
}

/* What is said at length is kept in full, of the node that was asked; nobody else is. */
SIM_TEST(question_to_one, sim_up(3))
{
    enum { LEN = 5000 };
    static char text[LEN + 64];
    int len = snprintf(text, sizeof(text), "*3\r\n:1\r\n:7\r\n$%d\r\n%0*d\r\n", LEN, LEN, 9);
    CHECK(len < (int)sizeof(text));
    s->server[1].say[SIM_ASK] = text;
    rl_bytes key = {"k", 1};
    int64_t before = s->core.nodes[0].stats.requests;
    rl_round *round =
        query_ask(&s->core, 1, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms);
    CHECK_INT(sim_outcome(s, round), RL_GRANTED);
    CHECK_INT(round->slot[1].state, SLOT_ANSWERED);
    CHECK_INT(round->slot[1].extra, 7);
    CHECK_INT(round->slot[1].data_len, LEN);
    CHECK_INT(round_data(&round->slot[1])[LEN - 1], '9');
    CHECK_INT(round->slot[0].state, SLOT_IDLE);
    CHECK_INT(s->core.nodes[0].stats.requests, before);
    sim_end(round);
    s->server[1].say[SIM_ASK] = NULL;
    s->server[2].frozen = 1;
    int64_t t0 = s->now_ms;
    round = query_ask(&s->core, 2, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms);
    sim_wait(s, round, 1000);
    CHECK_INT(round->outcome, RL_GRANTED);
    CHECK_INT(s->now_ms - t0, SIM_TIMEOUT_MS);
    CHECK_INT(round->slot[2].code, RL_TIMEOUT);
    sim_end(round);
    CHECK(!query_ask(&s->core, 3, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms));
    CHECK(!query_ask(&s->core, RL_ASK_EACH - 1, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms));
    for (int whom = RL_ASK_EACH; whom < 0; whom++)       /* only a single node has such a list */
        CHECK(!query_ask(&s->core, whom, RL_CLIENT_LIST, NULL, 0, NULL, 0, 1000, s->now_ms));
}

/* ---- pauses ---- */

SIM_TEST(sleeps, sim_new(3))
{
    rl_round *a = subscription_pause(&s->core, NULL, 0, 100, s->now_ms);
    rl_round *b = subscription_pause(&s->core, NULL, 0, 50, s->now_ms);
    rl_round *c = subscription_pause(&s->core, NULL, 0, 0, s->now_ms);
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
    rl_round *dropped = subscription_pause(&s->core, NULL, 0, 100, s->now_ms);
    round_notify(dropped);
    round_free(dropped);
    CHECK_INT(sim_live(s), 0);           /* nor is it there any more */
    CHECK(round_next(&s->core) == NULL);
    CHECK_INT(s->server[0].opened, 0);   /* it asks nobody */
}

SUITE(query, T(questions_to_all_wait_for_all), T(questions_find_the_majority),
      T(questions_compare_the_data), T(questions_end_in_time),
      T(question_sees_the_holder), T(question_to_one), T(sleeps));
