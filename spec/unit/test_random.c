/* test_random.c - random schedules: answers in any order and any pieces, connections
 * that break anywhere, servers that freeze, fail and forget their scripts, users that
 * change their minds, leases that are kept by the watchdog or left to themselves. Each
 * schedule is made from one seed; the same seed makes the same one.
 *
 * What must hold at every step: a lease that says it is valid has its key on a majority
 * of the servers, and it is the only one that says so; one that is lost does not. A
 * fencing token is larger than all that were issued before its attempt began, and nobody
 * else's. And at the end: nothing is left behind, on the servers or in memory.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"

enum {
    DEALS = 5,
    KEYS = 2,
    STEPS = 220,
    TOKENS = 64,             /* issued last for a key, to be compared with */
    CLEAN_MS = 10000         /* the longest back-off, and some retries */
};

/* A user's dealings with one lease. */
struct deal {
    struct hold h;
    rl_round *extend, *release;
    int key;
    int64_t above;           /* the largest token issued before it began */
    int64_t token;           /* as seen when it was granted */
};

struct tokens {
    int64_t seen[TOKENS], largest;
    unsigned n;
};

struct chaos {
    struct sim *s;
    struct rng rng;
    struct deal deal[DEALS];
    struct tokens issued[KEYS];
    int fenced;
    int tidy;                /* long leases, no stragglers: nothing but the clean-up
                                can have removed a key at the end */
    int broken;              /* a guarantee was broken */
    int granted;
    int renewals;
    int passed;              /* imports begun */
};

static const char *const key_names[KEYS] = {"a", "b"};

static const char *const troubles[] = {
    "-OOM command not allowed\r\n", "-BUSY running a script\r\n", "+OK\r\n",
    "-ERR what\r\n", "garbage\r\n", ":-9\r\n", "*65\r\n", "$-1\r\n",
};

enum { TROUBLES = sizeof(troubles) / sizeof(troubles[0]) };

/* ---- what must hold ---- */

static void check_token(struct chaos *c, struct deal *d)
{
    struct tokens *t = &c->issued[d->key];
    const rl_lease *lease = d->h.lease;
    if (!c->fenced || !lease || lease->state != LEASE_HELD || lease->token == d->token)
        return;
    CHECK_INT(d->token, 0);              /* it keeps the one it got */
    CHECK(lease->token > d->above);
    for (unsigned k = 0; k < t->n && k < TOKENS; k++)
        CHECK(t->seen[k] != lease->token);
    d->token = lease->token;
    t->seen[t->n++ % TOKENS] = d->token;
    if (d->token > t->largest)
        t->largest = d->token;
}

static void check_now(struct chaos *c)
{
    struct sim *s = c->s;
    int valid[KEYS] = {0};
    for (int k = 0; k < DEALS; k++) {
        struct deal *d = &c->deal[k];
        check_token(c, d);
        if (d->h.lease && d->h.lease->lost && lease_remaining_ms(d->h.lease, s->now_ms))
            c->broken = 1;
        if (!d->h.lease || lease_remaining_ms(d->h.lease, s->now_ms) <= 0)
            continue;
        uint32_t mine = sim_mine(s, key_names[d->key], d->h.lease);
        if (++valid[d->key] > 1 || __builtin_popcount(mine) < quorum_size(s->n))
            c->broken = 1;
    }
}

static void tick(struct chaos *c)
{
    struct sim *s = c->s;
    sim_tick(s);
    for (int k = 0; k < DEALS; k++) {
        const rl_round *round = c->deal[k].h.round;
        const rl_lease *lease = c->deal[k].h.lease;
        if (round && !round->outcome)
            CHECK(s->now_ms < round->cap_ms);
        if (lease && lease->renewal)
            CHECK(s->now_ms < lease->renewal->cap_ms);
        if (lease && lease->state == LEASE_HELD && lease->epoch == s->core.epoch)
            CHECK_INT(lease->lost != RL_NOT_LOST, s->now_ms >= lease->deadline_ms);
        c->renewals += lease && lease->renewal;
    }
}

/* ---- what users do ---- */

static void forget_round(rl_round **round)
{
    if (*round)
        round_free(*round);
    *round = NULL;
}

/* In tidy schedules a lease that was granted is released before it is dropped. */
static void drop_deal(struct chaos *c, struct deal *d)
{
    if (c->tidy && d->h.lease && d->h.lease->state == LEASE_HELD)
        round_free(holder_release(d->h.lease, c->s->now_ms));
    forget_round(&d->extend);
    forget_round(&d->release);
    sim_drop(c->s, &d->h);
}

static int64_t some_lease_ms(struct chaos *c)
{
    if (c->tidy)
        return 60000 + rng_below(&c->rng, 60000);
    return 5 + rng_below(&c->rng, rng_one_in(&c->rng, 3) ? 50 : 3000);
}

/* Its attempt begins now. */
static void begins(struct chaos *c, struct deal *d)
{
    d->above = c->issued[d->key].largest;
    d->token = 0;
}

/* Another process takes a hold over, with its token; sometimes two try to, or the taker is
 * gone before it knows. */
static void pass_on(struct chaos *c, struct deal *d)
{
    struct sim *s = c->s;
    struct deal *e = &c->deal[rng_below(&c->rng, DEALS)];
    /* In tidy schedules no value may stay where the import did not arrive. */
    if (c->tidy || d->h.lease->state != LEASE_HELD ||
        lease_remaining_ms(d->h.lease, s->now_ms) <= 0)
        return;
    struct parcel p = sim_export(s, d->h.lease);
    d->h.lease = NULL;
    drop_deal(c, d);
    d->h = sim_import(s, key_names[d->key], &p, some_lease_ms(c));
    c->passed++;
    if (!e->h.lease) {
        *e = (struct deal){.key = d->key, .token = d->token, .above = d->above};
        e->h = sim_import(s, key_names[d->key], &p, some_lease_ms(c));
    }
    if (rng_one_in(&c->rng, 8))
        drop_deal(c, d);
}

static void use(struct chaos *c)
{
    struct sim *s = c->s;
    struct deal *d = &c->deal[rng_below(&c->rng, DEALS)];
    if (!d->h.lease) {
        d->key = rng_below(&c->rng, KEYS);
        d->h = sim_acquire(s, key_names[d->key], some_lease_ms(c),
                           rng_below(&c->rng, 800));
        begins(c, d);
        return;
    }
    if (d->h.round && d->h.round->outcome) {
        c->granted += d->h.round->outcome == RL_GRANTED;
        if (rng_one_in(&c->rng, 2))
            forget_round(&d->h.round);
    }
    switch (rng_below(&c->rng, 10)) {
    case 8:
    case 9:
        pass_on(c, d);
        break;
    case 0:
        forget_round(&d->extend);
        d->extend = holder_extend(d->h.lease, some_lease_ms(c), s->now_ms);
        break;
    case 1:
        forget_round(&d->release);
        d->release = holder_release(d->h.lease, s->now_ms);
        break;
    case 2:
        drop_deal(c, d);
        break;
    case 3:
        round_free(sim_ask(s, key_names[d->key]));
        break;
    case 4:
    case 5:
    case 6:
        watchdog_start(d->h.lease, some_lease_ms(c),
                       rng_one_in(&c->rng, 2) ? 0 : rng_below(&c->rng, 5000), s->now_ms);
        break;
    default:
        round_free(subscription_pause(&s->core, NULL, 0, rng_below(&c->rng, 100), s->now_ms));
    }
}

/* ---- what the network and the servers do ---- */

static void fault(struct chaos *c)
{
    struct sim *s = c->s;
    int i = rng_below(&c->rng, s->n);
    struct sim_server *sv = &s->server[i];
    int script = rng_below(&c->rng, SIM_SCRIPTS);
    const char *trouble =
        rng_one_in(&c->rng, 2) ? NULL : troubles[rng_below(&c->rng, TROUBLES)];
    switch (rng_below(&c->rng, 9)) {
    case 0:
        sim_cut(s, i);
        break;
    case 1:
        sim_cut_after(s, i);
        break;
    case 2:
        sv->refuses = rng_one_in(&c->rng, 3);
        break;
    case 3:
        sv->hushed = rng_one_in(&c->rng, 3);
        break;
    case 4:
        sv->frozen = rng_one_in(&c->rng, 2);
        break;
    case 5:
        sv->holds = rng_one_in(&c->rng, 2);
        break;
    case 6:
        sv->say[script] = rng_one_in(&c->rng, 8) ? "-NOSCRIPT no\r\n" : trouble;
        sv->instead[script] = NULL;
        break;
    case 7:
        sv->say[script] = NULL;              /* who has executed it does not say BUSY */
        sv->instead[script] = trouble && !strncmp(trouble, "-BUSY", 5) ? NULL : trouble;
        break;
    default:
        sv->room = rng_one_in(&c->rng, 2) ? SIZE_MAX : (size_t)rng_below(&c->rng, 300);
        if (rng_one_in(&c->rng, 4))
            memset(&sv->loaded, 0, sizeof(sv->loaded));
    }
}

static void move_bytes(struct chaos *c)
{
    struct sim *s = c->s;
    int i = rng_below(&c->rng, s->n);
    sim_clear_logs(s);
    switch (rng_below(&c->rng, 6)) {
    case 0:
        sim_open(s, i);
        break;
    case 1:
        sim_execute(s, i, 1 + rng_below(&c->rng, 3));
        break;
    case 2:
        sim_deliver(s, i, 1 + (size_t)rng_below(&c->rng, 60));
        break;
    case 3:
        sim_haunt(s, i, 1);
        break;
    case 4:
        sim_serve(s, i);
        sim_open(s, i);
        sim_serve(s, i);
        sim_execute(s, i, 20);
        sim_deliver(s, i, SIZE_MAX);
        break;
    default:
        sim_run(s);
    }
    /* Connections are closed and opened as soon as the core says so. */
    for (i = 0; i < s->n; i++)
        sim_serve(s, i);
}

static void pass_time(struct chaos *c)
{
    static const int most[] = {2, 2, 2, 10, 60, 400};
    sim_skip(c->s, rng_below(&c->rng, most[rng_below(&c->rng, 6)]));
    check_now(c);
    if (!rng_one_in(&c->rng, 4))         /* a driver may be late */
        tick(c);
    for (int i = 0; i < c->s->n; i++)
        sim_serve(c->s, i);
}

static void one_step(struct chaos *c)
{
    switch (rng_below(&c->rng, 12)) {
    case 0:
    case 1:
        use(c);
        break;
    case 2:
        if (rng_one_in(&c->rng, 2))
            fault(c);
        break;
    case 3:
    case 4:
    case 5:
        pass_time(c);
        break;
    default:
        move_bytes(c);
    }
    if (!c->tidy && rng_one_in(&c->rng, 400))
        sim_fork(c->s);
    check_now(c);
}

/* ---- one schedule ---- */

static void begin(struct chaos *c, uint64_t seed)
{
    *c = (struct chaos){.rng = {seed}};
    int n = 1 + rng_below(&c->rng, 7);
    c->tidy = rng_one_in(&c->rng, 2);
    c->s = rng_one_in(&c->rng, 2) ? sim_up(n) : sim_new(n);
    c->s->core.random = seed | 1;
    if (!c->tidy && rng_one_in(&c->rng, 2))    /* what is lost stays, then */
        c->s->core.options.lock_delay_ms = rng_below(&c->rng, 500);
    c->fenced = rng_one_in(&c->rng, 2);
    if (c->fenced)
        sim_fence(c->s);
    for (int i = 0; i < n; i++)
        c->s->server[i].lingers = !c->tidy && rng_one_in(&c->rng, 2);
}

/* All is well again: everything that was begun ends, and leaves nothing. */
static void end(struct chaos *c)
{
    struct sim *s = c->s;
    for (int i = 0; i < s->n; i++) {
        s->server[i].lingers = 0;
        while (sim_haunt(s, i, SIM_LOG) && !s->server[i].frozen)
            ;
    }
    for (int k = 0; k < DEALS; k++)
        drop_deal(c, &c->deal[k]);
    sim_heal(s);
    sim_clear_logs(s);
    sim_advance(s, CLEAN_MS);
    for (int k = 0; k < KEYS; k++)
        CHECK_INT(sim_with(s, key_names[k]), 0);
    CHECK(s->core.active == NULL);
    CHECK_INT(sim_live(s), 0);
    sim_finish(s);
}

static void schedules_keep_the_promises(void)
{
    int granted = 0, renewals = 0, passed = 0, runs = test_runs(2000);
    for (int k = 0; k < runs && !test_failures(); k++) {
        uint64_t seed = test_seed() + (uint64_t)k;
        struct chaos c;
        test_note("replay with -s %llu", (unsigned long long)seed);
        begin(&c, seed);
        for (int step = 0; step < STEPS && !c.broken; step++)
            one_step(&c);
        CHECK(!c.broken);
        granted += c.granted;
        renewals += c.renewals;
        passed += c.passed;
        end(&c);
    }
    CHECK(granted > runs / 2);           /* they are not only failing */
    CHECK(renewals > runs / 2);
    CHECK(passed > runs / 10);
}

/* ---- a checker that never fails proves nothing ---- */

/* How many of these schedules find out that the servers are broken. */
static int caught(int runs, int greedy, int hasty)
{
    int found = 0;
    for (int k = 0; k < runs; k++) {
        struct chaos c;
        test_note("replay with -s %llu, greedy %d, hasty %d",
                  (unsigned long long)(test_seed() + (uint64_t)k), greedy, hasty);
        begin(&c, test_seed() + (uint64_t)k);
        c.s->greedy = greedy;
        c.s->hasty = hasty;
        for (int step = 0; step < STEPS && !c.broken; step++)
            one_step(&c);
        found += c.broken;
        end(&c);
    }
    return found;
}

static void broken_servers_are_caught(void)
{
    int runs = test_runs(200), few = runs < 200;       /* few may find none, by chance */
    CHECK_INT(caught(runs, 0, 0), 0);
    CHECK(few || caught(runs, 1, 0) * 20 >= runs);
    CHECK(few || caught(runs, 0, 1) * 20 >= runs);
}

SUITE(random, T(schedules_keep_the_promises), T(broken_servers_are_caught));
