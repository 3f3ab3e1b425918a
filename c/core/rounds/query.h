/* query.h - rounds without a lease: questions, probes. Contracts in redlock.h. */
#ifndef QUERY_H
#define QUERY_H

#include "core/rounds/round.h"

rl_round *query_ask(struct core *core, int whom, int script, const rl_bytes *keys, int nkeys,
                    const rl_bytes *args, int nargs, int64_t within_ms, int64_t now_ms);
rl_round *query_probe(struct core *core, int64_t now_ms);

/* Hooks for round_kind.read: a reply that begins with a number; and with a vote: RL_GUARDED,
 * for kinds that are guarded, or -1 to 2. */
int query_number(struct rl_round *round, int i, const struct reply *reply,
                 struct vote *vote);
int query_vote(struct rl_round *round, int i, const struct reply *reply, struct vote *vote);

#endif
