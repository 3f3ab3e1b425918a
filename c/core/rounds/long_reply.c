/* long_reply.c - data of replies that is too long for a slot. */
#include "core/rounds/long_reply.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct long_reply *long_reply_new(const char *bytes, size_t len)
{
    struct long_reply *reply = malloc(sizeof(*reply) + len);
    if (!reply)
        return NULL;
    reply->refs = 1;
    reply->len = (unsigned)len;
    memcpy(reply->bytes, bytes, len);
    return reply;
}

struct long_reply *long_reply_ref(struct long_reply *reply)
{
    reply->refs++;
    return reply;
}

void long_reply_unref(struct long_reply *reply)
{
    if (!reply)
        return;
    assert(reply->refs > 0);
    if (--reply->refs == 0)
        free(reply);
}
