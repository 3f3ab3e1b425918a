/* guard.h - inside the core: which nodes may vote on an acquire.
 *
 * A server that lost its memory must not vote while a lock that it forgot may still be
 * held. A marker in that same memory (marker.h, which lists its states) shows the loss; every
 * acquire checks the whole text.
 *
 * A marker that is gone, not ours, or of another life of the server means a restart, a
 * failover or a flush: the quarantine begins. A client that finds this writes n or l with
 * a new INC. Clients that see it unchanged add to the text for how long: the smaller of
 * what their clock says and what the server's says, so no single clock ends a quarantine.
 * At max_lease * 1.01 + 1 s a client may write a, once it knows what the others know of
 * fencing tokens (teach.h). A quarantined node still extends and releases, and gets keys
 * by healing: if it forgets them, its marker is gone as well, and the quarantine begins
 * anew.
 *
 * Who knows these servers (core->knows) writes l, and turns another's n into l: redlock
 * init admits only n.
 *
 * Clients must agree on the servers, max_lease and the database: one with a shorter
 * max_lease would end quarantines too early. So a client admits a node only when it knows
 * the markers of a majority and none disagrees. A client that finds the marker of another
 * cluster (cluster.h) on any node asks for no new holds. Texts of unknown versions stay.
 */
#ifndef GUARD_H
#define GUARD_H

#include "core/base/state.h"

/* key: of the marker, NULL: no guard; script: lua/redlock/scripts/marker/set.lua. Both times
 * are as in rl_options. name: of the cluster; NULL: the list of its servers stands for it
 * (cluster.h). key, script and servers must outlive the core. */
void guard_init(struct core *core, const char *key, const char *script, int64_t max_lease_ms,
                int64_t lease_ms, const char *name, const char *servers);

/* Another node that is ready and the same server as node i, by run_id; -1: none. */
int guard_twin(const struct core *core, int i);

/* Call after node i's handshake, before guard_up(). 0: connect to it once more first. A
 * balancer before several servers sends that connection to another one, whose run_id differs:
 * then the address never has a vote. One that keeps a client at one server goes unnoticed. */
int guard_is_alone(struct core *core, int i, int64_t now_ms);

/* Call after node i's handshake. 1: usable; 0: the node's code and reason say why not. */
int guard_up(struct core *core, int i, int64_t now_ms);

/* Handles node i's answer to INFO or about its marker. 1: usable; 0: as guard_up(). */
int guard_answered(struct core *core, int i, const struct request *request, int64_t now_ms);

/* Takes node i's marker as its server just told it; "": none. A "!" before it: the
 * server's life is not the one that INFO told. */
void guard_saw(struct core *core, int i, const char *text, size_t len, int64_t now_ms);

/* Call when node i has executed a guarded acquire: it found the marker that we wanted.
 * Returns as eligibility_check(): other answers may have told of another life, or a clock
 * step. */
int guard_passed(struct core *core, int i, int64_t now_ms);

/* Call when node i refuses writes: it may be in another life when it takes them again. */
void guard_demoted(struct core *core, int i, int64_t now_ms);

/* Call before sending to node i: queues questions and marker changes that are due. */
void guard_visit(struct core *core, int i, int64_t now_ms);

/* The last argument of a call to node i. votes: with the guard the marker that an acquire must
 * find; where a script runs in any case, its reply shows another one
 * (lua/redlock/scripts/marker/show.lua). Else for scripts that must know which memory they count
 * in (knows_run): a text whose first letters name it, without the guard the server's life. Else ""
 * (any marker), or NULL without the guard. Valid until the next call. */
const char *guard_arg(struct core *core, int i, int knows_run, int votes);

/* True: the reply shows another marker, which is noted; *bare is the reply without it. */
int guard_shows(struct core *core, int i, const struct reply *reply, struct reply *bare,
                int64_t now_ms);

/* True: what such an answer of node i says counts. Call after guard_shows() was true. */
int guard_counts(const struct core *core, int i);

/* RL_OK; or a code, with its reason: node i does not tell its server's life, so tokens could be
 * counted twice. Without the guard, which asks for the life, this does: counters are of
 * one life. */
int guard_nameless(struct core *core, int i, int64_t now_ms);

/* True: this client has got a vote that counts. It stays connected while it is idle, so that
 * somebody sees a server that lost its memory. */
int guard_idles(const struct core *core);

/* Visits the nodes once a second while a lease is held, and now and then while the client
 * idles. */
void guard_arm_timer(struct core *core, int64_t now_ms);
void guard_on_timer(struct core *core, int64_t now_ms);

/* True: node i's quarantine has ended, and it may be admitted now. */
int guard_has_served(const struct core *core, int i);

/* Call when a yes of a node counts: names the connections, so that redlock init finds out
 * that somebody may hold something. */
void guard_counts_vote(struct core *core, int64_t now_ms);

/* Call when the client ends: notes in the markers how long it observed quarantines. */
void guard_leave(struct core *core, int64_t now_ms);

/* The nodes, a bit each, that rl_teach() admits. */
uint32_t guard_admissible(const struct core *core, int force, int64_t seen_ms);

/* What is written into the marker of a node that rl_teach() admits. */
struct marker guard_admission(struct core *core, int i);

#endif
