/* same_number.c - one of several places: a majority must have granted the same number.
 *
 * Each node picks a place that is free there, and replies with its number. Votes for
 * different places are not added up: every place is a lock of its own. Two majorities for
 * one place share a node, which gave the place to only one of them. A node that picked
 * another place keeps a stray: it never counts, takes up room on that node, and is dropped
 * there once the acquire is won (mend_strays()), or by the release.
 */
#include "core/rounds/same_number.h"

/* The verdict if only grants of that number count. */
static enum verdict verdict_for(const struct rl_round *round, int64_t number)
{
    struct tally t = round->tally;
    int yes = __builtin_popcount(NODES_WHERE(round->core, i, round->slot[i].extra == number &&
                                                 round_is_yes(&round->slot[i])));
    t.absent += t.yes - yes;
    t.yes = yes;
    return quorum_vote(&t);
}

enum verdict same_number_judge(struct rl_round *round)
{
    enum verdict best = verdict_for(round, 0);    /* for a number that none has granted */
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        enum verdict v = round_is_yes(slot) ? verdict_for(round, slot->extra) : LOST;
        if (v == WON) {
            round->token = slot->extra;
            return WON;
        }
        if (v == UNDECIDED)
            best = UNDECIDED;
    }
    return best;
}
