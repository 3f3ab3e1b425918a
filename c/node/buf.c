#include "node/buf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void wipe(struct buf *b, size_t from, size_t n)
{
    if (b->secret && n)
        explicit_bzero(b->data + from, n);
}

void buf_free(struct buf *b)
{
    wipe(b, 0, b->cap);
    free(b->data);
    *b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
    wipe(b, 0, b->end);
    b->start = b->end = 0;
    b->taken = 0;
    b->secret = 0;
}

char *buf_grow(struct buf *b, size_t n)
{
    size_t len = buf_len(b);
    if (b->start >= len && b->cap - len >= n) {  /* cheap to move, and enough room */
        memcpy(b->data, b->data + b->start, len);
        wipe(b, b->start, len);
    } else {
        size_t cap = b->cap ? b->cap : 1024;
        while (cap - len < n)
            cap *= 2;
        char *data = malloc(cap);
        if (!data)
            return NULL;
        if (len)
            memcpy(data, b->data + b->start, len);
        wipe(b, b->start, len);
        free(b->data);
        b->data = data;
        b->cap = cap;
    }
    b->start = 0;
    b->end = len;
    return b->data + b->end;
}

void buf_take(struct buf *b, size_t n)
{
    assert(n <= buf_len(b));
    wipe(b, b->start, n);
    b->start += n;
    b->taken += n;
    if (b->start == b->end)
        b->start = b->end = 0, b->secret = 0;
}
