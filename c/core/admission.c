/* admission.c - may a server vote again whose quarantine is over, or that missed a change of
 * the list? */
#include "core/admission.h"

#include "core/mark.h"
#include "core/roll.h"

/* The strict rule, of lists that change: after the quarantine a majority of the others was
 * seen admitted in the newest list (between two lists: of the old one); or all others, of both
 * lists, were seen, none of them in another list, and the rest in quarantine. Those that were
 * not seen since are looked at. */
static int allowed_strictly(struct core *core, int i, int64_t now_ms)
{
    const struct list *newest = state_newest(core);
    uint32_t base = newest->voters.old, all = quorum_voters(&newest->voters);
    uint32_t admitted = 0, pending = 0;
    for (int k = 0; k < core->n; k++) {
        const struct guard *g = &core->guards[k];
        if (k == i || !(all & bit(k)) || core->nodes[k].state != NODE_READY)
            continue;
        if (g->seen_ms < core->guards[i].until_ms)
            mark_look(core, k, now_ms);
        else if (g->state == RL_GUARD_ADMITTED && g->list == newest->number)
            admitted |= bit(k);
        else if (g->state == RL_GUARD_QUARANTINED)
            pending |= bit(k);
    }
    return quorum_of(&(struct voters){base, base}, admitted) ||
           (admitted | pending) == (all & ~bit(i));
}

int admission_allowed(struct core *core, int i, int64_t now_ms)
{
    uint32_t known = 0;
    for (int k = 0; k < core->n; k++) {
        int state = core->guards[k].state;
        if (state == RL_GUARD_DISAGREES)
            return 0;
        if (core->nodes[k].state == NODE_READY &&
            (state == RL_GUARD_ADMITTED || state == RL_GUARD_QUARANTINED))
            known |= bit(k);
    }
    return core->roll.online ? allowed_strictly(core, i, now_ms)
                             : state_majority(core, known);
}

void admission_forward(struct core *core, int i, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    struct marker m = g->is;
    if ((g->state == RL_GUARD_UNKNOWN || g->state == RL_GUARD_ADMITTED) &&
        g->kind == MARKER_READ && !g->asked && !g->forgot && m.state == MARKER_ADMITTED &&
        mark_may(g, now_ms) && roll_behind(core, i)) {
        roll_forward(core, i, &m);
        mark_replace(core, i, &m, now_ms);
    }
}
