#include "io/net.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Notices that the peer of an idle connection vanished, after 15 + 3 * 5 s. */
enum { KEEPALIVE_IDLE_S = 15, KEEPALIVE_INTERVAL_S = 5, KEEPALIVE_PROBES = 3 };

void conn_close(struct conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    if (c->list)
        freeaddrinfo(c->list);
    tls_free(c->tls);
    free(c->in);
    c->in = NULL;
    c->fd = -1;
    c->up = c->heard = 0;
    c->tls = NULL;
    c->sealed = 0;
    c->list = NULL;
    c->at = c->next = NULL;
    c->tried_len = 0;
    c->resolving = 0;
}

void conn_void(struct conn *c)
{
    conn_close(c);
    if (c->lookup)
        lookup_abandon(c->lookup);
    c->lookup = NULL;
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

/* The server ended the connection. The hint depends on how far it got: it may be a TLS
 * port, or a plain one. */
static void lost_peer(struct net *net, int i, const char *why, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    char text[RL_TEXT_MAX];
    const char *hint = (c->up && c->heard) || c->address->path ? ""
                       : c->address->tls ? " during the TLS handshake; is it a TLS port?"
                       : " before any answer; a TLS port (use rediss://), or a proxy "
                         "without CLIENT, INFO and SCRIPT?";
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

static int is_connecting(int fd)
{
    struct sockaddr_storage them;
    socklen_t len = sizeof(them);
    return getpeername(fd, (struct sockaddr *)&them, &len) < 0 && errno == ENOTCONN;
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
        net_poll(net, EPOLL_CTL_ADD, c->fd, c->events, i) < 0) {
        int err = errno;
        close(c->fd);
        c->fd = -1;
        return err;
    }
    return 0;
}

/* Appends to c->tried why the present address failed. The bytes written. */
static size_t conn_note(struct conn *c, const char *why)
{
    char host[64] = "";
    if (c->named)
        getnameinfo(c->at->ai_addr, c->at->ai_addrlen, host, sizeof(host), NULL, 0,
                    NI_NUMERICHOST);
    size_t room = sizeof(c->tried) - c->tried_len;
    size_t len = (size_t)snprintf(c->tried + c->tried_len, room, "%s%s%s%s",
                                  c->tried_len ? "; " : "",
                                  host, *host ? ": " : "", why);
    return len < room ? len : room - 1;
}

/* Tries the next address of the list; err: why the one before failed. */
static void conn_try_next(struct net *net, int i, int err, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    while (c->next) {
        if (c->at)
            c->tried_len += conn_note(c, strerror(err));
        c->at = c->next;
        c->next = c->at->ai_next;
        err = conn_begin(net, i, c->at->ai_addr, c->at->ai_addrlen);
        if (err)
            continue;
        int tries = 1;
        for (const struct addrinfo *ai = c->next; ai; ai = ai->ai_next)
            tries++;
        conn_note(c, "no connection in time");
        core_waits_for(net->core, i, c->tried, tries, now_ms);
        return;
    }
    conn_note(c, strerror(err));
    lost(net, i, err == ETIMEDOUT ? RL_TIMEOUT : RL_REFUSED, "connect", c->tried, now_ms);
}

/* Whether every user may put another file in its place, as a folder above lets them. */
static int replaceable(const char *path)
{
    struct stat st;
    char up[PATH_MAX], *end;
    snprintf(up, sizeof(up), "%s%s", *path == '/' ? "" : "./", path);
    do {
        end = strrchr(up, '/');
        end[end == up] = '\0';
        if (stat(up, &st) == 0 && st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX))
            return 1;
    } while (end > up && strchr(up, '/'));
    return 0;
}

int rl_file_exposed(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return 0;
    return (st.st_mode & S_IROTH ? 1 : 0) | (st.st_mode & S_IWOTH || replaceable(path) ? 2 : 0);
}

/* Connects, now that the address and the files are known. */
static void conn_reach(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    if (!c->address->path) {
        c->next = c->list;
        conn_try_next(net, i, 0, now_ms);
        return;
    }
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", c->address->path);
    int err = conn_begin(net, i, (const struct sockaddr *)&un, sizeof(un));
    if (err)
        lost_errno(net, i, "connect", err, now_ms);
}

static void conn_await(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    int at = c->lookup->at;
    if (at == LOOKUP_NAME)
        snprintf(c->tried, sizeof(c->tried), "the name is not resolved yet");
    else if (at != LOOKUP_DONE)
        snprintf(c->tried, sizeof(c->tried), "%s was not read in time", c->address->file[at]);
    core_waits_for(net->core, i, c->tried, 1, now_ms);
}

void conn_open(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    const struct net_address *a = c->address;
    if (c->fd >= 0) {        /* the present address has used its share of the time */
        if (c->next && !c->up && !c->tls) {
            close(c->fd);
            conn_try_next(net, i, ETIMEDOUT, now_ms);
        }
        return;
    }
    c->list = a->path ? NULL : lookup_literal(a->host, a->port);
    c->named = !a->path && !c->list;
    if (!c->named && !a->file[PASSWORD_FILE] && !a->file[CA_FILE] && !a->file[CERT_FILE]) {
        conn_reach(net, i, now_ms);
        return;
    }
    c->resolving = 1;
    /* An earlier attempt's may still be under way. A file may have been replaced since: the
     * 2nd, 4th, 8th ... attempt reads it anew, as each may cost a thread for good. */
    if (c->lookup && c->lookup->at != LOOKUP_NAME && !(c->waits & (c->waits - 1))) {
        lookup_abandon(c->lookup);
        c->lookup = NULL;
    }
    c->waits++;
    if (!c->lookup)
        c->lookup = lookup_start(a, c->named, net->wakefd);
    if (c->lookup)
        conn_await(net, i, now_ms);
    else
        lost(net, i, RL_NOMEM, "connect", "no thread for its name or files", now_ms);
}

static void conn_poll(struct net *net, int i, uint32_t events)
{
    struct conn *c = &net->conns[i];
    if (c->events == events)
        return;
    c->events = events;
    net_poll(net, EPOLL_CTL_MOD, c->fd, events, i);
}

static void conn_use(struct net *net, int i, struct lookup *l, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    const struct net_address *a = c->address;
    c->resolving = 0;
    c->waits = 0;
    if (!l->code && a->tls &&
        tls_context_use(a->tls, &a->file[CA_FILE], &l->text[CA_FILE], l->why,
                        sizeof(l->why)) < 0)
        l->code = RL_TLS;
    if (l->code) {
        lost(net, i, l->code,
             l->code == RL_DNS   ? a->host
             : l->code == RL_TLS ? "TLS"
                                 : a->file[PASSWORD_FILE],
             l->why, now_ms);
        return;
    }
    if (a->file[PASSWORD_FILE] &&
        node_set_password(a->config, a->config->user, l->password) < 0) {
        lost(net, i, RL_NOMEM, "connect", "out of memory", now_ms);
        return;
    }
    if (c->named) {
        c->list = l->list;
        l->list = NULL;
    }
    conn_reach(net, i, now_ms);
}

void conn_finish_lookups(struct net *net, int64_t now_ms)
{
    for (int i = 0; i < net->n; i++) {
        struct conn *c = &net->conns[i];
        struct lookup *l = c->lookup;
        if (l && l->at == LOOKUP_DONE) {
            c->lookup = NULL;
            if (c->resolving)        /* else the attempt has ended */
                conn_use(net, i, l, now_ms);
            lookup_abandon(l);
        } else if (l && c->resolving) {
            conn_await(net, i, now_ms);
        }
    }
}

static void conn_up(struct net *net, int i, int64_t now_ms)
{
    net->conns[i].up = 1;
    core_connected(net->core, i, now_ms);
}

/* Sends as much of the buffer as the socket takes. 1: all is sent; 0: the rest is to
 * follow, or the connection lost. */
static int conn_flush(struct net *net, int i, struct buf *out, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    while (buf_len(out) > 0) {
        ssize_t k = send(c->fd, out->data + out->start, buf_len(out), MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            conn_poll(net, i, EPOLLIN | EPOLLOUT);
            return 0;
        }
        if (k < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            conn_poll(net, i, EPOLLIN);     /* the server's last bytes say why */
            return 0;
        }
        if (k < 0) {
            lost_errno(net, i, "write", errno, now_ms);
            return 0;
        }
        buf_take(out, (size_t)k);
    }
    conn_poll(net, i, EPOLLIN);
    return 1;
}

void conn_shake(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    int got = tls_handshake(c->tls);
    int sent = conn_flush(net, i, &c->tls->out, now_ms);
    if (c->fd < 0)
        return;
    if (got == TLS_BROKEN)
        lost(net, i, RL_TLS, "TLS", c->tls->why, now_ms);
    else if (got == 1 && sent) {
        net->core->nodes[i].ends_s = c->tls->ends_s;
        conn_up(net, i, now_ms);
    }
}

static void conn_secure(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    const struct net_address *a = c->address;
    char why[RL_TEXT_MAX];
    c->tls = tls_new(a->tls, a->server_name ? a->server_name : a->host, a->port, why,
                     sizeof(why));
    if (!c->tls) {
        lost(net, i, RL_TLS, "TLS", why, now_ms);
        return;
    }
    snprintf(c->tried, sizeof(c->tried),
             "no answer to the TLS handshake; is %d its TLS port?", a->port);
    core_waits_for(net->core, i, c->tried, 1, now_ms);
    conn_shake(net, i, now_ms);
}

void conn_finish(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    int err = 0;
    socklen_t len = sizeof(err);
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
        err = errno;
    if (!err && is_connecting(c->fd))
        return;              /* the event was for the previous socket */
    if (!err && is_connected_to_itself(c->fd))
        err = ECONNREFUSED;
    if (err) {
        close(c->fd);
        c->fd = -1;
        conn_try_next(net, i, err, now_ms);
        return;
    }
    conn_poll(net, i, EPOLLIN);
    if (c->address->tls)
        conn_secure(net, i, now_ms);
    else
        conn_up(net, i, now_ms);
}

/* ---- bytes ---- */

/* Encrypts and sends one record at a time. It counts as written when all of it is: the
 * server cannot act on a part. */
static void conn_encrypt(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    struct buf *out = core_out(net->core, i);
    while (conn_flush(net, i, &c->tls->out, now_ms)) {
        buf_take(out, c->sealed);
        c->sealed = buf_len(out) < TLS_RECORD ? buf_len(out) : TLS_RECORD;
        if (c->sealed == 0)
            return;
        if (tls_write(c->tls, out->data + out->start, c->sealed) < 0) {
            lost(net, i, RL_TLS, "TLS", c->tls->why, now_ms);
            return;
        }
    }
}

void conn_write(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    if (c->tls)
        conn_encrypt(net, i, now_ms);
    else
        conn_flush(net, i, core_out(net->core, i), now_ms);
}

int conn_is_given_up(const struct net *net, int i)
{
    return net->conns[i].fd < 0 || net->core->want_close >> i & 1;
}

/* Feeds the core with decrypted bytes. */
static void conn_decrypt(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    int k = TLS_MORE;
    while (!conn_is_given_up(net, i) && (k = tls_read(c->tls, net->input, NET_READ)) > 0)
        core_feed(net->core, i, net->input, (size_t)k, rl_now_ms());
    if (conn_is_given_up(net, i))
        return;
    if (k == TLS_CLOSED)
        lost_peer(net, i, "closed by the server", now_ms);
    else if (k == TLS_BROKEN)
        lost(net, i, RL_TLS, "TLS", c->tls->why, now_ms);
    else
        conn_write(net, i, now_ms);      /* TLS may have to answer */
}

void conn_read(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    char *input = c->tls ? net->input : c->in;
    ssize_t k = c->tls ? recv(c->fd, input, NET_READ, 0) : c->got;
    if (!c->tls)
        errno = c->got_errno;
    if (k == 0) {
        lost_peer(net, i, "closed by the server", now_ms);
    } else if (k < 0 && errno == ECONNRESET) {
        lost_peer(net, i, strerror(errno), now_ms);
    } else if (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        lost_errno(net, i, "read", errno, now_ms);
    } else if (k > 0 && !c->tls) {
        c->heard = 1;
        core_feed(net->core, i, input, (size_t)k, now_ms);
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
