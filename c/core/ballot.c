/* ballot.c - what the votes of a round come to. */
#include "core/ballot.h"

#include <string.h>

/* Nodes, by what their slots say. */
struct ballot {
    uint32_t yes, absent, foreign, missing, pending;
};

static struct ballot count(const struct rl_round *round)
{
    struct ballot b = {0};
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        switch (slot->state) {
        case SLOT_OUT:
            break;
        case SLOT_MISSING:
            b.missing |= bit(i);
            break;
        case SLOT_ANSWERED:
            *(slot->vote >= RL_VOTE_YES      ? &b.yes
              : slot->vote == RL_VOTE_ABSENT ? &b.absent
                                             : &b.foreign) |= bit(i);
            break;
        default:
            b.pending |= bit(i);
        }
    }
    return b;
}

/* The nodes whose votes are for that list. */
static uint32_t votes_for(const struct rl_round *round, const struct list *list)
{
    uint32_t nodes = 0;
    for (int i = 0; i < round->core->n; i++)
        nodes |= round->slot[i].list == list->number ? bit(i) : 0;
    return nodes;
}

/* Every vote is for the one list that there is. */
static int plain(const struct rl_round *round)
{
    const struct core *core = round->core;
    return core->lists_len == 1 && core->lists[0].number == round->list &&
           core->lists[0].voters.old == core->lists[0].voters.now;
}

/* A majority of the newest list; between two lists of the old one, which still decides
 * what nobody has any more. */
static int of_old(const struct rl_round *round, uint32_t nodes)
{
    uint32_t old = state_newest(round->core)->voters.old;
    return quorum_of(&(struct voters){old, old}, nodes);
}

static enum verdict elect(const struct rl_round *round, const struct ballot *b)
{
    const struct core *core = round->core;
    enum verdict best = LOST;
    for (int k = 0; k < core->lists_len; k++) {
        const struct list *list = &core->lists[k];
        enum verdict v =
            quorum_elect(&list->voters, b->yes & votes_for(round, list), b->pending,
                         round->tally.margin);
        if (v == WON)
            return WON;
        if (v == UNDECIDED)
            best = UNDECIDED;
    }
    return best;
}

enum verdict ballot_vote(const struct rl_round *round)
{
    if (plain(round))
        return quorum_vote(&round->tally);
    struct ballot b = count(round);
    return elect(round, &b);
}

enum verdict ballot_of(const struct rl_round *round, uint32_t nodes)
{
    struct ballot b = count(round);
    b.yes &= nodes;
    return elect(round, &b);
}

enum verdict ballot_extend(const struct rl_round *round)
{
    if (plain(round))
        return quorum_extend(&round->tally);
    struct ballot b = count(round);
    enum verdict v = elect(round, &b);
    uint32_t no = b.absent | b.foreign;
    return v == LOST && !of_old(round, no) && of_old(round, no | b.pending) ? UNDECIDED : v;
}

int ballot_spreads(const struct rl_round *round)
{
    if (plain(round))
        return 0;
    struct ballot b = count(round);
    return of_old(round, b.yes & votes_for(round, state_newest(round->core)));
}

enum verdict ballot_release(const struct rl_round *round)
{
    if (plain(round))
        return quorum_release(&round->tally);
    struct ballot b = count(round);
    uint32_t answered = b.yes | b.absent | b.foreign;
    if (of_old(round, b.foreign) || !of_old(round, answered | b.pending))
        return LOST;
    if (!of_old(round, answered) || of_old(round, b.foreign | b.pending))
        return UNDECIDED;
    return b.yes ? WON : LOST;
}

int ballot_answered(const struct rl_round *round)
{
    if (plain(round))
        return quorum_answered(&round->tally);
    struct ballot b = count(round);
    return of_old(round, b.yes | b.absent | b.foreign);
}

int ballot_missing(const struct rl_round *round)
{
    if (plain(round))
        return quorum_missing(&round->tally);
    struct ballot b = count(round);
    uint32_t old = state_newest(round->core)->voters.old;
    return quorum_elect(&(struct voters){old, old}, ~b.missing & old, 0,
                        round->tally.margin) != WON;
}

int ballot_disowned(const struct rl_round *round)
{
    const struct tally *t = &round->tally;
    if (plain(round))
        return t->absent + t->foreign >= quorum_size(t->n);
    struct ballot b = count(round);
    return of_old(round, b.absent | b.foreign);
}

int ballot_foreign(const struct rl_round *round)
{
    const struct tally *t = &round->tally;
    if (plain(round))
        return t->foreign >= quorum_size(t->n);
    struct ballot b = count(round);
    return of_old(round, b.foreign);
}

int ballot_split(const struct rl_round *round)
{
    if (plain(round))
        return 0;
    struct ballot b = count(round);
    return elect(round, &b) == LOST &&
           quorum_of(&state_newest(round->core)->voters, b.yes);
}

uint32_t ballot_alike(const struct rl_round *round, int i)
{
    const struct slot *a = &round->slot[i];
    uint32_t group = 0;
    for (int j = 0; j < round->core->n && a->state == SLOT_ANSWERED; j++) {
        const struct slot *b = &round->slot[j];
        if (b->state == SLOT_ANSWERED && b->vote == a->vote && b->data_len == a->data_len &&
            !memcmp(round_data(b), round_data(a), a->data_len))
            group |= bit(j);
    }
    return group;
}
