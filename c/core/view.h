/* view.h - which list of servers a yes is counted for: a name of it, and the record on the
 * servers (redlock:{server}:members) that says what the list is. Pure.
 *
 *   v2 CLUSTER EPOCH
 *   online                      quarantines end by the strict rule
 *   old ID=LABEL ...            between two lists only: the one before
 *   new ID=LABEL ...            the list
 *   was EPOCH LABEL ...         up to four lists before that
 *   by TOKEN                    who wrote it; the hash does not see this line
 *
 * An even epoch is in force, an odd one is on the way from one list to the next.
 */
#ifndef VIEW_H
#define VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "redlock.h"

enum {
    VIEW_HEX = 8,            /* letters of a view's cluster and hash */
    VIEW_MAX = 4097,         /* bytes of a record, with a closing 0 */
    VIEW_WAS = 4
};

struct view_id {
    char cluster[VIEW_HEX + 1];
    int64_t epoch;           /* 0: no list is known */
    char hash[VIEW_HEX + 1];
};

struct member {
    int64_t id;              /* never that of another member, also later; 0 in `was` */
    const char *label;       /* in the text that was read; not closed by 0 */
    size_t len;
};

struct member_list {
    int64_t epoch;           /* in `was` */
    int n;
    struct member at[RL_MAX_NODES];
};

struct view {
    struct view_id id;
    struct member_list list, old;        /* old.n is 0 when the epoch is even */
    struct member_list was[VIEW_WAS];
    int was_len;
    int online;
    int64_t by;
};

/* Reads a record, which must stay while *out is used: 0; or -1: it is none that
 * view_write() could have written. */
int view_parse(const char *text, size_t len, struct view *out);

/* Writes the record, closed by 0, which must have room for VIEW_MAX. Its length, or -1:
 * it is too long. */
int view_write(const struct view *view, char *text);

/* Puts the hash of what view_write() writes into view->id. 0, or -1: it is too long. */
int view_sign(struct view *view);

int view_same(const struct view_id *a, const struct view_id *b);

/* The member of that label, or of that number; NULL: none. */
const struct member *view_by_label(const struct member_list *list, const char *label);
const struct member *view_by_id(const struct member_list *list, int64_t id);

/* True when the labels are those of one of the lists before. */
int view_was_list(const struct view *view, const struct member_list *labels);

#endif
