#include "core/base/clock.h"

static int64_t drift(int64_t elapsed_ms, int32_t drift_ppm)
{
    return elapsed_ms * drift_ppm / 1000000 + 1;
}

int64_t clock_sample(struct clock *c, int64_t sent_ms, int64_t now_ms, int64_t server_ms,
                     int32_t drift_ppm, int64_t tolerance_ms)
{
    /* All three are cut to whole milliseconds. If the server answered at once, it has
     * drifted since. */
    int64_t lo_ms = server_ms - now_ms - 1;
    int64_t hi_ms = server_ms - sent_ms + drift(now_ms - sent_ms, drift_ppm);
    int64_t step_ms = 0;
    c->round_trip_ms = now_ms - sent_ms;
    if (c->known) {
        int64_t drift_ms = drift(now_ms - c->at_ms, drift_ppm);
        int64_t was_lo_ms = c->lo_ms - drift_ms, was_hi_ms = c->hi_ms + drift_ms;
        step_ms = lo_ms > was_hi_ms   ? lo_ms - was_hi_ms
                  : hi_ms < was_lo_ms ? hi_ms - was_lo_ms
                                      : 0;
        if (step_ms && step_ms <= tolerance_ms && step_ms >= -tolerance_ms)
            return 0;        /* the old sample stands: small steps add up, drift absorbs */
        if (!step_ms) {
            lo_ms = lo_ms > was_lo_ms ? lo_ms : was_lo_ms;
            hi_ms = hi_ms < was_hi_ms ? hi_ms : was_hi_ms;
        }
    }
    c->known = 1;
    c->lo_ms = lo_ms;
    c->hi_ms = hi_ms;
    c->at_ms = now_ms;
    return step_ms;
}

int64_t clock_offset_ms(const struct clock *c)
{
    return c->lo_ms + (c->hi_ms - c->lo_ms) / 2;
}
