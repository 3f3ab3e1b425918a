/* engine.h - one mutex per client, the baton that lets one thread turn the loop; waiting.
 *
 * c/README.md says what belongs in each room.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <pthread.h>

#include "engine/client.h"
#include "engine/signals.h"

/* After a longer absence a caller reads what has arrived before it judges whether a node
 * is hung. */
enum { AWAY_MS = 20 };

/* One turn of the loop, with the mutex held and the baton free. 0, or an errno. */
int engine_turn(struct rl_client *c, int block);

/* Locks, and reads what has arrived. The time in ms; -1: unlocked, as there is no client,
 * or no thread or descriptor left. */
int64_t engine_enter(struct rl_client *c);

/* With the mutex: sends what callers have begun, or leaves it to the next turn while
 * rl_hold() is on. */
void engine_send(struct rl_client *c, int64_t now_ms);

/* With the mutex: sends everything now. */
void engine_flush(struct rl_client *c, int64_t now_ms);

/* With the mutex: sends what waits for the next turn. */
void engine_flush_late(struct rl_client *c);

/* Sends what was started, and unlocks (engine_leave()). Returns the round. */
rl_round *engine_send_and_leave(struct rl_client *c, rl_round *round, int64_t now_ms);

/* Like engine_send_and_leave(), with rl_round_notify(), and sends as while rl_hold() is on. */
rl_round *engine_queue_and_leave(struct rl_client *c, rl_round *round, int64_t now_ms);

/* With the mutex: sends what was started, and waits as rl_wait(). */
int engine_wait(struct rl_client *c, rl_round *round, int64_t now_ms);

typedef rl_round *started_fn(struct rl_client *c, rl_round *round, int64_t now_ms);

/* With the mutex: moves rounds that are done to their mailboxes, and announces losses and
 * node changes. */
void engine_deliver(struct rl_client *c);

/* With the mutex: frees a round's handle, and keeps the round out of all mailboxes. */
void engine_free(rl_round *round);

/* Delivers and unlocks; frees a closed client without handles. */
void engine_leave(struct rl_client *c);

/* Returns a value that is read with the mutex. */
#define RETURN_LOCKED(client, value)                 \
    do {                                             \
        struct rl_client *locked_ = (client);        \
        engine_lock(locked_);                        \
        __typeof__(value) value_ = (value);          \
        engine_unlock(locked_);                      \
        return value_;                               \
    } while (0)

static inline void engine_lock(struct rl_client *c)
{
    signals_lock(&c->mutex);
}

static inline void engine_unlock(struct rl_client *c)
{
    signals_unlock(&c->mutex);
}

#endif
