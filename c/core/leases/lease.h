/* lease.h - the record of a lease, and the lists of held and of owing leases.
 *
 * This room acquires, imports, extends, renews and releases leases, and issues fencing
 * tokens. It knows rounds/, eligibility/ and base/; it knows no socket, thread or clock.
 *
 * A lease owes a release to each server that may have its keys, until that server has
 * confirmed one. It is in the owing list until it owes nothing or its keys have expired.
 */
#ifndef LEASE_H
#define LEASE_H

#include "core/rounds/round.h"

enum lease_state {
    LEASE_ACQUIRING,
    LEASE_HELD,
    LEASE_OVER
};

/* One attempt, from its first SET to the last confirmed release. These hold references:
 * the caller's handle, the lists, and each of its rounds that has references. */
struct rl_lease {
    struct core *core;
    struct rl_lease *next, *prev;      /* in the held or owing list; next: in the pool */
    struct rl_lease **list;            /* the held or the owing list; NULL: in none */
    struct cmd *cmd;
    struct cmd *import;                /* the command that took it over; NULL: none did */
    int once;                          /* to be given away: see rl_import() */
    rl_primitive primitive;
    int64_t token;                     /* fencing token; 0: none, or not issued yet */
    uint32_t unseeded;                 /* nodes that have forgotten their counters */
    uint32_t counted;                  /* nodes whose counter is the token */
    uint32_t confirmed;                /* nodes that confirmed the last round, then or later */
    int confirmed_before;              /* how many had confirmed when the last extension
                                          began; -1: none has begun */
    enum lease_state state;
    unsigned epoch;                    /* of the core when the lease began */
    int refs;
    _Atomic int64_t deadline_ms;       /* valid until; 0: not valid */
    struct rl_round *acquire;          /* the attempt's round, while undecided */
    struct rl_round *release;          /* allocated with the lease: releasing cannot fail */
    int64_t ended_valid_until_ms;      /* deadline_ms when the release began */
    int64_t gone_ms;                   /* no server can have our keys after that */
    int retries;
    const int32_t *request;            /* see rl_cleanups_own() */
    struct timer timer;                /* held: renewal or deadline; owing: retry or end */
    uint32_t touched;                  /* nodes that may have our key */
    uint32_t failed;                   /* nodes that answered the attempt with an error */
    uint32_t broken;                   /* nodes where the connection broke during a write,
                                          and which may execute it after a release */
    uint32_t owed;                     /* nodes that have not confirmed the release */
    uint32_t releasing;                /* nodes to which a release is under way */

    /* The watchdog's part (watchdog.c) */
    int64_t keep_ms;                   /* lease that renewals ask for; 0: not renewed */
    int64_t renew_ms;                  /* when the next renewal is due */
    int64_t hold_until_ms;             /* no renewal after that */
    struct timer turn;                 /* set: a due renewal waits (pace.h) */
    struct rl_round *renewal;          /* the round under way */
    int orphan;                        /* the handle is gone */
    int hurried;                       /* a clock stepped during the renewal */
    int asks;                          /* a clock stepped: asks the servers, if not kept */
    int failures;                      /* renewals without a majority, in a row */
    _Atomic int lost;                  /* why the lease is lost: rl_loss */
    int64_t promised_ms;               /* lost: release it then; 0: no such time */
    rl_bytes taker;                    /* lost: the new holder, if a majority names one */
};

static inline int lease_fenced(const struct rl_lease *lease)
{
    return lease->primitive.rule == RL_RULE_LARGEST;
}

/* True for a lease from before a fork or close_finish(): its keys are not ours. */
static inline int lease_void(const struct rl_lease *lease)
{
    return lease->epoch != lease->core->epoch;
}

/* How long servers keep the keys of a lease: beyond it the name stays closed for the lock
 * delay. Validity counts the lease alone. */
static inline int64_t lease_ttl_ms(const struct core *core, int64_t lease_ms)
{
    return lease_ms + core->options.lock_delay_ms;
}

void lease_unref(struct rl_lease *lease);

/* Gives a lease without references back to the pool. */
void lease_recycle(struct rl_lease *lease);

/* A lease with these keys and arguments, and a release of that kind; without a reference.
 * NULL: out of memory, or closed. */
struct rl_lease *lease_new(struct core *core, const struct round_kind *release,
                           const rl_primitive *primitive, const rl_bytes *keys, int nkeys,
                           const rl_bytes *args, int nargs, rl_bytes value,
                           int64_t lease_ms);

/* Puts the token, or the number that a majority agreed on, into all that the lease sends
 * from now on. */
void lease_issue(struct rl_lease *lease, int64_t token);

/* The validity left in ms; 0: none, or the lease is void. */
int64_t lease_remaining_ms(const rl_lease *lease, int64_t now_ms);

/* Node i refused an acquire, so it has nothing of ours. */
void lease_refused(struct rl_lease *lease, int i);

/* Stops renewing the lease. */
void lease_unkeep(struct rl_lease *lease);

/* Adds the lease to the held or the owing list, which takes a reference. */
void lease_enlist(struct rl_lease **list, struct rl_lease *lease);

/* Takes the lease out of its list, which gives up the hold or the owed releases. */
void lease_forget(struct rl_lease *lease);

/* True while servers have yet to confirm the release. */
static inline int lease_owing(const struct rl_lease *lease)
{
    return lease->list == &lease->core->owing;
}

/* Sets which nodes must still confirm the release, and counts each node's debts. */
void lease_owes(struct rl_lease *lease, uint32_t nodes);

/* Node i certainly has nothing of the lease, which owes it nothing. May forget it. */
void lease_untouched(struct rl_lease *lease, int i);

/* The lease owes node i nothing more. May forget the lease. */
void lease_paid(struct rl_lease *lease, int i);

/* ---- hooks of a lease's rounds ---- */

/* A round that has references holds one to its lease. */
void lease_used(struct rl_round *round);
void lease_unused(struct rl_round *round);

/* The reply of a lease's script; those to acquires have more forms. */
int lease_vote(struct rl_round *round, int i, const struct reply *reply, struct vote *vote);

/* True for a node that may have keys of the lease: asks it however busy it is. */
int lease_insists(const struct rl_round *round, int i);

/* The server may count the lease's time from now on. */
void lease_sent(struct rl_round *round, int i, int64_t now_ms);

/* For a round that may put the lease's value onto a server. */
void lease_sent_value(struct rl_round *round, int i, int64_t now_ms);
int lease_unknown(struct rl_round *round, int i, int64_t now_ms);
void lease_broken(struct rl_round *round, int i, int written, int64_t now_ms);

#endif
