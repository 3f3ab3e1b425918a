#include "carry.h"
#include "net.h"

#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

struct chunk {
    struct chunk *next;
    double due; /* ms, not to be sent earlier */
    bool held;  /* by hold_request, until release */
    size_t len, off;
    char data[];
};

struct way {
    struct chunk *head, *tail;
    double paced; /* ms, when the bandwidth allows the next bytes */
    bool blocked; /* the receiver's socket buffer is full */
    bool broken;    /* bytes were dropped: TCP passes on none of those behind them */
    bool done;    /* nothing will be sent any more */
    enum { OPEN, FIN, RST } end; /* how the sender ended it */
};

struct conn {
    struct conn *next;
    struct side side[2]; /* side[d] sends what way[d] carries to side[!d] */
    struct way way[2];
    bool cut_reply, dead;
};

struct faults faults = {.random = 1};
int poller;
static struct conn *conns;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* xorshift64: what happens follows from the seed and the traffic. */
static int random_below(int n)
{
    faults.random ^= faults.random << 13;
    faults.random ^= faults.random >> 7;
    faults.random ^= faults.random << 17;
    return n > 0 ? (int)((faults.random >> 11) % (uint64_t)n) : 0;
}

static int delay_of(int d)
{
    const struct spread *s = &faults.spread[d];

    if (random_below(1000) >= s->permille)
        return faults.delay[d];
    return faults.delay[d] + s->least + random_below(s->most - s->least + 1);
}

void watch(struct side *side, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = side};
    int op = EPOLL_CTL_MOD;

    if (events == side->events)
        return;
    if (!side->events)
        op = EPOLL_CTL_ADD;
    else if (!events) /* left in, a socket would go on reporting its HUP */
        op = EPOLL_CTL_DEL;
    if (epoll_ctl(poller, op, side->fd, &event) != 0)
        die("epoll_ctl");
    side->events = events;
}

int connect_to(int port)
{
    struct sockaddr_in addr = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket");
    /* A refused connection shows up as an error when the socket is read. */
    connect(fd, (struct sockaddr *)&addr, sizeof addr);
    return fd;
}

void close_fd(int fd, bool reset)
{
    static char sink[65536];
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    if (reset)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    else /* unread bytes would turn the FIN into a RST */
        while (recv(fd, sink, sizeof sink, 0) > 0)
            ;
    close(fd);
}

static void discard(struct way *way)
{
    while (way->head) {
        struct chunk *chunk = way->head;
        way->head = chunk->next;
        free(chunk);
    }
}

static void conn_close(struct conn *c, bool reset)
{
    for (int d = UP; d <= DOWN; d++) {
        close_fd(c->side[d].fd, reset);
        discard(&c->way[d]);
    }
    c->dead = true; /* events at hand may still refer to it */
}

void conns_open(int client, int target)
{
    struct conn *c = calloc(1, sizeof *c);
    int one = 1;

    if (!c)
        die("calloc");
    c->side[UP].fd = client;
    c->side[DOWN].fd = connect_to(target);
    for (int d = UP; d <= DOWN; d++) {
        c->side[d].conn = c;
        setsockopt(c->side[d].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        watch(&c->side[d], EPOLLIN);
    }
    c->next = conns;
    conns = c;
}

static bool matches(const struct pattern *pattern, const char *data, size_t len)
{
    return pattern->len && memmem(data, len, pattern->bytes, pattern->len);
}

static void push(struct conn *c, int d, const char *data, size_t len)
{
    struct way *way = &c->way[d];
    struct chunk *chunk = malloc(sizeof *chunk + len);

    if (!chunk)
        die("malloc");
    *chunk = (struct chunk){.due = now_ms() + delay_of(d), .len = len};
    memcpy(chunk->data, data, len);
    if (d == UP) {
        chunk->held = matches(&faults.hold_request, data, len);
        if (matches(&faults.cut_request, data, len)) {
            c->cut_reply = true;
            faults.cut_request.len = 0;
        }
    }
    if (way->head)
        way->tail->next = chunk;
    else
        way->head = chunk;
    way->tail = chunk;
}

/* Replies that nobody asked for: numbers at the ends, other types, odd errors; the last ones are
 * no RESP, or never end. */
static const char *const lies[] = {
    ":0\r\n", ":1\r\n", ":-1\r\n", ":3\r\n", ":9223372036854775807\r\n",
    ":-9223372036854775808\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "+OK\r\n", "$0\r\n\r\n",
    "*2\r\n:0\r\n:9223372036854775807\r\n", "*1\r\n*1\r\n*1\r\n:1\r\n",
    "*3\r\n:0\r\n:500\r\n$27\r\n0123456789abcdef0123 0 \033[2Jx\r\n", "*2\r\n$1\r\nx\r\n$-1\r\n",
    "*2\r\n:3\r\n$4\r\n\1\2\3\4\r\n", "-NOSCRIPT no\r\n", "-NOAUTH \033[31m\r\n", "-ERR \1\377\r\n",
    "-MOVED 1 [::1]:6379\r\n", "-NOTALOCK\r\n", "-NOTALOCK \b\r\n", "-\r\n",
    "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$0\r\n\r\n",
    ":99999999999999999999\r\n", "$536870912\r\nx", "*1073741824\r\n:1\r\n", "$-7\r\n",
    "%1\r\n+a\r\n:1\r\n", ",nan\r\n", "#t\r\n", "\r\n",
};

enum { LIES = sizeof(lies) / sizeof(lies[0]), RESP_LIES = LIES - 8, LIE_MAX = 128 };

/* Garbles n bytes, where there is room for LIE_MAX more. Returns how many there are now. A
 * connection survives most of it. */
static size_t lie(char *bytes, size_t n)
{
    int how = random_below(16);
    const char *text = lies[random_below(how ? RESP_LIES : LIES)];
    size_t len = strlen(text);

    if (how == 1) {
        bytes[random_below((int)n)] = (char)random_below(256);
        return n;
    } else if (how == 2) {
        return (size_t)random_below((int)n) + 1;
    } else if (how == 3) {
        memmove(bytes + len, bytes, n);
        n += len;
    } else {
        n = len;
    }
    memcpy(bytes, text, len);
    return n;
}

static void on_read(struct conn *c, int d)
{
    static char buf[65536 + LIE_MAX];
    struct way *way = &c->way[d];
    ssize_t n = recv(c->side[d].fd, buf, sizeof buf - LIE_MAX, 0);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        way->end = n == 0 ? FIN : RST;
    } else if (d == DOWN && c->cut_reply && !c->way[UP].head) {
        faults.fired++;
        conn_close(c, true);
    } else if (random_below(1000) < faults.reset_permille) {
        conn_close(c, true);
    } else if (faults.drop[d]) {
        way->broken = true;
    } else if (!way->broken && !way->done) {
        if (d == DOWN && random_below(1000) < faults.lie_permille)
            n = (ssize_t)lie(buf, (size_t)n);
        push(c, d, buf, (size_t)n);
    }
}

void conns_event(struct side *side, uint32_t events)
{
    struct conn *c = side->conn;
    int d = side == &c->side[UP] ? UP : DOWN;

    if (c->dead)
        return;
    c->way[!d].blocked = false;
    if (events & ~(uint32_t)EPOLLOUT && c->way[d].end == OPEN)
        on_read(c, d);
}

/* When the next bytes may be sent, INFINITY if that is not a matter of time. */
static double due(const struct way *way, int d)
{
    const struct chunk *chunk = way->head;

    if (!chunk || chunk->held || faults.hold[d] || way->blocked)
        return INFINITY;
    return chunk->due > way->paced ? chunk->due : way->paced;
}

static void send_due(struct conn *c, int d)
{
    struct way *way = &c->way[d];
    double now = now_ms();

    while (due(way, d) <= now) {
        struct chunk *chunk = way->head;
        size_t len = chunk->len - chunk->off;
        if (faults.bandwidth > 0 && (double)len > faults.bandwidth / 100 + 1)
            len = (size_t)(faults.bandwidth / 100) + 1;
        ssize_t n = send(c->side[!d].fd, chunk->data + chunk->off, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            way->blocked = true;
        } else if (n < 0) {
            discard(way);
            way->done = true;
        } else {
            chunk->off += (size_t)n;
            if (faults.bandwidth > 0)
                way->paced = now + (double)n * 1000 / faults.bandwidth;
            if (chunk->off == chunk->len) {
                way->head = chunk->next;
                free(chunk);
            }
        }
    }
}

static void pump(struct conn *c)
{
    for (int d = UP; d <= DOWN && !c->dead; d++) {
        struct way *way = &c->way[d];
        send_due(c, d);
        if (way->head || way->done || way->end == OPEN || faults.hold[d])
            continue;
        if (d == DOWN && way->end == RST) {
            conn_close(c, true);
        } else {
            shutdown(c->side[!d].fd, SHUT_WR);
            way->done = true;
        }
    }
    if (!c->dead && c->way[UP].done && c->way[DOWN].done)
        conn_close(c, false);
    for (int d = UP; d <= DOWN && !c->dead; d++)
        watch(&c->side[d], (c->way[d].end == OPEN ? EPOLLIN : 0u) |
                               (c->way[!d].blocked ? EPOLLOUT : 0u));
}

void conns_pump(void)
{
    for (struct conn *c = conns; c; c = c->next)
        if (!c->dead)
            pump(c);
}

void conns_end(bool reset)
{
    for (struct conn *c = conns; c; c = c->next)
        if (!c->dead)
            conn_close(c, reset);
}

void conns_half_close(int d)
{
    for (struct conn *c = conns; c; c = c->next) {
        if (c->dead || c->way[d].done)
            continue;
        discard(&c->way[d]);
        shutdown(c->side[!d].fd, SHUT_WR);
        c->way[d].done = true;
    }
}

void conns_release(void)
{
    faults.hold_request.len = 0;
    for (struct conn *c = conns; c; c = c->next)
        for (struct chunk *chunk = c->way[UP].head; chunk; chunk = chunk->next)
            chunk->held = false;
}

long conns_held(void)
{
    long n = 0;

    for (struct conn *c = conns; c; c = c->next)
        n += c->way[UP].head && c->way[UP].head->held;
    return n;
}

long conns_carried(void)
{
    long n = 0;

    for (struct conn *c = conns; c; c = c->next) {
        int unread = 0;
        ioctl(c->side[UP].fd, FIONREAD, &unread);
        n += unread || c->way[UP].head || c->way[DOWN].head;
    }
    return n;
}

void conns_sweep(void)
{
    for (struct conn **p = &conns; *p;) {
        struct conn *c = *p;
        if (c->dead) {
            *p = c->next;
            free(c);
        } else {
            p = &c->next;
        }
    }
}

int conns_patience(void)
{
    double next = INFINITY, wait;

    for (struct conn *c = conns; c; c = c->next)
        for (int d = UP; d <= DOWN; d++)
            if (due(&c->way[d], d) < next)
                next = due(&c->way[d], d);
    if (next == INFINITY)
        return -1;
    wait = next - now_ms();
    return wait > 0 ? (int)wait + 1 : 0;
}
