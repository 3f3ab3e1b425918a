/* suspect.h - inside the core: nodes whose clock was stepped. Such a node may have
 * expired locks early. It gives no votes on an acquire until those locks have ended.
 *
 * A step forward that is certainly the server's, and was seen when it happened, is written
 * into the marker (guard.h): then no client counts the server's votes, not even one that
 * starts later. Other steps are not written: a step back, which frees nothing early, and one
 * that may be of our own clock. Then only this client does not count the server's votes. */
#ifndef SUSPECT_H
#define SUSPECT_H

#include "core/base/state.h"

/* Handles node i's answer to TIME. Returns -1 unless its clock was stepped forward; else the ms
 * by which, at least, a majority of the clocks has been stepped in addition; 0: no majority. */
int64_t suspect_answered(struct core *core, int i, const struct request *request,
                     int64_t now_ms);

#endif
