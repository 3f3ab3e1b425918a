#include "core/base/timer.h"

#include <assert.h>
#include <stdlib.h>

void timers_free(struct timers *ts)
{
    free(ts->heap);
    *ts = (struct timers){0};
}

int timers_reserve(struct timers *ts, uint32_t n)
{
    if (n + 1 <= ts->cap)
        return 0;
    uint32_t cap = ts->cap ? ts->cap : 64;
    while (cap < n + 1)
        cap *= 2;
    struct timer **heap = realloc(ts->heap, cap * sizeof(*heap));
    if (!heap)
        return -1;
    ts->heap = heap;
    ts->cap = cap;
    return 0;
}

static void place(struct timers *ts, uint32_t at, struct timer *t)
{
    ts->heap[at] = t;
    t->at = at;
}

/* Puts the timer where it belongs, from `at` on: towards the root, or away from it. */
static void sift(struct timers *ts, struct timer *t, uint32_t at)
{
    for (; at > 1 && ts->heap[at / 2]->due_ms > t->due_ms; at /= 2)
        place(ts, at, ts->heap[at / 2]);
    for (;;) {
        uint32_t child = at * 2;
        if (child > ts->len)
            break;
        if (child < ts->len && ts->heap[child + 1]->due_ms < ts->heap[child]->due_ms)
            child++;
        if (ts->heap[child]->due_ms >= t->due_ms)
            break;
        place(ts, at, ts->heap[child]);
        at = child;
    }
    place(ts, at, t);
}

void timer_set(struct timers *ts, struct timer *t, int64_t due_ms)
{
    if (due_ms == INT64_MAX) {
        timer_clear(ts, t);
        return;
    }
    uint32_t at = t->at;
    if (!at) {
        assert(ts->len + 1 < ts->cap);
        at = ++ts->len;
    }
    t->due_ms = due_ms;
    sift(ts, t, at);
}

void timer_clear(struct timers *ts, struct timer *t)
{
    uint32_t at = t->at;
    if (!at)
        return;
    t->at = 0;
    struct timer *last = ts->heap[ts->len--];
    if (last != t)
        sift(ts, last, at);
}

int64_t timers_due_ms(const struct timers *ts)
{
    return ts->len ? ts->heap[1]->due_ms : INT64_MAX;
}

struct timer *timers_pop(struct timers *ts, int64_t now_ms)
{
    if (timers_due_ms(ts) > now_ms)
        return NULL;
    struct timer *t = ts->heap[1];
    timer_clear(ts, t);
    return t;
}
