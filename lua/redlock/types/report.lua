---@meta _

-- Part of types.lua: reports on servers, counters and events.

-- ---- client:check() --------------------------------------------------------------

---How bad a finding is.
---@alias redlock.Verdict
---| "ok" # all was seen that a lock needs: a trial lock, its marker, tokens, clock, role, run_id
---| "warning" # it works, and something should be changed: see the remedy
---| "error" # a server has no vote; of the whole report: no majority has

---Whether the restart guard lets a server vote.
---@alias redlock.GuardState
---| "off" # the guard is off
---| "unknown" # its marker was not read yet, or cannot be: see `marker_code`
---| "admitted" # its marker is valid
---| "guarded" # in quarantine: it is new, may have forgotten locks, or its clock was stepped
---| "disagrees" # its marker is for another `max_lease`, database or version

---What was found: one of these, or the `redlock.NodeCode` for which a server is unavailable.
---@alias redlock.FindingKind
---| "disagrees" # its marker is for another `max_lease`, cluster, database or version
---| "twin" # the same server has voted under another address
---| "guarded" # no votes for a while: it is new, may have forgotten locks, or its clock was stepped
---| "marker" # its marker cannot be read or set
---| "clock_step" # no votes for a while: its clock was stepped
---| "unverified" # it does not say whether it has restarted
---| "no_clock" # steps of its clock go unnoticed
---| "tokens" # it knows no earlier fencing tokens, or counts beyond what any clock allows
---| "new" # all servers are new: if nobody has used them, `redlock init` lets them vote at once
---| "eviction" # `maxmemory-policy` can drop locks
---| "persistence" # it may forget locks, and the guard is off
---| "version" # it is older than the oldest supported version
---| "channels" # it is too old for ACL rules for channels, and its user is not the default one
---| "certificate" # a certificate of its connection ends within 30 days
---| "clock" # its clock and this machine's differ
---| "shared" # its version lets scripts of one user change those of all
---| "two" # two servers tolerate no failure
---| "even" # an even number of servers
---| "tls_verify" # certificates are not verified
---| "tls_mix" # some servers use TLS, others do not
---| "exposed" # every user of this machine may read a file with a secret, or change one in use
---| "trial" # this user could not take, keep or release a lock on it
---| "slow" # it answered a trial lock too late, twice
---| "rights" # this user lacks a right that fenced locks, or new servers, need
---| "lists" # clients with another list of servers are connected

---The report of `client:check`: a list of rows, in the order of the option `nodes`. `tostring` of
---it is a table for people.
---```lua
---local report = assert(client:check())
---assert(report.voting >= report.quorum, tostring(report))
---```
---@class (exact) redlock.Report
---@field [integer] redlock.Row  one server
---@field verdict redlock.Verdict  of the whole; "error": no locks, or this user lacks rights that
---  `redlock run` needs
---@field summary? string  why: "2 of 3 vote: restart no other server"; nil: "ok"
---@field voting integer  servers that vote
---@field quorum integer  servers that must vote for a lock
---@field findings redlock.Finding[]  about the whole
---@field source? string  of `redlock.from_environment`: the variables and the file it used

---One server's state, and what it reports of itself.
---@class (exact) redlock.Row
---@field node string  its address, without secrets
---@field reachable boolean  it answers, if only with an error
---@field ready boolean  it is connected, and the handshake is done
---@field code redlock.NodeCode  why it is not ready; "ok"
---@field message? string  the code as a sentence
---@field why? string  why it does not vote: a short name, as in `redlock.NodeAnswer`
---@field objection? string  why its marker or its clock keeps it from voting, with the remedy
---@field stale? boolean  it did not answer this time; the fields below are from before
---@field lost? redlock.NodeCode  why the last connection was lost or failed
---@field verdict redlock.Verdict  "error": it does not vote
---@field findings redlock.Finding[]  what is wrong with it
---@field remedy? string  what to do: the messages of the findings
---@field guard redlock.GuardState  whether it may vote
---@field guard_left? number  "guarded": seconds until it may vote
---@field memory? "n"|"l"|"s"  why it is "guarded": it has no memory of locks yet (n), it lost its
---  memory (l), its clock was stepped (s)
---@field observed number  "guarded": seconds of its quarantine that its clock and clients have seen
---@field quarantine number  seconds of a whole quarantine
---@field seeded integer  if clocks had to decide: from where its fencing tokens go on; else 0
---@field marker_code? redlock.NodeCode  why its marker cannot be read or set
---@field unverified boolean  this user may not read its INFO
---@field cluster? string  the cluster in its marker: a name, or a hash of addresses
---@field steps integer  how often its clock was stepped so far
---@field step number  seconds of the last step; positive: forward
---@field suspect_left number  seconds without votes after that step
---@field floors? "all"|"none"|"out of range"|"no answer"  whether it knows the earlier fencing
---  tokens; nil: this user may not look
---@field version? string  such as "7.0.15"
---@field role? "master"|"replica"|"unknown"  from its INFO
---@field run_id? string  40 characters, new at each start
---@field uptime? number  seconds, as it reports
---@field persistence? "aof"|"rdb"|"none seen"  as far as INFO shows
---@field maxmemory? integer  bytes; 0: no limit
---@field eviction? string  its `maxmemory-policy`
---@field certificate_ends? integer  with TLS: when the first certificate of its connection ends
---  (its own, its CA's, `cert_file`), in seconds since 1970
---@field round_trip? number  seconds
---@field clock_offset? number  seconds: its wall clock minus this machine's
---@field clock_error? number  seconds by which `clock_offset` may be wrong

---A problem that the check found.
---@class (exact) redlock.Finding
---@field kind redlock.FindingKind|redlock.NodeCode  what it is
---@field verdict redlock.Verdict  how bad it is
---@field message string  with the remedy

-- ---- client:stats() --------------------------------------------------------------

---The counters of `client:stats`, since the client was made. In an event loop, clients that differ
---only in `prefix`, `lease`, `label`, `on_event` and how they wait share connections: `owed`,
---`forgone`, `renewals` and `nodes` count for all of them.
---```lua
---local stats = client:stats()
---print(stats.acquired, stats.lost, stats.waiting)
---```
---@class (exact) redlock.Stats
---@field acquired integer  locks taken, not counting re-entry
---@field contended integer  calls whose first attempt failed
---@field failed integer  calls that failed
---@field released integer  locks released in time, or handed over
---@field handed_over integer  locks received from another owner of this process
---@field lost integer  holds that were lost
---@field overloaded integer  calls that failed because `max_waiting` callers waited already
---@field waiting integer  calls that wait now
---@field owed? integer  leases whose clean-up some servers have not confirmed yet
---@field forgone? integer  leases whose clean-up was given up, as there were too many at once
---@field renewals? integer  by the watchdog so far
---@field nodes redlock.NodeStats[]  empty before the first use

---Counters of one server.
---@class (exact) redlock.NodeStats
---@field node string  its address, without secrets
---@field ready boolean  it is connected, and the handshake is done
---@field code redlock.NodeCode  why it is not ready; "ok"
---@field requests integer  script calls sent
---@field replies integer  answers received
---@field errors integer  answers that were errors
---@field timeouts integer  votes missed because the answer was late
---@field connects integer  handshakes completed
---@field disconnects integer  connections lost after the handshake, and failed attempts
---@field in_flight integer  requests without an answer now
---@field owed integer  leases whose clean-up it has not confirmed

-- ---- on_event --------------------------------------------------------------------

---The argument of `on_event`, which is called during calls of the library or by the event loop,
---never from another thread. It must not wait: a call that would have to wait fails with `phase`.
---An error in it goes to the log.
---```lua
---local seen = {}
---local c = redlock.new { nodes = servers, on_event = function(e)
---    seen[e.type] = e
---end }
---assert(c:getLock("a"):tryLock(5))
---assert(seen.acquired.name == "a" and seen.acquired.time <= c.now())
---```
---@alias redlock.Event
---| redlock.ConfiguredEvent
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

---Fields of all events.
---@class (exact) redlock.AnyEvent
---@field type string  the event's type
---@field time number  seconds, by `client.now`

---Fields of events of a lock.
---@class (exact) redlock.LockEvent: redlock.AnyEvent
---@field name string  of the lock
---@field traceparent? string  from the lock's options

---Fields of events of a server.
---@class (exact) redlock.NodeEvent: redlock.AnyEvent
---@field node string  its address, without secrets

---A client of `redlock.from_environment` is used for the first time.
---@class (exact) redlock.ConfiguredEvent: redlock.AnyEvent
---@field type "configured"
---@field source string  the variables and the file it used: "REDLOCK_NODES, /etc/redlock.conf"

---A lock was taken.
---@class (exact) redlock.AcquiredEvent: redlock.LockEvent
---@field type "acquired"
---@field owner any  its holder
---@field waited number  seconds

---The first attempt to take a lock failed.
---@class (exact) redlock.ContendedEvent: redlock.LockEvent
---@field type "contended"
---@field owner any  the owner that wants it

---The watchdog has renewed leases.
---@class (exact) redlock.RenewedEvent: redlock.AnyEvent
---@field type "renewed"
---@field count integer  renewals since the last such event; in an event loop like `names`
---@field names string[]  of the locks, each once, newest first; from the last 4096 renewals

---A hold was released, or handed over to another owner of this process.
---@class (exact) redlock.ReleasedEvent: redlock.LockEvent
---@field type "released"
---@field held number  seconds
---@field code? "unknown"  no majority answered: what is left ends with its lease

---A hold was lost.
---@class (exact) redlock.LostEvent: redlock.LockEvent
---@field type "lost"
---@field held number  seconds
---@field reason redlock.LossReason  as for `lock:onLost`
---@field holder? redlock.Holder  with `taken`: the new holder, if a majority agrees

---A server is connected.
---@class (exact) redlock.NodeUpEvent: redlock.NodeEvent
---@field type "node_up"
---@field code redlock.NodeCode  "ok"

---The connection to a server is lost, or the first attempt to make it failed.
---@class (exact) redlock.NodeDownEvent: redlock.NodeEvent
---@field type "node_down"
---@field code redlock.NodeCode  why
---@field message string  the code as a sentence

---A server answers but gets no vote, because of how it or this client is set up: a replica, one
---server under two addresses, another `max_lease`, another cluster, a wrong password.
---@class (exact) redlock.NodeRefusedEvent: redlock.NodeEvent
---@field type "node_refused"
---@field code redlock.NodeCode  why
---@field message string  the code as a sentence

---A server has no vote for a while: it is new, may have forgotten locks, or its clock was stepped.
---@class (exact) redlock.NodeGuardedEvent: redlock.NodeEvent
---@field type "node_guarded"
---@field left? number  seconds; nil: the server is also down
---@field message string  why, and the remedy

---A server votes, or votes again.
---@class (exact) redlock.NodeAdmittedEvent: redlock.NodeEvent
---@field type "node_admitted"

---A server's clock was stepped, so it has no vote for a while.
---@class (exact) redlock.NodeSuspectEvent: redlock.NodeEvent
---@field type "node_suspect"
---@field step number  seconds; positive: forward
---@field left number  seconds without a vote
---@field message string  what it means, and the remedy

---Something should be changed. Each warning comes once.
---@class (exact) redlock.WarningEvent: redlock.AnyEvent
---@field type "warning"
---@field node? string  its address, without secrets; nil: about the whole
---@field kind redlock.FindingKind|redlock.NodeCode  what it is
---@field message string  with the remedy

---A server's fencing tokens go on from the servers' clocks, as a majority of the servers knows no
---earlier ones: the cluster is new, or a majority lost its memory. New tokens are larger, unless
---these clocks were set back.
---@class (exact) redlock.FenceSeededEvent: redlock.NodeEvent
---@field type "fence_seeded"
---@field floor integer  new tokens are larger

---With the option `margin`: fewer servers than a majority plus the margin have confirmed a lock.
---The lock is held all the same; its renewals win servers back as they return.
---@class (exact) redlock.ThinEvent: redlock.AnyEvent
---@field type "thin"
---@field name string  of the lock
---@field votes integer  servers that have confirmed it
---@field wanted integer  a majority plus the margin

---A password function failed; the previous password stays in use.
---@class (exact) redlock.PasswordFailedEvent: redlock.AnyEvent
---@field type "password_failed"
---@field message string  what it raised, or what is wrong with its result
