/* quarantine.pml - what an extension may count. A client X keeps a lock on a bare majority; a client
 * Y asks for it when the run begins, and may stand still in its round; servers forget. Any message is executed at
 * any later time: extensions, heals, and Y's requests.
 *
 * A server that forgot gives Y no vote while it is in quarantine. It extends X's key, and gets it
 * back by a heal. Does its yes keep X's lock?
 *   (ships)       no: it shows its marker in the step that extends
 *   COUNTS_ALL    yes
 *   CACHED        as X knew it from the answer before
 * N = 2: whoever holds has all servers, so nobody else has a vote from before: COUNTS_ALL holds.
 */
#ifndef N
#define N 3
#endif
#ifndef TIME
#define TIME 6                /* ticks in a run */
#endif
#ifndef LOSSES
#define LOSSES 1              /* how many memories are lost */
#endif
#define QUORUM (N / 2 + 1)
#define SHORT 2               /* X's lease */
#ifndef LONG
#define LONG 5                /* Y's lease; max_lease */
#endif
#define X 1
#define Y 2

byte key[N], ttl[N], guarded[N];
bool asked[N], counts[N];     /* an extension is under way; of the present round */
bool absent[N], known[N];     /* had no key in this round; was admitted, as X knows */
byte heal[N];                 /* the ticks that a heal on its way gives */
bool wanted[N];               /* Y's request is on its way */

byte now, losses = LOSSES, x_began, x_until, x_yes, y_until, y_yes;
bool x_asks, y_asks = true;

#define EXCLUSIVE assert(!(now < x_until && now < y_until))

inline execute_extend(i)
{
    asked[i] = false;
    if
    :: key[i] == X ->
        if
        :: ttl[i] < SHORT -> ttl[i] = SHORT
        :: else
        fi;
        if
#ifdef COUNTS_ALL
        :: counts[i] -> x_yes++
#elif defined(CACHED)
        :: counts[i] && known[i] -> x_yes++
#else
        :: counts[i] && guarded[i] == 0 -> x_yes++
#endif
        :: else
        fi
    :: key[i] == 0 -> absent[i] = counts[i]
    :: else
    fi;
    counts[i] = false;
#ifdef CACHED
    known[i] = (guarded[i] == 0)
#endif
}

inline execute_set(i)
{
    wanted[i] = false;
    if
    :: guarded[i] == 0 && key[i] == 0 -> key[i] = Y; ttl[i] = LONG; y_yes++
    :: else
    fi
}

inline execute_heal(i)
{
    if
    :: key[i] == 0 -> key[i] = X; ttl[i] = heal[i]
    :: else
    fi;
    heal[i] = 0
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

inline forget(i) { losses--; key[i] = 0; ttl[i] = 0; guarded[i] = LONG + 1 }

inline send_extend(i)
{
    absent[i] = false;
    counts[i] = !asked[i];    /* one that is late is of an earlier round */
    asked[i] = true
}

inline send_heal(i)
{
    if
    :: absent[i] && heal[i] == 0 -> heal[i] = x_began + SHORT - now
    :: else
    fi;
    absent[i] = false; counts[i] = false
}

#if N == 2
#define EACH(what) what(0); what(1)
#else
#define EACH(what) what(0); what(1); what(2)
#endif

active proctype World()
{
    byte i;
    atomic {                  /* X holds all but the first server, or with two both */
        for (i : 0 .. N - 1) {
            known[i] = true; wanted[i] = true;
            if
            :: i > 0 || N == 2 -> key[i] = X; ttl[i] = SHORT
            :: else
            fi
        }
        i = 0; x_until = SHORT
    }
end:
    do
    :: atomic { now < TIME -> now++; EACH(age) }
    :: atomic { !x_asks && now < x_until -> x_asks = true; x_began = now; x_yes = 0;
        EACH(send_extend) }
    :: atomic { x_asks && x_yes >= QUORUM && now < x_until ->
        x_asks = false; x_yes = 0; x_until = x_began + SHORT; EXCLUSIVE; EACH(send_heal) }
    :: atomic { x_asks && now > x_began -> x_asks = false; x_yes = 0;
        for (i : 0 .. N - 1) { counts[i] = false; absent[i] = false } i = 0 }
    :: atomic { y_asks && y_yes >= QUORUM && now < LONG ->
        y_asks = false; y_until = LONG; EXCLUSIVE }
    :: atomic { asked[0] -> execute_extend(0) }
    :: atomic { asked[1] -> execute_extend(1) }
    :: atomic { wanted[0] -> execute_set(0) }
    :: atomic { wanted[1] -> execute_set(1) }
    :: atomic { heal[0] > 0 -> execute_heal(0) }
    :: atomic { heal[1] > 0 -> execute_heal(1) }
    :: atomic { losses > 0 -> forget(0) }
#ifndef FIRST                 /* only the server that X did not have forgets */
    :: atomic { losses > 0 -> forget(1) }
#endif
#if N > 2
    :: atomic { asked[2] -> execute_extend(2) }
    :: atomic { wanted[2] -> execute_set(2) }
    :: atomic { heal[2] > 0 -> execute_heal(2) }
#endif
#if N > 2 && !defined(FIRST)
    :: atomic { losses > 0 -> forget(2) }
#endif
    od
}
