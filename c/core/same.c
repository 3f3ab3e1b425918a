/* same.c - one of several places: a majority must have granted the same number.
 *
 * Each node picks a place that is free there, and says which. Votes for different places
 * are about different things, and are not added up: every place is a lock of its own, and
 * two majorities for one place have a node in common, which gave that place to one of
 * them only. A node that picked another place keeps a stray: it is never counted, takes
 * up room on that node, and is dropped there by the first extension, or by the release.
 */
#include "core/same.h"

#include "core/ballot.h"

static int granted(const struct slot *slot)
{
    return slot->state == SLOT_ANSWERED && slot->vote >= RL_VOTE_YES;
}

/* The nodes that granted the number that node i granted. */
static uint32_t group(const struct rl_round *round, int i)
{
    uint32_t nodes = 0;
    for (int k = 0; k < round->core->n; k++) {
        const struct slot *slot = &round->slot[k];
        nodes |= granted(slot) && slot->extra == round->slot[i].extra ? bit(k) : 0;
    }
    return nodes;
}

enum verdict same_judge(struct rl_round *round)
{
    enum verdict best = ballot_of(round, 0);
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        enum verdict v = granted(slot) ? ballot_of(round, group(round, i)) : LOST;
        if (v == WON) {
            round->token = slot->extra;
            return WON;
        }
        if (v == UNDECIDED)
            best = UNDECIDED;
    }
    return best;
}
