/* client.h - a client, and how it begins and ends. */
#ifndef CLIENT_H
#define CLIENT_H

#include <pthread.h>

#include "engine/keeper.h"
#include "io/net.h"
#include "redlock.h"

struct rl_client {
    struct core core;             /* first: a round's core is its client */
    struct net net;
    pthread_mutex_t mutex;
    pthread_cond_t turned;
    int turning;                  /* somebody has the baton */
    int wanting;                  /* callers in rl_wait: the keeper lets them go first */
    int64_t last_turn_ms;
    _Atomic int lazy;             /* what is begun is written with the next turn, or ... */
    int timing;                   /* rounds are timed: see times.h */
    rl_times times[RL_TIMES_KINDS];
    int64_t unsent_ms;            /* ... 1 ms after this; 0: nothing waits for that */
    struct keeper keeper;
    /* Shared clients: the keeper turns the loop, and nobody else. */
    char *key;                    /* NULL: not shared */
    size_t key_len;
    _Atomic int users;
    int64_t unused_ms;            /* since when there are none */
    int given_up;                 /* by rl_close(): freed with the last handle */
    _Atomic int kicking;          /* how many wake the thread at this moment */
    struct rl_mailbox *ringing;   /* to be rung when the mutex is free; NULL: none */
    int64_t rung;                 /* losses and node changes that were announced */
    struct rl_client *next, *prev;     /* all clients of the process, for fork and exit */
    struct node_config *configs;       /* n */
    struct net_address *addresses;     /* the same */
    struct tls_context *tls;           /* NULL: no node has TLS */
    char *client_name;
    char *marker;                 /* of the restart guard; NULL: none */
    char *cluster;                /* NULL: it has no name */
    char *servers;                /* in canonical form */
    int signals;                  /* RL_SIGNAL_* that let go what is held */
    char *marker_script;
    int n;                        /* nodes */
};

static inline struct rl_client *client_of(const struct core *core)
{
    return (struct rl_client *)core;
}

/* Takes a client out of the list of all, and frees it. */
void client_forget(struct rl_client *c);

/* With the mutex, in the client's own thread: whether nobody has used a shared client for a while,
 * and it holds nothing. Nobody can share it any more then: the thread is to close it. */
int client_is_unused(struct rl_client *c);

/* Closes it, without a mutex held. */
void client_close_unused(struct rl_client *c);

/* All clients with one of these signals: takes and gives back their mutexes; in between,
 * lets go what they hold, and waits for confirmations, LINGER_MS at most. Nothing can be
 * started with them any more. */
void clients_lock(int signals);
void clients_let_go(int signals);
void clients_unlock(int signals);

#endif
