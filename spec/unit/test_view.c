/* test_view.c - the record of a list of servers: what is read is what was written. */
#include <stdio.h>
#include <string.h>

#include "core/view.h"
#include "test.h"

static const char between[] = "v2 c1d2e3f4 5\n"
                              "old 1=10.0.0.1 2=10.0.0.2 3=10.0.0.3\n"
                              "new 2=10.0.0.2 3=10.0.0.3 4=10.0.0.4:6380\n"
                              "was 2 10.0.0.9 10.0.0.2 10.0.0.3\n"
                              "by 17\n";
static const char stable[] = "v2 c1d2e3f4 2\nnew 1=/run/a=b.sock 2=[::1]:6379\nby 0\n";

static struct view v;

static int parse(const char *text)
{
    return view_parse(text, strlen(text), &v);
}

static void reads_lists(void)
{
    REQUIRE(parse(between) == 0);
    CHECK_STR(v.id.cluster, "c1d2e3f4");
    CHECK_INT(v.id.epoch, 5);
    CHECK_INT(v.old.n, 3);
    CHECK_INT(v.list.n, 3);
    CHECK_INT(v.list.at[2].id, 4);
    CHECK(view_by_label(&v.list, "10.0.0.4:6380") == &v.list.at[2]);
    CHECK(view_by_label(&v.list, "10.0.0.1") == NULL);
    CHECK(view_by_label(&v.old, "10.0.0.1") == &v.old.at[0]);
    CHECK(view_by_id(&v.old, 3) == &v.old.at[2]);
    CHECK(view_by_id(&v.list, 1) == NULL);
    CHECK_INT(v.was_len, 1);
    CHECK_INT(v.was[0].epoch, 2);
    CHECK_INT(v.was[0].n, 3);
    CHECK_INT(v.by, 17);
    REQUIRE(parse(stable) == 0);
    CHECK_INT(v.old.n, 0);
    CHECK(view_by_label(&v.list, "/run/a=b.sock") == &v.list.at[0]);
}

static void writes_what_it_reads(void)
{
    char text[VIEW_MAX];
    REQUIRE(parse(between) == 0);
    CHECK_INT(view_write(&v, text), sizeof(between) - 1);
    CHECK_STR(text, between);
}

/* Who wrote it makes no difference, anything else does. */
static void is_known_by_its_hash(void)
{
    struct view_id was;
    char text[sizeof(between)];
    REQUIRE(parse(between) == 0);
    was = v.id;
    for (size_t at = 0; at < sizeof(between) - 1; at++) {
        memcpy(text, between, sizeof(text));
        text[at] = text[at] == '3' ? '7' : '3';
        if (view_parse(text, sizeof(text) - 1, &v) == 0)
            CHECK_INT(view_same(&v.id, &was), at > (size_t)(strstr(between, "by") - between));
    }
    was = v.id;
    was.epoch += 2;
    CHECK(!view_same(&was, &v.id));
}

static void refuses_what_is_none(void)
{
    static const char *const texts[] = {
        "", "v2 c1d2e3f4 2\n", "v2 c1d2e3f4 2\nnew\nby 0\n",
        "v3 c1d2e3f4 2\nnew 1=a\nby 0\n", "v2 c1d2e3f 2\nnew 1=a\nby 0\n",
        "v2 c1d2e3f4 02\nnew 1=a\nby 0\n", "v2 c1d2e3f4 2\nnew 1=\nby 0\n",
        "v2 c1d2e3f4 2\nnew a\nby 0\n", "v2 c1d2e3f4 2\nnew 1=a\n",
        "v2 c1d2e3f4 2\nnew 1=a\nby 0", "v2 c1d2e3f4 2\nnew 1=a\nby 0\n\n",
        "v2 c1d2e3f4 2\nnew  1=a\nby 0\n", "v2 c1d2e3f4 3\nnew 1=a\nby 0\n",
        "v2 c1d2e3f4 2\nold 1=a\nnew 1=a\nby 0\n", "v2 c1d2e3f4 2\nnew 1=a\nwas 1=a\nby 0\n",
        "v2 c1d2e3f4 2\nnew 1=a\nby 100000000000000\n",
        "v2 c1d2e3f4 2\nnew 0=a\nby 0\n", "v2 c1d2e3f4 2\nnew 1=a 1=b\nby 0\n",
        "v2 c1d2e3f4 2\nnew 1=a 2=a\nby 0\n",
        "v2 c1d2e3f4 3\nold 1=a 2=a\nnew 1=a\nby 0\n",
        "v2 c1d2e3f4 2\nonline on\nnew 1=a\nby 0\n",
    };
    for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
        test_note("%s", texts[k]);
        CHECK_INT(parse(texts[k]), -1);
    }
}

static void bounds_what_it_writes(void)
{
    static char label[200];
    char text[VIEW_MAX];
    memset(label, 'x', sizeof(label));
    memset(&v, 0, sizeof(v));
    memcpy(v.id.cluster, "c1d2e3f4", VIEW_HEX);
    v.id.epoch = 2;
    for (v.list.n = 0; v.list.n < RL_MAX_NODES; v.list.n++) {
        v.list.at[v.list.n] = (struct member){v.list.n + 1, label, 120};
        CHECK(view_sign(&v) == 0);
    }
    CHECK(view_write(&v, text) > 0);
    for (int k = 0; k < RL_MAX_NODES; k++)
        v.list.at[k].len = sizeof(label);
    CHECK_INT(view_write(&v, text), -1);
    CHECK_INT(view_sign(&v), -1);
}

static struct member_list of_labels(int n, const char *const *labels)
{
    struct member_list list = {.n = n};
    for (int k = 0; k < n; k++)
        list.at[k] = (struct member){0, labels[k], strlen(labels[k])};
    return list;
}

static void knows_the_lists_before(void)
{
    REQUIRE(parse(between) == 0);
    struct member_list was =
        of_labels(3, (const char *const[]){"10.0.0.3", "10.0.0.9", "10.0.0.2"});
    struct member_list fewer = of_labels(2, (const char *const[]){"10.0.0.3", "10.0.0.9"});
    struct member_list other =
        of_labels(3, (const char *const[]){"10.0.0.3", "10.0.0.9", "10.0.0.1"});
    CHECK(view_was_list(&v, &was));
    CHECK(!view_was_list(&v, &fewer));
    CHECK(!view_was_list(&v, &other));
}

static void is_strict_on_demand(void)
{
    char text[VIEW_MAX];
    static const char strict[] = "v2 c1d2e3f4 2\nonline\nnew 1=a\nby 0\n";
    REQUIRE(parse(stable) == 0);
    CHECK_INT(v.online, 0);
    REQUIRE(parse(strict) == 0);
    CHECK_INT(v.online, 1);
    CHECK(view_write(&v, text) > 0);
    CHECK_STR(text, strict);
}

SUITE(view, T(reads_lists), T(writes_what_it_reads), T(is_known_by_its_hash),
      T(refuses_what_is_none), T(bounds_what_it_writes),
      T(knows_the_lists_before), T(is_strict_on_demand));
