#include "io/net.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { DRAIN_MAX = 64 };         /* reads from a server that keeps sending */

/* Epoll tags beyond the node numbers. */
enum { TAG_TIMER = 2 * RL_MAX_NODES, TAG_WAKE };

int net_init(struct net *net, struct core *core, const struct net_address *addresses,
             int n)
{
    net->core = core;
    net->epfd = net->timerfd = net->wakefd = -1;
    net->armed_ms = INT64_MAX;
    net->n = 2 * n;
    net->conns = calloc((size_t)net->n, sizeof(*net->conns));
    if (!net->conns)
        return -1;
    for (int i = 0; i < net->n; i++) {
        net->conns[i].address = &addresses[i % n];
        net->conns[i].fd = -1;
    }
    return 0;
}

int net_poll(const struct net *net, int op, int fd, uint32_t events, int tag)
{
    struct epoll_event ev = {.events = events, .data.u32 = (uint32_t)tag};
    return epoll_ctl(net->epfd, op, fd, &ev);
}

int net_open(struct net *net)
{
    if (net->epfd >= 0)
        return 0;
    net->epfd = epoll_create1(EPOLL_CLOEXEC);
    net->timerfd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    net->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    net->armed_ms = INT64_MAX;
    /* Edge-triggered, so that no thread has to read these two descriptors. */
    if (net->epfd >= 0 && net->timerfd >= 0 && net->wakefd >= 0 &&
        net_poll(net, EPOLL_CTL_ADD, net->timerfd, EPOLLIN | EPOLLET, TAG_TIMER) == 0 &&
        net_poll(net, EPOLL_CTL_ADD, net->wakefd, EPOLLIN | EPOLLET, TAG_WAKE) == 0)
        return 0;
    int saved = errno;
    net_void(net);
    errno = saved;
    return -1;
}

/* ---- closing ---- */

void net_void(struct net *net)
{
    for (int i = 0; i < net->n; i++)
        conn_void(&net->conns[i]);
    int *fds[] = {&net->epfd, &net->timerfd, &net->wakefd};
    for (int i = 0; i < 3; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

void net_finish(struct net *net)
{
    for (int i = 0; i < net->n; i++) {
        struct conn *c = &net->conns[i];
        /* Unread input would turn the close into a reset, which may overtake our last
         * bytes: reads the input, and shuts down our side first. */
        for (int k = 0; c->up && k < DRAIN_MAX; k++) {
            if (recv(c->fd, net->input, NET_READ, MSG_DONTWAIT) <= 0)
                break;
        }
        if (c->up && c->tls) {
            tls_close(c->tls);
            const struct buf *out = &c->tls->out;
            send(c->fd, out->data + out->start, buf_len(out), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        if (c->up)
            shutdown(c->fd, SHUT_WR);
        conn_close(c);
    }
}

/* ---- the loop's parts ---- */

void net_arm(int timerfd, int64_t due_ms)
{
    if (due_ms < 1)
        due_ms = 1;  /* 0 would switch the timer off */
    struct itimerspec when = {.it_value = {.tv_sec = due_ms / 1000,
                                           .tv_nsec = due_ms % 1000 * 1000000}};
    timerfd_settime(timerfd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void set_timer(struct net *net)
{
    int64_t due_ms = core_due_ms(net->core);
    if (due_ms >= net->armed_ms)
        return;      /* an early event costs less than a system call each time */
    net_arm(net->timerfd, due_ms);
    net->armed_ms = due_ms;
}

void net_flush(struct net *net, int64_t now_ms)
{
    struct core *core = net->core;
    int i;
    /* Each step may make the core want more, such as a close after a failed write. Failed
     * connects back off, so this ends. */
    while (core->want_close | core->want_connect | core->want_write) {
        while ((i = take_bit(&core->want_close)) >= 0)
            conn_close(&net->conns[i]);
        while ((i = take_bit(&core->want_connect)) >= 0)
            conn_open(net, i, now_ms);
        while ((i = take_bit(&core->want_write)) >= 0) {
            if (net->conns[i].up && !(net->conns[i].events & EPOLLOUT))
                conn_write(net, i, now_ms);
        }
    }
    set_timer(net);
}

static void collect(struct net *net, const struct epoll_event *ev, int count)
{
    for (int k = 0; k < count; k++) {
        int i = (int)ev[k].data.u32;
        struct conn *c = i < TAG_TIMER ? &net->conns[i] : NULL;
        if (!c || !c->up || c->tls)
            continue;
        c->got = -1;
        c->got_errno = EAGAIN;
        if (!(ev[k].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) ||
            (!c->in && !(c->in = malloc(NET_READ))))
            continue;
        c->got = recv(c->fd, c->in, NET_READ, 0);
        c->got_errno = errno;
    }
}

int net_wait(const struct net *net, void *events, int ms)
{
    return epoll_wait(net->epfd, events, NET_EVENTS, ms);
}

int64_t net_hear(struct net *net, const void *events, int count)
{
    const struct epoll_event *ev = events;
    collect(net, ev, count);
    int64_t now_ms = rl_now_ms();
    for (int k = 0; k < count; k++) {
        int i = (int)ev[k].data.u32;
        if (i == TAG_TIMER) {
            net->armed_ms = INT64_MAX;
            continue;
        } else if (i == TAG_WAKE) {
            conn_finish_lookups(net, now_ms);
            continue;
        }
        struct conn *c = &net->conns[i];
        if (conn_is_given_up(net, i))
            continue;        /* by an earlier event */
        if (!c->up && !c->tls) {
            conn_finish(net, i, now_ms);
            continue;
        }
        if (ev[k].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
            conn_read(net, i, now_ms);
        if (conn_is_given_up(net, i) || !(ev[k].events & EPOLLOUT))
            continue;
        if (c->up)
            conn_write(net, i, now_ms);
        else if (c->tls)
            conn_shake(net, i, now_ms);
    }
    return now_ms;
}

void net_wake(int wakefd)
{
    ssize_t ignored = write(wakefd, &(uint64_t){1}, sizeof(uint64_t));
    (void)ignored;
}
