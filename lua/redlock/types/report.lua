---@meta _

-- Part of types.lua: what is told of servers and of what happens.

-- ---- client:check() --------------------------------------------------------------

---Whether something is wrong.
---@alias redlock.Verdict
---| "ok" # nothing is
---| "warning" # it works, and something ought to be changed: see the remedy
---| "error" # a server has no vote; of the whole: no majority has

---Whether a server may vote, by the restart guard.
---@alias redlock.GuardState
---| "off" # there is no guard
---| "unknown" # its marker was not read yet, or cannot be: see `marker_code`
---| "admitted" # its marker is valid
---| "unverified" # admitted, but this user may not read its INFO
---| "guarded" # it may have forgotten locks that are still held
---| "disagrees" # its marker is not for this client: of another `max_lease`, database or version

---What was found: one of these, or the `redlock.NodeCode` why a server is not to be had.
---@alias redlock.FindingKind
---| "replica" # it is no master
---| "disagrees" # its marker is not for this client: of another `max_lease`, database or version
---| "twin" # the same server has voted under another address
---| "guarded" # no votes for a while: it may have forgotten locks
---| "marker" # its marker cannot be read or set
---| "clock_step" # no votes for a while: its clock was stepped
---| "unverified" # it does not tell which life of it this is
---| "no_clock" # steps of its clock are not noticed
---| "tokens" # it counts fencing tokens from where no clock allows
---| "eviction" # `maxmemory-policy` can drop locks
---| "persistence" # it may forget locks, and the guard is off
---| "version" # it is older than the first one that is supported
---| "channels" # it is too old for ACL rules for channels, and its user is not the default one
---| "clock" # its clock and ours are apart
---| "two" # two servers tolerate no failure
---| "even" # an even number of servers
---| "tls_verify" # certificates are not verified
---| "tls_mix" # there is TLS to some servers, and none to others
---| "exposed" # everybody on this machine may read a file with a secret, or write one
---| "trial" # a lock could not be taken, kept or released there as this user
---| "lists" # clients with another list of servers are connected

---What `client:check` returns: a list of rows, in the order of the option `nodes`. `tostring` of it
---is a table for people.
---```lua
---local report = assert(client:check())
---assert(report.voting >= report.quorum, tostring(report))
---```
---@class (exact) redlock.Report
---@field [integer] redlock.Row  a server
---@field verdict redlock.Verdict  of the whole
---@field voting integer  how many servers vote
---@field quorum integer  how many must, for a lock
---@field findings redlock.Finding[]  about the whole

---One server, as it is, and what it tells of itself.
---@class (exact) redlock.Row
---@field node string  its address, without secrets
---@field reachable boolean  it answers, if not as one would like
---@field ready boolean  it is connected, and through the handshake
---@field code redlock.NodeCode  why it is not ready; "ok"
---@field message? string  the same as a sentence
---@field stale? boolean  it did not answer now; what follows is what it said before
---@field lost? redlock.NodeCode  why it was lost, or could not be connected, last
---@field twin boolean  the same server has voted under another address, without saying that it is
---@field verdict redlock.Verdict  "error": it does not vote
---@field findings redlock.Finding[]  what is wrong with it
---@field remedy? string  their messages: what is to be done
---@field guard redlock.GuardState  whether it may vote
---@field guard_left? number  "guarded": seconds until it may
---@field marker_code? redlock.NodeCode  why its marker cannot be read or set
---@field unverified boolean  its INFO may not be read
---@field cluster? string  that its marker names: a name, or a hash of addresses
---@field why? string  "disagrees": what is wrong, and the remedy
---@field steps integer  how often its clock was stepped so far
---@field step number  seconds of the last one; positive: forward
---@field suspect_left number  seconds without votes after that
---@field floors? integer  how many of the 1024 floors of fencing tokens it knows; nil: its user may
---  not look
---@field version? string  such as "7.0.15"
---@field role? "master"|"replica"|"unknown"  by its INFO
---@field run_id? string  40 characters, new at each start
---@field uptime? number  seconds, by its own word
---@field persistence? "aof"|"rdb"|"none seen"  as far as INFO tells
---@field maxmemory? integer  bytes; 0: no bound
---@field eviction? string  its `maxmemory-policy`
---@field round_trip? number  seconds
---@field clock_offset? number  seconds: its wall clock minus ours
---@field clock_error? number  seconds by which that may be wrong

---Something that is wrong.
---@class (exact) redlock.Finding
---@field kind redlock.FindingKind|redlock.NodeCode  in a word
---@field verdict redlock.Verdict  how bad it is
---@field message string  with the remedy

-- ---- client:stats() --------------------------------------------------------------

---What `client:stats` returns; counters since the client was made.
---```lua
---local stats = client:stats()
---print(stats.acquired, stats.lost, stats.waiting)
---```
---@class (exact) redlock.Stats
---@field acquired integer  locks taken, without entering again
---@field contended integer  calls that did not get it at the first attempt
---@field failed integer  calls that did not get it at all
---@field released integer  locks released in time, or passed on
---@field handed_over integer  locks got from another owner of this process
---@field lost integer  holds that were lost
---@field overloaded integer  calls that failed because `max_waiting` waited already
---@field waiting integer  how many wait now
---@field owed? integer  leases whose clean-up not all servers have confirmed yet
---@field forgone? integer  leases whose clean-up was given up, as there were too many at once
---@field renewals? integer  by the watchdog so far, of all clients that share the connections
---@field nodes redlock.NodeStats[]  empty before the first use

---Counters of one server, of all clients that share its connection.
---@class (exact) redlock.NodeStats
---@field node string  its address, without secrets
---@field ready boolean  it is connected, and through the handshake
---@field code redlock.NodeCode  why it is not; "ok"
---@field requests integer  calls of scripts sent
---@field replies integer  answers
---@field errors integer  answers that were errors
---@field timeouts integer  votes missing because the answer was late
---@field connects integer  handshakes completed
---@field disconnects integer  connections lost after that, and failed attempts
---@field in_flight integer  requests without an answer now
---@field owed integer  leases whose clean-up it has not confirmed

-- ---- on_event --------------------------------------------------------------------

---What `on_event` is told: during calls of the library, or by the event loop, never from another
---thread. What it calls must not wait, and answers `phase` where it would have to. An error in
---the function goes to the log.
---```lua
---local seen = {}
---local c = redlock.new { nodes = servers, on_event = function(e)
---    seen[e.type] = e
---end }
---assert(c:getLock("a"):tryLock(5))
---assert(seen.acquired.name == "a" and seen.acquired.time <= c.now())
---```
---@alias redlock.Event
---| redlock.AcquiredEvent
---| redlock.ContendedEvent
---| redlock.RenewedEvent
---| redlock.ReleasedEvent
---| redlock.LostEvent
---| redlock.NodeUpEvent
---| redlock.NodeDownEvent
---| redlock.NodeRefusedEvent
---| redlock.NodeGuardedEvent
---| redlock.NodeAdmittedEvent
---| redlock.NodeSuspectEvent
---| redlock.WarningEvent
---| redlock.FenceSeededEvent
---| redlock.ThinEvent
---| redlock.PasswordFailedEvent

---What all events have.
---@class (exact) redlock.AnyEvent
---@field type string  which one it is
---@field time number  seconds, as of `client.now`

---A lock was taken.
---@class (exact) redlock.AcquiredEvent: redlock.AnyEvent
---@field type "acquired"
---@field name string  of the lock
---@field owner any  who has it
---@field waited number  seconds
---@field traceparent? string  as the lock was given it

---A lock was not had at the first attempt.
---@class (exact) redlock.ContendedEvent: redlock.AnyEvent
---@field type "contended"
---@field name string  of the lock
---@field owner any  who wants it
---@field traceparent? string  as the lock was given it

---The watchdog has renewed leases.
---@class (exact) redlock.RenewedEvent: redlock.AnyEvent
---@field type "renewed"
---@field count integer  renewals since the last such event
---@field names string[]  of the locks, each once, the last one first; of the last 4096 renewals

---A hold was let go, or passed on to another owner of this process.
---@class (exact) redlock.ReleasedEvent: redlock.AnyEvent
---@field type "released"
---@field name string  of the lock
---@field held number  seconds
---@field code? "unknown"  no majority has answered: what is left ends with its lease
---@field traceparent? string  as the lock was given it

---A hold was lost.
---@class (exact) redlock.LostEvent: redlock.AnyEvent
---@field type "lost"
---@field name string  of the lock
---@field held number  seconds
---@field reason redlock.LossReason  as for `lock:onLost`
---@field holder? redlock.Holder  of `taken`: who has it now, if a majority says who
---@field traceparent? string  as the lock was given it

---A server is connected.
---@class (exact) redlock.NodeUpEvent: redlock.AnyEvent
---@field type "node_up"
---@field node string  its address, without secrets
---@field code redlock.NodeCode  "ok"

---The connection to a server is lost, or its first one cannot be made.
---@class (exact) redlock.NodeDownEvent: redlock.AnyEvent
---@field type "node_down"
---@field node string  its address, without secrets
---@field code redlock.NodeCode  why
---@field message string  the same as a sentence

---A server is there, and gets no vote for how it or this client is set up: a replica, one server
---under two addresses, another `max_lease`, another cluster, a wrong password.
---@class (exact) redlock.NodeRefusedEvent: redlock.AnyEvent
---@field type "node_refused"
---@field node string  its address, without secrets
---@field code redlock.NodeCode  why
---@field message string  the same as a sentence

---A server has no vote for a while, as it may have forgotten locks.
---@class (exact) redlock.NodeGuardedEvent: redlock.AnyEvent
---@field type "node_guarded"
---@field node string  its address, without secrets
---@field left? number  seconds; nil: it is down, too

---A server votes, or votes again.
---@class (exact) redlock.NodeAdmittedEvent: redlock.AnyEvent
---@field type "node_admitted"
---@field node string  its address, without secrets

---A server's clock was stepped: it has no vote for a while.
---@class (exact) redlock.NodeSuspectEvent: redlock.AnyEvent
---@field type "node_suspect"
---@field node string  its address, without secrets
---@field step number  seconds; positive: forward
---@field left number  seconds

---Something ought to be changed; once each.
---@class (exact) redlock.WarningEvent: redlock.AnyEvent
---@field type "warning"
---@field node? string  its address, without secrets; nil: about the whole
---@field kind redlock.FindingKind|redlock.NodeCode  in a word
---@field message string  with the remedy

---Fencing tokens of some names go on from the clock, as too few servers that know which were given
---out can be asked: a new cluster, or all have lost their memory.
---@class (exact) redlock.FenceSeededEvent: redlock.AnyEvent
---@field type "fence_seeded"
---@field name string  of the lock for which it was noticed
---@field floor integer  tokens are above it from now on

---With the option `margin`: fewer servers than a majority and the margin have confirmed a lock. It
---is held as any other, and servers are won back with its renewals as they come up again.
---@class (exact) redlock.ThinEvent: redlock.AnyEvent
---@field type "thin"
---@field name string  of the lock
---@field votes integer  servers that have confirmed it
---@field wanted integer  a majority and the margin

---A password function failed; the password before stays.
---@class (exact) redlock.PasswordFailedEvent: redlock.AnyEvent
---@field type "password_failed"
---@field message string  what it raised, or what is wrong with what it returned
