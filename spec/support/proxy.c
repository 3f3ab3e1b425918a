/*
 * proxy PORT TARGET...
 *
 * Forwards TCP connections from 127.0.0.1:PORT to 127.0.0.1:TARGET, each to the next one, and does
 * them the harm it is told to by lines on stdin, see run().  Each is answered
 * by "ok NUMBER" once it is in force.
 */
#include "carry.h"
#include "net.h"

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define FILLERS 2

static int port, targets[8], target_count, target_next;
static struct side door, control; /* the listening socket and stdin */
static struct { int fd, port; } fillers[FILLERS];
static bool refusing, blackhole;
static long accepted;

static bool is_filler(int from)
{
    for (int i = 0; i < FILLERS; i++)
        if (blackhole && fillers[i].port == from)
            return true;
    return false;
}

static void accept_all(void)
{
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    int fd;

    while ((fd = accept4(door.fd, (struct sockaddr *)&from, &len,
                         SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        bool filler = is_filler(ntohs(from.sin_port));
        accepted += !filler;
        if (filler || refusing)
            close_fd(fd, true);
        else
            conns_open(fd, targets[target_next++ % target_count]);
    }
}

/* With its accept queue full the kernel ignores requests for connections. */
static void set_blackhole(bool on)
{
    struct sockaddr_in addr;
    socklen_t len = sizeof addr;

    if (on == blackhole)
        return;
    accept_all();
    listen(door.fd, on ? 0 : 1024);
    for (int i = 0; i < FILLERS; i++) {
        if (on) {
            fillers[i].fd = connect_to(port);
            getsockname(fillers[i].fd, (struct sockaddr *)&addr, &len);
            fillers[i].port = ntohs(addr.sin_port);
        } else {
            close(fillers[i].fd);
        }
    }
    if (!on)
        accept_all();
    watch(&door, on ? 0 : EPOLLIN);
    blackhole = on;
}

static void set_pattern(struct pattern *pattern, const char *hex)
{
    unsigned byte;

    pattern->len = 0;
    while (pattern->len < sizeof pattern->bytes && sscanf(hex, "%2x", &byte) == 1) {
        pattern->bytes[pattern->len++] = (char)byte;
        hex += 2;
    }
}

static void set_ways(int setting[2], const char *dir, const char *value)
{
    if (strcmp(dir, "down") != 0)
        setting[UP] = atoi(value);
    if (strcmp(dir, "up") != 0)
        setting[DOWN] = atoi(value);
}

/* "least-most", in ms */
static void set_spread(const char *dir, const char *permille, const char *range)
{
    struct spread spread = {.permille = atoi(permille)};

    sscanf(range, "%d-%d", &spread.least, &spread.most);
    if (strcmp(dir, "down") != 0)
        faults.spread[UP] = spread;
    if (strcmp(dir, "up") != 0)
        faults.spread[DOWN] = spread;
}

static void end_all(bool reset)
{
    if (!blackhole)
        accept_all(); /* those the kernel has established already, too */
    conns_end(reset);
}

static long run(const char *name, const char *a, const char *b, const char *c)
{
    long answer = 0;

    if (strcmp(name, "delay") == 0) /* up|down|both MS */
        set_ways(faults.delay, a, b);
    else if (strcmp(name, "drop") == 0) /* up|down|both 0|1 */
        set_ways(faults.drop, a, b);
    else if (strcmp(name, "hold") == 0) /* up|down|both 0|1 */
        set_ways(faults.hold, a, b);
    else if (strcmp(name, "spread") == 0) /* up|down|both PERMILLE LEAST-MOST */
        set_spread(a, b, c);
    else if (strcmp(name, "reset") == 0) /* PERMILLE */
        faults.reset_permille = atoi(a);
    else if (strcmp(name, "lie") == 0) /* PERMILLE */
        faults.lie_permille = atoi(a);
    else if (strcmp(name, "seed") == 0) /* of spread, reset and lie */
        faults.random = strtoull(a, NULL, 10) | 1;
    else if (strcmp(name, "half_close") == 0) /* up|down */
        conns_half_close(strcmp(a, "down") == 0 ? DOWN : UP);
    else if (strcmp(name, "bandwidth") == 0) /* BYTES_PER_SECOND */
        faults.bandwidth = atof(a);
    else if (strcmp(name, "cut") == 0) /* ends all connections with RST */
        end_all(true);
    else if (strcmp(name, "close") == 0) /* ends all connections with FIN */
        end_all(false);
    else if (strcmp(name, "cut_after_request") == 0) /* HEX */
        set_pattern(&faults.cut_request, a);
    else if (strcmp(name, "hold_request") == 0) /* HEX */
        set_pattern(&faults.hold_request, a);
    else if (strcmp(name, "release") == 0) /* what hold_request holds */
        conns_release();
    else if (strcmp(name, "refuse") == 0) /* 0|1: RST every new connection */
        refusing = atoi(a) != 0;
    else if (strcmp(name, "blackhole_connect") == 0) /* 0|1 */
        set_blackhole(atoi(a) != 0);
    else if (strcmp(name, "count") == 0) /* connections accepted so far */
        answer = accepted;
    else if (strcmp(name, "fired") == 0) /* replies cut off so far */
        answer = faults.fired;
    else if (strcmp(name, "held") == 0) /* connections held now */
        answer = conns_held();
    else if (strcmp(name, "carried") == 0) /* connections with bytes on their way now */
        answer = conns_carried();
    else
        answer = -1;
    return answer;
}

static void on_command(void)
{
    char line[1200], name[32] = "", a[1100] = "", b[16] = "", c[32] = "";

    if (!fgets(line, sizeof line, stdin))
        exit(0);
    sscanf(line, "%31s %1099s %15s %31s", name, a, b, c);
    long answer = run(name, a, b, c);
    conns_pump();
    printf("%s %ld\n", answer < 0 ? "err" : "ok", answer);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct epoll_event events[64];

    if (argc < 3) {
        fprintf(stderr, "usage: %s PORT TARGET...\n", argv[0]);
        return 2;
    }
    port = atoi(argv[1]);
    for (int k = 2; k < argc && target_count < 8; k++)
        targets[target_count++] = atoi(argv[k]);
    poller = epoll_create1(EPOLL_CLOEXEC);
    door.fd = listen_on(port, SOCK_NONBLOCK | SOCK_CLOEXEC);
    watch(&door, EPOLLIN);
    watch(&control, EPOLLIN);
    puts("ok 0");
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(poller, events, 64, conns_patience());
        for (int i = 0; i < n; i++) {
            struct side *side = events[i].data.ptr;
            if (side == &control)
                on_command();
            else if (side == &door)
                accept_all();
            else
                conns_event(side, events[i].events);
        }
        conns_pump();
        conns_sweep();
    }
}
