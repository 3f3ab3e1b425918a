/* long_reply.h - data of replies that is too long for a slot, kept once for all servers that
 * give the same data, as they do for the holder of a lock. */
#ifndef LONG_REPLY_H
#define LONG_REPLY_H

#include <stddef.h>

struct long_reply {
    int refs;
    unsigned len;
    char bytes[];
};

/* With one reference. NULL: out of memory. */
struct long_reply *long_reply_new(const char *bytes, size_t len);
struct long_reply *long_reply_ref(struct long_reply *reply);

/* NULL: nothing. */
void long_reply_unref(struct long_reply *reply);

#endif
