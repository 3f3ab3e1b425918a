/* node.h - one server's conversation: handshake, pipeline, health. Pure: bytes in,
 * bytes out, the time as a parameter.
 *
 *   DOWN --node_connecting--> CONNECTING --node_connected--> HANDSHAKE --> READY
 *     ^------------------------------ node_down ----------------------------'
 */
#ifndef NODE_H
#define NODE_H

#include "node/buf.h"
#include "node/cmd.h"
#include "node/info.h"
#include "node/wire.h"

enum {
    NODE_QUEUE_MAX = 1 << 17,     /* unanswered requests of one connection */
    NODE_BACKOFF_MIN_MS = 20,     /* before the second attempt to connect ... */
    NODE_BACKOFF_MAX_MS = 1000,   /* ... doubled for each further one up to this */
    NODE_STABLE_MS = 1000,        /* a connection that broke sooner counts as a failure */
    NODE_LOOK_MS = 1000,          /* between two questions for the server's time and life */
    /* So many requests, and no answer for so long: the server is frozen, or not up to its
     * load. More requests, less time: from a client at full load (60,000 commands/s) a
     * frozen server has 540 requests after 9 ms, and 15,000 after the 250 ms in which one
     * of them is overdue. A server that is well may have 3,600 on two busy cores, but goes
     * on answering. A server that is far away takes its time: twice as long as usual is a
     * pause. */
    NODE_BEHIND_MIN = 192,
    NODE_PAUSE_MS = 25,
    NODE_PAUSE_MIN_MS = 6,
};

/* The scripts of a client, shared by its nodes. */
struct scripts {
    int count;
    struct {
        char *body;
        size_t len;
    } item[RL_MAX_SCRIPTS];
};

/* Some of them. */
struct script_set {
    uint64_t word[RL_MAX_SCRIPTS / 64];
};

static inline int script_in(const struct script_set *set, int script)
{
    return set->word[script / 64] >> script % 64 & 1;
}

struct node_config {
    char *label;                  /* the node's name in messages; may be NULL */
    const char *marker;           /* key of the restart guard's marker; NULL: none */
    int guarded;                  /* the guard is on: the life is looked at again and again */
    int require_info;             /* the node must say who it is */
    int behind_proxy;             /* a connection may be to another life of the server than
                                     the answers */
    char *user;
    char *password;
    char *client_name;
    int db;
    int timeout_ms;
    int connect_timeout_ms;
};

enum node_state { NODE_DOWN, NODE_CONNECTING, NODE_HANDSHAKE, NODE_READY };

enum request_kind {
    REQUEST_CALL,
    REQUEST_AUTH,
    REQUEST_SELECT,
    REQUEST_NAME,
    REQUEST_LOAD,
    REQUEST_KNOCK,                /* a PING that any answer will do for */
    REQUEST_PING,
    REQUEST_INFO,
    REQUEST_TIME,
    REQUEST_MARKER,               /* the marker: GET, or the script that compares it */
    REQUEST_SERVERS,              /* the list of servers beside it */
    REQUEST_SUBSCRIBE             /* or UNSUBSCRIBE */
};

/* A command whose answer is awaited, in the order sent. */
struct request {
    void *owner;                  /* REQUEST_CALL: as given to node_call */
    uint64_t start;               /* stream offset of its first byte */
    int64_t sent_ms;
    int16_t kind;
    int16_t script;
    int8_t by_sha;                /* EVALSHA: NOSCRIPT is an answer worth a retry */
    int8_t calls;                 /* > 0: so many, from this one on, have one answer (batch.h) */
};

enum node_event {
    NODE_IDLE,
    NODE_ANSWER,
    NODE_ALONE,
    NODE_TOLD,
    NODE_HEARD,
    NODE_UP,
    NODE_MESSAGE,
    NODE_FAILED
};

struct batch;

struct node {
    const struct node_config *config;
    const struct scripts *scripts;
    int subscriber;               /* takes messages instead of calls; set once */
    enum node_state state;
    struct buf out;               /* bytes to be written to the connection */
    struct wire wire;
    struct request *queue;        /* ring of queue_cap, a power of two */
    uint32_t queue_cap, queue_head, queue_len;
    int handshake_left;           /* answers still missing in HANDSHAKE */
    struct batch *batch;          /* calls that go together; NULL: there were none yet */
    struct script_set sha_known;  /* scripts whose sha the server told */
    struct script_set loaded;     /* scripts that the server has, as far as we know */
    char sha[RL_MAX_SCRIPTS][40];
    int code;                     /* why the node gives no votes: rl_code, with text */
    char text[RL_TEXT_MAX];
    int lost;                     /* the core's: why the node was lost last: rl_code;
                                     RL_OK: ready since, or not lost yet */
    const char *waits_for;        /* CONNECTING: what has not happened in time ... */
    int64_t share_ms;             /* ... and until when the next address has to wait */
    int silent;                   /* given up for silence, which goes on */
    int failures;                 /* in a row, without a stable connection between */
    int64_t retry_ms;             /* DOWN: not before */
    int64_t deadline_ms;          /* CONNECTING, HANDSHAKE: until */
    int64_t ready_ms;             /* READY: since */
    int64_t answered_ms;          /* the last answer came */
    int took8_ms;                 /* 8 times what answers take, on average of the last ones */
    struct info info;             /* as of the last handshake or node_probe() ... */
    int64_t info_ms;              /* ... at that time */
    int timing;                   /* TIME is unanswered; or -1: not permitted */
    int looking;                  /* INFO replication is unanswered */
    int64_t looked_ms;            /* both were sent last, */
    int64_t life_ms;              /* and INFO replication alone */
    char *servers;                /* the list beside the marker; NULL: none */
    int listing;                  /* that is unanswered; or -1: not permitted */
    int64_t listed_ms;            /* and was asked for last */
    int missed;                   /* a subscriber was not told everything */
    int strays;                   /* messages nobody subscribed for, since strays_ms */
    int64_t strays_ms;
    rl_node_stats stats;
};

/* Gives copies of both (user may be NULL) to a config, for the connections made from now
 * on. 0, or -1: out of memory, and nothing is changed. */
int node_set_password(struct node_config *config, const char *user, const char *password);

/* Frees what belongs to a config that is not used any more. */
void node_config_free(struct node_config *config);

/* 0, or -1: out of memory. config and scripts must outlive the node. */
int node_init(struct node *nd, const struct node_config *config,
              const struct scripts *scripts);
void node_free(struct node *nd);

/* The caller began to connect. */
void node_connecting(struct node *nd, int64_t now_ms);

/* The connection stands: writes the handshake; or a PING to a server that was silent, as
 * a frozen server executes, when it goes on, what it has not read of every connection
 * that was given up meanwhile. 0, or -1: out of memory. */
int node_connected(struct node *nd, int64_t now_ms);

/* After NODE_HEARD: writes the handshake. 0, or -1: out of memory. */
int node_greet(struct node *nd, int64_t now_ms);

/* The connection is gone, or could not be made, for the reason given. The unanswered
 * requests stay for node_abandon. random: any number, for the jitter of the back-off. */
void node_down(struct node *nd, int code, const char *text, int64_t now_ms,
               uint64_t random);

/* Takes the oldest unanswered request off the queue of a node that is down. 1, with
 * *written telling whether any byte of that request may have reached the server, or 0:
 * none left, and the node is ready to be connected again. */
int node_abandon(struct node *nd, struct request *out, int *written);

/* Takes bytes that arrived. 0, or -1: out of memory. */
int node_feed(struct node *nd, const char *data, size_t len);

/* The next event in what was fed. NODE_HEARD: a silent server is there again, and
 * node_greet() is next; NODE_ANSWER: *out was answered by nd->wire.reply; NODE_ALONE: it
 * was sent with others, and is to be asked alone;
 * NODE_TOLD: so was *out, a REQUEST_TIME, REQUEST_INFO, or REQUEST_MARKER
 * of the node itself;
 * NODE_MESSAGE: a subscriber got nd->wire.reply; NODE_UP: the handshake is done, and
 * node_ready() or node_refuse() is next; NODE_FAILED: nd->code and nd->text tell why the
 * connection must be closed; NODE_IDLE: nothing more. */
enum node_event node_next(struct node *nd, struct request *out, int64_t now_ms);

/* After NODE_UP: the node is READY. */
void node_ready(struct node *nd, int64_t now_ms);

/* After NODE_UP: the node must not vote, for the reason given; the connection must be
 * closed. */
void node_refuse(struct node *nd, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Queues a script call, by EVALSHA where the server has the script, else by EVAL. behind: a
 * further argument, behind all others (guard.h), or NULL. 0, RL_OVERLOAD, or RL_NOMEM. Only when READY. */
int node_call(struct node *nd, int script, const struct cmd *cmd,
              const char *behind, void *owner, int64_t now_ms);

/* The same, without a further argument, for a call that goes with others like it, which this is
 * called for one after the other, by the script `many` for all of them (batch.h): it is put
 * aside, until node_flush() or something else is queued. cmd, of a lease and with one key,
 * must last until then. */
int node_call_with(struct node *nd, int many, int script, const struct cmd *cmd,
                   void *owner, int64_t now_ms);
void node_flush(struct node *nd);

/* Queues TIME, and with the guard INFO replication ahead of it, when they are due and the
 * last answer has come. Only when READY. 1: queued; 0: not. */
int node_look(struct node *nd, int64_t now_ms);

/* Queues INFO replication, unless that is unanswered. Only when READY. The same. */
int node_look_at_life(struct node *nd, int64_t now_ms);

/* Queues the script (of body, len) that sets the marker to `want` if the marker is `seen`,
 * and the list of servers beside it unless that is "", and returns the marker that is there
 * then. Only when READY. 0, or -1: no room or memory. */
int node_set_marker(struct node *nd, const char *body, size_t len, const char *seen,
                    const char *want, const char *servers, int64_t now_ms);

/* Queues a question for the list beside the marker, unless that is unanswered. Only when
 * READY. 1: queued; 0: not. */
int node_ask_servers(struct node *nd, int64_t now_ms);

/* Queues INFO, TIME, GET of the marker and of the list, and PING; the answer to that is the owner's
 * NODE_ANSWER. Only when READY. 0, RL_OVERLOAD, or RL_NOMEM. */
int node_probe(struct node *nd, void *owner, int64_t now_ms);

/* Queues SUBSCRIBE or UNSUBSCRIBE (verb). Only when READY. 0, or -1: no room or
 * memory. */
int node_subscribe(struct node *nd, const char *verb, const char *channel, size_t len,
                   int64_t now_ms);

/* A subscriber got a confirmation. True: there was something to confirm. */
int node_confirmed(struct node *nd);

/* Queues SCRIPT LOAD when READY; else the handshake will. 0, or -1: out of memory. */
int node_load(struct node *nd, int script, int64_t now_ms);

/* The server does not know this script any more (NOSCRIPT). */
void node_unload(struct node *nd, int script);

#endif
