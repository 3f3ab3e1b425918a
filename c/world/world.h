/* world.h - a world without sockets, threads or clocks of its own: true time, clocks that
 * go wrong, processes that are stopped, connections that break, all from one seed.
 *
 * Around it run the shipped objects: everything of c/ but net, keeper and lookup, whose
 * places net.c takes. sim_run() goes from event to event and returns to Lua when a model
 * server has a command to execute, a coroutine's round is done, or a timer rings.
 *
 * True time is microseconds, a whole number. A process sees clocks of its own.
 */
#ifndef WORLD_H
#define WORLD_H

#include "redlock.h"

#pragma GCC visibility push(default)
/* cdef begin */
enum {
    SIM_PROCESSES = 32,
    SIM_SERVERS = RL_MAX_NODES,
    SIM_ARGS = 3 + RL_MAX_KEYS + 1 + RL_MAX_ARGS + 8,
    SIM_KNOWN = 1024
};

/* Why sim_run() returned. */
enum {
    SIM_NOTHING,             /* no events are left */
    SIM_TIMER,               /* id: as given to sim_at() */
    SIM_COMMAND,             /* argv: to be answered by sim_reply() */
    SIM_ROUND,               /* round: of a process, is done */
    SIM_STUCK,               /* so much happens that time stands still */
    SIM_HOLD                 /* a hold began, changed or ended: see sim_hold */
};

typedef struct sim_hold {
    int32_t what;            /* 1: began, 2: another deadline, 3: ended */
    int64_t deadline_ms;     /* by the clock of the process */
    double until_us;         /* the same in true time */
    int64_t token;           /* began: its fencing token, 0: it has none */
    rl_bytes key;
    char value[RL_VALUE_MAX];
    int32_t value_len;
} sim_hold;

typedef struct sim_step {
    int32_t id;
    int32_t process;
    int32_t server;
    int32_t conn;
    int32_t argc;
    double now_us;
    rl_round *round;
    rl_bytes argv[SIM_ARGS];
    int32_t known;           /* its number, by which it is known again, 1 .. SIM_KNOWN;
                              * negative: the number had another one, or none */
    sim_hold hold;
} sim_step;

/* What a server's machine and process do; set with sim_server(). */
enum { SIM_UP, SIM_FROZEN, SIM_DOWN };

/* A new world with so many servers; frees the old one, whose clients must be closed. */
void sim_reset(uint64_t seed, int servers);

/* What the last sim_run() returned for; one and the same. */
sim_step *sim_record(void);

/* Goes on until Lua is needed: SIM_*. */
int sim_run(void);

double sim_now(void);

/* Milliseconds on the clock of the process that Lua runs for: rl_now_ms(). */
double sim_local_ms(void);

/* Uniform in 0 .. n-1. */
uint32_t sim_random(uint32_t n);

/* Switches to the stream of random numbers that is in `state`. Returns the state of the
 * stream that was in use. */
uint64_t sim_swap_chance(uint64_t state);

/* Makes sim_run() return at that time. process >= 0: not while it is stopped. */
void sim_at(double at_us, int32_t id, int process);

/* A process with a clock of that start and rate (1: true). eager: whatever arrives is
 * read at once, as in an event loop; else only while one of its coroutines waits, or when
 * the keeper thread has something to do. Its number. */
int sim_process(double offset_us, double rate, int eager);

/* What Lua does from now on is done by this process. */
void sim_enter(int process);

/* One coroutine more, or less (-1), of the process waits; 0: as many, and its loop is to
 * look what is done. */
void sim_waiting(int process, int change);

/* Stops the process until then (SIGSTOP, a long page fault); suspended: its machine. */
void sim_stop(int process, double until_us, int suspended);
int sim_stopped(int process);

/* Steps the wall clock of the process's machine, or the one that must never step. Until
 * then wall clocks are right. */
void sim_step_wall(int process, double us);
void sim_step_boot(int process, double us);

/* The process is gone, and the kernel closes its connections. Its client is freed with
 * rl_close(), which sends nothing any more. */
void sim_kill(int process);

/* The process goes on as the child of a fork whose parent is gone. */
void sim_fork(int process);

/* As SIM_*; cost_us: how long a command takes. Down: all its connections break. */
void sim_server(int server, int state, double cost_us);

/* Between a process and a server: one-way delay, and what is sent before those times is
 * not seen before them. */
void sim_path(int process, int server, double least_us, double spread_us);
void sim_silence(int process, int server, double up_until_us, double down_until_us);

/* The silence between the two is over, and the connections from before are broken, with all that
 * was sent meanwhile. */
void sim_mend(int process, int server);

/* Bytes that are on their way at once, at most; 0: no bound. */
void sim_window(int process, int server, int bytes);

/* Reads of one byte up to a few, in so many of 100 cases. */
void sim_crumble(int percent);

/* Breaks the connections between the two (which: 1 commands, 2 messages, 3 both). up,
 * down: how much of what is on its way still arrives, in each direction: 0 nothing, 1 all,
 * 2 any part. */
void sim_cut(int process, int server, int which, int up, int down);

/* True: the process owes a server a release of what that was never asked for, or counts
 * such debts in a wrong way. */
int sim_owes_in_vain(int process);

/* How long ago the client closed the connection whose command is executed; 0: not yet. */
double sim_given_up_us(void);

/* Answers. A connection that is not being served gets it as a message. 0: it is gone. */
int sim_reply(int conn, const char *data, size_t len);
/* cdef end */
#pragma GCC visibility pop

/* ---- between world.c, link.c and net.c ---- */

#include "engine/engine.h"

enum event_kind {
    EV_TIMER,                /* a: id, b: process */
    EV_WAKE,                 /* a: process; its core's timer may be due */
    EV_TURN,                 /* a: process; it has something to read */
    EV_CONNECT,              /* a: connection: its SYN reaches the server */
    EV_CONNECTED,            /* a: connection: the answer is back; b: refused */
    EV_UP,                   /* a: connection: bytes arrive at the server */
    EV_UP_END,
    EV_DOWN,                 /* and at the client */
    EV_DOWN_END,
    EV_SERVE                 /* a: connection: the server has time for it */
};

struct process {
    struct rl_client *client;     /* NULL: none is open */
    double offset_us, rate;
    double wall_us;               /* what its wall clock is ahead */
    double suspended_us;          /* time that CLOCK_MONOTONIC did not count */
    int64_t stopped_until_us;
    int64_t wake_us;              /* the earliest EV_WAKE on its way; INT64_MAX: none */
    uint64_t ready;               /* links with something to be noticed */
    int eager;
    int waiting;
    int turn_queued;
    int dead;
};

struct world {
    int64_t now_us;
    uint64_t random;
    int current;                  /* process */
    int processes;
    struct process process[SIM_PROCESSES];
    int crumble;
    sim_step step;
};

extern struct world world;

void world_push(int64_t at_us, enum event_kind kind, int a, uint64_t b);

/* Process p has something to do: now if it may, else as soon as it may. */
void process_notice(int p);

/* True when it may turn its loop now. */
int process_may_turn(const struct process *p, int due);

int64_t local_us(const struct process *p);
int64_t true_us(const struct process *p, int64_t local_ms);

/* ---- command.c ---- */

/* Takes the command that the bytes begin with into world.step. How long it is; 0: it is
 * not complete. */
size_t command_take(const char *bytes, size_t len);

/* ---- link.c ---- */

void links_reset(int servers);

/* An event of a connection. True: world.step is a command to execute. */
int link_event(enum event_kind kind, int conn, uint64_t b);

/* The server goes on with the connection it was serving. True as above. */
int link_serve_on(void);

/* Opens, closes; writes what the window takes: how many bytes, or -1: broken. */
int link_open(int process, int server, int link);
void link_close(int conn);
long link_write(int conn, const char *data, size_t len);

/* Reads: how many bytes, 0: the end, -1: nothing there now. */
long link_read(int conn, char *data, size_t size);

/* 0: not yet, 1: connected, -1: refused. */
int link_state(int conn);

#endif
