/* test_members.c - lists that a client learns: places for their servers, and for which of
 * them votes count. */
#include "core/members.h"

#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "core/close.h"
#include "test.h"

enum { N = 5, KNOWN = 3 };

static struct core core;
static struct node_config configs[N];
static char labels[N][16];
static int joined, refuse;

static int join(struct core *of, int i, const char *label, size_t len)
{
    CHECK(of == &core && i >= 0 && i < N && !(core.listed & bit(i)));
    if (refuse)
        return RL_CONFIG;
    joined++;
    snprintf(labels[i], sizeof(labels[i]), "%.*s", (int)len, label);
    configs[i].label = labels[i];
    return 0;
}

static void begin(void)
{
    memset(configs, 0, sizeof(configs));
    for (int i = 0; i < KNOWN; i++) {
        snprintf(labels[i], sizeof(labels[i]), "%c", 'a' + i);
        configs[i].label = labels[i];
    }
    REQUIRE(core_init(&core, configs, N, 10000, 1) == 0);
    core_spare(&core, KNOWN);
    core.join = join;
    joined = refuse = 0;
}

static unsigned adopt(const char *text)
{
    static struct view view;
    REQUIRE(view_parse(text, strlen(text), &view) == 0);
    return members_adopt(&core, &view);
}

static const char stable[] = "v2 c1d2e3f4 2\nnew 1=a 2=b 3=c\nby 0\n";
static const char joint[] = "v2 c1d2e3f4 3\nold 1=a 2=b 3=c\nnew 4=d 2=b 3=c\nby 7\n";
static const char rival[] = "v2 c1d2e3f4 3\nold 1=a 2=b 3=c\nnew 1=a 5=e 3=c\nby 6\n";
static const char after[] =
    "v2 c1d2e3f4 4\nnew 4=d 2=b 3=c\nwas 2 a b c\nby 7\n";

static void a_replacement_is_followed(void)
{
    begin();
    unsigned first = adopt(stable);
    CHECK_INT(core.lists_len, 1);
    CHECK_INT(core.lists[0].number, first);
    CHECK_INT(core.lists[0].voters.now, 0x7);
    CHECK_INT(adopt(stable), first);                  /* known */

    unsigned second = adopt(joint);
    CHECK(second > first && core.lists_len == 2);     /* votes for either count */
    CHECK_INT(core.lists[1].voters.old, 0x7);
    CHECK_INT(core.lists[1].voters.now, 0xe);
    CHECK_INT(core.listed, 0xf);
    CHECK_STR(labels[3], "d");
    CHECK_INT(joined, 1);

    CHECK(adopt(after) > second);
    CHECK_INT(core.lists_len, 1);
    CHECK_INT(state_newest(&core)->voters.old, 0xe);
    CHECK_INT(state_newest(&core)->voters.now, 0xe);
    CHECK_INT(core.leaving, 0x1);
    CHECK_INT(members_leaving(&core), 0x1);
    CHECK_INT(core.listed, 0xe);
    CHECK_INT(adopt(joint), 0);                       /* older than what is known */
    CHECK_INT(adopt(stable), 0);
    close_free(&core);
}

static void rivals_count_apart(void)
{
    begin();
    adopt(stable);
    unsigned a = adopt(joint), b = adopt(rival);
    CHECK(a && b && a != b);
    CHECK_INT(core.lists_len, 3);
    CHECK_INT(core.listed, 0x1f);
    adopt(after);
    CHECK_INT(core.lists_len, 1);
    CHECK_INT(members_leaving(&core), 0x11);          /* a, and e, which never came */
    close_free(&core);
}

/* A client that comes late has no use for the list that it was configured with. */
static void a_late_client_goes_by_the_newest(void)
{
    begin();
    CHECK(adopt(after) > 0);
    CHECK_INT(core.lists_len, 1);
    CHECK_INT(state_newest(&core)->voters.now, 0xe);
    close_free(&core);
    begin();
    CHECK(adopt(joint) > 0);
    CHECK_INT(core.lists_len, 1);
    CHECK_INT(state_newest(&core)->voters.old, 0x7);
    close_free(&core);
}

/* Fewer servers than the list has would make majorities that are none. */
static void no_place_no_list(void)
{
    begin();
    adopt(stable);
    unsigned number = core.lists_number;
    refuse = 1;
    CHECK_INT(adopt(joint), 0);
    CHECK_INT(core.lists_number, number);
    refuse = 0;
    CHECK_INT(adopt("v2 c1d2e3f4 4\nnew 1=a 2=b 3=c 4=d 5=e 6=f\nby 0\n"), 0);
    CHECK_INT(core.lists_number, number);
    CHECK_INT(members_leaving(&core) & 0x7, 0);       /* nor do the others go */
    CHECK_INT(core.listed, 0x7);
    CHECK(adopt(joint) > number);
    close_free(&core);
}

static void places_are_used_again(void)
{
    begin();
    char text[200];
    adopt(stable);
    for (int k = 0; k < 20; k++) {
        snprintf(text, sizeof(text), "v2 c1d2e3f4 %d\nnew %d=n%d 2=b 3=c\nby 0\n", 4 + 2 * k,
                 10 + k, k);
        REQUIRE(adopt(text) > 0);
        CHECK_INT(__builtin_popcount(members_leaving(&core)), 1);
        CHECK_INT(__builtin_popcount(core.listed), 3);
        CHECK_INT(core.listed, state_newest(&core)->voters.now);
    }
    close_free(&core);
}

SUITE(members, T(a_replacement_is_followed), T(rivals_count_apart),
      T(a_late_client_goes_by_the_newest), T(no_place_no_list), T(places_are_used_again));
