/* engine.c - the loop.
 *
 * One thread at a time turns a client's loop: it has the baton, and gives up the mutex only
 * inside net_wait(). It is the thread of an event loop that polls the client's descriptor
 * (mailbox.c), or a caller that waits, while others sleep on a condition variable until
 * the baton is free or their round is done. When neither does, or the event loop is late,
 * the keeper (keeper.c) does what is due. Whoever starts a round writes it.
 */
#include "engine/engine.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>

#include "core/rounds/round.h"
#include "engine/mailbox.h"

/* ---- how long rounds take, once rl_get_times() was called; with the mutex ---- */

enum { FIRST_US = 100 };     /* the first bound */

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* When a caller has begun a round. */
static void times_begin(struct rl_client *c, struct rl_round *round)
{
    if (c->timing && round->kind->timed)
        round->begun_us = now_us();
}

static int bound_of(int64_t us)
{
    int i = 0;
    while (i < RL_TIMES_BOUNDS && us > (int64_t)FIRST_US << i)
        i++;
    return i;
}

/* Before the caller's handle is freed. */
static void times_end(struct rl_client *c, const struct rl_round *round)
{
    if (!round->begun_us || round->outcome != RL_GRANTED)
        return;
    rl_times *times = &c->times[round->kind->timed];
    int64_t us = now_us() - round->begun_us;
    times->sum_us += us;
    times->within[bound_of(us)]++;
}

/* ---- rounds that are done ---- */

void rl_hold(rl_client *c, int on)
{
    if (c)
        c->held = on;
}

void engine_deliver(struct rl_client *c)
{
    rl_round *round;
    if (!c->key)
        return;
    while ((round = round_next(&c->core))) {
        if (round->box)
            mailbox_push(round->box, round);
    }
    int64_t happened = c->core.losses + c->core.node_changes;
    if (happened != c->rung) {
        c->rung = happened;
        mailbox_ring_all();
    }
}

void engine_free(rl_round *round)
{
    times_end(client_of(round->core), round);
    atomic_store(&round->post, ROUND_POSTED);
    struct rl_mailbox *m = round->box;
    if (m)
        mailbox_remove(m, round);
    round_free(round);
}

void engine_leave(struct rl_client *c)
{
    engine_deliver(c);
    int over = c->given_up && c->core.handles == 0;
    engine_unlock(c);
    if (over)
        client_forget(c);
}

/* ---- the loop ---- */

/* Writes this many bytes at once, so that the server can begin. */
enum { HELD_MAX = 16384 };

void engine_flush(struct rl_client *c, int64_t now_ms)
{
    c->unsent_ms = 0;
    net_flush(&c->net, now_ms);
}

void engine_flush_late(struct rl_client *c)
{
    if (c->unsent_ms && c->net.epfd >= 0)
        engine_flush(c, rl_now_ms());
}

static int may_be_late(struct rl_client *c)
{
    const struct core *core = &c->core;
    if (core->closed || core->want_connect | core->want_close)
        return 0;
    if (NODES_WHERE(core, i, buf_len(&core->nodes[i].out) >= HELD_MAX))
        return 0;
    return c->key ? mailbox_gathers(c) : c->held;
}

void engine_send(struct rl_client *c, int64_t now_ms)
{
    if (c->net.epfd < 0)
        return;
    int late = may_be_late(c);
    if (late && c->unsent_ms)
        return;
    c->unsent_ms = now_ms;
    if (!late || keeper_hold(c) < 0)
        engine_flush(c, now_ms);
}

int engine_turn(struct rl_client *c, int block)
{
    struct epoll_event events[NET_EVENTS];
    engine_flush_late(c);
    c->turning = 1;
    engine_unlock(c);
    int count = net_wait(&c->net, events, block ? -1 : 0);
    int failed = count < 0 ? errno : 0;
    engine_lock(c);
    c->turning = 0;
    if (count > 0) {
        int64_t now_ms = net_hear(&c->net, events, count);
        /* The process was stopped: what arrived meanwhile counts before time-outs. */
        if (now_ms - core_due_ms(&c->core) > AWAY_MS)
            now_ms = net_hear(&c->net, events, net_wait(&c->net, events, 0));
        core_tick(&c->core, now_ms);
        net_flush(&c->net, now_ms);
        c->last_turn_ms = now_ms;
    }
    engine_deliver(c);
    pthread_cond_broadcast(&c->turned);
    return failed;
}

int64_t engine_enter(struct rl_client *c)
{
    if (!c)
        return -1;
    engine_lock(c);
    int first = c->net.epfd < 0;           /* use in this process */
    if (!c->core.closed &&
        ((first && c->core.options.signals &&
          signals_catch(c->core.options.signals) < 0) ||
         net_open(&c->net) < 0 || (c->key && keeper_start(c) < 0) ||
         (c->key && !c->loops && mailbox_watch(c) < 0))) {
        engine_leave(c);
        return -1;
    }
    c->late = 0;
    int64_t now_ms = rl_now_ms();
    if (now_ms - c->last_turn_ms > AWAY_MS && !c->turning && !c->core.closed) {
        engine_turn(c, 0);
        now_ms = rl_now_ms();
        c->last_turn_ms = now_ms;
        core_tick(&c->core, now_ms);
    }
    return now_ms;
}

static void send_begun(struct rl_client *c, rl_round *round, int64_t now_ms)
{
    if (round)
        times_begin(c, round);
    if (!c->core.closed) {
        engine_send(c, now_ms);
        keeper_notice(c);
    }
}

rl_round *engine_send_and_leave(struct rl_client *c, rl_round *round, int64_t now_ms)
{
    send_begun(c, round, now_ms);
    engine_leave(c);
    return round;
}

rl_round *engine_queue_and_leave(struct rl_client *c, rl_round *round, int64_t now_ms)
{
    int held = atomic_exchange(&c->held, 1);
    if (round)
        round_notify(round);
    send_begun(c, round, now_ms);
    c->held = held;
    engine_leave(c);
    return round;
}

/* Turns the loop once, or waits while another thread does. 0, or an errno. */
static int turn_or_wait(struct rl_client *c)
{
    if (!c->turning)
        return engine_turn(c, 1);
    keeper_make_way(c);
    pthread_cond_wait(&c->turned, &c->mutex);
    return 0;
}

/* With the mutex. Returns as rl_wait(). */
static int wait_for(struct rl_client *c, const rl_round *round)
{
    int interrupted = 0;
    c->wanting++;
    while (!round->outcome && !interrupted)
        interrupted = turn_or_wait(c) == EINTR;
    c->wanting--;
    keeper_take_over(c);
    return round->outcome ? round->outcome : RL_INTERRUPTED;
}

int engine_wait(struct rl_client *c, rl_round *round, int64_t now_ms)
{
    times_begin(c, round);
    if (!c->core.closed)
        engine_send(c, now_ms);
    int outcome = wait_for(c, round);
    round->signalled = outcome == RL_INTERRUPTED;
    return outcome;
}

int rl_wait(rl_round *round)
{
    struct rl_client *c = client_of(round->core);
    engine_lock(c);
    int outcome = round->signalled ? RL_INTERRUPTED : wait_for(c, round);
    round->signalled = 0;
    engine_unlock(c);
    return outcome;
}

int64_t rl_poll(rl_client *c)
{
    int64_t now_ms = engine_enter(c), due_ms = INT64_MAX;
    if (now_ms < 0)
        return due_ms;
    if (!c->turning && !c->core.closed)
        core_tick(&c->core, now_ms);
    due_ms = core_due_ms(&c->core);
    engine_send_and_leave(c, NULL, now_ms);
    return due_ms;
}

void rl_round_notify(rl_round *round)
{
    struct rl_client *c = client_of(round->core);
    engine_lock(c);
    round_notify(round);
    engine_unlock(c);
}

rl_round *rl_next(rl_client *c, const rl_round *until, int block)
{
    int interrupted = 0;
    struct rl_round *round;
    if (!c)
        return NULL;
    engine_lock(c);
    if (!block && !c->turning && c->net.epfd >= 0)
        engine_turn(c, 0);
    c->wanting++;
    while (!(round = round_next(&c->core)) && !(until && until->outcome) && !interrupted &&
           block && !c->core.closed)
        interrupted = turn_or_wait(c) == EINTR;
    c->wanting--;
    keeper_take_over(c);
    engine_unlock(c);
    return round;
}
