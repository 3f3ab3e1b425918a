/* mailbox.c - a list of rounds that are done, and a descriptor that becomes readable when
 * the list gets its first one. */
#include "engine/mailbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct rl_mailbox {
    struct rl_mailbox *next;      /* in boxes */
    pthread_mutex_t mutex;        /* for these: */
    int open;
    int rung;                     /* or about to be; reset when a take finds no round */
    struct rl_round *first, *last;
    /* Another mutex, as a loop that wakes needs the list at once. */
    pthread_mutex_t bell;         /* both mutexes to change these, one to read: */
    int fd;                       /* a write rings; -1: no loop listens */
    int counts;                   /* fd is an eventfd; else one end of a connection */
    int listener;                 /* -1: none */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* Mailboxes are used again but never freed, as rounds may still point to them: there are
 * as many as were ever open at once. */
static pthread_mutex_t boxes_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct rl_mailbox *boxes;

/* ---- ringing ---- */

static void lock(struct rl_mailbox *m)
{
    pthread_mutex_lock(&m->mutex);
    pthread_mutex_lock(&m->bell);
}

static void unlock(struct rl_mailbox *m)
{
    pthread_mutex_unlock(&m->bell);
    pthread_mutex_unlock(&m->mutex);
}

/* With the bell's mutex: one byte, or one count, for all that arrives until the loop has
 * emptied the list. A write fails if an earlier byte is unread, or nobody reads. */
static void ring(struct rl_mailbox *m)
{
    const uint64_t one = 1;
    if (m->fd < 0)
        return;
    ssize_t ignored = m->counts ? write(m->fd, &one, sizeof(one))
                                : send(m->fd, &one, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)ignored;
}

void rl_mailbox_ring(struct rl_mailbox *m)
{
    pthread_mutex_lock(&m->bell);
    ring(m);
    pthread_mutex_unlock(&m->bell);
}

/* With the list's mutex: true if the caller must ring, once. */
static int take_turn_to_ring(struct rl_mailbox *m)
{
    int ours = !m->rung && m->fd >= 0;
    m->rung |= ours;
    return ours;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void stop_listening(struct rl_mailbox *m)
{
    char *slash = strrchr(m->path, '/');
    close_fd(&m->listener);
    if (!slash)
        return;
    unlink(m->path);
    *slash = '\0';
    rmdir(m->path);
    m->path[0] = '\0';
}

static void hang_up(struct rl_mailbox *m)
{
    stop_listening(m);
    close_fd(&m->fd);
    m->rung = 0;
}

/* ---- opening and closing ---- */

rl_mailbox *rl_mailbox_open(void)
{
    pthread_mutex_lock(&boxes_mutex);
    struct rl_mailbox *m = boxes;
    while (m && m->open)
        m = m->next;
    if (!m && (m = calloc(1, sizeof(*m)))) {
        pthread_mutex_init(&m->mutex, NULL);
        pthread_mutex_init(&m->bell, NULL);
        m->fd = m->listener = -1;
        m->next = boxes;
        boxes = m;
    }
    if (m) {
        pthread_mutex_lock(&m->mutex);
        m->open = 1;
        pthread_mutex_unlock(&m->mutex);
    }
    pthread_mutex_unlock(&boxes_mutex);
    return m;
}

void rl_mailbox_close(rl_mailbox *m)
{
    pthread_mutex_lock(&boxes_mutex);
    lock(m);
    hang_up(m);
    for (struct rl_round *round = m->first; round; round = round->next_done)
        round->box = NULL;
    m->first = m->last = NULL;
    m->open = 0;
    unlock(m);
    pthread_mutex_unlock(&boxes_mutex);
}

int rl_mailbox_fd(rl_mailbox *m)
{
    lock(m);
    if (m->fd < 0) {
        m->fd = eventfd(m->first != NULL, EFD_CLOEXEC | EFD_NONBLOCK);
        m->rung = m->first != NULL;
        m->counts = 1;
    }
    int fd = m->fd;
    unlock(m);
    return fd;
}

/* In a new directory (mkdtemp makes it 0700), so that no other user can connect. */
static int listen_in(struct rl_mailbox *m, const char *dir)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int len = snprintf(m->path, sizeof(m->path), "%s/redlock-XXXXXX", dir);
    if (len < 0 || (size_t)len + sizeof("/wake") > sizeof(m->path)) {
        m->path[0] = '\0';
        return ENAMETOOLONG;
    }
    if (!mkdtemp(m->path)) {
        m->path[0] = '\0';
        return errno;
    }
    strcat(m->path, "/wake");
    strcpy(un.sun_path, m->path);
    m->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (m->listener < 0 ||
        bind(m->listener, (const struct sockaddr *)&un, sizeof(un)) < 0 ||
        listen(m->listener, 1) < 0)
        return errno;
    return 0;
}

int rl_mailbox_listen(rl_mailbox *m, const char *dir, char *path, size_t size)
{
    lock(m);
    hang_up(m);
    int failed = listen_in(m, dir);
    if (failed)
        stop_listening(m);
    else
        snprintf(path, size, "%s", m->path);
    unlock(m);
    return failed;
}

int rl_mailbox_accept(rl_mailbox *m)
{
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    lock(m);
    int failed = 0;
    int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        failed = errno;
    else if (peer.pid != getpid())
        failed = EPERM;
    stop_listening(m);
    if (failed)
        close_fd(&fd);
    m->fd = fd;
    m->counts = m->rung = 0;
    if (m->first && take_turn_to_ring(m))
        ring(m);
    unlock(m);
    return failed;
}

void rl_mailbox_hang_up(rl_mailbox *m)
{
    lock(m);
    hang_up(m);
    unlock(m);
}

/* ---- rounds ---- */

int mailbox_push(struct rl_mailbox *m, struct rl_round *round)
{
    int ours = 0;
    pthread_mutex_lock(&m->mutex);
    if (m->open) {
        round->next_done = NULL;
        if (m->last)
            m->last->next_done = round;
        else
            m->first = round;
        m->last = round;
        ours = take_turn_to_ring(m);
    } else {
        round->box = NULL;
    }
    pthread_mutex_unlock(&m->mutex);
    return ours;
}

void mailbox_remove(struct rl_mailbox *m, struct rl_round *round)
{
    pthread_mutex_lock(&m->mutex);
    struct rl_round *before = NULL, *at = m->first;
    while (at && at != round) {
        before = at;
        at = at->next_done;
    }
    if (at) {
        if (before)
            before->next_done = at->next_done;
        else
            m->first = at->next_done;
        if (m->last == at)
            m->last = before;
    }
    round->box = NULL;
    pthread_mutex_unlock(&m->mutex);
}

int rl_mailbox_take(rl_mailbox *m, rl_done *out, int max)
{
    int count = 0;
    pthread_mutex_lock(&m->mutex);
    if (!m->first) {
        uint64_t times;      /* always read: a ring may have come since */
        ssize_t ignored = m->counts ? read(m->fd, &times, sizeof(times)) : 0;
        (void)ignored;
        m->rung = 0;
    }
    for (; m->first && count < max; count++) {
        struct rl_round *round = m->first;
        out[count].round = round;
        out[count].outcome = round->outcome;
        m->first = round->next_done;
        if (!m->first)
            m->last = NULL;
        round->box = NULL;
    }
    pthread_mutex_unlock(&m->mutex);
    return count;
}

int rl_round_post(rl_round *round, rl_mailbox *m)
{
    void *nobody = NULL;
    if (round->outcome)
        return round->outcome;
    if (atomic_compare_exchange_strong(&round->post, &nobody, m))
        return RL_OK;
    return round->outcome;       /* done meanwhile */
}

void mailbox_ring_all(void)
{
    pthread_mutex_lock(&boxes_mutex);
    for (struct rl_mailbox *m = boxes; m; m = m->next) {
        lock(m);
        if (take_turn_to_ring(m))
            ring(m);
        unlock(m);
    }
    pthread_mutex_unlock(&boxes_mutex);
}

/* ---- fork ---- */

void mailbox_before_fork(void)
{
    pthread_mutex_lock(&boxes_mutex);
    for (struct rl_mailbox *m = boxes; m; m = m->next)
        lock(m);
}

void mailbox_after_fork(int in_child)
{
    for (struct rl_mailbox *m = boxes; m; m = m->next) {
        if (in_child) {
            close_fd(&m->fd);    /* the parent's bell */
            close_fd(&m->listener);
            m->path[0] = '\0';
            m->rung = 0;
            pthread_mutex_init(&m->mutex, NULL);
            pthread_mutex_init(&m->bell, NULL);
        } else {
            unlock(m);
        }
    }
    if (in_child)
        pthread_mutex_init(&boxes_mutex, NULL);
    else
        pthread_mutex_unlock(&boxes_mutex);
}
