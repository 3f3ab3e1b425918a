/* quorum.h - votes -> won | lost | undecided, and what a lease is worth. Pure
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
    int absent;              /* refused, or not there */
    int foreign;             /* somebody else's */
    int missing;             /* no answer: down, error, too late */
    int pending;
    int margin;              /* so many yes more than a majority are wanted */
};

/* floor(n / 2) + 1: any two majorities of the n configured nodes share one. */
int quorum_size(int n);

/* A majority of n, and so many more as there are. */
int quorum_with(int n, int margin);

/* For acquire: WON when a majority and the margin said yes, LOST when it cannot any more (a
 * tie on an even n included), else UNDECIDED. */
enum verdict quorum_vote(const struct tally *t);

/* Whether it is not known yet if a majority says no. */
int quorum_open(const struct tally *t);

/* For extend: as quorum_vote, but LOST only when it is also known whether a majority
 * disowns us (absent or foreign), which ends the lease, or not. */
enum verdict quorum_extend(const struct tally *t);

/* For release: WON when a majority answered and a node had our key still, LOST when none
 * had, or a majority is somebody else's, or no majority can answer any more. */
enum verdict quorum_release(const struct tally *t);

/* True when a majority answered, whatever it said. */
int quorum_answered(const struct tally *t);

/* True when a majority has not our key; when a majority has somebody else's. */
int quorum_disowned(const struct tally *t);
int quorum_foreign(const struct tally *t);

/* True when so many nodes are missing that no majority, and no margin, can answer. */
int quorum_missing(const struct tally *t);

/* When `want` nodes may be free, where `known` say in how many ms they are: the want-th
 * smallest of ms, which this sorts; -1: too few are known. */
int64_t quorum_free_in_ms(int64_t *ms, int known, int want);

/* What the clocks of the servers may gain on ours during a lease, in ms, rounded up. */
int64_t quorum_drift_ms(int64_t lease_ms, int32_t drift_ppm);

/* The moment up to which a lease asked for at started_ms may be relied upon. */
int64_t quorum_deadline_ms(int64_t started_ms, int64_t lease_ms, int32_t drift_ppm);

#endif
