/* state.h - the state that the files of the core share: nodes, timers, leases. */
#ifndef STATE_H
#define STATE_H

#include <stdatomic.h>

#include "core/base/clock.h"
#include "core/base/marker.h"
#include "core/base/quorum.h"
#include "core/base/timer.h"
#include "node/node.h"

enum {
    SUBSCRIPTION_BUCKETS = 256,
    OWING_MAX = 1 << 17,          /* leases that may owe a clean-up at once */
    STATE_SLACK_MS = 1000,        /* of a quarantine, beyond max_lease and 1 % of it */
    NOTED_MAX = 1 << 12,          /* how many losses, and renewals, are remembered */
    STATE_HOLDS_MS = 1500,        /* between attempts to connect that only holds want ... */
    STATE_REFUSED_MS = 30000      /* ... and so much more if the server refuses us */
};

/* What becomes of a step of a node's clock (suspect.h). */
enum step {
    STEP_OURS,                    /* only this client counts no votes for a while */
    STEP_OPEN,                    /* the other clocks will tell whose clock it was */
    STEP_COUNTS                   /* it was the server's: it goes into the marker */
};

/* Whether an address is one server, as each must be: see guard_is_alone(). */
enum alone { ALONE_UNKNOWN, ALONE_PERHAPS, ALONE_NO, ALONE_YES };

/* What is known of a node's right to vote (guard.h). */
struct guard {
    int state;                    /* rl_guard */
    enum rl_why objection;        /* DISAGREES: why */
    int asked;                    /* a request about its marker is unanswered */
    int refused;                  /* rl_code of the last error about its marker; or RL_OK */
    int no_eval;                  /* EVAL is missing or forbidden, by such an error */
    int no_evalsha;               /* EVALSHA is, by the answer to the last call */
    int probes;                   /* releases it refused as a whole in a row, and ... */
    int64_t probe_ms;             /* ... when it may get the next one */
    int twin;                     /* the server has voted under another address as well */
    int forgot;                   /* its life may not be the one that INFO told last */
    int begun;                    /* QUARANTINED: the marker says so, and counts */
    int64_t seeded;               /* the last base that we took from clocks; 0: none */
    int lacks;                    /* it was asked for a token when it had no floors */

    char marker[MARKER_MAX];      /* the text seen last; "#": one that cannot be shown */
    enum marker_kind kind;        /* what kind of text it is; UNSEEN: there is none yet */
    int version;                  /* MARKER_UNKNOWN: its version */
    struct marker fields;         /* MARKER_READ */
    int64_t inc_ms;               /* when its INC was seen first, the text first ... */
    int64_t text_ms;
    int64_t seen_ms;              /* ... and the text last */
    int64_t marked_ms;            /* when we asked to replace it; 0: not yet */
    char want[MARKER_MAX];        /* the marker that the last call was to find */

    int64_t suspect_ms;           /* no votes before this time: the clock was stepped */
    int64_t step_ms;              /* the clock's last step ... */
    int64_t stepped_ms;           /* ... was noticed at this time ... */
    int64_t asked_ms;             /* ... by a request sent at this time, */
    int64_t stepped_at_ms;        /* ... when it said so by its clock */
    enum step step;               /* whether the other clients are to know of it */
    int64_t before_ms;            /* the last sample before that step */
    int64_t sampled_ms;           /* the last sample of the clock ... */
    int64_t compared_ms;          /* ... was asked for at this time, */
    int64_t since_ms;             /* ... and the first of those soon after one another */
    int steps;
    int64_t forward_ms;           /* sum of the recent steps forward */
    struct clock clock;
    char run_id[RL_RUN_ID_MAX];   /* of the server that the clock's samples are from */
    char met[RL_RUN_ID_MAX];      /* of the server that the first connection met ... */
    int64_t met_ms;               /* ... at this time */
    enum alone alone;             /* whether a second connection met the same one */
    char voter[RL_RUN_ID_MAX];    /* of the server that was allowed to vote last */
    uint32_t same_voter;          /* other nodes with the same one, a bit each */
};

/* Renewals that are due, and when they begin (pace.h). */
struct pace {
    struct timers waiting;        /* leases, by the end of their validity */
    struct timer timer;           /* when the next ones may begin */
    int64_t step_ms;              /* the end of the present step */
    int begun;                    /* how many have begun in it */
    int together;                 /* renewals that begin now are sent in batches */
};

struct core {
    int n;                        /* nodes */
    int32_t drift_ppm;
    rl_options options;           /* only the numbers: the strings were the caller's */
    struct node *nodes;           /* 2 n: the last n are the subscribers (subscription.h) */
    struct timer *node_timers;
    struct rl_subscription *subscriptions[SUBSCRIPTION_BUCKETS];
    int subscriptions_len;        /* how many are in use */
    struct scripts scripts;
    struct timers timers;
    uint32_t timers_wanted;       /* objects with a timer, each with a place */
    struct cmd_pool cmds;
    struct rl_round *round_pool;
    struct rl_lease *lease_pool;
    struct rl_round *active;      /* undecided rounds, oldest first */
    struct rl_round *active_last;
    struct rl_lease *held;
    struct rl_lease *owing;       /* leases whose clean-up is not confirmed */
    int owing_len;
    _Atomic int64_t forgone;      /* clean-ups given up because there were too many */
    struct guard *guards;         /* n */
    const char *marker;           /* the key of the marker; NULL: no guard */
    const char *marker_script;
    int tell;                     /* the script that asks for floors; -1: none */
    struct rl_round *teaching;    /* a question about floors that nobody waits for */
    int64_t taught_ms;            /* when the last one began */
    uint32_t unseeded;            /* nodes that we admitted without floors, a bit each */
    char name[sizeof("redlock:") + 8];  /* of connections: "redlock:" and the hash of our list;
                                     "redlock!" once a vote was counted */
    int knows;                    /* these servers have voted before: a majority had
                                     markers at once, or granted something */
    const char *servers;          /* our list of servers, as in cluster.h */
    char hash[CLUSTER_HASH + 1];  /* the hash of that list */
    char cluster[RL_CLUSTER_MAX]; /* the name of the cluster, or the hash */
    uint32_t refusing;            /* nodes with a marker of another cluster, a bit each */
    int64_t max_lease_ms;
    int64_t lease_ms;             /* the shortest lease in use */
    struct timer health;
    struct pace pace;
    int unattended;               /* active rounds that no caller waits for */
    int strays;                   /* a place was taken: late replies may show strays */
    int64_t late_ms;              /* by how much the running tick is late */
    _Atomic int64_t losses;       /* leases lost so far */
    const struct rl_lease *lost[NOTED_MAX]; /* the last ones, a ring; may be reused */
    _Atomic int64_t renewals;     /* by the watchdog */
    const struct rl_lease *renewed[NOTED_MAX]; /* the last ones, a ring */
    _Atomic int64_t node_changes; /* see rl_counters */
    _Atomic int64_t auth_failures; /* connections whose credentials were refused */
    uint64_t random;              /* state of the generator for jitter */
    int64_t moment_ms;            /* at random, see state_reconnect_for_holds() */
    _Atomic unsigned epoch;       /* leases of another epoch are void */
    int closed;                   /* nothing can be started any more */
    int over;                     /* and no node connects again */
    int handles;                  /* rounds, leases, subscriptions that callers have */

    struct rl_round *done;        /* for round_next(), in the order they ended */
    struct rl_round *done_last;

    uint64_t want_close;          /* close the connection; comes before want_connect */
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

/* The nodes, a bit each, for whose number i the expression is true. */
#define NODES_WHERE(core, i, is)                   \
    ({                                             \
        uint32_t nodes_ = 0;                       \
        for (int i = 0; i < (core)->n; i++)        \
            nodes_ |= (is) ? bit(i) : 0;           \
        nodes_;                                    \
    })

/* A random number for jitter and the INC of markers, never for lock values. */
uint64_t state_random(struct core *core);

/* True when these nodes, a bit each, are a majority. */
int state_majority(const struct core *core, uint32_t nodes);

/* How long, on our clock, locks that a server forgot may still be held. */
int64_t state_guard_ms(const struct core *core);

/* Has a link, which is down, connected now; ... */
void state_connect(struct core *core, int link, int64_t now_ms);

/* ... or after its back-off. */
void state_reconnect(struct core *core, int link, int64_t now_ms);

/* Like state_reconnect(), for a node that only holds want: at this client's next moment; there
 * is one every STATE_HOLDS_MS. */
void state_reconnect_for_holds(struct core *core, int i, int64_t now_ms);

/* Has a link's queue written, and times out the answers. */
void state_write(struct core *core, int link);

/* Why node i, which is ready, must be asked for nothing new (rl_code); or RL_OK. */
int state_spares(const struct core *core, int i, int64_t now_ms);

/* By how much the oldest timer that is due, or being served, is late. */
int64_t state_late_ms(const struct core *core, int64_t now_ms);

/* A zeroed object with a timer, for which it reserves the place in the heap. NULL: out of
 * memory. */
void *state_alloc(struct core *core, size_t size);

/* Reserves places in the timer heap for n more objects. 0, or -1: out of memory. */
int state_add_timers(struct core *core, uint32_t n);

#endif
