#include "core/seal.h"

#include <stdio.h>
#include <string.h>

#include "core/mark.h"

enum {
    WAIT_MS = 10000,              /* for others that cannot be asked */
    AGAIN_MS = 1000               /* between two requests to admit the node */
};

int seal_waits(struct core *core, int i, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    char life[MARKER_HEX + 1];
    marker_replid(core->nodes[i].info.replid, life);
    if (strcmp(g->back, life)) {
        memcpy(g->back, life, sizeof(life));
        g->back_ms = now_ms;
        g->seal_asked = g->seal_open = g->seal_spent = 0;
    }
    uint32_t others = state_voters(core) & ~bit(i) & ~g->seal_spent;
    return state_majority(core, others) && now_ms - g->back_ms < WAIT_MS;
}

/* Asks those others that were not asked yet. */
static void ask(struct core *core, int i, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    char opens[4 * (MARKER_HEX + 1)];
    snprintf(opens, sizeof(opens), "seal %s %s %s", g->is.inc, g->is.nonce, g->back);
    for (int k = 0; k < core->n; k++) {
        const struct guard *other = &core->guards[k];
        struct node *nd = &core->nodes[k];
        const char *script = core->marker_script;
        if (k == i || (g->seal_asked & bit(k)) || !(state_voters(core) & bit(k)) ||
            nd->state != NODE_READY || other->state != RL_GUARD_ADMITTED)
            continue;
        if (node_set_marker(nd, script, strlen(script), other->marker, other->marker, opens,
                            now_ms) < 0)
            continue;             /* at the next visit */
        g->seal_asked |= bit(k);
        mark_asks(core, k);
    }
}

int seal_visit(struct core *core, int i, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    ask(core, i, now_ms);
    if (!state_majority(core, g->seal_open))
        return seal_waits(core, i, now_ms);
    if (!g->asked && (!g->marked_ms || now_ms - g->marked_ms >= AGAIN_MS)) {
        struct marker m = mark_turned(g, MARKER_ADMITTED);
        memcpy(m.replid, g->back, sizeof(m.replid));
        mark_replace(core, i, &m, now_ms);
    }
    return 1;
}

int seal_told(struct core *core, int k, const char **text, size_t *len)
{
    enum { WORD = MARKER_HEX + 1 };
    const char *t = *text;
    if (*len < WORD || (t[0] != '+' && t[0] != '-'))
        return -1;
    for (int i = 0; i < core->n; i++) {
        struct guard *g = &core->guards[i];
        if (i == k || !(g->seal_asked & bit(k)) || memcmp(g->back, t + 1, MARKER_HEX))
            continue;
        if (t[0] == '+')
            g->seal_open |= bit(k);
        else
            g->seal_spent |= bit(k);
        *text += WORD;
        *len -= WORD;
        return i;
    }
    return -1;
}
