#include "core/rounds/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/eligibility/guard.h"
#include "core/eligibility/eligibility.h"
#include "core/rounds/teach.h"

void answer_broken(struct rl_round *round, int i, int written, int64_t now_ms)
{
    struct slot *slot = &round->slot[i];
    if (round->kind->broken)
        round->kind->broken(round, i, written, now_ms);
    int resent = slot->resends;
    slot->resends |= (uint8_t)written;     /* even if its vote is missing */
    if (round->outcome || slot->state != SLOT_SENT)
        return;
    slot->state = SLOT_WAITING;
    if (resent || now_ms >= slot->deadline_ms)
        slot->deadline_ms = now_ms;        /* no vote: see core_lost() */
}

void answer_alone(struct rl_round *round, int i, int64_t now_ms)
{
    int wanted = round->kind->unknown ? round->kind->unknown(round, i, now_ms)
                                      : !round->outcome;
    if (wanted)
        round_send(round, i, now_ms);
}

/* Notes on the node why its reply was no vote. */
static void explain(struct rl_round *round, int i, int code, const struct reply *reply)
{
    struct node *nd = &round->core->nodes[i];
    int skip = code == RL_NOT_A_LOCK ? sizeof("NOTALOCK") : 0;
    if (reply->type == REPLY_ERROR)
        node_refuse(nd, code, "%s", reply->text + skip);
    else
        node_object(nd, code, code == RL_CONFIG     ? RL_WHY_TWIN
                              : code == RL_UNSEEDED ? RL_WHY_TOKENS_FORGOTTEN
                              : code == RL_PROTOCOL ? RL_WHY_BAD_REPLY
                                                    : RL_WHY_NONE);
}

/* The script found another marker and did nothing. Returns why not, as a code; RL_OK: the
 * node is asked again, as another client has admitted it. */
static int read_guarded(struct rl_round *round, int i, const struct reply *reply,
                        int64_t now_ms)
{
    struct core *core = round->core;
    guard_saw(core, i, reply->text, reply->text_len, now_ms);
    guard_visit(core, i, now_ms);
    if (core->guards[i].state != RL_GUARD_ADMITTED)
        return eligibility_check(core, i, 0, now_ms);
    if (round->outcome)
        return RL_GUARDED;
    if (round->slot[i].admitted++) {    /* it is the script that answers so */
        explain(round, i, RL_PROTOCOL, reply);
        return RL_PROTOCOL;
    }
    round_send(round, i, now_ms);
    return RL_OK;
}

/* Records that node i is the same server as another node: of the two, only the first that is
 * noticed. */
static void note_twin(struct core *core, int i)
{
    if (NODES_WHERE(core, k, core->guards[k].twin))
        return;
    core->guards[i].twin = 1;
    core->node_changes++;
}

/* Node i has answered and shown a marker: another than we know, or one although we have no guard.
 * RL_OK if its answer counts; or why not (rl_code). A no to a lease counts: it can only end the
 * hold, or have it healed. */
static int weigh(struct rl_round *round, int i, const struct vote *vote, int64_t now_ms)
{
    int counts = guard_counts(round->core, i) || (round->lease && vote->vote < RL_VOTE_YES);
    return counts ? RL_OK : eligibility_check(round->core, i, 0, now_ms);
}

static int read_vote(struct rl_round *round, int i, const struct reply *reply,
                     struct vote *vote)
{
    if (reply->type == REPLY_ERROR)
        return wire_error_code(reply->text);
    int code = round->kind->read ? round->kind->read(round, i, reply, vote) : RL_OK;
    uint32_t same = round->core->guards[i].same_voter;
    int again = same && same & round_yes(round);    /* under an address now out of reach */
    return !code && vote->vote >= RL_VOTE_YES && again ? RL_CONFIG : code;
}

/* 0, or -1: out of memory. */
static int keep_data(const struct rl_round *round, struct slot *slot,
                     const struct reply *reply)
{
    size_t len;
    const char *text = reply_string(reply, &len);
    if (len > RL_DATA_MAX && !round->kind->alone)
        len = RL_DATA_MAX;
    if (len > SLOT_ROOM && !(slot->more = malloc(len)))
        return -1;
    memcpy(len > SLOT_ROOM ? slot->more : slot->data, text, len);
    slot->data_len = (uint32_t)len;
    return 0;
}

void answer_take(struct rl_round *round, int i, const struct reply *reply, int by_sha,
                 int64_t now_ms)
{
    const struct round_kind *kind = round->kind;
    struct slot *slot = &round->slot[i];
    if (by_sha && reply->type == REPLY_ERROR && !strncmp(reply->text, "NOSCRIPT", 8)) {
        node_unload(&round->core->nodes[i], round->script);    /* next: with its text */
        answer_alone(round, i, now_ms);
        return;
    }
    if (reply->type == REPLY_ERROR && !strncmp(reply->text, "READONLY", 8))
        guard_demoted(round->core, i, now_ms);
    if (by_sha)
        round->core->guards[i].no_evalsha = wire_no_command(reply);
    struct vote vote = {0};
    struct reply bare;
    int shows = kind->shown && guard_shows(round->core, i, reply, &bare, now_ms);
    if (shows)
        reply = &bare;
    int code = read_vote(round, i, reply, &vote);
    if (code == RL_GUARDED) {
        code = read_guarded(round, i, reply, now_ms);
        if (!code)
            return;
    } else if (code) {
        explain(round, i, code, reply);
        if (code == RL_CONFIG)
            note_twin(round->core, i);
    } else if (shows || !round->core->marker) {
        code = weigh(round, i, &vote, now_ms);
    }
    if (code == RL_UNSEEDED)
        teach_alone(round->core, now_ms);    /* it may come too late for a caller to do so */
    if (kind->answered)
        code = kind->answered(round, i, code, &vote, now_ms);

    if (round->outcome || slot->state == SLOT_ANSWERED) {
        if (kind->late && !code)
            kind->late(round, i, &vote, now_ms);
        return;              /* too late to vote */
    }
    if (code) {
        round_miss(round, i, code, now_ms);
        return;
    }
    if (keep_data(round, slot, reply)) {
        round_miss(round, i, RL_NOMEM, now_ms);
        return;
    }
    slot->code = RL_OK;
    slot->vote = vote.vote;
    slot->extra = vote.extra;
    struct tally *t = &round->tally;
    round_count(round, i, SLOT_ANSWERED,
                vote.vote >= RL_VOTE_YES      ? &t->yes
                : vote.vote == RL_VOTE_ABSENT ? &t->absent
                                              : &t->foreign);
    round_decide(round, now_ms);
}
