/* conn.h - inside net: one connection: lookup, connect, TLS handshake, bytes. Connection
 * i of a net is link i of its core; conn.c reports to the core what happens to it.
 */
#ifndef CONN_H
#define CONN_H

#include <stdint.h>
#include <sys/types.h>

#include "io/lookup.h"
#include "io/tls.h"
#include "node/buf.h"

struct net;
struct node_config;

struct net_address {
    char *host;                   /* name or literal; NULL with path */
    char *path;                   /* unix socket */
    int port;
    struct tls_context *tls;      /* NULL: plain */
    char *server_name;            /* expected in the certificate; NULL: host */
    char *file[LOOKUP_FILES];     /* read for each connection; or NULL */
    struct node_config *config;   /* gets the password of its file */
};

struct conn {
    const struct net_address *address;
    struct lookup *lookup;        /* under way; outlives an attempt */
    int resolving;                /* the attempt waits for the lookup ... */
    unsigned waits;               /* ... and so did those before; how many */
    struct addrinfo *list;        /* the addresses of the name ... */
    const struct addrinfo *at;    /* ... the one under way ... */
    const struct addrinfo *next;  /* ... and the next one to try */
    int named;                    /* from a lookup: messages name the address */
    size_t tried_len;             /* bytes of: */
    char tried[256];              /* why each address failed, and what is awaited: an address,
                                     a name, a file, or the TLS handshake */
    int fd;                       /* -1: none */
    int up;                       /* connected, and the TLS handshake is done */
    int heard;                    /* something has arrived */
    struct tls *tls;              /* NULL: plain, or not connected yet */
    size_t sealed;                /* bytes of core_out(), encrypted and not all sent */
    uint32_t events;              /* what epoll watches for */
    /* What net_hear() has read, without TLS: */
    char *in;                     /* NET_READ bytes; NULL: none yet */
    ssize_t got;                  /* what recv() returned, and errno */
    int got_errno;
};

/* Closes a connection, which may be closed already. A lookup stays for the next attempt:
 * if the resolver or a disk hangs, each lookup costs a thread. */
void conn_close(struct conn *c);

/* Like conn_close(), and abandons the lookup. */
void conn_void(struct conn *c);

/* Begins: looks the name up, has the files read, connects. While it connects: tries the
 * next address. */
void conn_open(struct net *net, int i, int64_t now_ms);

/* Connects those whose lookups are done; notes what the others wait for. */
void conn_finish_lookups(struct net *net, int64_t now_ms);

/* The socket has connected, or failed: then tries the next address. */
void conn_finish(struct net *net, int i, int64_t now_ms);

/* Continues the TLS handshake. */
void conn_shake(struct net *net, int i, int64_t now_ms);

/* Writes what the core has for the connection. */
void conn_write(struct net *net, int i, int64_t now_ms);

/* Feeds the core with what net_hear() has read; with TLS, with what it reads. */
void conn_read(struct net *net, int i, int64_t now_ms);

/* True if it is closed, or the core has given it up and takes no more bytes. */
int conn_is_given_up(const struct net *net, int i);

#endif
