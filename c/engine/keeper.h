/* keeper.h - the thread that does what is due while no caller turns the loop. All
 * functions need the client's mutex.
 */
#ifndef KEEPER_H
#define KEEPER_H

#include <pthread.h>
#include <stdint.h>

struct rl_client;

/* While nothing is under way the thread sleeps on a timer of its own, not in the loop's
 * poll, which costs callers nothing. */
struct keeper {
    int running;
    int stop;
    int timerfd;                  /* -1: none */
    int64_t armed_ms;             /* what timerfd is set to; INT64_MAX: off */
    int sleeping;                 /* on timerfd */
    int turning;                  /* in the loop's poll, with the baton */
    pthread_t thread;
};

/* Starts the thread unless it runs. 0, or -1: no memory, descriptors or threads. */
int keeper_start(struct rl_client *c);

/* Has the keeper send what waits for the next turn if no turn comes within 1 ms. Starts
 * the thread. 0, or -1: see keeper_start(). */
int keeper_hold(struct rl_client *c);

/* Wakes the keeper, if it runs, in time for what is due. */
void keeper_notice(struct rl_client *c);

/* A caller leaves: unless another turns the loop, the keeper continues, and sends what
 * the caller has not sent. It starts when something is held, and then stays. */
void keeper_take_over(struct rl_client *c);

/* A caller wants the baton: ends the keeper's poll. */
void keeper_make_way(struct rl_client *c);

/* Ends the thread and waits for its end, without the mutex meanwhile. */
void keeper_stop(struct rl_client *c);

/* In the child of a fork, where the thread does not exist. */
void keeper_void(struct rl_client *c);

#endif
