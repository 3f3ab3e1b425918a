/* net.h - moves bytes between a core and its servers: TCP and unix sockets, TLS,
 * epoll. */
#ifndef NET_H
#define NET_H

#include "core/core.h"
#include "io/conn.h"

enum {
    NET_EVENTS = 64,
    NET_READ = 16384
};

struct net {
    struct core *core;
    int n;                        /* links: two per address (core.h) */
    struct conn *conns;
    int epfd;                     /* -1: not opened in this process yet */
    int timerfd;
    int wakefd;                   /* eventfd: a lookup is done, or net_wake() */
    int64_t armed_ms;             /* what timerfd is set to; INT64_MAX: off */
    int threaded;                 /* a thread moves the bytes without the mutex */
    int kicked;                   /* that thread has been told to look, or will be ... */
    int corked;                   /* ... by net_uncork() */
    int kick;                     /* the thread is to be told when the mutex is free */
    char input[NET_READ];
};

/* addresses[0..n-1] must outlive the net. 0, or -1: out of memory. */
int net_init(struct net *net, struct core *core, const struct net_address *addresses,
             int n);

/* Ends all connections in a way that lets the bytes written before get through. */
void net_finish(struct net *net);

/* Closes all descriptors without writing: in the child of a fork. */
void net_void(struct net *net);

/* Opens the epoll descriptor if needed. 0, or -1 with errno. */
int net_open(struct net *net);

/* Does what the core wants: closes, connects, writes, sets the timer; when threaded, has
 * the thread do so. */
void net_flush(struct net *net, int64_t now_ms);

/* Waits for events: at most until the core's next deadline, or for ms; -1: that has no end. The
 * only call that may be made without the engine's mutex. How many, or -1 with errno. */
int net_wait(const struct net *net, void *events, int ms);

/* Feeds the core with what count events tell. */
void net_dispatch(struct net *net, const void *events, int count, int64_t now_ms);

/* ---- with a thread (threaded): the order of a turn ---- */

/* Without the mutex: writes what is staged; after net_wait(), reads what has come. */
void net_send(struct net *net);
void net_collect(struct net *net, const void *events, int count);

/* With the mutex, after net_dispatch(): does what the core wants, but only stages what
 * is to be written. */
void net_stage(struct net *net, int64_t now_ms);

/* With the mutex: the thread is to be told of what was begun since `corked` was set. */
void net_uncork(struct net *net);

/* With the mutex: the argument for a net_wake() when the mutex is free, or -1. */
int net_kick(struct net *net);

/* The thread has ended: net_flush() writes by itself again. */
void net_unthread(struct net *net);

/* Has epoll poll a descriptor (EPOLL_CTL_ADD), or changes how. 0, or -1 with errno. */
int net_poll(const struct net *net, int op, int fd, uint32_t events, int tag);

/* Makes a timerfd of CLOCK_BOOTTIME ring at due_ms, at once when that has passed. */
void net_arm(int timerfd, int64_t due_ms);

/* Ends a net_wait() that is under way in another thread, or the next one. */
void net_wake(int wakefd);

#endif
