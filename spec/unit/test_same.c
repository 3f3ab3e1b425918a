/* test_same.c - votes that name a number: only equal ones make a majority. Questions that
 * only nodes may answer that may vote; and what is kept of long answers. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

static const char *const grants[] = {NULL, "*2\r\n:1\r\n:1\r\n", "*2\r\n:1\r\n:2\r\n",
                                     "*2\r\n:1\r\n:3\r\n"};

/* Attempts of which the nodes grant these numbers; 0: refused; -1: no answer. */
static void same_outcome(int n, const int *numbers, int outcome, int64_t token)
{
    struct sim *s = sim_up(n);
    s->primitive.rule = RL_RULE_SAME;
    for (int i = 0; i < n; i++) {
        s->server[i].say[SIM_ACQUIRE] = numbers[i] > 0 ? grants[numbers[i]] : ":0\r\n";
        s->server[i].frozen = numbers[i] < 0;
    }
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    sim_wait(s, h.round, outcome == RL_NO_QUORUM ? 1000 : 2 * NODE_PAUSE_MS);
    CHECK_INT(h.round->outcome, outcome);      /* where a majority has answered, soon */
    CHECK_INT(h.lease->token, token);
    sim_finish(s);
}

static void equal_numbers_make_a_majority(void)
{
    same_outcome(3, (int[]){2, 2, 2}, RL_GRANTED, 2);
    same_outcome(3, (int[]){1, 2, 2}, RL_GRANTED, 2);
    same_outcome(5, (int[]){1, 2, 1, 2, 1}, RL_GRANTED, 1);
    same_outcome(3, (int[]){2, -1, 2}, RL_GRANTED, 2);
}

static void different_numbers_are_not_added_up(void)
{
    same_outcome(3, (int[]){1, 2, 3}, RL_HELD, 0);
    same_outcome(4, (int[]){1, 1, 2, 2}, RL_HELD, 0);
    same_outcome(5, (int[]){1, 1, 2, 2, 3}, RL_HELD, 0);
    same_outcome(3, (int[]){1, 2, 0}, RL_HELD, 0);
    same_outcome(3, (int[]){1, 2, -1}, RL_HELD, 0);
    same_outcome(3, (int[]){1, -1, -1}, RL_NO_QUORUM, 0);
    same_outcome(2, (int[]){1, 2}, RL_HELD, 0);
}

/* A number that is none is no vote. */
SIM_TEST(a_grant_names_a_number, sim_up(3))
{
    s->primitive.rule = RL_RULE_SAME;
    s->server[0].say[SIM_ACQUIRE] = ":1\r\n";
    s->server[1].say[SIM_ACQUIRE] = "*2\r\n:1\r\n:0\r\n";
    s->server[2].say[SIM_ACQUIRE] = "*2\r\n:1\r\n:-4\r\n";
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_NO_QUORUM);
    for (int i = 0; i < 2; i++)
        CHECK_INT(h.round->slot[i].code, RL_PROTOCOL);
}

/* The release goes out with the number; with none where none was agreed upon. */
SIM_TEST(the_number_goes_with_all_that_follows, sim_up(3))
{
    s->primitive.rule = RL_RULE_SAME;
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_ACQUIRE] = grants[3];
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    CHECK(memmem(h.lease->cmd->bytes, h.lease->cmd->len, "$1\r\n0\r\n", 7) != NULL);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    const struct cmd *after[] = {h.lease->cmd, h.lease->release->cmd};
    for (int k = 0; k < 2; k++) {
        CHECK(memmem(after[k]->bytes, after[k]->len, "$1\r\n3\r\n", 7) != NULL);
        CHECK(memmem(after[k]->bytes, after[k]->len, "$1\r\n0\r\n", 7) == NULL);
    }
}

/* A node with another number, or none, is asked for the one that was agreed upon, at once: in
 * time, and late. */
static void strays_are_mended(void)
{
    for (int how = 0; how < 4; how++) {
        struct sim *s = sim_up(3);
        test_note("%d", how);
        s->primitive.rule = RL_RULE_SAME;
        s->primitive.heal = SIM_HEAL;
        for (int i = 0; i < 3; i++)
            s->server[i].say[SIM_ACQUIRE] = grants[2];
        s->server[0].say[SIM_ACQUIRE] = how & 1 ? ":0\r\n" : grants[1];
        s->server[0].frozen = how >> 1;
        struct hold h = sim_acquire(s, "k", 30000, 1000);
        CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
        s->server[0].frozen = 0;
        sim_run(s);
        for (int i = 0; i < 3; i++)
            CHECK_INT(memchr(s->server[i].log, 'H', s->server[i].logged) != NULL ||
                          s->server[i].logged > 1, i == 0);
        sim_finish(s);
    }
}

/* The answer of a server that is late may show a stray, so somebody must read it. */
SIM_TEST(a_late_grant_keeps_the_client_busy, sim_up(3))
{
    s->primitive.rule = RL_RULE_SAME;
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_ACQUIRE] = grants[1];
    s->server[2].frozen = 1;
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    sim_wait(s, h.round, 1000);
    CHECK_INT(h.round->outcome, RL_GRANTED);
    sim_run(s);
    CHECK(core_busy(&s->core));
    s->server[2].frozen = 0;
    sim_run(s);
    CHECK(!core_busy(&s->core));
}

SIM_TEST(home_picks_the_number, sim_up(3))
{
    s->primitive.rule = RL_RULE_SAME;
    s->gate = 1;
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_ACQUIRE] = grants[3];
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK(memmem(h.round->cmd->bytes, h.round->cmd->len, "$1\r\n3\r\n", 7) != NULL);
}

/* Who imports one gets its number, and no other. */
SIM_TEST(an_import_keeps_the_number, sim_up(3))
{
    s->primitive.rule = RL_RULE_SAME;
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_ACQUIRE] = grants[3];
    struct parcel p = sim_export(s, sim_hold(s, "k", 30000));
    CHECK_INT(p.token, 3);
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_IMPORT] = grants[3];
    struct hold h = sim_import(s, "k", &p, 30000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->token, 3);
    CHECK(memmem(h.lease->cmd->bytes, h.lease->cmd->len, "$1\r\n3\r\n", 7) != NULL);
}

/* ---- guarded questions ---- */

static rl_round *ask_guarded(struct sim *s)
{
    rl_bytes key = {"k", 1};
    rl_round *round =
        query_ask(&s->core, RL_ASK_VOTERS, SIM_ASK, &key, 1, NULL, 0, 1000, s->now_ms);
    sim_wait(s, round, 1000);
    return round;
}

SIM_TEST(who_may_not_vote_may_not_acknowledge, sim_admitted(3, 30000))
{
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_ASK] = i < 2 ? ":1\r\n" : "*2\r\n:3\r\n$0\r\n\r\n";
    rl_round *round = ask_guarded(s);
    CHECK_INT(round->outcome, RL_GRANTED);
    CHECK_INT(round->agreed, 3);
    sim_end(round);
    s->server[1].say[SIM_ASK] = "*2\r\n:3\r\n$0\r\n\r\n";
    round = ask_guarded(s);
    CHECK_INT(round->outcome, RL_NO_QUORUM);
    CHECK_INT(round->slot[1].code, RL_GUARDED);
    sim_end(round);
}

SIM_TEST(a_guarded_answer_is_a_vote, sim_up(1))
{
    static const char *const odd[] = {":3\r\n", ":-2\r\n", ":7\r\n", "+OK\r\n"};
    for (size_t k = 0; k < sizeof(odd) / sizeof(*odd); k++) {
        s->server[0].say[SIM_ASK] = odd[k];
        rl_round *round = ask_guarded(s);
        CHECK_INT(round->outcome, RL_NO_QUORUM);
        CHECK_INT(round->slot[0].code, RL_PROTOCOL);
        sim_end(round);
    }
}

/* ---- long answers ---- */

SIM_TEST(data_of_256_bytes_is_kept, sim_up(3))
{
    static char text[RL_DATA_MAX + 64], other[RL_DATA_MAX + 64];
    int len = snprintf(text, sizeof(text), "*2\r\n:1\r\n$%d\r\n%0*d\r\n", RL_DATA_MAX,
                       RL_DATA_MAX, 1);
    memcpy(other, text, sizeof(text));
    other[len - 3] = '2';                   /* the last byte of the data */
    for (int i = 0; i < 3; i++)
        s->server[i].say[SIM_ASK] = i ? text : other;
    rl_round *round = sim_ask(s, "k");
    CHECK_INT(sim_outcome(s, round), RL_GRANTED);
    CHECK_INT(round->agreed, 6);
    CHECK_INT(round->slot[1].data_len, RL_DATA_MAX);
    CHECK(!memcmp(round_data(&round->slot[1]), text + 14, RL_DATA_MAX));
}

SUITE(same, T(equal_numbers_make_a_majority), T(different_numbers_are_not_added_up),
      T(a_grant_names_a_number), T(the_number_goes_with_all_that_follows), T(strays_are_mended),
      T(a_late_grant_keeps_the_client_busy),
      T(home_picks_the_number),
      T(an_import_keeps_the_number), T(who_may_not_vote_may_not_acknowledge),
      T(a_guarded_answer_is_a_vote), T(data_of_256_bytes_is_kept));
