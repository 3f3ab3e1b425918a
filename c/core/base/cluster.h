/* cluster.h - the identity of a cluster: its name, or a hash of its servers. Pure.
 *
 * All clients of a cluster must have the same servers. They compare one word: the option
 * `cluster`, or else a hash of the list of servers. While servers change
 * (client/change.lua), markers have a word that is nobody's: "change." and the hash of the
 * new list. The list is the same however the configuration spells and orders the servers
 * (io/address.h): canonical addresses, sorted, separated by a space.
 *
 *   10.0.0.1:6379 [fd00::1]:6380/2 redis-a.example:6379 unix:/run/redis.sock
 */
#ifndef CLUSTER_H
#define CLUSTER_H

#include "redlock.h"

#define CLUSTER_CHANGE "change."

enum {
    CLUSTER_HASH = 16        /* hex digits of a hash */
};

/* True: the text looks like a hash. */
int cluster_is_hash(const char *text);

/* Writes the hash of such a list, lower-case hex digits closed by 0, to hash
 * (CLUSTER_HASH + 1 bytes). */
void cluster_hash(const char *list, char *hash);

/* True: the word of servers that a change has closed. */
int cluster_is_change(const char *word);

/* The hash in the word of a cluster without a name, or of a change; NULL: it is a name. */
const char *cluster_hash_in(const char *word);

/* True: the hash in the word is of this list. */
int cluster_is_of(const char *word, const char *list);

#endif
