#include "io/lookup.h"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Shared by the thread and its client; the last of the two frees it. */
struct lookup {
    _Atomic int refs;
    _Atomic int done;
    int notify;              /* a duplicate: the client may close its own */
    int error;               /* of getaddrinfo */
    struct addrinfo *list;
    char port[8];
    char host[];
};

static struct addrinfo hints(int flags)
{
    struct addrinfo h;
    memset(&h, 0, sizeof(h));
    h.ai_family = AF_UNSPEC;
    h.ai_socktype = SOCK_STREAM;
    h.ai_flags = flags | AI_NUMERICSERV;
    return h;
}

static void lookup_unref(struct lookup *l)
{
    if (atomic_fetch_sub(&l->refs, 1) > 1)
        return;
    if (l->list)
        freeaddrinfo(l->list);
    close(l->notify);
    free(l);
}

static void *lookup_thread(void *arg)
{
    struct lookup *l = arg;
    struct addrinfo h = hints(AI_ADDRCONFIG);
    l->error = getaddrinfo(l->host, l->port, &h, &l->list);
    atomic_store(&l->done, 1);
    ssize_t ignored = write(l->notify, &(uint64_t){1}, sizeof(uint64_t));
    (void)ignored;
    lookup_unref(l);
    return NULL;
}

struct lookup *lookup_start(const char *host, int port, int notify)
{
    size_t len = strlen(host) + 1;
    struct lookup *l = calloc(1, sizeof(*l) + len);
    if (!l)
        return NULL;
    memcpy(l->host, host, len);
    snprintf(l->port, sizeof(l->port), "%d", port);
    l->refs = 2;
    l->notify = fcntl(notify, F_DUPFD_CLOEXEC, 0);

    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    int failed = l->notify < 0 || pthread_attr_init(&attr) != 0;
    if (!failed) {
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        failed = pthread_create(&thread, &attr, lookup_thread, l) != 0;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_attr_destroy(&attr);
    }
    if (!failed)
        return l;
    if (l->notify >= 0)
        close(l->notify);
    free(l);
    return NULL;
}

int lookup_done(const struct lookup *l)
{
    return atomic_load(&l->done);
}

struct addrinfo *lookup_take(struct lookup *l, const char **why)
{
    struct addrinfo *list = l->list;
    if (!list)
        *why = gai_strerror(l->error);
    l->list = NULL;
    lookup_unref(l);
    return list;
}

void lookup_abandon(struct lookup *l)
{
    lookup_unref(l);
}

struct addrinfo *lookup_literal(const char *host, int port)
{
    struct addrinfo *list = NULL;
    struct addrinfo h = hints(AI_NUMERICHOST);
    char service[8];
    snprintf(service, sizeof(service), "%d", port);
    return getaddrinfo(host, service, &h, &list) == 0 ? list : NULL;
}
