/* questions.h - inside c/node: commands that ask a server about itself. */
#ifndef QUESTIONS_H
#define QUESTIONS_H

#include "node/node.h"

/* Queues a command of n words. 0, RL_OVERLOAD or RL_NOMEM. */
int node_request(struct node *nd, enum request_kind kind, int n, const char *const *words,
              void *owner, int64_t now_ms);

/* Queues INFO, TIME, and GET of the marker and of the list of servers beside it. 0, or -1: no
 * room or memory. */
int questions_put(struct node *nd, int64_t now_ms);

/* Call when nd->wire.reply is the answer with that list. */
void questions_servers_answered(struct node *nd);

#endif
