/* signals.h - signals that end a process first release what it holds. */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <signal.h>

/* glibc allocates other variables of threads when these are first used: not in a handler. */
#ifdef __GLIBC__
#define SIGNALS_THREAD _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define SIGNALS_THREAD _Thread_local
#endif

/* From now on each of these signals (RL_SIGNAL_*) first releases what the clients with
 * that signal hold, and then has its effect. 0, or -1: no thread. */
int signals_catch(int signals);

/* How many mutexes of clients and of their list this thread has, or is about to take; and
 * the mask of the signals that came meanwhile. */
extern SIGNALS_THREAD volatile sig_atomic_t signals_inside, signals_waits;

/* Waits until all is released, and the signal has had its effect. */
void signals_wait(void);

static inline void signals_enter(void)
{
    signals_inside = signals_inside + 1;
}

/* Call without the mutex. */
static inline void signals_leave(void)
{
    signals_inside = signals_inside - 1;
    if (signals_waits && !signals_inside)
        signals_wait();
}

/* Around a fork, with the mutexes of all clients. */
void signals_before_fork(void);
void signals_after_fork(int is_child);

#endif
