/* views.c - all schedules of a change of the list of servers: no two lists win at once.
 *
 *   views FORGETS BALLOTS [MILLIONS [RULE...]]    RULE: is dropped; see `rules`
 *
 * Servers A, B, C have the list {A, B, C}; D is new. Of two changers one wants D in the
 * place of A, the other D in the place of C. Both may die at every step, and begin again,
 * with BALLOTS ballots altogether. Servers forget, FORGETS times and one at a time, and
 * are admitted by observers, who act on what they saw of others at any time before.
 *
 * There are no locks: a list wins where a majority of its servers has it (while one list
 * takes the place of another: of both), and two that can win at once are the violation. A
 * tick lets one guard time pass, which all leases end in; what leases outlast is not here
 * but in members.c. Breadth first, as far as MILLIONS of states; a state is known by 64
 * bits of its hash. Says "holds", "counterexample" or "bounded", how many states there
 * were, at which depth, and the last of them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seen.h"

enum { SERVERS = 4, OLD_ONES = 3, CHANGERS = 2, NEWCOMER = 3 };
enum { A = 1, B = 2, C = 4, D = 8 };

/* Lists: none is known; {A, B, C}; on the way to another one; the two that are wished. */
enum { NO_LIST, ABC, JOINT_A, JOINT_C, DBC, ABD, LISTS };
static const uint8_t old_of[] = {0, A | B | C, A | B | C, A | B | C, D | B | C, A | B | D};
static const uint8_t new_of[] = {0, A | B | C, D | B | C, A | B | D, D | B | C, A | B | D};
static const uint8_t epoch_of[] = {0, 2, 3, 3, 4, 4};
static const char *const list_names[] = {"-", "ABC", "ABC>DBC", "ABC>ABD", "DBC", "ABD"};

enum { ABSENT, QUARANTINED, ADMITTED, RETIRED };
enum { IDLE, PREPARE, ACCEPT, WAIT, VERIFY, WRITE };

struct server {
    uint8_t is, list;
    uint8_t life;            /* how often it forgot */
    uint8_t aged;            /* QUARANTINED: for long enough */
    uint8_t promised, accepted;                  /* ballots; of none that is smaller */
    uint8_t seen_list, seen; /* an observer saw these others with that list, */
    uint8_t seen_promised, seen_accepted;        /* and these ballots there */
};

struct changer {
    uint8_t phase, ballot, wish;                 /* wish: the list to be written */
    uint8_t best;            /* the largest ballot under which wish was accepted before */
    uint8_t aged;            /* WAIT: for long enough */
    uint8_t prepared, accepted, verified;        /* servers */
    uint8_t life[OLD_ONES];  /* of servers when they prepared or accepted */
};

struct state {
    struct server servers[SERVERS];
    struct changer changers[CHANGERS];
    uint8_t ballots, forgot;
};

/* What can be dropped. Those behind the empty line are not seen to matter here; see
 * spec/models/README.md for why they stay. */
static struct rule {
    const char *name;
    int dropped;
} rules[] = {
    {"joint", 0},            /* there is a list between, which wants both majorities */
    {"verify", 0},           /* after the wait the same servers still have it */
    {"strict", 0},           /* admitted are those whom a majority of others has seen */
    {"ballots", 0},          /* no accept below a promise */
    {"read", 0},             /* who finds an accepted list goes on with that one */
    {"fresh", 0},            /* others are looked at after the quarantine */
    {"life", 0},             /* accept only where the server is as it was prepared */
    {"quick", 0},            /* prepare ends within a lease */

    {"heir", 0},             /* who is admitted takes over promises that others gave */
    {"late", 0},             /* fresh, but from the begin of the quarantine on */
    {NULL, 0}
};
enum { JOINT, VERIFIED, STRICT, BALLOTS, READ, FRESH, LIFE, QUICK, HEIR, LATE };
#define KEEPS(rule) (!rules[rule].dropped)

static int max_forgets, max_ballots;

static int count(unsigned set)
{
    return __builtin_popcount(set);
}

static int majority(unsigned votes, unsigned list)
{
    return 2 * count(votes & list) > count(list);
}

static int is_joint(int list)
{
    return epoch_of[list] % 2;
}

static int bit(int i)
{
    return 1 << i;
}

/* ---- states that are to be looked at ---- */

static struct state *next_level;
static size_t next_len, next_cap;

static uint64_t hash(const struct state *s)
{
    const uint8_t *bytes = (const uint8_t *)s;
    uint64_t h = 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < sizeof(*s); i++)
        h = (h ^ bytes[i]) * 0x100000001B3u, h ^= h >> 29;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

static void emit(const struct state *s)
{
    if (!seen_add(hash(s)))
        return;
    if (next_len == next_cap) {
        next_cap = next_cap ? 2 * next_cap : 1024;
        next_level = seen_need(realloc(next_level, next_cap * sizeof(*next_level)));
    }
    next_level[next_len++] = *s;
}

/* ---- servers ---- */

static void tick(struct state s)
{
    for (int i = 0; i < SERVERS; i++)
        if (s.servers[i].is == QUARANTINED)
            s.servers[i].aged = 1;
    for (int c = 0; c < CHANGERS; c++) {
        if (s.changers[c].phase == WAIT)
            s.changers[c].aged = 1;
        if (s.changers[c].phase == PREPARE && KEEPS(QUICK))
            s.changers[c] = (struct changer){0};
    }
    emit(&s);
}

/* Whether a server other than i has forgotten and does not vote yet. */
static int other_forgot(const struct state *s, int i)
{
    for (int k = 0; k < SERVERS; k++)
        if (k != i && s->servers[k].is == QUARANTINED &&
            (k != NEWCOMER || s->servers[k].life))
            return 1;
    return 0;
}

static void forget(struct state s, int i)
{
    struct server *sv = &s.servers[i], was = *sv;
    if (sv->is != ADMITTED || s.forgot == max_forgets || other_forgot(&s, i))
        return;
    s.forgot++;
    *sv = (struct server){.is = QUARANTINED, .life = (uint8_t)(was.life + 1)};
    if (!KEEPS(FRESH)) {
        sv->seen_list = was.seen_list;
        sv->seen = was.seen;
        sv->seen_promised = was.seen_promised;
    }
    emit(&s);
}

/* Whoever is to admit server i sees server k. */
static void observe(struct state s, int i, int k)
{
    struct server *sv = &s.servers[i];
    const struct server *other = &s.servers[k];
    int list = other->list;
    int now = sv->is == QUARANTINED && (sv->aged || !KEEPS(LATE));
    if ((!now && KEEPS(FRESH)) || other->is != ADMITTED || !list ||
        !((old_of[list] | new_of[list]) & bit(i)))
        return;
    if (sv->seen_list != list) {
        sv->seen_list = (uint8_t)list;
        sv->seen = sv->seen_promised = sv->seen_accepted = 0;
    }
    sv->seen |= (uint8_t)bit(k);
    if (other->promised > sv->seen_promised)
        sv->seen_promised = other->promised;
    if (other->accepted > sv->seen_accepted)
        sv->seen_accepted = other->accepted;
    emit(&s);
}

/* All others, of both lists, are there and in quarantine, but some that have the list. */
static int nobody_else(const struct state *s, int i, int list)
{
    int some = 0;
    for (int k = 0; k < SERVERS; k++) {
        const struct server *other = &s->servers[k];
        if (k == i || !((old_of[list] | new_of[list]) & bit(k)) ||
            other->is == QUARANTINED)
            continue;
        if (other->is != ADMITTED || other->list != list)
            return 0;
        some = 1;
    }
    return some;
}

static void admit(struct state s, int i)
{
    struct server *sv = &s.servers[i];
    int list = sv->seen_list;
    if (sv->is != QUARANTINED || !sv->aged || !list ||
        !((old_of[list] | new_of[list]) & bit(i)))
        return;
    int may = majority(sv->seen & ~bit(i), old_of[list]) || nobody_else(&s, i, list);
    if (!KEEPS(STRICT))
        may = majority(sv->seen | bit(i), new_of[list]);
    if (!may)
        return;
    *sv = (struct server){
        .is = ADMITTED,
        .list = (uint8_t)list,
        .life = sv->life,
        .promised = KEEPS(HEIR) ? sv->seen_promised : 0,
        .accepted = is_joint(list) ? sv->seen_accepted : 0
    };
    emit(&s);
}

/* A client that knows the newer list of server k tells server i. */
static void catch_up(struct state s, int i, int k)
{
    struct server *sv = &s.servers[i];
    const struct server *other = &s.servers[k];
    int list = other->list;
    if (sv->is != ADMITTED || (other->is != ADMITTED && other->is != RETIRED) ||
        epoch_of[list] <= epoch_of[sv->list])
        return;
    sv->list = (uint8_t)list;
    sv->accepted = 0;
    if (!((new_of[list] | (is_joint(list) ? old_of[list] : 0)) & bit(i)))
        sv->is = RETIRED;
    emit(&s);
}

/* ---- changers ---- */

static int is_old(const struct server *sv)
{
    return sv->is == ADMITTED && epoch_of[sv->list] <= epoch_of[JOINT_A];
}

static void prepare(struct state s, int c, int i)
{
    struct changer *ch = &s.changers[c];
    struct server *sv = &s.servers[i];
    if (i >= OLD_ONES || (ch->prepared & bit(i)) || !is_old(sv) ||
        (KEEPS(BALLOTS) && sv->promised >= ch->ballot))
        return;
    if (sv->promised < ch->ballot)
        sv->promised = ch->ballot;
    ch->prepared |= (uint8_t)bit(i);
    ch->life[i] = sv->life;
    if (is_joint(sv->list) && sv->accepted >= ch->best && KEEPS(READ)) {
        ch->best = sv->accepted;
        ch->wish = sv->list;
    }
    if (majority(ch->prepared, old_of[ABC])) {
        ch->phase = ACCEPT;
        if (!ch->wish)
            ch->wish = (uint8_t)(JOINT_A + c);
    }
    emit(&s);
}

static void accept(struct state s, int c, int i)
{
    struct changer *ch = &s.changers[c];
    struct server *sv = &s.servers[i];
    if (!(ch->prepared & bit(i)) || (ch->accepted & bit(i)) || !is_old(sv) ||
        (KEEPS(LIFE) && sv->life != ch->life[i]) ||
        (KEEPS(BALLOTS) && sv->promised > ch->ballot))
        return;
    sv->promised = sv->accepted = ch->ballot;
    sv->list = ch->wish;
    ch->accepted |= (uint8_t)bit(i);
    ch->life[i] = sv->life;
    if (majority(ch->accepted, old_of[ABC]))
        ch->phase = WAIT;
    emit(&s);
}

static void begin_writing(struct changer *ch)
{
    *ch = (struct changer){
        .phase = WRITE,
        .ballot = ch->ballot,
        .wish = (uint8_t)(ch->wish + DBC - JOINT_A)
    };
}

static void verify(struct state s, int c, int i)
{
    struct changer *ch = &s.changers[c];
    const struct server *sv = &s.servers[i];
    if (!(ch->accepted & bit(i)) || (ch->verified & bit(i)) || sv->is != ADMITTED ||
        sv->list != ch->wish || sv->life != ch->life[i])
        return;
    ch->verified |= (uint8_t)bit(i);
    /* Those that stay must be more than a majority can miss. */
    if (majority(ch->verified, old_of[ABC]) &&
        count(ch->verified & new_of[ch->wish]) >= 2)
        begin_writing(ch);
    emit(&s);
}

static void write_list(struct state s, int c, int i)
{
    struct server *sv = &s.servers[i];
    int list = s.changers[c].wish;
    if (sv->is != ADMITTED || epoch_of[sv->list] >= epoch_of[list])
        return;
    sv->list = (uint8_t)list;
    sv->accepted = 0;
    if (!(new_of[list] & bit(i)))
        sv->is = RETIRED;
    emit(&s);
}

static void wait_over(struct state s, int c)
{
    struct changer *ch = &s.changers[c];
    if (!ch->aged)
        return;
    if (KEEPS(VERIFIED))
        ch->phase = VERIFY, ch->aged = 0;
    else
        begin_writing(ch);
    emit(&s);
}

static void begin(struct state s, int c)
{
    if (s.ballots == max_ballots)
        return;
    s.ballots++;
    s.changers[c] = (struct changer){.phase = PREPARE, .ballot = s.ballots};
    if (!KEEPS(JOINT)) {
        s.changers[c].phase = WRITE;
        s.changers[c].wish = (uint8_t)(DBC + c);
    }
    emit(&s);
}

static void die(struct state s, int c)
{
    s.changers[c] = (struct changer){0};
    emit(&s);
}

static void change(const struct state *s, int c)
{
    int phase = s->changers[c].phase;
    if (phase == IDLE)
        begin(*s, c);
    else
        die(*s, c);
    if (phase == WAIT)
        wait_over(*s, c);
    for (int i = 0; i < SERVERS; i++) {
        if (phase == PREPARE)
            prepare(*s, c, i);
        else if (phase == ACCEPT)
            accept(*s, c, i);
        else if (phase == VERIFY)
            verify(*s, c, i);
        else if (phase == WRITE)
            write_list(*s, c, i);
    }
}

/* ---- the search ---- */

static void all_steps(const struct state *s)
{
    tick(*s);
    for (int i = 0; i < SERVERS; i++) {
        forget(*s, i);
        if (s->servers[i].is == ABSENT) {
            struct state t = *s;
            t.servers[i].is = QUARANTINED;
            emit(&t);
        }
        admit(*s, i);
        for (int k = 0; k < SERVERS; k++)
            if (k != i) {
                observe(*s, i, k);
                catch_up(*s, i, k);
            }
    }
    for (int c = 0; c < CHANGERS; c++)
        change(s, c);
}

static int wins(const struct state *s, int list)
{
    unsigned have = 0;
    for (int i = 0; i < SERVERS; i++)
        if (s->servers[i].is == ADMITTED && s->servers[i].list == list)
            have |= (unsigned)bit(i);
    return majority(have, old_of[list]) && majority(have, new_of[list]);
}

static int violated(const struct state *s)
{
    int n = 0;
    for (int list = ABC; list < LISTS; list++)
        n += wins(s, list);
    return n > 1;
}

static void tell(const char *verdict, int depth, const struct state *s)
{
    static const char *const is[] = {"absent", "in quarantine", "admitted", "retired"};
    printf("%s, %llu states, depth %d\n", verdict, (unsigned long long)seen_count, depth);
    for (int i = 0; s && i < SERVERS; i++)
        printf("  %c %s, list %s, forgot %d times\n", 'A' + i, is[s->servers[i].is],
               list_names[s->servers[i].list], s->servers[i].life);
}

static void search(uint64_t max_states)
{
    struct state s = {0};
    for (int i = 0; i < OLD_ONES; i++)
        s.servers[i] = (struct server){.is = ADMITTED, .list = ABC};
    emit(&s);
    for (int depth = 0; next_len; depth++) {
        struct state *level = next_level;
        size_t len = next_len;
        next_level = NULL;
        next_len = next_cap = 0;
        for (size_t i = 0; i < len; i++) {
            if (violated(&level[i])) {
                tell("counterexample", depth, &level[i]);
                return;
            }
            all_steps(&level[i]);
        }
        free(level);
        if (seen_count > max_states) {
            tell("bounded", depth, NULL);
            return;
        }
        if (!next_len)
            tell("holds", depth, NULL);
    }
}

static void drop(const char *name)
{
    for (struct rule *r = rules; r->name; r++)
        if (!strcmp(r->name, name)) {
            r->dropped = 1;
            return;
        }
    printf("no rule %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        puts("views FORGETS BALLOTS [MILLIONS [RULE...]]");
        return 2;
    }
    max_forgets = atoi(argv[1]);
    max_ballots = atoi(argv[2]);
    for (int i = 4; i < argc; i++)
        drop(argv[i]);
    search(1000000 * (uint64_t)(argc > 3 ? atoi(argv[3]) : 100));
    return 0;
}
