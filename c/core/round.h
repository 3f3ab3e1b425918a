/* round.h - one command to all nodes, votes counted until the outcome is certain.
 *
 * The kind of a round (struct round_kind) says what the round is for; round.c and
 * answer.c know no kind.
 */
#ifndef ROUND_H
#define ROUND_H

#include <stdatomic.h>

#include "core/said.h"
#include "core/state.h"

enum slot_state {
    SLOT_IDLE,               /* not asked */
    SLOT_WAITING,            /* asked as soon as the node is ready */
    SLOT_SENT,
    SLOT_CONFIRMING,         /* granted; the node's confirmation of the token is awaited */
    SLOT_ANSWERED,
    SLOT_MISSING             /* no vote, see code; a late answer still counts */
};

enum { SLOT_ROOM = 24 };     /* bytes of data kept in a slot itself: most replies have none */

/* One node's part in a round. */
struct slot {
    int64_t deadline_ms;     /* WAITING, SENT, CONFIRMING: when the vote is missing */
    int64_t extra;
    int32_t vote;
    uint8_t state;
    uint8_t code;
    uint8_t resends;         /* after a connection broke with the request on its way */
    uint8_t again;           /* the value was there when the node was asked again */
    uint32_t data_len;
    struct said *more;       /* the data when it is longer than SLOT_ROOM, or NULL */
    char data[SLOT_ROOM];
};

static inline const char *round_data(const struct slot *slot)
{
    return slot->more ? slot->more->bytes : slot->data;
}

/* What a node says. */
struct vote {
    int vote;                /* RL_VOTE_*, or what the script says */
    int64_t extra;           /* the counter of a grant, ms, how many were told; or 0 */
};

/* What the rounds of one kind do where others do something else. A hook that is NULL does
 * nothing, unless its comment says what. */
struct round_kind {
    const char *name;
    int to_all;              /* goes to all nodes, also when decided before */
    int margin;              /* wants the client's margin beyond a majority */
    int timed;               /* RL_TIMES_*, or 0: how long it takes is of no interest */
    int alone;               /* asks one node, which is round->gate */
    int whole;               /* answers are kept in full, not RL_DATA_MAX bytes of them */
    int pause;               /* asks no node, and is granted when the time has come */
    int expired;             /* the outcome of a grant whose lease is over; 0: gives no lease */

    /* The round has a reference again, or none any more. NULL: nothing,
     * round_recycle(). */
    void (*used)(struct rl_round *round);
    void (*unused)(struct rl_round *round);

    /* True: node i is asked even if it is to be spared (state_spares). */
    int (*insists)(const struct rl_round *round, int i);

    /* Queues the command for node i. 0, or why not: rl_code. NULL: round_call() without a
     * marker. */
    int (*put)(struct rl_round *round, int i, int64_t now_ms);
    void (*sent)(struct rl_round *round, int i, int64_t now_ms);

    /* What node i's reply, which is no error, is worth: RL_OK and a vote, or why it is no
     * vote (rl_code). Every kind that asks nodes has this hook. */
    int (*read)(struct rl_round *round, int i, const struct reply *reply, struct vote *vote);

    /* Node i has answered, in time or not. The code that counts from here on; RL_OK: a
     * vote. */
    int (*answered)(struct rl_round *round, int i, int code, const struct vote *vote,
                    int64_t now_ms);

    /* That vote comes after the decision, or a second time. */
    void (*late)(struct rl_round *round, int i, const struct vote *vote, int64_t now_ms);

    /* Node i did not know the script: true to ask the node again. NULL: as long as the
     * round is undecided. */
    int (*unknown)(struct rl_round *round, int i, int64_t now_ms);

    /* The connection broke before the answer; written: perhaps not before the request. */
    void (*torn)(struct rl_round *round, int i, int written, int64_t now_ms);

    /* The node that was asked first, alone, refused. */
    void (*refused)(struct rl_round *round, int64_t now_ms);

    /* Ends the round if its outcome is certain. NULL: decided from the start. */
    void (*decide)(struct rl_round *round, int64_t now_ms);

    /* The round has ended. */
    void (*ended)(struct rl_round *round);
};

#define ROUND_POSTED ((void *)1)

/* Referenced by: the caller's handle, the active list, and each unanswered request. */
struct rl_round {
    struct core *core;
    const struct round_kind *kind;
    struct rl_round *next, *prev;      /* in the active list; next: in the pool */
    struct rl_lease *lease;            /* NULL: about none */
    struct cmd *cmd;                   /* NULL: no script is called */
    struct timer timer;
    int unattended;                    /* a renewal: nobody waits */
    int notify;                        /* goes to round_next() when done */
    struct rl_round *next_done;        /* in round_next()'s list, or in the mailbox */
    _Atomic(void *) post;              /* its mailbox when done; ROUND_POSTED: done */
    _Atomic(void *) box;               /* done: the mailbox that has it, or will */
    int gate;                          /* the node asked first, alone; -1: none, or over */
    int64_t decide_ms;                 /* see round_decide_at(); 0: not at a time */
    int home;                          /* the gate, also when it is over */
    uint32_t twice;                    /* nodes that were asked again as home had granted */
    struct rl_subscription *subscription; /* what ends a pause early; NULL: nothing */
    struct rl_round *next_sleeper;     /* of the same subscription */
    int script;
    int refs;
    _Atomic int outcome;               /* RL_OK while undecided */
    int64_t started_ms;
    int64_t begun_us;                  /* for who takes times; 0: of this one nobody does */
    int64_t cap_ms;                    /* undecided at this time: what is pending is missing */
    int64_t lease_ms;                  /* what was asked for */
    uint32_t agreed;                   /* nodes of the majority that gave the same answer */

    /* The fence's part (fence.c) */
    int64_t token;                     /* to be witnessed by a majority, or confirmed; 0:
                                          not known yet */
    int64_t grace_ms;                  /* counters that differ wait until then */
    struct rl_round *confirm;          /* of the present token; NULL: none */

    struct tally tally;
    struct slot slot[];
};

/* From the pool, without a reference. NULL: out of memory. Takes over cmd's reference. */
struct rl_round *round_new(struct core *core, const struct round_kind *kind, int script,
                           struct rl_lease *lease, struct cmd *cmd);
struct rl_round *round_ref(struct rl_round *round);
void round_unref(struct rl_round *round);

/* Gives a round without references back to the pool. */
void round_recycle(struct rl_round *round);

/* A reference for the caller; round_free() gives it back, as rl_round_free(). */
struct rl_round *round_handle(struct rl_round *round);
void round_free(rl_round *round);

/* Asks all nodes. The round may be over when this returns, and is gone then unless the
 * caller has a reference. */
void round_begin(struct rl_round *round, int64_t now_ms);
void round_end(struct rl_round *round, int outcome);

/* Has an undecided round look once more whether its outcome is certain. */
void round_decide_at(struct rl_round *round, int64_t at_ms);

/* Asks node i once more, which has said no. */
void round_ask_again(struct rl_round *round, int i, int64_t now_ms);

/* Sends the round's command to a node that is ready. */
void round_send(struct rl_round *round, int i, int64_t now_ms);

/* Queues the script call for node i, with a marker or NULL. 0, or why not: rl_code. */
int round_call(struct rl_round *round, int i, const char *behind, int64_t now_ms);

/* Node i gives no vote, for this reason. */
void round_miss(struct rl_round *round, int i, int code, int64_t now_ms);
void round_on_timer(struct rl_round *round, int64_t now_ms);

/* The nodes that gave the same vote and data as node i, which is one of them; 0: node i has
 * not answered. */
uint32_t round_alike(const struct rl_round *round, int i);

/* Moves a slot that is pending or missing to its final place in the tally. */
void round_count(struct rl_round *round, int i, enum slot_state state, int *place);

/* Ends the round if its outcome is certain. */
void round_decide(struct rl_round *round, int64_t now_ms);

/* When an answer asked for now is missing. */
int64_t round_answer_due_ms(const struct rl_round *round, int i, int64_t now_ms);

/* round_next() gives the round when it is done, as it gives rounds that go to
 * mailboxes. */
void round_notify(rl_round *round);

/* Takes the next round that is done; NULL: none. */
rl_round *round_next(struct core *core);

#endif
