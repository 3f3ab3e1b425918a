/* test_buf.c - against a plain array that is shifted. */
#include "node/buf.h"

#include <string.h>

#include "test.h"

static void counts_what_is_taken(void)
{
    struct buf b;
    memset(&b, 0, sizeof(b));
    CHECK_INT(buf_len(&b), 0);
    CHECK_INT(buf_offset(&b), 0);
    memcpy(buf_reserve(&b, 5), "hello", 5);
    b.end += 5;
    CHECK_INT(buf_offset(&b), 5);
    buf_take(&b, 2);
    CHECK_INT(b.taken, 2);
    CHECK_INT(buf_offset(&b), 5);
    CHECK(!memcmp(b.data + b.start, "llo", 3));
    buf_take(&b, 3);
    CHECK_INT(buf_len(&b), 0);
    CHECK_INT(buf_offset(&b), 5);
    buf_clear(&b);
    CHECK_INT(buf_offset(&b), 0);
    CHECK(b.data != NULL);       /* kept for the next connection */
    buf_free(&b);
    CHECK(b.data == NULL);
}

static void zeroes_a_secret(void)
{
    static const char none[1024];
    struct buf b;
    memset(&b, 0, sizeof(b));
    b.secret = 1;
    memcpy(buf_reserve(&b, 6), "secret", 6);
    b.end += 6;
    buf_take(&b, 6);
    CHECK(!memcmp(b.data, none, 6));
    CHECK(!b.secret);
    b.secret = 1;
    size_t len = b.cap / 2;
    memset(buf_reserve(&b, 2 * len), 'x', 2 * len);
    b.end += 2 * len;
    buf_take(&b, len);
    buf_reserve(&b, len);        /* moves what is left to the front */
    CHECK(!memcmp(b.data + len, none, len));
    buf_clear(&b);
    CHECK(!memcmp(b.data, none, b.cap));
    buf_free(&b);
}

static void keeps_the_bytes_in_order(void)
{
    enum { MAX = 6000 };
    static char model[MAX];
    size_t len = 0;
    uint64_t written = 0;
    struct rng r = {test_seed()};
    struct buf b;
    memset(&b, 0, sizeof(b));
    for (int k = 0; k < test_runs(4000); k++) {
        size_t n = (size_t)rng_below(&r, 700);
        if (rng_one_in(&r, 2) && len + n <= MAX) {
            char *to = buf_reserve(&b, n ? n : 1);
            REQUIRE(to != NULL);
            for (size_t i = 0; i < n; i++)
                model[len + i] = to[i] = (char)rng_next(&r);
            b.end += n;
            len += n;
            written += n;
        } else {
            n = n < len ? n : len;
            buf_take(&b, n);
            memmove(model, model + n, len - n);
            len -= n;
        }
        REQUIRE(buf_len(&b) == len && buf_offset(&b) == written);
        REQUIRE(!len || !memcmp(b.data + b.start, model, len));
    }
    /* It must not grow with what went through it, only with what was in it. */
    CHECK(b.cap <= 4 * MAX);
    buf_free(&b);
}

SUITE(buf, T(counts_what_is_taken), T(zeroes_a_secret), T(keeps_the_bytes_in_order));
