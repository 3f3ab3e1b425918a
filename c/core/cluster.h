/* cluster.h - which servers a client takes for one cluster: by name, or by their addresses.
 * Pure.
 *
 * All clients of a cluster must have the same servers. They compare one word: the option
 * `cluster`, or without it a hash of the list of servers. The list is written in one way,
 * however the configuration spells it and in whatever order (io/address.h): canonical
 * addresses, sorted, a space between two.
 *
 *   10.0.0.1:6379 [fd00::1]:6380/2 redis-a.example:6379 unix:/run/redis.sock
 */
#ifndef CLUSTER_H
#define CLUSTER_H

#include "redlock.h"

enum {
    CLUSTER_HASH = 16        /* hex digits of a hash */
};

/* True: the text is a name that an operator may give: 1 to 32 letters, digits and any of
 * "._-", but not 16 hex digits. */
int cluster_is_name(const char *text);

/* True: the text may be a hash. */
int cluster_is_hash(const char *text);

/* The hash of such a list, as lower-case hex digits closed by 0, into hash (CLUSTER_HASH + 1
 * bytes). */
void cluster_hash(const char *list, char *hash);

/* True: the word is the hash of that list. */
int cluster_is_of(const char *word, const char *list);

#endif
