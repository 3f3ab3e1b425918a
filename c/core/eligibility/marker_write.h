/* marker_write.h - inside the core: what a client writes into the marker of a server. */
#ifndef MARKER_WRITE_H
#define MARKER_WRITE_H

#include "core/base/state.h"

/* Has node i's queue written, and times out its answer. */
void marker_write_send(struct core *core, int i);

/* True: the marker may be replaced: once a second, and whenever its text has changed. */
int marker_write_due(const struct guard *g, int64_t now_ms);

/* Asks node i to replace the text that was seen. */
void marker_write_replace(struct core *core, int i, const struct marker *want, int64_t now_ms);

/* A marker with a new INC. */
struct marker marker_write_new(struct core *core, int i, enum marker_state state);

/* The marker that was seen, with another state. */
struct marker marker_write_in_state(const struct guard *g, enum marker_state state);

/* Adds to the text how long we have seen it unchanged: others continue from there. */
void marker_write_progress(struct core *core, int i, int64_t now_ms);

#endif
