/* node_fixture.h - one node, and what its server hears and says. */
#ifndef NODE_FIXTURE_H
#define NODE_FIXTURE_H

#include "node/node.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define SHA0 "00000000000000000000000000000000000000aa"
#define SHA1 "11111111111111111111111111111111111111bb"

#define ASKS "INFO server; INFO replication; INFO persistence; INFO memory; TIME; "
#define TELLS                                                              \
    "$12\r\nrun_id:abcde\r\n$13\r\nrole:master\r\n\r\n$2\r\n\r\n\r\n$2\r\n\r\n\r\n"  \
    "*2\r\n$1\r\n9\r\n$1\r\n8\r\n"

struct fixture {
    struct node_config config;
    struct scripts scripts;
    struct script *item[8];
    struct node node;
    struct cmd_pool pool;
    struct cmd *cmd;
    char sent[4096];
};

static inline void set_up(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->config.timeout_ms = 250;
    f->config.connect_timeout_ms = 1000;
    f->scripts.item = f->item;
    REQUIRE(node_init(&f->node, &f->config, &f->scripts, 0) == 0);
    f->cmd = cmd_new(&f->pool, &(rl_bytes){"key", 3}, 1, &(rl_bytes){"arg", 3}, 1);
    REQUIRE(f->cmd != NULL);
}

static inline void tear_down(struct fixture *f)
{
    node_free(&f->node);
    for (int i = 0; i < f->scripts.count; i++)
        free(f->item[i]);
    cmd_unref(&f->pool, f->cmd);
    cmd_pool_free(&f->pool);
}

static inline void add_script(struct fixture *f, const char *body)
{
    struct script *new = calloc(1, sizeof(*new) + sizeof(new->at[0]));
    REQUIRE(new && f->scripts.count < (int)(sizeof(f->item) / sizeof(f->item[0])));
    new->body = body;
    new->len = strlen(body);
    f->item[f->scripts.count++] = new;
}

/* Takes what was written: words with spaces between, commands with "; ". */
static inline const char *sent(struct fixture *f)
{
    struct buf *out = &f->node.out;
    redisReader *reader = redisReaderCreate();
    size_t len = 0;
    void *reply = NULL;
    f->sent[0] = '\0';
    redisReaderFeed(reader, out->data + out->start, buf_len(out));
    buf_take(out, buf_len(out));
    while (CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK) && reply) {
        redisReply *command = reply;
        for (size_t i = 0; i < command->elements; i++)
            len += (size_t)snprintf(f->sent + len, sizeof(f->sent) - len, "%s%s",
                                    i ? " " : len ? "; " : "",
                                    command->element[i]->str);
        freeReplyObject(reply);
    }
    CHECK_INT(reader->len, reader->pos);     /* no half command */
    redisReaderFree(reader);
    return f->sent;
}

static inline void feed(struct fixture *f, const char *bytes)
{
    REQUIRE(wire_feed(&f->node.wire, bytes, strlen(bytes)) == 0);
}

/* The next event; what the server tells of itself is none here. */
static inline enum node_event next(struct fixture *f, int64_t now_ms)
{
    struct request request;
    enum node_event event;
    do
        event = node_next(&f->node, &request, now_ms);
    while (event == NODE_TOLD);
    if (event == NODE_UP)
        node_ready(&f->node, now_ms);
    return event;
}

/* Brings it up; the answers are those of a server without troubles. */
static inline void go_up(struct fixture *f, int64_t now_ms)
{
    const struct node_config *c = &f->config;
    node_connecting(&f->node, now_ms);
    REQUIRE(node_connected(&f->node, now_ms) == 0);
    sent(f);
    if (c->password)
        feed(f, "+OK\r\n");
    if (c->db)
        feed(f, "+OK\r\n");
    if (c->client_name)
        feed(f, "+OK\r\n");
    feed(f, TELLS);
    for (int i = 0; i < f->scripts.count; i++)
        feed(f, i ? "$40\r\n" SHA1 "\r\n" : "$40\r\n" SHA0 "\r\n");
    feed(f, "+PONG\r\n");
    REQUIRE(next(f, now_ms) == NODE_UP);
}

static inline void go_down(struct fixture *f, int code, int64_t now_ms, uint64_t random)
{
    struct request request;
    int written;
    node_down(&f->node, code, "gone", now_ms, random);
    while (node_abandon(&f->node, &request, &written))
        ;
}

/* A test with a fixture of its own, f: NODE_TEST(name) { ... } */
#define NODE_TEST(name)                       \
    static void name##_of(struct fixture *f); \
    static void name(void)                    \
    {                                         \
        struct fixture f;                     \
        set_up(&f);                           \
        name##_of(&f);                        \
        tear_down(&f);                        \
    }                                         \
    static void name##_of(struct fixture *f)

#endif
