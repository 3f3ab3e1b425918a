/* clock.h - compares a server's wall clock with our clock. Pure arithmetic.
 *
 * Redis expires keys by the wall clock, so a step of that clock frees locks early, or
 * keeps them too long. The server executed TIME after we sent it and before we read the
 * answer: that interval bounds how well the difference of the clocks is known.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>

struct clock {
    int known;
    int64_t lo_ms, hi_ms;    /* bounds of the server's clock minus ours ... */
    int64_t at_ms;           /* ... at this time of ours */
    int64_t round_trip_ms;   /* of the last sample */
};

/* Adds a sample: TIME was sent at sent_ms, its answer server_ms was read at now_ms.
 * Returns by how many ms, at least, the server's clock was stepped since the samples
 * before: positive forward, negative back; 0: no more than tolerance_ms beyond a drift of
 * drift_ppm. */
int64_t clock_sample(struct clock *clock, int64_t sent_ms, int64_t now_ms,
                     int64_t server_ms, int32_t drift_ppm, int64_t tolerance_ms);

/* The best guess of server minus ours, now. */
int64_t clock_offset_ms(const struct clock *clock);

#endif
