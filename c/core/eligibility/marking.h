/* marking.h - inside the core: what a client writes into the marker of a server: builds
 * its next text, and asks the server to replace the one that was seen (marking_replace()). */
#ifndef MARKING_H
#define MARKING_H

#include "core/base/state.h"

/* Asks node i to replace the text that was seen (lua/redlock/scripts/marker/set.lua).
 * own_ms: for how long we have seen it, as text; "": a quarantine begins. base: the base of
 * its floors; 0: none. */
void marking_replace(struct core *core, int i, const struct marker *want,
                     const char *own_ms, int64_t base, int64_t now_ms);

/* Has node i, which is not guarded, take a base for its floors. */
void marking_teach(struct core *core, int i, int64_t base, int64_t now_ms);

/* A marker with a new INC. */
struct marker marking_new(struct core *core, int i, enum marker_state state);

/* The marker that was seen, with another state. */
struct marker marking_in_state(const struct guard *g, enum marker_state state);

/* Adds to the text how long we have seen it unchanged: others continue from there. state:
 * what the marker is in from then on. */
void marking_progress(struct core *core, int i, int state, int64_t now_ms);

#endif
