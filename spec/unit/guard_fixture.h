/* guard_fixture.h - three servers with the restart guard, and what they say. */
#ifndef GUARD_FIXTURE_H
#define GUARD_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include "core/eligibility/eligibility.h"
#include "core/eligibility/guard.h"
#include "core/rounds/teach.h"
#include "sim.h"

enum { MAX_LEASE_MS = 5000, GUARD_MS = 5000 + 50 + 1000, CUT_MS = 2 };

/* What node i of three says to an attempt that needs its vote: RL_OK, or an rl_code. */
static inline int code_of(struct sim *s, int i)
{
    sim_put(s, (i + 1) % 3, "probe", 500);
    struct hold h = sim_acquire(s, "probe", 1000, 1000);
    sim_wait(s, h.round, 2000);
    sim_run(s);
    int code = h.round->slot[i].code;
    round_free(holder_release(h.lease, s->now_ms));
    sim_drop(s, &h);
    sim_run(s);
    return code;
}

/* The same of node 0, so much later. */
static inline void says(struct sim *s, int64_t after_ms, int code)
{
    sim_advance(s, after_ms);
    CHECK_INT(code_of(s, 0), code);
}

/* Node 0 is quarantined for so long still: then an attempt has the last count written, and
 * a tick the question for floors sent. */
static inline void votes_in(struct sim *s, int64_t ms)
{
    says(s, ms - 1000, RL_GUARDED);
    says(s, 1000 + CUT_MS, RL_GUARDED);
    says(s, 1, RL_OK);
    int64_t lasted_ms = s->server[0].lasted_ms;
    CHECK(lasted_ms >= GUARD_MS && lasted_ms <= GUARD_MS + 2 * CUT_MS);
}

/* Node 0 of three that were admitted is restarted, and found so. */
static inline struct sim *restarted(void)
{
    struct sim *s = sim_admitted(3, MAX_LEASE_MS);
    sim_restart(s, 0);
    says(s, 0, RL_GUARDED);
    return s;
}

/* What is known of node i's right to vote. */
static inline rl_node_info info_of(const struct sim *s, int i)
{
    rl_node_info info = {0};
    eligibility_report(&s->core, i, &info, s->now_ms);
    return info;
}

static inline int guard_of(const struct sim *s, int i)
{
    return s->core.guards[i].state;
}

static inline struct marker marker_of(const struct sim *s, int i)
{
    struct marker m;
    int version;
    const char *text = s->server[i].marker;
    CHECK_INT(marker_parse(text, strlen(text), &m, &version), MARKER_READ);
    return m;
}

static inline void marker_is(const struct sim *s, int i, enum marker_state state)
{
    struct marker m = marker_of(s, i), ours = sim_marker(s, i, MAX_LEASE_MS);
    CHECK_INT(m.state, state);
    CHECK_STR(m.replid, ours.replid);
    CHECK_INT(m.max_lease_ms, MAX_LEASE_MS);
}

/* What others have written: an admission, */
static inline void admitted_by_others(struct sim *s, int i, int64_t max_lease_ms)
{
    struct marker m = sim_marker(s, i, max_lease_ms);
    sim_set_marker(s, i, &m);
}

/* and a quarantine that has just begun. */
static inline void quarantined_by_others(struct sim *s, int i, int64_t max_lease_ms)
{
    struct marker m = sim_marker(s, i, max_lease_ms);
    m.state = MARKER_LOST;
    memcpy(m.inc, "feedfeedfeedfeed", MARKER_HEX);
    sim_set_marker(s, i, &m);
}

static inline int is_theirs(const struct sim *s, int i)
{
    return !strncmp(s->server[i].marker, "feed", 4);
}

static inline void probe(struct sim *s)
{
    rl_round *round = query_probe(&s->core, s->now_ms);
    sim_wait(s, round, 2000);
    CHECK_INT(sim_end(round), RL_GRANTED);
}

/* What init makes of node i. */
static inline int admit(struct sim *s, int force, int64_t seen_ms, int i)
{
    rl_round *round = teach_begin(&s->core, seen_ms, force, INT64_MAX, s->now_ms);
    sim_wait(s, round, 4000);
    CHECK_INT(sim_end(round), RL_GRANTED);
    sim_run(s);
    return guard_of(s, i);
}

#endif
