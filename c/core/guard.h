/* guard.h - inside the core: which nodes may vote on an acquire.
 *
 * A server that lost its memory must not vote while a lock that it forgot may be held
 * still. What tells is a marker in that very memory:
 *
 *   "run_id max_lease"          the server is admitted; checked inside every acquire
 *   "run_id max_lease nonce"    it is in quarantine, and has forgotten nothing since
 *   anything else, or none      it was restarted or flushed: quarantine begins
 *
 * Whoever finds the third writes the second, and whoever has then seen the same nonce for
 * max_lease * 1.01 + 1 s on its own clock may write the first. A quarantined node still
 * extends and releases, and gets keys by healing: what it forgets of those takes the nonce
 * along, and the quarantine begins anew.
 *
 * A marker that another client set with another max_lease ends it: a shorter one would end
 * quarantines too early. So a node is admitted only by a client that knows the markers of
 * a majority, none of which disagrees.
 *
 * A node whose clock was stepped is suspect for as long: it may have expired locks early.
 */
#ifndef GUARD_H
#define GUARD_H

#include "core/state.h"

/* key: of the marker, NULL: no guard; must outlive the core. So must the script, which
 * sets KEYS[1] to ARGV[2] if it is ARGV[1] ("" for none), and returns what it is then.
 * The two times are those of rl_options. */
void guard_init(struct core *core, const char *key, const char *script,
                int64_t max_lease_ms, int64_t lease_ms);

/* Node i is through its handshake. 1: it may be used; 0: its code and text say why not. */
int guard_up(struct core *core, int i, int64_t now_ms);

/* Node i answered a TIME or a question about its marker. -1; or its clock was stepped
 * forward, which made it so many ms, at least, for a majority; 0: for fewer. */
int64_t guard_told(struct core *core, int i, const struct request *request,
                   int64_t now_ms);

/* Node i's marker is this, as far as the server said now; "": there is none. */
void guard_saw(struct core *core, int i, const char *marker, int64_t now_ms);

/* Node i executed a guarded acquire: its marker is the one that was wanted. */
void guard_passed(struct core *core, int i, int64_t now_ms);

/* Does what is due for node i before something is sent to it: TIME, and its admission. */
void guard_visit(struct core *core, int i, int64_t now_ms);

/* What an acquire must find on node i; NULL: no guard. *marker is filled. */
const struct marker *guard_marker(struct core *core, int i, int acquire,
                                  struct marker *marker);

/* For the scripts of a lease with fencing tokens, which all must know whether the server
 * was restarted: the same for an acquire with the guard, else just its run_id. */
const struct marker *guard_run(struct core *core, int i, int acquire,
                               struct marker *marker);

/* Why a yes of node i would not count: RL_GUARDED or RL_CONFIG, with the node's text; or
 * RL_OK. suspect_only: of what it says of its marker nothing is known now. */
int guard_objects(struct core *core, int i, int suspect_only, int64_t now_ms);

/* Sees to it that nodes are looked after once a second while a lease is held. */
void guard_arm_timer(struct core *core, int64_t now_ms);
void guard_on_timer(struct core *core, int64_t now_ms);

/* As rl_guard_left_ms(), and the fields of a node's info that are the guard's. */
int64_t guard_left_ms(const struct core *core, int64_t now_ms);
void guard_tell(const struct core *core, int i, rl_node_info *out, int64_t now_ms);

/* As the first half of rl_admit(): sends what admits the nodes. */
void guard_admit(struct core *core, int force, int64_t seen_ms, int64_t now_ms);

#endif
