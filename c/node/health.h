/* health.h - a node's health, judged by its unanswered requests. Pure. */
#ifndef HEALTH_H
#define HEALTH_H

#include "node/node.h"

/* True when a call, or a request about the marker, sent since then is unanswered. */
int health_owes_since(const struct node *nd, int64_t since_ms);

/* True when requests wait and no answer came for longer than one answer may take: the
 * core asks such a node for no votes until it answers again. */
int health_hung(const struct node *nd, int64_t now_ms);

/* True when requests wait, and no answer came for longer than usual. */
int health_pauses(const struct node *nd, int64_t now_ms);

/* True when the node has many unanswered requests, and pauses or answers late: its oldest
 * request has waited for half a time-out. */
int health_behind(const struct node *nd, int64_t now_ms);

/* When to give up the connection unless something arrives (connect time-out, or a request
 * unanswered for 4 time-outs); INT64_MAX: no answer is awaited. */
int64_t health_give_up_ms(const struct node *nd);

#endif
