/* lists.pml - the list of servers changes: A in {A, B, C} is replaced by D, which was started
 * empty. Two clients make an attempt each, the first with an extension, and get the new list in
 * any order. What the operator does is switched in by -D; spec/models/run has what must come out.
 *
 *   ALIVE      changes the lists; A stays up
 *   LATER      changes the lists; A is stopped at some time
 *   FIRST      stops A for good, starts D, changes the lists
 *
 * A client that gets another list is another process: what it held it does not believe in any
 * more. Servers, quarantine and time are as in redlock.pml, but for drift, which has no part in
 * this. Nobody releases, as keys end by themselves; and what arrives behind the count is left out:
 * it could but refuse others, and answers may be lost anyway.
 */
#define LEASE 2
#ifndef GUARD
#define GUARD LEASE           /* ticks, as time has no fractions */
#endif
#ifndef TIME
#define TIME 4                /* ticks in a run */
#endif

#define ABC 7
#define BCD 14

#define CLIENTS 2
#define BIT(i) (1 << (i))
#define SIZE(m) (((m) & 1) + ((m) >> 1 & 1) + ((m) >> 2 & 1) + ((m) >> 3 & 1))
#define MAJORITY(m, l) (SIZE(m) > SIZE(l) / 2)

byte now;
byte key[4], ttl[4];          /* who has it, + 1; for how many ticks more */
byte guarded[4];
bool down[4];

byte set[CLIENTS], extend[CLIENTS];              /* servers that may still execute it */
byte granted[CLIENTS], extended[CLIENTS];        /* those that said yes */

byte list[CLIENTS] = ABC;
byte until[CLIENTS];          /* what it believes: held while now < until */
bool fresh[CLIENTS];          /* has just got another list */

#define VALID(c) (now < until[c])
#define EXCLUSIVE assert(!(VALID(0) && VALID(1)))

inline execute(c, i)
{
    if
    :: atomic { set[c] & BIT(i) && !down[i] ->
        set[c] = set[c] & ~BIT(i);
        if
        :: guarded[i] == 0 && key[i] == 0 ->
            key[i] = c + 1; ttl[i] = LEASE; granted[c] = granted[c] | BIT(i)
        :: else
        fi }
    :: atomic { extend[c] & BIT(i) && !down[i] ->
        extend[c] = extend[c] & ~BIT(i);
        if
        :: key[i] == c + 1 -> ttl[i] = LEASE; extended[c] = extended[c] | BIT(i)
        :: else
        fi }
    fi
}

inline age(i)
{
    if
    :: ttl[i] > 1 -> ttl[i]--
    :: ttl[i] == 1 -> ttl[i] = 0; key[i] = 0
    :: else
    fi;
    if
    :: guarded[i] > 0 -> guarded[i]--
    :: else
    fi
}

active proctype World()
{
end:
    do
    :: atomic { now < TIME -> now++; age(0); age(1); age(2); age(3) }
    :: execute(0, 0) :: execute(0, 1) :: execute(0, 2) :: execute(0, 3)
    :: execute(1, 0) :: execute(1, 1) :: execute(1, 2) :: execute(1, 3)
    od
}

/* Counts at any time, as answers may be lost, and the process paused. */
inline count(c, votes, asked, others)
{
    atomic {
        if
        :: !fresh[c] && MAJORITY(votes, list[c]) && now < began + LEASE && others ->
            until[c] = began + LEASE; EXCLUSIVE
        :: true
        fi;
        votes = 0; asked = 0; began = 0
    }
}

proctype Client(byte c)
{
    byte began;
    atomic { fresh[c] = false; began = now; set[c] = list[c] }
    count(c, granted[c], set[c], true);
    if
    :: atomic { c == 0 && !fresh[c] && VALID(c) -> began = now; extend[c] = list[c] };
        count(c, extended[c], extend[c], VALID(c))
    :: true
    fi
}

inline give(c, l)
{
    atomic { list[c] = l; until[c] = 0; fresh[c] = true }
}

inline stop_a()
{
    atomic { down[0] = true; key[0] = 0; ttl[0] = 0 }
}

inline start_d(ticks)
{
    atomic { down[3] = false; guarded[3] = ticks }
}

inline give_all(l)
{
    if
    :: give(0, l); give(1, l)
    :: give(1, l); give(0, l)
    fi
}

init
{
    atomic {
        down[3] = true;
        run Client(0); run Client(1)
    };
#ifdef FIRST
    stop_a();
    start_d(GUARD);
    give_all(BCD)
#endif
#ifdef ALIVE
    start_d(GUARD);
    give_all(BCD)
#endif
#ifdef LATER
    start_d(GUARD);
    give_all(BCD);
    stop_a()
#endif
}
