/* guard.h - inside the core: which nodes may vote on an acquire.
 *
 * A server that lost its memory must not vote while a lock that it forgot may still be
 * held. A marker in that very memory tells:
 *
 *   "run_id max_lease"          the server is admitted; checked inside every acquire
 *   "run_id max_lease nonce"    the server is in quarantine, and has kept its memory
 *   anything else, or none      the server was restarted or flushed: quarantine begins
 *
 * A client that finds the third writes the second, and a client that has then seen one
 * nonce for max_lease * 1.01 + 1 s on its own clock may write the first. A quarantined
 * node still extends and releases, and gets keys by healing: when the node forgets such
 * keys, the nonce is gone as well, and the quarantine begins anew.
 *
 * Clients must agree on max_lease: one with a shorter max_lease would end quarantines
 * too early. So a node is admitted only by a client that knows the markers of a
 * majority, none of which disagrees.
 *
 * A node whose clock was stepped is suspect for as long: that node may have expired
 * locks early.
 */
#ifndef GUARD_H
#define GUARD_H

#include "core/state.h"

/* key: of the marker, NULL: no guard; must outlive the core. So must the script, which
 * sets KEYS[1] to ARGV[2] if KEYS[1] is ARGV[1] ("" for none), and returns the value
 * that is there then. Both times are as in rl_options. */
void guard_init(struct core *core, const char *key, const char *script,
                int64_t max_lease_ms, int64_t lease_ms);

/* A node that is ready and says that it is the same server as node i; -1: none. */
int guard_twin(const struct core *core, int i);

/* Were both of these nodes the same server when each was let vote last? A node is let vote
 * while its twin is out of reach. */
int guard_same_voter(const struct core *core, int i, int k);

/* Node i is through its handshake. 1: usable; 0: the node's code and text say why not. */
int guard_up(struct core *core, int i, int64_t now_ms);

/* Node i answered a TIME or a question about its marker. -1; or, when the answer shows
 * that the node's clock was stepped forward, by how many ms a majority of the clocks has
 * been so, at least; 0: no majority. */
int64_t guard_told(struct core *core, int i, const struct request *request,
                   int64_t now_ms);

/* Node i's marker is this, as far as the server said now; "": there is none. */
void guard_saw(struct core *core, int i, const char *marker, int64_t now_ms);

/* Node i executed a guarded acquire, so the node's marker is the one that was wanted. */
void guard_passed(struct core *core, int i, int64_t now_ms);

/* Does what is due for node i before something is sent to it: TIME, and its admission. */
void guard_visit(struct core *core, int i, int64_t now_ms);

/* What an acquire must find on node i; NULL: no guard. *behind is filled. */
const struct condition *guard_marker(struct core *core, int i, int acquire,
                                  struct condition *behind);

/* What goes with a call of a lease with fencing tokens, whose scripts all must know
 * whether the server was restarted: guard_marker() for an acquire with the guard, else
 * the run_id. */
const struct condition *guard_run(struct core *core, int i, int acquire,
                               struct condition *behind);

/* Why a yes of node i would not count: RL_GUARDED or RL_CONFIG, with the node's text; or
 * RL_OK. suspect_only: disregards the marker, which is not known now. */
int guard_objects(struct core *core, int i, int suspect_only, int64_t now_ms);

/* Nodes are looked after once a second while a lease is held. */
void guard_arm_timer(struct core *core, int64_t now_ms);
void guard_on_timer(struct core *core, int64_t now_ms);

/* As rl_guard_left_ms(), and the fields of a node's info that are the guard's. */
int64_t guard_left_ms(const struct core *core, int64_t now_ms);
void guard_tell(const struct core *core, int i, rl_node_info *out, int64_t now_ms);

/* As the first half of rl_admit(): sends what admits the nodes. */
void guard_admit(struct core *core, int force, int64_t seen_ms, int64_t now_ms);

#endif
