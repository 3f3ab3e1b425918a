/* tls_none.c - a build without TLS: makes no context, and so no connection. */
#include "io/tls.h"

#include <stdio.h>

struct tls_context *tls_context_new(int verify, char *const *file, char *err,
                                    size_t err_size)
{
    (void)verify, (void)file;
    snprintf(err, err_size, "unsupported: this build has no TLS; install libssl-dev and "
                            "build again");
    return NULL;
}

int tls_context_use(struct tls_context *context, char *const *file, char **text, char *err,
                    size_t err_size)
{
    (void)context, (void)file, (void)text, (void)err, (void)err_size;
    return -1;
}

void tls_context_free(struct tls_context *context)
{
    (void)context;
}

void tls_on_cleanup(void (*fn)(void))
{
    (void)fn;
}

void tls_thread_end(void)
{
}

struct tls *tls_new(struct tls_context *context, const char *name, int port, char *err,
                    size_t err_size)
{
    (void)context, (void)name, (void)port;
    snprintf(err, err_size, "no TLS");
    return NULL;
}

void tls_free(struct tls *t)
{
    (void)t;
}

int tls_feed(struct tls *t, const char *data, size_t len)
{
    (void)t, (void)data, (void)len;
    return -1;
}

int tls_handshake(struct tls *t)
{
    (void)t;
    return TLS_BROKEN;
}

int tls_read(struct tls *t, char *data, int size)
{
    (void)t, (void)data, (void)size;
    return TLS_BROKEN;
}

int tls_write(struct tls *t, const char *data, size_t len)
{
    (void)t, (void)data, (void)len;
    return TLS_BROKEN;
}

void tls_close(struct tls *t)
{
    (void)t;
}
