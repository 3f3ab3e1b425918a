/* suspect.h - inside the core: nodes whose clock was stepped. Such a node may have
 * expired locks early. It gives no votes on an acquire until those locks have ended. */
#ifndef SUSPECT_H
#define SUSPECT_H

#include "core/base/state.h"

/* Handles node i's answer to TIME. -1; or, if its clock was stepped forward, by how many
 * more ms, at least, a majority of the clocks has been; 0: no majority. */
int64_t suspect_answered(struct core *core, int i, const struct request *request,
                     int64_t now_ms);

#endif
