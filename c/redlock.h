/* redlock.h - quorum rounds over N independent Redis servers: the public C API.
 *
 * A client talks to N servers over one pipelined connection each. A round sends one
 * script call to all of them, counts votes, and is done as soon as its outcome is
 * certain. A lease is one attempt to hold something. Rounds acquire, extend and release
 * it; after that it cleans up until no server can still have its keys.
 *
 * Times are milliseconds on CLOCK_BOOTTIME unless stated otherwise. Any thread may call
 * any function; each client is an engine with one mutex. After fork() the child sees
 * every lease of the parent as void, and opens connections of its own.
 */
#ifndef REDLOCK_H
#define REDLOCK_H

#include <stddef.h>
#include <stdint.h>

/* A program and the library that it loads must have the same number, which is part of the
 * library's file name. Raise it with every change of code between the cdef markers. */
#define RL_ABI 33

#pragma GCC visibility push(default)
/* The Makefile makes the FFI declaration of everything up to "cdef end": plain C
 * declarations only, no preprocessor. */
/* cdef begin */
enum {
    RL_MAX_NODES = 32,       /* votes are kept in 32-bit masks */
    RL_VALUE_LEN = 40,       /* 20 random bytes in hex, with which a value begins */
    RL_VALUE_MAX = 256,      /* bytes of a value, with its card */
    RL_CARD_MAX = 160,       /* bytes of the label on a card */
    RL_NONCE_LEN = 16,       /* 8 random bytes in hex */
    RL_DATA_MAX = 256,       /* bytes kept of a string in a reply */
    RL_TEXT_MAX = 512,       /* bytes kept of an error text, with the closing 0 */
    RL_MAX_KEYS = 128,       /* KEYS of one script call */
    RL_MAX_ARGS = 16,        /* further ARGV of one script call */
    RL_RUN_ID_MAX = 41,      /* a server's run_id, with the closing 0 */
    RL_CLUSTER_MAX = 33,     /* the name of a cluster, with the closing 0 */
    RL_SERVERS_MAX = 10240,  /* a list of servers, with the closing 0 */
    RL_WORD_MAX = 32,        /* a word of INFO, with the closing 0 */
    RL_TIMES_BOUNDS = 17,    /* of durations: 100 us, then twice the one before */
    RL_LINGER_MS = 50,       /* a client that ends waits so long for answers to requests */
    RL_MARKER_VERSION = 4,   /* of the markers that this library reads and writes */
    RL_NEW_MS = 5000         /* of a new server's quarantine, before rl_teach() may end it */
};

/* The kinds of rounds that are timed. */
enum { RL_TIMES_ACQUIRE = 1, RL_TIMES_RELEASE, RL_TIMES_KINDS };

/* What rl_acquire() and rl_release() do when they have begun. */
enum { RL_BEGIN, RL_WAIT, RL_NOTIFY };

/* What becomes of a lease whose handle rl_lease_free() frees. */
enum { RL_DROP, RL_ABANDON, RL_ORPHAN, RL_DISOWN };

/* Whom rl_ask() asks: all nodes ... */
enum {
    RL_ASK_MAJORITY = -1,    /* until a majority has given equal votes and data, or no longer
                                can; with the guard only admitted servers count (RL_SHOWN) */
    RL_ASK_VOTERS = -2,      /* the same, but only nodes that may vote on an acquire, with the
                                marker as the last ARGV as in an acquire; votes are -1 to 2 */
    RL_ASK_EACH = -3         /* until each has answered or no longer can */
};

enum { RL_CLIENT_LIST = -1 };

/* How a round ended, and why a node gave no vote. */
typedef enum rl_code {
    RL_OK = 0,
    /* outcomes of a round */
    RL_GRANTED,              /* acquire, extend: majority in time; release: done;
                                ask: a majority answered */
    RL_HELD,                 /* another holder has the keys on too many nodes */
    RL_NO_QUORUM,            /* no majority answered in time */
    RL_EXPIRED,              /* granted, but the lease has expired */
    RL_LOST,                 /* extend: the lease has ended, or a majority disowned us */
    RL_NOT_HELD,             /* the lease is void: released before, or the parent's */
    RL_UNKNOWN,              /* release, import: no majority answered */
    RL_CANCELLED,
    RL_CLOSED,               /* the client was closed */
    RL_INTERRUPTED,          /* a signal arrived: call rl_wait() again */
    RL_NOMEM,
    RL_CONFIG,               /* a setting is wrong: see the node's text */
    RL_UNSUPPORTED,          /* the server does not support the command */
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
    RL_PROTOCOL,             /* not RESP, or not what a script may return, such as a
                                counter outside [1, 10^14) */
    RL_GUARDED,              /* in quarantine: the server may have forgotten locks, or its
                                clock was stepped */
    RL_UNSEEDED,             /* the server has forgotten its counter of tokens */
    RL_OVERLOAD,             /* too many unanswered requests on one connection */
    RL_NOT_A_LOCK,           /* a script's error NOTALOCK: the key holds something else; also
                                the outcome of a round that has no majority for it */
    RL_CODES                 /* how many codes there are */
} rl_code;

/* Why a server has no vote, beyond the code. Sentences: lua/redlock/runtime/reasons.lua. The
 * values are fields of rl_node_info. */
typedef enum rl_why {
    RL_WHY_NONE,             /* its code, or its text, says all */
    /* for a while: guard_left_ms, suspect_left_ms */
    RL_WHY_NEW,              /* in quarantine: nobody has seen its memory */
    RL_WHY_MEMORY_LOST,      /* in quarantine */
    RL_WHY_CLOCK_STEPPED,    /* steps, step_ms */
    RL_WHY_QUARANTINE_OVER,  /* too few servers are connected and agree to admit it */
    RL_WHY_MARKER_REFUSED,   /* its marker cannot be read or set: marker_code */
    RL_WHY_NO_EVAL,          /* EVAL is missing or forbidden, so its marker cannot be set */
    RL_WHY_NO_TIME,          /* the same of TIME */
    /* until somebody changes the set-up */
    RL_WHY_OTHER_VERSION,    /* of its marker: marker_version */
    RL_WHY_OTHER_DATABASE,   /* marker_db */
    RL_WHY_OTHER_CLUSTER,    /* node `foreign` has another name or list: cluster, servers */
    RL_WHY_CHANGING,         /* node `foreign` is in a change of servers: servers */
    RL_WHY_OTHER_MAX_LEASE,  /* marker_max_lease_ms */
    RL_WHY_GUARD_OFF,        /* others use it with the restart guard, and we without */
    RL_WHY_REPLICA,          /* server.master_host, server.master_port */
    RL_WHY_SENTINEL,
    RL_WHY_BALANCER,         /* a second connection to its address met another server */
    RL_WHY_CLUSTER_MODE,
    RL_WHY_TWIN,             /* it is another node as well: same */
    RL_WHY_LIFE_UNKNOWN,     /* it does not show its master_replid */
    RL_WHY_TOKENS_FORGOTTEN,
    RL_WHY_BAD_REPLY,        /* a script's reply has no vote, or one that cannot be */
    RL_WHYS                  /* how many there are */
} rl_why;

/* The meaning of a script's reply. A script returns an integer, or an array of integers
 * and at most one string. The first integer is the vote, the second the extra, the string
 * the data. */
enum {
    RL_VOTE_UNSEEDED = -2,   /* fenced: the server has forgotten its counter; the script
                                did nothing */
    RL_VOTE_FOREIGN = -1,    /* another holder has the key */
    RL_VOTE_ABSENT = 0,      /* refused, or the key is gone; extra may tell for how long
                                (ms), data the holder */
    RL_VOTE_YES = 1,
    RL_VOTE_AGAIN = 2,       /* acquire, import: the value was there. Counts as yes only if
                                this node was asked twice; else one server is listed
                                under two addresses */
    RL_VOTE_GUARDED = 3      /* acquire, import, or a guarded question, with the guard: the marker
                                (the data) is not the one sent; the script did nothing */
};

/* With the guard, extensions and questions to a majority run in any case. Where the server has
 * another marker than the one sent, they return {RL_SHOWN, marker, reply}: the marker decides
 * whether a yes to an extension, or an answer, counts. */
enum { RL_SHOWN = -0x7fffffff - 1 };

/* A node's right to vote, as the client knows it (rl_node_info.guard). */
typedef enum rl_guard {
    RL_GUARD_OFF,            /* no guard */
    RL_GUARD_UNKNOWN,        /* not asked yet, or no answer: see marker_code */
    RL_GUARD_ADMITTED,       /* its marker is valid */
    RL_GUARD_QUARANTINED,    /* the server may have forgotten locks that are still held */
    RL_GUARD_DISAGREES       /* its marker does not suit us: see rl_node_info.objection */
} rl_guard;

enum { RL_ROLE_UNKNOWN, RL_ROLE_MASTER, RL_ROLE_REPLICA };

/* Signals that release all locks (rl_options.signals): a mask. */
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
    RL_LOSS_MAX_HOLD,        /* max_hold_ms of rl_keep() have passed */
    RL_LOSS_SUSPENDED,       /* this process did not run for too long */
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
                                connection, by a thread; or NULL */
    const char *server_name; /* the name in the server's certificate; NULL: host */
    int32_t tls;             /* 1: TLS */
    int32_t port;
    int32_t db;
} rl_node_options;

typedef struct rl_options {
    int32_t timeout_ms;      /* for one node's answer */
    int32_t connect_timeout_ms; /* name, TCP (the addresses share it) and handshake */
    int32_t drift_ppm;       /* clock drift allowance, parts per million of a lease */
    int32_t max_lease_ms;    /* the client never sets a longer TTL; 0: 60 s */
    int32_t lock_delay_ms;   /* how much longer than the lease servers keep keys that were
                                not released */
    int32_t lease_ms;        /* the default lease. A jump of a server's clock by more than
                                its drift allowance, or that of a shorter lease in use,
                                counts as a step; 0: max_lease */
    int32_t margin;          /* how many nodes an acquire and an import need beyond a
                                majority; not for extensions */
    int32_t min_validity_ms; /* a grant with less validity left fails: RL_EXPIRED */
    const char *marker;      /* the key of the restart guard's marker; NULL: no guard */
    const char *marker_script; /* compares and sets the marker: see guard.h */
    const char *tell_script; /* asks a node for its floors: see teach.h; NULL: none */
    const char *cluster;     /* the cluster's name, 1 to 32 of A-Za-z0-9._-, not 16 hex
                                digits (not checked), the same for all clients; NULL:
                                clients compare the list of addresses instead */
    int32_t unguarded;       /* 1: the guard is off; refuses nodes with the marker of
                                clients whose guard is on */
    int32_t behind_proxy;    /* 1: connections may survive a restart of their server */
    int32_t tls_verify;      /* 0: accepts any certificate */
    const char *ca_file;     /* certificates to trust; NULL: the system's */
    const char *cert_file;   /* the client's certificate and its chain; or NULL */
    const char *key_file;    /* its key */
    int32_t signals;         /* RL_SIGNAL_*: at one of these a thread releases all locks,
                                within 50 ms, while the thread that got the signal stands
                                still; the client counts as closed. Then the signal has
                                its effect as without this library. Not for shared
                                clients. From the first use in a process on, unless the
                                signal is ignored then. System calls that the signal
                                interrupts may return EINTR first. */
} rl_options;

/* Which grants of an acquire make a majority (rl_primitive.rule). */
enum {
    RL_RULE_YES,             /* all */
    RL_RULE_SAME,            /* those with the same extra, a number above 0. ARGV[3] of
                                all scripts of a lease is that number, 0 until a majority
                                agrees */
    RL_RULE_LARGEST          /* fencing tokens: all, once a majority has witnessed exactly
                                the largest extra, which is a node's counter; needs
                                confirm. ARGV[3] of all scripts of a lease is that token,
                                0 until it is known */
};

typedef struct rl_primitive {
    int32_t acquire;         /* script numbers from rl_script() */
    int32_t extend;          /* -1: cannot be extended */
    int32_t release;
    int32_t import;          /* -1: cannot be taken over by another process */
    int32_t confirm;         /* RL_RULE_LARGEST: makes the node's counter the token */
    int32_t heal;            /* gives the keys back to a node that lost them; -1: acquire */
    int32_t rule;            /* RL_RULE_* */
    int32_t knows_run;       /* 1: the first 16 letters of the last ARGV of all scripts of
                                a lease name the server's memory. With the guard it is the
                                marker, which an acquire must find there (with a "!"
                                appended: check the server's life, too); without, the
                                master_replid. 0: acquire, heal and extend get the
                                marker with the guard ("": any), and nothing without */
    int32_t extend_many;     /* extends many leases, one key each. ARGV: for each KEY its
                                value and its lease, and the marker. Returns a string with a '1' for each
                                that it has extended; the others are extended alone. 0,
                                the number of a client's first script: none */
} rl_primitive;

typedef struct rl_node_result {
    int32_t answered;        /* 1: vote, extra and data are the node's answer */
    int32_t vote;            /* RL_VOTE_* or what the script says */
    int32_t code;            /* rl_code when not answered or the vote did not count; RL_OK
                                and not answered: decided without this node */
    int32_t asked;           /* 1: the node was asked */
    int32_t why;             /* rl_why, with the code */
    int32_t agreed;          /* rl_ask(): 1: a majority gave this answer */
    int32_t data_len;        /* 0 while the round is not done */
    int64_t extra;
    const char *data;        /* valid until the round is freed */
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

/* What a server told in INFO at its last connection or rl_check(). */
typedef struct rl_server_info {
    int32_t known;           /* 1: INFO was read */
    int32_t role;            /* RL_ROLE_* */
    int32_t aof;             /* appendonly is on */
    int32_t rdb;             /* a snapshot was made since the server started */
    int64_t uptime_s;
    int64_t maxmemory;       /* bytes; 0: no bound */
    char run_id[RL_RUN_ID_MAX];     /* "": not told */
    char version[RL_WORD_MAX];      /* "7.0.15", "valkey 8.0.1" */
    char policy[RL_WORD_MAX];       /* maxmemory-policy */
    char master_host[64];           /* of a replica; "": not told */
    int32_t master_port;
} rl_server_info;

/* What is known of a node. */
typedef struct rl_node_info {
    rl_node_stats stats;
    rl_server_info server;
    int32_t lost;            /* why the last connection broke or failed; RL_OK: the node
                                is ready, or was not tried yet */
    int32_t why;             /* rl_why: why it gave no vote last; NONE: see text */
    int32_t objection;       /* rl_why: why it may not vote now, connected or not */
    int32_t foreign;         /* the node whose marker is of another cluster; -1: none */
    int32_t same;            /* a node that is the same server; -1: none is known */
    int32_t guard;           /* rl_guard */
    int32_t unverified;      /* its master_replid is unknown: no permission for INFO */
    int32_t clock;           /* 1: the offset and the round trip are known */
    int32_t steps;           /* how often its clock was stepped */
    int32_t marker_code;     /* the last error about its marker; RL_OK: none */
    int32_t memory;          /* QUARANTINED: the letter in its marker (guard.h): 'n', 'l', or
                                's'; 0: the quarantine has not begun. DISAGREES: 'n' if it
                                is new to the other cluster, too */
    int32_t named;           /* 1: this client has counted a vote */
    int64_t observed_ms;     /* QUARANTINED: how much of it both clocks have seen */
    int64_t seeded;          /* the last base of its floors that we took from clocks; 0:
                                none */
    int64_t guard_left_ms;   /* QUARANTINED: until the quarantine ends */
    int64_t quarantine_ms;   /* how long a whole one is */
    int64_t suspect_left_ms; /* until a node votes again after a clock step */
    int64_t step_ms;         /* the last step; positive: forward */
    int64_t offset_ms;       /* its wall clock minus ours */
    int64_t offset_error_ms; /* by how much offset_ms may be wrong */
    int64_t round_trip_ms;
    int64_t heard_ms;        /* when it last answered anything */
    int64_t certificate_ends_s;     /* TLS: when the first certificate of its connection ends,
                                as time(): its own, its CAs', or ours; 0: unknown */
    int64_t marker_max_lease_ms;
    int32_t marker_db;
    int32_t marker_version;
    char cluster[RL_CLUSTER_MAX];   /* from its marker: a name, or 16 hex digits of a list
                                of servers; "": unknown */
    char list[9];            /* 8 hex digits of the hash of the servers. Connections are
                                named redlock:LIST (CLIENT SETNAME), or redlock!LIST once
                                the client has counted a vote */
    char servers[RL_TEXT_MAX];      /* that list, or its beginning; "": unknown */
    char own_servers[RL_TEXT_MAX];  /* the client's own list, or its beginning */
    char text[RL_TEXT_MAX];  /* why it gave no vote last */
} rl_node_info;

/* How long granted rounds of one kind took: from the call that began the round to the one
 * that gave it back. */
typedef struct rl_times {
    int64_t sum_us;
    int64_t within[RL_TIMES_BOUNDS + 1]; /* [i]: how many took at most 100 << i us, and
                                more than the bound before; the last: all others */
} rl_times;

typedef struct rl_counters {
    int64_t losses;          /* leases that were lost */
    int64_t renewals;        /* of the watchdog, granted */
    int64_t node_changes;    /* how often nodes connected, disconnected, were refused for a
                                new reason, or changed their right to vote */
    int64_t auth_failures;   /* connections that were refused for their credentials */
    int64_t owed;            /* leases that wait for nodes to confirm their clean-up */
    int64_t forgone;         /* clean-ups that were given up because too many (1 << 17) were
                                pending: the keys expire instead */
} rl_counters;

/* A round that is done, and its outcome then (see rl_round_outcome()). */
typedef struct rl_done {
    rl_round *round;
    int outcome;
} rl_done;

/* The ABI this library was built with: RL_ABI. */
int rl_abi(void);

/* The word for a code, which Lua uses, too: its name without RL_ in small letters ("held",
 * "timeout"). Never NULL. */
const char *rl_code_name(int code);

/* The same for a reason: its name without RL_WHY_. */
const char *rl_why_name(int why);

/* Milliseconds of CLOCK_BOOTTIME, which runs during suspend and is never stepped. */
int64_t rl_now_ms(void);

/* Milliseconds since 1970 by the wall clock, which may be stepped. */
int64_t rl_unix_ms(void);

/* A random number in [0, 1), for the jitter of pauses. */
double rl_random(rl_client *client);

/* Writes RL_NONCE_LEN random hex digits to out. 0, or -1: the kernel gave none. */
int rl_nonce(char *out);

/* Makes a client of n nodes (1..RL_MAX_NODES). Copies its arguments, and reads the files
 * of certificates if a node has TLS; does not connect yet. key: NULL; or len bytes that
 * identify the settings but lease_ms, of which the shortest counts: the client is shared by
 * all in this process who open it with this key, and give it back with rl_unshare().
 * NULL, with a text in err: out of memory, a bad file, or a build without TLS. */
rl_client *rl_open(const char *key, size_t len, const rl_options *options,
                   const rl_node_options *nodes, int n, char *err, size_t err_size);

/* Ends all rounds with RL_CLOSED, releases all leases as rl_release() does, and frees the
 * client. Waits for connected and connecting servers to confirm releases, at most 50 ms
 * from the beginning of a release. exit() does all of this, too. Still free rounds with
 * rl_round_free() and leases with rl_lease_free(), before or after. */
void rl_close(rl_client *client);

/* Registers a script and loads it on every connection. Returns its number, the same for
 * the same text; -1: there are 32,767; -2: out of memory. */
int rl_script(rl_client *client, const char *body, size_t len);

/* Starts one attempt: runs the primitive's acquire script on all nodes, with a new
 * random value. KEYS = keys, ARGV = value, lease_ms, args. Ends within within_ms.
 * label: tells people the owner; NULL: none. With a label the value is its digits and a
 * card: a space, the milliseconds since 1970 in hex, a space, the label. "%p" in the
 * label becomes the process id; what exceeds RL_CARD_MAX is cut off.
 * gate: -1 asks all nodes at once. Any other number asks one node first that is up, for
 * all clients the same one, and the others only when it has granted, so that contenders
 * that split the votes meet there.
 * Outcomes: RL_GRANTED (held until rl_remaining_ms() is 0), RL_HELD, RL_NO_QUORUM,
 * RL_NOT_A_LOCK, RL_EXPIRED (granted too late), RL_CLOSED; all but the first also start a
 * release on every node. Sets *lease, to NULL if it starts none.
 * how: RL_BEGIN returns at once. RL_WAIT waits as rl_wait() does; if it is granted then,
 * it frees the round and returns NULL, with the lease in *lease; if a signal has arrived,
 * the next rl_wait() tells. RL_NOTIFY is for a caller that waits for several rounds of a
 * client that is not shared: as RL_BEGIN, with rl_round_notify() and rl_hold().
 * NULL: out of memory, or an argument is out of range. */
rl_round *rl_acquire(rl_client *client, const rl_primitive *primitive,
                     const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                     const rl_bytes *label, int64_t lease_ms, int64_t within_ms,
                     int32_t gate, int32_t how, rl_lease **lease);

/* Starts an extension to lease_ms from now. Never shortens; 0 only asks. Outcomes:
 * RL_GRANTED, RL_LOST (ended, or a majority disowned us: the lease is now void),
 * RL_NO_QUORUM (the old validity stands), RL_NOT_HELD, RL_UNSUPPORTED, RL_CLOSED. NULL:
 * out of memory. */
rl_round *rl_extend(rl_lease *lease, int64_t lease_ms);

/* Starts the release on all nodes; ends an unfinished attempt with RL_CANCELLED. The
 * lease ends at once. With a lock delay a lost lease is not released: its keys expire.
 * Outcomes: RL_GRANTED (released in time), RL_EXPIRED, RL_HELD (another holder has the
 * keys now), RL_NOT_HELD, RL_UNKNOWN, RL_CLOSED. NULL: out of memory; the release was
 * started. how: as in rl_acquire(), but RL_WAIT returns the round, too. */
rl_round *rl_release(rl_lease *lease, int32_t how);

/* Starts a question, KEYS = keys, ARGV = args, which ends within within_ms. whom: RL_ASK_*,
 * or the number of a node (from 0), which alone is asked, and whose data is kept in full, up
 * to 1 MiB; script RL_CLIENT_LIST asks that node for its CLIENT LIST of
 * ordinary connections: a list of more than 1 MiB breaks the connection. Outcomes:
 * RL_GRANTED (all have answered or no longer can; with RL_ASK_MAJORITY and RL_ASK_VOTERS: a
 * majority answered), RL_NO_QUORUM, RL_NOT_A_LOCK, RL_CLOSED. NULL: as
 * rl_acquire(). */
rl_round *rl_ask(rl_client *client, int32_t whom, int script, const rl_bytes *keys,
                 int nkeys, const rl_bytes *args, int nargs, int64_t within_ms);

/* Asks every node for its INFO, TIME and marker again. Done when each has answered or no
 * longer can, with RL_GRANTED or RL_CLOSED; then see rl_node_get_info(). NULL: out of
 * memory. */
rl_round *rl_check(rl_client *client);

/* Teaches servers without floors of fencing tokens a base, if enough others tell theirs
 * within within_ms, at most 3 s. Votes of its nodes: 1: has floors, 0: has none, 2: has some
 * out of range, -1: has lost them.
 *
 * seen_ms (-1: only teaches): admits every connected node with a marker of seen_ms (of
 * rl_now_ms()) or before that says that it is new, if it has been observed for 5 s. For a new
 * cluster in which no client could hold a lock at seen_ms. force: admits every node in
 * quarantine, and those whose clients disagree on max_lease or on the servers. Nodes that
 * are admitted under a hash of addresses get the name of the cluster instead, if it has one.
 *
 * Done with RL_GRANTED when all of this is on its way, before anything that is asked later.
 * NULL: out of memory, or closed. */
rl_round *rl_teach(rl_client *client, int64_t seen_ms, int32_t force, int64_t within_ms);

/* A bound that no counter of fencing tokens can have reached. */
int64_t rl_token_limit(rl_client *client);

/* What markers name a client's cluster by (its name, or the hash of its servers), that hash
 * alone, or the list of its servers. Valid as long as the client. */
enum { RL_CLUSTER_WORD, RL_CLUSTER_HASH, RL_CLUSTER_LIST };
const char *rl_cluster(const rl_client *client, int what);

/* Milliseconds until quarantines end on a majority, which then has fencing tokens if attempts
 * asked for one; 0: a majority may vote now; -1: too few nodes are connected. */
int64_t rl_guard_left_ms(rl_client *client);

/* Subscribes to a channel on all nodes, over extra connections, which a client makes for
 * its first subscription. All calls for one channel share a subscription. NULL: out of
 * memory, closed, or the channel has more than 256 bytes. */
rl_subscription *rl_subscribe(rl_client *client, const char *channel, size_t len);
void rl_unsubscribe(rl_subscription *subscription);

/* How often the subscription has woken its waiters: on messages from a majority, some
 * time after the first message (1 ms, doubled up to 64 ms while there is no majority),
 * and when a majority has confirmed the subscription. opened: how many of those wake-ups
 * came from a majority of the nodes. */
int64_t rl_subscription_wakes(const rl_subscription *subscription, int32_t opened);

/* Starts a pause of ms: a round that asks no node and ends with RL_GRANTED, with a
 * subscription (or NULL) also once its rl_subscription_wakes() exceed `seen`. rl_wait()
 * serves the connections meanwhile. NULL: out of memory, or closed. */
rl_round *rl_sleep(rl_client *client, int64_t ms, rl_subscription *subscription,
                   int64_t seen);

/* Ends a pause before its time. */
void rl_round_wake(rl_round *round);

/* The nodes, a bit each, that have forgotten their counters (RL_UNSEEDED). */
uint32_t rl_round_unseeded(const rl_round *round);

/* Milliseconds until a majority may be free, by the answers to an attempt: the q-th
 * smallest extra; -1: unknown. */
int64_t rl_round_free_in_ms(const rl_round *round);

/* Makes rl_next() return the round when it is done. */
void rl_round_notify(rl_round *round);

/* Turns the loop until a round with rl_round_notify() is done, and returns that round.
 * NULL: `until` (may be NULL) is done first, a signal arrived, or !block and none is
 * done. */
rl_round *rl_next(rl_client *client, const rl_round *until, int block);

/* ---- event loops ----
 *
 * A caller that starts a round of a shared client writes it, and never waits. Rounds that
 * are done go to a mailbox. The event loop polls the mailbox's descriptor, and so turns the
 * clients that the mailbox serves. */

/* Whether rl_unshare() with close would wait for answers, which a loop had better do itself
 * before: this is the last user, and servers owe answers to requests of the last 50 ms. */
int rl_unshare_waits(rl_client *client);

/* Gives a shared client back. Its connections stay for the next rl_open(); with close,
 * the last user closes them (rl_close()). */
void rl_unshare(rl_client *client, int close);

/* While on, holds back the rounds that callers start on a client that is not shared, to
 * write them together: in the next turn of its loop, in rl_wait() or rl_next(); after 1 ms
 * if no caller waits; at once when they are many. */
void rl_hold(rl_client *client, int on);

/* A new mailbox; NULL: out of memory. Closing a mailbox forgets its rounds. */
rl_mailbox *rl_mailbox_open(void);
void rl_mailbox_close(rl_mailbox *mailbox);

/* Has the loop that polls the mailbox turn a shared client, until rl_mailbox_unserve() was
 * called as often, before rl_unshare(). RL_OK or RL_NOMEM. These functions, and those
 * below, but for rl_mailbox_ring(), are for the loop's thread. */
int rl_mailbox_serve(rl_mailbox *mailbox, rl_client *client);
void rl_mailbox_unserve(rl_mailbox *mailbox, rl_client *client);

/* The mailbox's descriptor. Poll it for reading, then call rl_mailbox_take() until it
 * returns less than 2; do not read or close it. -1: no descriptors left. While a
 * loop does not poll it, a thread does what is due some ms later. */
int rl_mailbox_fd(rl_mailbox *mailbox);

/* For a host that polls descriptors for us and calls a function, as nginx does: calls
 * add(cycle, descriptor, events, function), once. 0, or -1: that failed. From
 * rl_mailbox_post() on the mailbox calls post(bell, 1) where it would signal its
 * descriptor; then call rl_mailbox_take() until it returns 0. NULL: nobody listens. */
int rl_mailbox_host(rl_mailbox *mailbox,
                    intptr_t (*add)(void *, int, intptr_t, void (*)(void *)), void *cycle);
void rl_mailbox_post(rl_mailbox *mailbox, int (*post)(void *, int), void *bell);

/* Sends a round of a shared client to the mailbox when it is done; once per round. RL_OK;
 * or the outcome of a round that is already done, which does not go there. */
int rl_round_post(rl_round *round, rl_mailbox *mailbox);

/* Takes up to max rounds out of the mailbox; when there is none, turns the clients first.
 * Returns how many. When several, those that this thread starts before the next call wait
 * for that, to be written together. */
int rl_mailbox_take(rl_mailbox *mailbox, rl_done *out, int max);

/* Makes the descriptor readable now, for a caller that stops before the mailbox is
 * empty. */
void rl_mailbox_ring(rl_mailbox *mailbox);

/* Lists what a program must clean up after events for which a host calls a handler, as
 * nginx does when a request ends. For one thread. mailbox: to signal then; NULL: none. A
 * handler may still run after its list was closed. NULL: out of memory. */
rl_cleanups *rl_cleanups_open(rl_mailbox *mailbox);
void rl_cleanups_close(rl_cleanups *list);

/* Adds a number, not 0, to the list. Have the host call rl_cleanup_done() once, with the
 * result as the argument. The result points to a flag of the program, 0 at first: the
 * mailbox is signalled only if it is not 0 when the handler runs. NULL: out of memory. */
int32_t *rl_cleanups_add(rl_cleanups *list, uintptr_t number);

/* Names what is to be cleaned up as the holder of a lease, NULL: none. If no host listens to
 * the mailbox when the handler runs, that ends the lease as RL_ORPHAN does; free the handle
 * all the same. */
void rl_cleanups_own(const int32_t *added, rl_lease *lease);
void rl_cleanup_done(void *added);

/* A number whose handler has run, each once, in no order; 0: no more. */
uintptr_t rl_cleanups_take(rl_cleanups *list);

/* Takes over a lease that another process gave away, by its whole value: on every node
 * that has it, the primitive's import script replaces it by a new value, which begins with
 * the same 8 digits. KEYS and args as acquired. ARGV = new value, lease_ms, the token or
 * number if the rule has one, old value, args. Only one import of a value can be granted.
 * token: of the lease; 0: none. label, *lease: as in rl_acquire(). once: the lease is to be
 * given away itself. No node is sent its value a second time, by a heal or after a broken
 * connection, so that what comes late cannot bring it back once an import has replaced it.
 * Outcomes: RL_GRANTED (held), RL_LOST (a majority does not have the value any more),
 * RL_UNKNOWN (no majority says either), RL_EXPIRED (granted too late), RL_CLOSED; all but
 * the first release what was taken, on every node; with a lock delay and once they leave it
 * to expire. NULL: out of memory, closed, or an argument is out of range. */
rl_round *rl_import(rl_client *client, const rl_primitive *primitive, const rl_bytes *keys,
                    int nkeys, const rl_bytes *args, int nargs, const rl_bytes *old,
                    const rl_bytes *label, int64_t lease_ms, int64_t token, int once,
                    rl_lease **lease);

/* Turns the loop until the round is done. Returns its outcome, or RL_INTERRUPTED. */
int rl_wait(rl_round *round);

/* The round's outcome, or RL_OK while the round is not done. Never waits. A grant whose
 * lease has ended since (the caller was stopped) is RL_EXPIRED; that of an extension
 * RL_LOST. */
int rl_round_outcome(const rl_round *round);

/* The answer of node i (from 0) so far, or why there is none. */
void rl_round_node(const rl_round *round, int i, rl_node_result *out);

/* Frees a round, done or not; never NULL. */
void rl_round_free(rl_round *round);

/* Ends an attempt or an import that was granted and is still valid: frees the round.
 * Returns the milliseconds of validity left; 0: not granted or no longer valid, and
 * nothing was freed. */
int64_t rl_round_won(rl_round *round);

/* Ends a release that was granted: frees the round, and the handle of its lease as
 * RL_DROP does. Returns the largest extra of the nodes that voted yes (0: none). -1: not
 * granted, and nothing was freed. */
int64_t rl_release_done(rl_round *round);

/* Hands a held lease to the watchdog, which renews it to lease_ms once a third of that
 * has passed, until the lease is released, lost or dropped, or max_hold_ms have passed
 * (0: no bound). Starts the client's keeper thread. No effect without an extend script,
 * or if not held. 0; RL_NOMEM: no thread; RL_CONFIG: more than max_lease; the lease is
 * as before. */
int rl_keep(rl_lease *lease, int64_t lease_ms, int64_t max_hold_ms);

/* Why a lease is lost (rl_loss), or RL_NOT_LOST: held, or released, or never held. */
int rl_lease_lost(rl_lease *lease);

/* The handle of the k-th lease that was lost, or (renewed) of the k-th renewal that was
 * granted, from 1, as a number: the handle may have been freed since. 0: there were too many
 * since to know the k-th. */
uintptr_t rl_noted(rl_client *client, int32_t renewed, int64_t k);

/* Does what is due if no thread turns the loop: expired leases become lost. Returns when
 * something is due next. */
int64_t rl_poll(rl_client *client);

/* Returns rl_now_ms(), and in *changes the number of losses, renewals and node changes
 * together: unchanged means no news. No lock. Doubles, as Lua has no wider integers. */
double rl_look(const rl_client *client, double *changes);

/* Copies what a client has counted. */
void rl_get_counters(rl_client *client, rl_counters *out);

/* Milliseconds of validity left; 0 when ended, void, or not acquired. No round trip, no
 * lock: one clock read. */
int64_t rl_remaining_ms(const rl_lease *lease);

/* Copies the lease's value on the servers, the digits and the card, to out (RL_VALUE_MAX
 * bytes). taker: instead what a majority of the servers told of the new holder of a lease
 * that was taken (RL_LOSS_TAKEN): the data of the replies to an extension. Returns the number
 * of bytes; 0: no majority agreed. */
size_t rl_lease_text(rl_lease *lease, int32_t taker, char *out);

/* The fencing token of a lease that was granted: unique, and larger than every token
 * issued for these keys before the attempt began; or the number that its majority agreed
 * on. 0: none. */
int64_t rl_lease_token(const rl_lease *lease);

/* How many nodes confirmed the lease in its last granted round, or were healed since.
 * before: that number when the last extension began, as all answers to the round before
 * had arrived; -1: none has begun. */
int rl_lease_votes(const rl_lease *lease, int before);

/* Frees the handle. Never calls back, so a garbage collector may call this. how:
 * RL_DROP     a held lease is neither released nor renewed any more: its keys expire
 * RL_ABANDON  no caller relies on the attempt or lease: starts its release, even if it has
 *             ended
 * RL_ORPHAN   its owner no longer exists: starts the release of a held lease; with a lock
 *             delay the keys expire
 * RL_DISOWN   another process has the lease now: forgets it */
void rl_lease_free(rl_lease *lease, int32_t how);

/* True for the handle of a client. The handle may be freed, or any pointer. */
int rl_known(const void *handle);

/* Gives node i (from 0) other credentials, for future connections only. user may be NULL.
 * 0, or RL_NOMEM. */
int rl_set_password(rl_client *client, int i, const char *user, const char *password);

/* Replaces the client's passwords by asterisks in a text that a server gave. */
void rl_hide_passwords(rl_client *client, char *text);

/* What a file's modes let everybody on this machine do: 1: read it, 2: write or replace
 * it, 3: both; 0: nothing, or there is no such file. */
int rl_file_exposed(const char *path);

/* Copies what is known of node i (from 0). */
void rl_node_get_info(rl_client *client, int i, rl_node_info *out);

/* Copies the durations of one kind, RL_TIMES_*, and times the client's rounds from the first
 * call on. */
void rl_get_times(rl_client *client, int kind, rl_times *out);
/* cdef end */
#pragma GCC visibility pop

#endif
