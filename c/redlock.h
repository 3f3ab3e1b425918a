/* redlock.h - quorum rounds over N independent Redis servers: the public C API.
 *
 * A client talks to N servers over one pipelined connection each. A round sends one
 * script call to all of them, counts votes, and is done as soon as its outcome is
 * certain. A lease is one attempt to hold something: it is acquired, extended and
 * released by rounds, and it keeps cleaning up after itself until no server can still
 * have anything of it.
 *
 * Times are milliseconds on CLOCK_BOOTTIME unless said otherwise. All functions may be
 * called from any thread; one client is one engine behind one mutex. After fork() the
 * child sees every lease of the parent as void and opens connections of its own.
 */
#ifndef REDLOCK_H
#define REDLOCK_H

#include <stddef.h>
#include <stdint.h>

/* A program and the library that it loads must have the same number: raise it with every
 * change between the two cdef markers. Part of the library's file name. */
#define RL_ABI 15

/* The word for each code, as rl_code_name() gives it, and as Lua has it. */
#define RL_CODE_WORDS(X) \
    X(RL_OK, "ok") \
    X(RL_GRANTED, "granted") \
    X(RL_HELD, "held") \
    X(RL_NO_QUORUM, "no_quorum") \
    X(RL_EXPIRED, "expired") \
    X(RL_LOST, "lost") \
    X(RL_NOT_HELD, "not_held") \
    X(RL_UNKNOWN, "unknown") \
    X(RL_CANCELLED, "cancelled") \
    X(RL_CLOSED, "closed") \
    X(RL_INTERRUPTED, "interrupted") \
    X(RL_NOMEM, "nomem") \
    X(RL_CONFIG, "config") \
    X(RL_UNSUPPORTED, "unsupported") \
    X(RL_TIMEOUT, "timeout") \
    X(RL_REFUSED, "refused") \
    X(RL_DNS, "dns") \
    X(RL_TLS, "tls") \
    X(RL_AUTH, "auth") \
    X(RL_NOPERM, "noperm") \
    X(RL_READONLY, "readonly") \
    X(RL_LOADING, "loading") \
    X(RL_OOM, "oom") \
    X(RL_SCRIPT, "script") \
    X(RL_PROTOCOL, "protocol") \
    X(RL_GUARDED, "guarded") \
    X(RL_UNSEEDED, "unseeded") \
    X(RL_OVERLOAD, "overload")

#pragma GCC visibility push(default)
/* Everything up to "cdef end" is also the FFI declaration (see the Makefile): plain C
 * declarations only, no preprocessor. */
/* cdef begin */
enum {
    RL_MAX_NODES = 32,       /* votes are kept in 32-bit masks */
    RL_VALUE_LEN = 40,       /* 20 random bytes, in hex: what a value begins with */
    RL_VALUE_MAX = 256,      /* bytes of a value, with its card */
    RL_CARD_MAX = 160,       /* bytes of the label on a card */
    RL_NONCE_LEN = 16,       /* 8 of them */
    RL_DATA_MAX = 256,       /* bytes kept of a string in a reply */
    RL_TEXT_MAX = 512,       /* bytes kept of an error text, with the closing 0 */
    RL_MAX_KEYS = 128,       /* KEYS of one script call */
    RL_MAX_ARGS = 16,        /* further ARGV of one script call */
    RL_MAX_SCRIPTS = 256,    /* scripts of one client */
    RL_RUN_ID_MAX = 41,      /* a server's run_id, with the closing 0 */
    RL_CLUSTER_MAX = 33,     /* the name of a cluster, with the closing 0 */
    RL_SERVERS_MAX = 10240,  /* a list of servers, with the closing 0 */
    RL_WORD_MAX = 32,        /* a word of INFO, with the closing 0 */
    RL_TIMES_BOUNDS = 17     /* of times: 100 us, and each twice the one before */
};

/* Rounds that are timed. */
enum { RL_TIMES_ACQUIRE = 1, RL_TIMES_RELEASE, RL_TIMES_KINDS };

/* How a round ended, and why a node gave no vote. */
typedef enum rl_code {
    RL_OK = 0,
    /* outcomes of a round */
    RL_GRANTED,              /* acquire, extend: majority in time; release: let go;
                                ask: a majority answered */
    RL_HELD,                 /* another holder has the keys, on too many nodes for us */
    RL_NO_QUORUM,            /* no majority answered in time */
    RL_EXPIRED,              /* granted, but the lease's time has run out */
    RL_LOST,                 /* extend: the lease is over, or a majority disowned us */
    RL_NOT_HELD,             /* the lease is void: released before, or of the parent */
    RL_UNKNOWN,              /* release: no majority answered */
    RL_CANCELLED,
    RL_CLOSED,               /* the client was closed */
    RL_INTERRUPTED,          /* a signal arrived: call rl_wait again */
    RL_NOMEM,
    RL_CONFIG,               /* a setting is wrong: see the node's text */
    RL_UNSUPPORTED,          /* the server cannot do what is asked */
    /* why a node gave no vote */
    RL_TIMEOUT,              /* no answer, or no connection, in time */
    RL_REFUSED,              /* no connection, or a broken one */
    RL_DNS,                  /* the host name was not resolved */
    RL_TLS,
    RL_AUTH,                 /* NOAUTH, WRONGPASS */
    RL_NOPERM,               /* the ACL of this user forbids the command */
    RL_READONLY,             /* READONLY, MISCONF, NOREPLICAS: no writes now */
    RL_LOADING,              /* LOADING, BUSY, MASTERDOWN, TRYAGAIN: not now */
    RL_OOM,                  /* maxmemory is reached */
    RL_SCRIPT,               /* the script, or another command, failed */
    RL_PROTOCOL,             /* not RESP, or not what a script may return, as a counter
                                outside [1, 10^14) */
    RL_GUARDED,              /* in quarantine: the server may have forgotten locks, or its
                                clock was stepped */
    RL_UNSEEDED,             /* the server has forgotten its counter of tokens */
    RL_OVERLOAD,             /* too many unanswered requests on one connection */
    RL_CODES                 /* how many codes there are */
} rl_code;

/* What a script's reply means. A script returns an integer, or an array of integers and
 * at most one string; the first integer is the vote, the second the extra, the string
 * the data. */
enum {
    RL_VOTE_UNSEEDED = -2,   /* fenced: the server has forgotten its counter; nothing was
                                done */
    RL_VOTE_FOREIGN = -1,    /* somebody else's */
    RL_VOTE_ABSENT = 0,      /* refused, or not there; extra may say for how long (ms), data
                                who the holder is */
    RL_VOTE_YES = 1,
    RL_VOTE_AGAIN = 2,       /* acquire only: the value was there. Counts as yes only when
                                this node was asked twice; else one server is listed
                                under two addresses */
    RL_VOTE_GUARDED = 3      /* acquire, or a guarded question, with the guard: the marker
                                (the data) is not what was asked for; nothing was done */
};

/* What a client knows of a node's right to vote (rl_node_info.guard). */
typedef enum rl_guard {
    RL_GUARD_OFF,            /* no guard */
    RL_GUARD_UNKNOWN,        /* not asked yet, or no answer: see marker_code */
    RL_GUARD_ADMITTED,       /* its marker is valid */
    RL_GUARD_QUARANTINED,    /* the server may have forgotten locks that are still held */
    RL_GUARD_DISAGREES       /* its marker is not for this client: see rl_node_info.why */
} rl_guard;

enum { RL_ROLE_UNKNOWN, RL_ROLE_MASTER, RL_ROLE_REPLICA };

/* Signals that release what is held (rl_options.signals): a mask. */
enum {
    RL_SIGNAL_HUP = 1,
    RL_SIGNAL_INT = 2,
    RL_SIGNAL_QUIT = 4,
    RL_SIGNAL_USR1 = 8,
    RL_SIGNAL_USR2 = 16,
    RL_SIGNAL_TERM = 32
};

/* Why a lease is lost. */
typedef enum rl_loss {
    RL_NOT_LOST = 0,
    RL_LOSS_EXPIRED,         /* no majority confirmed an extension in time */
    RL_LOSS_TAKEN,           /* a majority lacks our keys; another holder has some */
    RL_LOSS_FORGOTTEN,       /* a majority lacks our keys, and no other holder was seen */
    RL_LOSS_MAX_HOLD,        /* the watchdog's bound was reached */
    RL_LOSS_SUSPENDED,       /* this process did not run for so long */
    RL_LOSS_CLOSED           /* the client was closed, or this is the child of a fork */
} rl_loss;

typedef struct rl_client rl_client;
typedef struct rl_lease rl_lease;
typedef struct rl_round rl_round;
typedef struct rl_subscription rl_subscription;
typedef struct rl_mailbox rl_mailbox;
typedef struct rl_cleanups rl_cleanups;

typedef struct rl_bytes {
    const char *data;
    size_t len;
} rl_bytes;

typedef struct rl_node_options {
    const char *label;       /* the node's name in messages; no secrets */
    const char *host;        /* name or address; NULL with path */
    const char *path;        /* unix socket; NULL with host */
    const char *user;        /* NULL: the default user */
    const char *password;    /* NULL: no AUTH */
    const char *password_file; /* its first line is the password, read for each
                                connection; or NULL */
    const char *server_name; /* whose certificate is expected; NULL: host's */
    int32_t tls;             /* 1: TLS */
    int32_t port;
    int32_t db;
} rl_node_options;

typedef struct rl_options {
    const char *client_name; /* for CLIENT SETNAME, which appends ":" and 8 hex digits of the
                                hash of the servers; NULL: none */
    int32_t timeout_ms;      /* one node's answer */
    int32_t connect_timeout_ms; /* name, TCP (the addresses of a name share it) and handshake */
    int32_t drift_ppm;       /* clock drift allowance, parts per million of a lease */
    int32_t max_lease_ms;    /* no TTL longer than that is ever set; 0: 60 s */
    int32_t lock_delay_ms;   /* servers keep keys that nobody released for so much longer
                                than the lease */
    int32_t lease_ms;        /* the default lease; its drift allowance, or that of a
                                shorter one in use, is how far a server's clock may jump
                                without that being a step; 0: max_lease */
    int32_t margin;          /* an acquire and a hand-over want so many nodes more than a
                                majority; an extension does not */
    int32_t min_validity_ms; /* a grant, or hand-over, of which less is left is none:
                                RL_EXPIRED */
    const char *marker;      /* the key of the restart guard's marker; NULL: no guard */
    const char *marker_script; /* compares and sets the marker: see guard.h */
    const char *cluster;     /* the name of the servers together, 1 to 32 of A-Za-z0-9._-, not
                                16 hex digits: the same for all their clients; NULL: the
                                list of their addresses is compared instead */
    int32_t require_info;    /* 1: a node whose INFO may not be read does not vote */
    int32_t unguarded;       /* 1: the guard is off, and a node that has a marker of others,
                                for whom it is on, is refused */
    int32_t behind_proxy;    /* 1: connections may be passed on to a server that has
                                restarted since */
    int32_t tls_verify;      /* 0: any certificate will do */
    const char *ca_file;     /* certificates to trust; NULL: the system's */
    const char *cert_file;   /* the client's, with its chain, and its key; or NULL */
    const char *key_file;
    int32_t signals;         /* RL_SIGNAL_*: at one of these a thread releases what is
                                held, within 50 ms, while the thread that got the
                                signal stands still, and the client counts as closed;
                                then the signal has the effect that it has without this
                                library. Not for shared clients. From the first use in a
                                process on, unless the signal is ignored then. System
                                calls that the signal meets may return EINTR before. */
} rl_options;

/* Which grants of an acquire or a hand-over make a majority (rl_primitive.rule). */
enum {
    RL_RULE_YES,             /* all */
    RL_RULE_SAME,            /* those whose extra, a number above 0, is the same. ARGV[3] of
                                all scripts of a lease is that number, 0 before it is
                                agreed upon */
    RL_RULE_LARGEST          /* fencing tokens: all, when a majority has witnessed exactly
                                the largest extra among them, which is each node's
                                counter; needs confirm. ARGV[3] of all scripts of a lease
                                is that token, 0 while there is none */
};

typedef struct rl_primitive {
    int32_t acquire;         /* script numbers from rl_script() */
    int32_t extend;          /* -1: cannot be extended */
    int32_t release;
    int32_t handover;        /* -1: cannot be handed over */
    int32_t confirm;         /* RL_RULE_LARGEST: makes the node's counter the token */
    int32_t heal;            /* gives the keys back to a node that lost them; -1: acquire */
    int32_t rule;            /* RL_RULE_* */
    int32_t knows_run;       /* 1: the last ARGV of all scripts of a lease names the
                                server's memory by its first 16 letters: with the guard
                                it is the marker, which an acquire must find there (with
                                a "!" behind it: the server's life, too); without, its
                                master_replid. 0: acquire and heal have the marker with
                                the guard ("": whatever it is), and nothing without */
    int32_t extend_many;     /* extends many that are renewed together, of one key each: ARGV
                                by KEY its value and its lease. A string with a '1' for each
                                that it has extended; one with another letter is extended
                                alone. 0, which a client's first script has: there is
                                none */
} rl_primitive;

typedef struct rl_node_result {
    int32_t answered;        /* 1: vote, extra and data are the node's answer */
    int32_t vote;            /* RL_VOTE_* or what the script says */
    int32_t code;            /* rl_code when not answered or the vote did not count; RL_OK
                                and not answered: decided without this node */
    int32_t asked;           /* 1: the node was asked */
    int32_t ready;           /* 1: the node is connected now */
    int32_t lost;            /* why the node is not (as in rl_node_info) */
    int32_t data_len;
    int64_t extra;
    char data[RL_DATA_MAX];
} rl_node_result;

typedef struct rl_node_stats {
    int64_t requests;        /* script calls sent */
    int64_t replies;
    int64_t errors;          /* error replies */
    int64_t timeouts;        /* votes missing because the answer was late */
    int64_t connects;        /* handshakes completed */
    int64_t disconnects;     /* connections lost after that, and failed attempts */
    int32_t in_flight;       /* requests without an answer now */
    int32_t owed;            /* leases whose clean-up this node has not confirmed */
    int32_t ready;           /* 1: connected and through the handshake */
    int32_t code;            /* why the node is not ready */
} rl_node_stats;

/* What a node told of itself, when it was connected or rl_check()ed last. */
typedef struct rl_node_info {
    int32_t ready;           /* as in rl_node_stats */
    int32_t code;
    int32_t lost;            /* why the last connection was lost, or failed; RL_OK: the
                                node is ready, or was not tried yet */
    int32_t twin;            /* 1: the same server has voted under another address */
    int32_t known;           /* 1: INFO was read */
    int32_t role;            /* RL_ROLE_* */
    int32_t aof;             /* appendonly is on */
    int32_t rdb;             /* a snapshot was made since the server started */
    int32_t guard;           /* rl_guard */
    int32_t unverified;      /* its master_replid is not known: no permission for INFO */
    int32_t clock;           /* 1: the three clock fields are known */
    int32_t steps;           /* how often its clock was stepped so far */
    int32_t marker_code;     /* the last error about its marker; RL_OK: none */
    int64_t guard_left_ms;   /* QUARANTINED: until the quarantine ends */
    int64_t suspect_left_ms; /* until a node votes again after a clock step */
    int64_t step_ms;         /* the last one; positive: forward */
    int64_t offset_ms;       /* its wall clock minus ours */
    int64_t offset_error_ms; /* by how much offset_ms may be wrong */
    int64_t round_trip_ms;
    int64_t heard_ms;        /* when it answered anything last */
    int64_t uptime_s;        /* as the server says */
    int64_t maxmemory;       /* bytes; 0: no bound */
    char run_id[RL_RUN_ID_MAX];
    char version[RL_WORD_MAX];
    char policy[RL_WORD_MAX];       /* maxmemory-policy */
    char cluster[RL_CLUSTER_MAX];   /* that its marker names: a name, or 16 hex digits of a
                                list of servers; "": none is known */
    char list[9];            /* hex digits of the servers, as in the names of connections */
    char why[RL_TEXT_MAX];   /* DISAGREES: what is wrong, and the remedy */
} rl_node_info;

/* How long rounds of one kind took that were granted: from the call that began the round
 * to the one that gave it back. */
typedef struct rl_times {
    int64_t count;
    int64_t sum_us;
    int64_t within[RL_TIMES_BOUNDS + 1]; /* [i]: as many took at most 100 << i microseconds,
                                and more than the bound before; the last: all others */
} rl_times;

/* A round that is done, and how it ended then (see rl_round_outcome). */
typedef struct rl_done {
    rl_round *round;
    int outcome;
} rl_done;

/* The ABI this library was built with: RL_ABI. */
int rl_abi(void);

/* The word for a code, as used in Lua ("held", "timeout"); never NULL. */
const char *rl_code_name(int code);

/* Milliseconds of CLOCK_BOOTTIME, which goes on during suspend and is never stepped. */
int64_t rl_now_ms(void);

/* Milliseconds since 1970 by the wall clock, which may be stepped. */
int64_t rl_unix_ms(void);

/* A random number, from 0 to less than 1, for pauses that must not be everybody's. */
double rl_random(rl_client *client);

/* Puts RL_NONCE_LEN random hex digits into out. 0, or -1: the kernel has none. */
int rl_nonce(char *out);

/* A new client of n nodes (1..RL_MAX_NODES); connects to nothing yet, copies its
 * arguments, reads the files of certificates if a node has TLS.
 * NULL: out of memory, or a file is no good, or no TLS here, with a text in err. */
rl_client *rl_open(const rl_options *options, const rl_node_options *nodes, int n,
                   char *err, size_t err_size);

/* Ends all rounds with RL_CLOSED, releases all that is held as rl_release() does, and
 * frees the client. Waits for servers that are connected or being connected to confirm
 * releases, at most 50 ms from the begin of a release on. exit() does all of that, too.
 * Rounds and leases must still be freed with rl_round_free and rl_lease_drop, before or
 * after. */
void rl_close(rl_client *client);

/* Registers a script and loads it on every connection. The script's number, which
 * depends on the text alone, or -1: more than RL_MAX_SCRIPTS; -2: out of memory. */
int rl_script(rl_client *client, const char *body, size_t len);

/* Starts one attempt: a fresh random value, and the primitive's acquire script on all
 * nodes with KEYS = keys, ARGV = value, lease_ms, args. Ends within within_ms.
 * label: for people who want to know whose it is; NULL: none. The value is its digits then,
 * and behind them the card: a space, the milliseconds since 1970 in hex, a space, the label.
 * "%p" in the label becomes the process' number; what is beyond RL_CARD_MAX is cut off.
 * home: -1 asks all nodes at once. Any other number asks one node first that is up, for
 * all clients the same one, and the others only when it has granted: contenders that
 * split the votes meet there.
 * Outcomes: RL_GRANTED (held until rl_remaining_ms() is used up), RL_HELD, RL_NO_QUORUM,
 * RL_EXPIRED (granted too late), RL_CLOSED; all but the first release on every node by
 * themselves. *lease is set when a round is returned.
 * NULL: out of memory, or an argument is out of range. */
rl_round *rl_acquire(rl_client *client, const rl_primitive *primitive,
                     const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                     const rl_bytes *label, int64_t lease_ms, int64_t within_ms,
                     int32_t home, rl_lease **lease);

/* The same of a client that is not shared, for who does not wait for this round alone: with
 * rl_round_notify(), and written as while rl_lazy() is on. */
rl_round *rl_acquire_async(rl_client *client, const rl_primitive *primitive,
                           const rl_bytes *keys, int nkeys, const rl_bytes *args,
                           int nargs, const rl_bytes *label, int64_t lease_ms,
                           int64_t within_ms, int32_t home, rl_lease **lease);

/* Starts an extension to lease_ms from now. Never shortens; 0 only asks. Outcomes:
 * RL_GRANTED, RL_LOST (over, or a majority disowned us: the lease is void now),
 * RL_NO_QUORUM (the old validity stands), RL_NOT_HELD, RL_UNSUPPORTED, RL_CLOSED. NULL:
 * out of memory. */
rl_round *rl_extend(rl_lease *lease, int64_t lease_ms);

/* Passes a held lease on to the next holder in this process: on every node that has the
 * lease's value, a fresh one takes its place, for lease_ms. KEYS as acquired, ARGV = new
 * value, lease_ms, the token or number if the rule has one, old value, args. kind: of the
 * next lease, of the same rule, with the same keys and args; its scripts are run. NULL: as
 * before. label: as of rl_acquire(). The lease is over at once, whatever the outcome;
 * *next is set when a round is returned. Outcomes: RL_GRANTED (next is held), RL_LOST (a
 * majority does not have the old value), RL_NO_QUORUM, RL_EXPIRED, RL_NOT_HELD,
 * RL_UNSUPPORTED, RL_CANCELLED, RL_CLOSED; all but the first release both on every node.
 * Both handles are to be dropped. NULL: out of memory; the lease is as before. */
rl_round *rl_handover(rl_lease *lease, const rl_primitive *kind, const rl_bytes *label,
                      int64_t lease_ms, rl_lease **next);

/* Starts the release, on all nodes; also ends an attempt that is still under way, with
 * RL_CANCELLED. The lease is over at once. With a lock delay, a lease that is lost is
 * not released: its keys end with their time. Outcomes: RL_GRANTED (let go in time),
 * RL_EXPIRED, RL_HELD (another holder has the keys now), RL_NOT_HELD, RL_UNKNOWN,
 * RL_CLOSED. NULL: out of memory; the release itself is under way nevertheless. */
rl_round *rl_release(rl_lease *lease);

/* The same as rl_acquire_async() is to rl_acquire(). */
rl_round *rl_release_async(rl_lease *lease);

/* Starts a question to all nodes, KEYS = keys, ARGV = args. Done when a majority has
 * given equal votes and data, or cannot any more, within within_ms. guarded: only nodes
 * that may vote on an acquire are asked, with the guard behind all KEYS and ARGV as in an
 * acquire, and votes are -1 to 2. Outcomes: RL_GRANTED (a majority answered; see
 * rl_round_agreed), RL_NO_QUORUM, RL_CLOSED. NULL as rl_acquire. */
rl_round *rl_ask(rl_client *client, int script, const rl_bytes *keys, int nkeys,
                 const rl_bytes *args, int nargs, int64_t within_ms, int32_t guarded);

/* As rl_ask(), but done when each node has answered or will not any more, with
 * RL_GRANTED or RL_CLOSED. */
rl_round *rl_ask_all(rl_client *client, int script, const rl_bytes *keys, int nkeys,
                     const rl_bytes *args, int nargs, int64_t within_ms);

/* As rl_ask_all(), but node i (from 0) alone is asked, and what it says is kept in full:
 * see rl_round_text(). NULL as rl_acquire. */
rl_round *rl_ask_one(rl_client *client, int32_t i, int script, const rl_bytes *keys,
                     int nkeys, const rl_bytes *args, int nargs, int64_t within_ms);

/* Starts asking node i (from 0) for its CLIENT LIST of ordinary connections: see
 * rl_round_text(). A list beyond 1 MiB costs the connection. As rl_ask_one(). */
rl_round *rl_ask_clients(rl_client *client, int32_t i, int64_t within_ms);

/* Starts asking every node for its INFO, TIME and marker anew. Done when each has
 * answered or will not any more, with RL_GRANTED or RL_CLOSED; rl_node_get_info() tells.
 * NULL: out of memory. */
rl_round *rl_check(rl_client *client);

/* Admits every connected node whose quarantine had begun at seen_ms (of rl_now_ms());
 * with force every node in a quarantine, and those whose clients disagree on max_lease or
 * on the servers: for a brand-new cluster, in which nobody could hold a lock at seen_ms.
 * Nodes that are admitted under a hash of their addresses get the name of the cluster
 * instead, if there is one. Done as rl_check(). NULL as rl_check(). */
rl_round *rl_admit(rl_client *client, int32_t force, int64_t seen_ms);

/* Milliseconds until quarantines end on a majority; 0: a majority may vote now; -1: too
 * few nodes are connected. */
int64_t rl_guard_left_ms(rl_client *client);

/* Starts a pause of ms: a round that asks nobody and ends with RL_GRANTED. rl_wait()
 * serves the connections meanwhile. NULL: out of memory. */
rl_round *rl_sleep(rl_client *client, int64_t ms);

/* Subscribes a channel of all nodes, over connections of their own, which are made for
 * the first subscription of a client. A channel has one subscription, however often it
 * is asked for. NULL: out of memory, closed, or the channel is over 256 bytes. */
rl_subscription *rl_subscribe(rl_client *client, const char *channel, size_t len);
void rl_unsubscribe(rl_subscription *subscription);

/* How often the subscription woke those who pause on it so far: by messages from a
 * majority, some time after the first message (1 ms, doubled up to 64 ms while there is
 * no majority), and when a majority has confirmed the subscription. */
int64_t rl_subscription_wakes(const rl_subscription *subscription);

/* How many of those wakes had a majority of the nodes behind them. */
int64_t rl_subscription_opened(const rl_subscription *subscription);

/* Starts a pause as rl_sleep that also ends when the subscription has woken more often
 * than `seen` times. NULL: out of memory, or closed. */
rl_round *rl_pause(rl_subscription *subscription, int64_t seen, int64_t ms);

/* Ends a pause before its time. */
void rl_round_wake(rl_round *round);

/* The nodes that have forgotten their counters (RL_UNSEEDED) so far, a bit each. */
uint32_t rl_round_unseeded(const rl_round *round);

/* Milliseconds until a majority may be free, by what the nodes answered to an attempt:
 * the q-th smallest extra; -1: unknown. */
int64_t rl_round_free_in_ms(const rl_round *round);

/* Makes rl_next() give the round when it is done. */
void rl_round_notify(rl_round *round);

/* Turns the loop until a round with rl_round_notify() is done, and gives that round.
 * NULL: `until` (may be NULL) is done before; a signal came; or there is none, and
 * !block. */
rl_round *rl_next(rl_client *client, const rl_round *until, int block);

/* ---- event loops ----
 *
 * A shared client has a thread that always turns its loop: a caller that starts a round
 * only queues the round, and never waits. Rounds that are done are found in a mailbox,
 * which rings a descriptor: once for all rounds that arrive until the mailbox has been
 * emptied. */

/* The client of this process that was opened with this key (any bytes, which stand for
 * the settings), or a new one. NULL as rl_open. */
rl_client *rl_share(const char *key, size_t len, const rl_options *options,
                    const rl_node_options *nodes, int n, char *err, size_t err_size);

/* Gives a shared client back. Its connections stay for the next rl_share(); with close,
 * the last user closes them (rl_close). */
void rl_unshare(rl_client *client, int close);

/* While it is on, what callers of a client that is not shared begin is written with the next
 * turn, by rl_wait() and rl_next(), together for all of them; 1 ms later if nobody waits; at
 * once where much has come together. */
void rl_lazy(rl_client *client, int on);

/* Between the two, rounds are queued; the second sends them together: for a loop that is
 * about to wake several coroutines that will start rounds. Not for longer than that
 * takes. */
void rl_cork(rl_client *client);
void rl_uncork(rl_client *client);

/* A new mailbox; NULL: out of memory. A mailbox that is closed forgets its rounds. */
rl_mailbox *rl_mailbox_open(void);
void rl_mailbox_close(rl_mailbox *mailbox);

/* The mailbox' descriptor, an eventfd: poll the descriptor for reading, then call
 * rl_mailbox_take() until there is no more; neither read nor close the descriptor. -1
 * with errno: none left. */
int rl_mailbox_fd(rl_mailbox *mailbox);

/* Instead, for loops that can only connect to a path: listens on a unix socket in a new
 * directory of mode 0700 below dir, and copies the socket's path. 0, or an errno. When
 * the caller has connected, rl_mailbox_accept() removes both; bytes that arrive on the
 * connection are to be read and thrown away before rl_mailbox_take(). 0, or an errno:
 * EPERM when another process connected first. rl_mailbox_hang_up() closes the
 * connection. */
int rl_mailbox_listen(rl_mailbox *mailbox, const char *dir, char *path, size_t size);
int rl_mailbox_accept(rl_mailbox *mailbox);
void rl_mailbox_hang_up(rl_mailbox *mailbox);

/* A round of a shared client that is done goes to the mailbox; once per round. RL_OK; or
 * the outcome of a round that is done already, which does not go there. */
int rl_round_post(rl_round *round, rl_mailbox *mailbox);

/* Takes up to max rounds out of the mailbox. How many. */
int rl_mailbox_take(rl_mailbox *mailbox, rl_done *out, int max);

/* Makes the descriptor readable now, for a caller that stops before the mailbox is
 * empty. */
void rl_mailbox_ring(rl_mailbox *mailbox);

/* What a program cleans up behind, which calls a handler with an argument then, as nginx does
 * when a request has ended. All from one thread. NULL: out of memory. What was added to a list
 * that is closed may still be done. mailbox: is rung when something is done; NULL: none is. */
rl_cleanups *rl_cleanups_open(rl_mailbox *mailbox);
void rl_cleanups_close(rl_cleanups *list);

/* The argument for the handler, rl_cleanup_done(), which is to be called with it once. The
 * number is not 0. NULL: out of memory. It points to a number that is the program's, 0 at first,
 * until the end is told: the mailbox is rung only when it is not 0 then. */
int32_t *rl_cleanups_add(rl_cleanups *list, uintptr_t number);
void rl_cleanup_done(void *added);

/* The number of something that is done, each once, in no order; 0: of nothing else. */
uintptr_t rl_cleanups_take(rl_cleanups *list);

/* Takes over a lease from another process by its whole value and its token (0: none; below
 * 10^14, and what a majority has counted for that value: extensions raise counters to
 * the token). The lease counts as held when an rl_extend() has been granted. NULL: out
 * of memory, closed, or an argument is out of range. */
rl_lease *rl_adopt(rl_client *client, const rl_primitive *primitive, const rl_bytes *keys,
                   int nkeys, const rl_bytes *args, int nargs, const rl_bytes *value,
                   int64_t lease_ms, int64_t token);

/* Gives the handle back, and forgets the lease: another process has it. */
void rl_disown(rl_lease *lease);

/* Turns the loop until the round is done. Its outcome, or RL_INTERRUPTED. */
int rl_wait(rl_round *round);

/* The round's outcome, or RL_OK while the round is not done. Never waits. A grant whose
 * lease has ended since (the caller was stopped) is RL_EXPIRED; that of an extension
 * RL_LOST. */
int rl_round_outcome(const rl_round *round);

/* What node i (from 0) said so far. */
void rl_round_node(const rl_round *round, int i, rl_node_result *out);

/* Copies the data of node i's answer into text if it has room for that: of rl_ask_one() all
 * of it, up to 1 MiB. How many bytes they are; 0: there is no answer. */
int64_t rl_round_text(const rl_round *round, int i, char *text, int64_t size);

/* The majority of an rl_ask round that gave one and the same answer, as a mask of nodes;
 * 0: there is none. */
uint32_t rl_round_agreed(const rl_round *round);

/* Gives a round back, which need not be done, and is never NULL. */
void rl_round_free(rl_round *round);

/* The end of an attempt or a hand-over that was granted and lasts still: gives the round
 * back. Milliseconds of validity left; 0: it was not, or not any more, and nothing is given
 * back. */
int64_t rl_round_won(rl_round *round);

/* The end of a release that was granted: gives back the round, and the handle of its lease as
 * rl_lease_drop() does. The largest extra of the nodes that said yes (0: none), and into
 * *unseeded the nodes that had no vote on the lease because they have forgotten their
 * counters (RL_UNSEEDED), late answers included, a bit each. -1: it was not granted, and
 * nothing is given back. */
int64_t rl_round_let_go(rl_round *round, uint32_t *unseeded);

/* Hands a held lease to the watchdog: renewed to lease_ms from a third of that on, until
 * the lease is released, lost or dropped, or max_hold_ms have passed (0: no bound).
 * Starts the client's keeper thread. Without an extend script, or not held: of no
 * effect.
 * 0; RL_NOMEM: no thread, RL_CONFIG: beyond max_lease; the lease is as before. */
int rl_keep(rl_lease *lease, int64_t lease_ms, int64_t max_hold_ms);

/* Why a lease is lost (rl_loss), or RL_NOT_LOST: held, or released, or never held. */
int rl_lease_lost(rl_lease *lease);

/* How many leases of this client were lost so far. No lock: a cheap look before
 * rl_lease_lost(). */
int64_t rl_losses(const rl_client *client);

/* The handle of the k-th lease that was lost, from 1, as a number: the handle may have
 * been given back since. 0: so many more were lost since that the k-th is not known any
 * more. */
uintptr_t rl_lost(rl_client *client, int64_t k);

/* Does what is due, if nobody turns the loop: leases whose time is over are lost. When
 * something is due next. */
int64_t rl_poll(rl_client *client);

/* How many renewals the watchdog got through; and whose the k-th was, as rl_lost(). */
int64_t rl_renewals(const rl_client *client);
uintptr_t rl_renewed(rl_client *client, int64_t k);

/* How often nodes came up, went down or were refused for another reason than before, were
 * guarded, admitted or suspected. */
int64_t rl_node_changes(const rl_client *client);

/* Losses, renewals and node changes together: one look tells that there is nothing new.
 * No lock. */
int64_t rl_happenings(const rl_client *client);

/* Milliseconds of validity left; 0 when over, void, or not acquired. No round trip, no
 * lock: one clock read. */
int64_t rl_remaining_ms(const rl_lease *lease);

/* Copies what stands for the lease on the servers, the digits and the card, into out
 * (RL_VALUE_MAX bytes). How many bytes that are. */
size_t rl_lease_whole(rl_lease *lease, char *out);

/* Copies what a majority of the servers said of whoever has the keys of a lease that was
 * taken (RL_LOSS_TAKEN) into out (RL_DATA_MAX bytes): the data of the replies to an
 * extension. How many bytes that are; 0: no majority said the same. */
size_t rl_lease_taker(rl_lease *lease, char *out);

/* The fencing token of a lease that was granted: larger than every token that was issued
 * for these keys before the attempt began, and nobody else's; or the number that its
 * majority agreed upon. 0: the lease has none. */
int64_t rl_lease_token(const rl_lease *lease);

/* How many nodes have confirmed the lease, in its last round that was granted, or given it
 * back since; settled: how many that were when the last extension began, when the answers
 * to the round before had come; -1: none has begun. */
int rl_lease_votes(const rl_lease *lease, int settled);

/* Gives the handle back. A held lease is not released, and not renewed any more: its keys
 * end with their time. */
void rl_lease_drop(rl_lease *lease);

/* Gives back the handle of an attempt or a lease that nobody counts on: releases it, also
 * when its time is over, without waiting for that. */
void rl_lease_abandon(rl_lease *lease);

/* Gives back the handle of a lease whose owner is gone: releases a held lease, without
 * waiting for that; with a lock delay the keys end with their time. Does not call back,
 * so a garbage collector may call this. */
void rl_lease_orphan(rl_lease *lease);

/* Whether there is such a client, or a lease that is held: for who does not know whether a handle
 * was given back, which may be anything. Takes as long as there are leases. */
int rl_known(const void *handle);

/* Copies why node i gave no vote last into text (RL_TEXT_MAX bytes). */
void rl_node_text(rl_client *client, int i, char *text);

/* Gives node i (from 0) other credentials, for the connections made from now on; those
 * that stand are not touched. user may be NULL. 0, or RL_NOMEM. */
int rl_set_password(rl_client *client, int i, const char *user, const char *password);

/* What the modes of a file let everybody on this machine do: 1: read it, 2: write it, or put
 * another one into its place, 3: both; 0: nothing, or there is no such file. */
int rl_file_exposed(const char *path);

/* How many connections were refused for their credentials so far. */
int64_t rl_auth_failures(const rl_client *client);

/* Copies the counters of node i (from 0), and what the node told of itself. */
void rl_node_get_stats(rl_client *client, int i, rl_node_stats *out);
void rl_node_get_info(rl_client *client, int i, rl_node_info *out);

/* How many leases there are whose clean-up is not confirmed by all nodes yet; and how
 * many clean-ups were abandoned so far because too many were pending (1 << 17): those
 * keys end with their time. */
int64_t rl_owed(rl_client *client);
int64_t rl_forgone(const rl_client *client);

/* From now on the client's rounds are timed. */
void rl_take_times(rl_client *client);

/* Copies what was found of one kind: RL_TIMES_*. */
void rl_get_times(rl_client *client, int kind, rl_times *out);
/* cdef end */
#pragma GCC visibility pop

#endif
