/* query.c - rounds without a lease: questions, probes, pauses. */
#include "core/query.h"

static rl_round *ask(struct core *core, enum round_kind kind, int script, struct cmd *cmd,
                     int64_t within_ms, int64_t now_ms)
{
    struct rl_round *round = cmd ? round_new(core, kind, script, NULL, cmd) : NULL;
    if (!round)
        return NULL;
    round->cap_ms = now_ms + within_ms;
    core->handles++;
    round_begin(round_ref(round), now_ms);
    return round;
}

rl_round *query_ask(struct core *core, int script, const rl_bytes *keys, int nkeys,
                    const rl_bytes *args, int nargs, int64_t within_ms, int64_t now_ms)
{
    struct cmd *cmd = core->closed ? NULL : cmd_new(&core->cmds, keys, nkeys, args, nargs);
    return ask(core, ROUND_ASK, script, cmd, within_ms, now_ms);
}

rl_round *query_ask_all(struct core *core, int script, const rl_bytes *keys, int nkeys,
                        const rl_bytes *args, int nargs, int64_t within_ms, int64_t now_ms)
{
    struct cmd *cmd = core->closed ? NULL : cmd_new(&core->cmds, keys, nkeys, args, nargs);
    return ask(core, ROUND_ASK_ALL, script, cmd, within_ms, now_ms);
}

rl_round *query_probe(struct core *core, int64_t now_ms)
{
    struct rl_round *round =
        core->closed ? NULL : round_new(core, ROUND_PROBE, -1, NULL, NULL);
    if (!round)
        return NULL;
    round->cap_ms = INT64_MAX;
    core->handles++;
    round_begin(round_ref(round), now_ms);
    return round;
}

rl_round *query_sleep(struct core *core, int64_t ms, int64_t now_ms)
{
    struct rl_round *round =
        core->closed ? NULL : round_new(core, ROUND_SLEEP, -1, NULL, NULL);
    if (!round)
        return NULL;
    round->cap_ms = now_ms + ms;
    core->handles++;
    round_begin(round_ref(round), now_ms);
    return round;
}
