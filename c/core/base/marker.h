/* marker.h - the text on a server that decides which clients count its votes. Pure.
 *
 *   INC v4 STATE REPLID DB MAX CLUSTER [OBSERVED AT]
 *   3f9c0a1b2c3d4e5f v4 a 9d0b1c2d3e4f5061 0 60000 orders
 *   3f9c0a1b2c3d4e5f v4 l 9d0b1c2d3e4f5061 0 60000 orders 31005 1795691426965
 *
 * Scripts compare the whole text in the same step as the vote (lua/redlock/scripts/
 * marker). So a yes comes from a known memory, life of the server, database, max_lease
 * and cluster (cluster.h). Scripts rely on the positions of the words up to REPLID, if
 * that is known; texts of all versions begin with INC and the version. marker/set.lua
 * appends OBSERVED and AT, the server's time when the text was written.
 */
#ifndef MARKER_H
#define MARKER_H

#include "core/base/cluster.h"

enum {
    MARKER_MAX = 144,        /* size of a buffer for a text */
    MARKER_TEXT = 136,       /* bytes of a text, at most */
    MARKER_HEX = 16          /* digits of INC and REPLID */
};

enum marker_state {
    MARKER_NEW = 'n',        /* in quarantine; who wrote it had not seen these servers */
    MARKER_LOST = 'l',       /* in quarantine; the server has lost its memory */
    MARKER_STEPPED = 's',    /* in quarantine; its clock was stepped (suspect.h), the memory is kept */
    MARKER_ADMITTED = 'a'
};

struct marker {
    char inc[MARKER_HEX + 1];     /* names the memory: random, new with each loss */
    char state;                   /* enum marker_state */
    char replid[MARKER_HEX + 1];  /* the beginning of master_replid; "": not known */
    int64_t db;
    int64_t max_lease_ms;
    char cluster[RL_CLUSTER_MAX]; /* a name or a hash */
    int64_t observed_ms;          /* in quarantine: for how long clients, and the server's
                                     clock, say that they have seen it keep its memory */
    int64_t at_ms;                /* the server's time when the text was written */
};

enum marker_kind {
    MARKER_UNSEEN,           /* nobody has asked yet */
    MARKER_NONE,             /* there is no text */
    MARKER_FOREIGN,          /* not ours: replace it */
    MARKER_UNKNOWN,          /* ours, of another version: never replace it */
    MARKER_READ
};

/* What kind of text it is. READ: *out has all its fields. UNKNOWN: *version is its
 * number. Only a text that marker/set.lua could have written is READ. */
enum marker_kind marker_parse(const char *text, size_t len, struct marker *out,
                              int *version);

/* Writes the text up to CLUSTER, closed by 0, to a buffer of MARKER_MAX bytes. */
void marker_write(const struct marker *marker, char *text);

/* Writes the last `digits` (at most 16) hexadecimal digits of a number, closed by 0. */
void marker_hex(uint64_t n, int digits, char *to);

/* The beginning of a server's master_replid, as in a marker; "" if it is not hex. */
void marker_replid(const char *replid, char *to);

#endif
