/* signals.h - signals that end a process first release what it holds. */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <pthread.h>
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

/* How many mutexes this thread has by signals_lock(), or is about to take; and the mask of the
 * signals that came meanwhile. */
extern SIGNALS_THREAD volatile sig_atomic_t signals_inside, signals_waits;

/* Waits until all is released, and the signal has had its effect. */
void signals_wait(void);

/* For the mutexes of clients and of their list: a thread that gets a signal while it has one
 * waits when it has given back all. */
static inline void signals_lock(pthread_mutex_t *mutex)
{
    signals_inside = signals_inside + 1;
    pthread_mutex_lock(mutex);
}

static inline void signals_unlock(pthread_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
    signals_inside = signals_inside - 1;
    if (signals_waits && !signals_inside)
        signals_wait();
}

/* Around a fork, with the mutexes of all clients. */
void signals_before_fork(void);
void signals_after_fork(int is_child);

#endif
