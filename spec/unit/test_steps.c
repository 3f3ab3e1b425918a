/* test_steps.c - clocks of a majority that are stepped forward, or our own that stood still:
 * keys end earlier, and nothing may be valid for longer than they last. */
#include <string.h>

#include "core/eligibility/guard.h"
#include "sim.h"

enum { STEP_MS = 20000, LEASE_MS = 30000, MAX_LEASE_MS = 60000 };

static void step_server(struct sim *s, int i, int64_t ms)
{
    s->server[i].wall_ms += ms;
    for (int k = 0; k < s->server[i].keys; k++)
        s->server[i].key[k].until_ms -= ms;
}

/* The step shows while the confirmation of an acquire is under way. */
SIM_TEST(before_a_confirmation, sim_admitted(3, MAX_LEASE_MS))
{
    rl_lease *other = sim_hold(s, "other", 50000);
    s->core.marker = NULL;             /* the scripted servers know no guarded fenced calls */
    for (int i = 0; i < s->n; i++)
        s->core.guards[i].marker[0] = 0;
    sim_fence(s);
    s->server[0].counter = 5;
    sim_leave(s, 2);
    sim_advance(s, 1500);
    int64_t looked_ms = s->core.nodes[0].looked_ms;
    if (s->core.nodes[1].looked_ms > looked_ms)
        looked_ms = s->core.nodes[1].looked_ms;
    sim_skip(s, looked_ms + 998 - s->now_ms);
    struct hold h = sim_acquire(s, "k", LEASE_MS, 1000);
    sim_pass(s, 0);
    sim_pass(s, 1);
    CHECK_INT(h.round->outcome, RL_OK);             /* 6 and 1 */
    step_server(s, 0, STEP_MS);
    step_server(s, 1, STEP_MS);
    int64_t until_ms = sim_key(s, 0, "k")->until_ms;
    sim_skip(s, 3);
    rl_round *extend = holder_extend(other, 50000, s->now_ms);    /* brings TIME of both */
    sim_pass(s, 0);
    sim_tick(s);                                    /* the confirmation, to 1 */
    sim_pass(s, 1);
    sim_run(s);
    CHECK_INT(s->core.guards[0].steps + s->core.guards[1].steps, 2);
    CHECK_INT(h.round->outcome, RL_GRANTED);
    CHECK(h.lease->deadline_ms <= until_ms);
    round_free(extend);
}

/* An extension: yes, an error, and a yes that comes after the step showed. */
SIM_TEST(before_the_last_vote, sim_admitted(3, MAX_LEASE_MS))
{
    rl_lease *lease = sim_hold(s, "k", LEASE_MS);
    sim_advance(s, 1500);
    sim_skip(s, s->core.nodes[0].looked_ms + 900 - s->now_ms);
    s->server[1].say[SIM_EXTEND] = "-BUSY\r\n";
    rl_round *extend = holder_extend(lease, LEASE_MS, s->now_ms);
    sim_pass(s, 0);
    sim_pass(s, 1);
    sim_hold_answers(s, bit(2));
    sim_serve(s, 2);
    sim_execute(s, 2, SIM_LOG);
    for (int i = 0; i < 3; i++)
        step_server(s, i, STEP_MS);
    int64_t until_ms = sim_key(s, 0, "k")->until_ms;
    sim_advance(s, 150);                            /* the health tick */
    CHECK(lease->deadline_ms <= until_ms);
    sim_hold_answers(s, 0);
    CHECK_INT(sim_outcome(s, extend), RL_GRANTED);
    CHECK(lease->deadline_ms <= until_ms);
    round_free(extend);
}

/* One server frees the key while a renewal is under way that it has answered: the next one
 * puts it back at once. */
SIM_TEST(during_a_renewal, sim_admitted(3, MAX_LEASE_MS))
{
    rl_lease *lease = sim_keep(s, "k", LEASE_MS);
    sim_advance(s, lease->renew_ms - s->now_ms - 1);
    int64_t due_ms = s->core.nodes[0].looked_ms + 1000;
    sim_skip(s, 1);
    sim_tick(s);
    REQUIRE(lease->renewal != NULL);
    sim_hold_answers(s, bit(1) | bit(2));
    sim_run(s);                                     /* 0 has answered */
    s->server[0].wall_ms = MAX_LEASE_MS;
    s->server[0].keys = 0;
    sim_advance(s, due_ms - s->now_ms + 1050);
    CHECK_INT(s->core.guards[0].steps, 1);
    REQUIRE(lease->renewal != NULL);
    sim_hold_answers(s, 0);
    sim_run(s);
    CHECK(lease->renewal == NULL);
    sim_advance(s, 1100);
    CHECK_INT(sim_mine(s, "k", lease), all_of(3));
}

static void twice(void)
{
    static const int gaps_ms[] = {1100, 1500, 1900, 2500, 3500};
    for (int k = 0; k < 5; k++) {
        struct sim *s = sim_admitted(3, MAX_LEASE_MS);
        test_note("%d ms apart", gaps_ms[k]);
        rl_lease *lease = sim_hold(s, "k", MAX_LEASE_MS);
        for (int step = 0; step < 2; step++) {
            for (int i = 0; i < 3; i++)
                step_server(s, i, 10000);
            sim_advance(s, step ? 1100 : gaps_ms[k]);
        }
        CHECK(lease->deadline_ms <= sim_key(s, 0, "k")->until_ms);
        sim_finish(s);
    }
}

/* Two of three servers, one after the other: all leases of before the first step ended. */
SIM_TEST(a_step_of_long_ago_ends_nothing, sim_admitted(3, MAX_LEASE_MS))
{
    sim_let_go(s, sim_hold(s, "k", LEASE_MS));
    step_server(s, 0, 10000);
    sim_advance(s, 1100);
    rl_lease *lease = sim_hold(s, "k", LEASE_MS);
    CHECK_INT(s->core.guards[0].steps, 1);
    sim_let_go(s, lease);
    sim_advance(s, 2 * MAX_LEASE_MS);
    lease = sim_hold(s, "k", LEASE_MS);
    int64_t deadline_ms = lease->deadline_ms;
    step_server(s, 1, 10000);
    sim_advance(s, 3000);
    CHECK_INT(s->core.guards[1].steps, 1);
    CHECK_INT(lease->deadline_ms, deadline_ms);
}

/* One after the other, within a lease; and once more when no lease of before is left. */
SIM_TEST(one_by_one, sim_admitted(3, MAX_LEASE_MS))
{
    rl_lease *lease = sim_hold(s, "k", MAX_LEASE_MS);
    for (int i = 0; i < 2; i++) {
        step_server(s, i, 10000);
        sim_advance(s, 8000);
    }
    CHECK(lease->deadline_ms <= sim_key(s, 0, "k")->until_ms);
    round_free(holder_release(lease, s->now_ms));
    holder_drop(lease, s->now_ms);
    sim_advance(s, 2 * MAX_LEASE_MS);
    for (int i = 0; i < 2; i++) {
        CHECK(s->core.guards[i].steps > 0);
        CHECK_INT(s->server[i].marker[20], MARKER_ADMITTED);    /* the idle client counted */
    }
    lease = sim_hold(s, "k", LEASE_MS);
    int64_t deadline_ms = lease->deadline_ms;
    step_server(s, 2, 10000);
    sim_advance(s, 3000);
    CHECK_INT(lease->deadline_ms, deadline_ms);     /* two of three have it as long as that */
}

/* ---- whose clock it was ---- */

static int letter(const struct sim *s, int i)
{
    return s->server[i].marker[20];
}

static int64_t observed_ms(const struct sim *s, int i)
{
    struct marker m;
    int version;
    const char *text = s->server[i].marker;
    CHECK_INT(marker_parse(text, strlen(text), &m, &version), MARKER_READ);
    return m.observed_ms;
}

static void probe_all(struct sim *s)
{
    rl_round *round = query_probe(&s->core, s->now_ms);
    sim_wait(s, round, 2000);
    CHECK_INT(sim_end(round), RL_GRANTED);
}

/* n servers, of which some are down, and a hold that looks at them: s->lease[0]. */
static struct sim *watched(int n, uint32_t down)
{
    struct sim *s = sim_admitted(n, MAX_LEASE_MS);
    sim_hold(s, "k", MAX_LEASE_MS);
    for (int i = 0; i < n; i++) {
        if (down & bit(i))
            sim_leave(s, i);
    }
    sim_advance(s, 2500);
    return s;
}

/* It is the server's if a majority of all clocks saw none. Else ours may have stood still. */
static void a_majority_of_clocks_tells(void)
{
    static const struct {
        int n;
        uint32_t down, step, written;
    } cases[] = {
        {3, 0, 1, 1}, {3, 0, 2, 2}, {3, 2, 1, 0}, {3, 0, 3, 0}, {3, 0, 7, 0}, {3, 4, 3, 0},
        {5, 0, 1, 1}, {5, 2, 1, 1}, {5, 6, 1, 0}, {5, 0, 3, 3}, {5, 4, 3, 0}, {5, 0, 7, 0},
        {4, 0, 1, 1}, {4, 0, 3, 0}, {4, 2, 1, 0}, {1, 0, 1, 0}, {2, 0, 1, 0}, {2, 0, 3, 0},
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct sim *s = watched(cases[k].n, cases[k].down);
        test_note("%d: %x of %x", (int)k, cases[k].step, all_of(cases[k].n) & ~cases[k].down);
        for (int i = 0; i < cases[k].n; i++) {
            if (cases[k].step & bit(i))
                s->server[i].wall_ms += 30000;
        }
        sim_advance(s, 7000);                /* longer than it may stay open */
        for (int i = 0; i < cases[k].n; i++) {
            int stepped = cases[k].step >> i & 1, written = cases[k].written >> i & 1;
            CHECK_INT(s->core.guards[i].steps, stepped);
            CHECK_INT(letter(s, i), written ? MARKER_STEPPED : MARKER_ADMITTED);
            CHECK_INT(s->core.guards[i].suspect_ms > s->now_ms, stepped && !written);
            CHECK_INT(s->server[i].marked > 0, written);
        }
        sim_finish(s);
    }
}

/* A step back frees nothing, and does not tell that a step ahead was ours. */
static void a_step_back_is_nobodys(void)
{
    for (int both = 0; both < 2; both++) {
        struct sim *s = watched(3, 0);
        s->server[0].wall_ms -= 30000;
        s->server[1].wall_ms += both ? 30000 : 0;
        sim_advance(s, 7000);
        CHECK_INT(s->core.guards[0].steps, 1);
        CHECK_INT(letter(s, 0), MARKER_ADMITTED);
        CHECK(s->core.guards[0].suspect_ms > s->now_ms);
        CHECK_INT(letter(s, 1), both ? MARKER_STEPPED : MARKER_ADMITTED);
        sim_finish(s);
    }
}

/* Samples further apart do not tell when the step was: leases of then may be over. */
static void the_gap(void)
{
    for (int gap_ms = 2900; gap_ms <= 3100; gap_ms += 200) {
        struct sim *s = sim_admitted(3, MAX_LEASE_MS);
        sim_let_go(s, sim_hold(s, "k", 1000));
        sim_advance(s, 1500);
        sim_let_go(s, sim_hold(s, "k", 1000));
        sim_advance(s, 1500);
        int64_t sampled_ms = s->core.guards[0].sampled_ms;
        s->core.nodes[0].looked_ms = s->now_ms + 500;     /* until then only at the others */
        sim_let_go(s, sim_hold(s, "k", 1000));
        sim_advance(s, sampled_ms + gap_ms - s->now_ms);
        s->server[0].wall_ms += 30000;
        sim_let_go(s, sim_hold(s, "k", 1000));
        sim_advance(s, 1500);
        sim_let_go(s, sim_hold(s, "k", 1000));
        CHECK_INT(s->core.guards[0].steps, 1);
        CHECK_INT(letter(s, 0), gap_ms < 3000 ? MARKER_STEPPED : MARKER_ADMITTED);
        CHECK_INT(s->core.guards[0].suspect_ms > s->now_ms, gap_ms > 3000);
        sim_advance(s, 2000);
        sim_finish(s);
    }
}

/* As soon as the other clocks have told, though nothing is held and nobody asks again. */
SIM_TEST(a_step_is_written_at_once, sim_admitted(3, MAX_LEASE_MS))
{
    CHECK_INT(sim_result(s, sim_ask(s, "k")), RL_GRANTED);
    sim_advance(s, 2000);
    s->server[0].wall_ms = 30000;
    CHECK_INT(sim_result(s, sim_ask(s, "k")), RL_GRANTED);
    sim_advance(s, 1);
    CHECK_INT(letter(s, 0), MARKER_STEPPED);
}

/* Who may not write it does not ask for it forever. */
SIM_TEST(a_step_is_not_written_for_long, watched(3, 0))
{
    rl_lease *lease = s->lease[0];
    watchdog_start(lease, MAX_LEASE_MS, 0, s->now_ms);
    s->server[0].stubborn = 1;
    s->server[0].wall_ms += 30000;
    sim_advance(s, 2 * MAX_LEASE_MS);
    CHECK(s->server[0].marks > 30 && s->server[0].marks < 65);
    CHECK_INT(letter(s, 0), MARKER_ADMITTED);
}

/* Nor into one that does not suit us. */
SIM_TEST(nor_into_a_marker_of_others, watched(3, 0))
{
    struct marker m = sim_marker(s, 0, 2 * MAX_LEASE_MS);
    sim_set_marker(s, 0, &m);
    sim_cut(s, 0);
    probe_all(s);
    CHECK_INT(s->core.guards[0].state, RL_GUARD_DISAGREES);
    s->server[0].wall_ms += 30000;
    sim_advance(s, 3000);
    CHECK_INT(s->core.guards[0].steps, 1);
    CHECK_INT(s->server[0].marks, 0);
    CHECK(s->core.guards[0].suspect_ms > s->now_ms);
}

/* A clock that was not compared since tells nothing. */
SIM_TEST(only_clocks_of_since_then_tell, watched(3, 0))
{
    sim_hold_answers(s, bit(1));
    s->server[0].wall_ms += 30000;
    sim_advance(s, 1100);
    CHECK_INT(s->core.guards[0].steps, 1);
    CHECK_INT(letter(s, 0), MARKER_ADMITTED);
    sim_hold_answers(s, 0);
    sim_advance(s, 1100);
    CHECK_INT(letter(s, 0), MARKER_STEPPED);
}

/* Nor the clock of a server that was restarted, or did not answer for an hour: it shows no
 * step either if it was our own clock that stood still. */
static void nor_one_that_is_new_to_us(void)
{
    for (int away_s = 0; away_s <= 3600; away_s += 3600) {
        struct sim *s = watched(3, bit(1) | bit(2));
        test_note("away for %d s", away_s);
        for (int k = 0; k < away_s; k++) {
            round_free(sim_ask(s, "k"));
            sim_advance(s, 1000);
            sim_clear_logs(s);
        }
        for (int i = 0; i < 3; i++) {
            s->server[i].refuses = 0;
            s->server[i].wall_ms += 30000;
            if (i && !away_s)
                sim_restart(s, i);
        }
        probe_all(s);
        sim_advance(s, 1100);
        probe_all(s);
        sim_advance(s, 7000);
        CHECK_INT(s->core.guards[0].steps, 1);
        CHECK_INT(s->core.guards[1].steps + s->core.guards[2].steps, 0);
        CHECK_INT(letter(s, 0), MARKER_ADMITTED);
        sim_finish(s);
    }
}

/* Later the others no longer say that they stepped as well: they were set back since. */
SIM_TEST(a_step_is_not_open_for_long, watched(3, 0))
{
    for (int i = 0; i < 3; i++)
        s->server[i].wall_ms += 30000;
    sim_advance(s, 7000);
    s->server[1].wall_ms -= 30000;
    s->server[2].wall_ms -= 30000;
    sim_advance(s, 5000);
    CHECK_INT(s->core.guards[1].steps, 2);
    CHECK_INT(letter(s, 0), MARKER_ADMITTED);
    CHECK(s->core.guards[0].suspect_ms > s->now_ms);
}

/* Others were faster: nothing is written. */
SIM_TEST(others_have_written_it, watched(3, 0))
{
    sim_hold_answers(s, bit(1) | bit(2));
    s->server[0].wall_ms += 30000;
    sim_advance(s, 1100);                    /* noticed, but open */
    struct marker m = sim_marker(s, 0, MAX_LEASE_MS);
    m.state = MARKER_STEPPED;
    sim_set_marker(s, 0, &m);
    sim_hold_answers(s, 0);
    sim_advance(s, 2000);
    CHECK_INT(s->server[0].marks, 1);        /* which told of theirs */
    CHECK_INT(s->server[0].marked, 0);
    CHECK_INT(s->core.guards[0].suspect_ms, 0);
    CHECK_INT(s->core.guards[0].state, RL_GUARD_QUARANTINED);
}

/* What was healed in a quarantine has gone, too: whatever its letter, and however little of it
 * was counted before. */
static void a_quarantine_begins_anew(void)
{
    for (const char *state = "nls"; *state; state++) {
        for (int counted = 0; counted < 2; counted++) {
            struct sim *s = sim_admitted(3, MAX_LEASE_MS);
            struct marker m = sim_marker(s, 0, MAX_LEASE_MS);
            test_note("%c, counted: %d", *state, counted);
            m.state = *state;
            m.observed_ms = counted * 20000;
            sim_set_marker(s, 0, &m);
            probe_all(s);
            sim_hold(s, "k", MAX_LEASE_MS);
            sim_advance(s, 10000);
            int64_t began_ms = s->server[0].began_ms;
            s->server[0].wall_ms += 30000;
            sim_advance(s, 2100);
            CHECK_INT(s->core.guards[0].steps, 1);
            CHECK(s->server[0].began_ms > began_ms + 10000);
            CHECK_INT(observed_ms(s, 0), 0);
            CHECK_INT(letter(s, 0), *state == 'n' ? 'l' : *state);
            CHECK(!strncmp(s->server[0].marker, m.inc, MARKER_HEX));
            sim_finish(s);
        }
    }
}

/* Also by a quarantine that others had begun before, and that we learn of only now. */
SIM_TEST(it_was_forgotten_before, watched(3, 0))
{
    struct marker m = sim_marker(s, 0, MAX_LEASE_MS);
    m.state = MARKER_LOST;
    memcpy(m.inc, "feed", 4);
    sim_set_marker(s, 0, &m);
    sim_advance(s, 10000);
    s->server[0].wall_ms += 30000;
    sim_advance(s, 2100);
    CHECK_INT(letter(s, 0), MARKER_LOST);
    CHECK(!strncmp(s->server[0].marker, m.inc, MARKER_HEX));
    CHECK(s->now_ms - s->server[0].began_ms < 2100);
    CHECK_INT(s->server[0].marked, 1);
    CHECK_INT(s->core.guards[0].suspect_ms, 0);
}

/* It takes no writes now, so nobody knows which life of it this is: the step is kept. */
SIM_TEST(a_step_is_written_when_the_life_is_known, watched(3, 0))
{
    s->server[0].wall_ms += 30000;
    sim_hold_answers(s, bit(1) | bit(2));
    sim_advance(s, 1100);
    CHECK_INT(s->core.guards[0].steps, 1);
    s->server[0].info = "-BUSY Redis is busy running a script.\r\n";
    guard_demoted(&s->core, 0, s->now_ms);
    sim_hold_answers(s, 0);
    s->server[0].holds = 1;
    sim_advance(s, 100);
    CHECK_INT(s->core.guards[0].state, RL_GUARD_UNKNOWN);
    for (int i = 0; i < 3; i++)
        guard_visit(&s->core, i, s->now_ms);
    CHECK(s->core.guards[0].suspect_ms > s->now_ms);
    s->server[0].info = NULL;
    s->server[0].holds = 0;
    sim_advance(s, 2100);
    CHECK_INT(letter(s, 0), MARKER_STEPPED);
}

/* ---- holders ---- */

/* A hold with a lease of its own: without a step it asks nobody, and then once. */
SIM_TEST(holds_ask_at_once, watched(3, 0))
{
    rl_lease *lease = s->lease[0];
    int64_t deadline_ms = lease->deadline_ms, until_ms = sim_key(s, 1, "k")->until_ms;
    sim_clear_logs(s);
    sim_advance(s, 3000);
    sim_logs_are(s, "");
    step_server(s, 0, 2 * MAX_LEASE_MS);     /* it has freed the key */
    sim_advance(s, 1100);
    CHECK_STR(s->server[1].log, "E");
    CHECK_STR(s->server[2].log, "E");
    CHECK_INT(lease->lost, RL_NOT_LOST);
    CHECK_INT(lease->deadline_ms, deadline_ms);        /* nothing is longer for it */
    CHECK_INT(sim_key(s, 1, "k")->until_ms, until_ms);
    sim_advance(s, 3000);
    CHECK_INT(sim_result(s, holder_extend(lease, MAX_LEASE_MS, s->now_ms)), RL_GRANTED);
    sim_advance(s, 2000);
    CHECK_STR(s->server[1].log, "EE");
}

/* Another server had lost the key before: now a majority has, and the holder is told. */
SIM_TEST(holds_learn_of_a_loss, watched(3, 0))
{
    rl_lease *lease = s->lease[0];
    s->server[1].keys = 0;
    sim_advance(s, 3000);
    CHECK_INT(lease->lost, RL_NOT_LOST);
    step_server(s, 0, 2 * MAX_LEASE_MS);
    sim_advance(s, 1100);
    CHECK_INT(lease->lost, RL_LOSS_FORGOTTEN);
}

SIM_TEST(who_cannot_extend_asks_nobody, sim_admitted(3, MAX_LEASE_MS))
{
    s->primitive.extend = -1;
    rl_lease *lease = sim_hold(s, "k", MAX_LEASE_MS);
    sim_advance(s, 2500);
    sim_clear_logs(s);
    step_server(s, 0, 30000);
    sim_advance(s, 3000);
    sim_logs_are(s, "");
    CHECK(!lease->asks);
}

SUITE(steps, T(before_a_confirmation), T(before_the_last_vote), T(during_a_renewal), T(twice),
      T(a_step_of_long_ago_ends_nothing), T(one_by_one), T(a_majority_of_clocks_tells),
      T(a_step_back_is_nobodys), T(the_gap),
      T(a_step_is_written_at_once), T(a_step_is_not_written_for_long), T(nor_into_a_marker_of_others),
      T(only_clocks_of_since_then_tell), T(nor_one_that_is_new_to_us),
      T(a_step_is_not_open_for_long),
      T(others_have_written_it), T(a_quarantine_begins_anew),
      T(it_was_forgotten_before), T(a_step_is_written_when_the_life_is_known), T(holds_ask_at_once),
      T(holds_learn_of_a_loss), T(who_cannot_extend_asks_nobody));
