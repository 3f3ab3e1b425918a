/* questions.h - inside c/node: what a server is asked about itself. */
#ifndef QUESTIONS_H
#define QUESTIONS_H

#include "node/node.h"

/* Queues a command of n words. 0, RL_OVERLOAD or RL_NOMEM. */
int node_tell(struct node *nd, enum request_kind kind, int n, const char *const *words,
              void *owner, int64_t now_ms);

/* Queues INFO, TIME, and GET of the marker and the record; how many commands that are, or
 * -1. */
int questions_put(struct node *nd, int64_t now_ms);

/* A wire's taker: what the server says of the list that it is in. */
void questions_take_record(void *node, const char *text, size_t len);

#endif
