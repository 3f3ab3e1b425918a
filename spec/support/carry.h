/* The proxy's connections and what happens to the bytes they carry. */
#ifndef SPEC_SUPPORT_CARRY_H
#define SPEC_SUPPORT_CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UP, DOWN }; /* client to server, server to client */

struct conn;

struct side { /* of a connection, or another watched descriptor */
    struct conn *conn;
    int fd;
    uint32_t events;
};

struct pattern {
    size_t len; /* 0 when off */
    char bytes[512];
};

struct spread { /* so many of 1000 chunks are delayed by least to most ms more */
    int permille, least, most;
};

struct faults {
    int delay[2], drop[2], hold[2]; /* of UP and of DOWN */
    struct spread spread[2];
    int reset_permille;             /* so many of 1000 chunks end their connection */
    int lie_permille;               /* so many of 1000 chunks of replies are garbled */
    uint64_t random;                /* state of the generator for all three, never 0 */
    double bandwidth;               /* bytes per second, 0 for no limit */
    struct pattern cut_request, hold_request;
    long fired; /* how often cut_request has cut off a reply */
};

extern struct faults faults;
extern int poller; /* the epoll instance, its events carry a struct side */

void watch(struct side *side, uint32_t events);
int connect_to(int port);
void close_fd(int fd, bool reset);

void conns_open(int client, int target);
void conns_event(struct side *side, uint32_t events);
void conns_pump(void);       /* send what may be sent now */
void conns_end(bool reset);  /* end all of them, with RST or with FIN */
void conns_half_close(int d);  /* nothing more is carried in this direction */
void conns_release(void);    /* let go of what hold_request has held */
long conns_held(void);
long conns_carried(void);
void conns_sweep(void);      /* free the ended, no event is being handled */
int conns_patience(void);    /* ms until more may be sent, -1 for ever */

#endif
