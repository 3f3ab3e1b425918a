/* batch.h - calls that go to a server as one, for as many owners, and share its answer.
 *
 * A script that does for a list what another one does for a lock: KEYS are theirs, one
 * each, ARGV by lock its value and its lease in ms. The answer has a letter for each: '1', as good as a reply 1 of
 * the script for one; anything else, and whatever is not such a string: that lock is to be
 * asked for alone.
 */
#ifndef BATCH_H
#define BATCH_H

#include "node/node.h"

enum { BATCH_MAX = 100 };         /* calls; some 150 us of a server's work */

struct batch {
    int len;                      /* calls that are put aside */
    size_t bytes;                 /* which take no more than so many */
    int many, script;             /* the script for them all, and for one */
    int64_t now_ms;
    struct {
        const struct cmd *cmd;
        void *owner;
    } call[BATCH_MAX];
    int said_len, said_at;        /* the letters of an answer, and how many were given out */
    char said[BATCH_MAX];
    int64_t apart_ms;             /* no batches before that: the server refused one */
};

/* Some letters of an answer are to be given out, by batch_next(). */
static inline int batch_says(const struct node *nd)
{
    return nd->batch && nd->batch->said_at < nd->batch->said_len;
}

enum node_event batch_next(struct node *nd, struct request *out);

/* nd->wire.reply is the answer to the oldest request, which is a batch. */
void batch_answered(struct node *nd, int64_t now_ms);

/* The connection is gone, and nothing is put aside. */
void batch_forget(struct node *nd);

/* ---- of node.c, for this ---- */

/* Makes room for n more requests. 0, RL_OVERLOAD or RL_NOMEM. */
int node_room(struct node *nd, uint32_t n);

/* Into the queue, and out of it. */
struct request *node_push(struct node *nd, enum request_kind kind, int script, void *owner,
                          uint64_t start, int64_t now_ms);
struct request node_pop(struct node *nd);

/* The beginning of a script call with n elements behind the script, of some `room` bytes.
 * 1: it is EVALSHA; 0: EVAL; -1: out of memory. */
int node_put_script(struct node *nd, int script, int n, size_t room);

/* node_call(), where there is room for the request. */
int node_put_call(struct node *nd, int script, const struct cmd *cmd,
                  const char *behind, void *owner, int64_t now_ms);

#endif
