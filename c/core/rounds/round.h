/* round.h - one command to all nodes, votes counted until the outcome is certain.
 *
 * The kind of a round (struct round_kind) says what it is for; round.c and answer.c know no
 * kind.
 */
#ifndef ROUND_H
#define ROUND_H

#include <stdatomic.h>

#include "core/base/state.h"

enum slot_state {
    SLOT_IDLE,               /* not asked */
    SLOT_WAITING,            /* asked as soon as the node is ready */
    SLOT_SENT,
    SLOT_CONFIRMING,         /* granted; the node must confirm the token */
    SLOT_ANSWERED,
    SLOT_MISSING             /* no vote, see code; a late answer still counts */
};

enum { SLOT_ROOM = 24 };     /* bytes of data that fit a slot: most replies have none */

/* One node's part in a round. */
struct slot {
    int64_t deadline_ms;     /* WAITING, SENT, CONFIRMING: then the vote is missing */
    int64_t extra;
    int32_t vote;
    uint8_t state;
    uint8_t code;
    uint8_t why;             /* rl_why, with the code: the node's may be of a later answer */
    uint8_t resends;         /* the connection broke with the request on its way */
    uint8_t was_ours;        /* the value was there when the node was asked again */
    uint8_t admitted;        /* asked again, as its reply named the marker of an admission */
    uint32_t data_len;
    char *more;              /* data that is longer than SLOT_ROOM, or NULL */
    char data[SLOT_ROOM];
};

static inline const char *round_data(const struct slot *slot)
{
    return slot->more ? slot->more : slot->data;
}

static inline int round_is_yes(const struct slot *slot)
{
    return slot->state == SLOT_ANSWERED && slot->vote >= RL_VOTE_YES;
}

/* A node's vote. */
struct vote {
    int vote;                /* RL_VOTE_*, or the first integer of a question's reply */
    int64_t extra;           /* the second integer: a counter, ms, a number; or 0 */
};

/* What differs between kinds of rounds. A hook that is NULL does nothing, unless its
 * comment says otherwise. */
struct round_kind {
    int to_all;              /* asks all nodes, even after it is decided */
    int margin;              /* needs the client's margin beyond a majority */
    int guarded;             /* the marker goes with it: a server that has another says so ... */
    int shown;               /* ... or answers, and shows the other: no vote unless it is admitted */
    int timed;               /* RL_TIMES_*, or 0: is not timed */
    int alone;               /* asks one node, round->gate, and keeps its answer in full, not
                                just RL_DATA_MAX bytes */
    int pause;               /* asks no node; granted at its time */
    int expired;             /* outcome of a grant whose lease has ended; 0: no lease */

    /* The round got its first reference, or lost the last one. unused NULL:
     * round_recycle(). */
    void (*used)(struct rl_round *round);
    void (*unused)(struct rl_round *round);

    /* True: asks node i even if state_spares() objects. */
    int (*insists)(const struct rl_round *round, int i);

    /* Queues the command for node i. 0, or why not: rl_code. NULL: round_call() without a
     * marker. */
    int (*put)(struct rl_round *round, int i, int64_t now_ms);
    void (*sent)(struct rl_round *round, int i, int64_t now_ms);

    /* Reads node i's reply, which is no error: RL_OK and a vote, or why it is no vote
     * (rl_code). NULL: any reply will do. */
    int (*read)(struct rl_round *round, int i, const struct reply *reply, struct vote *vote);

    /* Node i has answered, in time or not. Returns the code that counts from now on;
     * RL_OK: a vote. */
    int (*answered)(struct rl_round *round, int i, int code, const struct vote *vote,
                    int64_t now_ms);

    /* That vote came after the decision, or a second time. */
    void (*late)(struct rl_round *round, int i, const struct vote *vote, int64_t now_ms);

    /* Node i did not know the script: true to ask it again. NULL: while undecided. */
    int (*unknown)(struct rl_round *round, int i, int64_t now_ms);

    /* The connection broke before the answer; written: the request may have arrived. */
    void (*broken)(struct rl_round *round, int i, int written, int64_t now_ms);

    /* The node that was asked first, alone, refused. */
    void (*refused)(struct rl_round *round, int64_t now_ms);

    /* Ends the round if its outcome is certain. NULL: votes do not decide it. */
    void (*decide)(struct rl_round *round, int64_t now_ms);

    /* The round has ended. */
    void (*ended)(struct rl_round *round);
};

/* The bound of counters and tokens, which Lua, JSON and printed text keep exact. */
#define TOKEN_END INT64_C(100000000000000)

#define ROUND_POSTED ((void *)1)

/* Each of these holds a reference: the caller's handle, the active list, the list of
 * rounds that are done, each unanswered request. */
struct rl_round {
    struct core *core;
    const struct round_kind *kind;
    struct rl_round *next, *prev;      /* in the active list; next: in the pool */
    struct rl_lease *lease;            /* NULL: none */
    struct cmd *cmd;                   /* NULL: calls no script */
    struct timer timer;
    int unattended;                    /* a renewal: no caller waits */
    int notify;                        /* goes to round_next() when done */
    int signalled;                     /* a signal ended a wait, and the caller is to know */
    struct rl_round *next_done;        /* in round_next()'s list, or in the mailbox */
    _Atomic(void *) post;              /* the mailbox to go to; ROUND_POSTED: done */
    _Atomic(void *) box;               /* done: the mailbox that has it, or will */
    int gate;                          /* asked first, alone; -1: none */
    int64_t decide_ms;                 /* see round_decide_at(); 0: none */
    int at_gate;                       /* the others are not asked yet */
    uint32_t asked_again;              /* nodes asked again because the gate had granted */
    struct rl_subscription *subscription; /* what ends a pause early; NULL: nothing */
    struct rl_round *next_sleeper;     /* of the same subscription */
    int script;
    int refs;
    _Atomic int outcome;               /* RL_OK while undecided */
    int64_t started_ms;
    int64_t begun_us;                  /* for rl_get_times(); 0: the round is not timed */
    int64_t cap_ms;                    /* then all pending votes are missing */
    int64_t lease_ms;                  /* the lease asked for */
    uint32_t agreed;                   /* the majority that gave the same answer */

    union {
        struct {                       /* a question about floors (teach.c) */
            uint32_t pupils;           /* nodes that may be given a base */
            uint32_t admits;           /* nodes that are admitted in any case, ... */
            int64_t seen_ms;           /* ... by guard_admissible(); -1: none */
            int force;
        } teach;
        struct {                       /* an attempt, and what confirms its token (fence.c) */
            int64_t token;             /* what a majority must witness or confirm; or its
                                          number; 0: not known yet */
            int64_t grace_ms;          /* until then counters that differ wait */
            struct rl_round *confirm;  /* of the present token; NULL: none */
        } fence;
    };

    struct tally tally;
    struct slot slot[];
};

/* A round without a reference. Takes over cmd's reference. NULL: out of memory. */
struct rl_round *round_new(struct core *core, const struct round_kind *kind, int script,
                           struct rl_lease *lease, struct cmd *cmd);
struct rl_round *round_ref(struct rl_round *round);
void round_unref(struct rl_round *round);

/* Returns a round without references to the pool. */
void round_recycle(struct rl_round *round);

/* Takes a reference for the caller; round_free() releases it, as rl_round_free(). */
struct rl_round *round_handle(struct rl_round *round);
void round_free(rl_round *round);

/* Asks all nodes. The round may have ended when this returns, and is freed then unless
 * the caller has a reference. */
void round_begin(struct rl_round *round, int64_t now_ms);
void round_end(struct rl_round *round, int outcome);

/* At this time an undecided round checks again whether its outcome is certain. */
void round_decide_at(struct rl_round *round, int64_t at_ms);

/* Asks node i, which has said no, once more. */
void round_ask_again(struct rl_round *round, int i, int64_t now_ms);

/* Sends the round's command to a node that is ready. */
void round_send(struct rl_round *round, int i, int64_t now_ms);

/* Queues the script call for node i. last_arg: the last argument, or NULL. 0, or why not:
 * rl_code. */
int round_call(struct rl_round *round, int i, const char *last_arg, int64_t now_ms);

/* Counts node i's vote as missing, for this reason. */
void round_miss(struct rl_round *round, int i, int code, int64_t now_ms);
void round_on_timer(struct rl_round *round, int64_t now_ms);

/* The nodes that voted yes, a bit each. */
uint32_t round_yes(const struct rl_round *round);

/* The nodes without a vote for this reason (rl_code), a bit each. */
uint32_t round_missing(const struct rl_round *round, int code);

/* The nodes that gave the same vote and data as node i, with node i; 0: node i has not
 * answered. */
uint32_t round_alike(const struct rl_round *round, int i);

/* Why a round has no majority: RL_NOT_A_LOCK if the nodes whose key holds something else
 * prevent it alone, as then no retry helps; RL_OK if that is still open; else
 * RL_NO_QUORUM. */
int round_no_quorum(const struct rl_round *round);

/* Moves a slot that is pending or missing to its final place in the tally. */
void round_count(struct rl_round *round, int i, enum slot_state state, int *place);

/* Ends the round if its outcome is certain. */
void round_decide(struct rl_round *round, int64_t now_ms);

/* When the answer to a request sent now counts as missing. */
int64_t round_answer_due_ms(const struct rl_round *round, int i, int64_t now_ms);

/* Makes round_next() return the round when it is done, like those for mailboxes. */
void round_notify(rl_round *round);

/* Removes and returns the next round that is done; NULL: none. */
rl_round *round_next(struct core *core);

#endif
