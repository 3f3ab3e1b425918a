/* admission.h - inside the core: may a server vote again whose quarantine is over, or that
 * missed a change of the list? */
#ifndef ADMISSION_H
#define ADMISSION_H

#include "core/state.h"

/* True when a majority of the nodes, none of which disagrees, is known by now; in a list
 * that may change by the strict rule, for which others may be asked for their markers. */
int admission_allowed(struct core *core, int i, int64_t now_ms);

/* Node i, which is in the life that its marker names, is told of the list in force if it has
 * missed that, and forgot nothing. */
void admission_forward(struct core *core, int i, int64_t now_ms);

#endif
