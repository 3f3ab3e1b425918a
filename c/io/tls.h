/* tls.h - TLS as a filter between conn.c, which moves the bytes, and the core: encrypted
 * bytes go in, plain bytes come out, and the other way round. Touches no socket.
 *
 * The Makefile picks OpenSSL (tls.c) or a build without TLS (tls_none.c).
 */
#ifndef TLS_H
#define TLS_H

#include "node/buf.h"

enum {
    TLS_FILES = 3,
    TLS_RECORD = 16384,           /* plain bytes of one record (RFC 8446, 5.1) */
    TLS_MORE = 0,                 /* needs more input */
    TLS_BROKEN = -1,              /* see tls.why */
    TLS_CLOSED = -2               /* the server sends no more (close_notify) */
};

struct tls_context;               /* the settings and certificates of one client */

/* One connection. */
struct tls {
    struct ssl_st *ssl;
    struct bio_st *in, *cipher;   /* ssl owns both */
    const char *name;
    int port;
    int shaken;                   /* the handshake is done */
    int64_t ends_s;               /* when its first certificate ends (time()): the server's, its
                                     CAs', ours; 0: unknown */
    int nameless;                 /* the server's certificate has no subjectAltName */
    struct buf out;               /* what to write to the socket */
    char why[160];                /* why the connection is broken */
};

/* verify: 0: accepts any certificate. file: reads and uses these, see tls_context_use();
 * NULL: none yet. NULL, with a text in err: a bad file, a build without TLS, or no libssl. */
struct tls_context *tls_context_new(int verify, char *const *file, char *err,
                                    size_t err_size);
void tls_context_free(struct tls_context *context);

/* From now on uses files with these paths and texts (which it takes), TLS_FILES of them: the
 * CAs, the certificate with its chain, its key; NULL: there is none, or those CAs that the
 * system trusts. Never falls back to what was trusted before. 0, or -1 with a text in err: a
 * bad file, which it names. */
int tls_context_use(struct tls_context *context, char *const *file, char **text, char *err,
                    size_t err_size);

/* Has exit() call fn before OpenSSL cleans up; after fn no other thread may call TLS
 * functions. Only the first fn counts. */
void tls_on_cleanup(void (*fn)(void));

/* Frees what OpenSSL keeps for this thread. Otherwise the thread's end does that, without
 * our mutexes: a fork at that time would leave the child with locks that stay closed. */
void tls_thread_end(void);

/* A connection to the server with that name or address, a string that must outlive it;
 * port: for errors. NULL, with a text in err: the files are no longer good, or out of memory. */
struct tls *tls_new(struct tls_context *context, const char *name, int port, char *err,
                    size_t err_size);
void tls_free(struct tls *t);

/* Takes what arrived. 0, or -1: out of memory. */
int tls_feed(struct tls *t, const char *data, size_t len);

/* Continues the handshake: 1: done; TLS_MORE, or TLS_BROKEN. */
int tls_handshake(struct tls *t);

/* After the handshake: decrypts into data. The number of bytes, TLS_MORE, TLS_CLOSED or
 * TLS_BROKEN. */
int tls_read(struct tls *t, char *data, int size);

/* After the handshake: encrypts len bytes, TLS_RECORD at most, into one record, which a
 * server reads whole or not at all. 0, or TLS_BROKEN. */
int tls_write(struct tls *t, const char *data, size_t len);

/* Tells the server that we send no more (close_notify). */
void tls_close(struct tls *t);

#endif
