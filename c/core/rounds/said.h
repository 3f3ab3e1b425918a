/* said.h - data of replies that is too long for a slot, kept once for all servers that
 * give the same data, as they do for the holder of a lock. */
#ifndef SAID_H
#define SAID_H

#include <stddef.h>

struct said {
    int refs;
    unsigned len;
    char bytes[];
};

/* With one reference. NULL: out of memory. */
struct said *said_new(const char *bytes, size_t len);
struct said *said_ref(struct said *said);

/* NULL: nothing. */
void said_unref(struct said *said);

#endif
