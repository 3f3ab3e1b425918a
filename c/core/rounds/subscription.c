#include "core/rounds/subscription.h"

#include <stdlib.h>
#include <string.h>

enum {
    GATHER_MS = 1,                /* from the first message until waiters are woken, */
    GATHER_DOUBLINGS = 6,         /* doubled each time no majority sent one */
    STRAYS_MAX = 10000,           /* messages without a subscription, in one second */
    SAID_MAX = 1024               /* unanswered requests of one subscriber */
};

/* FNV-1a (Fowler, Noll, Vo) */
static struct rl_subscription **bucket_of(struct core *core, const char *channel,
                                          size_t len)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)channel[i]) * 16777619u;
    return &core->subscriptions[h % SUBSCRIPTION_BUCKETS];
}

static struct rl_subscription *find(struct core *core, const char *channel, size_t len)
{
    struct rl_subscription *s = *bucket_of(core, channel, len);
    while (s && (s->len != len || memcmp(s->channel, channel, len)))
        s = s->next;
    return s;
}

static void forget(struct rl_subscription *s)
{
    struct core *core = s->core;
    struct rl_subscription **at = bucket_of(core, s->channel, s->len);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    core->timers_wanted--;
    free(s);
}

/* Tells server i whether the channel is wanted. A server that has fallen behind is told
 * when it has caught up: until then changes would only queue up. */
static void tell_server(struct core *core, int i, struct rl_subscription *s, int64_t now_ms)
{
    int link = core->n + i, wanted = s->refs > 0;
    struct node *nd = &core->nodes[link];
    if (nd->state != NODE_READY || wanted == (int)(s->requested >> i & 1))
        return;
    if (nd->queue_len >= SAID_MAX ||
        node_subscribe(nd, wanted ? "SUBSCRIBE" : "UNSUBSCRIBE", s->channel, s->len,
                       now_ms) < 0) {
        nd->missed = 1;      /* a missing hint costs only time */
        return;
    }
    s->requested ^= bit(i);
    s->subscribed &= ~bit(i);
    state_write(core, link);
}

void subscription_tell(struct core *core, int i, int64_t now_ms)
{
    core->nodes[core->n + i].missed = 0;
    for (int b = 0; b < SUBSCRIPTION_BUCKETS; b++) {
        struct rl_subscription *next;
        for (struct rl_subscription *s = core->subscriptions[b]; s; s = next) {
            next = s->next;
            tell_server(core, i, s, now_ms);
            if (!s->refs && !s->requested)
                forget(s);
        }
    }
}

static void leave(struct rl_round *round)
{
    struct rl_round **at = &round->subscription->sleepers;
    while (*at != round)
        at = &(*at)->next_sleeper;
    *at = round->next_sleeper;
    round->subscription = NULL;
    round->next_sleeper = NULL;
}

rl_subscription *subscription_open(struct core *core, const char *channel, size_t len,
                                   int64_t now_ms)
{
    struct rl_subscription *s = find(core, channel, len);
    if (core->closed || len > WIRE_TEXT_MAX)
        return NULL;
    if (s && s->refs++)
        return s;
    if (!s) {
        if (!(s = state_alloc(core, sizeof(*s))))
            return NULL;
        struct rl_subscription **bucket = bucket_of(core, channel, len);
        s->core = core;
        s->refs = 1;
        s->timer.kind = TIMER_SUBSCRIPTION;
        s->len = len;
        memcpy(s->channel, channel, len);
        s->next = *bucket;
        *bucket = s;
    }
    s->notices = 0;
    s->doublings = 0;
    core->subscriptions_len++;
    core->handles++;
    for (int i = 0; i < core->n; i++) {
        state_reconnect(core, core->n + i, now_ms);
        tell_server(core, i, s, now_ms);
    }
    return s;
}

void subscription_close(rl_subscription *s, int64_t now_ms)
{
    struct core *core = s->core;
    if (--s->refs > 0)
        return;
    while (s->sleepers)
        leave(s->sleepers);
    timer_clear(&core->timers, &s->timer);
    core->subscriptions_len--;
    core->handles--;
    for (int i = 0; i < core->n; i++)
        tell_server(core, i, s, now_ms);
    if (!s->requested)
        forget(s);           /* else when all are told, or disconnected */
}

/* ---- waking ---- */

static void wake(struct rl_subscription *s)
{
    s->wakes++;
    s->notices = 0;
    timer_clear(&s->core->timers, &s->timer);
    while (s->sleepers)
        round_end(s->sleepers, RL_GRANTED);
}

static void wake_opened(struct rl_subscription *s)
{
    s->opened++;
    s->doublings = 0;
    wake(s);
}

/* Few servers sent a message: perhaps the rest cannot. Or waiters without a majority wake
 * each other by taking and releasing keys. */
void subscription_hint(struct rl_subscription *s)
{
    s->doublings += s->doublings < GATHER_DOUBLINGS;
    wake(s);
}

/* Some come after an UNSUBSCRIBE; a server that never stops must not keep us busy. */
static int stray(struct node *nd, int64_t now_ms)
{
    if (now_ms - nd->strays_ms >= 1000) {
        nd->strays_ms = now_ms;
        nd->strays = 0;
    }
    return ++nd->strays > STRAYS_MAX ? -1 : 0;
}

static void hear(struct core *core, int i, struct rl_subscription *s, const char *what,
                 int64_t now_ms)
{
    if (!strcmp(what, "subscribe")) {
        int before = state_majority(core, s->subscribed);
        s->subscribed |= bit(i);
        if (!before && state_majority(core, s->subscribed))
            wake_opened(s);  /* no message announced what was released before */
    } else if (!strcmp(what, "message")) {
        s->notices |= bit(i);
        if (state_majority(core, s->notices))
            wake_opened(s);
        else if (!s->timer.at)
            timer_set(&core->timers, &s->timer,
                      now_ms + ((int64_t)GATHER_MS << s->doublings));
    }
}

int subscription_message(struct core *core, int i, const struct reply *reply,
                         int64_t now_ms)
{
    struct node *nd = &core->nodes[core->n + i];
    int message = reply->type == REPLY_ARRAY && !strcmp(reply->text, "message");
    int answer = !message && node_confirmed(nd);
    struct rl_subscription *s = NULL;    /* an error, such as NOPERM, names none */
    if (reply->type == REPLY_ARRAY && reply->has_second)
        s = find(core, reply->second, reply->second_len);
    int failed = s || answer ? 0 : stray(nd, now_ms);
    if (s && s->refs)
        hear(core, i, s, reply->text, now_ms);
    if (answer && nd->missed && nd->queue_len == 0)
        subscription_tell(core, i, now_ms);
    return failed;
}

/* ---- connections ---- */

void subscription_lost(struct core *core, int i)
{
    for (int b = 0; b < SUBSCRIPTION_BUCKETS; b++) {
        struct rl_subscription *next;
        for (struct rl_subscription *s = core->subscriptions[b]; s; s = next) {
            next = s->next;
            s->subscribed &= ~bit(i);
            s->requested &= ~bit(i);
            if (!s->refs && !s->requested)
                forget(s);
        }
    }
}

/* ---- pauses ---- */

static void pause_ended(struct rl_round *round)
{
    if (round->subscription)
        leave(round);
}

static const struct round_kind pause_kind = {
    .pause = 1,
    .ended = pause_ended,
};

rl_round *subscription_pause(struct core *core, rl_subscription *s, int64_t seen, int64_t ms,
                             int64_t now_ms)
{
    rl_round *round = core->closed ? NULL : round_new(core, &pause_kind, -1, NULL, NULL);
    if (!round)
        return NULL;
    int over = s && s->wakes > seen;
    round->cap_ms = over ? now_ms : now_ms + ms;
    round_begin(round_handle(round), now_ms);
    if (s && !over) {
        round->subscription = s;
        round->next_sleeper = s->sleepers;
        s->sleepers = round;
    }
    return round;
}
