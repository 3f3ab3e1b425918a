/* signals.h - signals that end a process let go first what it holds. */
#ifndef SIGNALS_H
#define SIGNALS_H

/* From now on these signals (RL_SIGNAL_*) let go what clients hold that have them, before
 * they do what they would do otherwise. 0, or -1: no thread. */
int signals_catch(int signals);

/* Around a fork, with all mutexes of clients. */
void signals_before_fork(void);
void signals_after_fork(int is_child);

#endif
