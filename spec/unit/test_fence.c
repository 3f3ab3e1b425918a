/* test_fence.c - a token is issued when a majority has witnessed exactly it.
 *
 * C1 to C4, C9, C10: the counterexamples that were found by exhaustive search in variants
 * of the protocol; each shows what one rule is for.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"

/* Servers with these counters, and the connections up. */
static struct sim *up(int n, const int64_t *counters)
{
    struct sim *s = sim_up(n);
    sim_fence(s);
    for (int i = 0; i < n; i++)
        s->server[i].counter = counters[i];
    return s;
}

static struct hold begin(struct sim *s)
{
    return sim_acquire(s, "k", 30000, 1000);
}

/* The same without the answer. */
static void reach(struct sim *s, int i)
{
    sim_serve(s, i);
    sim_execute(s, i, SIM_LOG);
}

/* The key of server i expires early. */
static void expire(struct sim *s, int i)
{
    struct sim_key *key = sim_key(s, i, "k");
    REQUIRE(key != NULL);
    key->until_ms = s->now_ms;
}

/* ---- one round trip ---- */

SIM_TEST(counters_in_step, up(5, (int64_t[]){7, 7, 7, 7, 7}))
{
    struct hold h = begin(s);
    CHECK_INT(h.lease->token, 0);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->token, 8);
    sim_logs_are(s, "F");
}

SIM_TEST(a_minority_out_of_step, up(5, (int64_t[]){3, 7, 7, 7, 1}))
{
    struct hold h = begin(s);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->token, 8);
    sim_logs_are(s, "F");            /* the second round was not needed */
}

/* The first majority disagrees, but the next answer is about to come. */
SIM_TEST(waits_a_moment_for_the_rest, up(3, (int64_t[]){4, 7, 7}))
{
    struct hold h = begin(s);
    sim_pass(s, 0);
    sim_pass(s, 1);
    CHECK_INT(h.round->outcome, RL_OK);
    sim_pass(s, 2);
    CHECK_INT(h.round->outcome, RL_GRANTED);
    CHECK_INT(h.lease->token, 8);
    sim_logs_are(s, "F");
}

/* ---- two round trips ---- */

SIM_TEST(confirms_the_largest, up(3, (int64_t[]){1, 0, 5}))
{
    struct hold h = begin(s);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->token, 6);
    for (int i = 0; i < 3; i++)
        CHECK_INT(s->server[i].counter, 6);
    CHECK_STR(s->server[0].log, "FC");
    CHECK_STR(s->server[2].log, "F");
}

SIM_TEST(does_not_wait_for_the_dead, up(3, (int64_t[]){4, 9, 0}))
{
    s->server[2].frozen = 1;
    int64_t t0 = s->now_ms;
    struct hold h = begin(s);
    CHECK_INT(sim_wait(s, h.round, 1000), RL_GRANTED);
    CHECK_INT(h.lease->token, 10);
    CHECK(s->now_ms - t0 <= 2);
}

/* A larger counter was seen behind our back: that one is tried. */
SIM_TEST(goes_on_with_a_larger_one, up(3, (int64_t[]){1, 3, 0}))
{
    s->server[2].frozen = 1;
    struct hold h = begin(s);
    sim_pass(s, 0);
    sim_pass(s, 1);
    s->server[0].counter = 20;
    CHECK_INT(sim_wait(s, h.round, 1000), RL_GRANTED);
    CHECK_INT(h.lease->token, 20);
    CHECK_INT(s->server[0].counter, 20);
    CHECK_INT(s->server[1].counter, 20);
}

SIM_TEST(no_confirmation_no_hold, up(3, (int64_t[]){1, 3, 0}))
{
    sim_leave(s, 2);
    s->server[0].say[SIM_CONFIRM] = "-OOM command not allowed\r\n";
    struct hold h = begin(s);
    CHECK_INT(sim_wait(s, h.round, 1000), RL_NO_QUORUM);
    CHECK_INT(h.round->slot[0].code, RL_OOM);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), 0);
}

SIM_TEST(a_silent_confirmation_times_out, up(3, (int64_t[]){1, 3, 0}))
{
    sim_leave(s, 2);
    struct hold h = begin(s);
    sim_pass(s, 0);
    sim_pass(s, 1);
    s->server[0].holds = 1;
    int64_t t0 = s->now_ms;
    CHECK_INT(sim_wait(s, h.round, 1000), RL_NO_QUORUM);
    CHECK(s->now_ms - t0 <= SIM_TIMEOUT_MS + 2);
}

SIM_TEST(a_torn_confirmation_is_no_witness, up(3, (int64_t[]){1, 3, 0}))
{
    sim_leave(s, 2);
    struct hold h = begin(s);
    sim_pass(s, 0);
    sim_pass(s, 1);
    s->now_ms += 2;
    sim_tick(s);
    CHECK_INT(h.round->fence.token, 4);
    sim_cut_after(s, 0);
    CHECK_INT(s->server[0].counter, 4);       /* executed, but who knows */
    CHECK_INT(sim_wait(s, h.round, 2000), RL_NO_QUORUM);
    sim_advance(s, 2000);
    CHECK_INT(sim_with(s, "k"), 0);
}

SIM_TEST(a_forgotten_script_is_sent, up(3, (int64_t[]){1, 0, 5}))
{
    sim_flush_scripts(s);
    struct hold h = begin(s);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->token, 6);
}

static void a_grant_needs_a_counter(void)
{
    static const char *const said[] = {":1\r\n", "*2\r\n:1\r\n:0\r\n",
                                       "*2\r\n:1\r\n:-3\r\n"};
    for (int k = 0; k < 3; k++) {
        struct sim *s = up(1, (int64_t[]){1});
        s->server[0].say[SIM_FENCED_ACQUIRE] = said[k];
        struct hold h = begin(s);
        CHECK_INT(sim_outcome(s, h.round), RL_NO_QUORUM);
        CHECK_INT(h.round->slot[0].code, RL_PROTOCOL);
        sim_finish(s);
    }
}

/* Nothing that cannot be a token becomes one, or is confirmed by others. */
static void a_counter_has_a_range(void)
{
    static const char *const said[] = {
        ":100000000000003\r\n",           ":9223372036854775807\r\n",
        "*2\r\n:1\r\n:100000000000000\r\n", "*2\r\n:1\r\n:9223372036854775807\r\n",
        "*2\r\n:1\r\n:-9223372036854775808\r\n"};
    for (int k = 0; k < 5; k++) {
        struct sim *s = up(3, (int64_t[]){6, 6, 6});
        test_note("%s", said[k]);
        s->server[0].say[SIM_FENCED_ACQUIRE] = said[k];
        struct hold h = begin(s);
        CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
        CHECK_INT(h.lease->token, 7);
        CHECK_INT(h.round->slot[0].code, RL_PROTOCOL);
        CHECK_INT(s->server[1].counter, 7);
        sim_finish(s);
    }
    struct sim *s = up(1, (int64_t[]){1});
    s->server[0].say[SIM_FENCED_ACQUIRE] = ":100000000000002\r\n";
    struct hold h = begin(s);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->token, TOKEN_END - 1);
    sim_finish(s);
}

/* The same in the second round trip: where it is not confirmed, for it was counted on. */
static void a_refused_confirmation_has_a_range(void)
{
    static const char *const said[] = {"*2\r\n:0\r\n:100000000000000\r\n",
                                       "*2\r\n:0\r\n:-5\r\n", ":0\r\n"};
    for (int k = 0; k < 3; k++) {
        struct sim *s = up(3, (int64_t[]){1, 3, 0});
        test_note("%s", said[k]);
        sim_leave(s, 2);
        s->server[0].say[SIM_CONFIRM] = said[k];
        struct hold h = begin(s);
        CHECK_INT(sim_wait(s, h.round, 1000), RL_NO_QUORUM);
        CHECK_INT(h.round->slot[0].code, RL_PROTOCOL);
        CHECK_INT(s->server[1].counter, 4);
        sim_finish(s);
    }
}

/* Only "ours, and counted above the token" keeps the grant; it is asked for a larger one. */
static void a_refusal_that_is_not_above_the_token(void)
{
    static const char *const said[] = {"*2\r\n:0\r\n:4\r\n", "*2\r\n:0\r\n:3\r\n",
                                       "*2\r\n:-1\r\n:9\r\n"};
    for (int k = 0; k < 3; k++) {
        struct sim *s = up(3, (int64_t[]){1, 3, 0});
        test_note("%s", said[k]);
        sim_leave(s, 2);
        s->server[0].say[SIM_CONFIRM] = said[k];
        struct hold h = begin(s);
        CHECK_INT(sim_wait(s, h.round, 1000), RL_HELD);
        CHECK_INT(h.round->fence.token, 4);
        CHECK_INT(h.round->slot[0].vote, RL_VOTE_FOREIGN);
        sim_run(s);
        CHECK_STR(s->server[0].log, "FCL");
        sim_finish(s);
    }
}

/* As many witness a token as are needed for the lock, with the margin. */
SIM_TEST(the_margin_witnesses_too, up(5, (int64_t[]){7, 7, 7, 6, 6}))
{
    s->core.options.margin = 1;
    struct hold h = begin(s);
    s->server[4].frozen = 1;
    for (int i = 0; i < 4; i++)
        sim_pass(s, i);
    CHECK_INT(h.round->outcome, RL_OK);       /* granted by four, witnessed by three */
    s->now_ms += 2;
    sim_tick(s);
    CHECK_INT(h.round->outcome, RL_OK);
    sim_pass(s, 3);
    CHECK_INT(h.round->outcome, RL_GRANTED);
    CHECK_INT(h.lease->token, 8);
    CHECK_INT(s->server[3].counter, 8);
}

/* ---- counterexamples ---- */

/* C1: counters (1, 0, 0). A has servers 0 and 1 with counters 2 and 1. Server 1 forgets
 * its key; B has 1 and 2 with 2 and 1. Without a second round both would take 2. */
SIM_TEST(c1_no_second_round, up(3, (int64_t[]){1, 0, 0}))
{
    struct hold a = begin(s);
    sim_pass(s, 0);
    sim_pass(s, 1);
    expire(s, 1);
    struct hold b = begin(s);
    buf_clear(&s->server[2].out);
    sim_run(s);
    sim_wait(s, a.round, 1000);
    sim_wait(s, b.round, 1000);
    int both = a.round->outcome == RL_GRANTED && b.round->outcome == RL_GRANTED;
    CHECK(!both || a.lease->token != b.lease->token);
    CHECK(a.round->outcome == RL_GRANTED || b.round->outcome == RL_GRANTED);
}

/* C2: the key went to somebody else between the grant and the confirmation. */
SIM_TEST(c2_key_gone_before_the_confirmation, up(3, (int64_t[]){1, 0, 0}))
{
    s->server[2].frozen = 1;
    struct hold h = begin(s);
    sim_pass(s, 0);
    sim_pass(s, 1);
    expire(s, 1);
    sim_put(s, 1, "k", 30000);
    sim_wait(s, h.round, 2000);
    CHECK(h.round->outcome != RL_GRANTED);
    CHECK_INT(s->server[1].counter, 1);       /* and it was not raised */
}

/* C3: a grant that comes after the token was fixed, with a larger counter, voids it. */
SIM_TEST(c3_late_grant_with_a_larger_counter, up(3, (int64_t[]){3, 2, 1}))
{
    struct hold h = begin(s);
    reach(s, 0);
    s->server[0].holds = 1;                   /* its answer, with 4, is late */
    sim_pass(s, 1);
    sim_pass(s, 2);
    s->now_ms += 2;
    sim_tick(s);                              /* the token is to be 3 */
    CHECK_INT(h.round->fence.token, 3);
    reach(s, 2);
    s->server[0].holds = 0;
    sim_pass(s, 0);
    CHECK_INT(h.round->fence.token, 4);
    sim_deliver(s, 2, SIZE_MAX);
    CHECK_INT(h.round->outcome, RL_OK);       /* the confirmation of 3 counts no more */
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->token, 4);
}

/* The same with a smaller one: it is confirmed and counts. */
SIM_TEST(a_late_grant_is_confirmed, up(3, (int64_t[]){0, 5, 1}))
{
    struct hold h = begin(s);
    s->server[0].holds = 1;
    sim_pass(s, 1);
    sim_pass(s, 2);
    s->server[2].holds = 1;                   /* it never confirms */
    s->now_ms += 2;
    sim_tick(s);
    CHECK_INT(h.round->fence.token, 6);
    s->server[0].holds = 0;
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);
    CHECK_INT(h.lease->token, 6);
    CHECK_STR(s->server[0].log, "FC");
}

/* C4: a request that is executed twice after the key had expired counts again. */
SIM_TEST(c4_executed_twice, up(3, (int64_t[]){1, 0, 0}))
{
    sim_leave(s, 1);
    struct hold h = begin(s);
    sim_pass(s, 0);
    sim_pass(s, 2);
    CHECK_INT(s->server[2].counter, 1);
    s->server[2].counter = 3;                 /* others came and went; then ours again */
    CHECK_INT(sim_wait(s, h.round, 1000), RL_GRANTED);
    CHECK_INT(h.lease->token, 3);    /* not 2, which somebody may have */
    CHECK_INT(s->server[0].counter, 3);
}

/* C9: ours on a majority by a grant that never counted is no extension. */
SIM_TEST(c9_extension_below_the_counter, up(3, (int64_t[]){0, 0, 0}))
{
    rl_lease *lease = sim_hold(s, "k", 30000);
    CHECK_INT(lease->token, 1);
    s->server[0].counter = 3;
    s->server[1].counter = 2;
    CHECK_INT(sim_result(s, holder_extend(lease, 30000, s->now_ms)), RL_LOST);
}

/* C10: nor is a key recreated where the counter has gone on. */
SIM_TEST(c10_heals_only_below_the_token, up(5, (int64_t[]){4, 4, 4, 4, 4}))
{
    rl_lease *lease = sim_hold(s, "k", 30000);
    expire(s, 0);
    s->server[0].counter = 9;
    expire(s, 1);
    s->server[1].counter = 2;                 /* it forgot a little, too */
    CHECK_INT(sim_result(s, holder_extend(lease, 30000, s->now_ms)), RL_GRANTED);
    CHECK_INT(sim_mine(s, "k", lease), 0x1e);
    CHECK_INT(s->server[0].counter, 9);
    CHECK_INT(s->server[1].counter, 5);
}

/* ---- the token stays with the hold ---- */

SIM_TEST(extension_and_release_bring_the_counters_into_step, up(5, (int64_t[]){1, 1, 1, 0, 0}))
{
    rl_lease *lease = sim_hold(s, "k", 30000);
    CHECK_INT(lease->token, 2);
    CHECK_INT(sim_result(s, holder_extend(lease, 30000, s->now_ms)), RL_GRANTED);
    for (int i = 0; i < 5; i++)
        CHECK_INT(s->server[i].counter, 2);
    s->server[4].counter = 0;
    CHECK_INT(sim_result(s, holder_release(lease, s->now_ms)), RL_GRANTED);
    CHECK_INT(s->server[4].counter, 2);
    CHECK_INT(lease->token, 2);
}

/* Where the counter was seen at the token, the release has nothing to do with it. */
SIM_TEST(a_release_counts_only_where_it_must, up(3, (int64_t[]){6, 6, 3}))
{
    rl_lease *lease = sim_hold(s, "k", 30000);
    CHECK_INT(lease->token, 7);
    CHECK_INT(s->server[2].counter, 4);
    s->server[0].counter = 1;
    CHECK_INT(sim_result(s, holder_release(lease, s->now_ms)), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(s->server[0].counter, 1);
    CHECK_INT(s->server[2].counter, 7);
}

SIM_TEST(cancelled_between_the_rounds, up(3, (int64_t[]){1, 3, 0}))
{
    struct hold h = begin(s);
    sim_pass(s, 0);
    sim_pass(s, 1);
    s->now_ms += 2;
    sim_tick(s);
    rl_round *round = holder_release(h.lease, s->now_ms);
    CHECK_INT(h.round->outcome, RL_CANCELLED);
    sim_run(s);
    CHECK_INT(sim_with(s, "k"), 0);
    round_free(round);
}

/* Confirmations of a token are under way when a late grant makes it larger: who is asked
 * for the smaller one is asked again. */
SIM_TEST(a_confirmation_of_a_token_given_up, up(5, (int64_t[]){4, 6, 4, 9, 0}))
{
    struct hold h = begin(s);
    s->server[4].frozen = 1;
    sim_serve(s, 3);
    sim_execute(s, 3, SIM_LOG);
    sim_hold_answers(s, bit(3));         /* 10 comes a little later */
    for (int i = 0; i < 3; i++)
        sim_pass(s, i);
    s->now_ms += 2;
    sim_tick(s);
    CHECK_INT(h.round->fence.token, 7);        /* 0 and 2 are asked to confirm it */
    sim_hold_answers(s, 0);
    sim_pass(s, 3);
    CHECK_INT(h.round->fence.token, 10);
    CHECK_INT(sim_wait(s, h.round, 1000), RL_GRANTED);
    CHECK_INT(h.lease->token, 10);
}

/* The same of three, one of which dies meanwhile. */
SIM_TEST(a_confirmation_of_a_token_given_up_by_the_last, up(3, (int64_t[]){3, 2, 1}))
{
    struct hold h = begin(s);
    sim_serve(s, 0);
    sim_execute(s, 0, SIM_LOG);
    sim_hold_answers(s, bit(0));
    sim_pass(s, 1);
    sim_pass(s, 2);
    s->now_ms += 2;
    sim_tick(s);
    CHECK_INT(h.round->fence.token, 3);        /* 2 is asked to confirm it */
    sim_hold_answers(s, 0);
    sim_pass(s, 0);
    CHECK_INT(h.round->fence.token, 4);
    s->server[1].frozen = 1;
    CHECK_INT(sim_wait(s, h.round, 1000), RL_GRANTED);
}

/* It granted, and its connection broke before the token was known. */
SIM_TEST(the_code_of_who_was_cut_off, up(3, (int64_t[]){1, 3, 0}))
{
    s->server[2].frozen = 1;
    struct hold h = begin(s);
    sim_pass(s, 0);
    sim_pass(s, 1);
    sim_leave(s, 0);
    sim_wait(s, h.round, 1000);
    CHECK_INT(h.round->slot[0].code, RL_REFUSED);
}

SUITE(fence, T(counters_in_step), T(a_minority_out_of_step),
      T(waits_a_moment_for_the_rest), T(confirms_the_largest),
      T(does_not_wait_for_the_dead), T(goes_on_with_a_larger_one),
      T(no_confirmation_no_hold), T(a_silent_confirmation_times_out),
      T(a_torn_confirmation_is_no_witness), T(a_forgotten_script_is_sent),
      T(a_grant_needs_a_counter), T(a_counter_has_a_range),
      T(a_refused_confirmation_has_a_range), T(a_refusal_that_is_not_above_the_token),
      T(the_margin_witnesses_too), T(c1_no_second_round),
      T(c2_key_gone_before_the_confirmation), T(c3_late_grant_with_a_larger_counter),
      T(a_late_grant_is_confirmed), T(c4_executed_twice),
      T(c9_extension_below_the_counter), T(c10_heals_only_below_the_token),
      T(extension_and_release_bring_the_counters_into_step),
      T(a_release_counts_only_where_it_must), T(cancelled_between_the_rounds), T(a_confirmation_of_a_token_given_up),
      T(a_confirmation_of_a_token_given_up_by_the_last), T(the_code_of_who_was_cut_off));
