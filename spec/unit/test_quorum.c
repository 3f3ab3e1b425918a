/* test_quorum.c - against definitions that count possible futures instead of computing:
 * a verdict is certain when every way the pending votes may fall gives the same one. */
#include "core/base/quorum.h"

#include "test.h"

static int is_majority(int votes, int n)
{
    return votes > n - votes;
}

/* ---- the naive definitions ---- */

static enum verdict naive_vote(const struct tally *t)
{
    int can_win = 0, can_lose = 0;
    for (int yes = 0; yes <= t->pending; yes++) {
        if (is_majority(t->yes + yes, t->n))
            can_win = 1;
        else
            can_lose = 1;
    }
    return !can_lose ? WON : !can_win ? LOST : UNDECIDED;
}

/* An extension is over when it is certain whether a majority said yes and, if not,
 * whether a majority disowned us. */
static enum verdict naive_extend(const struct tally *t)
{
    int can_win = 0, can_lose = 0, can_be_disowned = 0, can_be_not = 0;
    for (int yes = 0; yes <= t->pending; yes++) {
        for (int no = 0; yes + no <= t->pending; no++) {
            if (is_majority(t->yes + yes, t->n))
                can_win = 1;
            else
                can_lose = 1;
            if (is_majority(t->absent + t->foreign + no, t->n))
                can_be_disowned = 1;
            else
                can_be_not = 1;
        }
    }
    if (can_win)
        return can_lose ? UNDECIDED : WON;
    return can_be_disowned && can_be_not ? UNDECIDED : LOST;
}

static enum verdict naive_release(const struct tally *t)
{
    int may_answer = 0, may_be_foreign = 0, must_be_foreign = 1;
    for (int answers = 0; answers <= t->pending; answers++) {
        int answered = t->yes + t->absent + t->foreign + answers;
        if (is_majority(answered, t->n))
            may_answer = 1;
        for (int foreign = 0; foreign <= answers; foreign++) {
            if (is_majority(t->foreign + foreign, t->n))
                may_be_foreign = 1;
            else
                must_be_foreign = 0;
        }
    }
    if (must_be_foreign || !may_answer)
        return LOST;
    if (!is_majority(t->yes + t->absent + t->foreign, t->n) || may_be_foreign)
        return UNDECIDED;
    return t->yes ? WON : LOST;
}

/* ---- all splits of n votes ---- */

static void each_split(int n, void (*see)(const struct tally *t))
{
    for (int yes = 0; yes <= n; yes++) {
        for (int absent = 0; yes + absent <= n; absent++) {
            for (int foreign = 0; yes + absent + foreign <= n; foreign++) {
                int rest = n - yes - absent - foreign;
                for (int missing = 0; missing <= rest; missing++) {
                    struct tally t = {n, yes, absent, foreign, missing, rest - missing, 0};
                    for (; quorum_size(n) + t.margin <= n; t.margin++)
                        see(&t);
                }
            }
        }
    }
}

static void each_sample(int n, int samples, void (*see)(const struct tally *t))
{
    struct rng r = {test_seed() + (uint64_t)n};
    for (int k = 0; k < samples; k++) {
        struct tally t = {.n = n, .margin = 0};
        int *place[] = {&t.yes, &t.absent, &t.foreign, &t.missing, &t.pending};
        /* Leaving kinds out gives the lopsided splits, where things get decided. */
        int kinds = 1 + rng_below(&r, 5), first = rng_below(&r, 5);
        for (int i = 0; i < n; i++)
            (*place[(first + rng_below(&r, kinds)) % 5])++;
        see(&t);
    }
}

/* With a margin so many more than a majority say yes. */
static void compare_margin(const struct tally *t)
{
    int can_win = 0, can_lose = 0;
    for (int yes = 0; yes <= t->pending; yes++)
        *(is_majority(t->yes + yes - t->margin, t->n) ? &can_win : &can_lose) = 1;
    CHECK_INT(quorum_vote(t), !can_lose ? WON : can_win ? UNDECIDED : LOST);
    CHECK_INT(quorum_missing(t), !is_majority(t->n - t->missing - t->margin, t->n));
}

static void compare(const struct tally *t)
{
    test_note("n %d yes %d absent %d foreign %d missing %d pending %d margin %d", t->n,
              t->yes, t->absent, t->foreign, t->missing, t->pending, t->margin);
    if (t->margin) {
        compare_margin(t);
        return;
    }
    CHECK_INT(quorum_vote(t), naive_vote(t));
    CHECK_INT(quorum_extend(t), naive_extend(t));
    CHECK_INT(quorum_release(t), naive_release(t));
    CHECK_INT(quorum_missing(t), !is_majority(t->n - t->missing, t->n));
    CHECK_INT(quorum_answered(t), is_majority(t->yes + t->absent + t->foreign, t->n));
    if (!t->pending) {       /* all votes are in: it is decided, ties included */
        CHECK(quorum_vote(t) != UNDECIDED);
        CHECK(quorum_extend(t) != UNDECIDED);
        CHECK(quorum_release(t) != UNDECIDED);
    }
}

/* One more vote never takes a decision back. (A release may turn from "expired" to
 * "released" by a late yes, never between lost votes and a won majority.) */
static void stays_decided(const struct tally *t)
{
    enum verdict before = quorum_vote(t), extend = quorum_extend(t);
    for (int kind = 0; kind < 4 && t->pending; kind++) {
        struct tally u = *t;
        int *place[] = {&u.yes, &u.absent, &u.foreign, &u.missing};
        (*place[kind])++;
        u.pending--;
        CHECK(before == UNDECIDED || quorum_vote(&u) == before);
        CHECK(extend == UNDECIDED || quorum_extend(&u) == extend);
    }
}

static void agrees_with_the_definition(void)
{
    for (int n = 1; n <= 10; n++)
        each_split(n, compare);
    for (int n = 11; n <= 32; n++)
        each_sample(n, test_runs(400), compare);
}

static void decides_for_good(void)
{
    for (int n = 1; n <= 9; n++)
        each_split(n, stays_decided);
    for (int n = 10; n <= 32; n++)
        each_sample(n, test_runs(200), stays_decided);
}

static void two_majorities_share_a_node(void)
{
    for (int n = 1; n <= 32; n++) {
        int q = quorum_size(n);
        CHECK(2 * q > n);                /* no room for two disjoint ones */
        CHECK(2 * (q - 1) <= n);         /* and not larger than needed */
    }
    /* For small n also as sets. */
    for (int n = 1; n <= 8; n++) {
        for (unsigned a = 0; a < 1u << n; a++) {
            for (unsigned b = 0; b < 1u << n; b++) {
                if (__builtin_popcount(a) >= quorum_size(n) &&
                    __builtin_popcount(b) >= quorum_size(n))
                    REQUIRE((a & b) != 0);
            }
        }
    }
}

static void a_tie_is_lost_at_once(void)
{
    for (int n = 2; n <= 32; n += 2) {
        struct tally t = {.n = n, .yes = n / 2, .absent = n / 2};
        CHECK_INT(quorum_vote(&t), LOST);
        t = (struct tally){.n = n, .foreign = n / 2, .pending = n / 2};
        CHECK_INT(quorum_vote(&t), LOST);
        t = (struct tally){.n = n, .missing = n / 2, .yes = 1, .pending = n / 2 - 1};
        CHECK_INT(quorum_vote(&t), LOST);
    }
}

static void one_vote_wins_at_the_majority(void)
{
    for (int n = 1; n <= 32; n++) {
        int q = n / 2 + 1;
        struct tally t = {.n = n, .yes = q - 1, .pending = n - q + 1};
        CHECK_INT(quorum_vote(&t), UNDECIDED);
        t.yes++;
        t.pending--;
        CHECK_INT(quorum_vote(&t), WON);
    }
}

/* ---- validity ---- */

static void drift_is_rounded_up(void)
{
    CHECK_INT(quorum_drift_ms(30000, 10000), 302);
    CHECK_INT(quorum_drift_ms(100, 10000), 3);
    CHECK_INT(quorum_drift_ms(101, 10000), 4);
    CHECK_INT(quorum_drift_ms(99, 10000), 3);
    CHECK_INT(quorum_drift_ms(1, 10000), 3);
    CHECK_INT(quorum_drift_ms(0, 10000), 2);
    CHECK_INT(quorum_drift_ms(30000, 0), 2);
    struct rng r = {test_seed()};
    for (int k = 0; k < test_runs(5000); k++) {
        int64_t lease_ms = rng_below(&r, 100 * 1000 * 1000);
        int32_t ppm = rng_below(&r, 1000001);
        int64_t drift = quorum_drift_ms(lease_ms, ppm) - 2;
        test_note("lease %lld ppm %d", (long long)lease_ms, ppm);
        /* The least integer that is not below the exact product. */
        CHECK(drift * 1000000 >= lease_ms * ppm);
        CHECK((drift - 1) * 1000000 < lease_ms * ppm);
    }
}

static void deadline_is_lease_less_drift(void)
{
    CHECK_INT(quorum_deadline_ms(1000, 30000, 10000), 1000 + 30000 - 302);
    CHECK_INT(quorum_deadline_ms(0, 10, 10000), 10 - 3);
    CHECK(quorum_deadline_ms(500, 2, 10000) < 500);    /* worth nothing */
}

static void drift_and_deadline_are_monotone(void)
{
    for (int32_t ppm = 0; ppm <= 100000; ppm += 2500) {
        for (int64_t lease_ms = 0; lease_ms < 1500; lease_ms++) {
            int64_t drift_ms = quorum_drift_ms(lease_ms, ppm);
            REQUIRE(drift_ms <= quorum_drift_ms(lease_ms + 1, ppm));
            REQUIRE(drift_ms <= quorum_drift_ms(lease_ms, ppm + 1));
            REQUIRE(quorum_deadline_ms(7, lease_ms, ppm) <=
                    quorum_deadline_ms(7, lease_ms + 1, ppm));
            REQUIRE(quorum_deadline_ms(7, lease_ms, ppm) + 1 ==
                    quorum_deadline_ms(8, lease_ms, ppm));
        }
    }
}

SUITE(quorum, T(agrees_with_the_definition), T(decides_for_good),
      T(two_majorities_share_a_node), T(a_tie_is_lost_at_once),
      T(one_vote_wins_at_the_majority), T(drift_is_rounded_up),
      T(deadline_is_lease_less_drift), T(drift_and_deadline_are_monotone));
