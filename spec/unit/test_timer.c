/* test_timer.c - the heap against a list that is searched. */
#include "core/base/timer.h"

#include "test.h"

enum { MAX = 200 };

/* The model: where a timer stands, or INT64_MAX. */
struct model {
    struct timers ts;
    struct timer timer[MAX];
    int64_t due_ms[MAX];
};

static int64_t model_due(const struct model *m)
{
    int64_t due_ms = INT64_MAX;
    for (int i = 0; i < MAX; i++)
        due_ms = m->due_ms[i] < due_ms ? m->due_ms[i] : due_ms;
    return due_ms;
}

static void check_heap(const struct model *m)
{
    uint32_t set = 0;
    for (int i = 0; i < MAX; i++) {
        const struct timer *t = &m->timer[i];
        if (m->due_ms[i] == INT64_MAX) {
            REQUIRE(t->at == 0);
            continue;
        }
        set++;
        REQUIRE(t->at >= 1 && t->at <= m->ts.len);
        REQUIRE(m->ts.heap[t->at] == t && t->due_ms == m->due_ms[i]);
    }
    REQUIRE(set == m->ts.len);
    for (uint32_t at = 2; at <= m->ts.len; at++)
        REQUIRE(m->ts.heap[at / 2]->due_ms <= m->ts.heap[at]->due_ms);
}

static void model_pop(struct model *m, int64_t now_ms)
{
    int64_t due_ms = model_due(m);
    struct timer *t = timers_pop(&m->ts, now_ms);
    if (due_ms > now_ms) {
        REQUIRE(t == NULL);
        return;
    }
    REQUIRE(t != NULL && t->at == 0 && t->due_ms == due_ms);
    int64_t *due = &m->due_ms[t - m->timer];
    REQUIRE(*due == due_ms);
    *due = INT64_MAX;
}

static void agrees_with_a_list(void)
{
    struct model m = {.ts = {0}};
    struct rng r = {test_seed()};
    REQUIRE(timers_reserve(&m.ts, MAX) == 0);
    for (int i = 0; i < MAX; i++)
        m.due_ms[i] = INT64_MAX;
    for (int k = 0; k < test_runs(4000); k++) {
        int i = rng_below(&r, MAX);
        int64_t at_ms = rng_below(&r, 300);      /* many equal ones */
        switch (rng_below(&r, 6)) {
        case 0:
            timer_clear(&m.ts, &m.timer[i]);
            m.due_ms[i] = INT64_MAX;
            break;
        case 1:
            timer_set(&m.ts, &m.timer[i], INT64_MAX);
            m.due_ms[i] = INT64_MAX;
            break;
        case 2:
            model_pop(&m, at_ms);
            break;
        default:
            timer_set(&m.ts, &m.timer[i], at_ms);
            m.due_ms[i] = at_ms;
            break;
        }
        REQUIRE(timers_due_ms(&m.ts) == model_due(&m));
        check_heap(&m);
    }
    while (m.ts.len)
        model_pop(&m, INT64_MAX - 1);
    CHECK_INT(timers_due_ms(&m.ts), INT64_MAX);
    timers_free(&m.ts);
}

static void pops_in_order(void)
{
    enum { N = 1000 };
    static struct timer timer[N];
    struct timers ts = {0};
    struct rng r = {test_seed()};
    REQUIRE(timers_reserve(&ts, N) == 0);
    for (int i = 0; i < N; i++)
        timer_set(&ts, &timer[i], rng_below(&r, 1 << 20) - (1 << 19));
    int64_t last_ms = INT64_MIN;
    struct timer *t;
    for (int i = 0; i < N; i++) {
        REQUIRE((t = timers_pop(&ts, 1 << 20)) != NULL);
        CHECK(t->due_ms >= last_ms);
        last_ms = t->due_ms;
    }
    CHECK(timers_pop(&ts, INT64_MAX - 1) == NULL);
    timers_free(&ts);
}

static void due_means_not_after_now(void)
{
    struct timers ts = {0};
    struct timer t = {0};
    CHECK_INT(timers_due_ms(&ts), INT64_MAX);
    CHECK(timers_pop(&ts, INT64_MAX - 1) == NULL);
    REQUIRE(timers_reserve(&ts, 1) == 0);
    timer_clear(&ts, &t);                /* not set: nothing happens */
    timer_set(&ts, &t, 100);
    CHECK(timers_pop(&ts, 99) == NULL);
    CHECK(timers_pop(&ts, 100) == &t);
    CHECK(timers_pop(&ts, 100) == NULL);
    timers_free(&ts);
}

/* Timers keep their places while room is made for more of them. */
static void reserving_keeps_what_is_set(void)
{
    enum { N = 1000 };
    static struct timer timer[N];
    struct timers ts = {0};
    for (uint32_t i = 0; i < N; i++) {
        REQUIRE(timers_reserve(&ts, i + 1) == 0);
        timer_set(&ts, &timer[i], N - (int64_t)i);
    }
    CHECK_INT(ts.len, N);
    for (int i = N - 1; i >= 0; i--)
        CHECK(timers_pop(&ts, N) == &timer[i]);
    timers_free(&ts);
}

SUITE(timer, T(agrees_with_a_list), T(pops_in_order), T(due_means_not_after_now),
      T(reserving_keeps_what_is_set));
