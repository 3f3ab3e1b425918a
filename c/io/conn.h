/* conn.h - inside net: one connection, from a name to a socket, the handshake of TLS, bytes.
 * Connection i of a net is link i of its core; what happens to it the core is told.
 */
#ifndef CONN_H
#define CONN_H

#include <stdint.h>
#include <sys/types.h>

#include "node/buf.h"
#include "io/tls.h"

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
    int resolving;                /* it is waited for */
    struct addrinfo *list;        /* what it resolved to, and what is not tried yet */
    const struct addrinfo *next;
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

/* Closes everything it has; may be called for what is closed. A lookup goes on, for the next
 * attempt: each would leave a thread behind where the resolver hangs. */
void conn_close(struct conn *c);

/* The same, for good. */
void conn_void(struct conn *c);

/* Begins: reads the password file, looks the name up, connects. */
void conn_open(struct net *net, int i, int64_t now_ms);

/* Goes on with those whose names have been looked up. */
void conn_finish_lookups(struct net *net, int64_t now_ms);

/* The socket is connected, or failed: then the next address is tried. */
void conn_finish(struct net *net, int i, int64_t now_ms);

/* Goes on with the handshake of TLS. */
void conn_shake(struct net *net, int i, int64_t now_ms);

/* Writes, or stages for the thread, what the core has for it. */
void conn_write(struct net *net, int i, int64_t now_ms);

/* Feeds the core with what there is to read, or what the thread has read. */
void conn_read(struct net *net, int i, int64_t now_ms);

/* Sends from the buffer as much as the socket takes. 0, or an errno. */
int conn_send(struct net *net, int i, struct buf *out);

/* Whether the thread moves the bytes without the mutex: not those of TLS. */
int conn_is_staged(const struct net *net, int i);

/* The core gave the connection up, and has nothing to do with its bytes any more. */
int conn_is_over(const struct net *net, int i);

#endif
