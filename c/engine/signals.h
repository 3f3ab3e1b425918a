/* signals.h - a signal that ends a process first releases what the process holds. */
#ifndef SIGNALS_H
#define SIGNALS_H

/* From now on each of these signals (RL_SIGNAL_*) first releases what the clients that
 * have the signal hold, and then has its effect. 0, or -1: no thread. */
int signals_catch(int signals);

/* Around a fork, with all mutexes of clients. */
void signals_before_fork(void);
void signals_after_fork(int is_child);

#endif
