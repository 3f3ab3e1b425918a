/* same.c - one of several places: a majority must have granted the same number.
 *
 * Each node picks a place that is free there, and says which. Votes for different places
 * are about different things, and are not added up: every place is a lock of its own, and
 * two majorities for one place have a node in common, which gave that place to one of
 * them only. A node that picked another place keeps a stray: it is never counted, takes
 * up room on that node, and is dropped there by the first extension, or by the release.
 */
#include "core/same.h"

/* How many nodes granted the number that node i granted. */
static int group_size(const struct rl_round *round, int i)
{
    int size = 0;
    for (int k = 0; k < round->core->n; k++) {
        const struct slot *slot = &round->slot[k];
        size += slot->state == SLOT_ANSWERED && slot->vote >= RL_VOTE_YES &&
                slot->extra == round->slot[i].extra;
    }
    return size;
}

enum verdict same_judge(struct rl_round *round)
{
    const struct tally *t = &round->tally;
    int q = quorum_size(t->n), most = 0;
    for (int i = 0; i < t->n; i++) {
        const struct slot *slot = &round->slot[i];
        int granted = slot->state == SLOT_ANSWERED && slot->vote >= RL_VOTE_YES;
        int size = granted ? group_size(round, i) : 0;
        if (size >= q) {
            round->token = slot->extra;
            return WON;
        }
        most = size > most ? size : most;
    }
    return most + t->pending < q ? LOST : UNDECIDED;
}
