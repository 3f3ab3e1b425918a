/* test_begin.c - a client that has met too few servers yet to know which list it is in. */
#include "core/roll.h"

#include <string.h>

#include "roll_fixture.h"

static const char *const ABCD[] = {"a", "b", "c", "d"};

/* Connections to all but the first so many servers stay in the air. */
static void met_first(struct sim *s, int first)
{
    for (int i = 0; i < s->n; i++)
        s->server[i].hushed = i >= first;
}

static int marked(const struct sim *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->server[i].marker[0] != '\0';
    return n;
}

/* Server 0 has forgotten everything. */
static struct sim *forgotten(const struct view *v)
{
    struct sim *s = named(DBC, 3);
    put_into(s, v);
    s->server[0].marker[0] = s->server[0].record[0] = '\0';
    return s;
}

static void who_forgot_is_no_list_of_its_own(void)
{
    struct view v = list_of(DBC, 3, 6);
    struct sim *s = forgotten(&v);
    met_first(s, 1);
    CHECK_INT(tries(s), RL_NO_QUORUM);
    sim_advance(s, 3000);
    CHECK_STR(s->server[0].marker, "");
    met_first(s, 2);
    tries(s);
    struct marker m = marker_of(s, 0);
    CHECK(view_same(&m.view, &v.id));
    CHECK_INT(m.state, MARKER_QUARANTINED);
    met_first(s, 3);
    sim_advance(s, 3000);                    /* until it is tried again */
    CHECK_INT(tries(s), RL_GRANTED);
    finish(s);
}

/* The second one names a list, and what that is is not known yet. */
static void nor_while_a_record_is_read(void)
{
    struct view v = list_of(DBC, 3, 6);
    struct sim *s = forgotten(&v);
    met_first(s, 1);
    tries(s);
    met_first(s, 2);
    sim_advance(s, 3000);
    struct hold h = sim_acquire(s, "l", 1000, 1000);
    while (!s->server[1].marks && !s->core.nodes[1].reading) {
        for (int i = 0; i < 3; i++) {
            sim_serve(s, i);
            sim_open(s, i);
            sim_execute(s, i, 1);
            sim_deliver(s, i, SIZE_MAX);
        }
    }
    s->server[1].holds = 1;
    sim_run(s);
    CHECK(s->core.nodes[1].reading);
    CHECK_STR(s->server[0].marker, "");
    s->server[1].holds = 0;
    sim_run(s);
    struct marker m = marker_of(s, 0);
    CHECK(view_same(&m.view, &v.id));
    sim_drop(s, &h);
    finish(s);
}

/* Nobody has a list: a majority of what is configured begins one. */
static void a_new_cluster_begins_with_a_majority(void)
{
    static const int majority[] = {0, 1, 2, 2, 3};
    for (int n = 1; n <= 4; n++) {
        for (int up = 1; up <= n; up++) {
            struct sim *s = named(ABCD, n);
            met_first(s, up);
            CHECK_INT(tries(s), RL_NO_QUORUM);
            CHECK_INT(marked(s), up >= majority[n] ? up : 0);
            finish(s);
        }
    }
}

/* Also when nobody asks for anything at the moment in which it is there. */
static void it_begins_at_once(void)
{
    struct sim *s = named(ABC, 3);
    met_first(s, 1);
    rl_round *round = query_probe(&s->core, s->now_ms);
    sim_run(s);
    CHECK_INT(marked(s), 0);
    met_first(s, 3);
    sim_run(s);
    CHECK_INT(marked(s), 3);
    sim_wait(s, round, 2000);
    sim_end(round);
    finish(s);
}

/* d was added, and the first server that is met has not heard of it. */
static struct sim *one_is_behind(struct view *before, struct view *after)
{
    struct sim *s = named(ABCD, 4);
    *before = list_of(ABC, 3, 4);
    *after = list_of(ABCD, 4, 6);
    put_into(s, after);
    struct marker m = marker_of(s, 0);
    m.view = before->id;
    sim_set_marker(s, 0, &m);
    REQUIRE(view_write(before, s->server[0].record) > 0);
    return s;
}

static void who_is_behind_is_not_believed_alone(void)
{
    struct view before, after;
    struct sim *s = one_is_behind(&before, &after);
    met_first(s, 1);
    CHECK_INT(tries(s), RL_NO_QUORUM);
    CHECK(strstr(s->core.nodes[0].text, "belongs to the list {a, b, c} (epoch 4)") != NULL);
    met_first(s, 4);
    sim_advance(s, 3000);
    CHECK_INT(tries(s), RL_GRANTED);
    struct marker m = marker_of(s, 0);
    CHECK(view_same(&m.view, &after.id));    /* told of it */
    finish(s);
}

/* It is met first within one attempt, which the others decide. */
static void who_is_behind_ends_no_attempt(void)
{
    struct view before, after;
    struct sim *s = one_is_behind(&before, &after);
    met_first(s, 1);
    struct hold h = sim_acquire(s, "l", 1000, 1000);
    sim_run(s);
    CHECK_INT(h.round->outcome, 0);
    met_first(s, 4);
    sim_wait(s, h.round, 1000);
    CHECK_INT(h.round->outcome, RL_GRANTED);
    sim_drop(s, &h);
    finish(s);
}

/* Two servers that have another list are a majority of ours: no newer list is in force. */
static void a_majority_is_believed(void)
{
    struct sim *s = named(ABC, 3);
    struct view v = list_of(ABCD, 4, 4);
    put_into(s, &v);
    met_first(s, 1);
    CHECK_INT(tries(s), RL_NO_QUORUM);
    met_first(s, 2);
    sim_advance(s, 3000);
    CHECK_INT(tries(s), RL_CONFIG);
    CHECK_INT(sim_with(s, "k"), 0);
    finish(s);
}

SUITE(begin, T(who_forgot_is_no_list_of_its_own), T(nor_while_a_record_is_read),
      T(a_new_cluster_begins_with_a_majority), T(it_begins_at_once),
      T(who_is_behind_is_not_believed_alone), T(who_is_behind_ends_no_attempt),
      T(a_majority_is_believed));
