#include "core/eligibility/marking.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sends the script with this text and this base. */
static void put(struct core *core, int i, const char *seen, const char *text,
                const char *servers, const char *own_ms, int64_t base, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    char whole_ms[24], number[24] = "";
    snprintf(whole_ms, sizeof(whole_ms), "%" PRId64, state_guard_ms(core));
    if (base)
        snprintf(number, sizeof(number), "%" PRId64, base);
    const char *args[MARKING_ARGS] = {seen, text, servers, own_ms, whole_ms, number};
    if (node_set_marker(&core->nodes[i], core->marker_script, args, now_ms) < 0)
        return;                   /* no memory: guard_visit() tries again */
    g->asked = 1;
    g->marked_ms = now_ms;
    state_write(core, i);
}

void marking_replace(struct core *core, int i, const struct marker *want,
                     const char *own_ms, int64_t base, int64_t now_ms)
{
    char text[MARKER_MAX];
    marker_write(want, text);
    put(core, i, core->guards[i].marker, text,
        want->state == MARKER_ADMITTED ? core->servers : "", own_ms, base, now_ms);
}

void marking_teach(struct core *core, int i, int64_t base, int64_t now_ms)
{
    put(core, i, "", core->nodes[i].info.replid, "", "", base, now_ms);
}

struct marker marking_new(struct core *core, int i, enum marker_state state)
{
    struct marker m = {.state = (char)state, .db = core->nodes[i].config->db,
                       .max_lease_ms = core->max_lease_ms};
    memcpy(m.cluster, core->cluster, sizeof(m.cluster));
    marker_hex(state_random(core), MARKER_HEX, m.inc);
    marker_replid(core->nodes[i].info.replid, m.replid);
    return m;
}

struct marker marking_in_state(const struct guard *g, enum marker_state state)
{
    struct marker m = g->fields;
    m.state = (char)state;
    return m;
}

/* Of several clients that saw the same text only one replaces it, so no time is added
 * twice. */
void marking_progress(struct core *core, int i, int state, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    struct marker m = marking_in_state(g, state);
    char own_ms[24];
    snprintf(own_ms, sizeof(own_ms), "%" PRId64, now_ms - g->text_ms);
    marking_replace(core, i, &m, own_ms, 0, now_ms);
}
