#include "core/subscription.h"

#include <stdlib.h>
#include <string.h>

enum {
    GATHER_MS = 1,                /* from the first notice until the waiters are woken, */
    GATHER_DOUBLINGS = 6,         /* doubled each time it stays without a majority */
    STRAYS_MAX = 10000,           /* messages nobody subscribed for, within a second */
    SAID_MAX = 1024               /* requests that a subscriber has not answered */
};

/* FNV-1a (Fowler, Noll, Vo) */
static struct rl_watch **bucket_of(struct core *core, const char *channel, size_t len)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)channel[i]) * 16777619u;
    return &core->watches[h % WATCH_BUCKETS];
}

static struct rl_watch *find(struct core *core, const char *channel, size_t len)
{
    struct rl_watch *w = *bucket_of(core, channel, len);
    while (w && (w->len != len || memcmp(w->channel, channel, len)))
        w = w->next;
    return w;
}

static void forget(struct rl_watch *w)
{
    struct core *core = w->core;
    struct rl_watch **at = bucket_of(core, w->channel, w->len);
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    core->timers_wanted--;
    free(w);
}

/* Tells server i whether the channel is wanted. One that is behind is told later, of what
 * is so then: what it is told meanwhile would only lie there. */
static void say(struct core *core, int i, struct rl_watch *w, int64_t now_ms)
{
    int link = core->n + i, wanted = w->refs > 0;
    struct node *nd = &core->nodes[link];
    if (nd->state != NODE_READY || wanted == (int)(w->said >> i & 1))
        return;
    if (nd->queue_len >= SAID_MAX ||
        node_subscribe(nd, wanted ? "SUBSCRIBE" : "UNSUBSCRIBE", w->channel, w->len,
                       now_ms) < 0) {
        nd->missed = 1;      /* a hint that is missing costs time, no more */
        return;
    }
    w->said ^= bit(i);
    w->subscribed &= ~bit(i);
    core->want_write |= link_bit(link);
    if (!core->node_timers[link].at)
        timer_set(&core->timers, &core->node_timers[link], node_give_up_ms(nd));
}

static void say_all(struct core *core, int i, int64_t now_ms)
{
    core->nodes[core->n + i].missed = 0;
    for (int b = 0; b < WATCH_BUCKETS; b++) {
        struct rl_watch *next;
        for (struct rl_watch *w = core->watches[b]; w; w = next) {
            next = w->next;
            say(core, i, w, now_ms);
            if (!w->refs && !w->said)
                forget(w);
        }
    }
}

rl_watch *core_watch(struct core *core, const char *channel, size_t len, int64_t now_ms)
{
    struct rl_watch *w = find(core, channel, len);
    if (core->closed || len > WIRE_TEXT_MAX)
        return NULL;
    if (w && w->refs++)
        return w;
    if (!w) {
        if (!(w = core_alloc(core, sizeof(*w))))
            return NULL;
        struct rl_watch **bucket = bucket_of(core, channel, len);
        w->core = core;
        w->refs = 1;
        w->timer.kind = TIMER_WATCH;
        w->len = len;
        memcpy(w->channel, channel, len);
        w->next = *bucket;
        *bucket = w;
    }
    w->notices = 0;
    w->doublings = 0;
    core->watching++;
    core->handles++;
    for (int i = 0; i < core->n; i++) {
        core_reconnect(core, core->n + i, now_ms);
        say(core, i, w, now_ms);
    }
    return w;
}

void core_unwatch(rl_watch *w, int64_t now_ms)
{
    struct core *core = w->core;
    if (--w->refs > 0)
        return;
    while (w->sleepers)
        watch_leave(w->sleepers);
    timer_clear(&core->timers, &w->timer);
    core->watching--;
    core->handles--;
    for (int i = 0; i < core->n; i++)
        say(core, i, w, now_ms);
    if (!w->said)
        forget(w);           /* else when all have been told, or are gone */
}

/* ---- waking ---- */

void watch_leave(struct rl_round *round)
{
    struct rl_round **at = &round->watch->sleepers;
    while (*at != round)
        at = &(*at)->next_sleeper;
    *at = round->next_sleeper;
    round->watch = NULL;
    round->next_sleeper = NULL;
}

static void wake(struct rl_watch *w)
{
    w->wakes++;
    w->notices = 0;
    timer_clear(&w->core->timers, &w->timer);
    while (w->sleepers)
        round_end(w->sleepers, RL_GRANTED);
}

static void wake_opened(struct rl_watch *w)
{
    w->opened++;
    w->doublings = 0;
    wake(w);
}

/* Few servers said so: perhaps the rest cannot. Or those who wait wake each other, with what
 * they take and give back where no majority is to be had. */
void watch_hint(struct rl_watch *w)
{
    w->doublings += w->doublings < GATHER_DOUBLINGS;
    wake(w);
}

static int majority(const struct core *core, uint32_t mask)
{
    return __builtin_popcount(mask) >= quorum_size(core->n);
}

/* Some come after an UNSUBSCRIBE; a server that goes on must not keep us busy. */
static int stray(struct node *nd, int64_t now_ms)
{
    if (now_ms - nd->strays_ms >= 1000) {
        nd->strays_ms = now_ms;
        nd->strays = 0;
    }
    return ++nd->strays > STRAYS_MAX ? -1 : 0;
}

static void hear(struct core *core, int i, struct rl_watch *w, const char *what,
                 int64_t now_ms)
{
    if (!strcmp(what, "subscribe")) {
        int before = majority(core, w->subscribed);
        w->subscribed |= bit(i);
        if (!before && majority(core, w->subscribed))
            wake_opened(w);  /* try again: what was released before was not announced */
    } else if (!strcmp(what, "message")) {
        w->notices |= bit(i);
        if (majority(core, w->notices))
            wake_opened(w);
        else if (!w->timer.at)
            timer_set(&core->timers, &w->timer, now_ms + ((int64_t)GATHER_MS << w->doublings));
    }
}

int watch_message(struct core *core, int i, const struct reply *reply, int64_t now_ms)
{
    struct node *nd = &core->nodes[core->n + i];
    int message = reply->type == REPLY_ARRAY && !strcmp(reply->text, "message");
    int answer = !message && node_confirmed(nd);
    struct rl_watch *w = NULL;       /* NOPERM for the channel, say: no messages from it */
    if (reply->type == REPLY_ARRAY && reply->has_second)
        w = find(core, reply->second, reply->second_len);
    int failed = w || answer ? 0 : stray(nd, now_ms);
    if (w && w->refs)
        hear(core, i, w, reply->text, now_ms);
    if (answer && nd->missed && nd->queue_len == 0)
        say_all(core, i, now_ms);
    return failed;
}

/* ---- connections ---- */

void watch_ready(struct core *core, int i, int64_t now_ms)
{
    say_all(core, i, now_ms);
}

void watch_lost(struct core *core, int i)
{
    for (int b = 0; b < WATCH_BUCKETS; b++) {
        struct rl_watch *next;
        for (struct rl_watch *w = core->watches[b]; w; w = next) {
            next = w->next;
            w->subscribed &= ~bit(i);
            w->said &= ~bit(i);
            if (!w->refs && !w->said)
                forget(w);
        }
    }
}

/* ---- pauses ---- */

rl_round *core_pause(rl_watch *w, int64_t seen, int64_t ms, int64_t now_ms)
{
    rl_round *round = core_sleep(w->core, w->wakes > seen ? 0 : ms, now_ms);
    if (round && w->wakes <= seen) {
        round->watch = w;
        round->next_sleeper = w->sleepers;
        w->sleepers = round;
    }
    return round;
}
