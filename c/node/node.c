#include "node/node.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/batch.h"
#include "node/questions.h"

int node_init(struct node *nd, const struct node_config *config,
              const struct scripts *scripts, int place)
{
    memset(nd, 0, sizeof(*nd));
    nd->config = config;
    nd->scripts = scripts;
    nd->place = place;
    nd->code = RL_REFUSED;
    snprintf(nd->text, sizeof(nd->text), "not connected yet");
    nd->queue_cap = 64;
    nd->backoff_ms = NODE_BACKOFF_MAX_MS;
    nd->queue = malloc(nd->queue_cap * sizeof(*nd->queue));
    if (!nd->queue || wire_init(&nd->wire) < 0) {
        node_free(nd);
        return -1;
    }
    return 0;
}

void node_free(struct node *nd)
{
    free(nd->queue);
    nd->queue = NULL;
    free(nd->servers);
    nd->servers = NULL;
    free(nd->batch);
    nd->batch = NULL;
    wire_free(&nd->wire);
    buf_free(&nd->out);
}

/* ---- the queue of unanswered requests ---- */

int node_room(struct node *nd, uint32_t n)
{
    if (nd->queue_len + n <= nd->queue_cap)
        return 0;
    if (nd->queue_cap == NODE_QUEUE_MAX)
        return RL_OVERLOAD;
    uint32_t cap = nd->queue_cap;
    while (cap < nd->queue_len + n)
        cap *= 2;
    struct request *queue = malloc(cap * sizeof(*queue));
    if (!queue)
        return RL_NOMEM;
    for (uint32_t i = 0; i < nd->queue_len; i++)
        queue[i] = nd->queue[(nd->queue_head + i) & (nd->queue_cap - 1)];
    free(nd->queue);
    nd->queue = queue;
    nd->queue_cap = cap;
    nd->queue_head = 0;
    return 0;
}

/* Makes room for one request, after those of the batch. 0, RL_OVERLOAD or RL_NOMEM. */
static int queue_reserve(struct node *nd)
{
    node_flush(nd);
    return node_room(nd, 1);
}

struct request *node_push(struct node *nd, enum request_kind kind, int script, void *owner,
                          uint64_t start, int64_t now_ms)
{
    uint32_t at = (nd->queue_head + nd->queue_len++) & (nd->queue_cap - 1);
    nd->queue[at] = (struct request){.owner = owner,
                                     .start = start,
                                     .sent_ms = now_ms,
                                     .kind = (int16_t)kind,
                                     .script = (int16_t)script};
    return &nd->queue[at];
}

struct request node_pop(struct node *nd)
{
    assert(nd->queue_len > 0);
    struct request r = nd->queue[nd->queue_head];
    nd->queue_head = (nd->queue_head + 1) & (nd->queue_cap - 1);
    nd->queue_len--;
    return r;
}

/* ---- connecting ---- */

void node_connecting(struct node *nd, int64_t now_ms)
{
    assert(nd->state == NODE_DOWN && nd->queue_len == 0);
    nd->state = NODE_CONNECTING;
    nd->deadline_ms = now_ms + nd->config->connect_timeout_ms;
    nd->waits_for = "no connection in time";
    nd->share_ms = nd->deadline_ms;
}

int node_request(struct node *nd, enum request_kind kind, int n, const char *const *words,
                void *owner, int64_t now_ms)
{
    int full = queue_reserve(nd);
    uint64_t start = buf_offset(&nd->out);
    if (full)
        return full;
    if (wire_command(&nd->out, n, words) < 0)
        return RL_NOMEM;
    node_push(nd, kind, -1, owner, start, now_ms);
    return 0;
}

static struct script_at *script_at(const struct node *nd, int script)
{
    return &nd->scripts->item[script]->at[nd->place];
}

static int put_load(struct node *nd, int script, int64_t now_ms)
{
    const char *body = nd->scripts->item[script]->body;
    size_t len = nd->scripts->item[script]->len;
    if (queue_reserve(nd) || !buf_reserve(&nd->out, len + 64))
        return -1;
    uint64_t start = buf_offset(&nd->out);
    wire_array(&nd->out, 3);
    wire_bulk(&nd->out, "SCRIPT", 6);
    wire_bulk(&nd->out, "LOAD", 4);
    wire_bulk(&nd->out, body, len);
    node_push(nd, REQUEST_LOAD, script, NULL, start, now_ms);
    return 0;
}

int node_connected(struct node *nd, int64_t now_ms)
{
    assert(nd->state == NODE_CONNECTING);
    nd->state = NODE_HANDSHAKE;
    for (int i = 0; i < nd->scripts->count && !nd->subscriber; i++)
        node_unload(nd, i);
    nd->timing = nd->looking = 0;
    nd->listing = nd->listing < 0 ? -1 : 0;
    if (nd->info.server.known)
        nd->last = nd->info.server;
    memset(&nd->info, 0, sizeof(nd->info));
    nd->code = RL_OK;
    buf_clear(&nd->out);
    if (wire_reset(&nd->wire) < 0)
        return -1;
    if (!nd->silent)
        return node_greet(nd, now_ms);
    return node_request(nd, REQUEST_KNOCK, 1, (const char *[]){"PING"}, NULL, now_ms) ? -1 : 0;
}

int node_greet(struct node *nd, int64_t now_ms)
{
    const struct node_config *c = nd->config;
    if (c->password) {
        nd->out.secret = 1;
        const char *words[] = {"AUTH", c->user ? c->user : c->password, c->password};
        if (node_request(nd, REQUEST_AUTH, c->user ? 3 : 2, words, NULL, now_ms))
            return -1;
    }
    if (c->db > 0 && !nd->subscriber) {
        char db[16];
        snprintf(db, sizeof(db), "%d", c->db);
        if (node_request(nd, REQUEST_SELECT, 2, (const char *[]){"SELECT", db}, NULL, now_ms))
            return -1;
    }
    if (c->client_name) {
        const char *words[] = {"CLIENT", "SETNAME", c->client_name};
        if (node_request(nd, REQUEST_NAME, 3, words, NULL, now_ms))
            return -1;
    }
    if (!nd->subscriber && questions_put(nd, now_ms) < 0)
        return -1;
    for (int i = 0; i < nd->scripts->count && !nd->subscriber; i++) {
        if (put_load(nd, i, now_ms) < 0)
            return -1;
    }
    return node_request(nd, REQUEST_PING, 1, (const char *[]){"PING"}, NULL, now_ms) ? -1 : 0;
}

/* ---- disconnecting ---- */

void node_down(struct node *nd, int code, const char *text, int64_t now_ms,
               uint64_t random)
{
    node_flush(nd);
    batch_forget(nd);
    int stable = nd->state == NODE_READY && now_ms - nd->ready_ms >= NODE_STABLE_MS;
    if (nd->state != NODE_CONNECTING)
        nd->silent = code == RL_TIMEOUT;
    /* A server that refuses a connection says why, unasked, then closes. */
    int greeting = nd->state == NODE_HANDSHAKE && code == RL_REFUSED && nd->code == RL_OK;
    if (greeting && nd->wire.reply.type == REPLY_ERROR)
        node_refuse(nd, code, "%s; it said: %s", text, nd->wire.reply.text);
    else if (greeting && nd->wire.reply.type != REPLY_NIL)
        node_refuse(nd, code, "%s during the greeting; is it a proxy without INFO and "
                    "SCRIPT?", text);
    else if (text[0])             /* else node_object() has said why */
        node_refuse(nd, code, "%s", text);
    nd->stats.disconnects++;
    nd->state = NODE_DOWN;
    if (stable) {
        nd->failures = 0;
        nd->retry_ms = now_ms;
        return;
    }
    int doublings = nd->failures < 10 ? nd->failures : 10;
    int64_t wait_ms = (int64_t)NODE_BACKOFF_MIN_MS << doublings;
    if (wait_ms > nd->backoff_ms)
        wait_ms = nd->backoff_ms;
    nd->failures++;
    nd->retry_ms = now_ms + wait_ms / 2 + (int64_t)(random % (uint64_t)(wait_ms + 1));
}

int node_abandon(struct node *nd, struct request *out, int *written)
{
    assert(nd->state == NODE_DOWN);
    if (nd->queue_len == 0) {
        buf_clear(&nd->out);
        return 0;
    }
    *out = node_pop(nd);
    *written = out->start < nd->out.taken;
    return 1;
}

/* ---- answers ---- */

/* Handles the answer to a command of the node itself. 0, or -1: close the connection. */
static int node_greeted(struct node *nd, const struct request *r)
{
    const struct reply *reply = &nd->wire.reply;
    size_t len;
    const char *text = reply_string(reply, &len);
    int failed = reply->type == REPLY_ERROR;
    if (r->kind == REQUEST_TIME)
        nd->timing = failed ? -1 : 0;
    else if (r->kind == REQUEST_INFO && failed)
        nd->info.denied = 1;
    if (r->kind == REQUEST_INFO)
        nd->looking = 0;
    if (r->kind == REQUEST_INFO && reply->type == REPLY_STRING)
        info_read(&nd->info, text, len);
    if (r->kind == REQUEST_INFO)
        secret_hide(nd->config->password, nd->info.server.version);
    if (r->kind == REQUEST_SERVERS)
        questions_servers_answered(nd);
    if (!failed) {
        if (r->kind == REQUEST_LOAD && reply->text_len == SHA_LEN) {
            struct script_at *here = script_at(nd, r->script);
            snprintf(here->evalsha, EVALSHA_LEN + 1, "$7\r\nEVALSHA\r\n$40\r\n%s\r\n",
                     reply->text);
            here->loaded = 1;
        }
        return 0;
    }
    int code = wire_error_code(reply->text);
    if (r->kind == REQUEST_INFO && nd->state == NODE_HANDSHAKE)
        nd->info.server.run_id[0] = nd->info.replid[0] = '\0';    /* it may have restarted since */
    if (code == RL_REFUSED)
        ;                    /* the server is about to close: nothing else counts */
    else if (r->kind == REQUEST_AUTH)
        code = RL_AUTH;
    else if (r->kind == REQUEST_SELECT && code != RL_AUTH && code != RL_NOPERM)
        code = RL_CONFIG;
    else if (r->kind == REQUEST_INFO && code == RL_LOADING && nd->state == NODE_HANDSHAKE)
        ;                    /* a script runs there: the next attempt gets the run_id */
    else if (r->kind != REQUEST_SELECT && code != RL_AUTH)
        return 0;            /* without name, LOAD or INFO the node can vote */
    const char *about = r->kind == REQUEST_AUTH && code == RL_AUTH ? "AUTH: " : "";
    node_refuse(nd, code, "%s%s", about, reply->text);
    return -1;
}

/* The bytes are no reply. In a handshake they show what listens instead of Redis. */
static void node_garbled(struct node *nd)
{
    struct wire *w = &nd->wire;
    if (nd->state == NODE_READY)
        node_refuse(nd, RL_PROTOCOL, "%s", wire_error(w));
    else if (w->head[0] == 0x15)      /* an alert */
        node_refuse(nd, RL_TLS, "it answers in TLS: use rediss://");
    else
        node_refuse(nd, RL_PROTOCOL, "%s; it began with \"%s\"", wire_error(w), wire_head(w));
}

enum node_event node_next(struct node *nd, struct request *out, int64_t now_ms)
{
    for (;;) {
        if (batch_says(nd))
            return batch_next(nd, out);
        nd->wire.quotable =
            nd->config->password && (nd->state == NODE_HANDSHAKE || !nd->queue_len);
        int got = wire_next(&nd->wire);
        if (got == 0)
            return NODE_IDLE;
        if (got < 0) {
            node_garbled(nd);
            return NODE_FAILED;
        }
        if (nd->subscriber && nd->state == NODE_READY) {
            nd->answered_ms = now_ms;
            return NODE_MESSAGE;
        }
        if (nd->queue_len == 0) {
            int said = nd->wire.reply.type == REPLY_ERROR;
            node_refuse(nd, RL_PROTOCOL, "it sent a reply without a request%s%s",
                        said ? ": " : "", said ? nd->wire.reply.text : "");
            return NODE_FAILED;
        }
        const struct request *oldest = &nd->queue[nd->queue_head];
        nd->answered_ms = now_ms;
        nd->took8_ms += (int)(now_ms - oldest->sent_ms) - nd->took8_ms / 8;
        if (oldest->calls) {
            nd->stats.errors += nd->wire.reply.type == REPLY_ERROR;
            batch_answered(nd, now_ms);
            continue;
        }
        *out = node_pop(nd);
        if (out->kind == REQUEST_CALL) {
            nd->stats.replies++;
            if (nd->wire.reply.type == REPLY_ERROR)
                nd->stats.errors++;
            return NODE_ANSWER;
        }
        if (out->kind == REQUEST_KNOCK) {
            nd->silent = 0;
            return NODE_HEARD;
        }
        if (node_greeted(nd, out) < 0)
            return NODE_FAILED;
        if (out->kind == REQUEST_PING)
            return NODE_UP;
        if (out->kind == REQUEST_TIME || out->kind == REQUEST_INFO ||
            out->kind == REQUEST_MARKER)
            return NODE_TOLD;
    }
}

void node_leave(struct node *nd)
{
    nd->state = NODE_DOWN;
    nd->queue_len = 0;
    buf_clear(&nd->out);
}

void node_ready(struct node *nd, int64_t now_ms)
{
    assert(nd->state == NODE_HANDSHAKE);
    nd->state = NODE_READY;
    nd->ready_ms = now_ms;
    nd->stats.connects++;
}

int node_object(struct node *nd, int code, enum rl_why why)
{
    nd->why = (int)why;
    nd->text[0] = '\0';
    return nd->code = code;
}

void node_refuse(struct node *nd, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    node_object(nd, code, RL_WHY_NONE);
    vsnprintf(nd->text, sizeof(nd->text), format, args);
    va_end(args);
    secret_hide(nd->config->password, nd->text);
    for (char *c = nd->text; *c; c++) {        /* it may name a host or a file */
        if (*c < ' ' || *c > '~')
            *c = '?';
    }
}

/* ---- requests ---- */

int node_put_script(struct node *nd, int script, int n, size_t room)
{
    const struct script *s = nd->scripts->item[script];
    struct script_at *here = script_at(nd, script);
    int by_sha = here->loaded;
    size_t len = s->len;
    if (!buf_reserve(&nd->out, (by_sha ? EVALSHA_LEN : len) + room + 96))
        return -1;
    wire_array(&nd->out, n + 2);
    if (by_sha) {
        wire_raw(&nd->out, here->evalsha, EVALSHA_LEN);
    } else {
        wire_bulk(&nd->out, "EVAL", 4);
        wire_bulk(&nd->out, s->body, len);
    }
    here->loaded = here->evalsha[0] != '\0';    /* EVAL loads a script as well */
    return by_sha;
}

int node_put_call(struct node *nd, int script, const struct cmd *cmd,
                  const char *last_arg, void *owner, int64_t now_ms)
{
    uint64_t start = buf_offset(&nd->out);
    size_t len = last_arg ? strlen(last_arg) : 0;
    int by_sha =
        node_put_script(nd, script, cmd->argc + (last_arg != NULL), cmd->len + len + 64);
    if (by_sha < 0)
        return RL_NOMEM;
    wire_raw(&nd->out, cmd->bytes, cmd->len);
    if (last_arg)
        wire_bulk(&nd->out, last_arg, len);
    node_push(nd, REQUEST_CALL, script, owner, start, now_ms)->by_sha = (int8_t)by_sha;
    nd->stats.requests++;
    return 0;
}

int node_call(struct node *nd, int script, const struct cmd *cmd,
              const char *last_arg, void *owner, int64_t now_ms)
{
    assert(nd->state == NODE_READY);
    int full = queue_reserve(nd);
    return full ? full : node_put_call(nd, script, cmd, last_arg, owner, now_ms);
}

int node_set_marker(struct node *nd, const char *body, const char *const args[MARKING_ARGS],
                    int64_t now_ms)
{
    assert(nd->state == NODE_READY);
    const char *words[4 + MARKING_ARGS] = {"EVAL", body, "1", nd->config->marker};
    memcpy(words + 4, args, MARKING_ARGS * sizeof(args[0]));
    return node_request(nd, REQUEST_MARKER, 4 + MARKING_ARGS, words, NULL, now_ms) ? -1 : 0;
}

int node_probe(struct node *nd, void *owner, int64_t now_ms)
{
    assert(nd->state == NODE_READY);
    if (questions_put(nd, now_ms) < 0)
        return RL_NOMEM;
    int failed = node_request(nd, REQUEST_CALL, 1, (const char *[]){"PING"}, owner, now_ms);
    nd->stats.requests += !failed;
    return failed;
}

int node_subscribe(struct node *nd, const char *verb, const char *channel, size_t len,
                   int64_t now_ms)
{
    assert(nd->subscriber && nd->state == NODE_READY);
    if (queue_reserve(nd) || !buf_reserve(&nd->out, len + 64))
        return -1;
    uint64_t start = buf_offset(&nd->out);
    wire_array(&nd->out, 2);
    wire_bulk(&nd->out, verb, strlen(verb));
    wire_bulk(&nd->out, channel, len);
    node_push(nd, REQUEST_SUBSCRIBE, -1, NULL, start, now_ms);
    return 0;
}

int node_confirmed(struct node *nd)
{
    return nd->queue_len && (node_pop(nd), 1);
}

int node_load(struct node *nd, int script, int64_t now_ms)
{
    return nd->state >= NODE_HANDSHAKE && !nd->silent ? put_load(nd, script, now_ms) : 0;
}

void node_unload(struct node *nd, int script)
{
    script_at(nd, script)->loaded = 0;
}
