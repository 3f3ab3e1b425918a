/* monotonic.c - the clocks: the one for all deadlines, which never steps and counts time
 * in suspend, and the time of day. */
#include "redlock.h"

#include <time.h>

static int64_t clock_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t rl_now_ms(void)
{
    return clock_ms(CLOCK_BOOTTIME);
}

int64_t rl_unix_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}
