/* pace.c - why renewals begin in steps.
 *
 * A server takes 2 us for a renewal in a batch, and the client three times that.
 * Thousands at once delay every later request, and renewals that fall due together do so
 * again a third of the lease later. So they begin in steps. A few begin in one step, as
 * one batch costs the least. When there are many, each step begins enough of them to
 * finish within a 16th of the lease, which spreads them a little more each time. Shorter
 * steps cost the client more (1 ms: half as much again), longer ones raise a neighbour's
 * p99 (make bench: 1.3, 1.7 and 2.3 times its p99 alone, with steps of 1, 2 and 4 ms).
 *
 * A renewal whose lease is half over begins at once, however many are under way. So
 * distant or silent servers cost a lock no more than if it were alone.
 */
#include "core/leases/pace.h"

enum {
    STEP_MS = 2,
    AT_ONCE = 16,            /* renewals that every step may begin */
    SPREAD = 16,             /* renewals due together take a 16th of a lease */
    UNDER_WAY_MAX = 256,     /* renewals under way: bounds a hung server's queue */
    URGENT = 2               /* when half of the lease has passed */
};

int64_t pace_urgent_ms(const struct rl_lease *lease)
{
    return lease->deadline_ms - lease->keep_ms / URGENT;
}

int pace_waits(struct rl_lease *lease, int64_t now_ms)
{
    struct timers *waiting = &lease->core->pace.waiting;
    if (pace_urgent_ms(lease) <= now_ms || timers_reserve(waiting, waiting->len + 1) < 0) {
        timer_clear(waiting, &lease->turn);
        return 0;
    }
    timer_set(waiting, &lease->turn, lease->deadline_ms);
    return 1;
}

static int may_begin(const struct core *core, const struct rl_lease *lease)
{
    const struct pace *pace = &core->pace;
    int64_t spread_ms = lease->keep_ms / SPREAD + 1;
    if (core->unattended >= UNDER_WAY_MAX)
        return 0;
    return pace->begun < AT_ONCE ||
           pace->begun * spread_ms < (int64_t)pace->waiting.len * STEP_MS;
}

struct rl_lease *pace_next(struct core *core, int64_t now_ms)
{
    struct pace *pace = &core->pace;
    if (!pace->waiting.len)
        return NULL;
    if (now_ms >= pace->step_ms) {
        pace->step_ms = now_ms + STEP_MS;
        pace->begun = 0;
    }
    struct rl_lease *lease = TIMER_OWNER(pace->waiting.heap[1], struct rl_lease, turn);
    if (!may_begin(core, lease)) {
        timer_set(&core->timers, &pace->timer, pace->step_ms);
        return NULL;
    }
    pace->begun++;
    timer_clear(&pace->waiting, &lease->turn);
    return lease;
}
