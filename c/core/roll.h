/* roll.h - inside the core: is a server in our list of servers?
 *
 * A marker names the list that its server is in (view.h), and a record beside it says who
 * that is. A client goes by the servers that it was configured with until it meets a list:
 * the same servers, or a list that came out of theirs by changes, becomes its list. Any
 * other is somebody else's, and no server votes for both. Clients may call servers by
 * different names: as many servers, all of which say to be in that list, are that list. */
#ifndef ROLL_H
#define ROLL_H

#include "core/state.h"

enum roll {
    ROLL_UNKNOWN,            /* the record of that list is to be read */
    ROLL_OURS,
    ROLL_BEHIND,             /* a list of ours that another one has taken the place of */
    ROLL_OTHERS              /* core->others says what is wrong */
};

/* The list that the client is configured with; before anything is connected. */
void roll_begin(struct core *core);

/* What node i's marker, which is READ, says of its list. */
enum roll roll_of(struct core *core, int i);

/* True: so many have said which list they are in that we may begin one where servers have
 * forgotten theirs, and refuse one that is not ours. Before that the only server that we
 * have met may be one that forgot, or missed, a list that all others are in. */
int roll_settles(struct core *core);

/* Node i's record is this; NULL: there is none, or it may not be read. */
void roll_told(struct core *core, int i, const char *text, size_t len);

/* True: node i, which does not say that it is in our list, has no place there that we know
 * of: it is not for us to put it there. */
int roll_strange(const struct core *core, int i);

/* The same node: true when others have the names of that list, so that this one is none of
 * it; core->others says so. */
int roll_refuses(struct core *core, int i);

/* True: the list that node i is in is older than one that we know, whether or not its votes
 * for that count still. */
int roll_behind(const struct core *core, int i);

/* Changes what a server that is behind says to what it is to say instead: also one of a list
 * that is on its way, of which nobody else might ever be told. */
void roll_forward(const struct core *core, int i, struct marker *marker);

/* The list that node i is put into, and its number there. */
struct view_id roll_view(struct core *core, int i, int64_t *id);

#endif
