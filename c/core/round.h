/* round.h - inside the core: rounds and leases, and what they ask of each other. */
#ifndef ROUND_H
#define ROUND_H

#include <stdatomic.h>

#include "core/core.h"

enum round_kind {
    ROUND_ACQUIRE,
    ROUND_CONFIRM,           /* of a fencing token, for an acquire's round; no votes */
    ROUND_HANDOVER,          /* acquire by replacing the value of a lease before it */
    ROUND_EXTEND,
    ROUND_HEAL,              /* acquire for the nodes that lost a lease's keys; no votes */
    ROUND_RELEASE,
    ROUND_ASK,
    ROUND_ASK_ALL,           /* until each node has answered; no votes */
    ROUND_CHECK,             /* every node is asked about itself; no votes */
    ROUND_SLEEP
};

enum slot_state {
    SLOT_IDLE,               /* not asked */
    SLOT_WAITING,            /* asked as soon as the node is ready */
    SLOT_SENT,
    SLOT_CONFIRMING,         /* it granted; its confirmation of the token is awaited */
    SLOT_ANSWERED,
    SLOT_MISSING             /* no vote, see code; a late answer still counts */
};

/* One node's part in a round. */
struct slot {
    int64_t deadline_ms;     /* WAITING, SENT, CONFIRMING: when the vote is missing */
    int64_t info;
    int32_t vote;
    uint8_t state;
    uint8_t code;
    uint8_t resends;         /* after a connection broke with the request on its way */
    uint8_t again;           /* its vote: the value was there when it was asked again */
    uint8_t data_len;
    char data[RL_DATA_MAX];
};

#define ROUND_POSTED ((void *)1)

/* One command to all nodes. Referenced by: the caller's handle, the active list, and
 * each unanswered request. */
struct rl_round {
    struct core *core;
    struct rl_round *next, *prev;      /* in the active list; next: in the pool */
    struct rl_lease *lease;            /* NULL: ROUND_ASK, ROUND_CHECK, ROUND_SLEEP */
    struct cmd *cmd;
    struct timer timer;
    enum round_kind kind;
    int unattended;                    /* nobody waits for it: a renewal */
    int notify;                        /* goes to core_next() when it is done */
    struct rl_round *next_done;        /* in core_next()'s list, or in the mailbox */
    _Atomic(void *) post;              /* the mailbox it goes to when it is done;
                                          ROUND_POSTED: not any more */
    _Atomic(void *) box;               /* done: the mailbox it is in, or on its way to */
    int gate;                          /* ACQUIRE: the node asked first, alone; -1 */
    struct rl_watch *watch;               /* SLEEP: what ends it early */
    struct rl_round *next_sleeper;     /* of the same watch */
    int script;
    int refs;
    _Atomic int outcome;               /* RL_OK while undecided */
    int64_t started_ms;
    int64_t cap_ms;                    /* undecided at this time: what is pending is missing */
    int64_t lease_ms;                  /* ACQUIRE, EXTEND: what was asked for */
    uint32_t agreed;                   /* ASK: nodes of the majority that agrees */
    int64_t token;                     /* ACQUIRE, HANDOVER: the token to be witnessed, 0:
                                          not known yet; CONFIRM: which one it confirms */
    int64_t grace_ms;                  /* the same: counters that differ wait until then */
    struct rl_round *confirm;          /* the same: of the present token; NULL: none */
    struct tally tally;
    struct slot slot[];
};

enum lease_state {
    LEASE_ACQUIRING,
    LEASE_HELD,
    LEASE_PASSED,            /* over, while its value is being replaced (handover.c) */
    LEASE_OVER
};

/* One attempt, from its first SET to the last confirmed clean-up. Referenced by: the
 * caller's handle, every reference to one of its rounds, and the owing list. */
struct rl_lease {
    struct core *core;
    struct rl_lease *next, *prev;      /* in the held or owing list; next: in the pool */
    struct rl_lease **list;            /* which of them it is in */
    struct cmd *cmd;
    rl_primitive primitive;
    char value[RL_VALUE_LEN];
    int64_t token;                     /* fencing token; 0: none, or not issued yet */
    uint32_t unseeded;                 /* nodes that do not know what they have counted */
    uint32_t counted;                  /* nodes that have counted to the token */
    enum lease_state state;
    unsigned epoch;                    /* of the core when it began */
    int refs;
    _Atomic int64_t deadline_ms;       /* valid until; 0: it is not */
    struct rl_round *acquire;          /* while it is undecided */
    struct rl_lease *before;           /* whose value ours replaces, until that is done
                                          everywhere */
    struct rl_round *release;          /* allocated with the lease: releasing cannot fail */
    int64_t ended_valid_until_ms;      /* deadline_ms when the release began */
    int64_t gone_ms;                   /* no server can have it after that */
    int retries;
    struct timer timer;                /* held: renewal or deadline; owing: retry or end */
    uint32_t touched;                  /* nodes that may have our key */
    uint32_t failed;                   /* nodes that answered the attempt with an error */
    uint32_t torn;                     /* a write of ours broke off there: it may still be
                                          executed, later than a release */
    uint32_t owed;                     /* nodes that have not confirmed the release */
    uint32_t releasing;                /* the release is on its way to them */

    /* The watchdog's part (keep.c) */
    int64_t keep_ms;                   /* renewed to that long; 0: not kept */
    int64_t renew_ms;                  /* when the next renewal is due */
    int64_t hold_until_ms;             /* not renewed after that */
    struct rl_round *renewal;          /* under way */
    int orphan;                        /* its handle is gone */
    int hurried;                       /* a step showed while one was under way */
    int failures;                      /* renewals without a majority, in a row */
    _Atomic int lost;                  /* why it is lost: rl_loss */
    int64_t promised_ms;               /* lost, and released then; 0: not */
};

static inline uint64_t link_bit(int link)
{
    return (uint64_t)1 << link;
}

static inline uint32_t bit(int i)
{
    return (uint32_t)1 << i;
}

/* ---- round.c ---- */

/* From the pool, without a reference. NULL: out of memory. Takes over cmd's reference. */
struct rl_round *round_new(struct core *core, enum round_kind kind, int script,
                           struct rl_lease *lease, struct cmd *cmd);
struct rl_round *round_ref(struct rl_round *round);
struct rl_round *round_handle(struct rl_round *round);       /* the same, for the caller */
void round_unref(struct rl_round *round);
void round_recycle(struct rl_round *round);

/* Asks all nodes. The round may be over when this returns, and is gone then unless the
 * caller has a reference. */
void round_begin(struct rl_round *round, int64_t now_ms);
void round_end(struct rl_round *round, int outcome);

/* It is the first to put its lease's value onto a server. */
static inline int round_begins(const struct rl_round *round)
{
    return round->kind == ROUND_ACQUIRE || round->kind == ROUND_HANDOVER;
}

/* It may put its lease's value onto a server. */
static inline int round_takes(const struct rl_round *round)
{
    return round->kind == ROUND_HEAL || round_begins(round);
}

/* Sends the round's command to a node that is ready. */
void round_send(struct rl_round *round, int i, int64_t now_ms);

/* Node i gives no vote, for this reason. */
void round_miss(struct rl_round *round, int i, int code, int64_t now_ms);
void round_on_timer(struct rl_round *round, int64_t now_ms);

/* Moves a slot that is pending or missing to its final place in the tally. */
void round_count(struct rl_round *round, int i, enum slot_state state, int *place);

/* Ends the round if its outcome is certain. */
void round_settle(struct rl_round *round, int64_t now_ms);

/* When an answer asked for now is missing. */
int64_t round_answer_due_ms(const struct rl_round *round, int i, int64_t now_ms);

/* Extensions: an answer may be late for the vote, and still heal its node. */
void round_heal(struct rl_round *round, int i, int vote, int64_t now_ms);

/* ---- answer.c ---- */

void round_answer(struct rl_round *round, int i, const struct reply *reply, int by_sha,
                  int64_t now_ms);
/* The connection broke before the answer: asked again on the next one, once; else its
 * deadline is now. Ends no round: other requests are still on the broken queue. */
void round_torn(struct rl_round *round, int i, int written, int64_t now_ms);

/* ---- fence.c ---- */

/* The outcome of an acquire whose majority must have witnessed one token; asks for
 * confirmations when that takes a second round trip. */
enum verdict fence_judge(struct rl_round *round, int64_t now_ms);

/* Node i answered a confirmation, or its connection broke. code: why it is no answer. */
void fence_answer(struct rl_round *confirm, int i, int code, int vote, int64_t counter,
                  int64_t now_ms);
void fence_torn(struct rl_round *confirm, int i, int64_t now_ms);

/* The acquire is over. */
void fence_end(struct rl_round *round);

/* Node i said yes, and has counted so far. */
void fence_counted(struct rl_lease *lease, int i, int64_t counter);

/* Queues the release for node i. 0, or why not: rl_code. */
int fence_release(struct rl_round *release, int i, int64_t now_ms);

/* Counters and tokens: whole numbers that Lua, JSON and a printed text keep as they are. */
#define TOKEN_END INT64_C(100000000000000)

static inline int is_token(int64_t n)
{
    return n > 0 && n < TOKEN_END;
}

static inline int fenced(const struct rl_lease *lease)
{
    return lease->primitive.confirm >= 0;
}

/* ---- lease.c ---- */

/* From before a fork or core_close(): its keys are not ours to touch. */
static inline int lease_void(const struct rl_lease *lease)
{
    return lease->epoch != lease->core->epoch;
}

/* Puts the token of its round into what the lease sends from now on. */
void lease_issue(struct rl_lease *lease, const struct rl_round *round);

void lease_unref(struct rl_lease *lease);

/* Gives a lease without references back to the pool. */
void lease_recycle(struct rl_lease *lease);

/* A lease with another's primitive, keys and arguments; no reference. NULL: out of
 * memory, or closed. */
struct rl_lease *lease_like(const struct rl_lease *old, const char *value,
                            int64_t lease_ms);

/* What the verdict of one of its rounds means for the lease: the round's outcome. */
int lease_acquired(struct rl_lease *lease, const struct rl_round *round,
                   enum verdict verdict, int64_t now_ms);
int lease_extended(struct rl_lease *lease, const struct rl_round *round,
                   enum verdict verdict, int64_t now_ms);

/* An extension that has not begun, without a reference. NULL: out of memory. */
struct rl_round *lease_extend_round(struct rl_lease *lease, int64_t lease_ms);

/* A server may have the lease's keys until then, by its own clock, or for the lock delay
 * longer. */
void lease_may_live(struct rl_lease *lease, int64_t until_ms);

/* Node i has nothing of ours: it refused an acquire. */
void lease_refused(struct rl_lease *lease, int i);

/* Into the held or the owing list, which has a reference. */
void lease_enlist(struct rl_lease **list, struct rl_lease *lease);

/* Takes the lease out of its list: gives up the clean-up that is owed, or a hold. */
void lease_forget(struct rl_lease *lease);

/* ---- release.c ---- */

/* In the owing list: its clean-up is not confirmed yet. */
static inline int lease_owing(const struct rl_lease *lease)
{
    return lease->list == &lease->core->owing;
}

/* The nodes that have to confirm the release still; they are counted. */
void lease_owes(struct rl_lease *lease, uint32_t nodes);

/* Node i has nothing of it, for sure, and is owed nothing. The lease may be forgotten. */
void lease_untouched(struct rl_lease *lease, int i);

/* Ends the lease, whatever its state, and begins the release. */
void lease_end(struct rl_lease *lease, int64_t now_ms);

/* Whether its holder was lost, and the name is to stay closed behind him for the lock delay,
 * whatever he does now. */
int lease_delays(struct rl_lease *lease, int64_t now_ms);

/* Gives up a held lease as it is: its keys end with their time. The outcome is that of its
 * release, which is not sent. */
void lease_leave(struct rl_lease *lease, int outcome);

/* The release's verdict: its outcome. */
int lease_released(struct rl_lease *lease, enum verdict verdict);

/* Into the owing list: what may be left of an ended lease is released a little later. */
void lease_owe(struct rl_lease *lease, int64_t now_ms);

/* Node i said something to the release; answered: not an error. */
void lease_let_go(struct rl_lease *lease, int i, int answered, int64_t now_ms);

/* Sends the releases owed to node i, which is ready now. */
void lease_pay(struct rl_lease *lease, int i, int64_t now_ms);
void lease_on_timer(struct rl_lease *lease, int64_t now_ms);

/* ---- vote.c ---- */

/* What the reply is worth: a vote (0), or why it is none (rl_code). */
int vote_read(struct rl_round *round, int i, const struct reply *reply, int *vote);

/* What it says beside its vote: the counter of a grant, ms, how many were told; or 0. */
int64_t vote_info(const struct rl_round *round, const struct reply *reply);

/* Keeps for the node's text why its reply was no vote. */
void vote_explain(struct rl_round *round, int i, int code, const struct reply *reply);

/* ---- handover.c ---- */

/* Node i gave a valid answer: it has not the value that was to be replaced. */
void handover_answered(struct rl_lease *lease, int i);

/* The round's verdict: its outcome. */
int handover_decided(struct rl_lease *lease, const struct rl_round *round,
                     enum verdict verdict, int64_t now_ms);

/* The lease ends: so does what is left of the one before. */
void handover_undo(struct rl_lease *lease, int64_t now_ms);

/* ---- keep.c ---- */

/* Sets the timer of a held lease. */
void keep_schedule(struct rl_lease *lease);
void keep_on_timer(struct rl_lease *lease, int64_t now_ms);

/* Nobody can release the held lease any more: it ends with its time, or is released when
 * the client is closed before. */
void keep_orphan(struct rl_lease *lease);

/* The renewal under way is over. */
void keep_renewed(struct rl_lease *lease, int outcome, int64_t now_ms);

/* An extension was too late, or these votes disown the lease: it is lost. */
void keep_disowned(struct rl_lease *lease, const struct tally *votes, int64_t now_ms);

/* A majority confirmed the extension in time, but node i has lost our key: it gets it
 * again for the time that is left. */
void keep_heal(struct rl_lease *lease, const struct rl_round *round, int i,
               int64_t now_ms);

/* A server's clock was stepped forward, and may have freed keys of ours: kept leases are
 * renewed now, which puts them back. lost_ms: on a majority by so much at least, so all
 * leases end so much earlier; 0: on fewer. */
void keep_hurry(struct core *core, int64_t lost_ms, int64_t now_ms);

/* The lease is lost, for the reason given, unless it is already. */
void keep_lose(struct rl_lease *lease, enum rl_loss reason);

/* ---- core.c ---- */

/* Any number: for jitter and nonces, never for lock values. */
uint64_t core_random(struct core *core);

/* Sees to it that a link gets connected, now or when its back-off is over. */
void core_reconnect(struct core *core, int link, int64_t now_ms);

/* Why node i, which is ready, is to be asked for nothing new (rl_code); or RL_OK. */
int core_spares(const struct core *core, int i, int64_t now_ms);

/* How long the oldest thing that is due, or is just being done, has been due. */
int64_t core_late_ms(const struct core *core, int64_t now_ms);

/* An object with a timer, which has its place in the heap; all zero. NULL: out of memory. */
void *core_alloc(struct core *core, size_t size);

/* Reserves the places in the timer heap for n more objects. 0, or -1. */
int core_add_timers(struct core *core, uint32_t n);

#endif
