/* seen.h - which numbers were there before: a set of 64-bit hashes. */
#ifndef SEEN_H
#define SEEN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t *seen_table, seen_room, seen_count;

static void *seen_need(void *memory)
{
    if (!memory) {
        puts("out of memory");
        exit(2);
    }
    return memory;
}

static int seen_put(uint64_t h)
{
    uint64_t i = h & (seen_room - 1);
    for (; seen_table[i]; i = (i + 1) & (seen_room - 1))
        if (seen_table[i] == h)
            return 0;
    seen_table[i] = h;
    seen_count++;
    return 1;
}

static void seen_grow(void)
{
    uint64_t *before = seen_table, n = seen_room;
    seen_room = n ? 2 * n : 1 << 20;
    seen_table = seen_need(calloc(seen_room, sizeof(*seen_table)));
    seen_count = 0;
    for (uint64_t i = 0; i < n; i++)
        if (before[i])
            seen_put(before[i]);
    free(before);
}

/* 0: it was there. */
static int seen_add(uint64_t h)
{
    if (4 * seen_count >= 3 * seen_room)
        seen_grow();
    return seen_put(h ? h : 1);
}

#endif
