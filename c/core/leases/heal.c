#include "core/leases/heal.h"

#include "core/eligibility/guard.h"

static int heal_put(struct rl_round *round, int i, int64_t now_ms)
{
    int knows_run = round->lease->primitive.knows_run;
    return round_call(round, i, guard_arg(round->core, i, knows_run, 0), now_ms);
}

static void heal_late(struct rl_round *heal, int i, const struct vote *vote, int64_t now_ms)
{
    (void)now_ms;
    if (vote->vote >= RL_VOTE_YES)
        heal->lease->confirmed |= bit(i);
}

static const struct round_kind heal_kind = {
    .used = lease_used,
    .unused = lease_unused,
    .put = heal_put,
    .sent = lease_sent_value,
    .read = lease_vote,
    .late = heal_late,
    .unknown = lease_unknown,
    .broken = lease_broken,
};

/* Takes the reference to the command. */
static void send_to(struct rl_lease *lease, int i, int script, struct cmd *cmd,
                    int64_t lease_ms, int64_t now_ms)
{
    struct rl_round *heal =
        cmd ? round_new(lease->core, &heal_kind, script, lease, cmd) : NULL;
    if (!heal)
        return;    /* no memory: the next renewal tries again, if there is one */
    heal->lease_ms = lease_ms;
    heal->outcome = RL_GRANTED;          /* decided: its answers are no votes */
    round_ref(heal);
    round_send(heal, i, now_ms);
    round_unref(heal);
}

void heal_begin(struct rl_lease *lease, const struct rl_round *round, int i,
                int64_t now_ms)
{
    struct core *core = lease->core;
    int64_t left_ms = round->started_ms + round->lease_ms - now_ms;
    if (lease->state != LEASE_HELD || lease->lost || lease->once || left_ms <= 0 ||
        core->nodes[i].state != NODE_READY)
        return;
    send_to(lease, i,
            lease->primitive.heal >= 0 ? lease->primitive.heal : lease->primitive.acquire,
            cmd_with_lease(&core->cmds, lease->cmd, lease_ttl_ms(core, left_ms)), left_ms,
            now_ms);
}

void heal_imported(struct rl_lease *lease, int i, int64_t now_ms)
{
    struct core *core = lease->core;
    int64_t brief_ms = core->nodes[i].config->timeout_ms;
    if (!lease->import || lease->confirmed & bit(i))
        return;
    node_unload(&core->nodes[i], lease->primitive.import);    /* EVAL: it is not sent again */
    send_to(lease, i, lease->primitive.import,
            cmd_with_lease(&core->cmds, lease->import, brief_ms), brief_ms, now_ms);
}
