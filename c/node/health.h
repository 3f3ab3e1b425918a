/* health.h - how a node does, by its unanswered requests. Pure. */
#ifndef HEALTH_H
#define HEALTH_H

#include "node/node.h"

/* True when a call, or a request about the marker, sent since then is unanswered. */
int health_asked(const struct node *nd, int64_t since_ms);

/* True when requests wait and nothing was answered for longer than one answer may take:
 * such a node is not asked for votes until it answers again. */
int health_hung(const struct node *nd, int64_t now_ms);

/* True when requests wait, and nothing was answered for longer than is usual. */
int health_pauses(const struct node *nd, int64_t now_ms);

/* True when the node has many requests to answer, and answers none now, or so late that
 * nobody waits for the answers any more. */
int health_behind(const struct node *nd, int64_t now_ms);

/* When the connection must be given up unless something arrives (connect time-out, or a
 * request without an answer for a long time); INT64_MAX: nothing is awaited. */
int64_t health_give_up_ms(const struct node *nd);

#endif
