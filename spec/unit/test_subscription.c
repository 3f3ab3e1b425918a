/* test_subscription.c - when messages wake those who wait: at once for a majority, later
 * and later for fewer. */
#include "core/close.h"
#include "core/core.h"
#include "core/rounds/subscription.h"
#include "node/health.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static struct core core;
static rl_subscription *subscription;
static int64_t now_ms;

static void begin(void)
{
    static struct node_config config[5];           /* the nodes refer to it */
    for (int i = 0; i < 5; i++)
        config[i] = (struct node_config){.timeout_ms = 100, .connect_timeout_ms = 100};
    now_ms = 1000;
    REQUIRE(core_init(&core, config, 5, 10000, 1) == 0);
    subscription = subscription_open(&core, "c", 1, now_ms);
    REQUIRE(subscription);
}

static void finish(void)
{
    subscription_close(subscription, now_ms);
    CHECK_INT(core.handles, 0);
    close_free(&core);
}

/* A test with a core and its subscription: SUBSCRIPTION_TEST(name) { ... } */
#define SUBSCRIPTION_TEST(name)    \
    static void name##_of(void);   \
    static void name(void)         \
    {                              \
        begin();                   \
        name##_of();               \
        finish();                  \
    }                              \
    static void name##_of(void)

static void hear(int i, const char *what)
{
    struct reply reply = {.type = REPLY_ARRAY, .has_text = 1, .has_second = 1,
                          .second_len = 1, .second = "c"};
    strcpy(reply.text, what);
    CHECK_INT(subscription_message(&core, i, &reply, now_ms), 0);
}

/* Milliseconds until a pause ends after messages from two of five. */
static int64_t hint_ms(void)
{
    rl_round *pause = subscription_pause(&core, subscription, subscription->wakes, 1000, now_ms);
    int64_t from_ms = now_ms;
    hear(0, "message");
    hear(3, "message");
    while (pause->outcome == 0)
        core_tick(&core, ++now_ms);
    round_free(pause);
    return now_ms - from_ms;
}

SUBSCRIPTION_TEST(a_majority_wakes_at_once)
{
    rl_round *pause = subscription_pause(&core, subscription, 0, 1000, now_ms);
    hear(0, "message");
    hear(0, "message");
    hear(1, "message");
    CHECK_INT(pause->outcome, 0);
    hear(4, "message");
    CHECK_INT(pause->outcome, RL_GRANTED);
    CHECK_INT(subscription->wakes, 1);
    CHECK_INT(subscription->opened, 1);
    round_free(pause);
    pause = subscription_pause(&core, subscription, 0, 1000, now_ms);    /* woken before that began */
    core_tick(&core, now_ms);
    CHECK_INT(pause->outcome, RL_GRANTED);
    round_free(pause);
}

SUBSCRIPTION_TEST(fewer_wake_later_and_later)
{
    static const int64_t expected_ms[] = {1, 2, 4, 8, 16, 32, 64, 64, 64};
    for (int k = 0; k < 9; k++)
        CHECK_INT(hint_ms(), expected_ms[k]);
    CHECK_INT(subscription->wakes, 9);
    CHECK_INT(subscription->opened, 0);
    for (int i = 0; i < 3; i++)
        hear(i, "message");
    CHECK_INT(subscription->opened, 1);
    CHECK_INT(hint_ms(), 1);
}

SUBSCRIPTION_TEST(a_subscribed_majority_wakes)
{
    rl_round *pause = subscription_pause(&core, subscription, 0, 1000, now_ms);
    hear(0, "subscribe");
    hear(1, "subscribe");
    CHECK_INT(pause->outcome, 0);
    hear(2, "subscribe");
    CHECK_INT(pause->outcome, RL_GRANTED);
    hear(3, "subscribe");
    CHECK_INT(subscription->wakes, 1);
    round_free(pause);
}

/* More channels than there are buckets, closed in another order than opened. */
SUBSCRIPTION_TEST(each_hears_its_own)
{
    enum { CHANNELS = 3 * SUBSCRIPTION_BUCKETS };
    rl_subscription *all[CHANNELS];
    for (int i = 0; i < CHANNELS; i++) {
        char name[8];
        int len = snprintf(name, sizeof(name), "c%d", i);
        all[i] = subscription_open(&core, name, (size_t)len, now_ms);
        REQUIRE(all[i]);
        CHECK(subscription_open(&core, name, (size_t)len, now_ms) == all[i]);
        subscription_close(all[i], now_ms);
    }
    for (int i = 0; i < CHANNELS; i++) {
        struct reply reply = {.type = REPLY_ARRAY, .has_text = 1, .has_second = 1};
        strcpy(reply.text, "message");
        reply.second_len = (size_t)snprintf(reply.second, sizeof(reply.second), "c%d", i);
        for (int k = 0; k < 3; k++)
            CHECK_INT(subscription_message(&core, k, &reply, now_ms), 0);
        CHECK_INT(all[i]->opened, 1);
        CHECK_INT(all[(i + 1) % CHANNELS]->opened, i == CHANNELS - 1);
    }
    CHECK_INT(subscription->opened, 0);
    for (int i = 0; i < CHANNELS; i++)       /* 7 and 768 have no factor in common */
        subscription_close(all[(i * 7 + 5) % CHANNELS], now_ms);
}

/* ---- a subscriber's connection ---- */

/* Server 0's, connected; nothing said is taken out of the buffer. */
static struct node *connect_0(void)
{
    struct node *nd = &core.nodes[5];
    REQUIRE(nd->state == NODE_CONNECTING);
    core_connected(&core, 5, now_ms);
    core_feed(&core, 5, "+PONG\r\n", 7, now_ms);
    REQUIRE(nd->state == NODE_READY);
    core.want_write = core.want_connect = core.want_close = 0;
    return nd;
}

/* Server 0 confirms n requests. */
static void confirm(int n, const char *what, const char *channel)
{
    char line[64];
    int len = snprintf(line, sizeof(line), "*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:1\r\n",
                       (int)strlen(what), what, (int)strlen(channel), channel);
    while (n-- > 0)
        core_feed(&core, 5, line, (size_t)len, now_ms);
}

/* Whoever pauses on a channel that is closed, or whose subscriber is lost, sleeps on until
 * its own time. */
SUBSCRIPTION_TEST(pauses_outlast_their_channel)
{
    rl_subscription *other = subscription_open(&core, "d", 1, now_ms);
    rl_round *first = subscription_pause(&core, other, 0, 1000, now_ms);
    rl_round *second = subscription_pause(&core, other, 0, 2000, now_ms);
    rl_round *third = subscription_pause(&core, subscription, 0, 1000, now_ms);
    connect_0();
    core_lost(&core, 5, RL_REFUSED, "connection reset", now_ms);
    subscription_close(other, now_ms);
    CHECK(!first->subscription && !second->subscription);
    CHECK(third->subscription == subscription);
    core_tick(&core, now_ms += 999);
    CHECK(!first->outcome && !second->outcome && !third->outcome);
    core_tick(&core, now_ms += 1);
    CHECK_INT(first->outcome, RL_GRANTED);
    CHECK_INT(second->outcome, RL_OK);
    CHECK_INT(third->outcome, RL_GRANTED);
    core_tick(&core, now_ms += 1000);
    CHECK_INT(second->outcome, RL_GRANTED);
    round_free(first);
    round_free(second);
    round_free(third);
}

/* What it had confirmed counts no more, and what is still wanted is asked for again. */
SUBSCRIPTION_TEST(a_lost_subscriber_is_asked_again)
{
    struct node *nd = connect_0();
    hear(0, "subscribe");
    hear(1, "subscribe");
    core_lost(&core, 5, RL_REFUSED, "connection reset", now_ms);
    hear(2, "subscribe");
    CHECK_INT(subscription->wakes, 0);               /* two of five */
    core_tick(&core, now_ms += 5000);
    connect_0();
    CHECK_INT(nd->queue_len, 1);
    CHECK(memmem(nd->out.data + nd->out.start, buf_len(&nd->out),
                 "\r\nSUBSCRIBE\r\n$1\r\nc\r\n", 20) != NULL);
}

SUBSCRIPTION_TEST(the_child_of_a_fork_subscribes_anew)
{
    connect_0();
    hear(0, "subscribe");
    close_void(&core);
    CHECK_INT(subscription->requested | subscription->subscribed, 0);
    core_tick(&core, now_ms += 5000);
    subscription_close(subscription_open(&core, "d", 1, now_ms), now_ms);
    CHECK_INT(connect_0()->queue_len, 1);
}

/* A channel that is closed is remembered for a subscriber that is behind, until that is lost. */
SUBSCRIPTION_TEST(a_lost_subscriber_ends_closed_channels)
{
    struct node *nd = connect_0();
    int live = (int)core.timers_wanted;
    while (!nd->missed) {
        rl_subscription *other = subscription_open(&core, "d", 1, now_ms);
        subscription_close(other, now_ms);
    }
    CHECK_INT(core.timers_wanted, live + 1);
    core_lost(&core, 5, RL_REFUSED, "connection reset", now_ms);
    CHECK_INT(core.timers_wanted, live);
}

SUBSCRIPTION_TEST(a_silent_subscriber_is_given_up)
{
    struct node *nd = connect_0();
    CHECK_INT(nd->queue_len, 1);
    now_ms += 300;
    confirm(1, "subscribe", "c");
    CHECK_INT(nd->queue_len, 0);
    core_tick(&core, now_ms += 100000);              /* nothing is awaited */
    CHECK_INT(nd->state, NODE_READY);
    rl_subscription *other = subscription_open(&core, "d", 1, now_ms);
    confirm(3, "message", "c");                      /* no answer, but it is there */
    CHECK_INT(nd->queue_len, 1);
    int64_t until_ms = health_give_up_ms(nd);
    CHECK_INT(until_ms, now_ms + 400);
    core_tick(&core, until_ms - 1);
    CHECK_INT(nd->state, NODE_READY);
    now_ms = until_ms;
    core_tick(&core, now_ms);
    CHECK(core.want_close & link_bit(5));
    CHECK_INT(nd->code, RL_TIMEOUT);
    CHECK_INT(nd->queue_len, 0);
    subscription_close(other, now_ms);
}

/* Channels come and go while a server says nothing: what it is told is bounded, and in the
 * end it has been told what is so. */
SUBSCRIPTION_TEST(a_subscriber_that_is_behind_is_told_later)
{
    enum { TIMES = 5000 };
    struct node *nd = connect_0();
    for (int i = 0; i < TIMES; i++) {
        char name[8];
        size_t len = (size_t)snprintf(name, sizeof(name), "n%d", i);
        subscription_close(subscription_open(&core, name, len, now_ms), now_ms);
    }
    CHECK(nd->queue_len < TIMES / 2);
    CHECK(nd->missed);
    size_t bytes = buf_len(&nd->out);
    rl_subscription *other = subscription_open(&core, "d", 1, now_ms);
    subscription_close(subscription, now_ms);
    CHECK_INT(buf_len(&nd->out), bytes);
    buf_take(&nd->out, bytes);
    int behind = (int)nd->queue_len;
    confirm(1, "unsubscribe", "x");
    CHECK_INT(nd->queue_len, behind - 1);            /* not before it has read all */
    confirm(behind - 1, "unsubscribe", "x");
    CHECK(!nd->missed);
    const char *told = nd->out.data + nd->out.start;
    CHECK_INT(nd->queue_len, 3);         /* of d, c, and the last one that it was told of */
    CHECK(memmem(told, buf_len(&nd->out), "\r\nSUBSCRIBE\r\n$1\r\nd\r\n", 20) != NULL);
    CHECK(memmem(told, buf_len(&nd->out), "\r\nUNSUBSCRIBE\r\n$1\r\nc\r\n", 22) != NULL);
    subscription = subscription_open(&core, "c", 1, now_ms);
    CHECK_INT(nd->queue_len, 4);
    confirm(2, "subscribe", "d");
    subscription_close(other, now_ms);
}

SUITE(subscription, T(pauses_outlast_their_channel), T(a_lost_subscriber_is_asked_again),
      T(the_child_of_a_fork_subscribes_anew),
      T(a_lost_subscriber_ends_closed_channels),
      T(a_silent_subscriber_is_given_up),
      T(a_subscriber_that_is_behind_is_told_later), T(a_majority_wakes_at_once), T(fewer_wake_later_and_later),
      T(a_subscribed_majority_wakes), T(each_hears_its_own));
