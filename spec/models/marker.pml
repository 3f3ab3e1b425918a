/* marker.pml - the marker of a server: who writes what when, and whether a server that forgot, or
 * whose clock was stepped, votes too early. spec/models/run has the variants (marker-...), each
 * switched in by -D, and what must come out. README.md says where it differs from the code.
 *
 * One server is enough: a majority of B shares a server with the majority that A's validity rests
 * on, and that server must not vote for B while A believes. redlock.pml has the rest. With TWO, A's
 * majority is servers 0 and 1, and B's is one of them and a third one, which always votes for B.
 *
 *   text       state and INC; in quarantine also OBSERVED, and the server's clock when written
 *   n l s a    in quarantine: new; lost its memory; its clock was stepped. Admitted
 *   observers  A (right clock, the holder) and X (a clock of any speed). X may end and come again
 *              at any time, A while it holds nothing
 *   messages   for each observer and server one under way, a compare and set. It is executed at
 *              any later time or never, and its answer may be lost. DIRECT: at once
 *   others     anybody, also a client that starts now, acquires in the step that checks the text
 *
 * Time is counted in ticks; the holder's and A's clock are right. A hold is over after LEASE.
 *
 * Faults:   WIPES n   a memory is lost, n times    RACE     X's clock runs up to 3x, or jumps
 *           STEPS n   a server's clock is stepped ahead, or back, by a lease
 *           INIT      an operator runs init when every holder has reached a server since
 *           MUTE      A may not write the marker    LOST     A holds, and all memories are lost
 * Rules that do not hold, each of which must lead to a violation:
 *   ONE_CLOCK      a quarantine ends when an observer's own clock says so       (needs RACE)
 *   SERVER_ALONE   ... when the server's clock says so                          (needs STEPS)
 *   NO_FLAG        init admits l like n
 *   NO_GRACE       init does not wait for the holders' clients (the rest of assumption H6)
 *   NO_NAME        init does not look at connections                            (needs MUTE)
 *   IN_PART        init admits the server that is new beside one that is not    (needs TWO)
 *   LOCAL          only the client that noticed a step counts no votes          (needs STEPS)
 *   NO_RESTART     a step that is noticed in a quarantine does not restart it   (needs STEPS)
 * STEPS and RACE together: both clocks are wrong, which assumption H3 excludes: a violation.
 */
#ifndef LEASE
#define LEASE 2
#endif
#define NEED LEASE            /* of OBSERVED */
#ifndef TIME
#define TIME 3                /* ticks in a run */
#endif
#ifndef WIPES
#define WIPES 1
#endif
#ifndef STEPS
#define STEPS 0
#endif
#ifdef TWO
#define S 2
#else
#define S 1
#endif

#define A 0
#define X 1
#define B 1                   /* among holders: anybody else */
#define AT(c, i) ((c) * S + (i))

mtype = { none, n, l, s, a, BEGIN, MARK, PROGRESS, ADMIT, STEPPED };

/* ---- the servers ---- */

mtype state[S] = a;           /* they were admitted long ago */
byte inc[S] = 1;              /* of the text; 0: none */
byte serial[S];               /* tells apart texts of one INC in quarantine; 0: admitted */
byte observed[S];
short since[S];               /* by the server's clock since the text was written */
byte new;

byte key[S] = 255;            /* whose; 255: nobody's */
byte ttl[S];                  /* by the server's clock */
byte valid[2];                /* how long A and B believe in their holds: ticks of a right clock */

/* Ghosts. A step that nobody has noticed yet; and one that freed the key of a valid hold: until it
 * is noticed two may hold the lock, which is assumption H2. */
bool stepped[S], excused[S];

byte wipes = WIPES, steps = STEPS, ticks = TIME;

/* ---- the observers ---- */

mtype k_state[2 * S] = none;  /* the text seen last ... */
byte k_inc[2 * S], k_serial[2 * S], k_observed[2 * S];
byte age[2 * S];              /* ... seen first so long ago, by the observer's clock */
bool knows[2];                /* holds, or has seen on a majority that these servers were used */
bool pending[S];              /* A has noticed a step that no text tells */
byte since_notice[S];
byte suspects[S];             /* LOCAL: A counts no votes for so long */

mtype m_op[2 * S] = none;     /* the message under way, and the text that it expects */
byte m_inc[2 * S], m_serial[2 * S], m_own[2 * S];
mtype m_to[2 * S] = none;

byte i_to, i_inc[S], i_serial[S];     /* writes of init under way, a bit each; what they expect */

#define QUARANTINED(st) ((st) == n || (st) == l || (st) == s)
#define MORE(x, by, most) x = ((x) + (by) > (most) -> (most) : (x) + (by))
#define CURRENT(c, i) (k_inc[AT(c, i)] == inc[i] && k_serial[AT(c, i)] == serial[i])

/* The least number that no text has which somebody still knows: stands for a new one. */
inline name(present, k0, k1, m0, m1, i0)
{
    new = 1;
    do
    :: new == present || new == k0 || new == k1 || new == m0 || new == m1 || new == i0 -> new++
    :: else -> break
    od
}

inline write(i, to, ms)
{
    state[i] = to; observed[i] = ms; since[i] = 0;
    if
    :: to == a -> serial[i] = 0; observed[i] = 0
    :: else ->
        name(serial[i], k_serial[AT(A, i)], k_serial[AT(X, i)], m_serial[AT(A, i)],
             m_serial[AT(X, i)], i_serial[i]);
        serial[i] = new; new = 0
    fi
}

inline look(c, i)
{
    if
    :: !CURRENT(c, i) ->
        k_state[AT(c, i)] = state[i]; k_inc[AT(c, i)] = inc[i]; k_serial[AT(c, i)] = serial[i];
        k_observed[AT(c, i)] = observed[i]; age[AT(c, i)] = 0
    :: else
    fi;
    if                        /* settled: this quarantine began, or began anew, since the notice */
    :: c == A && QUARANTINED(state[i]) && observed[i] <= since_notice[i] -> pending[i] = false
    :: else
    fi
}

inline forget_message(c, i)
{
    m_op[AT(c, i)] = none; m_inc[AT(c, i)] = 0; m_serial[AT(c, i)] = 0; m_own[AT(c, i)] = 0;
    m_to[AT(c, i)] = none
}

inline send(c, i, op, to)
{
    m_op[AT(c, i)] = op; m_inc[AT(c, i)] = k_inc[AT(c, i)]; m_serial[AT(c, i)] = k_serial[AT(c, i)];
    m_own[AT(c, i)] = age[AT(c, i)]; m_to[AT(c, i)] = to;
#ifdef DIRECT
    execute(c, i); look(c, i)
#endif
}

/* What both clocks say has passed since the text was written. */
inline progress(c, i, to)
{
#ifdef SERVER_ALONE
    own = NEED;
#else
    own = m_own[AT(c, i)];
#endif
#ifndef ONE_CLOCK
    if
    :: since[i] < own -> own = (since[i] < 0 -> 0 : since[i])
    :: else
    fi;
#endif
    MORE(own, observed[i], NEED);
    write(i, to, own);
    own = 0
}

/* Compare and set, in one step of the server. */
inline execute(c, i)
{
    if
    :: m_inc[AT(c, i)] == inc[i] && m_serial[AT(c, i)] == serial[i] ->
        if
        :: m_op[AT(c, i)] == BEGIN ->
            name(inc[i], k_inc[AT(A, i)], k_inc[AT(X, i)], m_inc[AT(A, i)], m_inc[AT(X, i)],
                 i_inc[i]);
            inc[i] = new;
            write(i, m_to[AT(c, i)], 0)
        :: m_op[AT(c, i)] == MARK -> progress(c, i, l)
        :: m_op[AT(c, i)] == PROGRESS -> progress(c, i, state[i])
        :: m_op[AT(c, i)] == ADMIT -> write(i, a, 0)
        :: m_op[AT(c, i)] == STEPPED ->
            write(i, (state[i] == a -> s : state[i]), 0); stepped[i] = false; excused[i] = false
        :: else
        fi
    :: else
    fi;
    forget_message(c, i)
}

#ifdef MUTE
#define FREE(c, i) ((c) == X && m_op[AT(c, i)] == none)
#else
#define FREE(c, i) (m_op[AT(c, i)] == none)
#endif
#ifdef NO_RESTART
#define RESTARTS(st) ((st) == a)
#else
#define RESTARTS(st) ((st) != none)
#endif
#ifdef ONE_CLOCK
#define FULL(c, i) (k_observed[AT(c, i)] + age[AT(c, i)] >= NEED)
#else
#define FULL(c, i) (k_observed[AT(c, i)] >= NEED)
#endif
#ifdef LOCAL
#define TELLS(c, i) false
#else
#define TELLS(c, i) ((c) == A && pending[i] && k_inc[AT(c, i)] == inc[i])
#endif

/* Has seen that this server was used. Whether a majority shows it is up to the others. */
#define USED(i) (k_state[i] == a || k_state[i] == l || k_state[i] == s)

#define OBSERVES(c, i) \
    :: atomic { !CURRENT(c, i) || (c == A && pending[i]) -> look(c, i) } \
    :: atomic { !knows[c] && USED(AT(c, i)) -> knows[c] = true } \
    :: atomic { FREE(c, i) && k_state[AT(c, i)] == none && k_inc[AT(c, i)] == inc[i] -> \
        send(c, i, BEGIN, (knows[c] -> l : n)) } \
    :: atomic { FREE(c, i) && k_state[AT(c, i)] == n && knows[c] -> send(c, i, MARK, l) } \
    :: atomic { FREE(c, i) && QUARANTINED(k_state[AT(c, i)]) && age[AT(c, i)] > 0 && \
        k_observed[AT(c, i)] < NEED -> send(c, i, PROGRESS, none) } \
    :: atomic { FREE(c, i) && QUARANTINED(k_state[AT(c, i)]) && FULL(c, i) -> \
        send(c, i, ADMIT, none) } \
    :: atomic { FREE(c, i) && TELLS(c, i) && RESTARTS(k_state[AT(c, i)]) -> \
        send(c, i, STEPPED, none) } \
    :: atomic { m_op[AT(c, i)] != none -> execute(c, i); look(c, i) } \
    :: atomic { m_op[AT(c, i)] != none -> execute(c, i) }           /* the answer is lost */ \
    :: atomic { m_op[AT(c, i)] != none -> forget_message(c, i) }    /* so is the message */

inline forget_text(c, i)
{
    k_state[AT(c, i)] = none; k_inc[AT(c, i)] = 0; k_serial[AT(c, i)] = 0;
    k_observed[AT(c, i)] = 0; age[AT(c, i)] = 0;
    if
    :: c == A -> pending[i] = false; since_notice[i] = 0; suspects[i] = 0
    :: else
    fi
}

#ifdef TWO
#define EACH(what) what(0); what(1)
#define BOTH(x, y) ((x) && (y))
#define ANY(x, y) ((x) || (y))
#else
#define EACH(what) what(0)
#define BOTH(x, y) (x)
#define ANY(x, y) (x)
#endif

proctype Observer(byte c)
{
    byte own;
end:
    do
    OBSERVES(c, 0)
#ifdef TWO
    OBSERVES(c, 1)
#endif
    :: atomic { (c == X || valid[A] == 0) &&              /* ends; another one comes */
        (knows[c] || ANY(k_inc[AT(c, 0)] != 0, k_inc[AT(c, 1)] != 0)) ->
        forget_text(c, 0);
#ifdef TWO
        forget_text(c, 1);
#endif
        knows[c] = false }
    od
}

/* ---- votes: the marker is checked in the step that grants ---- */

#define OPEN(i) (state[i] == a && key[i] == 255)
#define COUNTED(i) (OPEN(i) && suspects[i] == 0 && k_state[AT(A, i)] == a && \
                    k_inc[AT(A, i)] == inc[i])

inline give(c, i)
{
    key[i] = c; ttl[i] = LEASE
}

inline believe(c)
{
    valid[c] = LEASE;
    knows[A] = knows[A] || c == A;
    assert(ANY(excused[0], excused[1]) || valid[1 - c] == 0)
}

#define GIVE_A(i) give(A, i)

inline heal_a(i)
{
    if
    :: key[i] == 255 -> key[i] = A; ttl[i] = valid[A]
    :: else
    fi
}

/* ---- time ---- */

#define CALM(i) \
    if \
    :: suspects[i] > 0 -> suspects[i]-- :: else \
    fi; \
    if \
    :: pending[i] -> MORE(since_notice[i], 1, NEED) :: else \
    fi

#define AGE_A(i) MORE(age[AT(A, i)], 1, NEED)
#define AGE_X(i) MORE(age[AT(X, i)], 1, NEED)
#define RACE_X(i) MORE(age[AT(X, i)], 3, NEED)

/* The server's clock goes on by some ticks; keys end by it. */
inline run_server(i, by)
{
    since[i] = (since[i] + by > NEED -> NEED : since[i] + by);
    if
    :: ttl[i] > by -> ttl[i] = ttl[i] - by
    :: else -> ttl[i] = 0; key[i] = 255
    fi
}

#define RUN(i) run_server(i, 1)

inline tick()
{
    ticks--;
    if
    :: valid[A] > 0 -> valid[A]-- :: else
    fi;
    if
    :: valid[B] > 0 -> valid[B]-- :: else
    fi;
    EACH(CALM);
    EACH(AGE_A);
    if
    :: true -> EACH(AGE_X)
#ifdef RACE
    :: true -> EACH(RACE_X)
#endif
    fi;
    EACH(RUN)
}

inline wipe(i)
{
    key[i] = 255; ttl[i] = 0; state[i] = none; inc[i] = 0; serial[i] = 0; observed[i] = 0;
    since[i] = 0
}

/* ---- init ---- */

#ifdef NO_FLAG
#define NEW(i) (state[i] == n || state[i] == l)
#else
#define NEW(i) (state[i] == n)
#endif
#ifdef IN_PART
#define ALL_NEW true          /* each server by itself */
#else
#define ALL_NEW BOTH(NEW(0), NEW(1))
#endif

/* H6: when every holder's client has reached a server since: marked its text, or, if it may not,
 * read it and stayed connected. */
#ifdef MUTE
#define MARKED(i) CURRENT(A, i)
#else
#define MARKED(i) (CURRENT(A, i) && k_state[AT(A, i)] != n)
#endif
#define REACHED (valid[B] == 0 && (valid[A] == 0 || ANY(MARKED(0), MARKED(1))))
#ifdef NO_GRACE
#undef REACHED
#define REACHED true
#endif
/* A names its connections, which shows while it is connected: only MUTE says that it is. */
#if defined(MUTE) && !defined(NO_NAME)
#define NAMED (valid[A] > 0 && ANY(CURRENT(A, 0), CURRENT(A, 1)))
#else
#define NAMED false
#endif

#define READ(i) \
    if \
    :: NEW(i) -> i_to = i_to | (1 << i); i_inc[i] = inc[i]; i_serial[i] = serial[i] \
    :: else \
    fi

#define WRITES(i) \
    :: atomic { i_to & (1 << i) -> \
        if \
        :: i_inc[i] == inc[i] && i_serial[i] == serial[i] -> write(i, a, 0) \
        :: true                                           /* it is lost */ \
        fi; \
        i_to = i_to & ~(1 << i); i_inc[i] = 0; i_serial[i] = 0 }

#define FAILS(i) \
    :: atomic { wipes > 0 && state[i] != none -> wipes--; wipe(i) } \
    :: atomic { steps > 0 -> steps--; stepped[i] = true; \
        excused[i] = excused[i] || (key[i] != 255 && valid[key[i] % 2] > 0); \
        run_server(i, LEASE) } \
    :: atomic { steps > 0 -> steps--; since[i] = since[i] - LEASE } \
    :: atomic { stepped[i] && !pending[i] -> NOTICES(i) }

/* A client that has read the server's clock before the step reads it again. */
#if defined(LOCAL)
#define NOTICES(i) pending[i] = true; since_notice[i] = 0; suspects[i] = NEED; \
    stepped[i] = false; excused[i] = false
#elif defined(NO_RESTART)
#define NOTICES(i) pending[i] = true; since_notice[i] = 0; \
    stepped[i] = (state[i] == a); excused[i] = excused[i] && stepped[i]
#else
#define NOTICES(i) pending[i] = true; since_notice[i] = 0
#endif

active proctype World()
{
    atomic {
#ifdef LOST
        EACH(wipe); valid[A] = LEASE; knows[A] = true;
#endif
        run Observer(A); run Observer(X)
    }
end:
    do
    :: atomic { ticks > 0 -> tick() }
    :: atomic { BOTH(COUNTED(0), COUNTED(1)) -> EACH(GIVE_A); believe(A) }
    :: atomic { OPEN(0) -> give(B, 0); believe(B) }
#ifdef TWO
    :: atomic { OPEN(1) -> give(B, 1); believe(B) }
#endif
    /* Extensions; and heals, also into a quarantine. */
    :: atomic { valid[A] > 0 && BOTH(key[0] == A, key[1] == A) -> EACH(GIVE_A); valid[A] = LEASE }
    :: atomic { valid[A] > 0 && ANY(key[0] == 255, key[1] == 255) -> EACH(heal_a) }
    FAILS(0)
#ifdef TWO
    FAILS(1)
#endif
#ifdef INIT
    :: atomic { i_to == 0 && ANY(NEW(0), NEW(1)) && ALL_NEW && REACHED && !NAMED -> EACH(READ) }
    WRITES(0)
#ifdef TWO
    WRITES(1)
#endif
#endif
    od
}
