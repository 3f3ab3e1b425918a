#include "core/leases/holder.h"

#include "core/leases/release.h"
#include "core/leases/watchdog.h"

static struct rl_round *ended_at_once(struct rl_round *round, int outcome)
{
    round_handle(round);
    round->outcome = outcome;
    return round;
}

rl_round *holder_extend(rl_lease *lease, int64_t lease_ms, int64_t now_ms)
{
    struct rl_round *round = watchdog_extension(lease, lease_ms);
    if (!round)
        return NULL;
    if (lease->core->closed)
        return ended_at_once(round, RL_CLOSED);
    if (lease->primitive.extend < 0)
        return ended_at_once(round, RL_UNSUPPORTED);
    if (lease_void(lease) || lease->state != LEASE_HELD)
        return ended_at_once(round, RL_NOT_HELD);
    if (now_ms >= lease->deadline_ms)
        return ended_at_once(round, RL_LOST);
    round_handle(round);
    round_begin(round, now_ms);
    return round;
}

rl_round *holder_release(rl_lease *lease, int64_t now_ms)
{
    round_handle(lease->release);
    if (watchdog_delays(lease, now_ms))
        release_leave(lease, RL_EXPIRED);
    else if (!lease_void(lease))
        release_end(lease, now_ms);
    else if (!lease->release->outcome)
        lease->release->outcome = lease->core->closed ? RL_CLOSED : RL_NOT_HELD;
    return lease->release;
}

void holder_disown(rl_lease *lease, int64_t now_ms)
{
    (void)now_ms;
    if (lease->list == &lease->core->held)
        release_leave(lease, RL_NOT_HELD);
    lease->core->handles--;
    lease_unref(lease);
}

void holder_drop(rl_lease *lease, int64_t now_ms)
{
    if (lease->state == LEASE_ACQUIRING && !lease_void(lease))
        release_end(lease, now_ms);
    else if (lease->list == &lease->core->held)
        watchdog_orphan(lease);
    lease->core->handles--;
    lease_unref(lease);
}

void holder_abandon(rl_lease *lease, int64_t now_ms)
{
    if (!lease_void(lease))
        release_end(lease, now_ms);
    holder_drop(lease, now_ms);
}

/* With a lock delay the name stays closed after an owner that did not release it. */
static void let_go(rl_lease *lease, int64_t now_ms)
{
    struct core *core = lease->core;
    if (lease->list == &core->held && !lease->lost && !core->options.lock_delay_ms &&
        !lease_void(lease))
        release_end(lease, now_ms);
}

void holder_orphan(rl_lease *lease, int64_t now_ms)
{
    let_go(lease, now_ms);
    holder_drop(lease, now_ms);
}

void holder_orphan_all(struct core *core, const int32_t *request, int64_t now_ms)
{
    struct rl_lease *next;
    for (struct rl_lease *lease = core->held; lease; lease = next) {
        next = lease->next;
        if (lease->request != request)
            continue;
        let_go(lease, now_ms);
        if (lease->list == &core->held)
            watchdog_orphan(lease);
    }
}
