/* linger.c - the last moments of a client: what is let go, or given away, gets through.
 *
 * Bytes that were written may not have been read yet. A server that reads the first of
 * our requests and answers when we are gone gets a reset, and with that loses the
 * requests that are still unread. So answers are awaited, as are connections that are
 * being made, but not for long: a process that ends must end.
 */
#include "io/linger.h"

#include <sys/epoll.h>

#include "core/close.h"

/* Whether a server that has not confirmed a release, or another request, may do so until
 * then. */
static int is_awaited(const struct net *net, int64_t now_ms, int64_t until_ms)
{
    int64_t since_ms = now_ms - LINGER_MS;
    uint32_t nodes = close_unreleased(net->core, since_ms);
    if (close_unanswered(net->core, since_ms))
        return 1;
    for (int i = 0; i < net->core->n; i++) {
        const struct node *nd = &net->core->nodes[i];
        if (nodes >> i & 1 && (nd->state != NODE_DOWN || nd->retry_ms < until_ms))
            return 1;
    }
    return 0;
}

void linger_until(struct net *net, int64_t until_ms)
{
    struct epoll_event events[NET_EVENTS];
    int64_t now_ms = rl_now_ms();
    while (now_ms < until_ms && is_awaited(net, now_ms, until_ms)) {
        int count = epoll_wait(net->epfd, events, NET_EVENTS, (int)(until_ms - now_ms));
        now_ms = rl_now_ms();
        net_dispatch(net, events, count > 0 ? count : 0, now_ms);
        core_tick(net->core, now_ms);
        net_flush(net, now_ms);
    }
}
