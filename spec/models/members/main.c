/* main.c - episodes of random steps: who holds a lock, and which tokens are given out, while
 * servers forget and the list of servers changes.
 *
 *   members EPISODES SEED SERVERS CHANGES [RULE]
 *
 * CHANGES: replace, add, remove, or any; RULE: is dropped.
 *
 * Every attempt, extension and token is checked: two holders at once, or a token that
 * repeats or goes back, are a counterexample, which ends the run. One server forgets at a
 * time: the next one only when it votes again.
 */
#include "world.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct server servers[SERVERS];
struct client clients[CLIENTS];
struct changer changers[CHANGERS];
int now, plain, in_use, places, kind_of_change;
long wins, extensions, joints, changes, forgets, admissions, unseals;

static const char *const rules[RULES] = {
    [VIEW] = "view",                     /* a yes counts under the list of its server */
    [EXTEND_VIEW] = "extend_view",       /* that of an extension, too */
    [OLD_MAJORITY] = "old_majority",     /* under a joint list */
    [JOINT] = "joint",                   /* there is a list between */
    [VERIFY] = "verify",                 /* after the wait */
    [BALLOTS] = "ballots",               /* no accept below a promise; what was accepted wins */
    [REPLID] = "replid",                 /* a failover and back is noticed */
    [STRICT] = "strict",                 /* a majority of others admits */
    [CONSUME] = "consume",               /* a seal opens once */
    [SEAL_SILENT] = "seal_silent",       /* who is sealed has no votes */
    [TAUGHT] = "taught",                 /* floors are learnt from others, */
    [TAUGHT_ENOUGH] = "taught_enough",   /* N - q + 1 of them */
    [KEPT] = "kept",                     /* N - q + 1 that stay have the joint list */
    [LEVEL] = "level",                   /* their tokens are told to a majority that stays */
    [GUARD_TIME] = "guard_time",         /* before the new list is written */
    [MEMORY] = "memory",                 /* accept only where nothing was forgotten since */
    [NEW_MAJORITY] = "new_majority",     /* under a joint list */
    [SEED_VIEW] = "seed_view",           /* floors are learnt within one list */
    [FRESH] = "fresh",                   /* others are looked at after the quarantine */
    [PROGRESS] = "progress",             /* what was observed is added once */
    [HEIR] = "heir",                     /* who is admitted takes promises over */
    [QUARANTINE_SILENT] = "quarantine_silent"    /* its extensions do not count */
};
static int dropped = -1;
static const char *violation;
static uint64_t seed;
static int ids;

int keeps(enum rule rule)
{
    return (int)rule != dropped;
}

int draw(int n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)((seed >> 20) % (uint64_t)n);
}

int fresh_id(void)
{
    return ++ids;
}

int count(unsigned set)
{
    return __builtin_popcount(set);
}

int has(unsigned set, int i)
{
    return set >> i & 1;
}

int majority(unsigned votes, unsigned set)
{
    return 2 * count(votes & set) > count(set);
}

int is_joint(const struct list *list)
{
    return list->epoch % 2;
}

int quorum(const struct list *list, unsigned votes)
{
    int before = majority(votes, list->before), after = majority(votes, list->after);
    if (!is_joint(list))
        return after;
    return (before || !keeps(OLD_MAJORITY)) && (after || !keeps(NEW_MAJORITY));
}

int same_list(const struct list *a, const struct list *b)
{
    return a->epoch == b->epoch && a->before == b->before && a->after == b->after;
}

int same_mark(const struct mark *a, const struct mark *b)
{
    return a->is == b->is && a->memory == b->memory && a->life == b->life &&
           a->extra == b->extra && (!keeps(VIEW) || same_list(&a->list, &b->list));
}

int alive(int s)
{
    return servers[s].now.mark.life ==
           (keeps(REPLID) ? servers[s].life : servers[s].process);
}

int votes(int s)
{
    return alive(s) && servers[s].now.mark.is == ADMITTED;
}

void violate(const char *what)
{
    if (!violation)
        violation = what;
}

/* ---- what goes wrong; how much of it is drawn for each episode ---- */

enum { SNAPSHOT, RESTART, FAILBACK, SEAL, SEALED_RESTART, REPLAY, CUT, FAULTS };
static int weights[FAULTS];
static int ticks, messages, faults, changing, looks, losses, duplicates, releases, idle;

static unsigned random_reach(void)
{
    unsigned reach = 0, all = (1u << places) - 1;
    if (!draw(3))
        return all;
    for (int n = places / 2 + 1 + draw(2); count(reach) < n && reach != all;)
        reach |= 1u << draw(places);
    return reach;
}

static int other_forgot(int s)
{
    for (int i = 0; i < places; i++)
        if (i != s && servers[i].forgot)
            return 1;
    return 0;
}

/* A new life, which has this memory; NULL: none. */
static void come_back(int s, const struct memory *memory, int new_process)
{
    struct server *sv = &servers[s];
    if (other_forgot(s) || sv->forgot || sv->now.mark.is == NOTHING)
        return;
    sv->life = fresh_id();
    if (new_process)
        sv->process = sv->life;
    sv->forgot = 1;
    forgets++;
    sv->now = memory ? *memory : (struct memory){.counter = -1};
}

static void seal_it(int s)
{
    struct server *sv = &servers[s];
    if (seal(s) && draw(4)) {
        sv->sealed = sv->now;
        sv->has_sealed = 1;
    }
}

static void fault(void)
{
    int s = draw(places), total = 0, kind = 0;
    struct server *sv = &servers[s];
    for (int i = 0; i < FAULTS; i++)
        total += weights[i];
    if (!total)
        return;
    for (int r = draw(total); r >= weights[kind]; kind++)
        r -= weights[kind];
    if (kind == SNAPSHOT && (sv->now.mark.is == ADMITTED || !draw(20))) {
        sv->snapshot = sv->now;
        sv->has_snapshot = 1;
    } else if (kind == RESTART) {
        come_back(s, draw(2) && sv->has_snapshot ? &sv->snapshot : NULL, 1);
    } else if (kind == FAILBACK && sv->has_snapshot) {
        come_back(s, &sv->snapshot, 0);
    } else if (kind == SEAL) {
        seal_it(s);
    } else if (kind == SEALED_RESTART && sv->now.mark.is == SEALED && alive(s)) {
        sv->process = sv->life = fresh_id();
    } else if (kind == REPLAY && sv->has_sealed) {
        come_back(s, &sv->sealed, 1);
    } else if (kind == CUT) {
        int who = draw(CLIENTS + CHANGERS);
        *(who < CLIENTS ? &clients[who].reach : &changers[who - CLIENTS].reach) =
            random_reach();
    }
}

static void draw_conditions(void)
{
    static const int usual[FAULTS] = {10, 8, 6, 8, 12, 6, 12};
    for (int i = 0; i < FAULTS; i++)
        weights[i] = draw(2) ? usual[i] * (1 + draw(3)) : 0;
    if (!draw(3))
        weights[RESTART] = weights[FAILBACK] = weights[REPLAY] = 0;
    plain = !draw(4);
    ticks = 4 + draw(draw(2) ? 20 : 120);
    messages = 300 + draw(200);
    faults = draw(3) ? 3 + draw(40) : 1;
    changing = draw(8) ? 30 + draw(200) : 0;
    looks = 60 + draw(250);
    losses = draw(2) ? 10 + draw(30) : 0;
    duplicates = draw(2) ? 10 + draw(30) : 0;
    in_use = 2 + draw(2);
    releases = draw(3) ? 5 : 30;
    idle = kind_of_change == REMOVE || draw(2) ? 20 : 0;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].deaf = !draw(6);
        clients[i].reach = draw(3) ? random_reach() : (1u << places) - 1;
    }
    for (int i = 0; i < CHANGERS; i++)
        changers[i].reach = draw(2) ? random_reach() : (1u << places) - 1;
}

static void tick(void)
{
    now++;
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i].is == HOLDING && clients[i].until <= now)
            clients[i].is = IDLE;
}

static void step(void)
{
    int x = draw(1000), client = draw(in_use);
    if (x < ticks) {
        tick();
    } else if ((x -= ticks) < messages && deliver(duplicates, losses)) {
        return;
    } else if ((x -= messages) < faults) {
        fault();
    } else if ((x -= faults) < changing) {
        change(draw(CHANGERS));
    } else if ((x -= changing) < looks) {
        int s = draw(places);
        if (draw(8))
            look(client, s);
        if (draw(2))
            guard(client, s);
    } else if (!plain && draw(100) < 15) {
        for (int i = 0; i < 4; i++)
            learn(client);
    } else if (!idle || !draw(idle)) {
        act(client, releases);
    }
}

/* ---- episodes ---- */

static void begin_episode(int n)
{
    struct list all = {2, (1u << n) - 1, (1u << n) - 1};
    memset(servers, 0, sizeof(servers));
    memset(clients, 0, sizeof(clients));
    memset(changers, 0, sizeof(changers));
    forget_messages();
    forget_tokens();
    now = 0;
    ids = 0;
    for (int s = 0; s < places; s++) {
        struct server *sv = &servers[s];
        sv->life = sv->process = fresh_id();
        sv->now.counter = -1;
        if (s < n) {
            sv->now.mark = (struct mark){ADMITTED, fresh_id(), sv->life, 0, all};
            sv->now.floor_of = sv->now.mark.memory;
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].reach = (1u << places) - 1;
        clients[i].list = all;
        clients[i].pupil = -1;
        for (int s = 0; s < n; s++)
            look(i, s);
    }
    draw_conditions();
}

static int find(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return i;
    printf("there is no %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"replace", "add", "remove", "any"};
    enum { STEPS = 1500 };
    if (argc < 5) {
        puts("members EPISODES SEED SERVERS CHANGES [RULE]");
        return 2;
    }
    long limit = atol(argv[1]), episode = 0;
    uint64_t first = strtoull(argv[2], NULL, 10);
    int n = atoi(argv[3]);
    places = n + 1;
    kind_of_change = find(kinds, ANY + 1, argv[4]);
    dropped = argc > 5 ? find(rules, RULES, argv[5]) : -1;
    while (!violation && episode < limit) {
        seed = (first * 1000003 + (uint64_t)episode++) * 0x9E3779B97F4A7C15u + 12345;
        for (int i = 0; i < 5; i++)
            draw(2);
        begin_episode(n);
        for (int i = 0; i < STEPS && !violation; i++)
            step();
    }
    printf("%s: %ld episodes, %ld holds, %ld extensions, %ld changes begun, %ld done, "
           "%ld servers forgot, %ld admitted, %ld unsealed\n",
           violation ? violation : "holds", episode, wins, extensions, joints, changes,
           forgets, admissions, unseals);
    return 0;
}
