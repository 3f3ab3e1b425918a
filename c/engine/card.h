/* card.h - what follows the digits of a value, and tells people who holds the lock. */
#ifndef CARD_H
#define CARD_H

#include "redlock.h"

struct value {
    size_t len;
    char bytes[RL_VALUE_MAX];
};

/* Writes the card of a label (see rl_acquire()), at most RL_VALUE_MAX - RL_VALUE_LEN
 * bytes. How many; 0: no label. */
size_t card_write(char *out, const rl_bytes *label);

/* In the child of a fork, which has another process number. */
void card_after_fork(void);

#endif
