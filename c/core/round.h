/* round.h - inside the core: rounds and leases, and what they ask of each other. */
#ifndef ROUND_H
#define ROUND_H

#include <stdatomic.h>

#include "core/state.h"

enum round_kind {
    ROUND_ACQUIRE,
    ROUND_CONFIRM,           /* of a fencing token, for an acquire's round; no votes */
    ROUND_HANDOVER,          /* acquire by replacing the value of a lease before it */
    ROUND_EXTEND,
    ROUND_HEAL,              /* acquire for the nodes that lost a lease's keys; no votes */
    ROUND_RELEASE,
    ROUND_ASK,
    ROUND_ASK_ALL,           /* until each node has answered; no votes */
    ROUND_PROBE,             /* every node is asked about itself; no votes */
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
    int64_t extra;
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
    struct rl_lease *lease;            /* NULL: ROUND_ASK, ROUND_PROBE, ROUND_SLEEP */
    struct cmd *cmd;
    struct timer timer;
    enum round_kind kind;
    int unattended;                    /* nobody waits for it: a renewal */
    int notify;                        /* goes to round_next() when it is done */
    struct rl_round *next_done;        /* in round_next()'s list, or in the mailbox */
    _Atomic(void *) post;              /* the mailbox it goes to when it is done;
                                          ROUND_POSTED: not any more */
    _Atomic(void *) box;               /* done: the mailbox it is in, or on its way to */
    int gate;                          /* ACQUIRE: the node asked first, alone; -1 */
    struct rl_subscription *subscription; /* SLEEP: what ends it early */
    struct rl_round *next_sleeper;     /* of the same subscription */
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
void round_decide(struct rl_round *round, int64_t now_ms);

/* When an answer asked for now is missing. */
int64_t round_answer_due_ms(const struct rl_round *round, int i, int64_t now_ms);

/* Extensions: an answer may be late for the vote, and still heal its node. */
void round_heal(struct rl_round *round, int i, int vote, int64_t now_ms);

/* The round is given by round_next() when it is done; so is one whose mailbox was set. */
void round_notify(rl_round *round);

/* Takes the next of them; NULL: none. */
rl_round *round_next(struct core *core);

/* As rl_round_free(). */
void round_free(rl_round *round);

#endif
