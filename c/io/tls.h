/* tls.h - TLS as a filter between net.c, which moves the bytes, and the core: what
 * arrived goes in, plain bytes come out, and the other way round. Touches no socket.
 *
 * By OpenSSL (tls.c), or not at all (tls_none.c): the Makefile picks one of them.
 */
#ifndef TLS_H
#define TLS_H

#include "node/buf.h"

enum {
    TLS_RECORD = 16384,           /* plain bytes of one record (RFC 8446, 5.1) */
    TLS_MORE = 0,                 /* nothing without more input */
    TLS_BROKEN = -1,              /* see tls_why() */
    TLS_CLOSED = -2               /* the server said that no more will come */
};

struct tls_context;               /* the settings and certificates of one client */
struct tls;                       /* one connection */

struct tls_options {
    const char *ca_file;          /* NULL: the certificates that the system trusts */
    const char *cert_file;        /* of the client, with its chain, and its key; or NULL */
    const char *key_file;
    int verify;                   /* 0: any certificate will do */
};

/* Reads the files, which are read again when they have been replaced. NULL: with a text
 * in err that names the file; also when there is no TLS in this build, or no libssl on
 * this machine. */
struct tls_context *tls_context_new(const struct tls_options *options, char *err,
                                    size_t err_size);
void tls_context_free(struct tls_context *context);

/* fn is called before the process gives up OpenSSL (exit()); after it there must be no
 * calls from other threads. Only the first fn counts. */
void tls_on_cleanup(void (*fn)(void));

/* Gives back what this thread has of OpenSSL. Otherwise it does so when it is gone, at a
 * time when a fork would leave the child with locks that nobody opens. */
void tls_thread_end(void);

/* A connection to the server of that name or address, which must outlive it. NULL: with a
 * text in err: the files are no good any more, or out of memory. */
struct tls *tls_new(struct tls_context *context, const char *name, char *err,
                    size_t err_size);
void tls_free(struct tls *t);

/* What is to be written to the socket. */
struct buf *tls_out(struct tls *t);

/* Takes what arrived. 0, or -1: out of memory. */
int tls_feed(struct tls *t, const char *data, size_t len);

/* Goes on with the handshake: 1: done, TLS_MORE, or TLS_BROKEN. */
int tls_handshake(struct tls *t);

/* Decrypts into data: how many bytes, TLS_MORE, TLS_CLOSED or TLS_BROKEN. After the
 * handshake. */
int tls_read(struct tls *t, char *data, int size);

/* Encrypts len bytes, TLS_RECORD at most, into one record, which a server sees as a whole
 * or not at all. 0, or TLS_BROKEN. After the handshake. */
int tls_write(struct tls *t, const char *data, size_t len);

/* Says that no more will come. */
void tls_close(struct tls *t);

/* Why the connection is broken. */
const char *tls_why(const struct tls *t);

#endif
