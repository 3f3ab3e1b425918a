/* standing.h - inside the core: what is told of a node's right to vote. */
#ifndef STANDING_H
#define STANDING_H

#include "core/state.h"

/* Why node i gives no vote, however long one waits, and what to do; "": that is not so.
 * text: RL_TEXT_MAX bytes. */
void standing_explain(const struct core *core, int i, char *text);

/* Names the cluster that node i's marker is of, and ours, and what may be wrong. text:
 * RL_TEXT_MAX bytes. */
void standing_name_both(const struct core *core, int i, char *text);

/* Why a yes of node i would not count: RL_GUARDED or RL_CONFIG, with the node's text; or
 * RL_OK. suspect_only: disregards the marker, which is not known now. */
int standing_objects(struct core *core, int i, int suspect_only, int64_t now_ms);

/* As rl_guard_left_ms(). */
int64_t standing_left_ms(const struct core *core, int64_t now_ms);

/* The fields of a node's info that are about its marker and its clock. */
void standing_tell(const struct core *core, int i, rl_node_info *out, int64_t now_ms);

#endif
