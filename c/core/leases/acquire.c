/* acquire.c - an attempt, in the order in which it happens.
 * Redlock: note the time; ask all servers to set the key to a value of our own; with a
 * majority in time hold it for what is left of the lease; else release it everywhere. */
#include "core/leases/acquire.h"

#include <string.h>

#include "core/eligibility/guard.h"
#include "core/eligibility/eligibility.h"
#include "core/leases/fence.h"
#include "core/leases/heal.h"
#include "core/leases/release.h"
#include "core/leases/watchdog.h"
#include "node/health.h"

/* ---- the time is noted, and all nodes are asked ---- */

static const struct round_kind acquire_kind;

/* The node where contenders meet: the one with the smallest run_id, which is the same for
 * all clients. -1: none is up. */
static int pick_gate(const struct core *core, int64_t now_ms)
{
    int gate = -1;
    for (int i = 0; i < core->n; i++) {
        const struct node *nd = &core->nodes[i];
        if (nd->state == NODE_READY && !state_spares(core, i, now_ms) &&
            (gate < 0 || strcmp(nd->info.server.run_id, core->nodes[gate].info.server.run_id) < 0))
            gate = i;
    }
    return gate;
}

/* The round of an attempt, which is to begin now. Takes over cmd's reference. NULL: out of
 * memory; the lease is freed. */
static struct rl_round *attempt_new(struct rl_lease *lease, const struct round_kind *kind,
                                    int script, struct cmd *cmd, int64_t lease_ms,
                                    int64_t now_ms)
{
    struct core *core = lease->core;
    struct rl_round *round = cmd ? round_new(core, kind, script, lease, cmd) : NULL;
    if (!round) {
        lease_recycle(lease);
        return NULL;
    }
    if (lease_ms < core->lease_ms)
        core->lease_ms = lease_ms;
    round->lease_ms = lease_ms;
    /* Waits for no answer that would come after the validity is used up. */
    round->cap_ms = quorum_deadline_ms(now_ms, lease_ms, core->drift_ppm);
    lease->acquire = round;
    lease->refs++;
    core->handles++;
    return round_handle(round);
}

rl_round *acquire_begin(struct core *core, const rl_primitive *primitive,
                        const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                        rl_bytes value, int64_t lease_ms, int64_t within_ms, int gate,
                        int64_t now_ms, rl_lease **out)
{
    struct rl_lease *lease = lease_new(core, &release_kind, primitive, keys, nkeys, args,
                                       nargs, value, lease_ms);
    struct rl_round *acquire =
        lease ? attempt_new(lease, &acquire_kind, primitive->acquire, cmd_ref(lease->cmd),
                            lease_ms, now_ms)
              : NULL;
    if (!acquire)
        return NULL;
    *out = lease;
    acquire->gate = gate < 0 ? -1 : pick_gate(core, now_ms);
    if (now_ms + within_ms < acquire->cap_ms)
        acquire->cap_ms = now_ms + within_ms;
    round_begin(acquire, now_ms);
    return acquire;
}

static int acquire_put(struct rl_round *round, int i, int64_t now_ms)
{
    struct core *core = round->core;
    int knows_run = round->lease->primitive.knows_run;
    int objection = eligibility_check(core, i, 1, now_ms);
    if (!objection && knows_run)
        objection = guard_nameless(core, i, now_ms);
    return objection ? objection : round_call(round, i, guard_arg(core, i, knows_run, 1), now_ms);
}

/* ---- a node answers ---- */

/* Two nodes may be one server under two addresses, unless both are ready with a run_id:
 * guard_up() compares those. */
static int may_be_one(const struct node *a, const struct node *b)
{
    return a->state != NODE_READY || b->state != NODE_READY || !a->info.server.run_id[0] ||
           !b->info.server.run_id[0];
}

/* A value found when we ask a node again came by our first request, or through another
 * address of the same server, which has voted: one address may be ready while the other
 * is not. */
static int may_have_voted(const struct rl_round *round, int i)
{
    const struct node *nodes = round->core->nodes;
    const struct slot *slot = round->slot;
    return NODES_WHERE(round->core, k, k != i && slot[k].vote >= RL_VOTE_YES &&
                           (slot[k].was_ours || slot[i].was_ours) &&
                           may_be_one(&nodes[i], &nodes[k])) != 0;
}

/* The node asked first has picked a number: asks the others for the same one. */
static void ask_for_that(struct rl_round *round, int64_t number)
{
    struct cmd_pool *cmds = &round->core->cmds;
    struct cmd *cmd = cmd_with_token(cmds, round->lease->cmd, number);
    if (!cmd)
        return;
    cmd_unref(cmds, round->cmd);
    round->cmd = cmd;
}

/* RL_OK, or why a vote that looks like a grant is not one (rl_code). */
static int granted(struct rl_round *round, int i, struct vote *vote)
{
    struct slot *slot = &round->slot[i];
    if (vote->vote == RL_VOTE_AGAIN) {
        if (!slot->resends && !(round->asked_again & bit(i)))
            return RL_CONFIG;    /* asked once: this server has another address, too */
        slot->was_ours = 1;
        vote->vote = RL_VOTE_YES;
    }
    if (vote->vote != RL_VOTE_YES)
        return RL_OK;
    int rule = round->lease->primitive.rule;
    if ((rule == RL_RULE_LARGEST && !fence_is_token(vote->extra)) ||
        (rule == RL_RULE_SAME && vote->extra <= 0))
        return RL_PROTOCOL;
    if (rule == RL_RULE_SAME && round->at_gate)
        ask_for_that(round, vote->extra);
    return may_have_voted(round, i) ? RL_TIMEOUT : RL_OK;
}

/* A granted fenced acquire may reply with one number above all votes: its counter. */
static int is_count(const struct rl_round *round, const struct reply *reply)
{
    return lease_fenced(round->lease) && reply->nums == 1 &&
           reply->num[0] > RL_VOTE_GUARDED &&
           (reply->type == REPLY_INTEGER || reply->type == REPLY_ARRAY);
}

static int acquire_read(struct rl_round *round, int i, const struct reply *reply,
                        struct vote *vote)
{
    if (is_count(round, reply)) {
        *vote = (struct vote){.vote = RL_VOTE_YES,
                              .extra = reply->num[0] - RL_VOTE_GUARDED};
        return granted(round, i, vote);
    }
    int code = lease_vote(round, i, reply, vote);
    return code ? code : granted(round, i, vote);
}

/* A node without the number that the majority agreed on. */
static int is_stray(const struct rl_lease *lease, const struct vote *vote)
{
    return lease->primitive.rule == RL_RULE_SAME && lease->token &&
           (vote->vote < RL_VOTE_YES || vote->extra != lease->token);
}

/* Heals node i if its answer calls for that, now rather than with the first extension: a stray
 * takes a place from others; and a node in quarantine may get its vote, and another node restart
 * and forget, before that extension. */
static void heal_if_needed(struct rl_lease *lease, const struct rl_round *round, int i, int code,
                           const struct vote *vote, int64_t now_ms)
{
    if (code ? code == RL_GUARDED : is_stray(lease, vote))
        heal_begin(lease, round, i, now_ms);
}

static int acquire_answered(struct rl_round *round, int i, int code,
                            const struct vote *vote, int64_t now_ms)
{
    struct rl_lease *lease = round->lease;
    int objection = code ? code : guard_passed(round->core, i, now_ms);
    if (code) {
        lease->failed |= bit(i);
        if (wire_refused(&round->core->nodes[i].wire.reply) ||
            (vote->vote == RL_VOTE_GUARDED && code != RL_PROTOCOL))
            lease_refused(lease, i);
        if (code == RL_UNSEEDED)
            round->core->guards[i].lacks = 1;
    } else if (vote->vote != RL_VOTE_YES) {
        lease_refused(lease, i);
    } else if (!objection) {
        guard_counts_vote(round->core, now_ms);
        if (lease_fenced(lease))
            round->core->guards[i].lacks = 0;
    }
    heal_if_needed(lease, round, i, code, vote, now_ms);
    return objection;
}

/* ---- enough have answered ---- */

/* RL_RULE_SAME: one of several places; a majority must have granted the same number.
 *
 * Each node picks a place that is free there, and replies with its number. Votes for
 * different places are not added up: every place is a lock of its own. Two majorities for
 * one place share a node, which gave the place to only one of them. A node that picked
 * another place keeps a stray: it never counts, takes up room on that node, and is dropped
 * there once the acquire is won (heal_rest()), or by the release.
 */

/* The verdict if only grants of that number count. */
static enum verdict verdict_for(const struct rl_round *round, int64_t number)
{
    struct tally t = round->tally;
    int yes = __builtin_popcount(NODES_WHERE(round->core, i, round->slot[i].extra == number &&
                                                 round_is_yes(&round->slot[i])));
    t.absent += t.yes - yes;
    t.yes = yes;
    return quorum_vote(&t);
}

/* When it is won, the round's token is the number of its majority. */
static enum verdict same_number_judge(struct rl_round *round)
{
    enum verdict best = verdict_for(round, 0);    /* for a number that none has granted */
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        enum verdict v = round_is_yes(slot) ? verdict_for(round, slot->extra) : LOST;
        if (v == WON) {
            round->fence.token = slot->extra;
            return WON;
        }
        if (v == UNDECIDED)
            best = UNDECIDED;
    }
    return best;
}

static enum verdict judge(struct rl_round *round, int64_t now_ms)
{
    switch (round->lease->primitive.rule) {
    case RL_RULE_SAME:
        return same_number_judge(round);
    case RL_RULE_LARGEST:
        return fence_judge(round, now_ms);
    default:
        return quorum_vote(&round->tally);
    }
}

/* The node where contenders meet has granted it to us, so a contender that came first
 * elsewhere is releasing now: asks those nodes once more. True: asked one. */
static int ask_rest_again(struct rl_round *round, int64_t now_ms)
{
    const struct slot *gate = round->gate < 0 ? NULL : &round->slot[round->gate];
    if (round->lease->primitive.rule == RL_RULE_SAME || !gate ||
        !round_is_yes(gate))
        return 0;
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        if (slot->state == SLOT_ANSWERED && slot->vote < RL_VOTE_YES &&
            !(round->asked_again & bit(i))) {
            round->asked_again |= bit(i);
            round_ask_again(round, i, now_ms);
            return 1;
        }
    }
    return 0;
}

/* A node has refused, or nodes have given different numbers. */
static int is_contended(const struct rl_round *round)
{
    int64_t number = 0;
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        if (slot->state != SLOT_ANSWERED)
            continue;
        if (slot->vote < RL_VOTE_YES || (number && slot->extra != number))
            return 1;
        number = round->lease->primitive.rule == RL_RULE_SAME ? slot->extra : 0;
    }
    return 0;
}

/* A contended attempt keeps others out while it lasts. When a majority has answered it
 * gives up a node that failed before and is not connected, or one that is silent for
 * longer than usual. True: gave up one. */
static int forgo_silent(struct rl_round *round, int64_t now_ms)
{
    if (!round->tally.pending || !quorum_answered(&round->tally) || !is_contended(round))
        return 0;
    for (int i = 0; i < round->core->n; i++) {
        const struct node *nd = &round->core->nodes[i];
        int state = round->slot[i].state;
        if ((state == SLOT_WAITING && nd->failures) ||
            (state == SLOT_SENT && health_pauses(nd, now_ms))) {
            round_miss(round, i, state == SLOT_WAITING && nd->code ? nd->code : RL_TIMEOUT, now_ms);
            return 1;
        }
    }
    round_decide_at(round, now_ms + NODE_PAUSE_MS);
    return 0;
}

static void heal_rest(struct rl_lease *lease, const struct rl_round *round, int64_t now_ms)
{
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        struct vote vote = {slot->vote, slot->extra};
        if (slot->state == SLOT_ANSWERED || slot->state == SLOT_MISSING)
            heal_if_needed(lease, round, i, slot->code, &vote, now_ms);
    }
}

/* A majority has granted the lease: holds it unless too little validity is left. Returns
 * the outcome. */
static int won(struct rl_lease *lease, const struct rl_round *round, int64_t now_ms)
{
    int64_t deadline_ms = quorum_deadline_ms(round->started_ms, round->lease_ms,
                                             lease->core->drift_ppm);
    if (now_ms >= deadline_ms ||
        deadline_ms - now_ms < lease->core->options.min_validity_ms)
        return RL_EXPIRED;
    lease->confirmed = round_yes(round);
    lease->core->knows = 1;
    if (lease_fenced(lease))
        fence_issue(lease, round);
    else if (round->fence.token)
        lease_issue(lease, round->fence.token);
    watchdog_hold(lease, deadline_ms, now_ms);
    heal_rest(lease, round, now_ms);
    lease->core->strays |= lease->primitive.rule == RL_RULE_SAME;
    return RL_GRANTED;
}

static int acquire_outcome(struct rl_lease *lease, const struct rl_round *round,
                           enum verdict verdict, int64_t now_ms)
{
    if (verdict == WON)
        return won(lease, round, now_ms);
    if (!quorum_missing(&round->tally))
        return RL_HELD;
    return round_missing(round, RL_CONFIG) ? RL_CONFIG    /* a retry would not help */
                                           : round_no_quorum(round);
}

/* Ends an attempt; unless it was granted, the lease as well. */
static void attempt_end(struct rl_round *round, int outcome, int64_t now_ms)
{
    struct rl_lease *lease = round->lease;
    lease->acquire = NULL;
    round_ref(round);        /* the last round takes the lease with it */
    round_end(round, outcome);
    if (outcome != RL_GRANTED)
        release_end(lease, now_ms);
    round_unref(round);
}

static void acquire_decide(struct rl_round *round, int64_t now_ms)
{
    if (ask_rest_again(round, now_ms) || forgo_silent(round, now_ms))
        return;
    enum verdict v = judge(round, now_ms);
    if (v == UNDECIDED || (v == LOST && (quorum_may_refuse(&round->tally) || !round_no_quorum(round))))
        return;
    attempt_end(round, acquire_outcome(round->lease, round, v, now_ms), now_ms);
}

/* ---- answers that come late, or not at all ---- */

static void acquire_refused(struct rl_round *round, int64_t now_ms)
{
    attempt_end(round, RL_HELD, now_ms);
}

static void acquire_late(struct rl_round *round, int i, const struct vote *vote, int64_t now_ms)
{
    (void)now_ms;
    if (vote->vote != RL_VOTE_YES || is_stray(round->lease, vote))
        return;
    round->lease->confirmed |= bit(i);
    fence_counted(round->lease, i, vote->extra);
}

static void acquire_broken(struct rl_round *round, int i, int written, int64_t now_ms)
{
    lease_broken(round, i, written, now_ms);
    if (!written && !(round->lease->broken & bit(i)))
        lease_untouched(round->lease, i);    /* it never got a write */
    if (written && round->lease->once)
        round->slot[i].deadline_ms = now_ms;    /* it may have got one: no vote */
}

/* What an acquire and an import have in common. */
#define ATTEMPT \
    .margin = 1, \
    .guarded = 1, \
    .expired = RL_EXPIRED, \
    .used = lease_used, \
    .unused = lease_unused, \
    .put = acquire_put, \
    .sent = lease_sent_value, \
    .read = acquire_read, \
    .answered = acquire_answered, \
    .late = acquire_late, \
    .unknown = lease_unknown, \
    .broken = acquire_broken

static const struct round_kind acquire_kind = {
    .timed = RL_TIMES_ACQUIRE,
    ATTEMPT,
    .refused = acquire_refused,
    .decide = acquire_decide,
    .ended = fence_end,
};

/* ---- import: an attempt by compare and set ---- */

/* Why it is safe. The script replaces the exported value and nothing else: a node that
 * says yes had that value until then, so nobody else can have had a majority in between;
 * and no other import replaces it there again, so two of them share no yes. A node that
 * restarted may have the exported value again, after another import: so nodes vote as on
 * an acquire, after their quarantine. A node that forgot the lock has no say, as the
 * script never takes a free one.
 *
 * The token stays: a node says yes only if it has counted that token for the hold, or lent it
 * the lock (heal.lua); its name in counters is the first digits of the value, which the new
 * value keeps. Until a majority has said so the lease does not send the token, so its release
 * raises no counter. What an import has taken without a majority is released. */
static void import_decide(struct rl_round *round, int64_t now_ms)
{
    enum verdict v = quorum_extend(&round->tally);
    if (v == UNDECIDED)
        return;
    int outcome = v == WON                        ? won(round->lease, round, now_ms)
                  : quorum_disowned(&round->tally) ? RL_LOST
                                                   : RL_UNKNOWN;
    if (outcome == RL_GRANTED)
        round->lease->import = cmd_ref(round->cmd);
    attempt_end(round, outcome, now_ms);
}

static const struct round_kind import_kind = {
    ATTEMPT,
    .decide = import_decide,
};

rl_round *acquire_import(struct core *core, const rl_primitive *primitive,
                         const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                         rl_bytes old, rl_bytes value, int64_t lease_ms, int64_t token,
                         int once, int64_t now_ms, rl_lease **out)
{
    struct rl_lease *lease = lease_new(core, &release_kind, primitive, keys, nkeys, args,
                                       nargs, value, lease_ms);
    if (!lease)
        return NULL;
    rl_bytes all[RL_MAX_ARGS + 1] = {old};
    for (int i = 0; i < nargs; i++)
        all[i + 1] = args[i];
    struct cmd *cmd = cmd_new_lease(&core->cmds, keys, nkeys, value,
                                    lease_ttl_ms(core, lease_ms),
                                    primitive->rule ? token : -1, all, nargs + 1);
    struct rl_round *import =
        attempt_new(lease, &import_kind, primitive->import, cmd, lease_ms, now_ms);
    if (!import)
        return NULL;
    *out = lease;
    import->fence.token = token;
    lease->once = once;
    round_begin(import, now_ms);
    return import;
}
