#include "core/base/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int cluster_is_hash(const char *text)
{
    return strlen(text) == CLUSTER_HASH && strspn(text, "0123456789abcdef") == CLUSTER_HASH;
}

/* FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv). */
void cluster_hash(const char *list, char *hash)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *list; list++)
        h = (h ^ (unsigned char)*list) * UINT64_C(1099511628211);
    snprintf(hash, CLUSTER_HASH + 1, "%016" PRIx64, h);
}

int cluster_is_change(const char *word)
{
    return !strncmp(word, CLUSTER_CHANGE, sizeof(CLUSTER_CHANGE) - 1);
}

const char *cluster_hash_in(const char *word)
{
    const char *hash = cluster_is_change(word) ? word + sizeof(CLUSTER_CHANGE) - 1 : word;
    return cluster_is_hash(hash) ? hash : NULL;
}

int cluster_is_of(const char *word, const char *list)
{
    char hash[CLUSTER_HASH + 1];
    const char *in = cluster_hash_in(word);
    cluster_hash(list, hash);
    return in && !strcmp(in, hash);
}
