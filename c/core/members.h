/* members.h - the lists of servers that a client goes by, as it learns them. */
#ifndef MEMBERS_H
#define MEMBERS_H

#include "core/state.h"
#include "core/view.h"

/* Counts for this list as well from now on, and for no other when it is stable: servers
 * without a place get one, and those that are in no list any more lose theirs at the next
 * members_leaving(). The list's number; 0: it is older than one that is known, or there is
 * no room for its servers. */
unsigned members_adopt(struct core *core, const struct view *view);

/* The number of a list that is counted for; 0: it is none of them. */
unsigned members_number(const struct core *core, const struct view_id *id);

/* The place of a server in this client; -1: none. */
int members_place(const struct core *core, const struct member *member);

/* The labels of the nodes that have an address, as a list without numbers, which refers
 * to them. */
void members_configured(const struct core *core, struct member_list *list);

/* True: node i, which says that it has left, is in a newer list, by the name that the list
 * has for it. */
int members_again(const struct core *core, int i);

/* Takes the nodes that have left, a bit each; they have no address any more. */
uint32_t members_leaving(struct core *core);

#endif
