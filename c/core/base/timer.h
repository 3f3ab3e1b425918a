/* timer.h - a binary heap of deadlines. Timers are embedded in their objects. */
#ifndef TIMER_H
#define TIMER_H

#include <stddef.h>
#include <stdint.h>

enum timer_kind {
    TIMER_ROUND,
    TIMER_LEASE,
    TIMER_NODE,
    TIMER_SUBSCRIPTION,
    TIMER_PACE,
    TIMER_HEALTH
};

struct timer {
    int64_t due_ms;
    uint32_t at;             /* position in the heap from 1; 0: not set */
    enum timer_kind kind;
};

struct timers {
    struct timer **heap;     /* heap[0] is unused */
    uint32_t len;
    uint32_t cap;
};

/* The object whose timer this is. */
#define TIMER_OWNER(ptr, type, member) \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

void timers_free(struct timers *ts);

/* Makes room for n timers, so that timer_set() cannot fail. 0, or -1: out of memory. */
int timers_reserve(struct timers *ts, uint32_t n);

/* Sets or moves the timer; INT64_MAX clears it. */
void timer_set(struct timers *ts, struct timer *t, int64_t due_ms);
void timer_clear(struct timers *ts, struct timer *t);

/* Moves a timer that is set, if it is due later than that. */
static inline void timer_hasten(struct timers *ts, struct timer *t, int64_t due_ms)
{
    if (t->at && due_ms < t->due_ms)
        timer_set(ts, t, due_ms);
}

/* The earliest deadline, or INT64_MAX. */
int64_t timers_due_ms(const struct timers *ts);

/* Removes the earliest timer if it is due at now_ms; NULL: none is. */
struct timer *timers_pop(struct timers *ts, int64_t now_ms);

#endif
