/* tokens.pml - fencing tokens over a quorum of three servers, timeless: holds end at any moment,
 * keys vanish at any moment, and only counters and the base say what was issued. spec/models/run
 * has the variants (tokens-...), and what must come out. README.md says where it differs from the code.
 * One name; two attempts, each may be handed over to the next one. The proof is fence.c's.
 *
 *   server     in quarantine (OUT), admitted without a base (BARE), or with it (FULL)
 *   counters   a server counts in buckets: that of our name, and another one, whose names count at
 *              any moment on any FULL server (more freely than attempts would), OTHERS times
 *   base       below which no bucket counts: the largest number of all buckets that others told
 *   loss       a server forgets: OUT; its key, counters and base are gone. ONE AT A TIME: see CALM
 *   admission  when no attempt counts on what the server said before it forgot (that is what the
 *              quarantine is for), it is taught the base of N - q + 1 others that are FULL;
 *              if others are silent, it is admitted BARE: it votes on plain locks only
 *   teaching   in two steps: what others told is a LESSON, which is written at any later moment, but
 *              not to another memory than that which it was for (compare and set on the marker)
 *   the clock  where a base is guessed: 0, as clocks may have been set back
 *
 * Rules that do not hold, each of which must lead to a token that was issued before or is too small:
 *   ON_DEMAND        admitted BARE; a fenced attempt that meets a BARE server has it taught
 *   CALM_ADMITTED    another server may forget when all others are admitted, not only when all
 *                    others are FULL, which `redlock check` shows (holds with NEVER_SILENT)
 *   GUESS_IN_SILENCE the clock decides as soon as too few answer, not only when a majority of the
 *                    servers say that they have no base
 *   NO_QUARANTINE    a server is taught at once
 *   TWO_AT_ONCE      two may forget at the same time (not promised)
 *   OF_ONE           the base comes from one other server
 *   LATE_LESSON      a lesson that two clients have is also written to a later memory
 *   OTHER_BUCKET     the base leaves out our bucket
 *   BASE_PASSED_ON   a server tells only the base that it was taught, not what it counted since
 *
 *   HEAL_COUNTS      in our bucket another name has token 1, and its holder heals servers that wait
 *                    for their base: that writes a number of the bucket, smaller than the base
 *   OWN_FIRST        a bucket's own number counts where there is one, else the base (not the larger):
 *                    holds, but not with HEAL_COUNTS
 *
 * DEL: what an admitted server knows of tokens is deleted (GONE); its marker and keys stay. Asked
 * for it, it finds that it does not name its memory, and goes back into quarantine.
 *   AT_ONCE          it says that it has none, and is taught, as if it had been admitted BARE
 *
 * FORCE: `init --force` gives each server a new memory once, at any moment, also while attempts are
 * under way (FORCED: to which ones, a bit each); it is FULL at once, with the larger of its own
 * numbers and the clock.
 * The clock is right (at least every number that was given out), or:
 *   CLOCK_BACK       it was set back: 0
 *   CLOCK_ALONE      own old numbers do not count
 */
#define N 3
#define Q 2
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef LOSSES
#define LOSSES 2
#endif

mtype = { OUT, BARE, FULL, GONE };
mtype state[N] = FULL;
#ifdef HEAL_COUNTS
#define FIRST 1
#else
#define FIRST 0
#endif
byte number[N] = FIRST;       /* the largest that our bucket has counted */
#ifndef OTHERS
#define OTHERS 1
#endif
byte base[N];
byte lesson[N];               /* a base on its way, and 1; 0: none */
byte other[N] = FIRST;        /* the largest number of the other bucket */
byte others = OTHERS;         /* how often its names may still count */
#ifdef FORCE
#ifndef FORCED
#define FORCED 7
#endif
byte force = FORCED;          /* servers that init has still to admit, a bit each */
byte highest;                 /* of all numbers that any server ever gave out */
#endif
byte key[N];                  /* the attempt that has it, 1 ...; 0: nobody */

/* Attempts. granted: servers that voted, a bit each; with: the counter that each told. */
byte began[ATTEMPTS + 1];     /* the largest token issued when it began; 255: not begun */
byte asked[ATTEMPTS + 1];     /* servers that may still execute its acquire or hand-over */
byte granted[ATTEMPTS + 1], witness[ATTEMPTS + 1];
byte with[16];                /* of attempt c and server i: with[c * N + i] */
byte from[ATTEMPTS + 1];      /* a hand-over replaces this hold; 0: none */
byte token[ATTEMPTS + 1];     /* 0: not chosen yet */
bool over[ATTEMPTS + 1];
byte losses = LOSSES, most;
byte issued[ATTEMPTS + 1];

#define BIT(i) (1 << (i))
#define SIZE(m) (((m) & 1) + ((m) >> 1 & 1) + ((m) >> 2 & 1))
#define MAX(x, y) ((x) > (y) -> (x) : (y))
#define FULLS(i) ((state[0] == FULL && 0 != (i)) + (state[1] == FULL && 1 != (i)) + \
                  (state[2] == FULL && 2 != (i)))
#define LACKING ((state[0] != FULL) + (state[1] != FULL) + (state[2] != FULL))

#define WANTED (asked[1] | asked[2] | asked[ATTEMPTS])

/* Nobody counts on what the server said before it forgot. */
#define COUNTS_ON(c, i) (!over[c] && (granted[c] & BIT(i)))
#ifdef NO_QUARANTINE
#define QUIET(i) true
#else
#define QUIET(i) !(COUNTS_ON(1, i) || COUNTS_ON(2, i) || COUNTS_ON(ATTEMPTS, i))
#endif

#ifdef TWO_AT_ONCE
#define CALM(i) true
#else
#ifdef CALM_ADMITTED
#define CALM(i) (state[(i + 1) % N] != OUT && state[(i + 2) % N] != OUT)
#else
#define CALM(i) (FULLS(i) == N - 1)
#endif
#endif

/* FLOOR: above which our bucket counts. TELLS: what a server tells who teaches another one. */
#ifdef OWN_FIRST
#define FLOOR(i) (number[i] -> number[i] : base[i])
#else
#define FLOOR(i) MAX(number[i], base[i])
#endif
#ifdef BASE_PASSED_ON
#define TELLS(i) base[i]
#else
#ifdef OTHER_BUCKET
#define TELLS(i) MAX(base[i], other[i])
#else
#define TELLS(i) MAX(base[i], MAX(number[i], other[i]))
#endif
#endif

#define TOLD(c, i) (granted[c] & BIT(i) -> with[(c) * N + (i)] : 0)
#define WITNESSED(c, i) ((granted[c] & BIT(i)) && with[(c) * N + (i)] == token[c] -> BIT(i) : 0)

/* What an attempt makes of its grants: the token is the largest counter told, and a witness is
 * who granted, or confirmed, exactly that. */
inline judge(c)
{
    token[c] = MAX(token[c], MAX(TOLD(c, 0), MAX(TOLD(c, 1), TOLD(c, 2))));
    witness[c] = WITNESSED(c, 0) | WITNESSED(c, 1) | WITNESSED(c, 2)
}

/* ---- servers ---- */

inline grant(c, i)
{
    number[i] = FLOOR(i) + 1; key[i] = c;
#ifdef FORCE
    highest = MAX(highest, number[i]);
#endif
    if
    :: over[c]                                   /* too late: nobody reads the answer */
    :: else -> with[c * N + i] = number[i]; granted[c] = granted[c] | BIT(i);
        if
        :: token[c] -> judge(c)
        :: else
        fi
    fi
}

inline execute(c, i)
{
    atomic { asked[c] & BIT(i) ->
        asked[c] = asked[c] & ~BIT(i);
        if
        :: state[i] == FULL && from[c] == 0 && key[i] == 0 -> grant(c, i)
        :: state[i] == FULL && from[c] != 0 && key[i] == from[c] -> grant(c, i)
        :: else
        fi }
}

/* N - q + 1 others: any two, of three servers both. */
#ifdef OF_ONE
#define ENOUGH(i) (FULLS(i) >= 1)
#define KNOWN(i) (state[(i + 1) % N] == FULL -> TELLS((i + 1) % N) : TELLS((i + 2) % N))
#else
#define ENOUGH(i) (FULLS(i) >= N - Q + 1)
#define KNOWN(i) MAX(TELLS((i + 1) % N), TELLS((i + 2) % N))
#endif

#define LEARN(i, n) base[i] = n; state[i] = FULL
#define NOTE(i, n) lesson[i] = (n) + 1
#ifdef LATE_LESSON
#define DONE(i)
#else
#define DONE(i) lesson[i] = 0
#endif

inline written(i)
{
    atomic { lesson[i] > 0 && (state[i] == OUT || state[i] == BARE) ->
        LEARN(i, lesson[i] - 1); DONE(i) }
}

inline teach(i)
{
    if
    :: ENOUGH(i) -> NOTE(i, KNOWN(i))
#ifdef GUESS_IN_SILENCE
    :: true -> guess(i)                          /* somebody did not answer in time */
#else
    :: LACKING >= Q -> guess(i)
    :: !ENOUGH(i) && LACKING < Q -> skip
#endif
    fi
}

/* From a clock that was set back. */
inline guess(i)
{
    NOTE(i, 0)
}

inline admit(i)
{
    atomic { state[i] == OUT && lesson[i] == 0 && QUIET(i) ->
#ifdef ON_DEMAND
        state[i] = BARE
#else
        if
        :: ENOUGH(i) -> NOTE(i, KNOWN(i))
        :: LACKING >= Q -> guess(i)
#ifndef NEVER_SILENT
        :: state[i] = BARE                       /* others are silent */
#endif
        fi
#endif
    }
}

inline lose(i)
{
    atomic { losses > 0 && state[i] != OUT && CALM(i) ->
        losses--; state[i] = OUT; key[i] = 0; forget(i) }
}

inline forget(i)
{
    number[i] = 0; base[i] = 0; other[i] = 0; DONE(i)
}

/* It counts as a loss: one at a time. */
inline delete(i)
{
    atomic { losses > 0 && (state[i] == FULL || state[i] == BARE) && CALM(i) ->
        losses--; state[i] = GONE; forget(i) }
}

inline asked_for_base(i)
{
#ifdef AT_ONCE
    atomic { state[i] == GONE -> state[i] = BARE }
#else
    atomic { state[i] == GONE -> state[i] = OUT }
#endif
}

#ifdef CLOCK_BACK
#define CLOCK 0
#else
#define CLOCK highest
#endif
#ifdef CLOCK_ALONE
#define OWN(i) 0
#else
#define OWN(i) TELLS(i)
#endif

inline init_force(i)
{
    atomic { force & BIT(i) ->
        force = force & ~BIT(i);
        mine = MAX(OWN(i), CLOCK);
        forget(i);
        LEARN(i, mine); mine = 0 }
}

inline others_count(i)
{
    atomic { others > 0 && state[i] == FULL -> others--; other[i] = MAX(other[i], base[i]) + 1 }
}

/* In quarantine, or BARE: a hold of another name of our bucket comes back. */
inline heal(i)
{
    atomic { (state[i] == OUT || state[i] == BARE) && number[i] == 0 -> number[i] = 1 }
}

active proctype Servers()
{
#ifdef FORCE
    byte mine;
#endif
end:
    do
    :: execute(1, 0) :: execute(1, 1) :: execute(1, 2)
    :: execute(2, 0) :: execute(2, 1) :: execute(2, 2)
#if ATTEMPTS > 2
    :: execute(3, 0) :: execute(3, 1) :: execute(3, 2)
#endif
    :: atomic { key[0] != 0 -> key[0] = 0 }      /* its time is over, or it was released */
    :: atomic { key[1] != 0 -> key[1] = 0 }
    :: atomic { key[2] != 0 -> key[2] = 0 }
    :: lose(0) :: lose(1) :: lose(2)
    :: admit(0) :: admit(1) :: admit(2)
    :: written(0) :: written(1) :: written(2)
    /* A fenced attempt meets a server without a base: then it is taught, a little later. */
    :: atomic { state[0] == BARE && lesson[0] == 0 && (WANTED & 1) -> teach(0) }
    :: atomic { state[1] == BARE && lesson[1] == 0 && (WANTED & 2) -> teach(1) }
    :: atomic { state[2] == BARE && lesson[2] == 0 && (WANTED & 4) -> teach(2) }
    :: others_count(0) :: others_count(1) :: others_count(2)
#ifdef HEAL_COUNTS
    :: heal(0) :: heal(1) :: heal(2)
#endif
#ifdef DEL
    :: delete(0) :: delete(1) :: delete(2)
    :: asked_for_base(0) :: asked_for_base(1) :: asked_for_base(2)
#endif
#ifdef FORCE
    :: init_force(0) :: init_force(1) :: init_force(2)
#endif
    od
}

/* ---- an attempt: fence.c ---- */

/* Confirmed if the key is still ours, and the counter not above; else above: another token. */
inline confirm(c, i)
{
    atomic { !over[c] && token[c] && (granted[c] & BIT(i)) && !(witness[c] & BIT(i)) ->
        if
        :: key[i] == c && state[i] == FULL && FLOOR(i) <= token[c] ->
            number[i] = token[c]; with[c * N + i] = token[c]; judge(c)
        :: key[i] == c && state[i] == FULL && FLOOR(i) > token[c] ->
            token[c] = FLOOR(i); judge(c)
        :: else -> granted[c] = granted[c] & ~BIT(i)
        fi }
}

inline ends(c)                /* what it asked for may still be executed */
{
    witness[c] = 0; token[c] = 0; granted[c] = 0; began[c] = 0; from[c] = (asked[c] -> from[c] : 0);
    with[c * N] = 0; with[c * N + 1] = 0; with[c * N + 2] = 0
}

inline issue(c)
{
    atomic { !over[c] && token[c] && SIZE(witness[c]) >= Q ->
        assert(token[c] > began[c]);
        assert(token[c] != issued[1] && token[c] != issued[2] && token[c] != issued[ATTEMPTS]);
        issued[c] = token[c]; most = MAX(most, token[c]);
        over[c] = true; ends(c) }
}

proctype Attempt(byte c)
{
    atomic {                  /* anew, or as the next holder of the one before */
        if
        :: true
        :: c > 1 && issued[c - 1] -> from[c] = c - 1
        fi;
        began[c] = most; asked[c] = 7
    }
end:
    do
    :: atomic { !over[c] && SIZE(granted[c]) >= Q && !token[c] -> judge(c) }
    :: confirm(c, 0) :: confirm(c, 1) :: confirm(c, 2)
    :: issue(c)
    :: atomic { !over[c] -> over[c] = true; ends(c) }           /* it gives up */
    od
}

init
{
    atomic {
        run Attempt(1); run Attempt(2);
#if ATTEMPTS > 2
        run Attempt(3)
#endif
    }
}
