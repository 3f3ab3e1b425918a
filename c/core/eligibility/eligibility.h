/* eligibility.h - inside the core: why a node has no vote, and for how long. */
#ifndef ELIGIBILITY_H
#define ELIGIBILITY_H

#include "core/base/state.h"

/* Why a yes of node i would not count, as an rl_code, with nd->why; or RL_OK.
 * suspect_only: only what holds whatever its own marker says. Otherwise the caller knows
 * that the marker does not admit node i, and a code is always returned. */
int eligibility_check(struct core *core, int i, int suspect_only, int64_t now_ms);

/* Why this client, which has no guard, may not use node i: it has a marker, so others use it with
 * the guard; or RL_WHY_NONE. */
enum rl_why eligibility_others(const struct core *core, int i);

/* See rl_guard_left_ms(). */
int64_t eligibility_left_ms(const struct core *core, int64_t now_ms);

/* Fills the fields of a node's info about its marker and its clock. */
void eligibility_report(const struct core *core, int i, rl_node_info *out, int64_t now_ms);

#endif
