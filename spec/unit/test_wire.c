/* test_wire.c - replies in every shape and in every piece, and what hostile servers say;
 * commands against hiredis' own formatter. */
#include "node/wire.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

/* ---- replies ---- */

/* What a reply looks like, for comparison: type, integers, text. */
static const char *show(const struct reply *r)
{
    static char s[WIRE_TEXT_MAX + 200];
    static const char *const types[] = {"int", "str", "status", "nil", "error", "array"};
    int len = snprintf(s, sizeof(s), "%s", types[r->type]);
    for (int i = 0; i < r->nums; i++)
        len += snprintf(s + len, sizeof(s) - (size_t)len, " %lld", (long long)r->num[i]);
    if (r->has_text)
        snprintf(s + len, sizeof(s) - (size_t)len, " '%s'", r->text);
    return s;
}

static const struct sample {
    const char *bytes;
    const char *shown;
} samples[] = {
    {":1\r\n", "int 1"},
    {":0\r\n", "int 0"},
    {":-1\r\n", "int -1"},
    {":9223372036854775807\r\n", "int 9223372036854775807"},
    {":-9223372036854775808\r\n", "int -9223372036854775808"},
    {"+OK\r\n", "status 'OK'"},
    {"+\r\n", "status ''"},
    {"-ERR no\r\n", "error 'ERR no'"},
    {"-ERR \033]0;x\a\033[2J a\fb\tc\177 \303\244 \233\r\n", "error 'ERR ?]0;x??[2J a?b?c? ?? ?'"},
    {"-ERR 0123456789abcdef0123 '0123456789abcdef0123456789ABCDEF01234567 1a2b'\r\n",
     "error 'ERR 0123456789abcdef0123 '0123456789abcdef0123******************** 1a2b''"},
    {"$3\r\na\nb\r\n", "str 'a\nb'"},
    {"$5\r\nhello\r\n", "str 'hello'"},
    {"$0\r\n\r\n", "str ''"},
    {"$4\r\n\r\n\r\n\r\n", "str '\r\n\r\n'"},
    {"$-1\r\n", "nil"},
    {"*-1\r\n", "nil"},
    {"*0\r\n", "array"},
    {"*2\r\n:0\r\n:29999\r\n", "array 0 29999"},
    {"*3\r\n:1\r\n$3\r\nabc\r\n:7\r\n", "array 1 7 'abc'"},
    {"*3\r\n:1\r\n$1\r\na\r\n$1\r\nb\r\n", "array 1 'a'"},
    {"*6\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n", "array 1 2 3 4"},
    {"*2\r\n$-1\r\n:5\r\n", "array 5"},
    {"*3\r\n*2\r\n:1\r\n:2\r\n:3\r\n*1\r\n$1\r\nx\r\n", "array 1 2 3 'x'"},
    {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n", "array 7"},
    {"*2\r\n:1\r\n-ERR in it\r\n", "array 1 'ERR in it'"},
    {"*2\r\n:1\r\n-ERR in\vit\r\n", "array 1 'ERR in?it'"},
    {"*2\r\n*0\r\n*-1\r\n", "array"},
};

enum { SAMPLES = sizeof(samples) / sizeof(samples[0]) };

static void next_is(struct wire *w, const char *shown)
{
    REQUIRE(wire_next(w) == 1);
    CHECK_STR(show(&w->reply), shown);
}

/* One wire for all of them, so that one reply must not leave anything to the next. */
static void reads_every_type(void)
{
    struct wire w;
    REQUIRE(wire_init(&w) == 0);
    for (int k = 0; k < SAMPLES; k++) {
        REQUIRE(wire_feed(&w, samples[k].bytes, strlen(samples[k].bytes)) == 0);
        next_is(&w, samples[k].shown);
        CHECK_INT(wire_next(&w), 0);
    }
    wire_free(&w);
}

static void reads_byte_by_byte(void)
{
    struct wire w;
    REQUIRE(wire_init(&w) == 0);
    for (int k = 0; k < SAMPLES; k++) {
        size_t len = strlen(samples[k].bytes);
        for (size_t i = 0; i < len; i++) {
            CHECK_INT(wire_next(&w), 0);
            REQUIRE(wire_feed(&w, samples[k].bytes + i, 1) == 0);
        }
        next_is(&w, samples[k].shown);
    }
    wire_free(&w);
}

static void reads_in_every_split(void)
{
    struct wire w;
    REQUIRE(wire_init(&w) == 0);
    for (int k = 0; k < SAMPLES; k++) {
        const char *bytes = samples[k].bytes;
        size_t len = strlen(bytes);
        for (size_t i = 1; i < len; i++) {
            REQUIRE(wire_feed(&w, bytes, i) == 0);
            CHECK_INT(wire_next(&w), 0);
            REQUIRE(wire_feed(&w, bytes + i, len - i) == 0);
            next_is(&w, samples[k].shown);
        }
    }
    wire_free(&w);
}

static void reads_many_in_one_block(void)
{
    struct buf all;
    struct wire w;
    struct rng r = {test_seed()};
    enum { N = 5000 };
    static unsigned char which[N];
    memset(&all, 0, sizeof(all));
    REQUIRE(wire_init(&w) == 0);
    for (int i = 0; i < N; i++) {
        which[i] = (unsigned char)rng_below(&r, SAMPLES);
        const char *bytes = samples[which[i]].bytes;
        REQUIRE(wire_raw(&all, bytes, strlen(bytes)) == 0);
    }
    int read = 0;
    while (buf_len(&all)) {
        size_t n = (size_t)rng_below(&r, 20000) + 1;
        n = n < buf_len(&all) ? n : buf_len(&all);
        REQUIRE(wire_feed(&w, all.data + all.start, n) == 0);
        buf_take(&all, n);
        int got;
        while ((got = wire_next(&w)) == 1) {
            REQUIRE(read < N);
            REQUIRE(CHECK_STR(show(&w.reply), samples[which[read]].shown));
            read++;
        }
        REQUIRE(got == 0);
    }
    CHECK_INT(read, N);
    wire_free(&w);
    buf_free(&all);
}

static void keeps_zeros_in_strings(void)
{
    struct wire w;
    REQUIRE(wire_init(&w) == 0);
    REQUIRE(wire_feed(&w, "*2\r\n:1\r\n$6\r\na\0b\r\n\xff\r\n", 20) == 0);
    REQUIRE(wire_next(&w) == 1);
    CHECK_INT(w.reply.text_len, 6);
    CHECK(!memcmp(w.reply.text, "a\0b\r\n\xff", 7));
    wire_free(&w);
}

static void cuts_long_texts(void)
{
    static char body[1000];
    struct wire w;
    REQUIRE(wire_init(&w) == 0);
    for (int len = WIRE_TEXT_MAX - 1; len <= WIRE_TEXT_MAX + 1; len++) {
        int kept = len < WIRE_TEXT_MAX ? len : WIRE_TEXT_MAX;
        for (int kind = 0; kind < 3; kind++) {
            char head[16];
            memset(body, 'x', sizeof(body));
            memcpy(body + len, "\r\n", 2);
            if (kind == 0)
                snprintf(head, sizeof(head), "$%d\r\n", len);
            else
                snprintf(head, sizeof(head), "%c", kind == 1 ? '-' : '+');
            REQUIRE(wire_feed(&w, head, strlen(head)) == 0);
            REQUIRE(wire_feed(&w, body, (size_t)len + 2) == 0);
            REQUIRE(wire_next(&w) == 1);
            CHECK_INT(w.reply.text_len, kept);
            CHECK_INT(strlen(w.reply.text), kept);
        }
    }
    wire_free(&w);
}

static void longest_reply_is_a_mebibyte(void)
{
    struct wire w;
    char *big = malloc(WIRE_MAX_PENDING);
    REQUIRE(big != NULL && wire_init(&w) == 0);
    memset(big, 'y', WIRE_MAX_PENDING);
    int len = WIRE_MAX_PENDING - 32;
    char head[32];
    snprintf(head, sizeof(head), "$%d\r\n", len);
    REQUIRE(wire_feed(&w, head, strlen(head)) == 0);
    REQUIRE(wire_feed(&w, big, (size_t)len) == 0);
    CHECK_INT(wire_next(&w), 0);
    REQUIRE(wire_feed(&w, "\r\n", 2) == 0);
    CHECK_INT(wire_next(&w), 1);
    CHECK_INT(w.reply.text_len, WIRE_TEXT_MAX);
    wire_free(&w);
    free(big);
}

/* Integers are read before hiredis sees them, as long as no other reply is among them. */
static void integers_between_others(void)
{
    static const char input[] = ":1\r\n:-5\r\n$2\r\nab\r\n:7\r\n:12";
    struct wire w;
    REQUIRE(wire_init(&w) == 0);
    REQUIRE(wire_feed(&w, input, sizeof(input) - 1) == 0);
    next_is(&w, "int 1");
    next_is(&w, "int -5");
    next_is(&w, "str 'ab'");
    next_is(&w, "int 7");
    CHECK_INT(wire_next(&w), 0);
    REQUIRE(wire_feed(&w, "3\r\n", 3) == 0);
    next_is(&w, "int 123");
    CHECK_INT(wire_next(&w), 0);
    REQUIRE(wire_feed(&w, ":0\r\n:9", 6) == 0);
    REQUIRE(wire_feed(&w, "\r\n:9223372036854775807\r\n", 24) == 0);
    next_is(&w, "int 0");
    next_is(&w, "int 9");
    next_is(&w, "int 9223372036854775807");
    REQUIRE(wire_feed(&w, ":1\r\n:1x\r\n", 9) == 0);
    next_is(&w, "int 1");
    CHECK_INT(wire_next(&w), -1);
    wire_free(&w);
}

static void reset_forgets_input(void)
{
    struct wire w;
    REQUIRE(wire_init(&w) == 0);
    REQUIRE(wire_feed(&w, "*3\r\n:1\r\n$100\r\nabc", 18) == 0);
    CHECK_INT(wire_next(&w), 0);
    REQUIRE(wire_reset(&w) == 0);
    REQUIRE(wire_feed(&w, ":5\r\n", 4) == 0);
    next_is(&w, "int 5");
    REQUIRE(wire_feed(&w, "nonsense\r\n", 10) == 0);
    CHECK_INT(wire_next(&w), -1);
    REQUIRE(wire_reset(&w) == 0);       /* also after an error */
    REQUIRE(wire_feed(&w, "+OK\r\n", 5) == 0);
    next_is(&w, "status 'OK'");
    wire_free(&w);
}

/* ---- hostile servers ---- */

static void refuses(const char *bytes, size_t len)
{
    struct wire w;
    test_note("%.40s", bytes);
    for (int way = 0; way < 2; way++) {
        REQUIRE(wire_init(&w) == 0);
        int got = 0;
        for (size_t i = 0; i < len && got >= 0; i += way ? len : 1) {
            REQUIRE(wire_feed(&w, bytes + i, way ? len : 1) == 0);
            while ((got = wire_next(&w)) == 1)
                ;
        }
        CHECK_INT(got, -1);
        CHECK(strlen(wire_error(&w)) > 0);
        CHECK_INT(wire_next(&w), -1);    /* and stays so */
        wire_free(&w);
    }
}

static void refuses_what_is_not_resp2(void)
{
    static const char *const bad[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\r\n",
        "\x15\x03\x01\x00\x02\x02\x50",            /* a TLS alert */
        "_\r\n", "#t\r\n", ",1.5\r\n", "(123\r\n", /* RESP3 */
        "%1\r\n+a\r\n:1\r\n", "~1\r\n:1\r\n", ">1\r\n+a\r\n", "|1\r\n",
        "=5\r\ntxt:a\r\n", "!3\r\nERR\r\n",
        "=-1\r\n", "%-1\r\n", "~-1\r\n", ">-1\r\n", "%0\r\n", "~0\r\n", ">0\r\n",
        "*2\r\n:1\r\n_\r\n",
        ":1x\r\n", ":\r\n", ":--1\r\n", ":9223372036854775808\r\n", ":1.0\r\n",
        "$-2\r\nab\r\n", "$x\r\n", "$\r\n", "$1a\r\n",
        "*-2\r\n", "*x\r\n", "*\r\n",
        "-ERR a\nb\r\n", "+a\rb\r\n", "+a\n\r\n",
        "$99999999999999999999\r\n", "$-9223372036854775808\r\n",
        "*4294967297\r\n", "*2147483648\r\n", "*9223372036854775807\r\n",
        "*99999999999999999999\r\n",
    };
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++)
        refuses(bad[k], strlen(bad[k]));
    refuses("\0\0\0\0", 4);
}

static void refuses_long_arrays(void)
{
    struct buf b;
    struct wire w;
    memset(&b, 0, sizeof(b));
    REQUIRE(wire_init(&w) == 0);
    REQUIRE(wire_array(&b, WIRE_MAX_ARRAY) == 0);
    for (int i = 0; i < WIRE_MAX_ARRAY; i++)
        REQUIRE(wire_raw(&b, ":7\r\n", 4) == 0);
    REQUIRE(wire_feed(&w, b.data, buf_len(&b)) == 0);
    next_is(&w, "array 7 7 7 7");
    wire_free(&w);
    buf_free(&b);
    /* Refused at its first line, before a byte of the elements. */
    refuses("*65\r\n", 5);
    refuses("*1000000000\r\n", 13);
    refuses("*2147483647\r\n", 13);
    refuses("*2\r\n*65\r\n", 9);
}

static void refuses_deep_arrays(void)
{
    char deep[400] = "";
    for (int i = 0; i <= WIRE_MAX_DEPTH; i++)
        strcat(deep, "*1\r\n");
    refuses(deep, strlen(deep));
    for (int i = 0; i < 80; i++)
        strcat(deep, "*1\r\n");
    refuses(deep, strlen(deep));
}

/* Drips junk behind a beginning until it is refused; what is kept must stay bounded. */
static void drip(const char *begin, size_t block)
{
    struct wire w;
    char *junk = malloc(block);
    size_t fed = strlen(begin);
    int got = 0;
    test_note("%.20s, in blocks of %zu", begin, block);
    REQUIRE(junk != NULL && wire_init(&w) == 0);
    memset(junk, 'z', block);
    REQUIRE(wire_feed(&w, begin, fed) == 0);
    while ((got = wire_next(&w)) == 0 && fed < 4 * WIRE_MAX_PENDING) {
        REQUIRE(wire_feed(&w, junk, block) == 0);
        fed += block;
    }
    CHECK_INT(got, -1);
    CHECK(fed <= WIRE_MAX_PENDING + block + 64);
    CHECK_STR(wire_error(&w), "a reply is over 1 MiB");
    CHECK_INT(wire_next(&w), -1);
    wire_free(&w);
    free(junk);
}

static void refuses_replies_without_an_end(void)
{
    static const char *const begin[] = {
        "$2097152\r\n", "$9223372036854775807\r\n", "$4294967295\r\n",
        "+", "-", ":", "*", "$", "*2\r\n:1\r\n$536870912\r\n", "*1\r\n+",
    };
    for (size_t k = 0; k < sizeof(begin) / sizeof(begin[0]); k++) {
        drip(begin[k], 16384);
        drip(begin[k], 100003);
    }
    drip("$1100000\r\n", 1021);
}

/* A huge length alone is no error yet, and no memory. */
static void announced_bytes_are_not_reserved(void)
{
    struct wire w;
    REQUIRE(wire_init(&w) == 0);
    REQUIRE(wire_feed(&w, "$9223372036854775807\r\n", 22) == 0);
    CHECK_INT(wire_next(&w), 0);
    CHECK(w.reader->len < 100);
    wire_free(&w);
}

/* Well-formed elements for ever, in arrays of arrays: no memory is needed for them. */
static void nested_flood_keeps_nothing(void)
{
    struct wire w;
    REQUIRE(wire_init(&w) == 0);
    for (int i = 0; i < 5; i++)
        REQUIRE(wire_feed(&w, "*64\r\n", 5) == 0);
    int got = 0;
    for (int i = 0; i < 20000 && got == 0; i++) {
        REQUIRE(wire_feed(&w, "$3\r\nabc\r\n", 9) == 0);
        got = wire_next(&w);
        if (i % 64 == 63)
            REQUIRE(wire_feed(&w, "*64\r\n", 5) == 0);
        REQUIRE(w.reader->len < 64 * 1024);
    }
    wire_free(&w);
}

static void random_bytes_do_no_harm(void)
{
    static const char alphabet[] = "+-:$*0123456789\r\n\r\n\r\nabc\0OK_#,%";
    struct rng r = {test_seed()};
    for (int k = 0; k < test_runs(1500); k++) {
        struct wire w;
        REQUIRE(wire_init(&w) == 0);
        int got = 0;
        for (int i = 0; i < 40 && got >= 0; i++) {
            char block[64];
            int len = rng_below(&r, sizeof(block)) + 1;
            for (int j = 0; j < len; j++)
                block[j] = rng_one_in(&r, 20)
                               ? (char)rng_next(&r)
                               : alphabet[rng_below(&r, sizeof(alphabet) - 1)];
            REQUIRE(wire_feed(&w, block, (size_t)len) == 0);
            while ((got = wire_next(&w)) == 1) {
                REQUIRE(w.reply.nums >= 0 && w.reply.nums <= WIRE_NUMS);
                REQUIRE(w.reply.text_len <= WIRE_TEXT_MAX);
                REQUIRE(w.reply.text[w.reply.text_len] == '\0');
            }
        }
        if (got < 0)
            REQUIRE(strlen(wire_error(&w)) > 0);
        wire_free(&w);
    }
}

/* Good replies with one byte changed. */
static void mutated_replies_do_no_harm(void)
{
    struct rng r = {test_seed() + 1};
    for (int k = 0; k < test_runs(2000); k++) {
        const char *bytes = samples[rng_below(&r, SAMPLES)].bytes;
        char copy[128];
        size_t len = strlen(bytes);
        struct wire w;
        memcpy(copy, bytes, len);
        copy[rng_below(&r, (int)len)] = (char)rng_next(&r);
        REQUIRE(wire_init(&w) == 0);
        REQUIRE(wire_feed(&w, copy, len) == 0);
        int got, n = 0;
        while ((got = wire_next(&w)) == 1)
            REQUIRE(++n < 64);
        wire_free(&w);
    }
}

/* ---- commands ---- */

enum { ARGS_MAX = 20 };

static void formats_like(const char **argv, const size_t *lens, int argc)
{
    char *want = NULL;
    int want_len = redisFormatCommandArgv(&want, argc, argv, lens);
    REQUIRE(want_len > 0);
    struct buf b;
    memset(&b, 0, sizeof(b));
    REQUIRE(wire_array(&b, argc) == 0);
    for (int i = 0; i < argc; i++)
        REQUIRE(wire_bulk(&b, argv[i], lens[i]) == 0);
    if (CHECK_INT(buf_len(&b), want_len))
        CHECK(!memcmp(b.data, want, (size_t)want_len));
    redisFreeCommand(want);
    buf_free(&b);
}

static void formats_as_hiredis_does(void)
{
    static char bytes[4096];
    struct rng r = {test_seed()};
    for (int k = 0; k < test_runs(400); k++) {
        const char *argv[ARGS_MAX];
        size_t lens[ARGS_MAX];
        int argc = 1 + rng_below(&r, ARGS_MAX);
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (char)rng_next(&r);
        for (int i = 0; i < argc; i++) {
            static const int most[] = {1, 12, 101, 1200, 2048};
            argv[i] = bytes + rng_below(&r, 2048);
            lens[i] = (size_t)rng_below(&r, most[rng_below(&r, 5)]);
        }
        test_note("run %d", k);
        formats_like(argv, lens, argc);
    }
}

static void formats_integers(void)
{
    static const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 12345678901, INT64_MAX, UINT64_MAX};
    for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
        char digits[WIRE_DIGITS + 1], want[32];
        snprintf(want, sizeof(want), "%llu", (unsigned long long)numbers[k]);
        digits[wire_digits(digits, numbers[k])] = '\0';
        CHECK_STR(digits, want);
    }
}

static void formats_whole_commands(void)
{
    struct buf b;
    char *want = NULL;
    memset(&b, 0, sizeof(b));
    const char *words[] = {"CLIENT", "SETNAME", "", "x y"};
    REQUIRE(wire_command(&b, 4, words) == 0);
    int len = redisFormatCommandArgv(&want, 4, (const char **)words, NULL);
    CHECK_INT(buf_len(&b), len);
    CHECK(!memcmp(b.data, want, (size_t)len));
    redisFreeCommand(want);
    buf_free(&b);
}

SUITE(wire, T(reads_every_type), T(reads_byte_by_byte), T(reads_in_every_split),
      T(reads_many_in_one_block), T(keeps_zeros_in_strings), T(cuts_long_texts),
      T(longest_reply_is_a_mebibyte), T(integers_between_others),
      T(reset_forgets_input),
      T(refuses_what_is_not_resp2), T(refuses_long_arrays), T(refuses_deep_arrays),
      T(refuses_replies_without_an_end), T(announced_bytes_are_not_reserved),
      T(nested_flood_keeps_nothing), T(random_bytes_do_no_harm),
      T(mutated_replies_do_no_harm), T(formats_as_hiredis_does), T(formats_integers),
      T(formats_whole_commands));
