/* mailbox.c - a list of rounds that are done, for an event loop; and the clients that the
 * loop turns, whose epoll descriptors are in the one that it polls. */
#include "engine/mailbox.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/engine.h"

/* A client that the loop turns. */
struct served {
    struct served *next;
    struct rl_client *client;
    int times;                    /* that rl_mailbox_serve() was called */
    int watched;                  /* the loop polls it; with the client's mutex */
};

struct rl_mailbox {
    struct rl_mailbox *next;      /* in boxes */
    pthread_mutex_t mutex;        /* for these: */
    int open;
    int rung;                     /* nothing rings now; until a take empties the list, or a
                                     host's, which takes until it gets none, finds it empty */
    struct rl_round *first, *last;     /* done, the oldest first; NULL: none */
    int fd;                       /* an eventfd: a write rings; -1: no loop listens */
    int signalled;                /* it was written to */
    unsigned posted;              /* how often, for what the host was told of by post() too */
    int (*post)(void *, int);     /* a host's, which rings in its thread; or NULL */
    void *bell_of_host;
    pthread_t thread;             /* the host's */
    /* Of the loop's thread, which changes them with the list's mutex: */
    int epfd;                     /* what it polls: fd and the served clients; -1: none */
    struct served *served;
    int is_hosted;                /* a host polls it; the next one that it polls: */
    struct rl_mailbox *beside;
};

/* Mailboxes are used again but never freed, as rounds may still point to them: there are
 * as many as were ever open at once. */
static pthread_mutex_t boxes_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct rl_mailbox *boxes;

static _Thread_local struct rl_mailbox *hosted;    /* those that this thread's host polls */
static _Thread_local struct rl_mailbox *gathering; /* its take sends what this thread begins */

/* ---- ringing ---- */

/* With the mutex. The host may look at what is posted only after its next poll, which the
 * descriptor ends. */
static void ring(struct rl_mailbox *m)
{
    int post = m->post && pthread_equal(m->thread, pthread_self());
    if (post)
        m->post(m->bell_of_host, 1);
    if (m->fd >= 0) {
        net_wake(m->fd);
        m->signalled = 1;
        m->posted += (unsigned)post;
    }
}

/* With the mutex: once for all that arrives until the loop has emptied the list. */
static void ring_once(struct rl_mailbox *m)
{
    if (m->rung || m->fd < 0)
        return;
    m->rung = 1;
    ring(m);
}

void rl_mailbox_ring(struct rl_mailbox *m)
{
    pthread_mutex_lock(&m->mutex);
    ring(m);
    pthread_mutex_unlock(&m->mutex);
}

int mailbox_is_heard(struct rl_mailbox *m)
{
    pthread_mutex_lock(&m->mutex);
    int heard = m->post != NULL;
    pthread_mutex_unlock(&m->mutex);
    return heard;
}

/* ---- the clients that the loop turns ---- */

static struct served *find(const struct rl_mailbox *m, const struct rl_client *c)
{
    struct served *s = m->served;
    while (s && s->client != c)
        s = s->next;
    return s;
}

static int add(int epfd, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN};
    return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev);
}

/* With the client's mutex. */
static void watch(struct rl_mailbox *m, struct served *s)
{
    struct rl_client *c = s->client;
    if (m->epfd < 0 || c->net.epfd < 0 || s->watched || add(m->epfd, c->net.epfd) < 0)
        return;
    s->watched = 1;
    c->loops++;
    keeper_make_way(c);
}

int mailbox_watch(struct rl_client *c)
{
    int listen = 0;
    pthread_mutex_lock(&boxes_mutex);
    for (struct rl_mailbox *m = boxes; m; m = m->next) {
        struct served *s = find(m, c);
        if (s)
            watch(m, s);
        listen += s && m->epfd >= 0;
    }
    pthread_mutex_unlock(&boxes_mutex);
    return listen && !c->loops ? -1 : 0;
}

int rl_mailbox_serve(rl_mailbox *m, rl_client *c)
{
    struct served *s = find(m, c);
    if (!s && (s = calloc(1, sizeof(*s)))) {
        s->client = c;
        engine_lock(c);
        pthread_mutex_lock(&boxes_mutex);
        s->next = m->served;
        m->served = s;
        watch(m, s);
        pthread_mutex_unlock(&boxes_mutex);
        engine_unlock(c);
    }
    if (!s)
        return RL_NOMEM;
    s->times++;
    return RL_OK;
}

static void forget(struct rl_mailbox *m, struct served *s)
{
    struct rl_client *c = s->client;
    struct served **at = &m->served;
    engine_lock(c);
    pthread_mutex_lock(&boxes_mutex);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    pthread_mutex_unlock(&boxes_mutex);
    if (s->watched) {
        epoll_ctl(m->epfd, EPOLL_CTL_DEL, c->net.epfd, NULL);
        c->loops--;
    }
    engine_flush_late(c);
    keeper_notice(c);
    engine_unlock(c);
    free(s);
}

void rl_mailbox_unserve(rl_mailbox *m, rl_client *c)
{
    struct served *s = find(m, c);
    if (s && !--s->times)
        forget(m, s);
}

/* Sends what was begun since the last take; and turns the clients. */
static void visit(struct rl_mailbox *m, int turn)
{
    for (struct served *s = m->served; s; s = s->next) {
        struct rl_client *c = s->client;
        engine_lock(c);
        engine_flush_late(c);
        c->late &= !turn;
        if (turn && c->turning)
            keeper_make_way(c);          /* the thread that turns it rings */
        else if (turn && c->net.epfd >= 0)
            engine_turn(c, 0);
        engine_unlock(c);
    }
}

/* Whether the descriptor was signalled by what the host was not told of. */
static int hear(struct rl_mailbox *m)
{
    uint64_t times;
    pthread_mutex_lock(&m->mutex);
    int rang = m->signalled && read(m->fd, &times, sizeof(times)) > 0 && times > m->posted;
    m->signalled = 0;
    m->posted = 0;
    pthread_mutex_unlock(&m->mutex);
    return rang;
}

static int is_alone(const struct core *core)
{
    return state_majority(core, NODES_WHERE(core, i, core->nodes[i].queue_len <= 1));
}

int mailbox_gathers(const struct rl_client *c)
{
    struct rl_mailbox *m = gathering;
    if (!m || !find(m, c) || (m->post && is_alone(&c->core)))
        return 0;
    pthread_mutex_lock(&m->mutex);
    if (m->post)
        ring_once(m);
    pthread_mutex_unlock(&m->mutex);
    return 1;
}

/* ---- a host that polls for us: nginx ---- */

static void ready(void *event)
{
    (void)event;
    for (struct rl_mailbox *m = hosted; m; m = m->beside) {
        visit(m, 1);
        if (hear(m) && m->post)
            m->post(m->bell_of_host, 1);
    }
}

int rl_mailbox_host(rl_mailbox *m,
                    intptr_t (*add_event)(void *, int, intptr_t, void (*)(void *)),
                    void *cycle)
{
    if (m->is_hosted)
        return 0;
    int fd = rl_mailbox_fd(m);
    if (fd < 0 || add_event(cycle, fd, EPOLLIN | EPOLLRDHUP, ready) != 0)
        return -1;
    m->is_hosted = 1;
    m->beside = hosted;
    hosted = m;
    return 0;
}

void rl_mailbox_post(rl_mailbox *m, int (*post)(void *, int), void *bell)
{
    pthread_mutex_lock(&m->mutex);
    m->post = post;
    m->bell_of_host = bell;
    m->thread = pthread_self();
    m->rung = 0;
    gathering = post ? m : NULL;
    pthread_mutex_unlock(&m->mutex);
}

/* ---- opening and closing ---- */

static void close_fds(struct rl_mailbox *m)
{
    if (m->epfd >= 0)
        close(m->epfd);
    if (m->fd >= 0)
        close(m->fd);
    m->epfd = m->fd = -1;
    m->posted = 0;
}

rl_mailbox *rl_mailbox_open(void)
{
    pthread_mutex_lock(&boxes_mutex);
    struct rl_mailbox *m = boxes;
    while (m && m->open)
        m = m->next;
    if (!m && (m = calloc(1, sizeof(*m)))) {
        pthread_mutex_init(&m->mutex, NULL);
        m->fd = m->epfd = -1;
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
    while (m->served)
        forget(m, m->served);
    rl_mailbox_post(m, NULL, NULL);
    pthread_mutex_lock(&boxes_mutex);
    pthread_mutex_lock(&m->mutex);
    if (!m->is_hosted)
        close_fds(m);
    for (struct rl_round *round = m->first; round; round = round->next_done)
        round->box = NULL;
    m->first = m->last = NULL;
    m->open = 0;
    pthread_mutex_unlock(&m->mutex);
    pthread_mutex_unlock(&boxes_mutex);
}

int rl_mailbox_fd(rl_mailbox *m)
{
    if (m->epfd >= 0)
        return m->epfd;
    pthread_mutex_lock(&boxes_mutex);
    pthread_mutex_lock(&m->mutex);
    m->epfd = epoll_create1(EPOLL_CLOEXEC);
    m->fd = eventfd(m->first != NULL, EFD_CLOEXEC | EFD_NONBLOCK);
    m->signalled = m->rung = m->first != NULL;
    if (m->epfd < 0 || m->fd < 0 || add(m->epfd, m->fd) < 0)
        close_fds(m);
    pthread_mutex_unlock(&m->mutex);
    pthread_mutex_unlock(&boxes_mutex);
    for (struct served *s = m->served; s; s = s->next) {
        engine_lock(s->client);
        watch(m, s);
        engine_unlock(s->client);
    }
    return m->epfd;
}

/* ---- rounds ---- */

void mailbox_push(struct rl_mailbox *m, struct rl_round *round)
{
    pthread_mutex_lock(&m->mutex);
    if (m->open) {
        round->next_done = NULL;
        if (m->last)
            m->last->next_done = round;
        else
            m->first = round;
        m->last = round;
        ring_once(m);
    } else {
        round->box = NULL;
    }
    pthread_mutex_unlock(&m->mutex);
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

static int pop(struct rl_mailbox *m, rl_done *out, int max)
{
    int count = 0;
    pthread_mutex_lock(&m->mutex);
    for (; m->first && count < max; count++) {
        struct rl_round *round = m->first;
        out[count].round = round;
        out[count].outcome = round->outcome;
        m->first = round->next_done;
        round->box = NULL;
    }
    if (!m->first) {
        m->last = NULL;
        m->rung &= m->post && count;
    }
    pthread_mutex_unlock(&m->mutex);
    return count;
}

int rl_mailbox_take(rl_mailbox *m, rl_done *out, int max)
{
    if (gathering == m)
        visit(m, 0);
    int count = pop(m, out, max);
    if (!count && !m->post) {
        pthread_mutex_lock(&m->mutex);
        m->rung = 1;         /* what comes now is found below */
        pthread_mutex_unlock(&m->mutex);
        visit(m, 1);
        hear(m);
        count = pop(m, out, max);
    }
    gathering = m->post || count > 1 ? m : NULL;
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
        pthread_mutex_lock(&m->mutex);
        ring_once(m);
        pthread_mutex_unlock(&m->mutex);
    }
    pthread_mutex_unlock(&boxes_mutex);
}

/* ---- fork ---- */

void mailbox_before_fork(void)
{
    pthread_mutex_lock(&boxes_mutex);
    for (struct rl_mailbox *m = boxes; m; m = m->next)
        pthread_mutex_lock(&m->mutex);
}

void mailbox_after_fork(int in_child)
{
    for (struct rl_mailbox *m = boxes; m; m = m->next) {
        if (in_child) {
            m->post = NULL;
            m->is_hosted = 0;
            close_fds(m);        /* the parent's */
            for (struct served *s = m->served; s; s = s->next)
                s->watched = 0;
            pthread_mutex_init(&m->mutex, NULL);
        } else {
            pthread_mutex_unlock(&m->mutex);
        }
    }
    if (in_child) {
        hosted = gathering = NULL;
        pthread_mutex_init(&boxes_mutex, NULL);
    } else {
        pthread_mutex_unlock(&boxes_mutex);
    }
}
