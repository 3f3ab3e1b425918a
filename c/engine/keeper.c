#include "engine/keeper.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/eligibility/guard.h"
#include "engine/engine.h"

static void arm(struct keeper *k, int64_t due_ms)
{
    net_arm(k->timerfd, due_ms);
    k->armed_ms = due_ms;
}

/* Sleeps without the mutex until due_ms, or until another thread sets an earlier time. */
static void sleep_off(struct rl_client *c, int64_t due_ms)
{
    struct keeper *k = &c->keeper;
    uint64_t ticks;
    if (due_ms < k->armed_ms)
        arm(k, due_ms);
    k->sleeping = 1;
    engine_unlock(c);
    ssize_t ignored = read(k->timerfd, &ticks, sizeof(ticks));
    (void)ignored;
    engine_lock(c);
    k->sleeping = 0;
    k->armed_ms = INT64_MAX;
}

enum { UNUSED_LOOK_MS = 2500 };

static int64_t due_ms_of(const struct rl_client *c)
{
    int64_t due_ms = core_due_ms(&c->core);
    if (c->unsent_ms && c->unsent_ms < due_ms)
        due_ms = c->unsent_ms + 1;
    if (!c->key || c->users)
        return due_ms;
    int64_t look_ms = rl_now_ms() + UNUSED_LOOK_MS;
    return due_ms < look_ms ? due_ms : look_ms;
}

/* Closes an unused client from its own thread, which no caller can join. */
static void close_unused(struct rl_client *c)
{
    pthread_detach(c->keeper.thread);
    c->keeper.running = 0;
    close(c->keeper.timerfd);
    engine_unlock(c);
    client_close_unused(c);
}

/* Whether an event loop turns the client, and is not late. */
static int loop_turns(const struct rl_client *c)
{
    return c->loops && !c->late;
}

/* Whether answers may lie unread: a loop need not poll while nobody waits. */
static int loop_is_idle(const struct rl_client *c, int64_t now_ms)
{
    return loop_turns(c) && !c->turning && now_ms - c->last_turn_ms >= AWAY_MS &&
           core_unread(&c->core);
}

/* When the keeper looks after the loop. */
static int64_t look_ms_of(const struct rl_client *c, int64_t due_ms)
{
    if (core_unread(&c->core)) {
        int64_t now_ms = rl_now_ms();
        due_ms = due_ms < now_ms ? due_ms : now_ms;
    }
    return due_ms < INT64_MAX ? due_ms + AWAY_MS : INT64_MAX;
}

static void turn_or_sleep(struct rl_client *c)
{
    int64_t now_ms = rl_now_ms(), due_ms = due_ms_of(c);
    if (due_ms <= now_ms - AWAY_MS)
        c->late = 1;
    if (loop_is_idle(c, now_ms)) {
        engine_turn(c, 0);
        c->last_turn_ms = now_ms;
    } else if (loop_turns(c)) {
        sleep_off(c, look_ms_of(c, due_ms));
    } else if (c->unsent_ms && now_ms > c->unsent_ms) {
        engine_flush(c, now_ms);
    } else if (c->unsent_ms) {
        sleep_off(c, c->unsent_ms + 1);
    } else if ((c->turning || c->wanting) && due_ms > now_ms) {
        sleep_off(c, due_ms);        /* the callers' turns do not wake it */
    } else if (c->turning || c->wanting) {
        pthread_cond_wait(&c->turned, &c->mutex);
    } else if (core_busy(&c->core) || core_timing(&c->core)) {
        c->keeper.turning = 1;
        engine_turn(c, 1);
        c->keeper.turning = 0;
    } else if (due_ms <= now_ms) {
        engine_turn(c, 0);           /* what has arrived counts first */
        now_ms = rl_now_ms();
        core_tick(&c->core, now_ms);
        net_flush(&c->net, now_ms);
        engine_deliver(c);
    } else {
        sleep_off(c, due_ms);
    }
}

static void *keeper_thread(void *arg)
{
    struct rl_client *c = arg;
    engine_lock(c);
    while (!c->keeper.stop) {
        if (client_is_unused(c)) {
            close_unused(c);
            return NULL;
        }
        turn_or_sleep(c);
    }
    if (c->tls)
        tls_thread_end();        /* with the mutex, which keeps forks out */
    engine_unlock(c);
    return NULL;
}

int keeper_start(struct rl_client *c)
{
    struct keeper *k = &c->keeper;
    sigset_t all, old;
    if (k->running)
        return 0;
    k->timerfd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (k->timerfd < 0)
        return -1;
    k->armed_ms = INT64_MAX;
    k->stop = k->sleeping = k->turning = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    k->running = pthread_create(&k->thread, NULL, keeper_thread, c) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (k->running)
        return 0;
    close(k->timerfd);
    return -1;
}

void keeper_notice(struct rl_client *c)
{
    struct keeper *k = &c->keeper;
    if (!k->running)
        return;
    int64_t due_ms = due_ms_of(c);
    if (loop_turns(c))
        due_ms = look_ms_of(c, due_ms);
    else if (!c->unsent_ms && core_busy(&c->core))
        due_ms = 1;
    if (!k->sleeping)
        pthread_cond_broadcast(&c->turned);
    else if (due_ms < k->armed_ms)
        arm(k, due_ms);
}

int keeper_hold(struct rl_client *c)
{
    if (keeper_start(c) < 0)
        return -1;
    keeper_notice(c);
    return 0;
}

void keeper_take_over(struct rl_client *c)
{
    if (c->turning || c->wanting || c->core.closed)
        return;              /* others turn the loop */
    if (!c->keeper.running &&
        (c->core.held || core_busy(&c->core) || core_owes_away(&c->core) ||
         guard_idles(&c->core)))
        keeper_start(c);     /* if that fails, the next caller continues */
    keeper_notice(c);
}

void keeper_make_way(struct rl_client *c)
{
    if (c->keeper.turning)
        net_wake(c->net.wakefd);
}

void keeper_stop(struct rl_client *c)
{
    struct keeper *k = &c->keeper;
    if (k->stop) {           /* another thread is stopping it */
        while (k->running)
            pthread_cond_wait(&c->turned, &c->mutex);
        return;
    }
    if (!k->running)
        return;
    k->stop = 1;
    arm(k, 1);
    pthread_cond_broadcast(&c->turned);
    engine_unlock(c);
    pthread_join(k->thread, NULL);
    engine_lock(c);
    k->running = 0;
    pthread_cond_broadcast(&c->turned);
    close(k->timerfd);
}

void keeper_void(struct rl_client *c)
{
    if (c->keeper.running)
        close(c->keeper.timerfd);
    c->keeper.running = c->keeper.stop = c->keeper.turning = 0;
}
