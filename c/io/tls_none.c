/* tls_none.c - a build without TLS: makes no context, and so no connection. */
#include "io/tls.h"

#include <stdio.h>
#include <stdlib.h>

struct tls_context *tls_context_new(int verify, char *const *file, char *err,
                                    size_t err_size)
{
    (void)verify, (void)file;
    snprintf(err, err_size, "unsupported: this build has no TLS; install libssl-dev and "
                            "build again");
    return NULL;
}

void tls_free(struct tls *t)
{
    (void)t;                      /* NULL */
}

/* ---- never called without a context ---- */

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NEVER(function) function { abort(); }

NEVER(int tls_context_use(struct tls_context *context, char *const *file, char **text,
                          char *err, size_t err_size))
NEVER(void tls_context_free(struct tls_context *context))
NEVER(void tls_on_cleanup(void (*fn)(void)))
NEVER(void tls_thread_end(void))
NEVER(struct tls *tls_new(struct tls_context *context, const char *name, int port, char *err,
                          size_t err_size))
NEVER(int tls_feed(struct tls *t, const char *data, size_t len))
NEVER(int tls_handshake(struct tls *t))
NEVER(int tls_read(struct tls *t, char *data, int size))
NEVER(int tls_write(struct tls *t, const char *data, size_t len))
NEVER(void tls_close(struct tls *t))
