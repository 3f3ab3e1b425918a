/* card.h - whose a lock is, for people: what rides behind the digits of a value. */
#ifndef CARD_H
#define CARD_H

#include "redlock.h"

/* A value with its card. */
struct value {
    size_t len;
    char bytes[RL_VALUE_MAX];
};

/* Writes the card of a label, as rl_acquire() has it, at most RL_VALUE_MAX - RL_VALUE_LEN
 * bytes. How many; 0: there is no label. */
size_t card_write(char *out, const rl_bytes *label);

/* In the child of a fork: it has another number. */
void card_after_fork(void);

#endif
