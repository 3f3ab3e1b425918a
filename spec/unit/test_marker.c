/* test_marker.c - the marker's text: what is read, what is not, and that nothing is read
 * that could not have been written. */
#include <stdio.h>
#include <string.h>

#include "core/base/marker.h"
#include "test.h"

static const char admitted[] =
    "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 60000 orders";
static const char lost[] =
    "3f9c0a1b2c3d4e5f v4 l 9d0b1c2d3e4f5061 0 60000 orders 31005 1795691426965";

static enum marker_kind parse(const char *text, struct marker *m)
{
    int version;
    return marker_parse(text, strlen(text), m, &version);
}

static void reads_every_word(void)
{
    struct marker m;
    REQUIRE(parse(admitted, &m) == MARKER_READ);
    CHECK_STR(m.inc, "3f9c0a1b2c3d4e5f");
    CHECK_INT(m.state, MARKER_ADMITTED);
    CHECK_STR(m.replid, "9d0b1c2d3e4f5061");
    CHECK_INT(m.db, 0);
    CHECK_INT(m.max_lease_ms, 60000);
    CHECK_STR(m.cluster, "orders");
    REQUIRE(parse("3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 60000 c1d2e3f49a8b7c6d", &m) ==
            MARKER_READ);
    CHECK_STR(m.cluster, "c1d2e3f49a8b7c6d");
}

static void reads_what_goes_with_a_state(void)
{
    struct marker m;
    REQUIRE(parse("3f9c0a1b2c3d4e5f v4 l - 15 500 orders 1234 1795691426965", &m) ==
            MARKER_READ);
    CHECK_STR(m.replid, "");
    CHECK_INT(m.db, 15);
    CHECK_INT(m.observed_ms, 1234);
    for (const char *state = "nls"; *state; state++) {
        char text[sizeof(lost)];
        memcpy(text, lost, sizeof(text));
        text[20] = *state;
        REQUIRE(parse(text, &m) == MARKER_READ);
        CHECK_INT(m.state, *state);
        CHECK_INT(m.observed_ms, 31005);
    }
}

static void knows_other_versions(void)
{
    static const char *const texts[] = {
        "3f9c0a1b2c3d4e5f v5 anything at all", "3f9c0a1b2c3d4e5f v1 ", "3f9c0a1b2c3d4e5f v0 x",
        "3f9c0a1b2c3d4e5f v999 a",
        "3f9c0a1b2c3d4e5f v5 #da39a3ee5e6b4b0d3255bfef95601890afd80709",
    };
    static const int versions[] = {5, 1, 0, 999, 5};
    for (int k = 0; k < 5; k++) {
        struct marker m;
        int version;
        test_note("%s", texts[k]);
        CHECK(marker_parse(texts[k], strlen(texts[k]), &m, &version) == MARKER_UNKNOWN);
        CHECK_INT(version, versions[k]);
    }
}

static void knows_what_is_not_ours(void)
{
    static const char *const texts[] = {
        "hello", "v", "v4", "v4 ", "3f9c0a1b2c3d4e5f", "3f9c0a1b2c3d4e5f v5",
        "3f9c0a1b2c3d4e5f v05 x", "3f9c0a1b2c3d4e5f v1000 x", "3f9c0a1b2c3d4e5f V5 x",
        " 3f9c0a1b2c3d4e5f v5 x", "3f9c0a1b2c3d4e5 v5 x", "v5 x", "#list",
        "#da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "0123456789012345678901234567890123456789 60000",
        "3f9c0a1b2c3d4e5 v4 a 9d0b1c2d3e4f5061 0 60000 orders",
        "3F9C0A1B2C3D4E5F v4 a 9d0b1c2d3e4f5061 0 60000 orders",
        "3f9c0a1b2c3d4e5f v4 x 9d0b1c2d3e4f5061 0 60000 orders",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f506 0 60000 orders",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 -1 60000 orders",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 +1 60000 orders",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 2147483648 60000 orders",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 1000000000000000 orders",
        "3f9c0a1b2c3d4e5f v-4 a 9d0b1c2d3e4f5061 0 60000 orders",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 0 orders",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 060000 orders",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 60000 orders ",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 60000 orders 7",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 60000",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 60000 ",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 60000 two/words",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 60000 a23456789.123456789.123456789.123",
        "3f9c0a1b2c3d4e5f v4 p 9d0b1c2d3e4f5061 0 60000 orders 0 7",
        "3f9c0a1b2c3d4e5f v4 s 9d0b1c2d3e4f5061 0 60000 orders",
        "3f9c0a1b2c3d4e5f v4 n 9d0b1c2d3e4f5061 0 60000 orders 7",
        "3f9c0a1b2c3d4e5f v4 n 9d0b1c2d3e4f5061 0 60000 orders 7 ",
        "3f9c0a1b2c3d4e5f v4 n 9d0b1c2d3e4f5061 0 60000 orders 7 08",
        "3f9c0a1b2c3d4e5f v4 n 9d0b1c2d3e4f5061 0 60000 orders -7 8",
        "3f9c0a1b2c3d4e5f v4 n 9d0b1c2d3e4f5061 0 60000 orders 7 -8",
        "3f9c0a1b2c3d4e5f v4 n 9d0b1c2d3e4f5061 0 60000 orders 7 8 9",
        "3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 60000 orders 7 8",
        "3f9c0a1b2c3d4e5f  v4 a 9d0b1c2d3e4f5061 0 60000 orders",
    };
    for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
        struct marker m;
        test_note("%s", texts[k]);
        CHECK_INT(parse(texts[k], &m), MARKER_FOREIGN);
    }
    struct marker m;
    CHECK_INT(parse("", &m), MARKER_NONE);
    int version;
    char with_nul[sizeof(admitted)];
    memcpy(with_nul, admitted, sizeof(with_nul));
    CHECK_INT(marker_parse(with_nul, sizeof(with_nul), &m, &version), MARKER_FOREIGN);
    with_nul[30] = '\0';
    CHECK_INT(marker_parse(with_nul, sizeof(with_nul) - 1, &m, &version), MARKER_FOREIGN);
}

/* What marker/set.lua appends to the text of a quarantine. */
static void is_counted(const char *text, int64_t observed_ms)
{
    char want[24];
    int len = sprintf(want, " %lld ", (long long)observed_ms);
    REQUIRE(!strncmp(text, want, (size_t)len));
    text += len;
    CHECK(*text && (*text != '0' || !text[1]) && strlen(text) <= 15);
    CHECK_INT(strspn(text, "0123456789"), strlen(text));
}

/* Each text with one letter changed, left out or put in is none, or says what it reads. */
static void reads_only_what_is_written(void)
{
    struct rng r = {test_seed()};
    for (int run = test_runs(20000); run > 0; run--) {
        char text[MARKER_MAX + 1], again[MARKER_MAX];
        const char *of = rng_one_in(&r, 2) ? admitted : lost;
        size_t len = strlen(of), at = (size_t)rng_below(&r, (int)len);
        char letter = (char)(rng_one_in(&r, 3) ? rng_below(&r, 256)
                                               : "0123456789abcdefnlsr-v ._"[rng_below(&r, 25)]);
        memcpy(text, of, len + 1);
        if (rng_one_in(&r, 3)) {
            memmove(text + at, text + at + 1, len-- - at);
        } else if (rng_one_in(&r, 2)) {
            memmove(text + at + 1, text + at, len++ - at);
            text[at] = letter;
            text[len] = '\0';
        } else {
            text[at] = letter;
        }
        struct marker m;
        int version;
        if (marker_parse(text, len, &m, &version) != MARKER_READ)
            continue;
        marker_write(&m, again);
        REQUIRE(strlen(text) == len && !strncmp(again, text, strlen(again)));
        if (m.state == MARKER_ADMITTED)
            CHECK_STR(again, text);
        else
            is_counted(text + strlen(again), m.observed_ms);
    }
}

static void writes_the_longest_within_bounds(void)
{
    struct marker m = {.state = MARKER_LOST, .db = INT32_MAX,
                       .cluster = "a23456789.123456789.123456789.12",
                       .max_lease_ms = INT64_C(999999999999999),
                       .observed_ms = INT64_C(999999999999999),
                       .at_ms = INT64_C(999999999999999)}, back;
    char text[MARKER_MAX];
    marker_hex(UINT64_MAX, MARKER_HEX, m.inc);
    marker_hex(0, MARKER_HEX, m.replid);
    marker_write(&m, text);
    strcat(text, " 999999999999999 999999999999999");
    CHECK(strlen(text) <= MARKER_TEXT);
    REQUIRE(parse(text, &back) == MARKER_READ);
    CHECK(!memcmp(&m, &back, sizeof(m)));
}

static void cuts_a_replid(void)
{
    char to[MARKER_HEX + 1];
    marker_replid("9d0b1c2d3e4f506172839405162738495a6b7c8d", to);
    CHECK_STR(to, "9d0b1c2d3e4f5061");
    marker_replid("", to);
    CHECK_STR(to, "");
    marker_replid("9d0b1c2d3e4f5061 is no", to);
    CHECK_STR(to, "9d0b1c2d3e4f5061");
    marker_replid("redis", to);
    CHECK_STR(to, "");
}

SUITE(marker, T(reads_every_word), T(reads_what_goes_with_a_state),
      T(knows_other_versions), T(knows_what_is_not_ours), T(reads_only_what_is_written),
      T(writes_the_longest_within_bounds), T(cuts_a_replid));
