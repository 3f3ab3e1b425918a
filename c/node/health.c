/* health.c - whether a node hangs or falls behind, and when to give it up. */
#include "node/health.h"

/* Since when the oldest request has been the next one to be answered. */
static int64_t awaited_ms(const struct node *nd)
{
    int64_t sent_ms = nd->queue[nd->queue_head].sent_ms;
    return sent_ms > nd->answered_ms ? sent_ms : nd->answered_ms;
}

int health_owes_since(const struct node *nd, int64_t since_ms)
{
    for (uint32_t k = nd->queue_len; k > 0; k--) {
        const struct request *r =
            &nd->queue[(nd->queue_head + k - 1) & (nd->queue_cap - 1)];
        if (r->sent_ms < since_ms)
            return 0;
        if (r->kind == REQUEST_CALL || r->kind == REQUEST_MARKER)
            return 1;
    }
    return 0;
}

int health_hung(const struct node *nd, int64_t now_ms)
{
    return nd->queue_len > 0 && now_ms - awaited_ms(nd) >= nd->config->timeout_ms;
}

/* How long a healthy node may be silent: the shorter the more requests it has, but at
 * least twice its usual time. */
static int64_t pause_ms(const struct node *nd)
{
    int64_t usual_ms = nd->took8_ms / 8, ms = NODE_PAUSE_MS;
    if (nd->queue_len > NODE_BEHIND_MIN)
        ms = ms * NODE_BEHIND_MIN / nd->queue_len;
    if (ms < NODE_PAUSE_MIN_MS)
        ms = NODE_PAUSE_MIN_MS;
    return ms > 2 * usual_ms ? ms : 2 * usual_ms;
}

int health_pauses(const struct node *nd, int64_t now_ms)
{
    return nd->queue_len > 0 && now_ms - awaited_ms(nd) >= pause_ms(nd);
}

int health_behind(const struct node *nd, int64_t now_ms)
{
    return nd->queue_len >= NODE_BEHIND_MIN &&
           (health_pauses(nd, now_ms) ||
            now_ms - nd->queue[nd->queue_head].sent_ms >= nd->config->timeout_ms / 2);
}

int64_t health_give_up_ms(const struct node *nd)
{
    if (nd->state == NODE_CONNECTING || nd->state == NODE_HANDSHAKE)
        return nd->deadline_ms;
    if (nd->state == NODE_DOWN || nd->queue_len == 0)
        return INT64_MAX;
    int patience_ms = 4 * nd->config->timeout_ms;
    if (patience_ms < nd->config->connect_timeout_ms)
        patience_ms = nd->config->connect_timeout_ms;
    return awaited_ms(nd) + patience_ms;
}
