/* test_quarantine.c - how a quarantine is counted, what letter it has, and whom redlock init
 * admits before it is over. */
#include <stdlib.h>

#include "core/eligibility/eligibility.h"
#include "guard_fixture.h"

/* ---- two clocks ---- */

static int64_t observed_ms(const struct sim *s)
{
    return marker_of(s, 0).observed_ms;
}

/* When the server says that its marker was written. */
static int64_t at_ms(const struct sim *s)
{
    return atoll(strrchr(s->server[0].marker, ' '));
}

/* Node 0 was restarted; nobody may ask it for the time, which would show the steps. */
static struct sim *clockless(void)
{
    struct sim *s = sim_admitted(3, MAX_LEASE_MS);
    s->server[0].clockless = 1;
    sim_restart(s, 0);
    says(s, 0, RL_GUARDED);
    return s;
}

/* The server's clock stands still, so only ours says that time passes. */
SIM_TEST(our_clock_alone_ends_nothing, clockless())
{
    for (int k = 0; k < 2 * GUARD_MS / 1000; k++) {
        s->server[0].wall_ms -= 1000;
        says(s, 1000, RL_GUARDED);
    }
    CHECK_INT(observed_ms(s), 0);
    CHECK(s->server[0].marked > 3);
    s->server[0].began_ms = s->now_ms;       /* from now on both say it */
    sim_advance(s, GUARD_MS + 2000);
    code_of(s, 0);
    sim_advance(s, 1000);
    CHECK_INT(code_of(s, 0), RL_OK);
    CHECK(s->server[0].lasted_ms >= GUARD_MS);
}

/* The server's clock runs at half our rate: twice as long, asked once a second. */
SIM_TEST(the_slower_clock_counts, clockless())
{
    int marks = s->server[0].marks;
    for (int k = 0; k < 2 * GUARD_MS / 1000; k++) {
        s->server[0].wall_ms -= 500;
        says(s, 1000, RL_GUARDED);
    }
    CHECK(observed_ms(s) > GUARD_MS - 1500 && observed_ms(s) < GUARD_MS);
    CHECK(s->server[0].marks - marks <= 2 * GUARD_MS / 1000);
}

SIM_TEST(the_servers_clock_alone_ends_nothing, clockless())
{
    sim_advance(s, 2000);
    s->server[0].wall_ms = 10 * GUARD_MS;
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    CHECK_INT(observed_ms(s), 2000);
    CHECK_INT(at_ms(s), SIM_WALL_MS + s->now_ms + 10 * GUARD_MS);
    votes_in(s, GUARD_MS - 2000);
}

/* Set back by a quarter of an hour: that interval counts as none, the next ones as they are. */
SIM_TEST(a_clock_set_back_costs_one_interval, clockless())
{
    says(s, 2000, RL_GUARDED);
    CHECK_INT(observed_ms(s), 2000);
    s->server[0].wall_ms = -900000;
    says(s, 2000, RL_GUARDED);
    CHECK_INT(observed_ms(s), 2000);
    CHECK_INT(at_ms(s), SIM_WALL_MS + s->now_ms - 900000);
    says(s, 2000, RL_GUARDED);
    CHECK_INT(observed_ms(s), 4000);
    s->server[0].began_ms += 2000;
    votes_in(s, GUARD_MS - 4000);
}

/* The last count is due when both clocks must say that it is over, and the text is a second
 * old: else each of a hundred clients would write one. */
SIM_TEST(the_last_count_is_not_early, restarted())
{
    says(s, GUARD_MS - 900, RL_GUARDED);
    int marked = s->server[0].marked;
    CHECK_INT(observed_ms(s), GUARD_MS - 900);
    says(s, 900 + CUT_MS, RL_GUARDED);
    says(s, 97, RL_GUARDED);                 /* 999 ms */
    CHECK_INT(s->server[0].marked, marked);
    says(s, 1, RL_GUARDED);
    CHECK_INT(s->server[0].marked, marked + 1);
    CHECK_INT(observed_ms(s), GUARD_MS);
    says(s, 1, RL_OK);
}

/* It is written within a second after the end. */
static void ends_in_time(struct sim *s)
{
    while (observed_ms(s) < GUARD_MS && s->now_ms < s->server[0].began_ms + 2 * GUARD_MS)
        sim_advance(s, 1);
    int64_t lasted_ms = s->now_ms - s->server[0].began_ms;
    CHECK(lasted_ms >= GUARD_MS + CUT_MS && lasted_ms <= GUARD_MS + CUT_MS + 1000);
    CHECK_INT(observed_ms(s), GUARD_MS);
    sim_advance(s, 1);
    marker_is(s, 0, MARKER_ADMITTED);
}

/* Nobody reads the marker meanwhile, so there is one count for all. */
SIM_TEST(nor_is_it_without_a_look, restarted())
{
    sim_keep(s, "k", MAX_LEASE_MS);
    int marked = s->server[0].marked;
    ends_in_time(s);
    CHECK_INT(s->server[0].marked, marked + 2);      /* and the one that admits */
}

/* Who has nothing looks seldom, but then. */
SIM_TEST(nor_is_it_late_with_idle_clients, restarted())
{
    ends_in_time(s);
}

/* ---- letters ---- */

static struct sim *no_markers(void)
{
    struct sim *s = sim_new(3);
    sim_guard(s, MAX_LEASE_MS);
    return s;
}

static void others_say(struct sim *s, int i, enum marker_state state, int64_t seen_ms)
{
    struct marker m = sim_marker(s, i, MAX_LEASE_MS);
    m.state = (char)state;
    m.observed_ms = seen_ms;
    sim_set_marker(s, i, &m);
}

/* One server that says that it was used may be of another cluster: a majority tells. */
static void a_majority_tells_that_they_are_known(void)
{
    static const struct {
        char said[4], third;
    } cases[] = {{"  ", 'n'}, {"a ", 'n'}, {"l ", 'n'}, {"n ", 'n'}, {"nn", 'n'},
                 {"an", 'n'}, {"aa", 'l'}, {"al", 'l'}, {"ls", 'l'}, {"ss", 'l'}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct sim *s = no_markers();
        test_note("%s", cases[k].said);
        for (int i = 0; i < 2; i++) {
            if (cases[k].said[i] != ' ')
                others_say(s, i, cases[k].said[i], 0);
        }
        try(s, "k");
        CHECK_INT(s->core.knows, cases[k].third == 'l');
        probe(s);
        marker_is(s, 2, cases[k].third);
        sim_advance(s, 2000);
        sim_finish(s);
    }
}

/* It takes a majority at once: not one after the other. */
SIM_TEST(never_a_majority_at_once_is_none, no_markers())
{
    others_say(s, 0, MARKER_ADMITTED, 0);
    s->server[1].refuses = s->server[2].refuses = 1;
    probe(s);
    sim_leave(s, 0);
    s->server[1].refuses = s->server[2].refuses = 0;
    others_say(s, 1, MARKER_ADMITTED, 0);
    sim_advance(s, 2000);
    probe(s);
    CHECK_INT(s->core.knows, 0);
    marker_is(s, 2, MARKER_NEW);
}

static void what_is_not_ours_is_not_new(void)
{
    for (int k = 0; k < 4; k++) {
        struct sim *s = no_markers();
        struct marker m = sim_marker(s, 0, MAX_LEASE_MS / (k == 3 ? 2 : 1));
        test_note("%d", k);
        m.state = k == 2 ? MARKER_ADMITTED : MARKER_NEW;
        if (k != 3)
            marker_hex(7, MARKER_HEX, m.replid);
        sim_set_marker(s, 0, &m);
        if (k == 0)
            strcpy(s->server[0].marker, "hello");
        probe(s);
        probe(s);
        /* A quarantine for shorter leases, of this life, is of a new server. */
        marker_is(s, 0, k == 3 ? MARKER_NEW : MARKER_LOST);
        marker_is(s, 1, MARKER_NEW);
        CHECK(strncmp(s->server[0].marker, m.inc, MARKER_HEX));
        sim_advance(s, 2000);
        sim_finish(s);
    }
}

/* It knew the others, but has not seen them admitted since: they may have forgotten, too. */
SIM_TEST(who_knows_turns_n_into_l, sim_admitted(3, MAX_LEASE_MS))
{
    sim_advance(s, 3000);
    sim_restart(s, 0);
    others_say(s, 0, MARKER_NEW, 700);
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    marker_is(s, 0, MARKER_LOST);
    CHECK_INT(marker_of(s, 0).inc[MARKER_HEX - 1], '1');
    CHECK_INT(observed_ms(s), 700);          /* it goes on */
    votes_in(s, GUARD_MS - 700);
    sim_advance(s, 2000);
}

/* As another redlock init admits them one after the other. */
SIM_TEST(but_not_beside_a_majority_that_votes, no_markers())
{
    others_say(s, 0, MARKER_ADMITTED, 0);
    others_say(s, 1, MARKER_ADMITTED, 0);
    others_say(s, 2, MARKER_NEW, 700);
    probe(s);
    CHECK_INT(s->core.knows, 1);
    sim_advance(s, 1900);
    CHECK_INT(code_of(s, 2), RL_GUARDED);
    marker_is(s, 2, MARKER_NEW);
    sim_advance(s, 200);                     /* they may have forgotten since */
    CHECK_INT(code_of(s, 2), RL_GUARDED);
    marker_is(s, 2, MARKER_LOST);
    sim_advance(s, 2000);
}

SIM_TEST(who_does_not_know_leaves_n, no_markers())
{
    for (int i = 0; i < 3; i++)
        others_say(s, i, MARKER_NEW, 700);
    for (int k = 0; k < 4; k++) {
        try(s, "k");
        sim_advance(s, 1100);
    }
    CHECK_INT(s->core.knows, 0);
    marker_is(s, 0, MARKER_NEW);
    CHECK(observed_ms(s) > 700);
}

/* ---- redlock init ---- */

static uint32_t admissible(struct sim *s, int force)
{
    probe(s);
    return guard_admissible(&s->core, force, s->now_ms);
}

static void only_new_servers_that_were_observed(void)
{
    static const struct {
        int64_t max_lease_ms, least_ms;
    } cases[] = {{MAX_LEASE_MS, 5000}, {60000, 5000}, {3000, 4030}};
    for (int k = 0; k < 3; k++) {
        struct sim *s = sim_new(3);
        sim_guard(s, cases[k].max_lease_ms);
        for (int i = 0; i < 3; i++) {
            struct marker m = sim_marker(s, i, cases[k].max_lease_ms);
            m.state = MARKER_NEW;
            m.observed_ms = cases[k].least_ms - (i == 1);
            sim_set_marker(s, i, &m);
        }
        test_note("%d", (int)cases[k].max_lease_ms);
        CHECK_INT(admissible(s, 0), bit(0) | bit(2));
        CHECK_INT(admissible(s, 1), 7);
        sim_finish(s);
    }
}

static void never_one_that_was_used(void)
{
    for (const char *state = "ls"; *state; state++) {
        struct sim *s = no_markers();
        for (int i = 0; i < 3; i++)
            others_say(s, i, i ? MARKER_NEW : *state, 5500);
        CHECK_INT(admissible(s, 0), bit(1) | bit(2));
        CHECK_INT(admissible(s, 1), 7);
        CHECK_INT(admit(s, 0, s->now_ms, 1), RL_GUARD_ADMITTED);
        marker_is(s, 0, *state);
        marker_is(s, 2, MARKER_ADMITTED);
        CHECK_INT(marker_of(s, 2).inc[MARKER_HEX - 1], '3');      /* the same memory */
        sim_finish(s);
    }
}

/* What was seen when nobody could hold a lock is admitted, not what has forgotten since. */
SIM_TEST(the_same_memory_only, no_markers())
{
    for (int i = 0; i < 3; i++)
        others_say(s, i, MARKER_NEW, 5500);
    probe(s);
    int64_t seen_ms = s->now_ms;
    sim_skip(s, 1);
    struct marker m = marker_of(s, 0);
    memcpy(m.inc, "feed", 4);
    sim_set_marker(s, 0, &m);
    m = marker_of(s, 1);
    m.observed_ms++;                         /* a count came between */
    sim_set_marker(s, 1, &m);
    probe(s);
    CHECK_INT(guard_admissible(&s->core, 0, seen_ms), bit(1) | bit(2));
    CHECK_INT(guard_admissible(&s->core, 1, seen_ms), 7);
    CHECK_INT(admit(s, 0, seen_ms, 0), RL_GUARD_QUARANTINED);
    CHECK(is_theirs(s, 0));
    marker_is(s, 1, MARKER_ADMITTED);
    CHECK_INT(admit(s, 1, seen_ms, 0), RL_GUARD_ADMITTED);
    marker_is(s, 0, MARKER_ADMITTED);
}

/* Its marker changes on the way: nothing is admitted unseen. */
SIM_TEST(what_changes_on_the_way_is_not_admitted, no_markers())
{
    for (int i = 0; i < 3; i++)
        others_say(s, i, MARKER_NEW, 5500);
    probe(s);
    others_say(s, 0, MARKER_LOST, 5500);
    CHECK_INT(admit(s, 0, s->now_ms, 0), RL_GUARD_QUARANTINED);
    marker_is(s, 0, MARKER_LOST);
    marker_is(s, 1, MARKER_ADMITTED);
}

SIM_TEST(force_admits_what_is_connected, no_markers())
{
    s->server[2].refuses = 1;
    s->server[0].marker[0] = '\0';
    admitted_by_others(s, 1, 2 * MAX_LEASE_MS);
    probe(s);
    CHECK_INT(guard_admissible(&s->core, 0, s->now_ms), 0);
    CHECK_INT(admit(s, 0, s->now_ms, 1), RL_GUARD_DISAGREES);
    CHECK_INT(admit(s, 1, 0, 1), RL_GUARD_ADMITTED);
    marker_is(s, 0, MARKER_ADMITTED);
    marker_is(s, 1, MARKER_ADMITTED);
    CHECK_STR(s->server[2].marker, "");
    CHECK_INT(code_of(s, 0), RL_OK);
}

/* ---- names of connections ---- */

static void all_are_named(const struct sim *s, const char *sign)
{
    for (int i = 0; i < s->n; i++) {
        CHECK_INT(strcspn(s->server[i].name, ":!"), strlen("redlock"));
        CHECK_STR(s->server[i].name, s->core.name);
        CHECK_INT(s->server[i].name[strlen("redlock")], *sign);
    }
}

/* One is enough: it may be the one that makes a majority of what was granted before. */
SIM_TEST(a_vote_names_the_connections, sim_admitted(3, MAX_LEASE_MS))
{
    rl_node_info info = {0};
    probe(s);
    all_are_named(s, ":");
    for (int i = 0; i < 3; i++)
        sim_put(s, i, "k", 500);
    CHECK_INT(try(s, "k"), RL_HELD);         /* refused by all */
    all_are_named(s, ":");
    eligibility_report(&s->core, 0, &info, s->now_ms);
    CHECK_INT(info.named, 0);
    sim_put(s, 1, "l", 500);
    sim_put(s, 2, "l", 500);
    CHECK_INT(try(s, "l"), RL_HELD);
    all_are_named(s, "!");
    eligibility_report(&s->core, 0, &info, s->now_ms);
    CHECK_INT(info.named, 1);
    s->server[0].name[0] = '\0';
    sim_cut(s, 0);
    probe(s);
    all_are_named(s, "!");
}

/* A yes that does not count names nothing: the server's clock was stepped. */
SIM_TEST(a_vote_that_does_not_count_names_nothing, sim_admitted(3, MAX_LEASE_MS))
{
    sim_advance(s, 2000);
    for (int i = 0; i < 3; i++)
        s->server[i].wall_ms = 60000;
    CHECK_INT(try(s, "k"), RL_NO_QUORUM);
    all_are_named(s, ":");
    sim_advance(s, 2000);
}

SUITE(quarantine, T(our_clock_alone_ends_nothing), T(the_slower_clock_counts),
      T(the_servers_clock_alone_ends_nothing), T(a_clock_set_back_costs_one_interval),
      T(the_last_count_is_not_early),
      T(nor_is_it_without_a_look), T(nor_is_it_late_with_idle_clients),
      T(a_majority_tells_that_they_are_known), T(never_a_majority_at_once_is_none),
      T(what_is_not_ours_is_not_new), T(who_knows_turns_n_into_l),
      T(but_not_beside_a_majority_that_votes), T(who_does_not_know_leaves_n),
      T(only_new_servers_that_were_observed), T(never_one_that_was_used),
      T(the_same_memory_only), T(what_changes_on_the_way_is_not_admitted),
      T(force_admits_what_is_connected), T(a_vote_names_the_connections),
      T(a_vote_that_does_not_count_names_nothing));
