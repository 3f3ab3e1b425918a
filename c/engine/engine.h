/* engine.h - inside the engine: the client, and its keeper thread. */
#ifndef ENGINE_H
#define ENGINE_H

#include <pthread.h>

#include "engine/mailbox.h"
#include "io/net.h"
#include "redlock.h"

/* A caller that was away longer than this reads what arrived meanwhile before it judges
 * whether a node is hung. */
enum { AWAY_MS = 20 };

/* The thread that does what is due while no caller turns the loop. It sleeps off the
 * loop's poll, on a timer of its own, so that it costs callers nothing. */
struct keeper {
    int running;
    int stop;
    int timerfd;                  /* -1: none */
    int64_t armed_ms;             /* what it is set to; INT64_MAX: off */
    int sleeping;                 /* on timerfd; else it looks by itself */
    int turning;                  /* in its poll, with the baton; not of a shared client */
    pthread_t thread;
};

struct rl_client {
    struct core core;             /* first: a round's core is its client */
    struct net net;
    pthread_mutex_t mutex;
    pthread_cond_t turned;
    int turning;                  /* somebody has the baton */
    int wanting;                  /* callers in rl_wait: the keeper lets them go first */
    int64_t last_turn_ms;
    struct keeper keeper;
    /* Shared clients: the keeper turns the loop, and nobody else. */
    char *key;                    /* NULL: not shared */
    size_t key_len;
    int users;
    int given_up;                 /* by rl_close(): forgotten with the last handle */
    _Atomic int kicking;          /* how many wake the thread at this moment */
    struct rl_mailbox *ringing;   /* to be rung when the mutex is free; NULL: none */
    int64_t rung;                 /* losses and node changes that were announced */
    struct rl_client *next, *prev;     /* all clients of the process, for fork and exit */
    struct node_config *configs;
    struct net_address *addresses;
    struct tls_context *tls;           /* NULL: no node has TLS */
    char *client_name;
    char *marker;                 /* of the restart guard; NULL: none */
    int signals;                  /* RL_SIGNAL_*: they let go what is held */
    char *mark_script;
    int n;
};

/* One turn of the loop, with the mutex held and the baton free. 0, or an errno. */
int engine_turn(struct rl_client *c, int block);

/* Locks, and makes sure that what arrived is read. The time, or -1: no descriptors left
 * (unlocked). */
int64_t engine_enter(struct rl_client *c);

/* Sends what was started, and unlocks; gives the round back. */
rl_round *engine_started(struct rl_client *c, rl_round *round, int64_t now_ms);

/* With the mutex: what is done goes to its mailbox, and what else happened is announced. */
void engine_deliver(struct rl_client *c);

/* The round's handle is given back: nobody is told any more that it is done. */
void engine_forget(rl_round *round);

/* Takes a client out of the list of all, and frees it. */
void client_forget(struct rl_client *c);

/* All clients with one of these signals: takes and gives back their mutexes; in between,
 * lets go what they hold, and waits for confirmations, NET_LINGER_MS at most. Nothing can be
 * started with them any more. */
void clients_lock(int signals);
void clients_let_go(int signals);
void clients_unlock(int signals);

/* Unlocks; frees the client when it is closed and nobody has a handle any more. */
void engine_leave(struct rl_client *c);

static inline void engine_lock(struct rl_client *c)
{
    pthread_mutex_lock(&c->mutex);
}

/* Unlocks, and wakes whom the caller has something for: the keeper, an event loop. */
void engine_unlock(struct rl_client *c);

static inline struct rl_client *client_of(const struct core *core)
{
    return (struct rl_client *)core;
}

/* ---- signals.c ---- */

/* From now on these signals (RL_SIGNAL_*) let go what clients hold that have them, before
 * they do what they would do otherwise. 0, or -1: no thread. */
int signals_catch(int signals);

/* Around a fork, with all mutexes of clients. */
void signals_before_fork(void);
void signals_after_fork(int is_child);

/* ---- the keeper; all with the mutex held ---- */

/* Starts the thread unless it runs. 0, or -1: no memory, descriptors or threads. */
int keeper_start(struct rl_client *c);

/* Sees to it that the keeper, if there is one, wakes in time for what is due. */
void keeper_notice(struct rl_client *c);

/* A caller leaves: what it leaves unsent is the keeper's now. */
void keeper_take_over(struct rl_client *c);

/* A caller wants the baton: ends the keeper's poll, if it is in it. */
void keeper_make_way(struct rl_client *c);

/* Ends the thread and waits for that (gives up the mutex meanwhile). */
void keeper_stop(struct rl_client *c);

/* In the child of a fork: there is no such thread. */
void keeper_void(struct rl_client *c);

#endif
