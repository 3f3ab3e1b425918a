/* test_ballot.c - while one list of servers takes the place of another: a yes counts with
 * those for the same list, by that list's majorities. Every way in which four servers may
 * answer, against a definition that counts one by one. */
#include <string.h>

#include "core/ballot.h"
#include "sim.h"

enum answer { AT_LIST, AT_JOINT, ELSEWHERE, REFUSES, SILENT, ANSWERS };

enum { N = 4 };

/* The first three servers are the list; the first is to leave it, for the fourth. */
static const struct voters list = {0x7, 0x7}, joint = {0x7, 0xe}, after = {0xe, 0xe};

static int of_three(uint32_t three, uint32_t nodes)
{
    return __builtin_popcount(three & nodes) >= 2;
}

/* By which of the two it is granted. */
static int granted(const enum answer *how, uint32_t without)
{
    uint32_t at_list = 0, at_joint = 0;
    for (int i = 0; i < N; i++) {
        at_list |= how[i] == AT_LIST ? bit(i) : 0;
        at_joint |= how[i] == AT_JOINT ? bit(i) : 0;
    }
    at_list &= ~without;
    at_joint &= ~without;
    return of_three(0x7, at_list) || (of_three(0x7, at_joint) && of_three(0xe, at_joint));
}

static struct sim *up_between(const enum answer *how)
{
    struct sim *s = sim_up(N);
    struct view_id id = {"c1d2e3f4", 4, "00000001"}, next = {"c1d2e3f4", 5, "00000002"};
    state_add_list(&s->core, &id, &list, 1);
    unsigned first = s->core.lists_number;
    state_add_list(&s->core, &next, &joint, 0);
    for (int i = 0; i < N; i++) {
        s->core.guards[i].list = how[i] == AT_JOINT    ? first + 1
                                 : how[i] == ELSEWHERE ? 0
                                                       : first;
        s->server[i].frozen = how[i] == SILENT;
    }
    return s;
}

static int next_way(enum answer *how)
{
    for (int i = 0; i < N; i++) {
        if (++how[i] < ANSWERS)
            return 1;
        how[i] = AT_LIST;
    }
    return 0;
}

static void note(const enum answer *how)
{
    test_note("%d%d%d%d", how[0], how[1], how[2], how[3]);
}

static void acquires(const char *yes, int rule)
{
    enum answer how[N] = {AT_LIST};
    do {
        note(how);
        struct sim *s = up_between(how);
        s->primitive.rule = rule;
        for (int i = 0; i < N; i++)
            s->server[i].say[SIM_ACQUIRE] = how[i] == REFUSES ? "*2\r\n:0\r\n:99\r\n" : yes;
        struct hold h = sim_acquire(s, "k", 30000, 1000);
        sim_wait(s, h.round, 1000);
        REQUIRE((h.round->outcome == RL_GRANTED) == granted(how, 0));
        sim_drop(s, &h);
        sim_finish(s);
    } while (next_way(how));
}

static void an_acquire_counts_list_by_list(void)
{
    acquires(":1\r\n", RL_RULE_YES);
}

static void so_do_votes_for_a_number(void)
{
    acquires("*2\r\n:1\r\n:5\r\n", RL_RULE_SAME);
}

/* A majority for one number must be one for one list. */
static void numbers_and_lists_are_not_mixed(void)
{
    for (int k = 0; k < 3; k++) {
        enum answer how[N] = {AT_LIST, AT_LIST, AT_LIST, SILENT};
        struct sim *s = up_between(how);
        s->primitive.rule = RL_RULE_SAME;
        for (int i = 0; i < N; i++)
            s->server[i].say[SIM_ACQUIRE] =
                i == k ? "*2\r\n:1\r\n:5\r\n" : "*2\r\n:1\r\n:6\r\n";
        s->core.guards[(k + 1) % 3].list++;
        struct hold h = sim_acquire(s, "k", 30000, 1000);
        sim_wait(s, h.round, 1000);
        CHECK(h.round->outcome != RL_GRANTED);
        sim_drop(s, &h);
        sim_finish(s);
    }
}

static rl_round *extended(struct sim *s, rl_lease *lease)
{
    rl_round *round = holder_extend(lease, 30000, s->now_ms);
    sim_wait(s, round, 1000);
    sim_run(s);
    return round;
}

/* An extension that is not granted leaves the lease as it was, unless a majority of the
 * old list has lost it. */
static void an_extension_counts_list_by_list(void)
{
    enum answer how[N] = {AT_LIST};
    do {
        note(how);
        struct sim *s = up_between((enum answer[]){AT_LIST, AT_LIST, AT_LIST, AT_LIST});
        rl_lease *lease = sim_hold(s, "k", 30000);
        uint32_t without = 0;
        for (int i = 0; i < N; i++) {
            s->core.guards[i].list += how[i] == AT_JOINT;
            s->core.guards[i].list *= how[i] != ELSEWHERE;
            s->server[i].frozen = how[i] == SILENT;
            s->server[i].say[SIM_EXTEND] = how[i] == REFUSES ? ":0\r\n" : NULL;
            without |= how[i] == REFUSES ? bit(i) : 0;
        }
        s->server[3].say[SIM_EXTEND] = how[3] == REFUSES ? ":0\r\n" : ":1\r\n";
        rl_round *round = holder_extend(lease, 30000, s->now_ms);
        sim_wait(s, round, 1000);
        int disowned = of_three(0x7, without);
        int want = granted(how, 0) ? RL_GRANTED : disowned ? RL_LOST : RL_NO_QUORUM;
        REQUIRE(round->outcome == want);
        sim_end(round);
        sim_heal(s);
        sim_let_go(s, lease);
        sim_finish(s);
    } while (next_way(how));
}

/* Between two lists the majority of the old one, without which nobody has it, gives a hold to
 * those of the new one: then they confirm it. */
static void a_hold_spreads_to_the_new_list(void)
{
    for (int old = 0; old < 2; old++) {
        struct sim *s = up_between((enum answer[]){AT_LIST, AT_LIST, AT_LIST, AT_LIST});
        rl_lease *lease = sim_hold(s, "k", 30000);
        sim_restart(s, 2);
        sim_restart(s, 3);
        if (!old)
            sim_restart(s, 1);
        sim_advance(s, 3000);
        sim_run(s);
        for (int i = 0; i < N; i++)
            s->core.guards[i].list = s->core.lists_number;
        int outcome = sim_end(extended(s, lease));
        CHECK_INT(outcome, old ? RL_NO_QUORUM : RL_LOST);
        sim_run(s);
        CHECK_INT(sim_mine(s, "k", lease), old ? 0xf : 0x1);
        if (old)
            CHECK_INT(sim_end(extended(s, lease)), RL_GRANTED);
        sim_let_go(s, lease);
        sim_finish(s);
    }
}

/* The list of the servers decides, whatever the client was configured with. */
static void the_majority_is_of_the_list(void)
{
    struct sim *s = sim_up(N);
    struct view_id id = {"c1d2e3f4", 6, "00000003"};
    state_add_list(&s->core, &id, &after, 1);
    for (int i = 0; i < N; i++)
        s->core.guards[i].list = s->core.lists_number;
    sim_freeze(s, 0x3);
    struct hold h = sim_acquire(s, "k", 30000, 1000);
    CHECK_INT(sim_outcome(s, h.round), RL_GRANTED);       /* two of three, not of four */
    CHECK_INT(h.round->tally.n, 3);
    CHECK_INT(h.round->slot[0].state, SLOT_OUT);
    sim_drop(s, &h);
    sim_finish(s);
}

/* Extensions, of which so many nodes say yes with a marker that is none. */
static int extended_without_marker(int foreign)
{
    struct sim *s = sim_admitted(3, 60000);
    rl_lease *lease = sim_hold(s, "k", 30000);
    for (int i = 0; i < foreign; i++)
        s->server[i].say[SIM_EXTEND] = "*3\r\n:5\r\n:0\r\n$3\r\nabc\r\n";
    rl_round *round = holder_extend(lease, 30000, s->now_ms);
    sim_wait(s, round, 1000);
    int outcome = sim_end(round);
    CHECK_INT(lease->lost, RL_NOT_LOST);
    for (int i = 0; i < foreign; i++)
        s->server[i].say[SIM_EXTEND] = NULL;
    sim_let_go(s, lease);
    sim_finish(s);
    return outcome;
}

static void a_yes_of_no_list_does_not_count(void)
{
    CHECK_INT(extended_without_marker(0), RL_GRANTED);
    CHECK_INT(extended_without_marker(1), RL_GRANTED);
    CHECK_INT(extended_without_marker(2), RL_NO_QUORUM);
    CHECK_INT(extended_without_marker(3), RL_NO_QUORUM);
}

SUITE(ballot, T(an_acquire_counts_list_by_list), T(so_do_votes_for_a_number),
      T(numbers_and_lists_are_not_mixed), T(an_extension_counts_list_by_list),
      T(a_hold_spreads_to_the_new_list), T(the_majority_is_of_the_list),
      T(a_yes_of_no_list_does_not_count));
