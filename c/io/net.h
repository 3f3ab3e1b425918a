/* net.h - moves bytes between a core and its servers.
 *
 * It does what the core asks for in its masks, and reports events to it. It takes no mutex:
 * engine/ holds the client's where a comment says so. */
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
    int wakefd;                   /* eventfd, for lookups and net_wake() */
    int64_t armed_ms;             /* what timerfd is set to; INT64_MAX: off */
    char input[NET_READ];
};

/* addresses[0..n-1] must outlive the net. 0, or -1: out of memory. */
int net_init(struct net *net, struct core *core, const struct net_address *addresses,
             int n);

/* Ends all connections so that the bytes written before still arrive. */
void net_finish(struct net *net);

/* Closes all descriptors without writing, as the child of a fork must. */
void net_void(struct net *net);

/* Opens the epoll descriptor if needed. 0, or -1 with errno. */
int net_open(struct net *net);

/* Does what the core wants: closes, connects, writes, sets the timer. */
void net_flush(struct net *net, int64_t now_ms);

/* Waits for events, ms at most (-1: no limit); the timer ends it at the core's next
 * deadline. Needs no mutex. How many, or -1 with errno. */
int net_wait(const struct net *net, void *events, int ms);

/* Handles count events: reads what has arrived, and then looks at the clock, as the servers
 * wrote all of it before that; feeds the core. The time. */
int64_t net_hear(struct net *net, const void *events, int count);

/* Adds a descriptor to epoll (EPOLL_CTL_ADD), or changes it. 0, or -1 with errno. */
int net_poll(const struct net *net, int op, int fd, uint32_t events, int tag);

/* Sets a timerfd of CLOCK_BOOTTIME to due_ms; fires at once if that has passed. */
void net_arm(int timerfd, int64_t due_ms);

/* Ends another thread's net_wait(), or the next one. */
void net_wake(int wakefd);

/* Clears the lowest bit of *mask and returns its number. -1: the mask is empty. */
static inline int take_bit(uint64_t *mask)
{
    int i = *mask ? __builtin_ctzll(*mask) : -1;
    *mask &= *mask - 1;
    return i;
}

#endif
