/* redlock.pml - the protocol as it ships: three servers, a client A that makes one attempt
 * with an extension and a release, and one more; a client B that makes one attempt.
 * spec/models/run has the variants, each switched in by -D, and what must come out.
 *
 * What is in it, and where it is from:
 *   core.c     one ordered connection for each client and server. It may break: what was
 *              written is lost, or executed at any later time. Then an undecided acquire is
 *              asked again, and knows its own value; a release that is owed is sent again.
 *   round.c    votes count as they come, the round ends as soon as it is certain, and what
 *              comes later changes nothing. An answer may be lost, or never be waited for.
 *   lease.c    validity counts from before the first send and ends before the keys do.
 *   release.c  what is not won, or not wanted any more, is released on all servers, on the same
 *              connection; twice when a write was torn.
 *   watchdog.c an extension counts owners; who lost the key gets it again only after a
 *              majority has confirmed the lease in time.
 *   lock/*.lua SET NX PX, or "mine already"; compare and PEXPIRE, never shorter; compare and
 *              delete.
 * Time is discrete: a tick may come between any two steps, so a client may be paused and a
 * message late at any point. A server's clock may gain a tick in a lease; DRIFT is for that.
 */
#define N 3
#define LEASE 3
#ifndef TIME
#define TIME 3                /* ticks in a run */
#endif

#ifdef NO_DRIFT
#define DRIFT 0
#else
#define DRIFT 1
#endif

#ifdef HALF_QUORUM
#define QUORUM (N / 2)
#else
#define QUORUM (N / 2 + 1)
#endif

#ifndef BREAKS
#define BREAKS 0              /* how many connections break */
#endif

#ifndef GAINS
#define GAINS 1               /* how many leases run on a fast clock */
#endif

#ifndef LOSSES
#define LOSSES 0              /* how many answers are lost */
#endif

#ifndef FAULTS
#define FAULTS 1              /* of one of the other kinds */
#endif

#define A 0
#define B 1
#define LINK(c, i) ((c) * N + (i))
#define BIT(i) (1 << (i))

mtype = { NONE, SET, EXTEND, HEAL, DEL };

/* Servers: whose value (0: none), for how many ticks more, in quarantine for how many. */
byte key[N], ttl[N], guarded[N];
byte torn[N];                 /* what a broken connection still carries to it: a SET ... */
byte torn_for[N];             /* ... or a heal, for so many ticks */
byte swallowed;               /* servers at which that was executed: it ends with its lease */
byte again[N];                /* what A will release there once more, a time-out later */

chan ask[6] = [4] of { mtype, byte, byte };      /* what, value, ticks */

/* Clients. kind: of the round whose votes are being counted. */
byte now;
byte value[2], began[2], until[2];               /* held while now < until */
byte released[2];                                /* the value that is owed a release */
mtype kind[2];
bool held[2];
byte yes[2], no[2], silent[2];
byte voted[2], resent[2], owed[2], absent[2];    /* a bit for each server */

byte breaks = BREAKS, faults = FAULTS, losses = LOSSES, gains = GAINS;
bool forced;                                     /* A's lock was opened by force */
byte taken_late;              /* servers that a late acquire of A took after that */

/* Never two holders at once, unless by force: checked whenever somebody's validity grows. */
#define VALID(c) (held[c] && now < until[c])
#define EXCLUSIVE assert(forced || !(VALID(A) && VALID(B)))

/* ---- servers ---- */

inline live_for(i, ticks)
{
    if
    :: ttl[i] = ticks
    :: ticks == LEASE && gains > 0 -> gains--; ttl[i] = ticks - 1   /* its clock is fast */
    fi
}

inline execute_set(i, v, ticks, vote)
{
    if
    :: guarded[i] > 0 -> vote = 4                /* no vote */
    :: guarded[i] == 0 && key[i] == 0 -> key[i] = v; live_for(i, ticks); vote = 1;
        taken_late = taken_late + (forced && v == 1)
    :: guarded[i] == 0 && key[i] == v -> vote = 2
    :: else -> vote = 3
    fi
}

/* Also into a quarantine; nobody counts the answer. */
inline execute_heal(i, v, ticks)
{
    if
#ifdef OVERWRITES
    :: true -> key[i] = v; live_for(i, ticks)
#else
    :: key[i] == 0 -> key[i] = v; live_for(i, ticks)
    :: else
#endif
    fi
}

inline execute(i, what, v, ticks, vote)
{
    if
    :: what == SET -> execute_set(i, v, ticks, vote)
    :: what == HEAL -> execute_heal(i, v, ticks)
    :: what == EXTEND && key[i] == v ->
        if
        :: ttl[i] < ticks -> live_for(i, ticks)
        :: else
        fi;
        vote = 1
    :: what == EXTEND && key[i] == 0 ->
#ifdef BLIND_HEAL
        key[i] = v; live_for(i, ticks); vote = 1
#else
        vote = 0
#endif
    :: what == EXTEND && key[i] != 0 && key[i] != v -> vote = 3
#ifdef DELETES_ANY
    :: what == DEL -> key[i] = 0; ttl[i] = 0
#else
    :: what == DEL && key[i] == v -> key[i] = 0; ttl[i] = 0
    :: what == DEL && key[i] != v
#endif
    fi
}

/* The answer arrives; or it is lost, which counts as silence. */
inline hear(c, i, what, v, vote)
{
    if
    :: what == DEL && v == released[c] -> owed[c] = owed[c] & ~BIT(i)
    :: what != DEL && what == kind[c] && v == value[c] && !(voted[c] & BIT(i)) ->
        voted[c] = voted[c] | BIT(i);
        if
        :: vote == 1 || (vote == 2 && (resent[c] & BIT(i))) -> yes[c]++
        :: vote == 0 || vote == 3 -> no[c]++
        :: vote == 4 || (vote == 2 && !(resent[c] & BIT(i))) -> silent[c]++
        :: losses > 0 && vote < 4 -> losses--; silent[c]++
        fi;
        if
        :: vote == 0 -> absent[c] = absent[c] | BIT(i)
        :: else
        fi
    :: else
    fi
}

inline serve(c, i)
{
    ask[LINK(c, i)] ? what, v, ticks ->
        execute(i, what, v, ticks, vote);
        hear(c, i, what, v, vote);
        what = NONE; v = 0; ticks = 0; vote = 0
}

/* ---- time, and what goes wrong ---- */

inline age(i)
{
    if
    :: ttl[i] > 0 ->
        ttl[i]--;
        if
        :: ttl[i] == 0 -> key[i] = 0
        :: else
        fi
    :: else
    fi;
    if
    :: guarded[i] > 0 -> guarded[i]--
    :: else
    fi
}

inline cut(c, i)
{
    do
    :: ask[LINK(c, i)] ? what, v, ticks ->
        if
        :: what == SET && torn[i] == 0 -> torn[i] = v; torn_for[i] = 0
        :: what == HEAL && torn[i] == 0 -> torn[i] = v; torn_for[i] = ticks
        :: true
        fi
    :: empty(ask[LINK(c, i)]) -> break
    od;
    if
    :: kind[c] == SET && !(voted[c] & BIT(i)) ->
        resent[c] = resent[c] | BIT(i);
        ask[LINK(c, i)] ! SET, value[c], LEASE
    :: kind[c] != SET && (owed[c] & BIT(i)) ->
        ask[LINK(c, i)] ! DEL, released[c], 0;
        again[i] = released[c]    /* and once more: the torn write may come between */
    :: else
    fi;
    what = NONE; v = 0; ticks = 0
}

inline execute_torn(i, vote)
{
    if
    :: torn_for[i] == 0 -> execute_set(i, torn[i], LEASE, vote)
    :: torn_for[i] > 0 -> execute_heal(i, torn[i], torn_for[i])
    fi;
    torn[i] = 0; torn_for[i] = 0; vote = 0; swallowed = swallowed | BIT(i)
}

inline wipe(i)
{
    key[i] = 0; ttl[i] = 0;
#ifdef GUARD
    guarded[i] = LEASE + 1
#endif
}

active proctype World()
{
    mtype what = NONE; byte v, ticks, vote;
end:
    do
    :: atomic { now < TIME -> now++; age(0); age(1); age(2) }
    :: atomic { serve(A, 0) }
    :: atomic { serve(A, 1) }
    :: atomic { serve(A, 2) }
    :: atomic { serve(B, 0) }
    :: atomic { serve(B, 1) }
    :: atomic { serve(B, 2) }
#if BREAKS > 0
    :: atomic { breaks > 0 -> breaks--; cut(A, 0) }
    :: atomic { breaks > 0 -> breaks--; cut(A, 1) }
    :: atomic { again[0] != 0 && nfull(ask[LINK(A, 0)]) ->
        ask[LINK(A, 0)] ! DEL, again[0], 0; again[0] = 0 }
    :: atomic { again[1] != 0 && nfull(ask[LINK(A, 1)]) ->
        ask[LINK(A, 1)] ! DEL, again[1], 0; again[1] = 0 }
    :: atomic { torn[0] != 0 -> execute_torn(0, vote) }
    :: atomic { torn[1] != 0 -> execute_torn(1, vote) }
#endif
#ifdef WIPE                   /* one crashes, and starts without its memory */
    :: atomic { faults > 0 -> faults--; wipe(0) }
    :: atomic { faults > 0 -> faults--; wipe(1) }
    :: atomic { faults > 0 -> faults--; wipe(2) }
#endif
#ifdef STEP                   /* its clock is stepped by a lease */
    :: atomic { faults > 0 -> faults--; key[1] = 0; ttl[1] = 0 }
#endif
#ifdef FORCE                  /* an operator opens A's lock on all servers */
    :: atomic { faults > 0 && VALID(A) && kind[A] == NONE -> faults--; forced = true;
        key[0] = 0; ttl[0] = 0; key[1] = 0; ttl[1] = 0; key[2] = 0; ttl[2] = 0 }
#endif
    od
}

/* ---- a client ---- */

#define WON(c) (yes[c] >= QUORUM)
#define CERTAIN(c) (WON(c) || N - no[c] - silent[c] < QUORUM)

inline begin_round(c, what)
{
    yes[c] = 0; no[c] = 0; silent[c] = 0; voted[c] = 0; resent[c] = 0; absent[c] = 0;
    kind[c] = what; began[c] = now;
    ask[LINK(c, 0)] ! what, value[c], LEASE;
    ask[LINK(c, 1)] ! what, value[c], LEASE;
    ask[LINK(c, 2)] ! what, value[c], LEASE
}

inline end_round(c)
{
    kind[c] = NONE; yes[c] = 0; no[c] = 0; silent[c] = 0; voted[c] = 0; resent[c] = 0;
    absent[c] = 0
}

/* Until the outcome is certain, or the time-out of those who have not answered. */
#define DECIDED(c) (CERTAIN(c) || now > began[c])

inline acquire(c, v)
{
    atomic { value[c] = v; begin_round(c, SET) }
    atomic {
        DECIDED(c) ->
        if
#ifdef FROM_THE_END
        :: WON(c) -> held[c] = true; until[c] = now + LEASE - DRIFT; EXCLUSIVE
#else
        :: WON(c) && now < began[c] + LEASE - DRIFT ->
            held[c] = true; until[c] = began[c] + LEASE - DRIFT; EXCLUSIVE
#endif
        :: else
        fi;
        end_round(c)
    }
}

inline heal(c, i)
{
    if
    :: absent[c] & BIT(i) -> ask[LINK(c, i)] ! HEAL, value[c], began[c] + LEASE - now
    :: else
    fi
}

inline extend(c)
{
    atomic { VALID(c) -> late = forced; begin_round(c, EXTEND) }
    atomic {
        DECIDED(c) ->
        if
        :: WON(c) && now < until[c] ->
            until[c] = (began[c] + LEASE - DRIFT > until[c] -> began[c] + LEASE - DRIFT
                                                             : until[c]);
            /* If it began after the lock had been opened, late acquires had taken it again. */
            assert(!late || taken_late >= QUORUM);
            EXCLUSIVE;
            heal(c, 0); heal(c, 1); heal(c, 2)
        :: no[c] >= QUORUM -> held[c] = false    /* disowned */
        :: else                                  /* the old validity stands */
        fi;
        end_round(c)
    }
}

inline release(c)
{
    atomic {
        held[c] = false; owed[c] = 7; released[c] = value[c];
        ask[LINK(c, 1)] ! DEL, value[c], 0;
        ask[LINK(c, 2)] ! DEL, value[c], 0;
#ifdef OVERTAKES              /* on another connection, which is faster */
        if
        :: key[0] == value[c] -> key[0] = 0; ttl[0] = 0
        :: else
        fi;
        owed[c] = owed[c] & 6
#else
        ask[LINK(c, 0)] ! DEL, value[c], 0
#endif
    }
}

#define IDLE(c) (owed[c] == 0 && empty(ask[LINK(c, 0)]) && empty(ask[LINK(c, 1)]) && \
                 empty(ask[LINK(c, 2)]))
#define GONE(i) (key[i] != value[A] || torn[i] || again[i] || swallowed & BIT(i))

active proctype Alice()
{
    bool late;
    acquire(A, 1);
#ifdef EXTENDS
    if
    :: held[A] -> extend(A)
    :: held[A]
    :: !held[A]
    fi;
#endif
    release(A);
    /* Nothing is left behind when nothing is owed, but for what the network swallowed. */
    if
    :: atomic { IDLE(A) -> assert(GONE(0) && GONE(1) && GONE(2)) }
#ifdef TWICE
    :: true
#endif
    fi;
#ifdef SAME_VALUE
    acquire(A, 1)
#endif
#if defined(TWICE) && !defined(SAME_VALUE)
    acquire(A, 2)
#endif
}

active proctype Bob()
{
    acquire(B, 3)
}
