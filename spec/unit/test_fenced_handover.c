/* test_fenced_handover.c - a hold that is passed on has a token of its own, larger than
 * the one before, by the same rule as any other: a majority has witnessed exactly it.
 */
#include "sim.h"

static struct sim *up(int n, const int64_t *counters)
{
    struct sim *s = sim_up(n);
    sim_fence(s);
    for (int i = 0; i < n; i++)
        s->server[i].counter = counters[i];
    return s;
}

static void end(struct sim *s, rl_lease *old, struct hold *next)
{
    sim_heal(s);
    holder_drop(old, s->now_ms);
    sim_drop(s, next);
    sim_finish(s);
}

/* The hand-over failed, and what was written on the way is gone. */
static void nothing_is_left(struct sim *s, rl_lease *old, struct hold *next)
{
    sim_heal(s);
    sim_advance(s, 5000);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(lease_remaining_ms(old, s->now_ms), 0);
    CHECK_INT(lease_remaining_ms(next->lease, s->now_ms), 0);
    CHECK_INT(next->lease->token, 0);
    CHECK(s->core.owing == NULL);
    end(s, old, next);
}

SIM_TEST(each_has_the_next_token, up(5, (int64_t[]){7, 7, 7, 7, 7}))
{
    rl_lease *old = sim_hold(s, "k", 9000);
    CHECK_INT(old->token, 8);
    sim_clear_logs(s);
    for (int k = 0; k < 20; k++) {
        struct hold next = sim_handover(s, old, 9000);
        CHECK_INT(next.lease->token, 0);
        sim_run(s);
        CHECK_INT(sim_end(next.round), RL_GRANTED);
        CHECK_INT(next.lease->token, 9 + k);
        CHECK_INT(sim_mine(s, "k", next.lease), all_of(5));
        holder_drop(old, s->now_ms);
        old = next.lease;
    }
    sim_logs_are(s, "PPPPPPPPPPPPPPPPPPPP");   /* one round trip each */
    CHECK_INT(sim_result(s, holder_release(old, s->now_ms)), RL_GRANTED);
    CHECK_INT(sim_with(s, "k"), 0);
    holder_drop(old, s->now_ms);
}

/* Counters that differ are brought to the largest, by those who still have the value. */
static void the_largest_is_confirmed(void)
{
    struct sim *s = up(3, (int64_t[]){4, 4, 4});
    rl_lease *old = sim_hold(s, "k", 9000);
    s->server[1].counter = 9;
    s->server[2].frozen = 1;
    sim_clear_logs(s);
    struct hold next = sim_handover(s, old, 9000);
    CHECK_INT(sim_wait(s, next.round, 1000), RL_GRANTED);
    CHECK_INT(next.lease->token, 10);
    CHECK_INT(s->server[0].counter, 10);
    CHECK_STR(s->server[0].log, "PC");
    CHECK_STR(s->server[1].log, "P");
    end(s, old, &next);
}

/* The value was lost between the grant and its confirmation: no witness. */
static void what_is_gone_is_not_confirmed(void)
{
    struct sim *s = up(3, (int64_t[]){4, 4, 4});
    rl_lease *old = sim_hold(s, "k", 9000);
    s->server[1].counter = 9;
    s->server[2].frozen = 1;
    struct hold next = sim_handover(s, old, 9000);
    sim_pass(s, 0);
    sim_pass(s, 1);
    s->server[0].keys = 0;
    sim_put(s, 0, "k", 60000);
    sim_wait(s, next.round, 2000);
    CHECK(next.round->outcome != RL_GRANTED);
    CHECK_INT(s->server[0].counter, 6);        /* and it was not raised */
    s->server[0].keys = 0;
    nothing_is_left(s, old, &next);
}

static void a_confirmation_that_does_not_come(void)
{
    struct sim *s = up(3, (int64_t[]){4, 4, 4});
    rl_lease *old = sim_hold(s, "k", 60000);
    s->server[1].counter = 9;
    s->server[2].frozen = 1;
    s->server[0].say[SIM_CONFIRM] = "-OOM command not allowed\r\n";
    struct hold next = sim_handover(s, old, 60000);
    CHECK_INT(sim_wait(s, next.round, 2000), RL_NO_QUORUM);
    nothing_is_left(s, old, &next);
}

static void a_majority_that_is_frozen(void)
{
    struct sim *s = up(5, (int64_t[]){4, 4, 4, 4, 4});
    rl_lease *old = sim_hold(s, "k", 60000);
    sim_clear_logs(s);
    for (int i = 0; i < 3; i++)
        s->server[i].frozen = 1;
    struct hold next = sim_handover(s, old, 60000);
    CHECK_INT(sim_wait(s, next.round, 5000), RL_NO_QUORUM);
    for (int i = 0; i < 3; i++)
        s->server[i].frozen = 0;
    sim_run(s);
    sim_logs_are(s, "PLL");                    /* the old value first, then the new one */
    nothing_is_left(s, old, &next);
}

/* A server that has lost its floors gives no vote and keeps the old value, which is
 * released a little later. */
static void one_without_a_floor(void)
{
    struct sim *s = up(3, (int64_t[]){4, 4, 4});
    rl_lease *old = sim_hold(s, "k", 9000);
    s->server[0].say[SIM_FENCED_HANDOVER] = ":-2\r\n";
    struct hold next = sim_handover(s, old, 9000);
    CHECK_INT(sim_outcome(s, next.round), RL_GRANTED);
    CHECK_INT(next.lease->unseeded, bit(0));
    CHECK_INT(sim_mine(s, "k", old), bit(0));
    sim_advance(s, 2000);
    CHECK_INT(sim_mine(s, "k", old), 0);
    CHECK_INT(sim_mine(s, "k", next.lease), bit(1) | bit(2));
    end(s, old, &next);
}

static void a_majority_without_floors(void)
{
    struct sim *s = up(3, (int64_t[]){4, 4, 4});
    rl_lease *old = sim_hold(s, "k", 60000);
    s->server[0].say[SIM_FENCED_HANDOVER] = s->server[1].say[SIM_FENCED_HANDOVER] =
        ":-2\r\n";
    struct hold next = sim_handover(s, old, 60000);
    CHECK_INT(sim_outcome(s, next.round), RL_NO_QUORUM);
    CHECK_INT(next.lease->unseeded, bit(0) | bit(1));
    nothing_is_left(s, old, &next);
}

static void a_replacement_needs_a_counter(void)
{
    static const char *const said[] = {":1\r\n", "*2\r\n:1\r\n:0\r\n"};
    for (int k = 0; k < 2; k++) {
        struct sim *s = up(1, (int64_t[]){1});
        rl_lease *old = sim_hold(s, "k", 9000);
        s->server[0].say[SIM_FENCED_HANDOVER] = said[k];
        struct hold next = sim_handover(s, old, 9000);
        CHECK_INT(sim_outcome(s, next.round), RL_NO_QUORUM);
        CHECK_INT(next.round->slot[0].code, RL_PROTOCOL);
        nothing_is_left(s, old, &next);
    }
}

/* The connection breaks behind the replacement: it is asked again, and counted once. */
static void sent_twice_is_counted_once(void)
{
    struct sim *s = up(1, (int64_t[]){4});
    rl_lease *old = sim_hold(s, "k", 60000);
    struct hold next = sim_handover(s, old, 60000);
    sim_cut_after(s, 0);
    CHECK_INT(s->server[0].counter, 6);
    CHECK_INT(sim_wait(s, next.round, 1000), RL_GRANTED);
    CHECK_INT(next.lease->token, 6);
    CHECK_INT(s->server[0].counter, 6);
    end(s, old, &next);
}

/* An extension of the old token is under way: it does not count, and where the key was
 * gone, no key of the old value comes back. */
static void the_old_token_is_over(void)
{
    struct sim *s = up(3, (int64_t[]){4, 4, 4});
    rl_lease *old = sim_hold(s, "k", 9000);
    s->server[2].keys = 0;                     /* it would be healed */
    rl_round *extend = holder_extend(old, 9000, s->now_ms);
    for (int i = 0; i < 3; i++)
        s->server[i].holds = 1;
    sim_run(s);
    struct hold next = sim_handover(s, old, 9000);
    sim_heal(s);
    CHECK_INT(sim_result(s, extend), RL_NOT_HELD);
    CHECK_INT(next.round->outcome, RL_GRANTED);
    CHECK_INT(next.lease->token, 6);
    CHECK_INT(sim_mine(s, "k", old), 0);
    watchdog_start(next.lease, 9000, 0, s->now_ms);
    sim_advance(s, 5000);
    CHECK_INT(sim_mine(s, "k", next.lease), all_of(3));
    CHECK_INT(s->server[2].counter, 6);        /* the renewal brought it into step */
    end(s, old, &next);
}

static void the_taker_dies_between_the_rounds(void)
{
    struct sim *s = up(3, (int64_t[]){4, 4, 4});
    rl_lease *old = sim_hold(s, "k", 60000);
    s->server[1].counter = 9;
    s->server[2].frozen = 1;
    struct hold next = sim_handover(s, old, 60000);
    sim_pass(s, 0);
    sim_pass(s, 1);
    s->now_ms += 2;
    sim_tick(s);
    CHECK_INT(next.round->token, 10);
    CHECK_INT(next.round->outcome, RL_OK);
    rl_round *release = holder_release(next.lease, s->now_ms);
    CHECK_INT(next.round->outcome, RL_CANCELLED);
    sim_run(s);
    round_free(release);
    nothing_is_left(s, old, &next);
}

SUITE(fenced_handover, T(each_has_the_next_token), T(the_largest_is_confirmed),
      T(what_is_gone_is_not_confirmed), T(a_confirmation_that_does_not_come),
      T(a_majority_that_is_frozen), T(one_without_a_floor), T(a_majority_without_floors),
      T(a_replacement_needs_a_counter), T(sent_twice_is_counted_once),
      T(the_old_token_is_over), T(the_taker_dies_between_the_rounds));
