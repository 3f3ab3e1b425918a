/* teach.h - inside the core: floors of fencing tokens, for servers that have none.
 *
 * A server keeps, for each bucket of names, a number above which it never gave out a
 * counter, and one base below which no bucket counts. Without a base it has no vote on
 * tokens. A server that lost its memory gets one in the step that admits it: the largest
 * number that N - q + 1 others have given out, as any majority that witnessed a token has
 * a member among those. That step comes after its quarantine, when every attempt that had
 * its vote has ended.
 *
 * The clocks of the servers decide only if a majority says that it knows nothing: then the
 * base is above all earlier tokens if fewer than 16 were issued in a millisecond, and the
 * clocks were not set back. If servers that may know more are silent, the server is
 * admitted without a base: it votes on plain locks. The client that admitted it asks again
 * until they answer.
 */
#ifndef TEACH_H
#define TEACH_H

#include "core/rounds/round.h"

/* Asks all nodes (lua/redlock/scripts/fenced/tell.lua), for at most within_ms, then gives a
 * base to those without one, and admits those whose quarantine has ended. seen_ms, force: as
 * in rl_teach(), also with a base from the clocks; -1: admits no others. Done when what is
 * to be written is on its way. NULL: out of memory, or closed. */
rl_round *teach_begin(struct core *core, int64_t seen_ms, int force, int64_t within_ms,
                      int64_t now_ms);

/* Does so at most once a second, without a caller that waits. */
void teach_alone(struct core *core, int64_t now_ms);

/* Call in each look at the nodes (guard_on_timer()): admits those whose quarantine has ended,
 * and teaches those that we admitted without floors. */
void teach_look(struct core *core, int64_t now_ms);

/* A bound that no counter can have reached. A number ten years ahead of the clocks is the
 * mistake of somebody who wrote to a server: following it once would make all later tokens
 * larger. */
int64_t teach_token_limit(const struct core *core, int64_t now_ms);

#endif
