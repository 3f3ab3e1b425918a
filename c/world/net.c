/* net.c - replaces c/io/net.c and c/engine/keeper.c: moves bytes between a core and the
 * world. See net.h and engine.h for the contracts. */
#include "world/world.h"

#include "core/core.h"
#include "io/linger.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* Epoll tag beyond the links, as in c/io/net.c. */
enum { TAG_TIMER = 2 * RL_MAX_NODES };

/* wakefd is the number of the process, not a descriptor. */
static struct process *process_of(const struct net *net)
{
    return &world.process[net->wakefd];
}

int net_init(struct net *net, struct core *core, const struct net_address *addresses,
             int n)
{
    net->core = core;
    net->epfd = -1;
    net->wakefd = world.current;
    net->n = 2 * n;
    net->conns = calloc((size_t)net->n, sizeof(*net->conns));
    if (!net->conns)
        return -1;
    for (int i = 0; i < net->n; i++) {
        net->conns[i].address = &addresses[i % n];
        net->conns[i].fd = -1;
    }
    process_of(net)->client = client_of(core);
    return 0;
}

int net_open(struct net *net)
{
    net->epfd = 0;
    return 0;
}

static void close_conn(struct net *net, int i)
{
    struct conn *c = &net->conns[i];
    if (c->fd >= 0)
        link_close(c->fd);
    c->fd = -1;
    c->up = 0;
    process_of(net)->ready &= ~link_bit(i);
}

void net_void(struct net *net)
{
    for (int i = 0; i < net->n; i++)
        close_conn(net, i);
    net->epfd = -1;
}

void net_finish(struct net *net)
{
    process_of(net)->client = NULL;
}

static void lost(struct net *net, int i, const char *why, int64_t now_ms)
{
    close_conn(net, i);
    core_lost(net->core, i, RL_REFUSED, why, now_ms);
}

static void write_conn(struct net *net, int i)
{
    struct buf *out = core_out(net->core, i);
    while (buf_len(out) > 0) {
        long k = link_write(net->conns[i].fd, out->data + out->start, buf_len(out));
        if (k <= 0)
            return;          /* the window is full: link.c notifies when it has room */
        buf_take(out, (size_t)k);
    }
}

static void read_conn(struct net *net, int i, int64_t now_ms)
{
    struct conn *c = &net->conns[i];
    long k = -1;
    while (c->fd >= 0 && (k = link_read(c->fd, net->input, NET_READ)) > 0)
        core_feed(net->core, i, net->input, (size_t)k, now_ms);
    if (c->fd >= 0 && k == 0)
        lost(net, i, "read: closed by the server", now_ms);
}

/* By the clock that the engine reads, so that a wrong choice of clock has its effect. */
static int64_t wake_us(const struct process *p, int process, int64_t due_ms)
{
    world.current = process;
    int64_t wait_ms = due_ms - rl_now_ms();
    if (wait_ms <= 0)
        return world.now_us;
    double wait_us = ((double)wait_ms * 1000 - (double)(local_us(p) % 1000)) / p->rate;
    return world.now_us + 1 + (int64_t)(wait_us > 0 ? wait_us : 0);
}

static void set_timer(struct net *net)
{
    struct process *p = process_of(net);
    int64_t due_ms = core_due_ms(net->core);
    if (due_ms == INT64_MAX)
        return;
    int64_t at_us = wake_us(p, net->wakefd, due_ms);
    if (at_us >= p->wake_us)
        return;
    p->wake_us = at_us;
    world_push(at_us, EV_WAKE, net->wakefd, 0);
}

void net_flush(struct net *net, int64_t now_ms)
{
    struct core *core = net->core;
    int i;
    (void)now_ms;
    while (core->want_close | core->want_connect | core->want_write) {
        while ((i = take_bit(&core->want_close)) >= 0)
            close_conn(net, i);
        while ((i = take_bit(&core->want_connect)) >= 0)
            net->conns[i].fd = link_open(net->wakefd, net->conns[i].address->port - 1, i);
        while ((i = take_bit(&core->want_write)) >= 0) {
            if (net->conns[i].up)
                write_conn(net, i);
        }
    }
    set_timer(net);
}

int linger_awaits(const struct net *net, int64_t now_ms, int64_t until_ms)
{
    (void)net, (void)now_ms, (void)until_ms;
    return 0;
}

/* Only sim_run() moves bytes: a client that closes sends nothing any more. */
void linger_until(struct net *net, int64_t until_ms)
{
    (void)net, (void)until_ms;
}

int net_wait(const struct net *net, void *to, int ms)
{
    struct epoll_event *events = to;
    struct process *p = process_of(net);
    int count = 0, i;
    (void)ms;                /* only sim_run() waits */
    world.current = net->wakefd;
    if (core_due_ms(net->core) <= rl_now_ms())
        events[count++].data.u32 = TAG_TIMER;
    while ((i = take_bit(&p->ready)) >= 0)
        events[count++].data.u32 = (uint32_t)i;
    return count;
}

int64_t net_hear(struct net *net, const void *from, int count)
{
    const struct epoll_event *events = from;
    int64_t now_ms = rl_now_ms();
    for (int k = 0; k < count; k++) {
        int i = (int)events[k].data.u32;
        if (i == TAG_TIMER)
            continue;
        struct conn *c = &net->conns[i];
        if (net->core->want_close >> i & 1)
            continue;            /* an earlier event closes it, as in io/net.c */
        int state = c->fd < 0 ? 0 : link_state(c->fd);
        if (state < 0) {
            lost(net, i, "connect: refused", now_ms);
        } else if (state > 0 && !c->up) {
            c->up = 1;
            core_connected(net->core, i, now_ms);
        } else if (c->up) {
            read_conn(net, i, now_ms);
            if (c->up)
                write_conn(net, i);
        }
    }
    return now_ms;
}

void net_wake(int wakefd)
{
    process_notice(wakefd);
}

/* ---- the keeper: process_turn() works in its place ---- */

int keeper_start(struct rl_client *c)
{
    if (!c->keeper.running) {
        c->keeper.running = 1;
        process_notice(c->net.wakefd);
    }
    return 0;
}

int keeper_hold(struct rl_client *c)
{
    c->keeper.running = 1;
    world_push(world.now_us + sim_random(1001), EV_TURN, c->net.wakefd, 0);
    return 0;
}

void keeper_notice(struct rl_client *c)
{
    if (c->keeper.running)
        set_timer(&c->net);
}

void keeper_take_over(struct rl_client *c)
{
    if (c->turning || c->wanting || c->core.closed)
        return;
    if (!c->keeper.running &&
        (c->core.held || core_busy(&c->core) || core_owes_away(&c->core)))
        keeper_start(c);
    keeper_notice(c);
}

void keeper_make_way(struct rl_client *c)
{
    (void)c;
}

void keeper_stop(struct rl_client *c)
{
    c->keeper.running = 0;
}

void keeper_void(struct rl_client *c)
{
    c->keeper.running = 0;
}
