/* engine.c - the loop.
 *
 * A caller that waits turns the loop: it takes the baton, and gives up the mutex only
 * inside net_wait(). Other callers sleep on a condition variable until the baton is free
 * or their round is done. When no caller waits, the keeper (keeper.c) does what is due.
 */
#include "engine/engine.h"

#include <errno.h>
#include <sys/epoll.h>

#include "core/rounds/round.h"
#include "engine/mailbox.h"
#include "engine/signals.h"
#include "engine/times.h"

void rl_hold(rl_client *c, int on)
{
    if (!c)
        return;
    c->net.held = on;
    if (on || !c->key)
        return;
    engine_lock(c);
    c->net.kick = c->net.kicked;
    engine_unlock(c);
}

/* Wakes only after it unlocks: the woken thread finds the mutex free. */
void engine_unlock(struct rl_client *c)
{
    struct rl_mailbox *box = c->ringing;
    int wakefd = net_kick(&c->net);
    c->ringing = NULL;
    if (wakefd >= 0)
        c->kicking++;
    pthread_mutex_unlock(&c->mutex);
    if (wakefd >= 0) {
        net_wake(wakefd);
        c->kicking--;        /* now rl_close() may close wakefd */
    }
    if (box)
        rl_mailbox_ring(box);
}

void engine_deliver(struct rl_client *c)
{
    rl_round *round;
    if (!c->key)
        return;
    while ((round = round_next(&c->core))) {
        struct rl_mailbox *box = round->box;
        if (!box || !mailbox_push(box, round))
            continue;
        if (c->ringing && c->ringing != box)
            rl_mailbox_ring(c->ringing);
        c->ringing = box;
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

void engine_hear(struct rl_client *c, struct epoll_event *events, int count,
                 int64_t now_ms)
{
    net_dispatch(&c->net, events, count, now_ms);
    /* The process was stopped: what arrived meanwhile counts before time-outs. */
    if (now_ms - core_due_ms(&c->core) > AWAY_MS) {
        count = net_wait(&c->net, events, 0);
        net_collect(&c->net, events, count);
        now_ms = rl_now_ms();
        net_dispatch(&c->net, events, count, now_ms);
    }
    core_tick(&c->core, now_ms);
}

/* Writes this many bytes at once, so that the server can begin. */
enum { HELD_MAX = 16384 };

void engine_flush(struct rl_client *c, int64_t now_ms)
{
    c->unsent_ms = 0;
    net_flush(&c->net, now_ms);
}

static int may_be_late(const struct rl_client *c)
{
    const struct core *core = &c->core;
    if (!c->net.held || c->key || core->closed || core->want_connect | core->want_close)
        return 0;
    for (int i = 0; i < core->n; i++) {
        if (buf_len(&core->nodes[i].out) >= HELD_MAX)
            return 0;
    }
    return 1;
}

void engine_send(struct rl_client *c, int64_t now_ms)
{
    if (c->net.epfd < 0 || (c->unsent_ms && may_be_late(c)))
        return;
    c->unsent_ms = now_ms;
    if (!may_be_late(c) || keeper_hold(c) < 0)
        engine_flush(c, now_ms);
}

int engine_turn(struct rl_client *c, int block)
{
    struct epoll_event events[NET_EVENTS];
    if (c->unsent_ms)
        engine_flush(c, rl_now_ms());
    c->turning = 1;
    engine_unlock(c);
    int count = net_wait(&c->net, events, block ? -1 : 0);
    int failed = count < 0 ? errno : 0;
    engine_lock(c);
    c->turning = 0;
    if (count > 0) {
        net_collect(&c->net, events, count);
        int64_t now_ms = rl_now_ms();
        engine_hear(c, events, count, now_ms);
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
        ((first && c->signals && signals_catch(c->signals) < 0) ||
         net_open(&c->net) < 0 || (c->key && keeper_start(c) < 0))) {
        engine_leave(c);
        return -1;
    }
    int64_t now_ms = rl_now_ms();
    if (now_ms - c->last_turn_ms > AWAY_MS && !c->turning && !c->key &&
        !c->core.closed) {
        engine_turn(c, 0);
        now_ms = rl_now_ms();
        c->last_turn_ms = now_ms;
        core_tick(&c->core, now_ms);
    }
    return now_ms;
}

rl_round *engine_send_and_leave(struct rl_client *c, rl_round *round, int64_t now_ms)
{
    if (round)
        times_begin(c, round);
    if (!c->core.closed) {
        engine_send(c, now_ms);
        if (!c->key)
            keeper_notice(c);
    }
    engine_leave(c);
    return round;
}

rl_round *engine_queue_and_leave(struct rl_client *c, rl_round *round, int64_t now_ms)
{
    int held = atomic_exchange(&c->net.held, 1);
    if (round) {
        times_begin(c, round);
        round_notify(round);
    }
    if (!c->core.closed) {
        engine_send(c, now_ms);
        keeper_notice(c);
    }
    c->net.held = held;
    engine_leave(c);
    return round;
}

/* Turns the loop once, or waits while another thread does. 0, or an errno. */
static int turn_or_wait(struct rl_client *c)
{
    if (!c->turning && !c->key)
        return engine_turn(c, 1);
    keeper_make_way(c);
    int wakefd = net_kick(&c->net);       /* for what this caller has begun */
    if (wakefd >= 0)
        net_wake(wakefd);
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
    if (!c->turning && !c->key && !c->core.closed)
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
    if (!block && !c->turning && !c->key && c->net.epfd >= 0)
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
