/* core.h - rounds, leases and timers over a virtual "now". Pure: no clock, no I/O.
 *
 * Whoever drives it (the engine, or a simulator) moves bytes between core_out() and
 * core_feed(), says when connections come and go, and calls core_tick() at
 * core_due_ms(). What it wants from the driver is in three masks, a bit per link: link i
 * is the connection to node i, link n + i the one that takes messages from it.
 */
#ifndef CORE_H
#define CORE_H

#include <stdatomic.h>

#include "core/clock.h"
#include "node/node.h"
#include "core/quorum.h"
#include "core/timer.h"

enum {
    WATCH_BUCKETS = 256,
    MARKER_MAX = 96,
    OWING_MAX = 1 << 17,          /* leases whose clean-up is pursued at once */
    NOTED_MAX = 1 << 12           /* leases that are known to have been lost, or renewed, last */
};

/* What is known of a node's right to vote (guard.h). */
struct guard {
    int state;                    /* rl_guard */
    int asked;                    /* the answer about its marker is outstanding */
    int refused;                  /* rl_code of the last error about its marker; or RL_OK */
    int twin;                     /* the same server has voted under another address */
    int64_t until_ms;             /* QUARANTINED: until; 0: it has not begun */
    int64_t theirs_ms;            /* DISAGREES: their max_lease */
    int64_t suspect_ms;           /* no votes before that, because of its clock */
    int64_t step_ms;              /* its last step ... */
    int64_t stepped_ms;           /* ... was noticed then */
    int steps;
    int64_t forward_ms;           /* all its steps forward, of late */
    struct clock clock;
    char run_id[RL_RUN_ID_MAX];   /* of the clock's samples */
    char marker[MARKER_MAX];      /* as seen last */
    char want[MARKER_MAX];
};

struct core {
    int n;
    int32_t drift_ppm;
    int32_t lock_delay_ms;        /* what servers add to a lease */
    struct node *nodes;           /* 2 n: the last n are the subscribers (watch.h) */
    struct timer *node_timers;
    struct rl_watch *watches[WATCH_BUCKETS];
    int watching;                 /* how many watches there are */
    struct scripts scripts;
    struct timers timers;
    uint32_t timers_wanted;       /* objects with a timer, each of which has a place */
    struct cmd_pool cmds;
    struct rl_round *round_pool;
    struct rl_lease *lease_pool;
    struct rl_round *active;      /* undecided rounds, oldest first */
    struct rl_round *active_last;
    struct rl_lease *held;        /* leases that are held */
    struct rl_lease *owing;       /* leases with clean-up not confirmed */
    int owing_len;
    _Atomic int64_t forgone;      /* clean-ups given up because there were too many */
    struct guard *guards;         /* n */
    const char *marker;           /* the key of the marker; NULL: no guard */
    const char *mark_script;
    int64_t max_lease_ms;
    int64_t lease_ms;             /* the shortest one in use */
    struct timer health;
    int unattended;               /* active rounds nobody waits for */
    int64_t late_ms;              /* by how much the running tick is late */
    _Atomic int64_t losses;       /* leases lost so far */
    const struct rl_lease *lost[NOTED_MAX]; /* the last of them, in a ring; may be used again */
    _Atomic int64_t renewals;     /* by the watchdog; the same: */
    const struct rl_lease *renewed[NOTED_MAX];
    _Atomic int64_t node_changes; /* what rl_node_get_info() tells of one has changed */
    _Atomic int64_t auth_failures; /* connections whose credentials were refused */
    uint64_t random;              /* state of the generator for jitter */
    _Atomic unsigned epoch;       /* leases of another epoch are void */
    int closed;                   /* nothing can be started any more */
    int over;                     /* nor is anything connected */
    int handles;                  /* rounds and leases that the caller still has */

    struct rl_round *done;        /* rounds for core_next(), in the order they ended */
    struct rl_round *done_last;

    uint64_t want_close;          /* close the connection; before want_connect */
    uint64_t want_connect;        /* open a connection */
    uint64_t want_write;          /* core_out() has something */
};

/* Nodes are configured by configs[0..n-1], which must outlive the core. 0, or -1: out of
 * memory. seed: any number. */
int core_init(struct core *core, const struct node_config *configs, int n,
              int32_t drift_ppm, uint64_t seed);

/* Frees everything; the caller has no rounds and leases any more. */
void core_free(struct core *core);

/* Ends all rounds and lets go what is held: the releases are on their way from now on, and
 * go on until core_close(). Nothing can be started any more. */
void core_leave(struct core *core, int64_t now_ms);

/* The nodes that may have something which was let go since then, and have not confirmed
 * it, a bit each. */
uint32_t core_unreleased(const struct core *core, int64_t since_ms);

/* The connected nodes that have not answered what they were asked since then, a bit each:
 * what was exported, or stays closed, is perhaps not there yet. */
uint32_t core_unanswered(const struct core *core, int64_t since_ms);

/* Ends all rounds and voids all leases; releases that could be queued are in core_out().
 * Nothing can be started any more. */
void core_close(struct core *core, int64_t now_ms);

/* Forgets connections, rounds (RL_CLOSED) and leases (void) without writing anything,
 * for the child of a fork; new ones can be started. */
void core_void(struct core *core);

/* As rl_script(). */
int core_script(struct core *core, const char *body, size_t len, int64_t now_ms);

/* ---- what the driver tells ---- */

void core_connected(struct core *core, int i, int64_t now_ms);

/* What a connection that is being made waits for, in the words of its time-out. */
void core_waits_for(struct core *core, int i, const char *text);

/* Node i has other credentials: does not wait any longer before it tries again. */
void core_retry(struct core *core, int i, int64_t now_ms);

/* The connection broke or could not be made. code: RL_REFUSED, RL_TIMEOUT, RL_DNS... */
void core_lost(struct core *core, int i, int code, const char *text, int64_t now_ms);

void core_feed(struct core *core, int i, const char *data, size_t len, int64_t now_ms);

/* What is to be written to node i; the driver takes from it what was written. */
struct buf *core_out(struct core *core, int i);

/* True while something is under way that nobody waits for: a renewal, a clean-up that
 * waits for a connection, bytes that are not written yet. */
int core_busy(const struct core *core);

/* True while a node that is not connected has not confirmed a release. */
int core_owes_away(const struct core *core);

/* True while a node was asked for its time and has not answered: the answer is worth
 * something only when it is read at once. */
int core_timing(const struct core *core);

/* When core_tick() is due; INT64_MAX: when something arrives. */
int64_t core_due_ms(const struct core *core);
void core_tick(struct core *core, int64_t now_ms);

/* ---- what the user starts: contracts in redlock.h ---- */

rl_round *core_acquire(struct core *core, const rl_primitive *primitive,
                       const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                       const char *value, int64_t lease_ms, int64_t within_ms, int home,
                       int64_t now_ms, rl_lease **lease);
rl_round *core_extend(rl_lease *lease, int64_t lease_ms, int64_t now_ms);
rl_round *core_handover(rl_lease *lease, const char *value, int64_t lease_ms,
                        int64_t now_ms, rl_lease **next);
rl_round *core_release(rl_lease *lease, int64_t now_ms);
rl_round *core_ask(struct core *core, int script, const rl_bytes *keys, int nkeys,
                   const rl_bytes *args, int nargs, int64_t within_ms, int64_t now_ms);
rl_round *core_ask_all(struct core *core, int script, const rl_bytes *keys, int nkeys,
                       const rl_bytes *args, int nargs, int64_t within_ms, int64_t now_ms);
rl_round *core_check(struct core *core, int64_t now_ms);
rl_round *core_sleep(struct core *core, int64_t ms, int64_t now_ms);
rl_round *core_pause(rl_watch *watch, int64_t seen, int64_t ms, int64_t now_ms);
rl_watch *core_watch(struct core *core, const char *channel, size_t len, int64_t now_ms);
void core_unwatch(rl_watch *watch, int64_t now_ms);
rl_lease *core_adopt(struct core *core, const rl_primitive *primitive,
                     const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                     const char *value, int64_t lease_ms, int64_t token, int64_t now_ms);
void core_disown(rl_lease *lease);

/* The round is given by core_next() when it is done; so is one whose mailbox was set. */
void core_notify(rl_round *round);

/* Takes the next of them; NULL: none. */
rl_round *core_next(struct core *core);

void core_keep(rl_lease *lease, int64_t lease_ms, int64_t max_hold_ms, int64_t now_ms);
int core_lost_why(rl_lease *lease, int64_t now_ms);
int64_t core_remaining_ms(const rl_lease *lease, int64_t now_ms);
void core_round_free(rl_round *round);
void core_lease_drop(rl_lease *lease, int64_t now_ms);
void core_lease_abandon(rl_lease *lease, int64_t now_ms);
void core_lease_orphan(rl_lease *lease, int64_t now_ms);

#endif
