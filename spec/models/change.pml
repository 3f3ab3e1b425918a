/* change.pml - the servers of a cluster change beside programs that use it (redlock change).
 *
 * Each server's marker names a generation and its list, here by number: LIST1 is the first one's,
 * LIST2 and LIST3 are what commands change it to. A client counts only admitted servers whose
 * marker names its own list. A command (1) closes the servers of the list that it changes, also
 * those that have forgotten: their markers name the next generation, and they vote for nobody;
 * (2) looks again: all that it reaches are closed, and the others are no majority; (3) begins a
 * quarantine on each server of the new list. It may be killed anywhere, and be run again: it
 * remembers nothing but (2).
 *
 * Time is order: a hold ends at any time; its keys end after it; a quarantine ends when all rounds
 * and holds of before it have ended. Messages come late, or never; clients stand still. */
#ifndef LIST1
#define LIST1 7
#endif
#ifndef LIST2
#define LIST2 14
#endif
#ifndef LIST3
#define LIST3 0
#endif
#ifndef BASE3                   /* the generation that the second command changes */
#define BASE3 2
#endif
#ifndef NS
#define NS 4
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef GONE
#define GONE 0                  /* servers of LIST1 that the command does not reach */
#endif
#ifndef EARLY                   /* generations that clients write before a command does */
#define EARLY 0
#endif
#ifndef OWN0                    /* the generations with the list of client 0, 1, a bit each */
#define OWN0 2
#endif
#ifndef OWN1
#define OWN1 4
#endif

#define BIT(i) (1 << (i))
#define SIZE(m) (((m) & 1) + ((m) >> 1 & 1) + ((m) >> 2 & 1) + ((m) >> 3 & 1) + ((m) >> 4 & 1))
#define LIST(g) ((g) == 1 -> LIST1 : ((g) == 2 -> LIST2 : LIST3))
#define MAJORITY(m, l) (SIZE((m) & (l)) > SIZE(l) / 2)
#define LEAVES_NONE(m, l) (SIZE((m) & (l)) > SIZE(l) - SIZE(l) / 2 - 1)   /* no majority */
#define OWN(c) ((c) == 0 -> OWN0 : OWN1)
#define LISTOF(c) (OWN(c) & 2 -> LIST1 : (OWN(c) & 4 -> LIST2 : LIST3))

/* ---- servers ---- */
#define NONE 0
#define QUARANTINE 1
#define ADMITTED 2
#define CLOSED 3
byte gen[NS];                   /* 0: no marker */
byte state[NS];
byte key[NS];                   /* who has it, + 1 */
byte tied[NS];                  /* the key ends: 0 at any time, 1 after the hold, 2 after the round */
byte holds[NS], rounds[NS];     /* what a quarantine waits for, clients a bit each */

/* ---- clients ---- */
#define IDLE 0
#define ACQUIRES 1
#define HOLDS 2
#define EXTENDS 3
byte doing[2];
byte yes[2], asked[2];          /* in this round, servers a bit each */

#define HELD(c) (doing[c] >= HOLDS)
#define BUSY(c) (doing[c] == ACQUIRES || doing[c] == EXTENDS)

byte losses = LOSSES;
byte done = 2;                  /* generations that a command has closed the base of, a bit each */
byte i, c, g, k;                /* chosen, or counters */

inline all_where(expr, out) {
    out = 0; k = 0;
    do
    :: k < NS -> if :: expr -> out = out | BIT(k) :: else fi; k++
    :: else -> break
    od
}

inline quarantine(s, to) {
    gen[s] = to; state[s] = QUARANTINE;
    holds[s] = (HELD(0) -> 1 : 0) | (HELD(1) -> 2 : 0);
    rounds[s] = (BUSY(0) -> 1 : 0) | (BUSY(1) -> 2 : 0)
}

/* No quarantine waits for this client's round, or hold, any more. */
inline round_over(who) {
    k = 0;
    do :: k < NS -> rounds[k] = rounds[k] & ~BIT(who); k++ :: else -> break od
}

inline hold_over(who) {
    k = 0;
    do :: k < NS -> holds[k] = holds[k] & ~BIT(who); k++ :: else -> break od
}

/* A round counts: what waited for it waits for the hold; an extended one is as new as its round. */
inline counts(who) {
    k = 0;
    do
    :: k < NS ->
        holds[k] = (holds[k] & ~BIT(who)) | (rounds[k] & BIT(who));
        rounds[k] = rounds[k] & ~BIT(who);
        if :: key[k] == who + 1 -> tied[k] = (tied[k] == 2 -> 1 : 0) :: else fi;
        k++
    :: else -> break
    od;
    doing[who] = HOLDS; yes[who] = 0; asked[who] = 0
}

inline untie(who, from, to) {
    k = 0;
    do
    :: k < NS ->
        if :: key[k] == who + 1 && tied[k] >= from -> tied[k] = to :: else fi;
        k++
    :: else -> break
    od
}

#ifdef ANY_LIST
#define VOTES(c, s) (state[s] == ADMITTED)
#else
#define VOTES(c, s) (state[s] == ADMITTED && (OWN(c) & BIT(gen[s])))
#endif
#ifdef ANY_EXTENDS
#define CONFIRMS(c, s) true
#else
#define CONFIRMS(c, s) VOTES(c, s)
#endif

inline client() {
    if
    :: doing[c] == IDLE -> doing[c] = ACQUIRES; round_over(c)
    :: doing[c] == ACQUIRES && (LISTOF(c) & BIT(i)) && !(asked[c] & BIT(i)) ->
        asked[c] = asked[c] | BIT(i);
        if
        :: VOTES(c, i) && (key[i] == 0 || key[i] == c + 1) ->
            key[i] = c + 1; tied[i] = 2; yes[c] = yes[c] | BIT(i)
        :: else
        fi
    :: doing[c] == ACQUIRES && MAJORITY(yes[c], LISTOF(c)) -> counts(c); assert(!HELD(1 - c))
    :: doing[c] == ACQUIRES ->              /* gives up */
        doing[c] = IDLE; yes[c] = 0; asked[c] = 0; untie(c, 1, 0); round_over(c)
    :: doing[c] == HOLDS -> doing[c] = EXTENDS; round_over(c)
    :: HELD(c) ->                           /* the hold ends; a heal of it may come late */
        doing[c] = IDLE; yes[c] = 0; asked[c] = 0; untie(c, 1, 0);
        round_over(c); hold_over(c)
    :: HELD(c) && key[i] == 0 && gen[i] -> key[i] = c + 1; tied[i] = 1
    :: doing[c] == EXTENDS && (LISTOF(c) & BIT(i)) && !(asked[c] & BIT(i)) ->
        asked[c] = asked[c] | BIT(i);
        if
        :: key[i] == c + 1 ->
            tied[i] = 2;
            if :: CONFIRMS(c, i) -> yes[c] = yes[c] | BIT(i) :: else fi
        :: else
        fi
    :: doing[c] == EXTENDS && MAJORITY(yes[c], LISTOF(c)) -> counts(c)
    :: doing[c] == EXTENDS ->
        doing[c] = HOLDS; yes[c] = 0; asked[c] = 0; untie(c, 2, 1); round_over(c)
    fi
}

/* ---- servers that lost their memory ---- */

byte here, blank;

/* A client with list g gives it to a server that has nothing, if it hears a majority that has g or
 * nothing; not all nothing, which would be a new cluster (ANEW). */
inline server() {
    if
    :: key[i] && tied[i] == 0 -> key[i] = 0
    :: gen[i] && losses > 0 ->
        losses--; gen[i] = 0; state[i] = NONE; key[i] = 0; tied[i] = 0; holds[i] = 0; rounds[i] = 0
    :: gen[i] == 0 && (LIST(g) & BIT(i)) && ((done | EARLY) & BIT(g)) ->
        all_where(gen[k] == g && state[k] != CLOSED && k != i, here);
        all_where(gen[k] == 0 && k != i, blank);
        if
        :: MAJORITY((here | blank | BIT(i)) & LIST(g), LIST(g)) && (here & LIST(g)) -> quarantine(i, g)
#ifdef ANEW
        :: MAJORITY((blank | BIT(i)) & LIST(g), LIST(g)) -> quarantine(i, g)
#endif
        :: else
        fi
    :: state[i] == QUARANTINE && !holds[i] && !rounds[i] ->
        all_where(gen[k] == gen[i] && state[k] != CLOSED, here);
        if :: MAJORITY(here, LIST(gen[i])) -> state[i] = ADMITTED :: else fi
    /* a server that the command did not reach, seen by a client with the new list */
    :: gen[i] && (LIST(g) & BIT(i)) && g > gen[i] ->
        all_where(gen[k] == g && state[k] != CLOSED, here);
        if :: MAJORITY(here, LIST(g)) -> quarantine(i, g) :: else fi
    fi
}

/* ---- commands: to generation g, from generation b ---- */

byte b, closed, alive;
#define FROM(g) ((g) == 2 -> 1 : BASE3)
#ifndef REACHED
#define REACHED(g) (LIST(FROM(g)) & ~(FROM(g) == 1 -> GONE : 0))
#endif

inline command() {
    b = FROM(g);
    if
    :: (REACHED(g) & BIT(i)) && (gen[i] == b || gen[i] == 0) && (done & BIT(b)) ->   /* (1) */
        gen[i] = g; state[i] = CLOSED; holds[i] = 0; rounds[i] = 0
#ifdef NO_CLOSING
    :: (LIST(g) & BIT(i)) && gen[i] != g && (done & BIT(b)) -> done = done | BIT(g); quarantine(i, g)
#endif
    :: !(done & BIT(g)) ->                                               /* (2) */
        all_where(gen[k] == g, closed);
        all_where((gen[k] == b && state[k] != CLOSED) || gen[k] == 0, alive);
        if
#ifdef CLOSES_FEW
        :: closed & LIST(b)
#else
#ifdef CLOSES_MAJORITY
        :: LEAVES_NONE(closed, LIST(b))
#else
        :: LEAVES_NONE(closed, LIST(b)) && !(alive & REACHED(g))
#endif
#endif
            -> done = done | BIT(g)
        :: else
        fi
    :: (done & BIT(g)) && (LIST(g) & BIT(i)) &&                          /* (3) */
        (gen[i] < g || (gen[i] == g && state[i] == CLOSED)) ->
        all_where(gen[k] == g && state[k] == ADMITTED, here);
        if
        :: here && gen[i] == 0                  /* clients begin it */
        :: else ->
            quarantine(i, g);
#ifdef NO_QUARANTINE
            state[i] = ADMITTED
#endif
        fi
    fi;
    b = 0; closed = 0; alive = 0
}

init {
    atomic {
        k = 0;
        do
        :: k < NS ->
            if :: LIST1 & BIT(k) -> gen[k] = 1; state[k] = ADMITTED :: else fi;
            k++
        :: else -> break
        od
    };
end:
    do
    :: atomic {
        if :: c = 0 :: c = 1 fi;
        i = 0; do :: i < NS - 1 -> i++ :: break od;
        if :: g = 1 :: g = 2
#if LIST3
        :: g = 3
#endif
        fi;
        if
        :: client()
        :: server()
        :: g > 1 -> command()
        fi;
        c = 0; i = 0; g = 0; k = 0; here = 0; blank = 0
    }
    od
}
