/* card.h - the readable end of a lock's value, which tells people who holds it: a space,
 * the time in ms since 1970 in hex, a space, the label. */
#ifndef CARD_H
#define CARD_H

#include "redlock.h"

struct value {
    size_t len;
    char bytes[RL_VALUE_MAX];
};

/* Writes the card of a label (see rl_acquire()), at most RL_VALUE_MAX - RL_VALUE_LEN
 * bytes, with each "%p" in it replaced by the process number. Returns how many bytes; 0:
 * there is no label. */
size_t card_write(char *out, const rl_bytes *label);

/* In the child of a fork, which has another process number. */
void card_after_fork(void);

#endif
