/* handover.pml - a hold that is exported: A has a lock, and perhaps an extension of it under way; it
 * exports it at some moment. B imports it at any later moment; C does so, too, or asks for the name
 * itself. A server may forget. Any message is executed at any later time, or never.
 * spec/models/run has the variants (handover-...). README.md says where it differs from the code.
 *
 *   export    on each server: replaces A's value by one that nothing else writes, and is sent once
 *   import    replaces that value by the importer's own, and makes no key's time shorter; a majority
 *             takes the hold over. Who gets less, or too late, releases
 *   heal      of A, from before the export: gives A's value to a server that has no key
 *
 * There is never more than one holder, and at most one import succeeds. Rules that do not hold:
 *   OWN_VALUE      what is exported is A's own value, which a late heal may bring back
 *   TAKES_FREE     an import also takes a key that is not there
 *   TAKES_ANY      ... or that is somebody else's
 *   KEEPS          the exporter believes what the extension that is under way promises
 *   ONE_VALUE      both importers write one value, and count what they find as their own
 *   FROM_THE_END   validity counts from the last answer
 */
#define N 3
#define QUORUM 2
#define LEASE 2
#ifndef TIME
#define TIME 2                /* ticks in a run */
#endif
#ifndef LOSSES
#define LOSSES 1              /* how many memories are lost */
#endif
#define BIT(i) (1 << (i))

#define A 0                   /* their values: the number and 1 */
#define B 1
#define C 2
#ifdef OWN_VALUE
#define EXPORTED (A + 1)
#else
#define EXPORTED 4
#endif
#ifdef ONE_VALUE
#define VALUE(c) ((c) == C -> B + 1 : (c) + 1)
#else
#define VALUE(c) ((c) + 1)
#endif

mtype = { IDLE, ASKS, HOLDS, OVER };

byte key[N], ttl[N], guarded[N];
mtype state[3];
byte began[3], until[3], yes[3];
byte sent[3];                 /* what is under way, a bit for each server: A's are extensions */
byte exports, releases, heals;                   /* the same: A's, B's, A's */
bool exported, imported;
bool anew;                    /* C does not import: it asks */
byte now, losses = LOSSES;

#define IMPORTS(c) ((c) == B || ((c) == C && !anew))
#define ALONE(c) assert((c == A || now >= until[A]) && (c == B || now >= until[B]) && \
    (c == C || now >= until[C]))

/* ---- servers ---- */

inline take(value, i)
{
    key[i] = value;
    ttl[i] = (ttl[i] > LEASE -> ttl[i] : LEASE)
}

#ifdef TAKES_ANY
#define MAY_IMPORT(i) (guarded[i] == 0)
#elif defined(TAKES_FREE)
#define MAY_IMPORT(i) (guarded[i] == 0 && (key[i] == EXPORTED || key[i] == 0))
#else
#define MAY_IMPORT(i) (guarded[i] == 0 && key[i] == EXPORTED)
#endif

inline vote(c)
{
    if
    :: state[c] == ASKS -> yes[c]++
    :: else                   /* nobody waits for it any more */
    fi
}

inline execute(c, i)
{
    sent[c] = sent[c] & ~BIT(i);
    if
    :: c == A && key[i] == VALUE(A) -> take(VALUE(A), i); vote(A)
    :: IMPORTS(c) && key[i] == VALUE(c) -> vote(c)
    :: IMPORTS(c) && key[i] != VALUE(c) && MAY_IMPORT(i) -> take(VALUE(c), i); vote(c)
    :: c == C && anew && key[i] == 0 && guarded[i] == 0 -> take(VALUE(C), i); vote(C)
    :: else
    fi
}

inline execute_export(i)
{
    exports = exports & ~BIT(i);
    if
    :: key[i] == VALUE(A) -> key[i] = EXPORTED
    :: else
    fi
}

inline execute_release(i)
{
    releases = releases & ~BIT(i);
    if
    :: key[i] == VALUE(B) -> key[i] = 0; ttl[i] = 0
    :: else
    fi
}

inline execute_heal(i)
{
    heals = heals & ~BIT(i);
    if
    :: key[i] == 0 -> take(VALUE(A), i)
    :: else
    fi
}

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

inline forget(i) { losses--; key[i] = 0; ttl[i] = 0; guarded[i] = LEASE + 1 }

/* ---- clients ---- */

#ifdef FROM_THE_END
#define PROMISED(c) (now + LEASE)
#else
#define PROMISED(c) (began[c] + LEASE)
#endif
#define WON(c) (state[c] == ASKS && yes[c] >= QUORUM && now < PROMISED(c))

inline ask(c)
{
    state[c] = ASKS; began[c] = now; yes[c] = 0; sent[c] = 7
}

inline win(c)
{
    until[c] = PROMISED(c); state[c] = HOLDS; yes[c] = 0; began[c] = 0; ALONE(c)
}

inline give_up()              /* or let it go */
{
    state[B] = OVER; yes[B] = 0; until[B] = 0; began[B] = 0; releases = 7
}

#define SERVER(i) \
    :: atomic { sent[A] & BIT(i) -> execute(A, i) } \
    :: atomic { sent[B] & BIT(i) -> execute(B, i) } \
    :: atomic { sent[C] & BIT(i) -> execute(C, i) } \
    :: atomic { exports & BIT(i) -> execute_export(i) } \
    :: atomic { releases & BIT(i) -> execute_release(i) } \
    :: atomic { heals & BIT(i) -> execute_heal(i) } \
    :: atomic { losses > 0 -> forget(i) }

#define IMPORTER(c) \
    :: atomic { exported && state[c] == IDLE -> ask(c) } \
    :: atomic { IMPORTS(c) && WON(c) -> assert(!imported); imported = true; win(c) }

active proctype World()
{
    atomic {
        key[0] = VALUE(A); ttl[0] = LEASE; key[1] = VALUE(A); ttl[1] = LEASE;
        if                    /* the last server is healed, perhaps twice, or free */
        :: key[2] = VALUE(A); ttl[2] = LEASE; heals = BIT(2)
        :: true
        fi;
        if
        :: ask(A)
        :: state[A] = HOLDS
        fi;
        until[A] = LEASE; state[B] = IDLE; state[C] = IDLE
    }
end:
    do
    :: atomic { now < TIME -> now++; age(0); age(1); age(2) }
    SERVER(0)
    SERVER(1)
    SERVER(2)
    :: atomic { !exported && now < until[A] -> exported = true; exports = 7; until[A] = 0;
#ifndef KEEPS
        state[A] = OVER; yes[A] = 0; began[A] = 0
#endif
        }
    :: atomic { WON(A) -> win(A) }
    IMPORTER(B)
    :: atomic { state[B] == ASKS || state[B] == HOLDS -> give_up() }
    IMPORTER(C)
    :: atomic { state[C] == IDLE -> anew = true; ask(C) }
    :: atomic { anew && WON(C) -> win(C) }
    od
}
