/* quorum.h - votes -> won | lost | undecided, and the validity of a lease. Pure
 * arithmetic.
 *
 * Sources: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ (the
 * Redlock page) for the majority, for validity = lease - elapsed - drift, and for the
 * customary drift of 1 % + 2 ms.
 */
#ifndef QUORUM_H
#define QUORUM_H

#include <stdint.h>

enum {
    QUORUM_DRIFT_CONSTANT_MS = 2   /* Redis' expiry granularity plus our own rounding */
};

enum verdict { UNDECIDED, WON, LOST };

/* The votes of one round: yes + absent + foreign + missing + pending == n. */
struct tally {
    int n;
    int yes;
    int absent;              /* refused, or the key is gone */
    int foreign;             /* another holder has the key */
    int missing;             /* no answer: down, error, too late */
    int pending;
    int margin;              /* how many yes it takes beyond a majority */
};

/* floor(n / 2) + 1: any two majorities of the n configured nodes share one. */
int quorum_size(int n);

/* A majority of n plus the margin, at most n. */
int quorum_with(int n, int margin);

/* For acquire: WON when a majority and the margin said yes, LOST when they no longer can
 * (a tie on an even n included), else UNDECIDED. */
enum verdict quorum_vote(const struct tally *t);

/* True: it is not yet certain whether a majority says no. */
int quorum_may_refuse(const struct tally *t);

/* For extend: like quorum_vote(), but LOST only once it is known whether a majority
 * disowns us (absent or foreign), which ends the lease. */
enum verdict quorum_extend(const struct tally *t);

/* For release: WON when a majority answered and a node still had our key. LOST when none
 * had, or a majority is foreign, or no majority can answer any more. */
enum verdict quorum_release(const struct tally *t);

/* True when a majority answered, whatever the answers. */
int quorum_answered(const struct tally *t);

/* True when a majority lacks our key; when a majority has another holder's. */
int quorum_disowned(const struct tally *t);
int quorum_foreign(const struct tally *t);

/* True when the nodes that are not missing are fewer than a majority plus margin. */
int quorum_missing(const struct tally *t);

/* The time at which `want` nodes have come: the want-th smallest (from 1) of the `known`
 * entries of ms, which this sorts; -1: too few are known. */
int64_t quorum_nth_ms(int64_t *ms, int known, int want);

/* What the clocks of the servers may gain on ours during a lease, in ms, rounded up. */
int64_t quorum_drift_ms(int64_t lease_ms, int32_t drift_ppm);

/* The end of the validity of a lease asked for at started_ms. */
int64_t quorum_deadline_ms(int64_t started_ms, int64_t lease_ms, int32_t drift_ppm);

#endif
