/* test_answer.c - what a node says instead of a vote. */
#include <stdio.h>
#include <string.h>

#include "core/rounds/query.h"
#include "sim.h"

/* ---- what a node says instead of a vote ---- */

static void says(const char *answer, int code)
{
    struct sim *s = sim_up(3);
    test_note("%.40s", answer);
    s->server[1].say[SIM_ACQUIRE] = answer;
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    for (int i = 1; i >= 0; i--) {
        sim_serve(s, i);
        sim_execute(s, i, 1);
        sim_deliver(s, i, SIZE_MAX);
    }
    CHECK_INT(h.round->outcome, RL_OK);
    CHECK_INT(h.round->slot[1].state, SLOT_MISSING);
    CHECK_INT(h.round->slot[1].code, code);
    CHECK(s->core.nodes[1].text[0] || h.round->slot[1].why);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);     /* the other two are enough */
    sim_end(h.round);
    CHECK_INT(s->server[1].opened, 1);           /* no reason to hang up */
    sim_clear_logs(s);
    CHECK_INT(holder_release(h.lease, s->now_ms)->outcome, RL_OK);
    sim_run(s);
    CHECK_INT(sim_end(h.lease->release), RL_GRANTED);
    sim_logs_are(s, "R");                        /* it may have been set even so */
    sim_finish(s);
}

static void errors_are_no_votes(void)
{
    says("-OOM command not allowed when used memory > 'maxmemory'.\r\n", RL_OOM);
    says("-READONLY You can't write against a read only replica.\r\n", RL_READONLY);
    says("-MISCONF Redis is configured to save RDB snapshots\r\n", RL_READONLY);
    says("-LOADING Redis is loading the dataset in memory\r\n", RL_LOADING);
    says("-BUSY Redis is busy running a script.\r\n", RL_LOADING);
    says("-NOPERM this user has no permissions\r\n", RL_NOPERM);
    says("-NOAUTH Authentication required.\r\n", RL_AUTH);
    says("-ERR unknown command 'EVALSHA'\r\n", RL_UNSUPPORTED);
    says("-WRONGTYPE Operation against a key\r\n", RL_SCRIPT);
}

static void rubbish_is_no_vote(void)
{
    says("+OK\r\n", RL_PROTOCOL);
    says("$2\r\nhi\r\n", RL_PROTOCOL);
    says("$-1\r\n", RL_PROTOCOL);
    says("*0\r\n", RL_PROTOCOL);
    says("*1\r\n$1\r\n1\r\n", RL_PROTOCOL);
    says(":3\r\n", RL_PROTOCOL);
    says(":-2\r\n", RL_PROTOCOL);
    says(":4294967297\r\n", RL_PROTOCOL);        /* 1, if cut to 32 bits */
    says(":9223372036854775807\r\n", RL_PROTOCOL);
}

/* Somebody has it, or nobody can know: the two must not be mixed up. */
static void refused_or_unanswered(int refused, int down, int outcome)
{
    struct sim *s = sim_up(5);
    test_note("%d refused, %d down", refused, down);
    for (int i = 0; i < down; i++) {
        sim_leave(s, i);
    }
    for (int i = down; i < down + refused; i++)
        sim_put(s, i, "k", 9000);
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_wait(s, h.round, 2000), outcome);
    CHECK_INT(sim_mine(s, "k", h.lease), outcome == RL_GRANTED ? 7 << (5 - 3) : 0);
    sim_finish(s);
}

static void held_is_not_no_quorum(void)
{
    refused_or_unanswered(2, 0, RL_GRANTED);
    refused_or_unanswered(0, 2, RL_GRANTED);
    refused_or_unanswered(3, 0, RL_HELD);
    refused_or_unanswered(1, 2, RL_HELD);
    refused_or_unanswered(3, 2, RL_HELD);
    refused_or_unanswered(0, 3, RL_NO_QUORUM);
    refused_or_unanswered(2, 3, RL_NO_QUORUM);
}

/* A majority says something, but not yes, and nobody holds it: that is no quorum. */
SIM_TEST(a_majority_of_errors, sim_up(5))
{
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_ACQUIRE] = "-OOM command not allowed\r\n";
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_OOM);
    CHECK_INT(sim_with(s, "k"), 0);
    sim_logs_are(s, "AR");
}

/* Nodes whose key holds something else, with `down` others that do not answer. */
static void no_lock(int others, int down, int margin, int outcome)
{
    struct sim *s = sim_up(5);
    test_note("%d others, %d down, margin %d", others, down, margin);
    s->core.options.margin = margin;
    for (int i = 0; i < down; i++)
        sim_leave(s, i);
    for (int i = down; i < down + others; i++)
        s->server[i].say[SIM_ACQUIRE] = s->server[i].say[SIM_ASK] =
            "-NOTALOCK the key k holds a list\r\n";
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_wait(s, h.round, 2000), outcome);
    for (int i = down; i < down + others && outcome == RL_NOT_A_LOCK; i++)
        CHECK(!strcmp(s->core.nodes[i].text, "the key k holds a list"));
    rl_bytes key = {"k", 1};
    rl_round *round =
        query_ask(&s->core, RL_ASK_MAJORITY, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms);
    CHECK_INT(sim_wait(s, round, 2000) == RL_NOT_A_LOCK,
              others > 5 - quorum_size(5));        /* a question has no margin */
    round_free(round);
    sim_finish(s);
}

static void other_keys_are_told_where_they_decide(void)
{
    no_lock(2, 0, 0, RL_GRANTED);
    no_lock(2, 0, 1, RL_NOT_A_LOCK);
    no_lock(3, 0, 0, RL_NOT_A_LOCK);
    no_lock(3, 2, 0, RL_NOT_A_LOCK);
    no_lock(2, 1, 0, RL_NO_QUORUM);
    no_lock(1, 2, 0, RL_NO_QUORUM);
}

/* A server that answers "it was mine already" to the first request is the same server
 * as another one. */
SIM_TEST(one_server_under_two_addresses, sim_up(3))
{
    s->server[1].say[SIM_ACQUIRE] = s->server[2].say[SIM_ACQUIRE] = ":2\r\n";
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_CONFIG);
    CHECK_INT(h.round->tally.yes, 1);
    CHECK_INT(h.round->slot[0].code, RL_OK);
    CHECK_INT(h.round->slot[1].code, RL_CONFIG);
    CHECK_INT(h.round->slot[1].why, RL_WHY_TWIN);
    CHECK_INT(sim_with(s, "k"), 0);
    sim_logs_are(s, "AR");
}

SIM_TEST(keeps_what_a_script_says, sim_up(3))
{
    s->server[1].say[SIM_ACQUIRE] = "*3\r\n:1\r\n:42\r\n$5\r\nhello\r\n";
    struct hold h = sim_acquire(s, "k", 5000, 1000);
    sim_serve(s, 1);
    sim_execute(s, 1, 1);
    sim_deliver(s, 1, SIZE_MAX);
    const struct slot *slot = &h.round->slot[1];
    CHECK_INT(slot->vote, RL_VOTE_YES);
    CHECK_INT(slot->extra, 42);
    CHECK_INT(slot->data_len, 5);
    CHECK(!memcmp(slot->data, "hello", 5));
    sim_run(s);
}

/* What is too long for a slot is kept beside it. */
SIM_TEST(keeps_long_answers, sim_up(3))
{
    static const char card[] = "0123456789abcdef0123 19ab0000000 web-1: invoice 42";
    char alike[160], other[160];
    snprintf(alike, sizeof(alike), "*3\r\n:0\r\n:42\r\n$%zu\r\n%s\r\n", strlen(card),
             card);
    snprintf(other, sizeof(other), "*3\r\n:0\r\n:42\r\n$%zu\r\nx%s\r\n",
             strlen(card), card + 1);
    s->server[0].say[SIM_ASK] = s->server[2].say[SIM_ASK] = alike;
    s->server[1].say[SIM_ASK] = other;
    rl_bytes key = {"k", 1};
    rl_round *round = query_ask(&s->core, RL_ASK_EACH, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms);
    CHECK_INT(sim_outcome(s, round), RL_GRANTED);
    CHECK(!memcmp(round_data(&round->slot[0]), card, strlen(card)));
    CHECK(round_data(&round->slot[1])[0] == 'x');
    CHECK(!memcmp(round_data(&round->slot[2]), card, strlen(card)));
}

SUITE(answer, T(errors_are_no_votes), T(rubbish_is_no_vote), T(held_is_not_no_quorum),
      T(a_majority_of_errors), T(other_keys_are_told_where_they_decide),
      T(one_server_under_two_addresses),
      T(keeps_what_a_script_says), T(keeps_long_answers));
