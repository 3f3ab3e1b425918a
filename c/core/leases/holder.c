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

rl_lease *holder_adopt(struct core *core, const rl_primitive *primitive,
                      const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                      rl_bytes value, int64_t lease_ms, int64_t token, int64_t now_ms)
{
    struct rl_lease *lease = lease_new(core, &release_kind, primitive, keys, nkeys, args,
                                       nargs, value, lease_ms, token);
    if (!lease)
        return NULL;
    lease->touched = (uint32_t)(link_bit(core->n) - 1);
    lease_may_live(lease, now_ms + lease_ms);
    lease->refs++;
    core->handles++;
    watchdog_hold(lease, quorum_deadline_ms(now_ms, lease_ms, core->drift_ppm), now_ms);
    return lease;
}

void holder_disown(rl_lease *lease)
{
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

void holder_orphan(rl_lease *lease, int64_t now_ms)
{
    struct core *core = lease->core;
    /* With a lock delay the name stays closed after an owner that did not release it. */
    if (lease->list == &core->held && !lease->lost && !core->options.lock_delay_ms &&
        !lease_void(lease))
        release_end(lease, now_ms);
    holder_drop(lease, now_ms);
}
