/* lease.h - leases: the record of one, and the lists of those that are held, or owe.
 *
 * A lease owes a release to every server that may have its keys, and pays a server by
 * the release that the server confirms. It is in the owing list until all are paid, or
 * until its keys have ended with their time.
 */
#ifndef LEASE_H
#define LEASE_H

#include "core/rounds/round.h"

enum lease_state {
    LEASE_ACQUIRING,
    LEASE_HELD,
    LEASE_PASSED,            /* over, while its value is being replaced (handover.c) */
    LEASE_OVER
};

/* One attempt, from its first SET to the last confirmed clean-up. Referenced by: the
 * caller's handle, each of its rounds that has references, and the lists. */
struct rl_lease {
    struct core *core;
    struct rl_lease *next, *prev;      /* in the held or owing list; next: in the pool */
    struct rl_lease **list;            /* the held or the owing list; NULL: in none */
    struct cmd *cmd;
    rl_primitive primitive;
    char value[RL_VALUE_LEN];          /* what it begins with; all of it is in cmd */
    int64_t token;                     /* fencing token; 0: none, or not issued yet */
    uint32_t unseeded;                 /* nodes that have forgotten their counters */
    uint32_t counted;                  /* nodes that have counted to the token */
    uint32_t confirmed;                /* nodes that said so in the last round, or since */
    int settled;                       /* how many they had been when the last extension
                                          began; -1: none has */
    enum lease_state state;
    unsigned epoch;                    /* of the core when the lease began */
    int refs;
    _Atomic int64_t deadline_ms;       /* valid until; 0: not valid */
    struct rl_round *acquire;          /* the attempt's round, while undecided */
    struct rl_lease *before;           /* whose value ours replaces, until that is done
                                          everywhere */
    struct rl_round *release;          /* allocated with the lease: releasing cannot fail */
    int64_t ended_valid_until_ms;      /* deadline_ms when the release began */
    int64_t gone_ms;                   /* no server can have our keys after that */
    int retries;
    struct timer timer;                /* held: renewal or deadline; owing: retry or end */
    uint32_t touched;                  /* nodes that may have our key */
    uint32_t failed;                   /* nodes that answered the attempt with an error */
    uint32_t torn;                     /* nodes where a write of ours broke off, which may
                                          still be executed, later than a release */
    uint32_t owed;                     /* nodes that have not confirmed the release */
    uint32_t releasing;                /* nodes that the release is on its way to */

    /* The watchdog's part (watchdog.c) */
    int64_t keep_ms;                   /* renewed to that long; 0: not kept */
    int64_t renew_ms;                  /* when the next renewal is due */
    int64_t hold_until_ms;             /* not renewed after that */
    struct timer turn;                 /* set: the renewal is due, and waits (pace.h) */
    struct rl_round *renewal;          /* under way */
    int orphan;                        /* the handle is gone */
    int hurried;                       /* a step showed while a renewal was under way */
    int failures;                      /* renewals without a majority, in a row */
    _Atomic int lost;                  /* why the lease is lost: rl_loss */
    int64_t promised_ms;               /* lost, and released then; 0: not */
    struct said *taker;                /* lost: who has the keys now, as a majority says; or
                                          NULL */
};

static inline int lease_fenced(const struct rl_lease *lease)
{
    return lease->primitive.rule == RL_RULE_LARGEST;
}

/* True for a lease from before a fork or close_finish(): the keys are not ours to
 * touch. */
static inline int lease_void(const struct rl_lease *lease)
{
    return lease->epoch != lease->core->epoch;
}

void lease_unref(struct rl_lease *lease);

/* Gives a lease without references back to the pool. */
void lease_recycle(struct rl_lease *lease);

/* A lease with these keys and arguments, and a release of that kind; no reference. NULL:
 * out of memory, or closed. */
struct rl_lease *lease_new(struct core *core, const struct round_kind *release,
                           const rl_primitive *primitive, const rl_bytes *keys, int nkeys,
                           const rl_bytes *args, int nargs, rl_bytes value,
                           int64_t lease_ms, int64_t token);

/* A lease of that primitive with the old one's keys, arguments and kind of release. NULL
 * as lease_new(). */
struct rl_lease *lease_like(const struct rl_lease *old, const rl_primitive *primitive,
                            rl_bytes value, int64_t lease_ms);

/* A majority, at least, has confirmed the lease in this round: by whom. */
void lease_confirmed(struct rl_lease *lease, const struct rl_round *round);

/* Puts the token, or the number that was agreed upon, into whatever the lease sends from
 * now on. */
void lease_issue(struct rl_lease *lease, int64_t token);

/* What is left of the validity; 0: nothing, or the lease is void. */
int64_t lease_remaining_ms(const rl_lease *lease, int64_t now_ms);

/* A server may have the lease's keys until then, by its own clock, or for the lock delay
 * longer. */
void lease_may_live(struct rl_lease *lease, int64_t until_ms);

/* Node i refused an acquire, so it has nothing of ours. */
void lease_refused(struct rl_lease *lease, int i);

/* The lease is not renewed any more. */
void lease_unkeep(struct rl_lease *lease);

/* Into the held or the owing list, which has a reference. */
void lease_enlist(struct rl_lease **list, struct rl_lease *lease);

/* Takes the lease out of its list: gives up the clean-up that is owed, or a hold. */
void lease_forget(struct rl_lease *lease);

/* True while the clean-up is not confirmed yet. */
static inline int lease_owing(const struct rl_lease *lease)
{
    return lease->list == &lease->core->owing;
}

/* Sets which nodes have to confirm the release still; each node's debts are counted. */
void lease_owes(struct rl_lease *lease, uint32_t nodes);

/* Node i certainly has nothing of the lease, and is owed nothing. The lease may be
 * forgotten. */
void lease_untouched(struct rl_lease *lease, int i);

/* Node i is owed nothing more. The lease may be forgotten. */
void lease_paid(struct rl_lease *lease, int i);

/* ---- hooks of rounds that are about a lease ---- */

/* A round that has references has one to its lease. */
void lease_used(struct rl_round *round);
void lease_unused(struct rl_round *round);

/* A node that may have keys of the lease is asked whatever else that node has to do. */
int lease_insists(const struct rl_round *round, int i);

/* A server may take the lease's time from now on. */
void lease_sent(struct rl_round *round, int i, int64_t now_ms);

/* The three for a round that may put the lease's value onto a server. */
void lease_sent_value(struct rl_round *round, int i, int64_t now_ms);
int lease_unknown(struct rl_round *round, int i, int64_t now_ms);
void lease_torn(struct rl_round *round, int i, int written, int64_t now_ms);

#endif
