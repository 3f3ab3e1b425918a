/* node.h - the conversation with one server: handshake, pipeline, health. Pure: bytes in,
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
    NODE_BACKOFF_MAX_MS = 1000,   /* ... doubled for each further one up to this, or less */
    NODE_STABLE_MS = 1000,        /* a connection that broke sooner counts as a failure */
    MARKING_ARGS = 6,             /* of the script that sets the marker */
    NODE_LOOK_MS = 1000,          /* between questions for the server's time and life */
    /* A server with NODE_BEHIND_MIN requests and no answer for NODE_PAUSE_MS is frozen or
     * overloaded. More requests allow less time: from a client at full load (60,000
     * commands/s) a frozen server has 540 requests after 9 ms, 15,000 after the 250 ms
     * in which one is overdue. A healthy server may have 3,600 on two busy cores, but
     * keeps answering. For a distant server, twice its usual time is a pause. */
    NODE_BEHIND_MIN = 192,
    NODE_PAUSE_MS = 25,
    NODE_PAUSE_MIN_MS = 6,
};

/* $7 EVALSHA $40 and the sha, with line ends. */
enum { SHA_AT = 18, SHA_LEN = 40, EVALSHA_LEN = SHA_AT + SHA_LEN + 2 };

struct script {
    const char *body;
    size_t len;
    struct script_at {
        uint8_t loaded;           /* 1: the server has it, as far as we know */
        char evalsha[EVALSHA_LEN + 1];    /* "EVALSHA" and the sha, as sent; "": the server
                                     has not told the sha */
    } at[];                       /* each node */
};

/* The scripts of a client; its nodes share them. */
struct scripts {
    int count;
    struct script **item;
};

struct node_config {
    char *label;                  /* the node's name in messages; may be NULL */
    const char *marker;           /* key of the restart guard's marker; NULL: none */
    int guarded;                  /* the guard is on: node_look() asks for the life */
    int behind_proxy;             /* a connection may survive the server's restart */
    char *user;
    char *password;
    const char *client_name;      /* for CLIENT SETNAME; NULL: none */
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
    REQUEST_KNOCK,                /* PING to a server that was silent: any answer does */
    REQUEST_PING,                 /* the last command of the handshake */
    REQUEST_INFO,
    REQUEST_TIME,
    REQUEST_MARKER,               /* the marker: GET, or the script that compares it */
    REQUEST_SERVERS,              /* the list of servers beside the marker */
    REQUEST_SUBSCRIBE             /* or UNSUBSCRIBE */
};

/* An unanswered command. */
struct request {
    void *owner;                  /* REQUEST_CALL: as given to node_call() */
    uint64_t start;               /* stream offset of its first byte */
    int64_t sent_ms;
    int16_t kind;
    int16_t script;
    int8_t by_sha;                /* EVALSHA: NOSCRIPT is an answer worth a retry */
    int8_t calls;                 /* > 0: how many, from this one on, share an answer */
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
    int place;                    /* in script.at */
    int subscriber;               /* takes messages instead of calls; set once */
    enum node_state state;
    struct buf out;               /* bytes to write to the connection */
    struct wire wire;
    struct request *queue;        /* ring of queue_cap, a power of two */
    uint32_t queue_cap, queue_head, queue_len;
    struct batch *batch;          /* calls that go together; NULL: there were none yet */
    int code;                     /* why the node gives no votes: rl_code, with text */
    int why;                      /* rl_why: more on that code, then without text */
    char text[RL_TEXT_MAX];
    int lost;                     /* set by the core: why the node was lost last, rl_code;
                                     RL_OK: ready since, or not lost yet */
    const char *waits_for;        /* CONNECTING: the error text of its time-out */
    int64_t share_ms;             /* CONNECTING: when to try the next address */
    int silent;                   /* given up without an answer, and not heard since */
    int failures;                 /* in a row, without a stable connection between */
    int64_t backoff_ms;           /* the longest wait between two attempts, +- half */
    int64_t retry_ms;             /* DOWN: the earliest next attempt */
    int64_t deadline_ms;          /* CONNECTING, HANDSHAKE: when to give up */
    int64_t ready_ms;             /* READY: since */
    int64_t answered_ms;          /* the last answer came */
    int64_t ends_s;               /* as rl_node_info.certificate_ends_s */
    int took8_ms;                 /* 8 times a moving average of how long answers take */
    struct info info;             /* from the last handshake, look or node_probe() */
    int64_t info_ms;              /* the last handshake or node_probe() */
    rl_server_info last;          /* of the connections before this one, for reports */
    int timing;                   /* TIME is unanswered; -1: not permitted */
    int looking;                  /* INFO replication is unanswered */
    int64_t looked_ms;            /* node_look() last sent something */
    int64_t life_ms;              /* INFO replication was last sent */
    char *servers;                /* the list beside the marker; NULL: none */
    int listing;                  /* GET of the list is unanswered; -1: not permitted */
    int64_t listed_ms;            /* GET of the list was last sent */
    int missed;                   /* subscriber: some channels must be told again */
    int strays;                   /* messages without a subscription, since strays_ms */
    int64_t strays_ms;
    rl_node_stats stats;
};

/* Gives a config copies of both (user may be NULL), for future connections. 0, or -1: out
 * of memory; nothing has changed. */
int node_set_password(struct node_config *config, const char *user, const char *password);

/* Overwrites a text, and frees it. */
void secret_free(char *secret);

/* Puts stars in place of a secret, or NULL, wherever a text has it. */
void secret_hide(const char *secret, char *text);

/* Frees the strings that a config owns: user and password. */
void node_config_free(struct node_config *config);

/* 0, or -1: out of memory. config and scripts must outlive the node. */
int node_init(struct node *nd, const struct node_config *config,
              const struct scripts *scripts, int place);
void node_free(struct node *nd);

/* Call when the caller begins to connect. */
void node_connecting(struct node *nd, int64_t now_ms);

/* Call when connected: writes the handshake. A server that was silent gets a PING first:
 * when a frozen server recovers, it executes the unread bytes of every connection that
 * was given up meanwhile. 0, or -1: out of memory. */
int node_connected(struct node *nd, int64_t now_ms);

/* After NODE_HEARD: writes the handshake. 0, or -1: out of memory. */
int node_greet(struct node *nd, int64_t now_ms);

/* Call when the connection broke, or could not be made, for the reason given. Unanswered
 * requests stay for node_abandon(). random: any number, for jitter of the back-off. */
void node_down(struct node *nd, int code, const char *text, int64_t now_ms,
               uint64_t random);

/* Takes the oldest unanswered request off the queue of a node that is down. *written:
 * whether a byte of it may have reached the server. 1; or 0: none is left, and the node
 * may connect again. */
int node_abandon(struct node *nd, struct request *out, int *written);

/* The next event in what wire_feed() was given:
 * NODE_IDLE: nothing more.
 * NODE_ANSWER: nd->wire.reply answers *out, a REQUEST_CALL.
 * NODE_ALONE: *out was sent in a batch; send it again alone.
 * NODE_TOLD: nd->wire.reply answers *out, a REQUEST_TIME, REQUEST_INFO or REQUEST_MARKER.
 * NODE_HEARD: a silent server answers again; call node_greet().
 * NODE_UP: the handshake is done; call node_ready() or node_refuse().
 * NODE_MESSAGE: a subscriber got nd->wire.reply.
 * NODE_FAILED: close the connection; nd->code, nd->why and nd->text tell why. */
enum node_event node_next(struct node *nd, struct request *out, int64_t now_ms);

/* After NODE_UP: the node is DOWN, for no fault of its own; close the connection. */
void node_leave(struct node *nd);

/* After NODE_UP: the node is READY. */
void node_ready(struct node *nd, int64_t now_ms);

/* After NODE_UP: the node must not vote, for the reason given; close the connection. */
void node_refuse(struct node *nd, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, for a reason without a text. Returns the code. */
int node_object(struct node *nd, int code, enum rl_why why);

/* Queues a script call, by EVALSHA where the server has the script, else by EVAL. last_arg:
 * one more argument, the last (guard.h), or NULL. 0, RL_OVERLOAD, or RL_NOMEM. Only when
 * READY. */
int node_call(struct node *nd, int script, const struct cmd *cmd,
              const char *last_arg, void *owner, int64_t now_ms);

/* Collects a call for a batch (batch.h), which the script `many` runs for all of them.
 * node_flush(), or any other request, sends the batch; cmd, of a lease with one key, must
 * last until then. Returns as node_call(). */
int node_call_with(struct node *nd, int many, int script, const struct cmd *cmd,
                   const char *last_arg, void *owner, int64_t now_ms);
void node_flush(struct node *nd);

/* Queues TIME, and with the guard INFO replication before it, if NODE_LOOK_MS have passed
 * and no earlier one is unanswered. Only when READY. 1: queued; 0: not. */
int node_look(struct node *nd, int64_t now_ms);

/* Queues INFO replication, unless one is unanswered. Only when READY. 1: queued, or 0. */
int node_look_at_life(struct node *nd, int64_t now_ms);

/* Queues lua/redlock/scripts/marker/set.lua with its arguments: it returns the marker as it
 * is then. Only when READY. 0, or -1: no room or memory. */
int node_set_marker(struct node *nd, const char *body, const char *const args[MARKING_ARGS],
                    int64_t now_ms);

/* Queues GET of the list beside the marker, unless one is unanswered or not permitted.
 * Only when READY. 1: queued; 0: not. */
int node_ask_servers(struct node *nd, int64_t now_ms);

/* Queues INFO, TIME, GET of the marker and of the list, and PING. The answer to PING is
 * the owner's NODE_ANSWER. Only when READY. 0, RL_OVERLOAD, or RL_NOMEM. */
int node_probe(struct node *nd, void *owner, int64_t now_ms);

/* Queues SUBSCRIBE or UNSUBSCRIBE (verb). Only when READY. 0, or -1: no room or
 * memory. */
int node_subscribe(struct node *nd, const char *verb, const char *channel, size_t len,
                   int64_t now_ms);

/* Call when a subscriber gets a confirmation. True: a request was waiting for one. */
int node_confirmed(struct node *nd);

/* Queues SCRIPT LOAD when READY; else the handshake will. 0, or -1: out of memory. */
int node_load(struct node *nd, int script, int64_t now_ms);

/* Call when the server does not know this script any more (NOSCRIPT). */
void node_unload(struct node *nd, int script);

#endif
