/* test_wire_whole.c - texts that are longer than the record of a reply has room for. */
#include "node/wire.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

/* In how many pieces they may come, until the next reply begins. */
static void keeps_long_texts_beside(void)
{
    enum { LEN = 3000 };
    static char bytes[LEN + 64];
    int head = snprintf(bytes, sizeof(bytes), "*3\r\n:1\r\n$%d\r\n", LEN);
    memset(bytes + head, 'x', LEN);
    memcpy(bytes + head + LEN, "\r\n:7\r\n", 6);
    int len = head + LEN + 6;
    for (int block = 1; block < len; block += 977) {
        struct wire w;
        REQUIRE(wire_init(&w) == 0);
        int got = 0;
        for (int at = 0; at < len; at += block) {
            CHECK_INT(got, 0);
            CHECK_INT(wire_feed(&w, bytes + at, (size_t)(len - at < block ? len - at : block)), 0);
            got = wire_next(&w);
        }
        CHECK_INT(got, 1);
        CHECK_INT(w.reply.text_len, WIRE_TEXT_MAX);
        REQUIRE(w.reply.whole != NULL);
        CHECK_INT(w.reply.whole_len, LEN);
        CHECK_INT(w.reply.whole[LEN - 1], 'x');
        CHECK_INT(w.reply.num[1], 7);
        CHECK_INT(wire_feed(&w, "$1\r\na\r\n", 7), 0);
        CHECK_INT(wire_next(&w), 1);
        CHECK(w.reply.whole == NULL);
        wire_free(&w);
    }
}

SUITE(wire_whole, T(keeps_long_texts_beside));
