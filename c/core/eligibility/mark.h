/* mark.h - inside the core: what a client writes into the marker of a server. */
#ifndef MARK_H
#define MARK_H

#include "core/base/state.h"

/* Has node i's queue written, and times out its answer. */
void mark_asks(struct core *core, int i);

/* True: the marker may be replaced: once a second, and whenever its text has changed. */
int mark_may(const struct guard *g, int64_t now_ms);

/* Asks node i to replace the text that was seen. */
void mark_replace(struct core *core, int i, const struct marker *want, int64_t now_ms);

/* A marker with a new INC. */
struct marker mark_fresh(struct core *core, int i, enum marker_state state);

/* The marker that was seen, with another state. */
struct marker mark_turned(const struct guard *g, enum marker_state state);

/* Adds to the text how long we have seen it unchanged: others continue from there. */
void mark_progress(struct core *core, int i, int64_t now_ms);

#endif
