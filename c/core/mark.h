/* mark.h - inside the core: what a client writes into the marker of a server. */
#ifndef MARK_H
#define MARK_H

#include "core/state.h"

/* Something was queued for node i, and nobody but us waits for the answer. */
void mark_asks(struct core *core, int i);

/* Asks node i to replace the text that was seen; and whether that may be done yet: once a
 * second, unless the text has changed. */
int mark_may(const struct guard *g, int64_t now_ms);
void mark_replace(struct core *core, int i, const struct marker *want, int64_t now_ms);

/* A marker of a memory that begins now. */
struct marker mark_fresh(struct core *core, int i, enum marker_state state);

/* What was seen, with another state. */
struct marker mark_turned(const struct guard *g, enum marker_state state);

/* Puts into the text for how long we have seen it unchanged. */
void mark_progress(struct core *core, int i, int64_t now_ms);

#endif
