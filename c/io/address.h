/* address.h - the servers of a configuration, written in one way (core/base/cluster.h). Pure. */
#ifndef ADDRESS_H
#define ADDRESS_H

#include "redlock.h"

/* The list of n servers (1 to RL_MAX_NODES) in canonical form; the caller frees it. IP
 * addresses are written as inet_ntop() does, IPv4-mapped ones as IPv4; host names in lower
 * case without a dot at the end, and not resolved; port 6379 and database 0 where there is
 * none. TLS makes no difference. What is not printable is escaped (%XX). NULL: out of
 * memory. */
char *address_list(const rl_node_options *nodes, int n);

#endif
