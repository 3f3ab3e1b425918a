/* fuzz.h - an input as a stream of choices. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Also where assert() is compiled out. */
#define MUST(cond)                                                             \
    ((cond) ? (void)0                                                          \
            : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond), abort()))

struct input {
    const uint8_t *at, *end;
};

static inline size_t input_left(const struct input *in)
{
    return (size_t)(in->end - in->at);
}

/* The next byte; 0 when there is none. */
static inline uint8_t input_byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* The next n bytes, or fewer: *len of them. */
static inline const char *input_bytes(struct input *in, size_t n, size_t *len)
{
    const char *bytes = (const char *)in->at;
    *len = n < input_left(in) ? n : input_left(in);
    in->at += *len;
    return bytes;
}

#endif
