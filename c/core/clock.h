/* clock.h - how a server's wall clock goes beside our clock. Pure arithmetic.
 *
 * Redis expires keys by the wall clock, so a step of that clock frees locks early, or
 * keeps them too long. TIME was executed between our sending it and our reading the
 * answer: the difference of the two clocks is known up to that interval, and no better.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>

struct clock {
    int known;
    int64_t lo_ms, hi_ms;    /* server minus ours lay in between ... */
    int64_t at_ms;           /* ... at this time of ours */
    int64_t round_trip_ms;   /* of the last sample */
};

/* Takes an answer to TIME that was sent at sent_ms, read at now_ms, and says server_ms.
 * By how many ms the server's clock has been stepped since the samples before, at least:
 * positive forward, negative back; 0: by no more than tolerance_ms and a drift of
 * drift_ppm. */
int64_t clock_sample(struct clock *clock, int64_t sent_ms, int64_t now_ms,
                     int64_t server_ms, int32_t drift_ppm, int64_t tolerance_ms);

/* The best guess of server minus ours, now. */
int64_t clock_offset_ms(const struct clock *clock);

#endif
