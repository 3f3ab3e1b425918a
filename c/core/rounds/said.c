/* said.c - data of replies that is too long for a slot. */
#include "core/rounds/said.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct said *said_new(const char *bytes, size_t len)
{
    struct said *said = malloc(sizeof(*said) + len);
    if (!said)
        return NULL;
    said->refs = 1;
    said->len = (unsigned)len;
    memcpy(said->bytes, bytes, len);
    return said;
}

struct said *said_ref(struct said *said)
{
    said->refs++;
    return said;
}

void said_unref(struct said *said)
{
    if (!said)
        return;
    assert(said->refs > 0);
    if (--said->refs == 0)
        free(said);
}
