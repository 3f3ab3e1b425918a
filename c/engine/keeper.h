/* keeper.h - the thread that does what is due while nobody waits. All functions want the
 * client's mutex held.
 */
#ifndef KEEPER_H
#define KEEPER_H

#include <pthread.h>
#include <stdint.h>

struct rl_client;

/* The thread that does what is due while no caller turns the loop. The thread does not
 * sleep in the loop's poll, but on a timer of its own, which costs callers nothing. */
struct keeper {
    int running;
    int stop;
    int timerfd;                  /* -1: none */
    int64_t armed_ms;             /* what timerfd is set to; INT64_MAX: off */
    int sleeping;                 /* on timerfd; else the thread looks by itself */
    int turning;                  /* in the loop's poll, with the baton; not shared */
    pthread_t thread;
};

/* Starts the thread unless it runs. 0, or -1: no memory, descriptors or threads. */
int keeper_start(struct rl_client *c);

/* Has the keeper send within 1 ms what waits for the next turn, if there is none. Starts the
 * thread: 0, or -1 as keeper_start(). */
int keeper_hold(struct rl_client *c);

/* Has the keeper, if there is one, wake in time for what is due. */
void keeper_notice(struct rl_client *c);

/* A caller leaves: what the caller has not sent is the keeper's to send now. */
void keeper_take_over(struct rl_client *c);

/* A caller wants the baton: ends a poll that the keeper is in. */
void keeper_make_way(struct rl_client *c);

/* Ends the thread and waits for that (gives up the mutex meanwhile). */
void keeper_stop(struct rl_client *c);

/* In the child of a fork: there is no such thread. */
void keeper_void(struct rl_client *c);

#endif
