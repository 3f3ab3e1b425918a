/* same_number.h - one of several places: a majority must have granted the same number. */
#ifndef SAME_NUMBER_H
#define SAME_NUMBER_H

#include "core/rounds/round.h"

/* The verdict on a round whose grants name a number above 0. When it is won, the round's
 * token is the number of its majority. */
enum verdict same_number_judge(struct rl_round *round);

#endif
