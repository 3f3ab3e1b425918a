/* world.h - a simulated world: true time, clocks that go wrong, processes that are
 * stopped, connections that break, all from one seed. No sockets, threads or real clocks.
 *
 * The shipped objects run in it, all but net and keeper, which net.c replaces.
 * sim_run() goes from event to event. It returns to Lua when a model server must execute
 * a command, a round ends, a hold changes, or a timer is due.
 *
 * True time is in whole microseconds; each process has clocks of its own. The files:
 * world.c (time, processes), link.c (connections), command.c (parsing), net.c.
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
    SIM_COMMAND,             /* argv: answer it with sim_reply() */
    SIM_ROUND,               /* round: it is done */
    SIM_STUCK,               /* too many events at one moment: time stands still */
    SIM_HOLD                 /* a hold began, changed or ended: see sim_hold */
};

typedef struct sim_hold {
    int32_t what;            /* 1: began, 2: another deadline, 3: ended */
    int64_t deadline_ms;     /* by the clock of the process */
    double until_us;         /* the deadline in true time */
    int64_t token;           /* began: its fencing token; 0: none */
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
    int32_t known;           /* 1 .. SIM_KNOWN: stands for the bytes of the command;
                              * negative: is new, or stood for other bytes before */
    sim_hold hold;
} sim_step;

/* What a server's machine and process do; set with sim_server(). */
enum { SIM_UP, SIM_FROZEN, SIM_DOWN };

/* A new world; close the clients of the old one first. */
void sim_reset(uint64_t seed);

/* What the last sim_run() returned for: always the same record. */
sim_step *sim_record(void);

/* Runs until Lua is needed. Returns SIM_*. */
int sim_run(void);

double sim_now(void);

/* rl_now_ms() of the current process. */
double sim_local_ms(void);

/* Uniform in 0 .. n-1. */
uint32_t sim_random(uint32_t n);

/* Continues the stream of random numbers from `state`. Returns the state before. */
uint64_t sim_swap_chance(uint64_t state);

/* Makes sim_run() return SIM_TIMER at that time; process >= 0: once it is not stopped. */
void sim_at(double at_us, int32_t id, int process);

/* A process whose clock has that start and rate (1: true). eager: it reads whatever
 * arrives at once, as an event loop does; else only while one of its coroutines waits, or
 * when the keeper thread has something to do. Returns its number. */
int sim_process(double offset_us, double rate, int eager);

/* Makes this process the current one: Lua acts for it from now on. */
void sim_enter(int process);

/* One more (1) or one less (-1) coroutine of the process waits. 0: as many as before, but
 * its loop looks for rounds that are done. */
void sim_waiting(int process, int change);

/* Stops the process until then (SIGSTOP, a long page fault); suspended: its machine. */
void sim_stop(int process, double until_us, int suspended);
int sim_stopped(int process);

/* Steps the wall clock of the process's machine, or CLOCK_BOOTTIME, which must never
 * step. Wall clocks are right at first. */
void sim_step_wall(int process, double us);
void sim_step_boot(int process, double us);

/* Kills the process: its connections close, and rl_close(), which frees its client, sends
 * nothing. */
void sim_kill(int process);

/* Turns the process into the child of a fork whose parent is gone. */
void sim_fork(int process);

/* cost_us: how long a command takes. SIM_DOWN breaks all connections of the server. */
void sim_server(int server, int state, double cost_us);

/* Between a process and a server: sets the one-way delay; holds back what is sent before
 * those times until then, in each direction. */
void sim_path(int process, int server, double least_us, double spread_us);
void sim_silence(int process, int server, double up_until_us, double down_until_us);

/* Ends the silence between the two, and breaks their connections: what was sent during it
 * is lost. */
void sim_mend(int process, int server);

/* Bounds the bytes on their way to the server; 0: no bound. */
void sim_window(int process, int server, int bytes);

/* Makes this percentage of reads short (1 to 16 bytes), and splits as many writes. */
void sim_crumble(int percent);

/* Breaks the connections between the two (which: 1 commands, 2 messages, 3 both). up,
 * down: how much of what is on its way in that direction still arrives: 0 nothing, 1 all,
 * 2 a random part. */
void sim_cut(int process, int server, int which, int up, int down);

/* True: the process owes a release to a server that it never asked for the lease, or its
 * counts of owed releases are wrong. */
int sim_owes_in_vain(int process);

/* How long ago the client closed the connection whose command is executed; 0: not yet. */
double sim_given_up_us(void);

/* Answers the command being executed, or sends a message on any other connection.
 * Returns 0 when the connection is gone. */
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
    EV_UP,                   /* a: connection: bytes up to b arrive at the server */
    EV_UP_END,
    EV_DOWN,                 /* a: connection: bytes up to b arrive at the client */
    EV_DOWN_END,
    EV_SERVE                 /* a: connection: the server has time for it */
};

struct process {
    struct rl_client *client;     /* NULL: none is open */
    double offset_us, rate;
    double wall_us;               /* by how much its wall clock is ahead */
    double suspended_us;          /* time that CLOCK_MONOTONIC did not count */
    int64_t stopped_until_us;
    int64_t wake_us;              /* the earliest pending EV_WAKE; INT64_MAX: none */
    uint64_t ready;               /* links with an event for the process, a bit each */
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

/* Lets process p turn its loop: now, or once it is not stopped. */
void process_notice(int p);

/* True when the process may turn its loop now. due: its core's timer is due. */
int process_may_turn(const struct process *p, int due);

int64_t local_us(const struct process *p);
int64_t true_us(const struct process *p, int64_t local_ms);

/* ---- command.c ---- */

/* Parses the first command of the bytes into world.step. Returns its length; 0: it is not
 * complete. */
size_t command_take(const char *bytes, size_t len);

/* ---- link.c ---- */

void links_reset(void);

/* Handles an event of a connection. True: world.step is a command to execute. */
int link_event(enum event_kind kind, int conn, uint64_t b);

/* Continues with the connection that the server was serving. True as for link_event(). */
int link_serve_on(void);

/* link_write() returns how many bytes the window took. */
int link_open(int process, int server, int link);
void link_close(int conn);
long link_write(int conn, const char *data, size_t len);

/* Returns how many bytes were read; 0: the end; -1: nothing to read now. */
long link_read(int conn, char *data, size_t size);

/* 0: not yet, 1: connected, -1: refused. */
int link_state(int conn);

#endif
