#include "node/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* How long a server that refused a batch gets single calls: this user may lack
 * permission for one of the keys. */
enum { APART_MS = 10000 };

int node_call_with(struct node *nd, int many, int script, const struct cmd *cmd,
                   const char *last_arg, void *owner, int64_t now_ms)
{
    assert(nd->state == NODE_READY);
    struct batch *b = nd->batch ? nd->batch : (nd->batch = calloc(1, sizeof(*b)));
    if (!b || now_ms < b->apart_ms)
        return node_call(nd, script, cmd, last_arg, owner, now_ms);
    if (b->len == BATCH_MAX || b->many != many || b->script != script)
        node_flush(nd);
    if (!b->len)
        b->bytes = 0;
    b->many = many;
    b->script = script;
    int full = node_room(nd, (uint32_t)b->len + 1);
    if (full)
        return full;
    size_t texts = nd->scripts->item[many]->len + nd->scripts->item[script]->len + 512 +
                   (last_arg ? strlen(last_arg) : 0);
    if (!buf_reserve(&nd->out, b->bytes + cmd->len + texts))
        return RL_NOMEM;
    b->bytes += cmd->len;
    b->last_arg = last_arg;
    b->now_ms = now_ms;
    b->call[b->len].cmd = cmd;
    b->call[b->len++].owner = owner;
    return 0;
}

static void put_all(struct node *nd, int len)
{
    const struct batch *b = nd->batch;
    struct buf *out = &nd->out;
    char digits[WIRE_DIGITS];
    wire_bulk(out, digits, wire_digits(digits, (uint64_t)len));
    for (int i = 0; i < len; i++) {
        const struct cmd *cmd = b->call[i].cmd;
        wire_raw(out, cmd->bytes + cmd->keys_at, cmd->first_end - cmd->keys_at);
    }
    for (int i = 0; i < len; i++) {
        const struct cmd *cmd = b->call[i].cmd;
        wire_raw(out, cmd->bytes + cmd->keys_end,
                 cmd->lease_at + cmd->lease_len - cmd->keys_end);
    }
    if (b->last_arg)
        wire_bulk(out, b->last_arg, strlen(b->last_arg));
}

void node_flush(struct node *nd)
{
    struct batch *b = nd->batch;
    if (!b || !b->len)
        return;
    int len = b->len;
    b->len = 0;
    if (len == 1) {
        node_put_call(nd, b->script, b->call[0].cmd, b->last_arg, b->call[0].owner, b->now_ms);
        return;
    }
    uint64_t start = buf_offset(&nd->out);
    int by_sha = node_put_script(nd, b->many, 1 + 3 * len + (b->last_arg != NULL), 0);
    assert(by_sha >= 0);
    put_all(nd, len);
    for (int i = 0; i < len; i++) {
        struct request *r =
            node_push(nd, REQUEST_CALL, b->many, b->call[i].owner, start, b->now_ms);
        r->by_sha = (int8_t)by_sha;
        r->calls = (int8_t)(i ? 0 : len);
        nd->stats.requests++;
    }
}

void batch_answered(struct node *nd, int64_t now_ms)
{
    struct batch *b = nd->batch;
    const struct request *first = &nd->queue[nd->queue_head];
    const struct reply *reply = &nd->wire.reply;
    b->answers_len = first->calls;
    b->answers_at = 0;
    memset(b->answers, '0', sizeof(b->answers));
    b->shown = reply->type == REPLY_ARRAY && reply->nums == 1 && reply->has_second;
    const char *answers = b->shown ? reply->second : reply->text;
    size_t len = b->shown ? reply->second_len : reply->text_len;
    if ((b->shown || reply->type == REPLY_STRING) && len == (size_t)b->answers_len)
        memcpy(b->answers, answers, len);
    else if (reply->type == REPLY_ERROR && first->by_sha &&
             !strncmp(reply->text, "NOSCRIPT", 8))
        node_unload(nd, first->script);
    else
        b->apart_ms = now_ms + APART_MS;
}

enum node_event batch_next(struct node *nd, struct request *out)
{
    struct batch *b = nd->batch;
    struct reply *reply = &nd->wire.reply;
    *out = node_pop(nd);
    nd->stats.replies++;
    if (b->answers[b->answers_at++] != '1')
        return NODE_ALONE;
    reply->type = b->shown ? REPLY_ARRAY : REPLY_INTEGER;
    reply->nums = 1 + b->shown;
    reply->num[b->shown] = 1;
    reply->has_text = b->shown;
    reply->has_second = 0;
    return NODE_ANSWER;
}

void batch_forget(struct node *nd)
{
    if (nd->batch)
        nd->batch->answers_len = nd->batch->answers_at = 0;
}
