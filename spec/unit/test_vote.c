/* test_vote.c - votes one by one, against brute force: every sequence for a few nodes,
 * random ones for up to 32. The order makes no difference; a decision comes with the very
 * vote that makes it certain, neither before nor after, and holds whatever comes late.
 *
 * What is certain is found here by trying every way the open votes may still fall, not by
 * computing. And the times: validity by exact fractions, the moment a majority may be free
 * by sorting.
 */
#include <stdlib.h>

#include "sim.h"

enum { YES, ABSENT, FOREIGN, MISSING, KINDS };

static void add(struct tally *t, int kind)
{
    int *place[] = {&t->yes, &t->absent, &t->foreign, &t->missing};
    (*place[kind])++;
    t->pending--;
}

static struct tally no_votes(int n)
{
    return (struct tally){.n = n, .pending = n};
}

/* What a complete count means, by the definition. */
static int acquired(const struct tally *t)
{
    return 2 * t->yes > t->n;
}

static int disowned(const struct tally *t)
{
    return 2 * (t->absent + t->foreign) > t->n;
}

/* The set of outcomes that the open votes still allow: a bit for each of acquired,
 * neither, disowned. */
static unsigned outcomes(const struct tally *t)
{
    unsigned seen = 0;
    for (int yes = 0; yes <= t->pending; yes++) {
        for (int no = 0; yes + no <= t->pending; no++) {
            struct tally full = *t;
            full.yes += yes;
            full.absent += no;
            full.missing += t->pending - yes - no;
            seen |= acquired(&full) ? 1 : disowned(&full) ? 4 : 2;
        }
    }
    return seen;
}

static enum verdict certain_vote(const struct tally *t)
{
    unsigned may = outcomes(t);
    return may == 1 ? WON : may & 1 ? UNDECIDED : LOST;
}

static enum verdict certain_extend(const struct tally *t)
{
    unsigned may = outcomes(t);
    return may == 1 ? WON : may == 2 || may == 4 ? LOST : UNDECIDED;
}

/* Counts the votes in this order; both verdicts at the end, and after how many votes. */
struct course {
    enum verdict vote, extend;
    int vote_at, extend_at;
};

static struct course follow(int n, const int *kinds)
{
    struct course c = {UNDECIDED, UNDECIDED, -1, -1};
    struct tally t = no_votes(n);
    for (int k = 0; k <= n; k++) {
        enum verdict vote = quorum_vote(&t), extend = quorum_extend(&t);
        CHECK_INT(vote, certain_vote(&t));
        CHECK_INT(extend, certain_extend(&t));
        CHECK(c.vote == UNDECIDED || vote == c.vote);        /* late votes change nothing */
        CHECK(c.extend == UNDECIDED || extend == c.extend);
        if (vote != UNDECIDED && c.vote_at < 0)
            c.vote_at = k;
        if (extend != UNDECIDED && c.extend_at < 0)
            c.extend_at = k;
        c.vote = vote;
        c.extend = extend;
        if (k < n)
            add(&t, kinds[k]);
    }
    CHECK(c.vote != UNDECIDED && c.extend != UNDECIDED);
    CHECK_INT(c.vote == WON, acquired(&t));
    return c;
}

/* Every sequence of votes of n nodes. */
static void every_sequence_of_few(void)
{
    for (int n = 1; n <= 6; n++) {
        int kinds[6] = {0}, all = 1 << (2 * n);
        for (int code = 0; code < all && !test_failures(); code++) {
            for (int k = 0; k < n; k++)
                kinds[k] = code >> (2 * k) & 3;
            test_note("n %d votes %x", n, code);
            follow(n, kinds);
        }
    }
}

static void shuffle(struct rng *r, int *list, int n)
{
    for (int k = n - 1; k > 0; k--) {
        int other = rng_below(r, k + 1), kept = list[k];
        list[k] = list[other];
        list[other] = kept;
    }
}

static void any_order_of_many(void)
{
    struct rng r = {test_seed()};
    for (int n = 1; n <= 32; n++) {
        for (int run = 0; run < test_runs(24) && !test_failures(); run++) {
            int kinds[32], few = 1 + rng_below(&r, KINDS), first = rng_below(&r, KINDS);
            for (int k = 0; k < n; k++)
                kinds[k] = (first + rng_below(&r, few)) % KINDS;
            test_note("n %d run %d", n, run);
            struct course once = follow(n, kinds);
            shuffle(&r, kinds, n);
            struct course again = follow(n, kinds);
            CHECK_INT(again.vote, once.vote);
            CHECK_INT(again.extend, once.extend);
        }
    }
}

/* ---- rounds: the same through answers in any order, and after the decision ---- */

static const char *const said[] = {":1\r\n", "*2\r\n:0\r\n:700\r\n", ":-1\r\n",
                                   "-OOM no\r\n"};

static void rounds_decide_at_the_same_vote(void)
{
    struct rng r = {test_seed()};
    for (int run = 0; run < test_runs(80) && !test_failures(); run++) {
        int n = 1 + rng_below(&r, run % 10 ? 9 : 32), kinds[32], order[32];
        struct sim *s = sim_up(n);
        for (int k = 0; k < n; k++) {
            kinds[k] = rng_one_in(&r, 3) ? rng_below(&r, KINDS) : run % KINDS;
            order[k] = k;
            s->server[k].say[SIM_ACQUIRE] = said[kinds[k]];
        }
        shuffle(&r, order, n);
        struct hold h = sim_acquire(s, "a", 30000, 10000);
        struct tally t = no_votes(n);
        for (int k = 0; k < n; k++) {
            int i = order[k], was = h.round->outcome;
            sim_serve(s, i);
            sim_execute(s, i, 1);
            sim_deliver(s, i, SIZE_MAX);
            if (!was)
                add(&t, kinds[i]);
            test_note("n %d run %d vote %d", n, run, k);
            /* Lost only when it is known, too, whether a majority refuses. */
            CHECK_INT(h.round->outcome != RL_OK, certain_extend(&t) != UNDECIDED);
            CHECK(!was || h.round->outcome == was);
        }
        CHECK_INT(h.round->outcome == RL_GRANTED, certain_vote(&t) == WON);
        sim_finish(s);
    }
}

/* ---- times ---- */

/* a / b < c / d for positive numbers of any size that 128 bits hold. */
static int less(__int128 a, __int128 b, __int128 c, __int128 d)
{
    return a * d < c * b;
}

/* The deadline is the last whole millisecond that is not after
 * started + lease - lease * ppm / 10^6 - 2. */
static void deadline_is_exact(void)
{
    struct rng r = {test_seed()};
    for (int k = 0; k < test_runs(20000); k++) {
        int64_t lease_ms = rng_one_in(&r, 4) ? rng_below(&r, 1000)
                                             : (int64_t)(rng_next(&r) % 86400000000);
        int32_t ppm = rng_one_in(&r, 4) ? rng_below(&r, 100) : rng_below(&r, 500001);
        int64_t started_ms = (int64_t)(rng_next(&r) >> 20);
        int64_t deadline_ms = quorum_deadline_ms(started_ms, lease_ms, ppm);
        /* As a fraction: (whole * 10^6 - lease * ppm) / 10^6. */
        __int128 million = 1000000;
        __int128 exact = (__int128)(started_ms + lease_ms - 2) * million -
                         (__int128)lease_ms * ppm;
        test_note("lease %lld ppm %d", (long long)lease_ms, ppm);
        CHECK(!less(exact, million, deadline_ms, 1));
        CHECK(less(exact, million, (__int128)deadline_ms + 1, 1));
    }
}

/* A server's clock that gains ppm on ours: its key is gone after lease / (1 + ppm / 10^6)
 * of our time at the earliest, counted from when the request was sent. */
static void valid_no_longer_than_any_key(void)
{
    for (int32_t ppm = 0; ppm <= 500000; ppm += 12500) {
        for (int64_t lease_ms = 1; lease_ms < 200000; lease_ms += 1 + lease_ms / 7) {
            int64_t deadline_ms = quorum_deadline_ms(0, lease_ms, ppm);
            if (deadline_ms > 0)
                CHECK(less(deadline_ms, 1, (__int128)lease_ms * 1000000, 1000000 + ppm));
        }
    }
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void free_when_a_majority_is(void)
{
    struct rng r = {test_seed()};
    for (int k = 0; k < test_runs(5000); k++) {
        int n = 1 + rng_below(&r, 32), known = rng_below(&r, n + 1);
        int64_t ms[32], sorted[32], got;
        for (int i = 0; i < known; i++)
            ms[i] = sorted[i] = rng_one_in(&r, 2) ? rng_below(&r, 5)
                                                  : (int64_t)(rng_next(&r) >> 1);
        qsort(sorted, (size_t)known, sizeof(sorted[0]), by_size);
        got = quorum_nth_ms(ms, known, quorum_size(n));
        test_note("n %d known %d", n, known);
        CHECK_INT(got, 2 * known > n ? sorted[n / 2] : -1);
        /* At that moment a majority is free, and not a millisecond before. */
        int free_then = 0, free_before = 0;
        for (int i = 0; got >= 0 && i < known; i++) {
            free_then += sorted[i] <= got;
            free_before += sorted[i] < got;
        }
        CHECK(got < 0 || (2 * free_then > n && 2 * free_before <= n));
    }
}

SUITE(vote, T(every_sequence_of_few), T(any_order_of_many),
      T(rounds_decide_at_the_same_vote), T(deadline_is_exact),
      T(valid_no_longer_than_any_key), T(free_when_a_majority_is));
