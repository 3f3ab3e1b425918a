/* guard.h - inside the core: which nodes may vote on an acquire.
 *
 * A server that lost its memory must not vote while a lock that it forgot may still be
 * held. A marker in that very memory (marker.h) tells. Its state:
 *
 *   a  the server is admitted; the whole text is checked inside every acquire
 *   p  the server is in quarantine, and has kept its memory since
 *
 * A text that is of another life of the server, or none of ours, or gone: it was restarted,
 * or failed over, or flushed, and the quarantine begins. A client that finds so writes p
 * with a new INC. One that has then seen that INC for max_lease * 1.01 + 1 s on its own
 * clock may write a; what others had seen of it before counts as well, as they have added
 * to the text how long they saw it unchanged. A quarantined node still extends and
 * releases, and gets keys by healing: when the node forgets such keys, the text is gone as
 * well, and the quarantine begins anew.
 *
 * Clients must agree on the servers, on max_lease and on the database: one with a shorter
 * max_lease would end quarantines too early. So a node is admitted only by a client that
 * knows the markers of a majority, none of which disagrees. A client with a node whose
 * marker is of another cluster (cluster.h) asks for no new holds at all. A text of a version
 * that this library does not know is never replaced.
 */
#ifndef GUARD_H
#define GUARD_H

#include "core/state.h"

/* key: of the marker, NULL: no guard; must outlive the core. So must the script, which
 * replaces KEYS[1] by ARGV[2] if KEYS[1] is ARGV[1], and returns what is there then (as
 * lua/redlock/scripts/marker/set.lua does). Both times are as in rl_options. */
void guard_init(struct core *core, const char *key, const char *script,
                int64_t max_lease_ms, int64_t lease_ms);

/* Which cluster the client is of: its name; NULL: the list of its servers stands for it
 * (cluster.h), which must outlive the core. */
void guard_join(struct core *core, const char *name, const char *servers);

/* A node that is ready and says that it is the same server as node i; -1: none. */
int guard_twin(const struct core *core, int i);

/* Were both of these nodes the same server when each was let vote last? A node is let vote
 * while its twin is out of reach. */
int guard_same_voter(const struct core *core, int i, int k);

/* Node i is through its handshake. 1: usable; 0: the node's code and text say why not. */
int guard_up(struct core *core, int i, int64_t now_ms);

/* Node i answered INFO or a question about its marker. 1: usable still; 0 as guard_up(). */
int guard_told(struct core *core, int i, const struct request *request, int64_t now_ms);

/* Node i's marker is this, as far as the server said now; "": there is none. A "!" before
 * it: the server's life is not the one that INFO told. */
void guard_saw(struct core *core, int i, const char *text, size_t len, int64_t now_ms);

/* Node i executed a guarded acquire, so the node's marker is the one that was wanted. As
 * standing_objects(): what was asked before may have told of another life, or a step. */
int guard_passed(struct core *core, int i, int64_t now_ms);

/* Node i takes no writes any more: what it was admitted for may not be what comes back. */
void guard_demoted(struct core *core, int i, int64_t now_ms);

/* Does what is due for node i before something is sent to it: questions, and its
 * admission. */
void guard_visit(struct core *core, int i, int64_t now_ms);

/* The last argument of a call of node i: the marker that the call is to find, for an acquire
 * all of it, else "", whatever it is; NULL: no guard. Good until the next call of both. */
const char *guard_marker(struct core *core, int i, int acquire);

/* The same for a lease whose scripts must know which memory they count in: the marker,
 * without the guard the server's life. The first letters name the memory. */
const char *guard_run(struct core *core, int i, int acquire);

/* True: node i does not say which life of the server it is; its text says so. What is
 * counted there could be counted twice. Without the guard its life is looked at here, as
 * counters are of one. */
int guard_nameless(struct core *core, int i, int64_t now_ms);

/* Nodes are looked after once a second while a lease is held. */
void guard_arm_timer(struct core *core, int64_t now_ms);
void guard_on_timer(struct core *core, int64_t now_ms);

/* The client ends: leaves behind how long quarantines were observed. */
void guard_leave(struct core *core, int64_t now_ms);

/* As the first half of rl_admit(): sends what admits the nodes, or names their cluster. */
void guard_admit(struct core *core, int force, int64_t seen_ms, int64_t now_ms);

#endif
