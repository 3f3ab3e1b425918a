/* init.pml - redlock init over three servers: who may turn n into l, and whom init refuses, when
 * programs start while it admits, when two are run at once, and when a holder comes back after all
 * servers lost their memory. spec/models/run has the variants (init-...), and what must come out.
 * README.md says where it differs from the code.
 *
 *   servers    none, n, l, a; INC; ver stands for OBSERVED and AT in the text (each count changes it)
 *   H          holds on servers 0 and 1 (not with NEW); reaches each server at any time, or never
 *   B          starts at any time, looks, begins, counts, marks, asks each server for its vote
 *   init       INITS operators: reads each server and its connections, sends all writes, takes back
 *   ticks      one is the grace (OBSERVED >= 5 s); NEED of them are a quarantine and a lease
 *
 * H6, as a rule of the clock: while H holds (or counts a vote), the grace ends only when a server
 * has H's mark, or keeps its memory; or (MUTE, FLIGHT) when H has read a server and stays connected.
 *
 * Rules as checked: a client knows that saw a or l on a majority at once, was granted a majority, or
 * holds. Who knows writes none -> l; and n -> l unless it sees a majority admitted now (init is at
 * work). Who knows, or has a vote, names its connections; init refuses beside those of others. Init
 * sends a write again that only missed a count, and takes back if one failed otherwise.
 *
 * NEW           brand-new servers, no H: in the end all are a, none was ever l, each init returned 0
 * INITS n       TENDS n: the client of init n also marks      NO_B   no program but init
 * EARLY         the servers lose their memories one by one, not all at the start
 * MUTE          H may not write the marker     FLIGHT   H has one vote and asks for more
 * CUTS n        n writes of init are not executed, or their answers lost: who was told 0 is right
 * MAJORITY      ... and a majority votes in the end: only with LEAVE
 * Rules that do not hold, each of which must lead to a violation:
 *   KNOWS_ANY     a client knows that saw a on any server
 *   KNOWS_VOTE    ... that was granted one vote
 *   KNOWS_BESIDE  it turns n into l also beside a majority that it sees admitted
 *   MISS_FAILS    a write that finds another text has failed, whatever the text says
 *   REFUSE_MIXED  init refuses where it sees a beside n
 *   BESIDE_ANY    init refuses beside each connection of others
 *   NO_FLAG       nobody writes l
 *   NO_NAME       no connection is named (MUTE)      VOTE_UNNAMED   nor for a vote (FLIGHT)
 *   NO_GRACE      H need not have reached anything (what H6 excludes)
 *   LATE          H's mark comes between init's reading and its writes (what H6 excludes)
 *   LEAVE         with LATE: init takes nothing back; the same violation as with taking back
 */
#define N 3
#ifndef TIME
#ifdef NEW
#define TIME 0
#else
#define TIME 2
#endif
#endif
#define NEED 2
#define GRACE 1
#ifndef INITS
#define INITS 2
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef COUNTS
#define COUNTS 1
#endif

mtype = { none, n, l, a, unseen };

mtype st[N];
byte inc[N];
bit ver[N];
byte obs[N];
byte key[N];                    /* 0 nobody's, 1 H's, 2 B's */
byte ttl[N];
bool wiped[N];

byte valid_h, valid_b;
bool ever_l, marked;           /* ghosts; marked: by H */
byte ticks = TIME, cuts = CUTS, counts = COUNTS;

/* ---- clients: 0 is B, 1 and 2 are the operators', 3 is H ---- */
#define H 3
mtype see[12] = unseen;         /* client * N + server: the letter read last on a live connection */
byte see_inc[12];
bool knows[4];
bool on[12];                    /* connected */
byte votes_b, votes_h;          /* bits */
bool mute;

byte ended;                      /* inits that ended */
bool refused;

#define SEE(c, s) see[(c) * N + (s)]
#define SEEI(c, s) see_inc[(c) * N + (s)]
#define ON(c, s) on[(c) * N + (s)]
#define KNOWN(x) ((x) == a || (x) == l)
#define HOW_MANY_KNOWN(c) (KNOWN(SEE(c, 0)) + KNOWN(SEE(c, 1)) + KNOWN(SEE(c, 2)))
#define HOW_MANY_A(c) ((SEE(c, 0) == a) + (SEE(c, 1) == a) + (SEE(c, 2) == a))
#define HEARD(c) (ON(c, 0) + ON(c, 1) + ON(c, 2))
#define BITS(v) (((v) & 1) + (((v) >> 1) & 1) + (((v) >> 2) & 1))

#ifdef KNOWS_ANY
#define ENOUGH 1
#else
#define ENOUGH 2
#endif

inline look(c, s)
{
    ON(c, s) = true; SEE(c, s) = st[s]; SEEI(c, s) = inc[s];
    knows[c] = knows[c] || HOW_MANY_KNOWN(c) >= ENOUGH
}

#ifdef NO_FLAG
#define MAY_MARK(c) false
#define LETTER(c) n
#else
#if defined(KNOWS_BESIDE) || defined(KNOWS_ANY)
#define MAY_MARK(c) (knows[c] && !((c) == H && mute))
#else
#define MAY_MARK(c) (knows[c] && HOW_MANY_A(c) < 2 && !((c) == H && mute))
#endif
#define LETTER(c) (knows[c] -> l : n)
#endif

inline begin(s, letter)
{
    st[s] = letter; inc[s]++; ver[s] = 0; obs[s] = 0; ever_l = ever_l || letter == l
}

#define STALE(c, s) (!ON(c, s) || SEE(c, s) != st[s] || SEEI(c, s) != inc[s])

#ifdef KNOWS_VOTE
#define BY_ONE_VOTE(c) knows[c] = true
#else
#define BY_ONE_VOTE(c) skip
#endif

#ifdef LATE
#define MISSED (!marked)
#else
#define MISSED false
#endif

inline ask(c, s, me, votes, valid, other)
{
    key[s] = me; ttl[s] = NEED; votes = votes | (1 << s); look(c, s); BY_ONE_VOTE(c);
    if
    :: BITS(votes) >= 2 -> valid = NEED; knows[c] = true; assert(MISSED || other == 0)
    :: else
    fi
}

#define OPTIONS(c, s) \
    :: atomic { STALE(c, s) -> look(c, s) } \
    :: atomic { SEE(c, s) == none && !STALE(c, s) && HEARD(c) >= 2 && !(c == H && mute) -> \
        begin(s, LETTER(c)); look(c, s) } \
    :: atomic { SEE(c, s) == n && MAY_MARK(c) ->            /* compare and set: may miss */ \
        if \
        :: st[s] == n && inc[s] == SEEI(c, s) -> st[s] = l; ever_l = true; marked = marked || c == H \
        :: else \
        fi; \
        look(c, s) } \
    :: atomic { c == 0 && st[s] == n && SEE(c, s) == n && counts > 0 -> \
        counts--; ver[s] = 1 - ver[s] } \
    :: atomic { c == 0 && st[s] == a && key[s] == 0 && BITS(votes_b) < 2 -> \
        ask(c, s, 2, votes_b, valid_b, valid_h) } \
    :: atomic { c == H && BITS(votes_h) < 2 && votes_h != 0 && st[s] == a && key[s] == 0 -> \
        ask(c, s, 1, votes_h, valid_h, valid_b) }

proctype Client(byte c)
{
end:
    do
    OPTIONS(c, 0)
    OPTIONS(c, 1)
    OPTIONS(c, 2)
#if !defined(MUTE) && !defined(FLIGHT)
    :: atomic { c == H && on[9] -> on[9] = false; see[9] = unseen }         /* cut off again */
    :: atomic { c == H && on[10] -> on[10] = false; see[10] = unseen }
    :: atomic { c == H && on[11] -> on[11] = false; see[11] = unseen }
#endif
    od
}

/* ---- init ---- */

#define ALL(x) (st[0] == x && st[1] == x && st[2] == x)
#define OLD (obs[0] >= GRACE && obs[1] >= GRACE && obs[2] >= GRACE)
#define ANY_L (st[0] == l || st[1] == l || st[2] == l)

#ifdef NO_NAME
#define NAMED(c, s) false
#else
#ifdef VOTE_UNNAMED
#define NAMED(c, s) (ON(c, s) && knows[c])
#else
#define NAMED(c, s) (ON(c, s) && (knows[c] || ((c) == 0 && votes_b != 0) || ((c) == H && votes_h != 0)))
#endif
#endif
#ifdef BESIDE_ANY
#define IN_THE_WAY(c, s) ON(c, s)
#else
#define IN_THE_WAY(c, s) NAMED(c, s)
#endif
#define OTHERS(c, s) (((c) != 0 && IN_THE_WAY(0, s)) || ((c) != 1 && IN_THE_WAY(1, s)) || \
                      ((c) != 2 && IN_THE_WAY(2, s)) || IN_THE_WAY(3, s))
#ifdef NO_FLAG
#define NEWISH(x) ((x) == n || (x) == l)
#else
#define NEWISH(x) ((x) == n)
#endif

proctype Init(byte c)
{
    mtype r[N]; byte r_inc[N]; bit r_ver[N];
    byte s, k, took, failed, as, bs;
    bool beside, old;
again:
    /* It reads the servers as often as it likes: only readings that may end it are modelled. */
#ifdef BESIDE_ANY
    (ALL(a) || ANY_L || (ALL(n) && OLD));
#else
    (ALL(a) || ANY_L || (ALL(n) && OLD) || (OLD && (st[0] == a || st[1] == a || st[2] == a)));
#endif
    s = 0; as = 0; bs = 0; beside = false; old = true;
    do
    :: atomic { s < N ->
        look(c, s);
        r[s] = st[s]; r_inc[s] = inc[s]; r_ver[s] = ver[s];
        beside = beside || OTHERS(c, s);
        old = old && (obs[s] >= GRACE || st[s] == a);
        as = as + (st[s] == a); bs = bs + NEWISH(st[s]);
        s++ }
    :: else -> break
    od;
    atomic {
        if
        :: as == N -> s = 0; goto out                                   /* all vote: 0 */
        :: as + bs < N -> refused = true; s = 0; goto out                  /* l, or none */
        :: as + bs == N && bs == N && beside -> 
#ifdef BESIDE_ANY
            refused = true; s = 0; goto out
#else
            /* a client that knows: it reads again, and refuses unless all vote by then */
            if
            :: ALL(a) -> s = 0; goto out
            :: ALL(n) -> refused = true; s = 0; goto out
            :: else -> s = 0; goto again
            fi
#endif
        :: bs == N && !beside && old -> s = 0
        :: bs == N && !beside && !old -> s = 0; goto again
        :: as > 0 && as + bs == N && bs < N ->                          /* another init is at work */
#ifdef REFUSE_MIXED
            refused = true; s = 0; goto out
#else
            s = 0; goto mixed
#endif
        fi
    }
    took = 0; failed = 0;
    do
    :: atomic { s < N ->
        if
        :: cuts > 0 -> cuts--; failed++; s++                            /* not executed */
        :: cuts > 0 -> cuts--; failed++; s++;                           /* executed, answer lost */
            if
            :: st[s - 1] == r[s - 1] && inc[s - 1] == r_inc[s - 1] && ver[s - 1] == r_ver[s - 1] ->
                st[s - 1] = a; ver[s - 1] = 0
            :: else
            fi
        :: st[s] == r[s] && inc[s] == r_inc[s] && ver[s] == r_ver[s] ->
            st[s] = a; ver[s] = 0; took = took | (1 << s); s++
        :: else ->
#ifdef MISS_FAILS
            failed++; s++
#else
            if
            :: st[s] == a && inc[s] == r_inc[s] -> s++                  /* another init did it */
            :: st[s] == r[s] && inc[s] == r_inc[s] -> r_ver[s] = ver[s] /* counted: send again */
            :: else -> failed++; s++
            fi
#endif
        fi }
    :: else -> break
    od;
#ifndef LEAVE
    s = 0;
    do
    :: atomic { s < N && failed > 0 ->
        if
        :: (took & (1 << s)) && st[s] == a && inc[s] == r_inc[s] -> begin(s, l)
        :: else
        fi;
        s++ }
    :: else -> break
    od;
#endif
    atomic { refused = refused || failed > 0; goto out }
mixed:
    /* waits until it looks different; up to 8 s, then it refuses: the end of the run */
    atomic { (ALL(a) || ANY_L) -> goto again }
out:
    atomic { s = 0; k = 0; took = 0; failed = 0; as = 0; bs = 0; beside = false; old = false;
        r[0] = 0; r[1] = 0; r[2] = 0; r_inc[0] = 0; r_inc[1] = 0; r_inc[2] = 0;
        r_ver[0] = 0; r_ver[1] = 0; r_ver[2] = 0; ended++ }
}

/* ---- time, losses, the ends of quarantines ---- */

#if defined(MUTE) || defined(NO_FLAG) || defined(FLIGHT)
#define REACHED(s) ((st[s] == a && !wiped[s]) || (ON(H, s) && !STALE(H, s)))
#else
#define REACHED(s) ((st[s] == a && !wiped[s]) || st[s] == l)
#endif
#if defined(NEW)
#define H6 (st[0] != none && st[1] != none && st[2] != none)
#elif defined(NO_GRACE) || defined(LATE)
#define H6 true
#else
#define H6 (votes_h == 0 || REACHED(0) || REACHED(1) || REACHED(2))
#endif

inline server_tick(s)
{
    if
    :: st[s] == n || st[s] == l -> obs[s] = (obs[s] < NEED -> obs[s] + 1 : NEED)
    :: else
    fi;
    if
    :: ttl[s] > 1 -> ttl[s]--
    :: else -> ttl[s] = 0; key[s] = 0
    fi
}

inline wipe(s)
{
    wiped[s] = true; st[s] = none; inc[s]++; ver[s] = 0; obs[s] = 0; key[s] = 0; ttl[s] = 0;
    ON(0, s) = false; ON(1, s) = false; ON(2, s) = false; ON(3, s) = false;
    SEE(0, s) = unseen; SEE(1, s) = unseen; SEE(2, s) = unseen; SEE(3, s) = unseen
}

#ifdef MAJORITY                         /* with CUTS: at least a majority votes in the end */
#define FINAL ((st[0] == a) + (st[1] == a) + (st[2] == a) >= 2)
#elif CUTS > 0
#define FINAL (refused || ALL(a))       /* who was told 0 can rely on it */
#else
#define FINAL (ALL(a) && !ever_l && !refused && ended == INITS)
#endif

active proctype World()
{
    atomic {
#ifdef NEW
        st[0] = n; st[1] = n; st[2] = n; obs[0] = GRACE; obs[1] = GRACE; obs[2] = GRACE
#else
        votes_h = 1;
#ifndef FLIGHT
        votes_h = 3; valid_h = NEED; knows[H] = true;
#else
#ifdef KNOWS_VOTE
        knows[H] = true;
#endif
#endif
#ifdef EARLY
        st[0] = a; st[1] = a; st[2] = a; key[0] = 1; ttl[0] = NEED;
#ifndef FLIGHT
        key[1] = 1; ttl[1] = NEED;
#endif
#else
        st[0] = none; st[1] = none; st[2] = none;
        wiped[0] = true; wiped[1] = true; wiped[2] = true;
#endif
#ifdef MUTE
        mute = true;
#endif
        run Client(H);
#endif
#ifndef NO_B
        run Client(0);
#endif
        run Init(1);
#if INITS > 1
        run Init(2);
#endif
#ifdef TENDS
        run Client(TENDS)
#endif
    }
end:
    do
    :: atomic { ticks > 0 && H6 -> ticks--;
        server_tick(0); server_tick(1); server_tick(2);
        if
        :: valid_h > 0 -> valid_h--; if :: valid_h == 0 -> votes_h = 0 :: else fi
        :: else
        fi;
        if
        :: valid_b > 0 -> valid_b--
        :: else
        fi }
#ifdef NEW
    :: atomic { timeout -> assert(FINAL); break }
#else
    :: atomic { !wiped[0] -> wipe(0) }
    :: atomic { !wiped[1] -> wipe(1) }
    :: atomic { !wiped[2] -> wipe(2) }
    :: atomic { (st[0] == n || st[0] == l) && obs[0] >= NEED -> st[0] = a; ver[0] = 0 }
    :: atomic { (st[1] == n || st[1] == l) && obs[1] >= NEED -> st[1] = a; ver[1] = 0 }
    :: atomic { (st[2] == n || st[2] == l) && obs[2] >= NEED -> st[2] = a; ver[2] = 0 }
#endif
    od
}
