/* address.h - a canonical text for a client's servers (core/base/cluster.h). Pure. */
#ifndef ADDRESS_H
#define ADDRESS_H

#include "redlock.h"

/* The sorted list of n servers (1 to RL_MAX_NODES), which the caller frees. Has IP
 * addresses as inet_ntop() writes them, IPv4-mapped ones as IPv4; host names unresolved,
 * in lower case without a final dot; 6379 for a missing port; no database 0 and no TLS;
 * %XX for bytes that are not printable. NULL: out of memory. */
char *address_list(const rl_node_options *nodes, int n);

#endif
