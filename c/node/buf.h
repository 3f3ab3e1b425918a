/* buf.h - a growable run of bytes, written at the end and taken from the front. One that is all
 * zeros is empty. */
#ifndef BUF_H
#define BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data;
    size_t start;            /* first byte not yet taken */
    size_t end;              /* one past the last byte written */
    size_t cap;
    uint64_t taken;          /* bytes taken since the buffer was empty, or buf_clear */
    int secret;              /* set: its bytes are zeroed once they are taken or moved */
};

/* Frees the memory; the buffer is empty and usable. */
void buf_free(struct buf *b);

/* Empties the buffer and restarts the count of taken bytes; keeps the memory. */
void buf_clear(struct buf *b);

/* Makes room for n bytes after the end. Where to write them, or NULL: out of memory. */
char *buf_grow(struct buf *b, size_t n);
static inline char *buf_reserve(struct buf *b, size_t n)
{
    return b->cap - b->end >= n ? b->data + b->end : buf_grow(b, n);
}

/* Marks n bytes from the front as taken. */
void buf_take(struct buf *b, size_t n);

static inline size_t buf_len(const struct buf *b)
{
    return b->end - b->start;
}

/* Position in the stream of the next byte to be written. */
static inline uint64_t buf_offset(const struct buf *b)
{
    return b->taken + buf_len(b);
}

#endif
