/* test_roll.c - which list of servers a client goes by, and whom it refuses. */
#include "core/roll.h"

#include <string.h>

#include "roll_fixture.h"

static void the_first_list_is_the_same_in_any_order(void)
{
    struct sim *s = named(ABC, 3), *t = named(CAB, 3), *u = named(DBC, 3);
    CHECK_INT(s->core.view.epoch, 2);
    CHECK(view_same(&s->core.view, &t->core.view));
    CHECK_STR(s->core.record, t->core.record);
    CHECK(!view_same(&s->core.view, &u->core.view));
    finish(s);
    finish(t);
    finish(u);
}

static void it_is_written_with_the_quarantine(void)
{
    struct sim *s = named(CAB, 3);
    CHECK_INT(tries(s), RL_NO_QUORUM);
    for (int i = 0; i < 3; i++) {
        struct marker m = marker_of(s, i);
        CHECK(view_same(&m.view, &s->core.view));
        CHECK_INT(m.id, (i + 2) % 3 + 1);        /* in the order of their names */
        CHECK_STR(s->server[i].record, s->core.record);
    }
    finish(s);
}

static void a_list_of_the_same_names_is_ours(void)
{
    struct sim *s = named(CAB, 3);
    struct view v = list_of(ABC, 3, 6);
    put_into(s, &v);
    CHECK_INT(tries(s), RL_GRANTED);
    CHECK(view_same(&state_newest(&s->core)->id, &v.id));
    CHECK_STR(s->core.stale, "");
    finish(s);
}

static void as_many_servers_by_other_names_are_it_as_well(void)
{
    struct sim *s = named(XYZ, 3);
    struct view v = list_of(ABC, 3, 6);
    put_into(s, &v);
    CHECK_INT(tries(s), RL_GRANTED);
    sim_advance(s, 2000);
    sim_restart(s, 0);                       /* we know who that is */
    CHECK_INT(code_of(s, 0), RL_GUARDED);
    struct marker m = marker_of(s, 0);
    CHECK_INT(m.id, 1);
    CHECK(view_same(&m.view, &v.id));
    finish(s);
}

/* One whose name is not in the list, and who says not that it is. */
static void a_stranger_refuses_all(void)
{
    struct sim *s = named(DBC, 3);
    struct view v = list_of(ABC, 3, 2);
    put_into(s, &v);
    s->server[0].marker[0] = '\0';
    CHECK_INT(tries(s), RL_CONFIG);
    sim_run(s);
    CHECK(strstr(s->core.others, "belongs to the list {a, b, c} (epoch 2), this client is "
                 "configured with {d, b, c}") != NULL);
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK_INT(s->server[1].marks + s->server[2].marks, 0);
    finish(s);
}

static void a_list_of_more_is_not_ours(void)
{
    static const char *const ABCD[] = {"a", "b", "c", "d"};
    struct sim *s = named(ABC, 3);
    struct view v = list_of(ABCD, 4, 2);
    put_into(s, &v);
    CHECK_INT(tries(s), RL_CONFIG);
    CHECK(strstr(s->core.others, "{a, b, c, d}") != NULL);
    finish(s);
}

static void a_list_without_a_record_is_not_ours(void)
{
    struct sim *s = named(ABC, 3);
    struct view v = list_of(ABC, 3, 6);
    put_into(s, &v);
    for (int i = 0; i < 3; i++)
        s->server[i].record[0] = '\0';
    CHECK_INT(tries(s), RL_CONFIG);
    CHECK(strstr(s->core.others, "no record") != NULL);
    finish(s);
}

/* The list changes between what servers say that they are in, and what they say that it is. */
static void a_list_that_changes_meanwhile_is_read_again(void)
{
    struct sim *s = named(ABC, 3);
    struct view before = list_of(ABC, 3, 4), now = list_of(ABC, 3, 6), after = list_of(ABC, 3, 8);
    put_into(s, &before);
    CHECK_INT(tries(s), RL_GRANTED);
    put_into(s, &now);
    sim_hold_answers(s, 0x7);
    struct hold h = sim_acquire(s, "l", 4000, 4000);
    sim_run(s);
    put_into(s, &after);
    for (int i = 0; i < 3; i++) {
        s->server[i].holds = 0;
        REQUIRE(sim_deliver(s, i, SIZE_MAX));
    }
    sim_wait(s, h.round, 4000);
    CHECK_INT(h.round->outcome, RL_GRANTED);
    CHECK(view_same(&state_newest(&s->core)->id, &after.id));
    sim_drop(s, &h);
    finish(s);
}

/* How many servers have the key, and say that they are in that list. */
static int granted_by(struct sim *s, const char *key, const struct view *v)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        struct marker m = marker_of(s, i);
        n += (sim_with(s, key) >> i & 1) && view_same(&m.view, &v->id);
    }
    return n;
}

/* What servers that have missed a change say counts when they know of it. */
static void who_missed_a_list_is_not_counted_for_it(void)
{
    struct sim *s = named(ABC, 3);
    struct view before = list_of(ABC, 3, 4), after = list_of(ABC, 3, 6);
    put_into(s, &before);
    CHECK_INT(tries(s), RL_GRANTED);
    struct hold held = sim_acquire(s, "held", 4000, 1000);
    sim_wait(s, held.round, 2000);
    struct marker m = marker_of(s, 2);
    m.view = after.id;
    sim_set_marker(s, 2, &m);
    REQUIRE(view_write(&after, s->server[2].record) > 0);
    sim_leave(s, 0);                         /* one of them makes no majority */
    int granted = 0;
    for (int k = 0; k < 4 && !granted; k++) {
        const char *key = (const char *const[]){"l", "m", "n", "o"}[k];
        struct hold h = sim_acquire(s, key, 1000, 1000);
        sim_wait(s, h.round, 2000);
        granted = h.round->outcome == RL_GRANTED;
        CHECK(!granted || granted_by(s, key, &after) >= 2);
        sim_drop(s, &h);
        sim_run(s);
    }
    CHECK(granted);
    m = marker_of(s, 1);                     /* it has forgotten nothing */
    CHECK(view_same(&m.view, &after.id));
    CHECK_STR(m.inc, sim_marker(s, 1, MAX_LEASE_MS).inc);
    sim_drop(s, &held);
    finish(s);
}

/* Who has forgotten is admitted by a majority of the others, where the list may change: one that
 * is known may have missed a list that has forgotten nothing since. */
static void admission_is_strict_where_the_list_may_change(void)
{
    for (int online = 0; online < 2; online++) {
        struct sim *s = named(ABC, 3);
        struct view v = list_of(ABC, 3, 4);
        v.online = online;
        REQUIRE(view_sign(&v) == 0);
        put_into(s, &v);
        CHECK_INT(tries(s), RL_GRANTED);
        s->server[1].refuses = 1;
        sim_cut(s, 1);
        sim_restart(s, 0);
        for (int k = 0; k < 2 * GUARD_MS / 500; k++) {
            sim_advance(s, 500);
            probe(s);
        }
        CHECK_INT(guard_of(s, 0), online ? RL_GUARD_QUARANTINED : RL_GUARD_ADMITTED);
        s->server[1].refuses = 0;
        for (int k = 0; k < 20; k++) {
            sim_advance(s, 500);
            probe(s);
        }
        CHECK_INT(guard_of(s, 0), RL_GUARD_ADMITTED);
        finish(s);
    }
}

/* Server i has left the list, and says what the list is. */
static void retire(struct sim *s, int i, const struct view *now)
{
    struct marker m = sim_marker(s, i, MAX_LEASE_MS);
    m.view = now->id;
    m.state = MARKER_RETIRED;
    m.id = i + 1;
    sim_set_marker(s, i, &m);
    REQUIRE(view_write(now, s->server[i].record) > 0);
}

static struct view was_abc(const char *const *names, int n, int64_t epoch)
{
    struct view v = list_of(names, n, epoch), abc = list_of(ABC, 3, 8);
    v.was[v.was_len] = abc.list;
    v.was[v.was_len++].epoch = 8;
    REQUIRE(view_sign(&v) == 0);
    return v;
}

static const char *const AC[] = {"a", "c"}, *const BC[] = {"b", "c"};

/* The others are in quarantine, which ends. */
static void who_left_meanwhile_decides_nothing(void)
{
    struct sim *s = named(ABC, 3);
    struct view before = list_of(ABC, 3, 8), after = was_abc(AC, 2, 10);
    put_into(s, &before);
    CHECK_INT(tries(s), RL_GRANTED);
    quarantined_by_others(s, 0, MAX_LEASE_MS);
    quarantined_by_others(s, 2, MAX_LEASE_MS);
    retire(s, 1, &after);
    sim_hold_answers(s, bit(1));
    struct hold first = sim_acquire(s, "l", 1000, 1000);
    sim_run(s);
    s->server[1].holds = 0;
    REQUIRE(sim_deliver(s, 1, SIZE_MAX));          /* the record is asked for, */
    struct hold second = sim_acquire(s, "m", 1000, 1000);
    sim_run(s);                                    /* and said with the second refusal */
    CHECK_INT(first.round->outcome, RL_NO_QUORUM);
    CHECK_INT(second.round->outcome, RL_NO_QUORUM);
    CHECK(view_same(&state_newest(&s->core)->id, &after.id));
    sim_drop(s, &first);
    sim_drop(s, &second);
    finish(s);
}

/* Neither does one whose vote counts by a list before that: votes for it are looked at still. */
static void who_left_the_newest_list_decides_nothing(void)
{
    struct sim *s = named(ABC, 3);
    struct view before = list_of(ABC, 3, 8), now = was_abc(AC, 2, 10);
    put_into(s, &before);
    CHECK_INT(tries(s), RL_GRANTED);
    quarantined_by_others(s, 0, MAX_LEASE_MS);
    quarantined_by_others(s, 1, 2 * MAX_LEASE_MS);      /* with which we have no business */
    quarantined_by_others(s, 2, MAX_LEASE_MS);
    CHECK_INT(try(s, "l"), RL_CONFIG);
    state_add_list(&s->core, &now.id, &(struct voters){bit(0) | bit(2), bit(0) | bit(2)}, 0);
    CHECK_INT(try(s, "m"), RL_NO_QUORUM);
    finish(s);
}

/* That another list has it now is no business of those whose list it has left. */
static void who_left_for_another_list_decides_nothing(void)
{
    struct sim *s = named(ABC, 3);
    struct view now = was_abc(BC, 2, 10), theirs = list_of(XYZ, 3, 2);
    memcpy(theirs.id.cluster, "feedbeef", VIEW_HEX);
    put_into(s, &now);
    struct marker m = marker_of(s, 0);
    m.view = theirs.id;
    sim_set_marker(s, 0, &m);
    REQUIRE(view_write(&theirs, s->server[0].record) > 0);
    CHECK_INT(try(s, "j"), RL_GRANTED);
    CHECK_INT(try(s, "k"), RL_GRANTED);
    finish(s);
}

/* It begins anew, as one that has forgotten, with a number of its own. */
static void who_left_may_come_back(void)
{
    struct sim *s = named(ABC, 3);
    struct view before = list_of(ABC, 3, 8), between = was_abc(AC, 2, 10),
                now = was_abc(ABC, 3, 12);
    now.list.at[1].id = 5;
    REQUIRE(view_sign(&now) == 0);
    put_into(s, &before);
    CHECK_INT(tries(s), RL_GRANTED);
    put_into(s, &now);
    retire(s, 1, &between);
    try(s, "l");
    CHECK_INT(try(s, "m"), RL_GRANTED);
    CHECK_INT(code_of(s, 1), RL_GUARDED);
    struct marker m = marker_of(s, 1);
    CHECK_INT(m.state, MARKER_QUARANTINED);
    CHECK_INT(m.id, 5);
    CHECK(view_same(&m.view, &now.id));
    CHECK(strcmp(m.inc, sim_marker(s, 1, MAX_LEASE_MS).inc) != 0);
    for (int k = 0; k < GUARD_MS / 500 + 2; k++) {
        sim_advance(s, 500);
        probe(s);
    }
    CHECK_INT(guard_of(s, 1), RL_GUARD_ADMITTED);
    finish(s);
}

/* Who calls the servers by other names cannot tell, and counts on three that are not those of
 * the list. */
static void who_left_is_named_where_names_are_others(void)
{
    struct sim *s = named(XYZ, 3);
    struct view between = was_abc(AC, 2, 10), now = was_abc(ABC, 3, 12);
    put_into(s, &now);
    retire(s, 1, &between);
    CHECK_INT(tries(s), RL_GRANTED);
    CHECK_INT(code_of(s, 1), RL_CONFIG);
    CHECK_INT(marker_of(s, 1).state, MARKER_RETIRED);
    finish(s);
}

/* d is to be added to the list of a, b, c. */
static struct view between_lists(void)
{
    static const char *const ABCD[] = {"a", "b", "c", "d"};
    struct view v = list_of(ABCD, 4, 5);
    memcpy(&v.old, &v.list, sizeof(v.old));
    v.old.n = 3;
    v.online = 1;
    v.by = 7;
    REQUIRE(view_sign(&v) == 0);
    return v;
}

static struct sim *between(const struct view *v)
{
    static const char *const ABCD[] = {"a", "b", "c", "d"};
    struct sim *s = named(ABCD, 4);
    put_into(s, v);
    return s;
}

static void probe_for(struct sim *s, int ms)
{
    for (int t = 0; t < ms; t += 500) {
        sim_advance(s, 500);
        probe(s);
    }
}

/* Whoever began to change the list told one server, and died; then another one forgets, whom two
 * of one list have to admit. */
static void a_list_that_one_server_knows_is_passed_on(void)
{
    struct view v = between_lists(), before = list_of(ABC, 3, 4);
    struct sim *s = between(&v);
    before.online = 1;
    REQUIRE(view_sign(&before) == 0);
    for (int i = 1; i < 3; i++) {
        struct marker m = marker_of(s, i);
        m.view = before.id;
        sim_set_marker(s, i, &m);
        REQUIRE(view_write(&before, s->server[i].record) > 0);
    }
    probe_for(s, 2000);
    for (int i = 0; i < 4; i++) {
        struct marker m = marker_of(s, i);
        CHECK(view_same(&m.view, &v.id));
        CHECK_INT(m.state, MARKER_ADMITTED);
    }
    CHECK_INT(tries(s), RL_GRANTED);
    sim_restart(s, 1);
    probe_for(s, 2 * GUARD_MS);
    CHECK_INT(guard_of(s, 1), RL_GUARD_ADMITTED);
    finish(s);
}

/* The same where all servers were seen in the list before. */
static void a_list_is_passed_on_to_members_of_a_known_one(void)
{
    static const char *const ABCD[] = {"a", "b", "c", "d"};
    struct sim *s = named(ABCD, 4);
    struct view before = list_of(ABCD, 4, 4), v = list_of(ABC, 3, 5);
    v.old = before.list;
    REQUIRE(view_sign(&v) == 0);
    put_into(s, &before);
    CHECK_INT(tries(s), RL_GRANTED);
    struct marker m = marker_of(s, 0);
    m.view = v.id;
    sim_set_marker(s, 0, &m);
    REQUIRE(view_write(&v, s->server[0].record) > 0);
    probe_for(s, 5000);
    for (int i = 0; i < 4; i++) {
        m = marker_of(s, i);
        CHECK(view_same(&m.view, &v.id));
    }
    finish(s);
}

/* Two of three were restarted while the list changed: nobody else is there to be asked. */
static void all_that_are_left_admit_each_other_between_lists(void)
{
    for (int away = 0; away < 2; away++) {
        struct view v = between_lists();
        struct sim *s = between(&v);
        CHECK_INT(tries(s), RL_GRANTED);
        sim_restart(s, 0);
        sim_restart(s, 1);
        s->server[3].refuses = away;         /* it may know of a newer list */
        if (away)
            sim_cut(s, 3);
        probe_for(s, 2 * GUARD_MS);
        CHECK_INT(guard_of(s, 0), away ? RL_GUARD_QUARANTINED : RL_GUARD_ADMITTED);
        CHECK_INT(guard_of(s, 1), away ? RL_GUARD_QUARANTINED : RL_GUARD_ADMITTED);
        s->server[3].refuses = 0;
        probe_for(s, GUARD_MS);
        CHECK_INT(guard_of(s, 0), RL_GUARD_ADMITTED);
        CHECK_INT(guard_of(s, 1), RL_GUARD_ADMITTED);
        finish(s);
    }
}

SUITE(roll, T(the_first_list_is_the_same_in_any_order), T(it_is_written_with_the_quarantine),
      T(a_list_of_the_same_names_is_ours), T(as_many_servers_by_other_names_are_it_as_well),
      T(a_stranger_refuses_all), T(a_list_of_more_is_not_ours),
      T(a_list_without_a_record_is_not_ours), T(who_missed_a_list_is_not_counted_for_it),
      T(admission_is_strict_where_the_list_may_change),
      T(a_list_that_changes_meanwhile_is_read_again), T(who_left_meanwhile_decides_nothing),
      T(who_left_the_newest_list_decides_nothing),
      T(who_left_for_another_list_decides_nothing), T(who_left_may_come_back),
      T(who_left_is_named_where_names_are_others), T(a_list_that_one_server_knows_is_passed_on),
      T(a_list_is_passed_on_to_members_of_a_known_one),
      T(all_that_are_left_admit_each_other_between_lists));
