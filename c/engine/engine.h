/* engine.h - one mutex per client, the baton; waiting. */
#ifndef ENGINE_H
#define ENGINE_H

#include <pthread.h>

#include "engine/client.h"

struct epoll_event;

/* A caller that was away for longer first reads what arrived meanwhile, and only then
 * judges whether a node is hung. */
enum { AWAY_MS = 20 };

/* One turn of the loop, with the mutex held and the baton free. 0, or an errno. */
int engine_turn(struct rl_client *c, int block);

/* With the mutex: does what count events tell, and then what is due. */
void engine_hear(struct rl_client *c, struct epoll_event *events, int count,
                 int64_t now_ms);

/* Locks, and makes sure that what arrived is read. The time, or -1: no descriptors left
 * (unlocked). */
int64_t engine_enter(struct rl_client *c);

/* With the mutex: sends what a caller has begun, or leaves that to the next turn while
 * rl_lazy() is on. Every caller sends in this way. */
void engine_send(struct rl_client *c, int64_t now_ms);

/* With the mutex: sends what waits for the next turn, and all else. */
void engine_flush(struct rl_client *c, int64_t now_ms);

/* Sends what was started, and unlocks; gives the round back. */
rl_round *engine_started(struct rl_client *c, rl_round *round, int64_t now_ms);

/* The same for rl_next(): with rl_round_notify(), and sent as while rl_lazy() is on. */
rl_round *engine_begun(struct rl_client *c, rl_round *round, int64_t now_ms);

typedef rl_round *started_fn(struct rl_client *c, rl_round *round, int64_t now_ms);

/* With the mutex: what is done goes to its mailbox, and what else happened is
 * announced. */
void engine_deliver(struct rl_client *c);

/* The round's handle is given back: nobody is told any more when the round is done. */
void engine_forget(rl_round *round);

/* Unlocks; frees a client that is closed and of which nobody has a handle any more. */
void engine_leave(struct rl_client *c);

static inline void engine_lock(struct rl_client *c)
{
    pthread_mutex_lock(&c->mutex);
}

/* Unlocks, and wakes the keeper or the event loop that the caller has something for. */
void engine_unlock(struct rl_client *c);

#endif
