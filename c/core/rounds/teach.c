#include "core/rounds/teach.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/eligibility/guard.h"
#include "core/eligibility/marking.h"
#include "core/rounds/query.h"

enum {
    WITHIN_MS = 3000,             /* then a node that may know more is silent */
    AGAIN_MS = 1000,              /* between two questions */
    STRANGE_MS = 10000,           /* a user who may not ask leaves it to others that long */
    PER_MS = 16                   /* tokens that may be issued in a millisecond */
};

#define TOKEN_STEP 32                            /* of scripts/fenced/counter.lua */
#define ROOM (INT64_C(1) << 32)                  /* for counting above a base */
#define AHEAD_MS (INT64_C(10) * 365 * 86400000)  /* ten years */
#define SET_MS INT64_C(1767225600000)            /* 2026: an earlier clock is not set */

/* The vote of a node that was asked, from the script. */
enum tells {
    TELLS_VANISHED = -1,          /* its floors are gone, but not the marker */
    TELLS_NOTHING,                /* it has no base; what it counted before is no vote */
    TELLS_ALL,                    /* the largest number that it gave out */
    TELLS_WILD                    /* a number out of range */
};

/* ---- clocks ---- */

/* The clocks that are known. Returns how many. */
static int clocks(const struct core *core, int64_t now_ms, int64_t *out)
{
    int known = 0;
    for (int i = 0; i < core->n; i++) {
        const struct guard *g = &core->guards[i];
        if (g->clock.known && core->nodes[i].state == NODE_READY)
            out[known++] = now_ms + clock_offset_ms(&g->clock);
    }
    return known;
}

int64_t teach_token_limit(const struct core *core, int64_t now_ms)
{
    int64_t ms[RL_MAX_NODES];
    int known = clocks(core, now_ms, ms);
    int64_t latest_ms = known ? quorum_nth_ms(ms, known, known) : SET_MS;
    if (latest_ms < SET_MS)
        latest_ms = SET_MS;
    int64_t limit = PER_MS * (latest_ms + AHEAD_MS);
    return limit < TOKEN_END - TOKEN_STEP ? limit : TOKEN_END - TOKEN_STEP;
}

/* Above all tokens of the past, by the median clock (of two, the later): a single one that
 * was set back does not decide. 0: no clock is known. */
static int64_t base_by_clocks(const struct core *core, int64_t now_ms)
{
    int64_t ms[RL_MAX_NODES], most = teach_token_limit(core, now_ms) - ROOM;
    int known = clocks(core, now_ms, ms);
    int64_t base = known ? PER_MS * quorum_nth_ms(ms, known, quorum_size(known)) : 0;
    return base < most ? base : most;
}

/* ---- what the nodes told ---- */

static int tells(const struct rl_round *round, int i, enum tells what)
{
    return round->slot[i].state == SLOT_ANSWERED && round->slot[i].vote == (int)what;
}

/* The nodes whose quarantine has ended, a bit each. */
static uint32_t over(const struct core *core)
{
    return NODES_WHERE(core, i, !core->marker || guard_has_served(core, i) ||
                           core->guards[i].state == RL_GUARD_ADMITTED);
}

/* All have answered: which nodes may be given a base, and which are admitted in any case. Not
 * those whose quarantine was not over when the question began: attempts that they had a vote in
 * may have counted on others since. Nor a node that was to be admitted but has forgotten its
 * locks since. */
static void find_pupils(struct rl_round *round)
{
    const struct core *core = round->core;
    for (int i = 0; i < core->n; i++) {
        if (core->guards[i].inc_ms > round->started_ms)
            round->teach.pupils &= ~bit(i);
    }
    if (round->teach.seen_ms >= 0)
        round->teach.admits = guard_admissible(core, round->teach.force, round->teach.seen_ms);
    round->teach.pupils = (round->teach.pupils & over(core)) | round->teach.admits;
}

/* The base for node i; 0: none yet. *guessed: whether clocks decided. They do for a majority
 * in one go: those that come later would be too few to ask them. */
static int64_t base_for(const struct rl_round *round, int i, int64_t now_ms, int *guessed)
{
    const struct core *core = round->core;
    int n = core->n, told = 0, lacking = 0;
    int64_t most = 1, earlier = 0;
    for (int k = 0; k < n; k++) {
        int64_t number = round->slot[k].extra;
        lacking += tells(round, k, TELLS_NOTHING) && round->teach.pupils & bit(k);
        if (tells(round, k, TELLS_ALL) && k != i) {
            told++;
            most = number > most ? number : most;
        } else if (tells(round, k, TELLS_NOTHING)) {
            earlier = number > earlier ? number : earlier;
        }
    }
    *guessed = told < n - quorum_size(n) + 1;
    if (!*guessed)
        return most;
    if (lacking < quorum_size(n) && !(round->teach.force && round->teach.admits & bit(i)))
        return 0;
    int64_t base = base_by_clocks(core, now_ms);
    if (base)
        base = earlier > base ? earlier : base;
    return base && most > base ? most : base;
}

/* True: this user may not ask node i: those who may are to admit it with a base. */
static int is_left_to_others(const struct rl_round *round, int i, int64_t now_ms)
{
    const struct slot *slot = &round->slot[i];
    return slot->state == SLOT_MISSING && slot->code == RL_NOPERM &&
           now_ms - round->core->guards[i].text_ms < STRANGE_MS;
}

/* Writes what node i is to have: the base, and the marker that admits it. */
static void settle(struct rl_round *round, int i, int64_t now_ms)
{
    struct core *core = round->core;
    struct guard *g = &core->guards[i];
    int guessed, admitted = round->teach.admits & bit(i), served = guard_has_served(core, i);
    int64_t base = base_for(round, i, now_ms, &guessed);
    struct marker m;
    if (!tells(round, i, TELLS_NOTHING) && round->slot[i].code != RL_TIMEOUT)
        core->unseeded &= ~bit(i);
    if (core->nodes[i].state != NODE_READY || g->asked || !(round->teach.pupils & bit(i)))
        return;
    if (!core->marker) {
        if (!base || !tells(round, i, TELLS_NOTHING))
            return;
        marking_teach(core, i, base, now_ms);
    } else if (admitted || (served && !is_left_to_others(round, i, now_ms))) {
        m = admitted ? guard_admission(core, i) : marking_in_state(g, MARKER_ADMITTED);
        core->unseeded |= bit(i);     /* until it tells them */
        marking_replace(core, i, &m, "", base, now_ms);
    } else if (g->state != RL_GUARD_ADMITTED) {
        return;
    } else if (tells(round, i, TELLS_NOTHING) && base) {
        marking_replace(core, i, &g->fields, "", base, now_ms);
    } else if (tells(round, i, TELLS_VANISHED) || (tells(round, i, TELLS_WILD) && !guessed)) {
        /* Nobody knows what it gave out in this memory: it counts as lost. */
        m = marking_new(core, i, MARKER_LOST);
        marking_replace(core, i, &m, "", 0, now_ms);
        return;
    } else {
        return;
    }
    if (guessed && base && !tells(round, i, TELLS_ALL)) {
        g->seeded = base;
        core->node_changes++;
    }
}

static void teach_decide(struct rl_round *round, int64_t now_ms)
{
    struct core *core = round->core;
    if (round->tally.pending)
        return;
    find_pupils(round);
    for (int i = 0; i < core->n; i++)
        settle(round, i, now_ms);
    int cut_short = now_ms - round->started_ms < WITHIN_MS;     /* the caller had no more time */
    if (cut_short && round_missing(round, RL_TIMEOUT))
        teach_alone(core, now_ms);
    round_end(round, RL_GRANTED);
}

static void teach_ended(struct rl_round *round)
{
    if (round->core->teaching == round)
        round->core->teaching = NULL;
}

static const struct round_kind teach_kind = {
    .read = query_number,
    .decide = teach_decide,
    .ended = teach_ended,
};

/* ---- asking ---- */

static struct rl_round *teach_new(struct core *core, int64_t now_ms)
{
    char key[64], limit[24];
    const char *marker = core->nodes[0].config->marker;
    if (core->closed || core->tell < 0 || !marker)
        return NULL;
    int prefix = (int)(strlen(marker) - strlen("marker"));
    rl_bytes k = {key, (size_t)snprintf(key, sizeof(key), "%.*sfloor", prefix, marker)};
    rl_bytes args[] = {
        {limit, (size_t)snprintf(limit, sizeof(limit), "%" PRId64,
                                 teach_token_limit(core, now_ms))},
        {"1", core->marker != NULL}};
    struct cmd *cmd = cmd_new(&core->cmds, &k, 1, args, 2);
    struct rl_round *round =
        cmd ? round_new(core, &teach_kind, core->tell, NULL, cmd) : NULL;
    if (!round)
        return NULL;
    round->cap_ms = now_ms + WITHIN_MS;
    round->teach.pupils = over(core);
    round->teach.seen_ms = -1;
    return round;
}

rl_round *teach_begin(struct core *core, int64_t seen_ms, int force, int64_t within_ms,
                      int64_t now_ms)
{
    struct rl_round *round = teach_new(core, now_ms);
    if (!round)
        return NULL;
    if (within_ms < WITHIN_MS)
        round->cap_ms = now_ms + within_ms;
    round->teach.seen_ms = seen_ms;
    round->teach.force = force;
    round_begin(round_handle(round), now_ms);
    return round;
}

void teach_alone(struct core *core, int64_t now_ms)
{
    if (core->teaching || now_ms - core->taught_ms < AGAIN_MS)
        return;
    core->taught_ms = now_ms;
    core->teaching = teach_new(core, now_ms);
    if (!core->teaching)
        return;
    core->teaching->unattended = 1;
    round_begin(core->teaching, now_ms);
}

void teach_look(struct core *core, int64_t now_ms)
{
    if (core->unseeded || NODES_WHERE(core, i, guard_has_served(core, i)))
        teach_alone(core, now_ms);
}
