/* conn.h - inside net: one connection, from a name to a socket, the handshake of TLS,
 * bytes. Connection i of a net is link i of its core, and the core is told what happens
 * to it.
 */
#ifndef CONN_H
#define CONN_H

#include <stdint.h>
#include <sys/types.h>

#include "io/tls.h"
#include "node/buf.h"

struct net;
struct node_config;
struct addrinfo;
struct lookup;

struct net_address {
    char *host;                   /* name or literal; NULL with path */
    char *path;                   /* unix socket */
    int port;
    struct tls_context *tls;      /* NULL: plain */
    char *server_name;            /* whose certificate is expected; NULL: host's */
    char *password_file;          /* read for each connection, or NULL ... */
    struct node_config *config;   /* ... into this one's password */
};

struct conn {
    const struct net_address *address;
    struct lookup *lookup;        /* while the name is being resolved; outlives an attempt */
    int resolving;                /* the attempt waits for the lookup */
    struct addrinfo *list;        /* the addresses of the name ... */
    const struct addrinfo *at;    /* ... the one that is tried ... */
    const struct addrinfo *next;  /* ... and the first one that is not tried yet */
    int named;                    /* they were looked up: messages tell which it was */
    size_t told;                  /* bytes of: */
    char tried[256];              /* what became of each address */
    int fd;                       /* -1: none */
    int up;                       /* connected, and through the handshake of TLS */
    int heard;                    /* something has arrived */
    struct tls *tls;              /* NULL: plain, or not connected yet */
    size_t sealed;                /* bytes of core_out() that are on their way, encrypted */
    uint32_t events;              /* what epoll watches for */
    /* With a thread of its own (net_collect): */
    char *in;                     /* NET_READ bytes; NULL: none yet */
    ssize_t got;                  /* what recv() said, and errno */
    int got_errno;
    struct buf staged;            /* on its way to the socket */
};

/* Closes all descriptors of a connection, which may be closed already. A lookup goes on,
 * for the next attempt: where the resolver hangs each lookup leaves a thread behind. */
void conn_close(struct conn *c);

/* As conn_close(), and gives the lookup up as well. */
void conn_void(struct conn *c);

/* Begins: reads the password file, looks the name up, connects. Of a connection that is being
 * made: goes on with the next address. */
void conn_open(struct net *net, int i, int64_t now_ms);

/* Goes on with connections whose names have been looked up. */
void conn_finish_lookups(struct net *net, int64_t now_ms);

/* The socket is connected, or failed: then the next address is tried. */
void conn_finish(struct net *net, int i, int64_t now_ms);

/* Goes on with the handshake of TLS. */
void conn_shake(struct net *net, int i, int64_t now_ms);

/* Writes, or stages for the thread, what the core has for the connection. */
void conn_write(struct net *net, int i, int64_t now_ms);

/* Feeds the core with what there is to read, or what the thread has read. */
void conn_read(struct net *net, int i, int64_t now_ms);

/* Sends from the buffer as much as the socket takes. 0, or an errno. */
int conn_send(struct net *net, int i, struct buf *out);

/* True: the thread moves the bytes without the mutex, as it does without TLS. */
int conn_is_staged(const struct net *net, int i);

/* True: the core has given the connection up, and takes no more of its bytes. */
int conn_is_over(const struct net *net, int i);

#endif
