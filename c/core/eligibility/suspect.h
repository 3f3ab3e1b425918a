/* suspect.h - inside the core: nodes whose clock was stepped. Such a node may have
 * expired locks early. It gives no votes on an acquire until those locks have ended.
 *
 * A step forward that is certainly the server's, and was seen when it happened, is written
 * into the marker (guard.h): then no client counts the server's votes, also those that
 * start later. Other steps are not written: a step back, which frees nothing early, and one
 * that may be of our own clock. Then only this client does not count the server's votes. */
#ifndef SUSPECT_H
#define SUSPECT_H

#include "core/base/state.h"

/* Handles node i's answer to TIME. -1; or, if its clock was stepped forward, by how many
 * more ms, at least, a majority of the clocks has been; 0: no majority. */
int64_t suspect_answered(struct core *core, int i, const struct request *request,
                     int64_t now_ms);

#endif
