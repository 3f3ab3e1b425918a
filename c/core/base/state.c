#include "core/base/state.h"

#include <stdlib.h>
#include <string.h>

#include "node/health.h"

void *state_alloc(struct core *core, size_t size)
{
    void *object = calloc(1, size);
    if (object && state_add_timers(core, 1) == 0)
        return object;
    free(object);
    return NULL;
}

int state_add_timers(struct core *core, uint32_t n)
{
    if (timers_reserve(&core->timers, core->timers_wanted + n) < 0)
        return -1;
    core->timers_wanted += n;
    return 0;
}

int state_majority(const struct core *core, uint32_t nodes)
{
    return __builtin_popcount(nodes) >= quorum_size(core->n);
}

int64_t state_guard_ms(const struct core *core)
{
    return core->max_lease_ms + (core->max_lease_ms + 99) / 100 + STATE_SLACK_MS;
}

/* xorshift64* (Marsaglia 2003, Vigna 2016) */
uint64_t state_random(struct core *core)
{
    uint64_t x = core->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    core->random = x;
    return x * 0x2545F4914F6CDD1DULL;
}

void state_connect(struct core *core, int link, int64_t now_ms)
{
    node_connecting(&core->nodes[link], now_ms);
    core->want_connect |= link_bit(link);
    timer_set(&core->timers, &core->node_timers[link], health_give_up_ms(&core->nodes[link]));
}

void state_reconnect(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    if (nd->state != NODE_DOWN || core->over || (core->closed && i >= core->n))
        return;
    if (now_ms < nd->retry_ms) {
        timer_set(&core->timers, &core->node_timers[i], nd->retry_ms);
        return;
    }
    state_connect(core, i, now_ms);
}

void state_write(struct core *core, int link)
{
    core->want_write |= link_bit(link);
    if (!core->node_timers[link].at)
        timer_set(&core->timers, &core->node_timers[link],
                  health_give_up_ms(&core->nodes[link]));
}

/* True: another attempt helps only after somebody has changed the server or our settings;
 * until then each one fills the server's logs. */
static int refuses_us(const struct node *nd)
{
    return nd->lost == RL_AUTH || nd->lost == RL_NOPERM || nd->lost == RL_READONLY ||
           nd->lost == RL_CONFIG;
}

void state_reconnect_for_holds(struct core *core, int i, int64_t now_ms)
{
    const struct node *nd = &core->nodes[i];
    if (!core->held || nd->state != NODE_DOWN || core->node_timers[i].at)
        return;
    /* Each client has moments of its own: many do not come at once, whatever happened to
     * them at one time. */
    int64_t moment_ms = STATE_HOLDS_MS - (now_ms + core->moment_ms) % STATE_HOLDS_MS;
    timer_set(&core->timers, &core->node_timers[i],
              now_ms + moment_ms + (refuses_us(nd) ? STATE_REFUSED_MS : 0));
}

int state_spares(const struct core *core, int i, int64_t now_ms)
{
    if (health_hung(&core->nodes[i], now_ms))
        return RL_TIMEOUT;
    if (!health_behind(&core->nodes[i], now_ms))
        return RL_OK;
    /* Spare it only if others that answer and may vote are a majority. */
    const struct node *nodes = core->nodes;
    uint32_t others = NODES_WHERE(core, k, nodes[k].state == NODE_READY &&
                                      !health_pauses(&nodes[k], now_ms) &&
                                      !health_behind(&nodes[k], now_ms) &&
                                      (!core->marker ||
                                       core->guards[k].state == RL_GUARD_ADMITTED));
    return state_majority(core, others) ? RL_OVERLOAD : RL_OK;
}

int64_t state_late_ms(const struct core *core, int64_t now_ms)
{
    int64_t due_ms = timers_due_ms(&core->timers);
    int64_t late_ms = due_ms < now_ms ? now_ms - due_ms : 0;
    return late_ms > core->late_ms ? late_ms : core->late_ms;
}
