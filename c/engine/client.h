/* client.h - a client, from opening to the end. */
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
    int turning;                  /* a thread has the baton */
    int wanting;                  /* callers in rl_wait() or rl_next() */
    int64_t last_turn_ms;
    int timing;                   /* rl_get_times() was called */
    rl_times times[RL_TIMES_KINDS];
    int64_t unsent_ms;            /* since when something waits to be written; 0: nothing */
    struct keeper keeper;
    _Atomic int held;             /* see rl_hold() */
    int loops;                    /* event loops that turn the client: see mailbox.c ... */
    int late;                     /* ... which are late: the keeper turns it, too */
    char *key;                    /* NULL: not shared */
    size_t key_len;
    _Atomic int users;
    int64_t unused_ms;            /* when the last user left */
    int given_up;                 /* by rl_close(): freed with the last handle */
    int64_t rung;                 /* losses and node changes announced so far */
    struct rl_client *next, *prev;     /* all clients of the process, for fork and exit */
    struct node_config *configs;       /* n */
    struct net_address *addresses;     /* n */
    struct tls_context *tls;           /* NULL: no node has TLS */
    char *marker;                 /* of the restart guard; NULL: none */
    char *cluster;                /* NULL: no name */
    char *servers;                /* in canonical form */
    char *marker_script;
    int n;                        /* nodes */
};

static inline struct rl_client *client_of(const struct core *core)
{
    return (struct rl_client *)core;
}

/* Takes a client out of the list of all clients, and frees it. */
void client_forget(struct rl_client *c);

/* With the mutex, in the keeper: whether a shared client has had no user for a while and
 * holds nothing. Nobody can share it from then on: the keeper must close it. */
int client_is_unused(struct rl_client *c);

/* Closes such a client; without a mutex. */
void client_close_unused(struct rl_client *c);

/* Ends what a request held, which has ended: see rl_cleanups_own(). */
void clients_orphan(const int32_t *request);

/* All clients with one of these signals: takes and gives back their mutexes; in between,
 * releases what they hold, and waits for confirmations, RL_LINGER_MS at most. Afterwards
 * these clients start nothing. */
void clients_lock(int signals);
void clients_let_go(int signals);
void clients_unlock(int signals);

#endif
