/* state.h - what the files of the core have in common: nodes, timers, and what is
 * held. */
#ifndef STATE_H
#define STATE_H

#include <stdatomic.h>

#include "core/clock.h"
#include "core/marker.h"
#include "core/quorum.h"
#include "core/timer.h"
#include "node/node.h"

enum {
    SUBSCRIPTION_BUCKETS = 256,
    OWING_MAX = 1 << 17,          /* leases whose clean-up is pursued at once */
    STATE_SLACK_MS = 1000,        /* of a quarantine, beyond max_lease and 1 % of it */
    NOTED_MAX = 1 << 12           /* leases that are known to have been lost, or renewed, last */
};

/* Why a node's marker is not for this client. */
enum objection {
    NO_OBJECTION,
    OTHER_VERSION,
    OTHER_DATABASE,
    OTHER_CLUSTER,
    OTHER_MAX_LEASE
};

/* What is known of a node's right to vote (guard.h). */
struct guard {
    int state;                    /* rl_guard */
    int objection;                /* DISAGREES: why */
    int asked;                    /* the answer about its marker is outstanding */
    int refused;                  /* rl_code of the last error about its marker; or RL_OK */
    int no_eval;                  /* that was so because EVAL is missing, or forbidden */
    int no_evalsha;               /* the last call said so of EVALSHA */
    int twin;                     /* the server has voted under another address as well */
    int forgot;                   /* it may be another life than INFO told last */
    int64_t until_ms;             /* QUARANTINED: until; 0: not begun yet */
    char observed[MARKER_HEX + 1];      /* INC of the quarantine that ends then */

    int known;                    /* its marker was seen: */
    char marker[MARKER_MAX];      /* the text as seen last, "#": nothing that can be shown, */
    enum marker_kind kind;        /* what it is, */
    int version;                  /* MARKER_UNKNOWN: of that version, */
    struct marker is;             /* MARKER_READ: and what it says; */
    int64_t text_ms;              /* seen first, */
    int64_t seen_ms;              /* and last */
    int64_t marked_ms;            /* it was asked to be replaced; 0: not yet */
    char want[MARKER_MAX];

    int64_t suspect_ms;           /* no votes before that: the clock was stepped */
    int64_t step_ms;              /* the clock's last step ... */
    int64_t stepped_ms;           /* ... was noticed then */
    int steps;
    int64_t forward_ms;           /* all steps forward, of late */
    struct clock clock;
    char run_id[RL_RUN_ID_MAX];   /* of the clock's samples */
    char voter[RL_RUN_ID_MAX];    /* the run_id of the server that was let vote last */
};

/* Renewals that are due, and when they begin (pace.h). */
struct pace {
    struct timers waiting;        /* leases, by the end of their validity */
    struct timer timer;           /* the next ones may begin */
    int64_t step_ms;              /* the end of the present step, ... */
    int begun;                    /* ... and how many have begun in it */
    int together;                 /* they begin now, and are sent together */
};

struct core {
    int n;                        /* nodes */
    int32_t drift_ppm;
    rl_options options;           /* for the numbers: the strings were the caller's */
    struct node *nodes;           /* 2 n: the last n are the subscribers (subscription.h) */
    struct timer *node_timers;
    struct rl_subscription *subscriptions[SUBSCRIPTION_BUCKETS];
    int subscriptions_len;        /* how many there are */
    struct scripts scripts;
    struct timers timers;
    uint32_t timers_wanted;       /* objects with a timer, each of which has a place */
    struct cmd_pool cmds;
    struct rl_round *round_pool;
    struct rl_lease *lease_pool;
    struct rl_round *active;      /* undecided rounds, oldest first */
    struct rl_round *active_last;
    struct rl_lease *held;        /* leases that are held */
    struct rl_lease *owing;       /* leases with clean-up not confirmed */
    int owing_len;
    _Atomic int64_t forgone;      /* clean-ups given up because there were too many */
    struct guard *guards;         /* n */
    const char *marker;           /* the key of the marker; NULL: no guard */
    const char *marker_script;
    const char *servers;          /* ours, in canonical form (cluster.h), */
    char hash[CLUSTER_HASH + 1];  /* their hash, */
    char cluster[RL_CLUSTER_MAX]; /* and the name of the cluster, or that hash */
    uint32_t refusing;            /* nodes whose marker is of another cluster, a bit each */
    int64_t max_lease_ms;
    int64_t lease_ms;             /* the shortest one in use */
    struct timer health;
    struct pace pace;
    int unattended;               /* active rounds nobody waits for */
    int strays;                   /* answers that nobody waits for may tell of some */
    int64_t late_ms;              /* by how much the running tick is late */
    _Atomic int64_t losses;       /* leases lost so far */
    const struct rl_lease *lost[NOTED_MAX]; /* the last of them, in a ring; may be used again */
    _Atomic int64_t renewals;     /* by the watchdog, and the last of them: */
    const struct rl_lease *renewed[NOTED_MAX];
    _Atomic int64_t node_changes; /* what rl_node_get_info() tells of one has changed */
    _Atomic int64_t auth_failures; /* connections whose credentials were refused */
    uint64_t random;              /* state of the generator for jitter */
    _Atomic unsigned epoch;       /* leases of another epoch are void */
    int closed;                   /* nothing can be started any more */
    int over;                     /* nor is anything connected */
    int handles;                  /* rounds and leases that the caller still has */

    struct rl_round *done;        /* rounds for round_next(), in the order they ended */
    struct rl_round *done_last;

    uint64_t want_close;          /* close the connection; before want_connect */
    uint64_t want_connect;        /* open a connection */
    uint64_t want_write;          /* core_out() has something */
};

static inline uint64_t link_bit(int link)
{
    return (uint64_t)1 << link;
}

static inline uint32_t bit(int i)
{
    return (uint32_t)1 << i;
}

/* Any number: for jitter and the names of memories, never for lock values. */
uint64_t state_random(struct core *core);

/* True when these nodes, a bit each, are a majority. */
int state_majority(const struct core *core, uint32_t nodes);

/* How long what a server has forgotten may be held still, on our clock. */
int64_t state_guard_ms(const struct core *core);

/* Has a link connected, now or when its back-off is over. */
void state_reconnect(struct core *core, int link, int64_t now_ms);

/* Why node i, which is ready, is to be asked for nothing new (rl_code); or RL_OK. */
int state_spares(const struct core *core, int i, int64_t now_ms);

/* For how long the oldest timer that is due, or is just being served, has been due. */
int64_t state_late_ms(const struct core *core, int64_t now_ms);

/* An object with a timer that has a place in the heap; all zero. NULL: out of memory. */
void *state_alloc(struct core *core, size_t size);

/* Reserves the places in the timer heap for n more objects. 0, or -1. */
int state_add_timers(struct core *core, uint32_t n);

#endif
