/* signals.h - signals that end a process first release what it holds. */
#ifndef SIGNALS_H
#define SIGNALS_H

/* From now on each of these signals (RL_SIGNAL_*) first releases what the clients with
 * that signal hold, and then has its effect. 0, or -1: no thread. */
int signals_catch(int signals);

/* Around a fork, with the mutexes of all clients. */
void signals_before_fork(void);
void signals_after_fork(int is_child);

#endif
