/* answer.c - what a node's answer, or the end of its connection, means for a round. */
#include "core/answer.h"

#include <string.h>

#include "core/fence.h"
#include "core/guard.h"
#include "core/handover.h"
#include "core/release.h"
#include "core/vote.h"
#include "core/watchdog.h"

void answer_torn(struct rl_round *round, int i, int written, int64_t now_ms)
{
    struct slot *slot = &round->slot[i];
    struct rl_lease *lease = round->lease;
    if (round->kind == ROUND_CONFIRM) {
        fence_torn(round, i, now_ms);
        return;
    }
    if (round_takes(round)) {
        if (written) {
            lease->torn |= bit(i);
            lease_may_live(lease, now_ms + round->lease_ms);
        } else if (round_begins(round) && !(lease->torn & bit(i))) {
            lease_untouched(lease, i);       /* a heal is not the first to take */
        }
    } else if (round->kind == ROUND_RELEASE) {
        lease->releasing &= ~bit(i);
        if (lease_owing(lease) && !(lease->touched & bit(i)))
            lease_untouched(lease, i);       /* nor was what is to be released written */
    }
    if (round->outcome || slot->state != SLOT_SENT)
        return;
    slot->state = SLOT_WAITING;
    if (slot->resends || now_ms >= slot->deadline_ms)
        slot->deadline_ms = now_ms;    /* no vote: see core_lost() */
    else
        slot->resends = (uint8_t)written;
}

/* A script the server does not know: sent again with its text, unless the lease is over
 * and the acquire would come after its own release. */
static void unknown_script(struct rl_round *round, int i, int64_t now_ms)
{
    node_unload(&round->core->nodes[i], round->script);
    int wanted = round->kind == ROUND_RELEASE || !round->outcome ||
                 (round->kind == ROUND_CONFIRM && round->lease->acquire) ||
                 (round_takes(round) && lease_remaining_ms(round->lease, now_ms) > 0);
    if (round->kind == ROUND_RELEASE)
        round->lease->releasing &= ~bit(i);
    if (wanted)
        round_send(round, i, now_ms);
    else if (round_takes(round))
        lease_refused(round->lease, i);
}

/* The marker was not the one wanted, and nothing was done: why that is, as a code. */
static int read_guarded(struct rl_round *round, int i, const struct reply *reply,
                        int64_t now_ms)
{
    struct core *core = round->core;
    guard_saw(core, i, reply->text, now_ms);
    guard_visit(core, i, now_ms);
    lease_refused(round->lease, i);
    if (core->guards[i].state == RL_GUARD_ADMITTED && !round->outcome) {
        round_send(round, i, now_ms);       /* by somebody else, meanwhile */
        return RL_OK;
    }
    return guard_objects(core, i, 0, now_ms);
}

/* Node i is another's server; either of the two may be the later one next time. */
static void note_twin(struct core *core, int i)
{
    for (int k = 0; k < core->n; k++) {
        if (core->guards[k].twin)
            return;
    }
    core->guards[i].twin = 1;
    core->node_changes++;
}

void answer_take(struct rl_round *round, int i, const struct reply *reply, int by_sha,
                 int64_t now_ms)
{
    struct slot *slot = &round->slot[i];
    if (by_sha && reply->type == REPLY_ERROR && !strncmp(reply->text, "NOSCRIPT", 8)) {
        unknown_script(round, i, now_ms);
        return;
    }
    int vote = 0;
    int code = vote_read(round, i, reply, &vote);
    if (code == RL_GUARDED) {
        code = read_guarded(round, i, reply, now_ms);
        if (!code)
            return;
    } else if (code) {
        vote_explain(round, i, code, reply);
        if (code == RL_CONFIG)
            note_twin(round->core, i);
    }
    if (code == RL_UNSEEDED)
        round->lease->unseeded |= bit(i);
    if (round->kind == ROUND_CONFIRM) {
        fence_answer(round, i, code, vote, vote_extra(round, reply), now_ms);
        return;
    }
    if (round->kind == ROUND_RELEASE)
        release_answered(round->lease, i, !code, now_ms);
    else if (round_begins(round) && !code && vote != RL_VOTE_YES)
        lease_refused(round->lease, i);
    else if (round->kind == ROUND_ACQUIRE && code)
        round->lease->failed |= bit(i);
    if (round->kind == ROUND_ACQUIRE && !code) {
        guard_passed(round->core, i, now_ms);
        code = guard_objects(round->core, i, 1, now_ms);  /* after TIME ahead of it, say */
    }
    if (round->kind == ROUND_HANDOVER && !code)
        handover_answered(round->lease, i);

    if (round->outcome || slot->state == SLOT_ANSWERED) {
        if (round->kind == ROUND_EXTEND && round->outcome == RL_GRANTED && !code)
            round_heal(round, i, vote, now_ms);
        if (round_begins(round) && !code && vote == RL_VOTE_YES)
            fence_counted(round->lease, i, vote_extra(round, reply));
        return;              /* late: absorbed */
    }
    if (code) {
        round_miss(round, i, code, now_ms);
        return;
    }
    slot->code = RL_OK;
    slot->vote = vote;
    slot->extra = vote_extra(round, reply);
    size_t len = reply->text_len < RL_DATA_MAX ? reply->text_len : RL_DATA_MAX;
    memcpy(slot->data, reply->text, len);
    slot->data_len = (uint8_t)len;
    struct tally *t = &round->tally;
    round_count(round, i, SLOT_ANSWERED,
          vote >= RL_VOTE_YES ? &t->yes : vote == RL_VOTE_ABSENT ? &t->absent : &t->foreign);
    round_decide(round, now_ms);
}
