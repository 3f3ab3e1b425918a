/* sim.h - a core, a virtual clock and scripted servers, so that a test says in a few
 * lines what each server does to it.
 *
 * The servers parse what the core writes and answer as Redis would. Their scripts are
 * known by number: acquire, extend and release keep one small table of keys per server,
 * which expire exactly at their time. Bytes move only in sim_run() and in the steps it
 * is made of.
 */
#ifndef SIM_H
#define SIM_H

#include "core/close.h"
#include "core/core.h"
#include "core/leases/acquire.h"
#include "core/leases/fence.h"
#include "core/leases/holder.h"
#include "core/leases/watchdog.h"
#include "core/rounds/query.h"
#include "core/rounds/subscription.h"
#include "node/health.h"
#include "test.h"

enum {
    SIM_KEYS = 512,
    SIM_LOG = 1024,
    SIM_TIMEOUT_MS = 250,         /* one node's answer */
    SIM_CONNECT_MS = 1000,
    SIM_DRIFT_PPM = 10000
};

enum {
    SIM_ACQUIRE,
    SIM_EXTEND,
    SIM_RELEASE,
    SIM_ASK,
    SIM_IMPORT,
    SIM_FENCED_ACQUIRE,           /* these count, as the fenced lock's */
    SIM_FENCED_EXTEND,
    SIM_FENCED_RELEASE,
    SIM_CONFIRM,
    SIM_HEAL,
    SIM_FENCED_IMPORT,
    SIM_SCRIPTS,
    SIM_MAX_SCRIPTS = 256         /* that a server knows */
};

/* Servers' clocks count from 1970, ours from the boot: mixing them up shows. */
#define SIM_WALL_MS INT64_C(1790000000000)

struct sim_key {
    char name[32];
    char value[RL_VALUE_LEN];
    int64_t until_ms;
};

/* What one connection carries to the server, and how far it was understood. */
struct sim_stream {
    struct buf in;
    struct redisReader *reader;
};

enum sim_state { SIM_CLOSED, SIM_OPENING, SIM_OPEN };

struct sim_server {
    /* What a test may set at any time. */
    int refuses;                  /* connections are refused */
    int hushed;                   /* connections are neither refused nor made */
    int frozen;                   /* reads nothing, executes nothing */
    int holds;                    /* executes, but keeps its answers back */
    int lingers;                  /* what a broken connection carried is kept, to be */
                                  /* executed by sim_haunt() */
    size_t room;                  /* bytes its socket takes still */
    const char *say[SIM_SCRIPTS]; /* answers this instead of executing the script */
    const char *instead[SIM_SCRIPTS];  /* executes the script, but answers this */
    const char *greets;           /* answers this to every command of the handshake */
    const char *info;             /* answers this to INFO server; NULL: who it is */
    int replicas;                 /* connected to it */
    int promoted;                 /* it was one itself, before */
    int replica;                  /* it is one itself */
    int loading;                  /* answers so to all but INFO */
    int clockless;                /* TIME is not permitted */
    int64_t wall_ms;              /* its wall clock is so much ahead of the others */
    int runs;                     /* how often it was restarted */
    char run_id[41];
    char replid[41];              /* of its life; sim_fail_over() gives it another one */
    char marker[2 * MARKER_MAX];  /* "": none; "#": a key of another type */
    char servers[640];            /* the list beside the marker; "": none */
    int64_t began_ms;             /* its quarantine, */
    int64_t lasted_ms;            /* and for how long it was in it */
    const char *tells;            /* of its floors; NULL: up to 7, if it is admitted */
    int asked;                    /* how often it was asked to */
    int64_t base;                 /* for its floors, as it was told last; 0: none */
    char name[32];                /* of the connection */
    int stubborn;                 /* sets none: and says that it is another one */
    int announced;                /* releases that woke whoever waits */
    int marks;                    /* requests to set it, */
    int marked;                   /* and those that did */

    enum sim_state state;
    int wants;                    /* the core has something to write */
    struct sim_stream live, ghost;
    struct buf out;               /* answers on their way */
    uint8_t loaded[SIM_MAX_SCRIPTS];
    struct sim_key key[SIM_KEYS];
    int keys;
    int64_t counter;              /* of grants, one for all names */
    char log[SIM_LOG];            /* scripts asked for: A, E, R, Q, H by their sha, small */
    size_t logged;                /* letters by EVAL; ?: NOSCRIPT;
                                  F, X, L, C, G, P: the fenced ones; H, P: imports */
    int opened;                   /* connections so far */
};

struct sim {
    int n;
    int64_t now_ms;
    size_t chunk;                 /* bytes fed at once; 0: all */
    unsigned values;
    int gate;                     /* attempts ask first where contenders meet */
    unsigned lives;               /* of all servers so far */
    int greedy;                   /* broken servers: they give away what others have, */
    int hasty;                    /* or expire keys at half their time */
    rl_primitive primitive;
    struct core core;
    rl_round *round[SIM_KEYS];    /* handles that the user was given */
    rl_lease *lease[SIM_KEYS];
    struct node_config config[RL_MAX_NODES];
    struct sim_server server[RL_MAX_NODES];
};

/* A core of n nodes with the four scripts, connected to nothing yet; the servers do not
 * tell the time, so that what a round sends is all that is sent. */
struct sim *sim_new(int n);

/* From now on holds have fencing tokens. */
void sim_fence(struct sim *s);

/* The same with all connections made, long enough to count as stable; logs are empty. */
struct sim *sim_up(int n);

/* Gives back the handles that the test has still, gives all servers their health back, lets
 * everything come to rest, checks that nothing is owed, awaited or leaked, and frees it. */
void sim_finish(struct sim *s);

/* A test with a sim of its own, s, which is finished behind it:
 *     SIM_TEST(name, sim_up(3)) { ... } */
#define SIM_TEST(name, begin)               \
    static void name##_of(struct sim *s);   \
    static void name(void)                  \
    {                                       \
        struct sim *s = begin;              \
        name##_of(s);                       \
        sim_finish(s);                      \
    }                                       \
    static void name##_of(struct sim *s)

/* ---- time and bytes ---- */

/* Moves bytes until nothing moves any more. */
void sim_run(struct sim *s);

/* Lets time pass, with ticks when they are due and bytes moving between them. */
void sim_advance(struct sim *s, int64_t ms);

/* Lets time pass without a tick or a byte. */
void sim_skip(struct sim *s, int64_t ms);

void sim_tick(struct sim *s);

/* Lets time pass until the round is done, at most ms. Its outcome. */
int sim_wait(struct sim *s, rl_round *round, int64_t ms);

/* The outcome of a round when all that can move has moved. */
int sim_outcome(struct sim *s, const rl_round *round);

/* The same; the round is freed. */
int sim_result(struct sim *s, rl_round *round);

/* The steps of sim_run(), each for one server; true: something moved. */
int sim_serve(struct sim *s, int i);    /* what the core wants: close, connect, write */
int sim_open(struct sim *s, int i);     /* a connection is made, or refused */
int sim_execute(struct sim *s, int i, int max);      /* at most max commands */
int sim_deliver(struct sim *s, int i, size_t max);   /* at most max bytes of answers */

/* Executes what connections that broke had still carried. */
int sim_haunt(struct sim *s, int i, int max);

/* The connection of server i breaks. */
void sim_cut(struct sim *s, int i);

/* The same, and no other one is made. */
void sim_leave(struct sim *s, int i);

/* So do the first n. */
void sim_leave_first(struct sim *s, int n);

/* As cut, with everything executed that was sent, and no answer. */
void sim_cut_after(struct sim *s, int i);

/* Server i is killed and started again, with nothing in its memory. */
void sim_restart(struct sim *s, int i);

/* The marker of server i's present life that says that it is admitted. */
struct marker sim_marker(const struct sim *s, int i, int64_t max_lease_ms);

/* Sets the marker on server i. */
void sim_set_marker(struct sim *s, int i, const struct marker *marker);

/* Server i is another life, with the memory of now: as by a failover, and back. */
void sim_fail_over(struct sim *s, int i);

/* The time that a server tells. */
int64_t sim_wall_ms(const struct sim *s, const struct sim_server *sv);

/* Switches the restart guard on; before anything is connected. */
void sim_guard(struct sim *s, int64_t max_lease_ms);

/* As sim_up(), with the guard, all servers admitted, and telling the time. */
struct sim *sim_admitted(int n, int64_t max_lease_ms);

/* close_void(), and the descriptors closed as in the child of a fork. */
void sim_fork(struct sim *s);

/* Gives all servers their health back. */
void sim_heal(struct sim *s);

/* ---- what is there ---- */

/* The key on server i, if it is not expired. */
struct sim_key *sim_key(struct sim *s, int i, const char *name);

/* The servers that have the key, a bit each. */
uint32_t sim_with(struct sim *s, const char *name);

/* The servers that have it with the lease's value. */
uint32_t sim_mine(struct sim *s, const char *name, const rl_lease *lease);

/* Nobody has "k" any more, and nobody is to be asked for it. */
void sim_all_clean(struct sim *s);

/* Somebody else's key. */
void sim_put(struct sim *s, int i, const char *name, int64_t ttl_ms);
void sim_clear_logs(struct sim *s);

/* All logs are this. */
void sim_logs_are(struct sim *s, const char *want);

/* The servers forget their scripts, as by SCRIPT FLUSH. */
void sim_flush_scripts(struct sim *s);

/* Objects of the core that are in use: rounds and leases. */
int sim_live(const struct sim *s);

/* ---- what the user does ---- */

struct hold {
    rl_round *round;
    rl_lease *lease;
};

struct hold sim_acquire(struct sim *s, const char *key, int64_t lease_ms,
                        int64_t within_ms);

/* The same, waited for: it must be granted. Without its round. */
rl_lease *sim_hold(struct sim *s, const char *key, int64_t lease_ms);
rl_round *sim_ask(struct sim *s, const char *key);
rl_round *sim_ask_within(struct sim *s, const char *key, int64_t within_ms);

/* The same, kept by the watchdog. */
rl_lease *sim_keep(struct sim *s, const char *key, int64_t lease_ms);

/* Releases a lease. The outcome. */
int sim_release(struct sim *s, rl_lease *lease);

/* The same, whatever comes of it; its handle is given back. */
void sim_let_go(struct sim *s, rl_lease *lease);

/* The next renewal is in core_out(), its start is returned. Nothing has moved yet. */
int64_t sim_begin_renewal(struct sim *s, const rl_lease *lease);

/* What one process gives to another. */
struct parcel {
    char value[RL_VALUE_LEN];
    int64_t token;
    int once;                      /* the import is to be given away itself */
};

/* Gives a lease away, with its handle; takes one over. */
struct parcel sim_export(struct sim *s, rl_lease *lease);
struct hold sim_import(struct sim *s, const char *key, const struct parcel *p,
                       int64_t lease_ms);

/* Frees a round; its outcome. */
int sim_end(rl_round *round);

/* Drops what a hold has of the two. */
void sim_drop(struct sim *s, struct hold *h);

/* What is left of a lease of lease_ms after elapsed_ms. */
int64_t sim_validity(int64_t lease_ms, int64_t elapsed_ms);

/* What is written for server i reaches it, and its answer comes back; nothing else moves. */
void sim_pass(struct sim *s, int i);

/* From now on these servers execute, and their answers wait. */
void sim_hold_answers(struct sim *s, uint32_t mask);

/* From now on these servers read and execute nothing. */
void sim_freeze(struct sim *s, uint32_t mask);

static inline uint32_t all_of(int n)
{
    return n == 32 ? UINT32_MAX : bit(n) - 1;
}

/* Takes a lock and drops it. Returns the outcome. */
static inline int try(struct sim *s, const char *key)
{
    struct hold h = sim_acquire(s, key, 1000, 1000);
    sim_wait(s, h.round, 2000);
    int outcome = h.round->outcome;
    sim_drop(s, &h);
    sim_run(s);
    return outcome;
}

/* ---- between sim*.c ---- */

struct redisReply;
void sim_reply(struct sim_server *sv, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_mark(const struct sim *s, struct sim_server *sv, struct redisReply **words);
int sim_passes(struct sim_server *sv, const struct redisReply *command);

void sim_stream_begin(struct sim_stream *st);
void sim_stream_end(struct sim_stream *st);

#endif
