#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "resolve.h"

/* Epoll tags beyond the node numbers. */
enum { TAG_TIMER = 2 * RL_MAX_NODES, TAG_WAKE };

/* An idle connection whose peer vanished is noticed after 15 + 3 * 5 s. */
enum { KEEPALIVE_IDLE_S = 15, KEEPALIVE_INTERVAL_S = 5, KEEPALIVE_PROBES = 3 };

enum { PASSWORD_MAX = 8192 };      /* tokens of clouds have some 2000 bytes */

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

static int watch(struct net *net, int op, int fd, uint32_t events, int tag)
{
    struct epoll_event ev = {.events = events, .data.u32 = (uint32_t)tag};
    return epoll_ctl(net->epfd, op, fd, &ev);
}

int net_open(struct net *net)
{
    if (net->epfd >= 0)
        return 0;
    net->epfd = epoll_create1(EPOLL_CLOEXEC);
    net->timerfd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    net->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    net->armed_ms = INT64_MAX;
    if (net->epfd >= 0 && net->timerfd >= 0 && net->wakefd >= 0 &&
        watch(net, EPOLL_CTL_ADD, net->timerfd, EPOLLIN, TAG_TIMER) == 0 &&
        watch(net, EPOLL_CTL_ADD, net->wakefd, EPOLLIN, TAG_WAKE) == 0)
        return 0;
    int saved = errno;
    net_void(net);
    errno = saved;
    return -1;
}

/* ---- closing ---- */

static void conn_close(struct conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    if (c->list)
        freeaddrinfo(c->list);
    if (c->lookup)
        lookup_abandon(c->lookup);
    tls_free(c->tls);
    free(c->in);
    c->in = NULL;
    buf_free(&c->staged);
    c->fd = -1;
    c->up = c->heard = 0;
    c->tls = NULL;
    c->sealed = 0;
    c->list = NULL;
    c->next = NULL;
    c->lookup = NULL;
}

void net_void(struct net *net)
{
    for (int i = 0; i < net->n; i++)
        conn_close(&net->conns[i]);
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
         * bytes: read it, and say that no more will come. */
        while (c->up && recv(c->fd, net->input, NET_READ, MSG_DONTWAIT) > 0)
            continue;
        if (c->up && c->tls) {
            tls_close(c->tls);
            struct buf *out = tls_out(c->tls);
            send(c->fd, out->data + out->start, buf_len(out), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        if (c->up)
            shutdown(c->fd, SHUT_WR);
        conn_close(c);
    }
}

/* ---- connecting ---- */

static void lost(struct net *net, int i, int code, const char *what, const char *why,
                 int64_t now_ms)
{
    char text[RL_TEXT_MAX];
    snprintf(text, sizeof(text), "%s: %s", what, why);
    conn_close(&net->conns[i]);
    core_lost(net->core, i, code, text, now_ms);
}

static void lost_errno(struct net *net, int i, const char *what, int err, int64_t now_ms)
{
    lost(net, i, err == ETIMEDOUT ? RL_TIMEOUT : RL_REFUSED, what, strerror(err), now_ms);
}

/* The server ended the connection. What is said first tells a TLS port from a plain one. */
static void lost_peer(struct net *net, int i, const char *why, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    char text[RL_TEXT_MAX];
    const char *hint = (c->up && c->heard) || c->address->path ? ""
                       : c->address->tls ? " during the TLS handshake; is it a TLS port?"
                                         : " before any answer; a TLS port? then rediss://";
    snprintf(text, sizeof(text), "%s%s", why, hint);
    lost(net, i, c->tls && !c->up ? RL_TLS : RL_REFUSED, "read", text, now_ms);
}

/* A connection to a free port of the ephemeral range may end up connected to itself. */
static int is_connected_to_itself(int fd)
{
    struct sockaddr_storage us, them;
    socklen_t us_len = sizeof(us), them_len = sizeof(them);
    memset(&us, 0, sizeof(us));
    memset(&them, 0, sizeof(them));
    return getsockname(fd, (struct sockaddr *)&us, &us_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&them, &them_len) == 0 &&
           us.ss_family != AF_UNIX && us_len == them_len && !memcmp(&us, &them, us_len);
}

static void set_options(int fd, int family)
{
    int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S,
        probes = KEEPALIVE_PROBES;
    if (family == AF_UNIX)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* Begins to connect to one address. 0, or an errno. */
static int conn_begin(struct net *net, int i, const struct sockaddr *to, socklen_t len)
{
    struct conn *c = &net->conns[i];
    c->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return errno;
    set_options(c->fd, to->sa_family);
    c->events = EPOLLOUT;
    if ((connect(c->fd, to, len) < 0 && errno != EINPROGRESS) ||
        watch(net, EPOLL_CTL_ADD, c->fd, c->events, i) < 0) {
        int err = errno;
        close(c->fd);
        c->fd = -1;
        return err;
    }
    return 0;
}

/* Goes on with the next address of the list; last_err is why the one before failed. */
static void conn_try_next(struct net *net, int i, int last_err, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    while (c->next) {
        const struct addrinfo *ai = c->next;
        c->next = ai->ai_next;
        last_err = conn_begin(net, i, ai->ai_addr, ai->ai_addrlen);
        if (!last_err)
            return;
    }
    lost_errno(net, i, "connect", last_err, now_ms);
}

static void conn_use_list(struct net *net, int i, struct addrinfo *list, int64_t now_ms)
{
    net->conns[i].list = list;
    net->conns[i].next = list;
    conn_try_next(net, i, EADDRNOTAVAIL, now_ms);
}

/* Reads the password file: its first line. 0, or -1 with a text in why. */
static int read_password(const struct net_address *a, char *why, size_t why_size)
{
    char line[PASSWORD_MAX + 2];
    int fd = open(a->password_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);   /* also a FIFO */
    ssize_t len = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
    if (len < 0)
        snprintf(why, why_size, "%s", strerror(errno));
    if (fd >= 0)
        close(fd);
    if (len < 0)
        return -1;
    line[len] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    int ok = *line && strlen(line) <= PASSWORD_MAX;
    if (!ok)
        snprintf(why, why_size, "no password of 1 to %d bytes in its first line",
                 PASSWORD_MAX);
    else if (node_set_password(a->config, a->config->user, line) < 0)
        snprintf(why, why_size, "out of memory"), ok = 0;
    explicit_bzero(line, sizeof(line));
    return ok ? 0 : -1;
}

static void conn_open(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    const struct net_address *a = c->address;
    char why[RL_TEXT_MAX];
    if (a->password_file && read_password(a, why, sizeof(why)) < 0) {
        lost(net, i, RL_AUTH, a->password_file, why, now_ms);
        return;
    }
    if (a->path) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", a->path);
        int err = conn_begin(net, i, (const struct sockaddr *)&un, sizeof(un));
        if (err)
            lost_errno(net, i, "connect", err, now_ms);
        return;
    }
    struct addrinfo *literal = lookup_literal(a->host, a->port);
    if (literal) {
        conn_use_list(net, i, literal, now_ms);
        return;
    }
    core_waits_for(net->core, i, "the name is not resolved yet");
    c->lookup = lookup_start(a->host, a->port, net->wakefd);
    if (!c->lookup)
        lost(net, i, RL_DNS, a->host, "no thread for the lookup", now_ms);
}

static void conn_watch(struct net *net, int i, uint32_t events)
{
    struct conn *c = &net->conns[i];
    if (c->events == events)
        return;
    c->events = events;
    watch(net, EPOLL_CTL_MOD, c->fd, events, i);
}

static void finish_lookups(struct net *net, int64_t now_ms)
{
    for (int i = 0; i < net->n; i++) {
        struct conn *c = &net->conns[i];
        if (!c->lookup || !lookup_done(c->lookup))
            continue;
        const char *why = NULL;
        struct addrinfo *list = lookup_take(c->lookup, &why);
        c->lookup = NULL;
        core_waits_for(net->core, i, "no connection in time");
        if (list)
            conn_use_list(net, i, list, now_ms);
        else
            lost(net, i, RL_DNS, c->address->host, why, now_ms);
    }
}

static void conn_up(struct net *net, int i, int64_t now_ms)
{
    net->conns[i].up = 1;
    core_connected(net->core, i, now_ms);
}

/* Sends from the buffer as much as the socket takes. 0, or an errno. */
static int conn_send(struct net *net, int i, struct buf *out)
{
    struct conn *c = &net->conns[i];
    while (buf_len(out) > 0) {
        ssize_t k = send(c->fd, out->data + out->start, buf_len(out), MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            conn_watch(net, i, EPOLLIN | EPOLLOUT);
            return 0;
        }
        if (k < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            conn_watch(net, i, EPOLLIN);     /* what it said before its end is the reason */
            return 0;
        }
        if (k < 0)
            return errno;
        buf_take(out, (size_t)k);
    }
    conn_watch(net, i, EPOLLIN);
    return 0;
}

/* The same; 1: all is sent; 0: the rest when the socket takes it, or it is lost. */
static int conn_flush(struct net *net, int i, struct buf *out, int64_t now_ms)
{
    int err = conn_send(net, i, out);
    if (err)
        lost_errno(net, i, "write", err, now_ms);
    return !err && buf_len(out) == 0;
}

/* Goes on with the handshake of TLS. */
static void conn_shake(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    int got = tls_handshake(c->tls);
    int sent = conn_flush(net, i, tls_out(c->tls), now_ms);
    if (c->fd < 0)
        return;
    if (got == TLS_BROKEN)
        lost(net, i, RL_TLS, "TLS", tls_why(c->tls), now_ms);
    else if (got == 1 && sent)
        conn_up(net, i, now_ms);
}

static void conn_secure(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    const struct net_address *a = c->address;
    c->tls = tls_new(a->tls, a->server_name ? a->server_name : a->host);
    if (!c->tls) {
        lost(net, i, RL_NOMEM, "TLS", "out of memory", now_ms);
        return;
    }
    core_waits_for(net->core, i, "no answer to the TLS handshake; a plain port? then redis://");
    conn_shake(net, i, now_ms);
}

static void conn_finish(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    int err = 0;
    socklen_t len = sizeof(err);
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
        err = errno;
    if (!err && is_connected_to_itself(c->fd))
        err = ECONNREFUSED;
    if (err) {
        close(c->fd);
        c->fd = -1;
        conn_try_next(net, i, err, now_ms);
        return;
    }
    conn_watch(net, i, EPOLLIN);
    if (c->address->tls)
        conn_secure(net, i, now_ms);
    else
        conn_up(net, i, now_ms);
}

/* ---- bytes ---- */

/* Encrypts and sends one record at a time, which counts as written when all of it is: the
 * server cannot have acted on a part. */
static void conn_encrypt(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    struct buf *out = core_out(net->core, i);
    while (conn_flush(net, i, tls_out(c->tls), now_ms)) {
        buf_take(out, c->sealed);
        c->sealed = buf_len(out) < TLS_RECORD ? buf_len(out) : TLS_RECORD;
        if (c->sealed == 0)
            return;
        if (tls_write(c->tls, out->data + out->start, c->sealed) < 0) {
            lost(net, i, RL_TLS, "TLS", tls_why(c->tls), now_ms);
            return;
        }
    }
}

/* Hands the bytes to the thread; counts as written. */
static void stage(struct conn *c, struct buf *out)
{
    if (buf_len(&c->staged))
        return;              /* net_stage() tries again */
    struct buf full = *out;
    *out = c->staged;
    out->start = out->end = 0;
    out->taken = full.taken + buf_len(&full);
    c->staged = full;
}

/* Whether the thread moves the bytes without the mutex: not those of TLS. */
static int is_staged(const struct net *net, int i)
{
    return net->threaded && !net->conns[i].tls;
}

static void conn_write(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    if (c->tls)
        conn_encrypt(net, i, now_ms);
    else if (net->threaded)
        stage(c, core_out(net->core, i));
    else if (conn_flush(net, i, &c->staged, now_ms))
        conn_flush(net, i, core_out(net->core, i), now_ms);
}

/* The core gave the connection up, and has nothing to do with its bytes any more. */
static int is_over(const struct net *net, int i)
{
    return net->conns[i].fd < 0 || net->core->want_close >> i & 1;
}

/* Takes what the filter has decrypted. */
static void conn_decrypt(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    int k = TLS_MORE;
    while (!is_over(net, i) && (k = tls_read(c->tls, net->input, NET_READ)) > 0)
        core_feed(net->core, i, net->input, (size_t)k, rl_now_ms());
    if (is_over(net, i))
        return;
    if (k == TLS_CLOSED)
        lost_peer(net, i, "closed by the server", now_ms);
    else if (k == TLS_BROKEN)
        lost(net, i, RL_TLS, "TLS", tls_why(c->tls), now_ms);
    else
        conn_write(net, i, now_ms);      /* TLS has answers of its own */
}

static void conn_read(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    int staged = is_staged(net, i);      /* then the thread has read it */
    char *input = staged ? c->in : net->input;
    ssize_t k = staged ? c->got : recv(c->fd, input, NET_READ, 0);
    if (staged)
        errno = c->got_errno;
    if (k == 0) {
        lost_peer(net, i, "closed by the server", now_ms);
    } else if (k < 0 && errno == ECONNRESET) {
        lost_peer(net, i, strerror(errno), now_ms);
    } else if (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        lost_errno(net, i, "read", errno, now_ms);
    } else if (k > 0 && !c->tls) {
        c->heard = 1;
        /* The time behind the read: nothing in it was said after that. */
        core_feed(net->core, i, input, (size_t)k, rl_now_ms());
    } else if (k > 0 && tls_feed(c->tls, input, (size_t)k) < 0) {
        lost(net, i, RL_NOMEM, "TLS", "out of memory", now_ms);
    } else if (k > 0) {
        c->heard = 1;
        if (!c->up)
            conn_shake(net, i, now_ms);
        if (c->up)
            conn_decrypt(net, i, now_ms);
    }
}

/* ---- the loop's parts ---- */

void net_arm(int timerfd, int64_t due_ms)
{
    if (due_ms < 1)
        due_ms = 1;  /* 0 would switch it off */
    struct itimerspec when = {.it_value = {.tv_sec = due_ms / 1000,
                                           .tv_nsec = due_ms % 1000 * 1000000}};
    timerfd_settime(timerfd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void set_timer(struct net *net)
{
    int64_t due_ms = core_due_ms(net->core);
    if (due_ms >= net->armed_ms)
        return;      /* it rings early, which costs less than setting it every time */
    net_arm(net->timerfd, due_ms);
    net->armed_ms = due_ms;
}

/* Takes the lowest bit out of *mask; -1: it is empty. */
static int take_bit(uint64_t *mask)
{
    if (!*mask)
        return -1;
    int i = __builtin_ctzll(*mask);
    *mask &= *mask - 1;
    return i;
}

static void work(struct net *net, int64_t now_ms)
{
    struct core *core = net->core;
    int i;
    /* Each step may make the core want more: a failed write is a close, and so on. A
     * node that cannot be connected backs off, so this ends. */
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

void net_flush(struct net *net, int64_t now_ms)
{
    const struct core *core = net->core;
    if (!net->threaded) {
        work(net, now_ms);
    } else if (!net->kicked && (core->want_close | core->want_connect | core->want_write ||
                                core_due_ms(core) < net->armed_ms)) {
        net->kicked = 1;
        if (!net->corked)
            net_wake(net);
    }
}

void net_uncork(struct net *net)
{
    net->corked = 0;
    if (net->kicked)
        net_wake(net);
}

/* ---- with a thread of its own ---- */

void net_send(struct net *net)
{
    for (int i = 0; i < net->n; i++) {
        struct conn *c = &net->conns[i];
        /* A failure is an event, too, which net_collect() finds. */
        if (c->up && buf_len(&c->staged) && !(c->events & EPOLLOUT) &&
            conn_send(net, i, &c->staged))
            shutdown(c->fd, SHUT_RDWR);
    }
}

void net_collect(struct net *net, const void *events, int count)
{
    const struct epoll_event *ev = events;
    for (int k = 0; k < count; k++) {
        int i = (int)ev[k].data.u32;
        struct conn *c = i < TAG_TIMER ? &net->conns[i] : NULL;
        if (!c || !c->up || !is_staged(net, i))
            continue;
        if (ev[k].events & EPOLLOUT && conn_send(net, i, &c->staged))
            shutdown(c->fd, SHUT_RDWR);
        c->got = -1;
        c->got_errno = EAGAIN;
        if (!(ev[k].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) ||
            (!c->in && !(c->in = malloc(NET_READ))))
            continue;
        c->got = recv(c->fd, c->in, NET_READ, 0);
        c->got_errno = errno;
    }
}

void net_stage(struct net *net, int64_t now_ms)
{
    net->kicked = 0;
    work(net, now_ms);
    /* What did not fit while something was staged. */
    for (int i = 0; i < net->n; i++) {
        if (net->conns[i].up && buf_len(core_out(net->core, i)))
            conn_write(net, i, now_ms);
    }
}

void net_unthread(struct net *net)
{
    net->threaded = 0;
    for (int i = 0; i < net->n; i++) {
        if (net->conns[i].up)
            net->core->want_write |= (uint64_t)1 << i;
    }
}

int net_wait(const struct net *net, void *events, int block)
{
    return epoll_wait(net->epfd, events, NET_EVENTS, block ? -1 : 0);
}

void net_dispatch(struct net *net, const void *events, int count, int64_t now_ms)
{
    const struct epoll_event *ev = events;
    uint64_t ticks;
    for (int k = 0; k < count; k++) {
        int i = (int)ev[k].data.u32;
        if (i >= TAG_TIMER) {
            int fd = i == TAG_TIMER ? net->timerfd : net->wakefd;
            ssize_t ignored = read(fd, &ticks, sizeof(ticks));
            (void)ignored;
            if (i == TAG_TIMER)
                net->armed_ms = INT64_MAX;
            else
                finish_lookups(net, now_ms);
            continue;
        }
        struct conn *c = &net->conns[i];
        if (c->fd < 0)
            continue;        /* closed by an event before */
        if (!c->up && !c->tls) {
            conn_finish(net, i, now_ms);
            continue;
        }
        if (ev[k].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
            conn_read(net, i, now_ms);
        if (is_over(net, i) || !(ev[k].events & EPOLLOUT))
            continue;
        if (c->up)
            conn_write(net, i, now_ms);
        else if (c->tls)
            conn_shake(net, i, now_ms);
    }
}

void net_wake(const struct net *net)
{
    ssize_t ignored = write(net->wakefd, &(uint64_t){1}, sizeof(uint64_t));
    (void)ignored;
}
