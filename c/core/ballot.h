/* ballot.h - what the votes of a round come to.
 *
 * While there is one list of servers, its tally says all. While one list takes the place
 * of another, servers are at either: a yes counts only together with those for the same
 * list, and by that list's majority, or majorities. */
#ifndef BALLOT_H
#define BALLOT_H

#include "core/round.h"

/* As quorum_vote(), quorum_extend() and quorum_release(). */
enum verdict ballot_vote(const struct rl_round *round);
enum verdict ballot_extend(const struct rl_round *round);
enum verdict ballot_release(const struct rl_round *round);

/* Of an extension between two lists: the majority of the old one said yes, so that nobody
 * else has the name; the new one may want to be given it first. */
int ballot_spreads(const struct rl_round *round);

/* As ballot_vote(), where of those that said yes only these nodes count. */
enum verdict ballot_of(const struct rl_round *round, uint32_t nodes);

/* A majority answered; so many are missing that none can; a majority has not our key; a
 * majority has another's. */
int ballot_answered(const struct rl_round *round);
int ballot_missing(const struct rl_round *round);
int ballot_disowned(const struct rl_round *round);
int ballot_foreign(const struct rl_round *round);

/* A majority of the newest list said yes, but not all for the same list: it changed
 * meanwhile. */
int ballot_split(const struct rl_round *round);

/* The nodes that gave the same vote and data as node i, which is one of them; 0: node i has
 * not answered. */
uint32_t ballot_alike(const struct rl_round *round, int i);

#endif
