/* linger.c - why a client that closes waits.
 *
 * A server may not have read all that we wrote. If it answers our first request when our
 * socket is closed it gets a reset, and loses the requests that it has not read. So we
 * wait for answers, and for connections under way, but not for long: a process that ends
 * must end.
 */
#include "io/linger.h"

#include <sys/epoll.h>

#include "core/close.h"

int linger_awaits(const struct net *net, int64_t now_ms, int64_t until_ms)
{
    int64_t since_ms = now_ms - RL_LINGER_MS;
    const struct node *nd = net->core->nodes;
    uint32_t up = NODES_WHERE(net->core, i, nd[i].state != NODE_DOWN || nd[i].retry_ms < until_ms);
    return (close_unanswered(net->core, since_ms) |
            (close_unreleased(net->core, since_ms) & up)) != 0;
}

void linger_until(struct net *net, int64_t until_ms)
{
    struct epoll_event events[NET_EVENTS];
    int64_t now_ms = rl_now_ms();
    while (now_ms < until_ms && linger_awaits(net, now_ms, until_ms)) {
        int count = epoll_wait(net->epfd, events, NET_EVENTS, (int)(until_ms - now_ms));
        now_ms = net_hear(net, events, count);
        core_tick(net->core, now_ms);
        net_flush(net, now_ms);
    }
}
