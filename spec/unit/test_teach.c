/* test_teach.c - which base a server gets for its floors of fencing tokens, from whom, and
 * when it is admitted without. */
#include "core/rounds/teach.h"

#include "guard_fixture.h"

#define SILENT "-ERR no\r\n"
#define NOPERM "-NOPERM this user has no permissions to access the 'floor' key\r\n"
#define ALL(n) "*2\r\n:1\r\n:" #n "\r\n"
#define NOTHING(n) "*2\r\n:0\r\n:" #n "\r\n"
#define WILD "*2\r\n:2\r\n:99000000000000\r\n"
#define VANISHED "*2\r\n:-1\r\n:0\r\n"

static void in_state(struct sim *s, int i, enum marker_state state)
{
    struct marker m = sim_marker(s, i, MAX_LEASE_MS);
    m.state = (char)state;
    m.observed_ms = state == MARKER_ADMITTED ? 0 : GUARD_MS;
    sim_set_marker(s, i, &m);
}

/* n servers that were admitted; their clocks are known, node 0's quarantine is over. */
static struct sim *served(int n, enum marker_state state)
{
    struct sim *s = sim_admitted(n, MAX_LEASE_MS);
    for (int i = 0; i < n; i++)
        s->server[i].wall_ms = -s->now_ms;
    in_state(s, 0, state);
    for (int i = 0; i < n; i++)
        sim_cut(s, i), s->core.guards[i].clock.known = 0;
    return s;
}

static void three_tell(struct sim *s, const char *a, const char *b, const char *c)
{
    s->server[0].tells = a;
    s->server[1].tells = b;
    s->server[2].tells = c;
}

/* Asks for the markers; the question that comes of it is under way. */
static void ask_markers(struct sim *s)
{
    probe(s);
    sim_advance(s, 1);
}

/* As rl_teach(). */
static void teach(struct sim *s)
{
    rl_round *round = teach_begin(&s->core, -1, 0, 1000, s->now_ms);
    sim_wait(s, round, 2000);
    CHECK_INT(sim_end(round), RL_GRANTED);
    sim_run(s);
}

/* What the clocks say now, with the ms of the question. */
static void is_by_clocks(int64_t base, int64_t wall_ms)
{
    CHECK(base >= 16 * wall_ms && base <= 16 * (wall_ms + 3));
}

/* ---- others know ---- */

SIM_TEST(it_gets_the_largest_of_the_others, served(3, MARKER_LOST))
{
    three_tell(s, NOTHING(900), ALL(100), ALL(250));
    ask_markers(s);
    marker_is(s, 0, MARKER_ADMITTED);
    CHECK_INT(s->server[0].base, 250);
    CHECK_INT(s->core.guards[0].seeded, 0);
    CHECK_INT(s->server[1].marks + s->server[2].marks, 0);
    CHECK_INT(s->server[0].asked, 1);
}

/* n - q + 1 of them, without itself: any majority has a member among those. */
static void so_many_must_know(void)
{
    static const int enough[] = {0, 0, 1, 2, 2, 3};
    for (int n = 2; n <= 5; n++) {
        for (int told = enough[n] - 1; told <= n - 1; told++) {
            struct sim *s = served(n, MARKER_STEPPED);
            test_note("%d of %d", told, n);
            s->server[0].tells = ALL(999);
            for (int i = 1; i < n; i++)
                s->server[i].tells = i <= told ? ALL(70) : SILENT;
            ask_markers(s);
            marker_is(s, 0, MARKER_ADMITTED);
            CHECK_INT(s->server[0].base, told < enough[n] ? 0 : 70);
            CHECK_INT(s->core.guards[0].seeded, 0);
            sim_finish(s);
        }
    }
}

SIM_TEST(who_has_a_base_gets_none, served(3, MARKER_ADMITTED))
{
    three_tell(s, ALL(5), ALL(100), ALL(250));
    probe(s);
    teach(s);
    three_tell(s, ALL(5), NOTHING(0), NOTHING(0));
    s->server[1].stubborn = s->server[2].stubborn = 1;
    teach(s);
    CHECK_INT(s->server[0].marks, 0);
    CHECK_INT(s->server[0].base, 0);
    CHECK_INT(s->server[1].marks, 1);
}

/* ---- a majority knows nothing: clocks ---- */

static struct sim *all_new(void)
{
    struct sim *s = sim_new(3);
    sim_guard(s, MAX_LEASE_MS);
    for (int i = 0; i < 3; i++) {
        s->server[i].wall_ms = -s->now_ms;
        s->server[i].clockless = 0;
        in_state(s, i, MARKER_NEW);
    }
    return s;
}

SIM_TEST(new_servers_get_one_by_their_clocks, all_new())
{
    s->server[1].wall_ms -= 86400000;        /* one that was set back does not decide */
    ask_markers(s);
    for (int i = 0; i < 3; i++) {
        marker_is(s, i, MARKER_ADMITTED);
        is_by_clocks(s->server[i].base, SIM_WALL_MS);
        CHECK_INT(s->core.guards[i].seeded, s->server[i].base);
    }
}

SIM_TEST(nor_one_that_is_ahead, all_new())
{
    s->server[2].wall_ms += 86400000;
    ask_markers(s);
    is_by_clocks(s->server[0].base, SIM_WALL_MS);
}

SIM_TEST(of_two_clocks_the_later, all_new())
{
    s->server[0].clockless = 1;
    s->server[1].wall_ms -= 86400000;
    ask_markers(s);
    is_by_clocks(s->server[0].base, SIM_WALL_MS);
}

SIM_TEST(without_clocks_there_is_none, all_new())
{
    for (int i = 0; i < 3; i++)
        s->server[i].clockless = 1;
    ask_markers(s);
    marker_is(s, 0, MARKER_ADMITTED);
    CHECK_INT(s->server[0].base, 0);
    CHECK_INT(s->core.guards[0].seeded, 0);
}

/* It is above what is left of earlier memories, and above what one of them still knows. */
SIM_TEST(and_above_all_that_is_known, all_new())
{
    three_tell(s, NOTHING(5), NOTHING(29000000000000), NOTHING(0));
    ask_markers(s);
    CHECK_INT(s->server[0].base, INT64_C(29000000000000));
    CHECK_INT(s->server[2].base, INT64_C(29000000000000));
}

static void one_knows_more(void)
{
    for (int k = 0; k < 2; k++) {
        struct sim *s = all_new();
        in_state(s, 2, MARKER_ADMITTED);
        three_tell(s, NOTHING(0), NOTHING(0), k ? ALL(29000000000000) : ALL(5));
        ask_markers(s);
        if (k)
            CHECK_INT(s->server[0].base, INT64_C(29000000000000));
        else
            is_by_clocks(s->server[0].base, SIM_WALL_MS);
        CHECK_INT(s->core.guards[0].seeded, s->server[0].base);
        CHECK_INT(s->server[2].marks, 0);
        sim_finish(s);
    }
}

SIM_TEST(one_server_is_all_there_is, served(1, MARKER_LOST))
{
    ask_markers(s);
    marker_is(s, 0, MARKER_ADMITTED);
    is_by_clocks(s->server[0].base, SIM_WALL_MS);
}

/* ---- who may know says nothing: none ---- */

/* Clocks must not guess what it knows. Plain locks need no base. */
SIM_TEST(it_is_admitted_without_beside_the_silent, served(3, MARKER_LOST))
{
    three_tell(s, NOTHING(0), ALL(250), SILENT);
    ask_markers(s);
    marker_is(s, 0, MARKER_ADMITTED);
    CHECK_INT(s->server[0].base, 0);
    CHECK_INT(s->core.guards[0].seeded, 0);
    CHECK_INT(code_of(s, 0), RL_OK);
    teach(s);
    CHECK_INT(s->server[0].base, 0);
    s->server[2].tells = ALL(300);           /* it is back */
    char text[MARKER_MAX];
    memcpy(text, s->server[0].marker, MARKER_MAX);
    teach(s);
    CHECK_INT(s->server[0].base, 300);
    CHECK_STR(s->server[0].marker, text);
    CHECK_INT(s->core.guards[0].seeded, 0);
    sim_advance(s, 2000);
}

/* Or it was replaced by an empty one, which says so: a majority lacks floors. */
SIM_TEST(an_empty_server_in_its_place_is_enough, served(3, MARKER_LOST))
{
    three_tell(s, NOTHING(0), ALL(250), SILENT);
    ask_markers(s);
    CHECK_INT(s->server[0].base, 0);
    three_tell(s, NOTHING(0), ALL(250), NOTHING(0));
    s->server[2].stubborn = 1;
    teach(s);
    is_by_clocks(s->server[0].base, SIM_WALL_MS);
    sim_advance(s, 2000);
}

/* Connected, without an answer. */
SIM_TEST(the_silent_are_awaited_for_three_seconds, served(3, MARKER_LOST))
{
    probe(s);
    sim_freeze(s, bit(2));
    s->config[2].timeout_ms = 10000;
    sim_advance(s, 2900);
    marker_is(s, 0, MARKER_LOST);
    sim_advance(s, 200);
    marker_is(s, 0, MARKER_ADMITTED);
    CHECK_INT(s->server[0].base, 0);
    CHECK_INT(s->server[1].asked, 1);
}

/* It has no more time; the question goes on by itself. */
SIM_TEST(a_caller_in_a_hurry, served(3, MARKER_ADMITTED))
{
    three_tell(s, NOTHING(0), ALL(100), ALL(250));
    probe(s);
    sim_advance(s, 1000);
    sim_hold_answers(s, bit(2));
    s->config[2].timeout_ms = 10000;
    int64_t began_ms = s->now_ms;
    rl_round *round = teach_begin(&s->core, -1, 0, 100, s->now_ms);
    CHECK_INT(sim_wait(s, round, 1000), RL_GRANTED);
    CHECK(s->now_ms <= began_ms + 100);
    round_free(round);
    sim_advance(s, 1000);
    CHECK_INT(s->server[0].base, 0);
    sim_hold_answers(s, 0);
    sim_run(s);
    CHECK_INT(s->server[0].base, 250);
}

/* Who may not ask leaves it to those who may, for a while; and asks once a second. */
SIM_TEST(who_may_not_ask_waits, served(3, MARKER_LOST))
{
    three_tell(s, NOPERM, NOPERM, NOPERM);
    ask_markers(s);
    rl_lease *lease = sim_hold(s, "k", MAX_LEASE_MS);
    watchdog_start(lease, MAX_LEASE_MS, 0, s->now_ms);
    sim_advance(s, 9900);
    marker_is(s, 0, MARKER_LOST);
    CHECK(s->server[0].asked >= 9 && s->server[0].asked <= 11);
    sim_advance(s, 1200);
    marker_is(s, 0, MARKER_ADMITTED);
    CHECK_INT(s->server[0].base, 0);
}

/* Only about the server itself: what others tell may be enough. */
SIM_TEST(who_may_not_ask_another_does_not_wait, served(3, MARKER_LOST))
{
    three_tell(s, NOTHING(0), NOPERM, ALL(250));
    ask_markers(s);
    marker_is(s, 0, MARKER_ADMITTED);
    CHECK_INT(s->server[0].base, 0);
}

/* Nor is anybody asked before the quarantine is over. */
SIM_TEST(nobody_is_asked_before, served(3, MARKER_LOST))
{
    struct marker m = marker_of(s, 0);
    m.observed_ms = GUARD_MS - 1;
    sim_set_marker(s, 0, &m);
    ask_markers(s);
    CHECK_INT(s->server[1].asked, 0);
    marker_is(s, 0, MARKER_LOST);
    teach(s);                                /* that does not admit it, either */
    marker_is(s, 0, MARKER_LOST);
    CHECK_INT(s->server[0].marks, 0);
}

/* A question is under way: server 2 has not answered yet. */
static rl_round *under_way(struct sim *s, int64_t seen_ms)
{
    sim_hold_answers(s, bit(2));
    rl_round *round = teach_begin(&s->core, seen_ms, 0, 1000, s->now_ms);
    sim_run(s);
    CHECK_INT(round->outcome, RL_OK);
    sim_skip(s, 1);
    return round;
}

static void answers_arrive(struct sim *s, rl_round *round)
{
    sim_hold_answers(s, 0);
    CHECK_INT(sim_result(s, round), RL_GRANTED);
}

static void changes(struct sim *s, enum marker_state state, const char *inc)
{
    struct marker m = marker_of(s, 0);
    m.state = (char)state;
    m.observed_ms = state == MARKER_ADMITTED ? 0 : GUARD_MS;
    memcpy(m.inc, inc, strlen(inc));
    sim_set_marker(s, 0, &m);
    guard_saw(&s->core, 0, s->server[0].marker, strlen(s->server[0].marker), s->now_ms);
}

/* Its quarantine ends behind the question: attempts that count on what it voted before may
 * have raised the counters of others since. */
static void what_was_told_before_the_end_is_too_early(void)
{
    for (int k = 0; k < 3; k++) {
        struct sim *s = served(3, MARKER_LOST);
        struct marker m = marker_of(s, 0);
        test_note("%d", k);
        if (k == 2)
            m.state = MARKER_ADMITTED;       /* and it forgets */
        m.observed_ms = GUARD_MS - 1;
        sim_set_marker(s, 0, &m);
        three_tell(s, NOTHING(0), ALL(7), ALL(6));
        probe(s);
        rl_round *round = under_way(s, -1);
        changes(s, k == 1 ? MARKER_ADMITTED : MARKER_LOST, k == 2 ? "feed" : "");
        answers_arrive(s, round);
        CHECK_INT(s->server[0].marks, 0);
        sim_advance(s, 1100);
        ask_markers(s);                             /* asked again */
        teach(s);
        marker_is(s, 0, MARKER_ADMITTED);
        CHECK_INT(s->server[0].base, 7);
        sim_finish(s);
    }
}

/* What init is to admit forgets behind the question, or somebody who knew it comes. */
static void init_looks_again_at_what_it_admits(void)
{
    for (int k = 0; k < 4; k++) {
        struct sim *s = all_new();
        struct marker m = marker_of(s, 0);
        test_note("%d", k);
        m.observed_ms = GUARD_MS - 1;
        sim_set_marker(s, 0, &m);
        probe(s);
        rl_round *round = under_way(s, s->now_ms);
        if (k)
            changes(s, k == 1 ? MARKER_NEW : k == 2 ? MARKER_LOST : MARKER_STEPPED,
                    k == 1 ? "feed" : "");
        answers_arrive(s, round);
        CHECK_INT(marker_of(s, 0).state == MARKER_ADMITTED, !k);
        marker_is(s, 1, MARKER_ADMITTED);
        sim_advance(s, 2000);
        sim_finish(s);
    }
}

/* ---- floors that are wrong, or gone ---- */

static int has_forgotten(struct sim *s, int i)
{
    struct marker ours = sim_marker(s, i, MAX_LEASE_MS);
    return s->server[i].marker[20] == MARKER_LOST &&
           strncmp(s->server[i].marker, ours.inc, MARKER_HEX);
}

/* Nobody knows what it gave out since: its memory counts as lost. */
SIM_TEST(floors_that_vanished_are_a_loss, served(3, MARKER_ADMITTED))
{
    three_tell(s, VANISHED, SILENT, SILENT);
    probe(s);
    teach(s);
    CHECK(has_forgotten(s, 0));
    CHECK_INT(s->server[0].base, 0);
}

static void so_are_those_out_of_range_if_others_can_teach(void)
{
    for (int k = 0; k < 2; k++) {
        struct sim *s = served(3, MARKER_ADMITTED);
        three_tell(s, WILD, ALL(7), k ? ALL(8) : SILENT);
        probe(s);
        teach(s);
        CHECK_INT(has_forgotten(s, 0), k);
        CHECK_INT(s->server[0].marks, k);
        CHECK_INT(s->server[0].base, 0);
        sim_finish(s);
    }
}

/* Clocks decide for a majority in one go, which one in quarantine is not yet part of. */
SIM_TEST(a_quarantine_lacks_nothing_yet, served(3, MARKER_LOST))
{
    in_state(s, 1, MARKER_LOST);
    struct marker m = marker_of(s, 1);
    m.observed_ms = 0;
    sim_set_marker(s, 1, &m);
    three_tell(s, NOTHING(0), NOTHING(0), SILENT);
    ask_markers(s);
    marker_is(s, 0, MARKER_ADMITTED);
    marker_is(s, 1, MARKER_LOST);
    CHECK_INT(s->server[0].base, 0);
}

/* It is no witness, and it does not lack floors. */
SIM_TEST(what_is_out_of_range_teaches_nobody, served(3, MARKER_LOST))
{
    three_tell(s, NOTHING(0), ALL(7), WILD);
    ask_markers(s);
    marker_is(s, 0, MARKER_ADMITTED);
    CHECK_INT(s->server[0].base, 0);
}

/* ---- redlock init --force ---- */

/* It does not wait for the silent, but takes what the servers themselves have kept. */
SIM_TEST(force_takes_clocks_and_own_old_floors, served(3, MARKER_LOST))
{
    three_tell(s, NOTHING(0), ALL(7), SILENT);
    probe(s);
    CHECK_INT(admit(s, 1, s->now_ms, 0), RL_GUARD_ADMITTED);
    is_by_clocks(s->server[0].base, SIM_WALL_MS);
    in_state(s, 0, MARKER_LOST);
    three_tell(s, NOTHING(29000000000000), SILENT, SILENT);
    probe(s);
    CHECK_INT(admit(s, 1, s->now_ms, 0), RL_GUARD_ADMITTED);
    CHECK_INT(s->server[0].base, INT64_C(29000000000000));
    CHECK_INT(s->server[1].marks + s->server[2].marks, 0);
}

/* Without force init has what the others have, too: clocks if they lack floors as well. */
SIM_TEST(init_gives_a_base_as_well, all_new())
{
    probe(s);
    CHECK_INT(admit(s, 0, s->now_ms, 0), RL_GUARD_ADMITTED);
    for (int i = 0; i < 3; i++) {
        marker_is(s, i, MARKER_ADMITTED);
        is_by_clocks(s->server[i].base, SIM_WALL_MS);
    }
}

/* ---- without the guard ---- */

static struct sim *unguarded(void)
{
    struct sim *s = sim_new(3);
    sim_guard(s, MAX_LEASE_MS);
    s->core.marker = NULL;
    for (int i = 0; i < s->n; i++)
        s->core.guards[i].marker[0] = 0;
    for (int i = 0; i < 3; i++) {
        s->server[i].clockless = s->config[i].guarded = 0;
        s->server[i].wall_ms = -s->now_ms;
    }
    return s;
}

SIM_TEST(without_the_guard_lives_have_floors, unguarded())
{
    three_tell(s, NOTHING(0), ALL(100), ALL(250));
    teach(s);
    CHECK_INT(s->server[0].base, 250);
    CHECK_INT(s->server[1].marks + s->server[2].marks, 0);
    CHECK_STR(s->server[0].marker, "");
    three_tell(s, NOTHING(0), ALL(100), SILENT);
    teach(s);
    CHECK_INT(s->server[0].marks, 1);
    three_tell(s, NOTHING(0), ALL(100), NOTHING(0));
    teach(s);
    is_by_clocks(s->server[0].base, SIM_WALL_MS);
    is_by_clocks(s->server[2].base, SIM_WALL_MS);
    CHECK_INT(s->server[1].marks, 0);
    three_tell(s, VANISHED, WILD, ALL(1));
    teach(s);
    CHECK_INT(s->server[0].marks + s->server[1].marks, 2);
}

/* ---- the bound ---- */

/* Ten years ahead of the latest clock; from 2026 on, whatever a clock says. */
SIM_TEST(the_bound_follows_the_clocks, served(3, MARKER_ADMITTED))
{
    int64_t ten_years_ms = INT64_C(315360000000);
    CHECK_INT(teach_token_limit(&s->core, s->now_ms),
              16 * (INT64_C(1767225600000) + ten_years_ms));
    s->server[1].wall_ms += 86400000;
    probe(s);
    int64_t limit = teach_token_limit(&s->core, s->now_ms);
    int64_t want = 16 * (SIM_WALL_MS + 86400000 + ten_years_ms);
    CHECK(limit >= want && limit < want + 64);
    s->server[2].wall_ms = INT64_C(90000000000000);
    s->core.guards[2].clock.known = 0;
    sim_advance(s, 1100);
    probe(s);
    CHECK_INT(teach_token_limit(&s->core, s->now_ms), INT64_C(100000000000000) - 32);
}

SUITE(teach, T(it_gets_the_largest_of_the_others), T(so_many_must_know),
      T(who_has_a_base_gets_none), T(new_servers_get_one_by_their_clocks),
      T(nor_one_that_is_ahead), T(of_two_clocks_the_later), T(without_clocks_there_is_none),
      T(and_above_all_that_is_known), T(one_knows_more), T(one_server_is_all_there_is),
      T(it_is_admitted_without_beside_the_silent), T(an_empty_server_in_its_place_is_enough),
      T(the_silent_are_awaited_for_three_seconds),
      T(a_caller_in_a_hurry), T(who_may_not_ask_waits),
      T(who_may_not_ask_another_does_not_wait), T(nobody_is_asked_before),
      T(what_was_told_before_the_end_is_too_early), T(init_looks_again_at_what_it_admits),
      T(floors_that_vanished_are_a_loss), T(so_are_those_out_of_range_if_others_can_teach),
      T(a_quarantine_lacks_nothing_yet), T(what_is_out_of_range_teaches_nobody),
      T(force_takes_clocks_and_own_old_floors),
      T(init_gives_a_base_as_well), T(without_the_guard_lives_have_floors),
      T(the_bound_follows_the_clocks));
