/* batch.h - calls of several owners, sent as one script call that answers for each.
 *
 * The script `many` does for a list of locks what another one does for one lock. KEYS:
 * one a lock; ARGV: for each its value and its lease in ms, then the last argument of the
 * latest call, if any. The reply is a string with a letter for each lock. '1' counts as a reply 1
 * of the single script; after any other letter, or any other reply, the lock's call is sent
 * alone. An array of a number, a text and that string: '1' is the array of number, text and 1.
 */
#ifndef BATCH_H
#define BATCH_H

#include "node/node.h"

enum { BATCH_MAX = 100 };         /* calls; some 150 us of a server's work */

struct batch {
    int len;                      /* calls collected */
    size_t bytes;                 /* upper bound of what they take */
    int many, script;             /* the script for all, and for one */
    const char *last_arg;         /* or NULL */
    int64_t now_ms;
    struct {
        const struct cmd *cmd;
        void *owner;
    } call[BATCH_MAX];
    int answers_len, answers_at;  /* letters of an answer; how many were used */
    char answers[BATCH_MAX];
    int shown;                    /* they came with a text */
    int64_t apart_ms;             /* no batches before that: the server refused one */
};

/* True: batch_next() has letters of an answer left. */
static inline int batch_says(const struct node *nd)
{
    return nd->batch && nd->batch->answers_at < nd->batch->answers_len;
}

enum node_event batch_next(struct node *nd, struct request *out);

/* Call when nd->wire.reply answers the oldest request, which is a batch. */
void batch_answered(struct node *nd, int64_t now_ms);

/* Drops what is left of an answer, as its connection is gone. */
void batch_forget(struct node *nd);

/* ---- defined in node.c, for batches ---- */

/* Makes room for n more requests. 0, RL_OVERLOAD or RL_NOMEM. */
int node_room(struct node *nd, uint32_t n);

/* Append to the queue of unanswered requests, and take its oldest. */
struct request *node_push(struct node *nd, enum request_kind kind, int script, void *owner,
                          uint64_t start, int64_t now_ms);
struct request node_pop(struct node *nd);

/* Writes the beginning of a script call with n elements after the script, and reserves
 * `room` bytes for them. 1: it is EVALSHA; 0: EVAL; -1: out of memory. */
int node_put_script(struct node *nd, int script, int n, size_t room);

/* node_call(), once the queue has room. */
int node_put_call(struct node *nd, int script, const struct cmd *cmd,
                  const char *last_arg, void *owner, int64_t now_ms);

#endif
