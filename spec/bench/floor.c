/* floor.c - the least that lock and unlock can cost: one hand-written loop.
 *
 *     floor script|guarded ACQUIRE.lua RELEASE.lua PORT...
 *
 * A cycle acquires and releases one lock on all servers of 127.0.0.1. Each half is done
 * when a majority has answered; late replies are absorbed. Both are the library's scripts.
 * With "guarded", ACQUIRE.lua checks the restart guard's marker; then a cycle sends what
 * the library sends: the server's marker as last argument, and the holder's card.
 *
 * For each line "run CYCLES [IN_FLIGHT]" on stdin it does so many cycles, IN_FLIGHT of
 * them at once (1 by default), and answers with one line:
 *
 *     p50 p99 cycles_per_s user system     of a cycle, in microseconds; CPU of this process
 *
 * What makes it the floor: commands are formatted once, one write per node and turn, one
 * read per readiness, no timers, no checks beyond "everybody said yes", no kernel
 * randomness. All nodes are sent commands of the same length in the same order, so one
 * list of rounds does for all of them.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_NODES = 32,
    MAX_IN_FLIGHT = 1024,
    MAX_CYCLES = 1000000,
    VALUE_LEN = 40,
    SHA_LEN = 40,
    MARKER_LEN = 127,
    COMMAND_ROOM = 256,
    ROUNDS = 1 << 16,        /* a power of two; so far a server may lag behind */
    HANG_MS = 10000
};

struct node {
    int fd;
    uint64_t at;             /* number of the round its next reply belongs to */
    size_t len;              /* input that is not a whole line yet */
    char in[65536];
    char marker[MARKER_LEN + 1];
    char out[2 * MAX_IN_FLIGHT * COMMAND_ROOM];
};

/* One command to all nodes. */
struct round {
    int cycle;
    int release;
    int yes;
};

struct command {
    size_t len;
    size_t value_at;         /* where the value goes */
    size_t marker_at;        /* and the server's marker; 0: nowhere */
    char bytes[COMMAND_ROOM];
};

struct cycle {
    double started_us;
    struct command acquire, release;
};

static struct node nodes[MAX_NODES];
static int n, quorum, epfd;
static struct round rounds[ROUNDS];
static uint64_t next_round;
static struct cycle cycles[MAX_IN_FLIGHT];
static size_t out_len, marker_len;
static double samples[MAX_CYCLES];
static int wanted, started, finished;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now_in_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double us_of(struct timeval t)
{
    return (double)t.tv_sec * 1e6 + (double)t.tv_usec;
}

/* ---- starting up ---- */

static void connect_node(struct node *nd, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    nd->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (nd->fd < 0 || connect(nd->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        die("connect");
    setsockopt(nd->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* The string that a server replies with, in `to`. */
static size_t ask_string(const struct node *nd, const char *command, size_t len, char *to,
                         size_t most)
{
    char reply[256];                    /* it comes in one piece, as it is this short */
    size_t size = 0;
    int at = 0;
    if (send(nd->fd, command, len, MSG_NOSIGNAL) != (ssize_t)len)
        die("send");
    ssize_t k = recv(nd->fd, reply, sizeof(reply) - 1, 0);
    reply[k > 0 ? k : 0] = '\0';
    if (sscanf(reply, "$%zu\r\n%n", &size, &at) != 1 || size > most ||
        k != at + (ssize_t)size + 2) {
        fprintf(stderr, "a server says: %s\n", reply);
        exit(1);
    }
    memcpy(to, reply + at, size);
    to[size] = '\0';
    return size;
}

static void load_script(const struct node *nd, const char *path, char *sha)
{
    static char body[65536], command[sizeof(body) + 128];
    FILE *file = fopen(path, "rb");
    if (!file)
        die(path);
    size_t len = fread(body, 1, sizeof(body), file);
    fclose(file);
    int k = snprintf(command, sizeof(command),
                     "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%.*s\r\n", len,
                     (int)len, body);
    ask_string(nd, command, (size_t)k, sha, SHA_LEN);
}

static void read_marker(struct node *nd)
{
    static const char get[] = "*2\r\n$3\r\nGET\r\n$23\r\nredlock:{server}:marker\r\n";
    size_t len = ask_string(nd, get, sizeof(get) - 1, nd->marker, MARKER_LEN);
    if (marker_len && marker_len != len) {
        fprintf(stderr, "markers differ in length\n");
        exit(1);
    }
    marker_len = len;
}

static void watch(struct node *nd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = nd};
    if (fcntl(nd->fd, F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(epfd, EPOLL_CTL_ADD, nd->fd, &ev) < 0)
        die("epoll");
}

static void format(struct command *c, int argc, const char *const *argv, const char *value)
{
    c->len = (size_t)snprintf(c->bytes, sizeof(c->bytes), "*%d\r\n", argc);
    for (int i = 0; i < argc; i++) {
        c->len += (size_t)snprintf(c->bytes + c->len, sizeof(c->bytes) - c->len,
                                   "$%zu\r\n", strlen(argv[i]));
        if (argv[i] == value)
            c->value_at = c->len;
        if (argv[i] == nodes[0].marker)
            c->marker_at = c->len;
        c->len += (size_t)snprintf(c->bytes + c->len, sizeof(c->bytes) - c->len,
                                   "%s\r\n", argv[i]);
    }
    if (c->len >= sizeof(c->bytes)) {
        fprintf(stderr, "a command is too long\n");
        exit(1);
    }
}

static void format_cycle(int k, int guarded, const char *acquire, const char *release)
{
    char key[32], value[128];
    snprintf(key, sizeof(key), "bench:floor:%d", k);
    snprintf(value, sizeof(value), "%*s%s", VALUE_LEN, "",
             guarded ? " 1a214ce3d5e host 12345 floor.c" : "");
    format(&cycles[k].acquire, guarded ? 7 : 6,
           (const char *[]){"EVALSHA", acquire, "1", key, value, "30000",
                            nodes[0].marker}, value);
    format(&cycles[k].release, 6,
           (const char *[]){"EVALSHA", release, "1", key, value, "30000"}, value);
}

/* ---- cycles ---- */

/* A value that no other cycle has: xorshift64 (Marsaglia 2003) in hexadecimal. */
static void new_value(char *value)
{
    static uint64_t x = 0x9E3779B97F4A7C15;
    for (int i = 0; i < VALUE_LEN; i++) {
        if (i % 16 == 0) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        value[i] = "0123456789abcdef"[x >> i % 16 * 4 & 15];
    }
}

static void ask(int cycle, int release, const struct command *c)
{
    rounds[next_round++ % ROUNDS] = (struct round){.cycle = cycle, .release = release};
    for (int i = 0; i < n; i++) {
        memcpy(nodes[i].out + out_len, c->bytes, c->len);
        if (c->marker_at)
            memcpy(nodes[i].out + out_len + c->marker_at, nodes[i].marker, marker_len);
    }
    out_len += c->len;
}

static void begin(int k, double now_us)
{
    struct cycle *c = &cycles[k];
    char value[VALUE_LEN];
    new_value(value);
    memcpy(c->acquire.bytes + c->acquire.value_at, value, VALUE_LEN);
    memcpy(c->release.bytes + c->release.value_at, value, VALUE_LEN);
    c->started_us = now_us;
    started++;
    ask(k, 0, &c->acquire);
}

static void decided(const struct round *r)
{
    int k = r->cycle;
    if (!r->release) {
        ask(k, 1, &cycles[k].release);
        return;
    }
    double now_us = now_in_us();
    samples[finished++] = now_us - cycles[k].started_us;
    if (started < wanted)
        begin(k, now_us);
}

/* ---- the loop ---- */

static void write_all(void)
{
    if (out_len == 0)
        return;
    for (int i = 0; i < n; i++) {
        if (next_round - nodes[i].at >= ROUNDS ||
            send(nodes[i].fd, nodes[i].out, out_len, MSG_NOSIGNAL) != (ssize_t)out_len)
            die("a server hangs");
    }
    out_len = 0;
}

static void read_node(struct node *nd)
{
    ssize_t k = recv(nd->fd, nd->in + nd->len, sizeof(nd->in) - nd->len, 0);
    if (k <= 0)
        die("recv");
    char *line = nd->in, *end = nd->in + nd->len + k, *eol;
    while ((eol = memchr(line, '\n', (size_t)(end - line)))) {
        struct round *r = &rounds[nd->at++ % ROUNDS];
        if (memcmp(line, ":1\r", 3) != 0) {
            fprintf(stderr, "a server says: %.*s\n", (int)(eol - line), line);
            exit(1);
        }
        if (++r->yes == quorum)
            decided(r);
        line = eol + 1;
    }
    nd->len = (size_t)(end - line);
    memmove(nd->in, line, nd->len);
}

static void turn(void)
{
    struct epoll_event events[MAX_NODES];
    write_all();
    int count = epoll_wait(epfd, events, MAX_NODES, HANG_MS);
    if (count <= 0)
        die("no answer");
    for (int i = 0; i < count; i++)
        read_node(events[i].data.ptr);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(int count, int in_flight)
{
    struct rusage before, after;
    wanted = count;
    started = finished = 0;
    getrusage(RUSAGE_SELF, &before);
    double from_us = now_in_us();
    for (int k = 0; k < in_flight && k < count; k++)
        begin(k, now_in_us());
    while (finished < count)
        turn();
    double took_us = now_in_us() - from_us;
    for (int i = 0; i < n; i++) {
        while (nodes[i].at != next_round)
            turn();
    }
    getrusage(RUSAGE_SELF, &after);
    qsort(samples, (size_t)count, sizeof(*samples), by_size);
    printf("%.2f %.2f %.1f %.3f %.3f\n", samples[count / 2], samples[count * 99LL / 100],
           count / took_us * 1e6, (us_of(after.ru_utime) - us_of(before.ru_utime)) / count,
           (us_of(after.ru_stime) - us_of(before.ru_stime)) / count);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char acquire[SHA_LEN + 1], release[SHA_LEN + 1], line[128];
    int guarded = argc > 1 && strcmp(argv[1], "guarded") == 0;
    n = argc - 4;
    if (n < 1 || n > MAX_NODES || (!guarded && strcmp(argv[1], "script") != 0)) {
        fprintf(stderr, "usage: floor script|guarded ACQUIRE.lua RELEASE.lua PORT...\n");
        return 2;
    }
    quorum = n / 2 + 1;
    epfd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < n; i++) {
        connect_node(&nodes[i], atoi(argv[4 + i]));
        load_script(&nodes[i], argv[2], acquire);
        load_script(&nodes[i], argv[3], release);
        if (guarded)
            read_marker(&nodes[i]);
        watch(&nodes[i]);
    }
    for (int k = 0; k < MAX_IN_FLIGHT; k++)
        format_cycle(k, guarded, acquire, release);
    while (fgets(line, sizeof(line), stdin)) {
        int count = 0, in_flight = 1;
        if (sscanf(line, "run %d %d", &count, &in_flight) < 1 || count < 1 ||
            count > MAX_CYCLES || in_flight < 1 || in_flight > MAX_IN_FLIGHT) {
            fprintf(stderr, "cannot do: %s", line);
            return 2;
        }
        run(count, in_flight);
    }
    return 0;
}
