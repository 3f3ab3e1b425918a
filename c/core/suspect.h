/* suspect.h - inside the core: nodes whose clock was stepped. A node that may have expired
 * locks early gives no votes on an acquire until what it may have freed is over. */
#ifndef SUSPECT_H
#define SUSPECT_H

#include "core/state.h"

/* Node i answered a TIME. -1; or, when its clock was stepped forward, by how many ms a
 * majority of the clocks has been so, at least; 0: no majority. */
int64_t suspect_told(struct core *core, int i, const struct request *request,
                     int64_t now_ms);

#endif
