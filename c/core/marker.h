/* marker.h - the text on a server that says who may count its votes. Pure.
 *
 *   INC v3 STATE REPLID DB MAX CLUSTER [OBSERVED]
 *   3f9c0a1b2c3d4e5f v3 a 9d0b1c2d3e4f5061 0 60000 orders
 *
 * Scripts compare it whole, inside the step whose yes is counted (lua/redlock/scripts/
 * marker); it says which memory, which life of the server, which database, which
 * max_lease and which cluster (cluster.h) a yes comes from. The words as far as REPLID,
 * where that is known, have fixed places, which scripts count on; texts of all versions
 * begin with the first two.
 */
#ifndef MARKER_H
#define MARKER_H

#include "core/cluster.h"

enum {
    MARKER_VERSION = 3,
    MARKER_MAX = 136,        /* a text of MARKER_TEXT bytes at most, with room */
    MARKER_TEXT = 128,
    MARKER_HEX = 16          /* letters of INC and REPLID */
};

enum marker_state {
    MARKER_QUARANTINED = 'p',
    MARKER_ADMITTED = 'a'
};

struct marker {
    char inc[MARKER_HEX + 1];     /* drawn anew with each quarantine: which memory */
    char state;                   /* enum marker_state */
    char replid[MARKER_HEX + 1];  /* the beginning of master_replid; "": not known */
    int64_t db;
    int64_t max_lease_ms;
    char cluster[RL_CLUSTER_MAX]; /* a name or a hash */
    int64_t observed_ms;          /* QUARANTINED: of which so much was observed */
};

enum marker_kind {
    MARKER_NONE,             /* there is no text */
    MARKER_FOREIGN,          /* not ours: to be replaced */
    MARKER_UNKNOWN,          /* ours, of another version: never to be replaced */
    MARKER_READ
};

/* What a text is. READ: *out is all that it says. UNKNOWN: *version is its number. Only a
 * text that marker_write() could have written is READ. */
enum marker_kind marker_parse(const char *text, size_t len, struct marker *out,
                              int *version);

/* Writes the text, closed by 0, which must have room for MARKER_MAX. */
void marker_write(const struct marker *marker, char *text);

/* So many hexadecimal digits (of 16 at most) of a number, closed by 0. */
void marker_hex(uint64_t n, int digits, char *to);

/* The beginning of a server's master_replid as a marker has it: "" when that is none. */
void marker_replid(const char *replid, char *to);

#endif
