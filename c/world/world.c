/* world.c - true time, chance, processes and their clocks, the queue of events. */
#include "world/world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "core/close.h"
#include "core/leases/lease.h"

struct world world;

/* ---- chance ---- */

/* splitmix64 (Steele, Lea, Flood 2014): any seed will do, also 0, 1, 2, ... */
static uint64_t chance(void)
{
    uint64_t z = world.random += 0x9E3779B97F4A7C15ULL;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
    return z ^ z >> 31;
}

uint32_t sim_random(uint32_t n)
{
    return (uint32_t)((chance() >> 32) * n >> 32);
}

uint64_t sim_swap_chance(uint64_t state)
{
    uint64_t before = world.random;
    world.random = state;
    return before;
}

/* Replaces libc's: for the values of leases, and the seed of the core's jitter. */
ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t r = chance();
        memcpy((char *)buf + i, &r, len - i < 8 ? len - i : 8);
    }
    return (ssize_t)len;
}

/* ---- events ---- */

struct event {
    int64_t at_us;
    uint64_t seq;
    uint64_t b;
    int32_t a;
    int32_t kind;
};

static struct {
    struct event *heap;      /* heap[0] is unused */
    uint32_t len, cap;
    uint64_t seq;
} events;

static int before(const struct event *x, const struct event *y)
{
    return x->at_us != y->at_us ? x->at_us < y->at_us : x->seq < y->seq;
}

void world_push(int64_t at_us, enum event_kind kind, int a, uint64_t b)
{
    if (events.len + 2 > events.cap) {
        events.cap = events.cap ? 2 * events.cap : 1024;
        events.heap = realloc(events.heap, events.cap * sizeof(*events.heap));
        assert(events.heap);
    }
    struct event e = {at_us < world.now_us ? world.now_us : at_us, events.seq++, b, a, kind};
    uint32_t at = ++events.len;
    for (; at > 1 && before(&e, &events.heap[at / 2]); at /= 2)
        events.heap[at] = events.heap[at / 2];
    events.heap[at] = e;
}

static struct event pop(void)
{
    struct event top = events.heap[1], last = events.heap[events.len--];
    uint32_t at = 1, child;
    while ((child = at * 2) <= events.len) {
        if (child < events.len && before(&events.heap[child + 1], &events.heap[child]))
            child++;
        if (!before(&events.heap[child], &last))
            break;
        events.heap[at] = events.heap[child];
        at = child;
    }
    events.heap[at] = last;
    return top;
}

double sim_now(void)
{
    return (double)world.now_us;
}

double sim_local_ms(void)
{
    return (double)rl_now_ms();
}

void sim_at(double at_us, int32_t id, int process)
{
    world_push((int64_t)at_us, EV_TIMER, id, (uint64_t)(process + 1));
}

/* ---- clocks ---- */

static const int64_t EPOCH_US = 1700000000000000;  /* the wall clock at time 0 */

int64_t local_us(const struct process *p)
{
    return (int64_t)(p->offset_us + (double)world.now_us * p->rate);
}

int64_t true_us(const struct process *p, int64_t local_ms)
{
    double at_us = ((double)local_ms * 1000 - p->offset_us) / p->rate;
    int64_t whole_us = (int64_t)at_us;
    return whole_us + ((double)whole_us < at_us);
}

/* Replaces the kernel's, for the engine. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    const struct process *p = &world.process[world.current];
    int64_t us = local_us(p);
    if (id == CLOCK_REALTIME)
        us = EPOCH_US + world.now_us + (int64_t)p->wall_us;
    else if (id == CLOCK_MONOTONIC)
        us -= (int64_t)p->suspended_us;
    t->tv_sec = us / 1000000;
    t->tv_nsec = us % 1000000 * 1000;
    return 0;
}

/* ---- processes ---- */

int sim_process(double offset_us, double rate, int eager)
{
    assert(world.processes < SIM_PROCESSES);
    struct process *p = &world.process[world.processes];
    *p = (struct process){.offset_us = offset_us,
                          .rate = rate,
                          .eager = eager,
                          .wake_us = INT64_MAX};
    return world.processes++;
}

void sim_enter(int process)
{
    world.current = process;
}

int process_may_turn(const struct process *p, int due)
{
    const struct rl_client *c = p->client;
    if (!c || p->dead || p->stopped_until_us > world.now_us)
        return 0;
    return p->eager || p->waiting > 0 ||
           (c->keeper.running && (due || core_busy(&c->core)));
}

void process_notice(int k)
{
    struct process *p = &world.process[k];
    if (p->turn_queued || p->dead)
        return;
    p->turn_queued = 1;
    world_push(p->stopped_until_us, EV_TURN, k, 0);
}

void sim_waiting(int process, int change)
{
    struct process *p = &world.process[process];
    p->waiting += change;
    if (change >= 0 && p->client)
        process_notice(process);
}

void sim_stop(int process, double until_us, int suspended)
{
    struct process *p = &world.process[process];
    if ((int64_t)until_us <= p->stopped_until_us || p->dead)
        return;
    if (suspended)
        p->suspended_us += until_us - sim_now();
    p->stopped_until_us = (int64_t)until_us;
    p->turn_queued = 0;
    process_notice(process);
}

int sim_stopped(int process)
{
    return world.process[process].stopped_until_us > world.now_us;
}

void sim_step_wall(int process, double us)
{
    world.process[process].wall_us += us;
}

void sim_step_boot(int process, double us)
{
    world.process[process].offset_us += us;
    process_notice(process);             /* it may be late */
}

void sim_kill(int process)
{
    struct process *p = &world.process[process];
    p->dead = 1;
    if (p->client)
        net_void(&p->client->net);
}

void sim_fork(int process)
{
    struct rl_client *c = world.process[process].client;
    if (!c)
        return;
    net_void(&c->net);
    close_void(&c->core);
    keeper_void(c);
    world.process[process].ready = 0;
    process_notice(process);         /* its rounds have ended */
}

int sim_owes_in_vain(int process)
{
    const struct rl_client *c = world.process[process].client;
    int owed[RL_MAX_NODES] = {0}, wrong = 0;
    if (!c || world.process[process].dead)
        return 0;
    for (const rl_lease *l = c->core.owing; l; l = l->next) {
        wrong |= (l->owed & ~l->releasing & ~l->touched) != 0;
        for (int i = 0; i < c->core.n; i++)
            owed[i] += l->owed >> i & 1;
    }
    for (int i = 0; i < c->core.n; i++)
        wrong |= owed[i] != c->core.nodes[i].stats.owed;
    return wrong;
}

/* ---- holds: what the cores hold, compared with what they held before ---- */

struct shadow {
    const rl_lease *lease;
    int64_t deadline_ms;
    char value[RL_VALUE_MAX];
    size_t value_len;
    int seen;
};

enum { SHADOWS = 64, STUCK = 100000 };

static struct {
    struct shadow item[SHADOWS];
    int len;
} shadows[SIM_PROCESSES];

static int looked_at;            /* process whose holds may have changed; -1: none */
static int round_done;           /* sim_run() returns world.step.round after the holds */

static void report_hold(int process, int what, const struct shadow *s)
{
    sim_hold *h = &world.step.hold;
    world.step.process = process;
    h->what = what;
    h->deadline_ms = s->deadline_ms;
    h->until_us = (double)true_us(&world.process[process], s->deadline_ms);
    memcpy(h->value, s->value, s->value_len);
    h->value_len = (int32_t)s->value_len;
    h->key.data = NULL;
    h->key.len = 0;
}

/* A lease's command begins with the number of keys and the keys, all bulk strings. */
static void report_key(const rl_lease *lease)
{
    const char *at = memchr(lease->cmd->bytes, '\n', lease->cmd->len);
    at = memchr(at + 1, '\n', 32);
    char *end;
    world.step.hold.key.len = strtoul(at + 2, &end, 10);
    world.step.hold.key.data = end + 2;
}

/* True: world.step.hold has one change; there may be more. */
static int hold_changed(int process)
{
    const struct rl_client *c = world.process[process].client;
    int k, len = shadows[process].len;
    struct shadow *item = shadows[process].item;
    for (k = 0; k < len; k++)
        item[k].seen = 0;
    for (const rl_lease *l = c && !world.process[process].dead ? c->core.held : NULL; l;
         l = l->next) {
        if (l->promised_ms)
            continue;            /* lost, though not released yet */
        for (k = 0; k < len; k++) {
            if (item[k].lease == l && !memcmp(item[k].value, cmd_value(l->cmd).data, RL_VALUE_LEN))
                break;
        }
        if (k == SHADOWS)
            continue;
        item[k].seen = 1;
        if (k < len && item[k].deadline_ms == l->deadline_ms)
            continue;
        item[k].lease = l;
        item[k].deadline_ms = l->deadline_ms;
        rl_bytes value = cmd_value(l->cmd);
        item[k].value_len = value.len;
        memcpy(item[k].value, value.data, value.len);
        shadows[process].len += k == len;
        report_hold(process, k == len ? 1 : 2, &item[k]);
        world.step.hold.token = l->token;
        report_key(l);
        return 1;
    }
    for (k = 0; k < len; k++) {
        if (item[k].seen)
            continue;
        report_hold(process, 3, &item[k]);
        item[k] = item[len - 1];
        shadows[process].len--;
        return 1;
    }
    return 0;
}

/* ---- running ---- */

/* Turns the loop of the process if it may. True: one of its rounds is done. */
static int process_turn(int k, int due)
{
    struct process *p = &world.process[k];
    if (!process_may_turn(p, due))
        return 0;
    world.current = k;
    world.step.process = k;
    world.step.round = rl_next(p->client, NULL, 0);
    if (due && !world.step.round && !p->eager && p->waiting == 0) {
        core_tick(&p->client->core, rl_now_ms());            /* like the keeper thread */
        net_flush(&p->client->net, rl_now_ms());
    }
    looked_at = k;
    if (world.step.round)
        process_notice(k);           /* more rounds may be done */
    return world.step.round != NULL;
}

/* Sets the process's timer. A timer that is due waits for the next turn of the loop. */
static void process_arm(struct process *p)
{
    struct rl_client *c = p->client;
    if (c && !p->dead && c->net.epfd >= 0 && core_due_ms(&c->core) > rl_now_ms())
        net_flush(&c->net, rl_now_ms());
}

static int process_wake(int k, int64_t at_us)
{
    struct process *p = &world.process[k];
    if (p->wake_us == at_us)
        p->wake_us = INT64_MAX;
    if (!p->client || p->dead)
        return 0;
    if (p->stopped_until_us > world.now_us) {
        process_notice(k);
        return 0;
    }
    world.current = k;
    int64_t due_ms = core_due_ms(&p->client->core), now_ms = rl_now_ms();
    int done = due_ms <= now_ms && process_turn(k, 1);
    process_arm(p);
    return done;
}

static int process_run(int k)
{
    struct process *p = &world.process[k];
    p->turn_queued = 0;
    if (p->stopped_until_us > world.now_us) {
        process_notice(k);
        return 0;
    }
    world.current = k;
    int done = process_turn(k, p->client && core_due_ms(&p->client->core) <= rl_now_ms());
    process_arm(p);
    return done;
}

static int happen(const struct event *e)
{
    const struct process *p;
    switch ((enum event_kind)e->kind) {
    case EV_TIMER:
        p = e->b ? &world.process[e->b - 1] : NULL;
        if (p && p->dead)
            return SIM_NOTHING;
        if (p && p->stopped_until_us > world.now_us) {
            world_push(p->stopped_until_us, EV_TIMER, e->a, e->b);
            return SIM_NOTHING;
        }
        world.step.id = e->a;
        world.step.process = (int)e->b - 1;
        return SIM_TIMER;
    case EV_WAKE:
        return process_wake(e->a, e->at_us) ? SIM_ROUND : SIM_NOTHING;
    case EV_TURN:
        return process_run(e->a) ? SIM_ROUND : SIM_NOTHING;
    default:
        return link_event((enum event_kind)e->kind, e->a, e->b) ? SIM_COMMAND : SIM_NOTHING;
    }
}

sim_step *sim_record(void)
{
    return &world.step;
}

int sim_run(void)
{
    /* Lua ran for the current process, and may have begun or ended holds. */
    if (looked_at < 0)
        looked_at = world.current;
    for (int same = 0;;) {
        world.step.now_us = (double)world.now_us;
        while (looked_at >= 0) {
            if (hold_changed(looked_at))
                return SIM_HOLD;
            looked_at = -1;
        }
        if (round_done) {
            round_done = 0;
            return SIM_ROUND;
        }
        if (link_serve_on())
            return SIM_COMMAND;
        if (events.len == 0)
            return SIM_NOTHING;
        struct event e = pop();
        assert(e.at_us >= world.now_us);
        same = e.at_us == world.now_us ? same + 1 : 0;
        if (same == STUCK)
            return SIM_STUCK;
        world.now_us = e.at_us;
        world.step.now_us = (double)world.now_us;
        int why = happen(&e);
        if (why == SIM_ROUND)
            round_done = 1;
        else if (why != SIM_NOTHING)
            return why;
    }
}

void sim_reset(uint64_t seed)
{
    events.len = 0;
    events.seq = 0;
    looked_at = -1;
    round_done = 0;
    for (int k = 0; k < SIM_PROCESSES; k++)
        shadows[k].len = 0;
    memset(&world, 0, sizeof(world));
    world.random = seed;
    links_reset();
}
