#include "engine/times.h"

#include <string.h>
#include <time.h>

#include "engine/engine.h"

enum { FIRST_US = 100 };     /* the first bound */

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void times_begin(struct rl_client *c, struct rl_round *round)
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

void times_end(struct rl_client *c, const struct rl_round *round)
{
    if (!round->begun_us || round->outcome != RL_GRANTED)
        return;
    rl_times *times = &c->times[round->kind->timed];
    int64_t us = now_us() - round->begun_us;
    times->count++;
    times->sum_us += us;
    times->within[bound_of(us)]++;
}

void rl_get_times(rl_client *c, int kind, rl_times *out)
{
    memset(out, 0, sizeof(*out));
    if (!c || kind <= 0 || kind >= RL_TIMES_KINDS)
        return;
    engine_lock(c);
    c->timing = 1;
    *out = c->times[kind];
    engine_unlock(c);
}
