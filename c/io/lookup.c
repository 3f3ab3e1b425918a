#include "io/lookup.h"

#include <errno.h>
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

#include "io/net.h"
#include "node/node.h"

static struct addrinfo hints(int flags)
{
    struct addrinfo h;
    memset(&h, 0, sizeof(h));
    h.ai_family = AF_UNSPEC;
    h.ai_socktype = SOCK_STREAM;
    h.ai_flags = flags | AI_NUMERICSERV;
    return h;
}

const char *const lookup_names[LOOKUP_FILES] = {"password_file", "ca_file", "cert_file",
                                                "key_file"};

void lookup_abandon(struct lookup *l)
{
    int notify = atomic_exchange(&l->notify, -1);
    if (notify >= 0)
        close(notify);       /* of no more use, and the child of a fork would inherit it */
    if (atomic_fetch_sub(&l->refs, 1) > 1)
        return;
    if (l->list)
        freeaddrinfo(l->list);
    for (int k = 0; k < LOOKUP_FILES; k++) {
        free(l->file[k]);
        secret_free(l->text[k]);
    }
    free(l->host);
    explicit_bzero(l->password, sizeof(l->password));
    free(l);
}

static void proceed(struct lookup *l, int at)
{
    atomic_store(&l->at, at);
    int notify = atomic_exchange(&l->notify, -1);      /* nobody closes it meanwhile */
    net_wake(notify);
    atomic_store(&l->notify, notify);
}

static void look_up(struct lookup *l)
{
    struct addrinfo h = hints(AI_ADDRCONFIG);
    int error = getaddrinfo(l->host, l->port, &h, &l->list);
    if (!error)
        return;
    l->code = RL_DNS;
    snprintf(l->why, sizeof(l->why), "%s", gai_strerror(error));
}

static void read_password(struct lookup *l, const char *path)
{
    char *line = l->password;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0, room = sizeof(l->password) - 1;
    ssize_t k = fd < 0 ? -1 : 1;
    while (k > 0 && !memchr(line, '\n', len) && (k = read(fd, line + len, room - len)) > 0)
        len += (size_t)k;
    if (k < 0)
        snprintf(l->why, sizeof(l->why), "%m");
    line[strcspn(line, "\r\n")] = '\0';
    if (k >= 0 && (!*line || strlen(line) > PASSWORD_MAX))
        snprintf(l->why, sizeof(l->why), "no password of 1 to %d bytes in its first line",
                 PASSWORD_MAX);
    l->code = *l->why ? RL_AUTH : RL_OK;
    if (fd >= 0)
        close(fd);
}

char *lookup_read(int k, const char *path, char *why, size_t why_size)
{
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    if (f)
        errno = 0;
    if (f && getdelim(&text, &size, '\0', f) < 0 && text && !errno)
        *text = '\0';            /* it is empty */
    if (!f || errno) {
        snprintf(why, why_size, "%s %s: %m", lookup_names[k], path);
        secret_free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

static void *lookup_thread(void *arg)
{
    struct lookup *l = arg;
    if (l->host)
        look_up(l);
    for (int k = 0; k < LOOKUP_FILES && !l->code; k++) {
        if (!l->file[k])
            continue;
        proceed(l, k);
        if (k == PASSWORD_FILE) {
            read_password(l, l->file[k]);
        } else {
            l->text[k] = lookup_read(k, l->file[k], l->why, sizeof(l->why));
            l->code = l->text[k] ? RL_OK : RL_TLS;
        }
    }
    proceed(l, LOOKUP_DONE);
    lookup_abandon(l);
    return NULL;
}

/* Copies the texts, which may not outlive the thread. 0, or -1: out of memory. */
static int take_texts(struct lookup *l, const struct net_address *a, int named)
{
    int failed = named && !(l->host = strdup(a->host));
    for (int k = 0; k < LOOKUP_FILES; k++)
        failed |= a->file[k] && !(l->file[k] = strdup(a->file[k]));
    snprintf(l->port, sizeof(l->port), "%d", a->port);
    return failed ? -1 : 0;
}

struct lookup *lookup_start(const struct net_address *a, int named, int notify)
{
    struct lookup *l = calloc(1, sizeof(*l));
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    if (!l)
        return NULL;
    l->refs = 1;
    l->at = LOOKUP_NAME;
    l->notify = fcntl(notify, F_DUPFD_CLOEXEC, 0);
    if (l->notify >= 0 && take_texts(l, a, named) == 0 && pthread_attr_init(&attr) == 0) {
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        l->refs = 2;
        int failed = pthread_create(&thread, &attr, lookup_thread, l) != 0;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_attr_destroy(&attr);
        if (!failed)
            return l;
        l->refs = 1;
    }
    lookup_abandon(l);
    return NULL;
}

struct addrinfo *lookup_literal(const char *host, int port)
{
    struct addrinfo *list = NULL;
    struct addrinfo h = hints(AI_NUMERICHOST);
    char service[8];
    snprintf(service, sizeof(service), "%d", port);
    return getaddrinfo(host, service, &h, &list) == 0 ? list : NULL;
}
