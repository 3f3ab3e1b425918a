/* resp.c - any bytes from a server, in any pieces: the reader says the same of them
 * however they arrive, and a node's conversation ends in READY, or in one failure with a
 * reason, without a read outside, a leak or unbounded memory.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "node/health.h"
#include "node/reader.h"

/* ---- the reader: the pieces make no difference ---- */

enum { REPLIES_MAX = 64 };

struct heard {
    int n, failed;
    struct reply reply[REPLIES_MAX];
};

static void check_reply(const struct reply *r)
{
    MUST(r->type >= REPLY_INTEGER && r->type <= REPLY_ARRAY);
    MUST(r->nums >= 0 && r->nums <= WIRE_NUMS);
    MUST(r->text_len <= WIRE_TEXT_MAX && r->text[r->text_len] == '\0');
    MUST(r->second_len <= WIRE_TEXT_MAX && (r->has_text || !r->has_second));
    if (r->type == REPLY_INTEGER)
        MUST(r->nums == 1 && !r->has_text);
    if (r->type == REPLY_ERROR)
        MUST(wire_error_code(r->text) > RL_OK && wire_error_code(r->text) < RL_CODES);
}

static void hear(struct wire *w, struct heard *h)
{
    int got;
    while (!h->failed && (got = wire_next(w)) != 0) {
        if (got < 0) {
            h->failed = 1;
            MUST(wire_error(w)[0] != '\0');
        } else {
            check_reply(&w->reply);
            if (h->n < REPLIES_MAX)
                h->reply[h->n] = w->reply;
            h->n++;
        }
    }
}

static void read_in_pieces(struct input in, size_t piece, struct heard *h)
{
    struct wire w;
    memset(h, 0, sizeof(*h));
    MUST(reader_load() == NULL);
    MUST(wire_init(&w) == 0);
    while (input_left(&in) && !h->failed) {
        size_t len;
        const char *bytes = input_bytes(&in, piece, &len);
        MUST(wire_feed(&w, bytes, len) == 0);
        hear(&w, h);
    }
    wire_free(&w);
}

static void check_same(const struct heard *a, const struct heard *b)
{
    MUST(a->n == b->n && a->failed == b->failed);
    for (int i = 0; i < a->n && i < REPLIES_MAX; i++) {
        const struct reply *x = &a->reply[i], *y = &b->reply[i];
        MUST(x->type == y->type && x->nums == y->nums && x->has_text == y->has_text);
        MUST(!memcmp(x->num, y->num, (size_t)x->nums * sizeof(x->num[0])));
        MUST(x->text_len == y->text_len && !memcmp(x->text, y->text, x->text_len));
        MUST(x->has_second == y->has_second && x->second_len == y->second_len);
        MUST(!memcmp(x->second, y->second, x->second_len));
    }
}

/* ---- a node ---- */

static const struct node_config configs[] = {
    {.timeout_ms = 250, .connect_timeout_ms = 1000},
    {.user = "u", .password = "p", .client_name = "n", .db = 3, .timeout_ms = 250,
     .connect_timeout_ms = 1000},
};

static struct script *new_script(const char *body)
{
    struct script *script = calloc(1, sizeof(*script) + sizeof(script->at[0]));
    MUST(script != NULL);
    script->body = body;
    script->len = strlen(body);
    return script;
}

/* Calls that wait for an answer are told from each other by their owner. */
static char owners[8];

static void hang_up(struct node *nd, int64_t now_ms)
{
    struct request r;
    int written, before = (int)nd->queue_len, taken = 0;
    node_down(nd, RL_REFUSED, "the end", now_ms, 1);
    while (node_abandon(nd, &r, &written))
        taken++;
    MUST(taken == before && nd->queue_len == 0 && buf_len(&nd->out) == 0);
}

static void converse(struct input *in, struct node *nd, const struct cmd *cmd)
{
    int64_t now_ms = 1000;
    int asked = 0, answered = 0;
    node_connecting(nd, now_ms);
    MUST(node_connected(nd, now_ms) == 0);
    for (;;) {
        uint8_t how = input_byte(in);
        size_t len;
        const char *bytes = input_bytes(in, 1 + how % 32, &len);
        if (!len)
            break;
        MUST(wire_feed(&nd->wire, bytes, len) == 0);
        struct request r;
        enum node_event event;
        while ((event = node_next(nd, &r, now_ms)) != NODE_IDLE) {
            if (event == NODE_FAILED) {
                MUST(nd->code > RL_OK && nd->code < RL_CODES);
                MUST(memchr(nd->text, '\0', sizeof(nd->text)));
                return;
            }
            if (event == NODE_UP) {
                MUST(r.kind == REQUEST_PING);
                node_ready(nd, now_ms);
            }
            if (event == NODE_MESSAGE)
                MUST(nd->subscriber);
            if (event == NODE_ANSWER && r.kind == REQUEST_CALL)      /* in the order they were asked */
                MUST(r.owner == &owners[answered++ % 8] && answered <= asked);
        }
        if (nd->state == NODE_READY && !nd->subscriber && how & 0x80 &&
            node_call(nd, how & 1, cmd, NULL, &owners[asked % 8], now_ms) == 0)
            asked++;
        size_t some = how % 7 * 16;
        buf_take(&nd->out, some < buf_len(&nd->out) ? some : buf_len(&nd->out));
        now_ms += how & 0x40 ? 100 : 0;
        MUST(health_give_up_ms(nd) > 0);
        (void)health_hung(nd, now_ms);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct heard whole, pieces;
    static struct cmd_pool pool;
    struct input in = {data, data + size};
    uint8_t mode = input_byte(&in);
    read_in_pieces(in, SIZE_MAX, &whole);
    read_in_pieces(in, 1 + mode % 16, &pieces);
    check_same(&whole, &pieces);

    struct node nd;
    struct script *item[] = {new_script("return 1"), new_script("return 2")};
    struct scripts scripts = {.count = 2, .item = item};
    rl_bytes key = {"k", 1};
    struct cmd *cmd = cmd_new(&pool, &key, 1, NULL, 0);
    MUST(cmd && node_init(&nd, &configs[mode >> 4 & 1], &scripts, 0) == 0);
    nd.subscriber = mode >> 5 & 1;
    for (int again = 0; again < 2; again++) {     /* the next connection starts clean */
        converse(&in, &nd, cmd);
        hang_up(&nd, 5000);
    }
    node_free(&nd);
    free(item[0]);
    free(item[1]);
    cmd_unref(&pool, cmd);
    cmd_pool_free(&pool);
    return 0;
}
