/* threads.c - one client shared by many threads, against real servers.
 *
 *   threads [-t seconds] [-s seed] [-c ca_file] port...
 *
 * With a ca_file the last port is one of TLS.
 *
 * To be run in the top directory, under a sanitizer, while somebody kills and freezes
 * servers: it is content with any outcome that this can have, but not with two holders
 * of one name. A server that forgot its locks must stay away for LEASE_MAX_MS.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lock_script.h"
#include "redlock.h"
#include "test.h"

enum {
    WORKERS = 6,
    NAMES = 5,
    LEASE_MIN_MS = 100,
    LEASE_MAX_MS = 400,
    MAIN_LEASE_MS = 60000,
    FORKS = 9,
    SECOND_MAX_MS = 30,           /* how long a second client is open */
    LOOPS = 2,                    /* event loops, which share a client */
    IN_FLIGHT = 10,               /* dealings of one loop */
    STUCK_S = 90
};

struct lock {
    char name[8];
    pthread_mutex_t mutex;
    rl_lease *holder;             /* as far as we know */
};

struct worker {
    pthread_t thread;
    struct rng rng;
    pthread_mutex_t mutex;
    rl_lease *offered;            /* an attempt that others may cancel */
};

/* The scripts are registered in this order, in each client. */
enum { ACQUIRE, EXTEND, RELEASE, PEEK, IMPORT, SCRIPTS };

static const char *const script_names[] = {"acquire", "extend", "release", "peek",
                                           "import"};
static const rl_primitive primitive = {ACQUIRE, EXTEND, RELEASE, IMPORT, -1, -1, 0, 0, 0};

/* Everything that is not constant is atomic or behind a mutex: what the sanitizer sees
 * are the races of the library. */
static struct {
    rl_node_options nodes[RL_MAX_NODES];
    int n;
    rl_client *client;
    struct lock locks[NAMES];
    struct worker workers[WORKERS];
    uint64_t seed;
    const char *ca_file;
    _Atomic int stop;
    _Atomic int failed;
    _Atomic int outcomes[RL_CODES];      /* of the workers' attempts */
    _Atomic int seconds;                 /* clients opened and closed */
    _Atomic int looped;                  /* rounds that a loop saw done */
    _Atomic int passed;                  /* holds exported and imported */
} this = {.seed = 1};

/* The threads of the parent are not in the child of a fork, what they allocated is. The
 * sanitizer's library calls this. */
static int in_child;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return in_child;
}

#define EXPECT(cond) expect(!!(cond), __LINE__, #cond)

static int expect(int ok, int line, const char *what)
{
    if (!ok) {
        this.failed++;
        fprintf(stderr, "threads.c:%d: not so: %s\n", line, what);
    }
    return ok;
}

/* ---- calling the library ---- */

static int script(rl_client *c, const char *name)
{
    char text[LOCK_SCRIPT_MAX];
    return rl_script(c, text, lock_script(name, text));
}

static rl_client *open_client(const char *key)
{
    char err[RL_TEXT_MAX];
    const rl_options options = {.timeout_ms = 250,
                                .connect_timeout_ms = 1000,
                                .drift_ppm = 10000,
                                .tls_verify = 1,
                                .ca_file = this.ca_file};
    rl_client *c = rl_open(key, key ? strlen(key) : 0, &options, this.nodes, this.n, err,
                           sizeof(err));
    if (!c) {
        fprintf(stderr, "rl_open: %s\n", err);
        exit(2);
    }
    for (int i = 0; i < SCRIPTS; i++)
        EXPECT(script(c, script_names[i]) == i);
    return c;
}

static rl_round *acquire(rl_client *c, const char *name, int64_t lease_ms,
                         int64_t within_ms, int how, rl_lease **lease)
{
    const rl_bytes key = {name, strlen(name)};
    return rl_acquire(c, &primitive, &key, 1, NULL, 0, NULL, lease_ms, within_ms, -1,
                      how, lease);
}

static int outcome_of(rl_round *round)
{
    int outcome = RL_CLOSED;
    if (!round)
        return outcome;
    while ((outcome = rl_wait(round)) == RL_INTERRUPTED)
        continue;
    rl_round_free(round);
    return outcome;
}

static void pause_ms(int64_t ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Attempts until it is held, in both ways; NULL: not within so long. */
static rl_lease *take(rl_client *c, const char *name, int64_t lease_ms, int64_t ms)
{
    static _Atomic unsigned tries;
    int64_t finish_ms = rl_now_ms() + ms;
    do {
        rl_lease *lease;
        int how = tries++ % 2 ? RL_WAIT : RL_BEGIN;
        rl_round *round = acquire(c, name, lease_ms, 1000, how, &lease);
        if (how == RL_WAIT && !round && lease)
            return lease;
        if (!EXPECT(round))
            return NULL;
        if (outcome_of(round) == RL_GRANTED)
            return lease;
        rl_lease_free(lease, RL_DROP);
        outcome_of(rl_sleep(c, 10, NULL, 0));
    } while (rl_now_ms() < finish_ms);
    return NULL;
}

/* Turns the loop until all nodes are connected: a lease that began on two of three would
 * be lost with the first server. */
static void connect_all(rl_client *c)
{
    int64_t finish_ms = rl_now_ms() + 10000;
    int ready = 0;
    while (ready < this.n && EXPECT(rl_now_ms() < finish_ms)) {
        rl_lease *lease = take(c, "connect", LEASE_MAX_MS, 5000);
        outcome_of(rl_release(lease, RL_WAIT));
        rl_lease_free(lease, RL_DROP);
        ready = 0;
        for (int i = 0; i < this.n; i++) {
            rl_node_info info;
            rl_node_get_info(c, i, &info);
            ready += info.stats.ready;
        }
    }
}

/* ---- the workers ---- */

static void enter(struct lock *lock, rl_lease *lease)
{
    pthread_mutex_lock(&lock->mutex);
    /* In this order: ours was valid all the time from before the first look. */
    int theirs = lock->holder && rl_remaining_ms(lock->holder) > 0;
    int ours = rl_remaining_ms(lease) > 0;
    EXPECT(!(theirs && ours));
    if (ours)
        lock->holder = lease;
    pthread_mutex_unlock(&lock->mutex);
}

static void leave(struct lock *lock, const rl_lease *lease)
{
    pthread_mutex_lock(&lock->mutex);
    if (lock->holder == lease)
        lock->holder = NULL;
    pthread_mutex_unlock(&lock->mutex);
}

static void offer(struct worker *w, rl_lease *lease)
{
    pthread_mutex_lock(&w->mutex);
    w->offered = lease;
    pthread_mutex_unlock(&w->mutex);
}

static void act(struct rng *rng, const struct lock *lock, rl_lease *lease)
{
    const rl_bytes key = {lock->name, strlen(lock->name)};
    int outcome;
    switch (rng_below(rng, 4)) {
    case 0:
        outcome = outcome_of(rl_extend(lease, LEASE_MIN_MS + rng_below(rng, 200)));
        EXPECT(outcome == RL_GRANTED || outcome == RL_NO_QUORUM || outcome == RL_LOST ||
               outcome == RL_NOT_HELD);
        break;
    case 1:
        EXPECT(outcome_of(rl_sleep(this.client, rng_below(rng, 20), NULL, 0)) == RL_GRANTED);
        break;
    case 2:
        outcome = outcome_of(rl_ask(this.client, RL_ASK_MAJORITY, PEEK, &key, 1, NULL, 0, 10000));
        EXPECT(outcome == RL_GRANTED || outcome == RL_NO_QUORUM);
        break;
    case 3:
        pause_ms(rng_one_in(rng, 8) ? LEASE_MAX_MS : rng_below(rng, 20));
        break;
    }
}

static void hold(struct rng *rng, struct lock *lock, rl_lease *lease)
{
    enter(lock, lease);
    if (rng_one_in(rng, 2))
        EXPECT(rl_keep(lease, LEASE_MIN_MS + rng_below(rng, 200),
                       rng_one_in(rng, 4) ? 150 : 0) == 0);
    for (int i = rng_below(rng, 4); i > 0; i--)
        act(rng, lock, lease);
    leave(lock, lease);
    if (rng_one_in(rng, 8))
        return;              /* dropped while it is held */
    rl_round *release = rl_release(lease, RL_WAIT);
    EXPECT(release);
    if (rng_one_in(rng, 4)) {
        rl_round_free(release);
        return;
    }
    int outcome = outcome_of(release);
    EXPECT(outcome == RL_GRANTED || outcome == RL_EXPIRED || outcome == RL_HELD ||
           outcome == RL_UNKNOWN);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct rng *rng = &w->rng;
    while (!this.stop) {
        struct lock *lock = &this.locks[rng_below(rng, NAMES)];
        rl_lease *lease;
        rl_round *round = acquire(
            this.client, lock->name,
            LEASE_MIN_MS + rng_below(rng, LEASE_MAX_MS - LEASE_MIN_MS),
            rng_one_in(rng, 4) ? rng_below(rng, 3) : 1000, RL_BEGIN, &lease);
        if (!EXPECT(round))
            break;
        if (rng_one_in(rng, 10)) {       /* both dropped undecided, in either order */
            int first = rng_one_in(rng, 2);
            if (first)
                rl_round_free(round);
            rl_lease_free(lease, RL_DROP);
            if (!first)
                rl_round_free(round);
            continue;
        }
        offer(w, lease);
        int outcome = outcome_of(round);
        offer(w, NULL);
        this.outcomes[outcome]++;
        if (outcome == RL_GRANTED)
            hold(rng, lock, lease);
        else
            EXPECT(outcome == RL_HELD || outcome == RL_NO_QUORUM ||
                   outcome == RL_EXPIRED || outcome == RL_CANCELLED);
        rl_lease_free(lease, RL_DROP);
        if (outcome == RL_HELD)
            EXPECT(outcome_of(rl_sleep(this.client, rng_below(rng, 6), NULL, 0)) == RL_GRANTED);
    }
    return NULL;
}

/* ---- others ---- */

static void look_at(struct lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    if (lock->holder) {
        int64_t left_ms = rl_remaining_ms(lock->holder);
        int lost = rl_lease_lost(lock->holder);
        EXPECT(left_ms >= 0 && left_ms <= LEASE_MAX_MS);
        EXPECT(!lost || rl_remaining_ms(lock->holder) == 0);
    }
    pthread_mutex_unlock(&lock->mutex);
}

/* Reads whatever can be read, and cancels attempts of others. */
static void *look(void *arg)
{
    struct rng rng = {this.seed + 1000};
    int64_t losses = 0;
    int held = 0;
    (void)arg;
    while (!this.stop) {
        rl_node_info info;
        rl_counters counters;
        int i = rng_below(&rng, this.n);
        look_at(&this.locks[rng_below(&rng, NAMES)]);
        rl_node_get_info(this.client, i, &info);
        EXPECT(info.stats.replies <= info.stats.requests &&
               memchr(info.text, 0, sizeof(info.text)));
        rl_get_counters(this.client, &counters);
        EXPECT(counters.losses >= losses);
        losses = counters.losses;
        EXPECT(losses == 0 || rl_noted(this.client, 0, losses) != 0);
        EXPECT(!rl_noted(this.client, 0, losses + 1000) && !rl_noted(this.client, 0, 0));
        EXPECT(rl_poll(this.client) >= 0);
        rl_hold(this.client, held ^= 1);
        struct worker *w = &this.workers[rng_below(&rng, WORKERS)];
        pthread_mutex_lock(&w->mutex);
        if (w->offered && rng_one_in(&rng, 8))
            rl_round_free(rl_release(w->offered, RL_BEGIN));
        pthread_mutex_unlock(&w->mutex);
        pause_ms(rng_below(&rng, 3));
    }
    rl_hold(this.client, 0);
    return NULL;
}

/* A second client, and what another thread has of it. */
struct second {
    rl_client *client;
    rl_round *acquire, *sleep;
    rl_lease *lease;
};

/* Waits while the client is closed, and gives back the last handles. */
static void *wait_until_closed(void *arg)
{
    const struct second *s = arg;
    int outcome = outcome_of(s->acquire);
    if (outcome == RL_GRANTED)
        EXPECT(rl_keep(s->lease, LEASE_MIN_MS, 0) == 0);
    EXPECT(outcome_of(s->sleep) == RL_CLOSED);
    EXPECT(rl_remaining_ms(s->lease) == 0);
    rl_lease_free(s->lease, RL_DROP);
    return NULL;
}

/* Opens and closes a second client, over and over. */
static void *open_and_close(void *arg)
{
    struct rng rng = {this.seed + 2000};
    (void)arg;
    while (!this.stop) {
        pthread_t waiting;
        struct second s = {.client = open_client(NULL)};
        s.acquire = acquire(s.client, "second", LEASE_MIN_MS, 1000, RL_BEGIN, &s.lease);
        s.sleep = rl_sleep(s.client, 60000, NULL, 0);
        if (!EXPECT(s.acquire && s.sleep))
            break;
        EXPECT(pthread_create(&waiting, NULL, wait_until_closed, &s) == 0);
        pause_ms(rng_below(&rng, SECOND_MAX_MS));
        rl_close(s.client);
        pthread_join(waiting, NULL);
        this.seconds++;
    }
    return NULL;
}

/* ---- event loops ---- */

/* One dealing of a loop: an attempt, imports of what it got, the release. */
struct dealing {
    struct lock *lock;
    rl_round *round;
    rl_lease *lease;
    int releasing;
};

struct loop {
    struct rng rng;
    rl_client *client;
    rl_mailbox *box;
    int fd;
    struct dealing dealing[IN_FLIGHT];
};

static void deal_end(struct dealing *d)
{
    if (d->round)
        rl_round_free(d->round);
    if (d->lease)
        rl_lease_free(d->lease, RL_DROP);
    *d = (struct dealing){0};
}

/* Begins the next step; true: it is done already. */
static int deal_step(struct loop *l, struct dealing *d)
{
    int outcome = d->round ? rl_round_outcome(d->round) : RL_OK;
    char whole[RL_VALUE_MAX];
    if (d->round && !d->releasing && outcome == RL_GRANTED) {
        rl_round_free(d->round);
        enter(d->lock, d->lease);
        leave(d->lock, d->lease);
        if (rng_one_in(&l->rng, 3))
            EXPECT(rl_keep(d->lease, LEASE_MIN_MS, 0) == 0);
        d->releasing = rng_one_in(&l->rng, 2);
        if (d->releasing) {
            d->round = rl_release(d->lease, RL_BEGIN);
        } else {
            const rl_bytes key = {d->lock->name, strlen(d->lock->name)};
            const rl_bytes old = {whole, rl_lease_text(d->lease, 0, whole)};
            rl_lease_free(d->lease, RL_DISOWN);
            d->round = rl_import(l->client, &primitive, &key, 1, NULL, 0, &old, NULL,
                                 LEASE_MIN_MS + rng_below(&l->rng, 200), 0, 0,
                                 &d->lease);
            this.passed++;
        }
    } else {
        deal_end(d);
        d->lock = &this.locks[rng_below(&l->rng, NAMES)];
        d->round = rng_one_in(&l->rng, 4)
                       ? rl_sleep(l->client, rng_below(&l->rng, 5), NULL, 0)
                       : acquire(l->client, d->lock->name, LEASE_MAX_MS, 1000, RL_BEGIN,
                                 &d->lease);
        d->releasing = !d->lease;
    }
    EXPECT(d->round);
    return rl_round_post(d->round, l->box) != RL_OK;
}

/* Those who are waited for are found, once; those that were given back are not. */
static void loop_drain(struct loop *l)
{
    rl_done done[8];
    int count;
    while ((count = rl_mailbox_take(l->box, done, 8)) > 0) {
        for (int k = 0; k < count; k++) {
            struct dealing *d = l->dealing;
            while (d < l->dealing + IN_FLIGHT && d->round != done[k].round)
                d++;
            if (!EXPECT(d < l->dealing + IN_FLIGHT))
                continue;
            int outcome = rl_round_outcome(d->round);      /* by now it may be over */
            int over = done[k].outcome == RL_GRANTED &&
                       (outcome == RL_EXPIRED || outcome == RL_LOST);
            EXPECT(done[k].outcome && (done[k].outcome == outcome || over));
            this.looped++;
            while (deal_step(l, d))
                continue;
        }
    }
}

static void loop_turn(struct loop *l)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    poll(&p, 1, 100);
    if (rng_one_in(&l->rng, 50))
        pause_ms(40);                    /* the keeper takes its place */
    loop_drain(l);
    if (rng_one_in(&l->rng, 20)) {
        struct dealing *d = &l->dealing[rng_below(&l->rng, IN_FLIGHT)];
        deal_end(d);                     /* killed while it waits */
        while (deal_step(l, d))
            continue;
    }
    if (rng_one_in(&l->rng, 50)) {
        rl_mailbox_unserve(l->box, l->client);
        EXPECT(rl_mailbox_serve(l->box, l->client) == RL_OK);
    }
}

static void *run_loop(void *arg)
{
    struct loop l = {.rng = {this.seed + 3000 + (uint64_t)(intptr_t)arg}};
    l.client = open_client("loops");
    l.box = rl_mailbox_open();
    EXPECT(rl_mailbox_serve(l.box, l.client) == RL_OK);
    l.fd = rl_mailbox_fd(l.box);
    for (int i = 0; i < IN_FLIGHT; i++) {
        while (deal_step(&l, &l.dealing[i]))
            continue;
    }
    while (!this.stop) {
        loop_turn(&l);
        pause_ms(1);
    }
    if (arg)
        rl_mailbox_unserve(l.box, l.client);
    rl_mailbox_close(l.box);
    for (int i = 0; i < IN_FLIGHT; i++)
        deal_end(&l.dealing[i]);
    rl_unshare(l.client, 1);
    return NULL;
}

/* ---- fork ---- */

/* Connections, of any client. */
static int connections(void)
{
    int count = 0;
    for (int fd = 3; fd < 1024; fd++) {
        int domain = 0, type = 0;
        socklen_t len = sizeof(int);
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
            getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
            domain == AF_INET && type == SOCK_STREAM)
            count++;
    }
    return count;
}

static _Noreturn void child(rl_lease *inherited)
{
    in_child = 1;
    this.failed = 0;
    EXPECT(connections() == 0);
    EXPECT(rl_remaining_ms(inherited) == 0);
    EXPECT(rl_lease_lost(inherited) == RL_LOSS_CLOSED);
    EXPECT(outcome_of(rl_extend(inherited, 1000)) == RL_NOT_HELD);
    EXPECT(outcome_of(rl_release(inherited, RL_BEGIN)) == RL_NOT_HELD);
    for (int i = 0; i < NAMES; i++)
        EXPECT(!this.locks[i].holder || rl_remaining_ms(this.locks[i].holder) == 0);
    rl_lease *mine = take(this.client, "child", 5000, 5000);
    if (EXPECT(mine)) {
        EXPECT(rl_remaining_ms(mine) > 0);
        int outcome = outcome_of(rl_release(mine, RL_BEGIN));
        EXPECT(outcome == RL_GRANTED || outcome == RL_UNKNOWN);
        rl_lease_free(mine, RL_DROP);
    }
    EXPECT(take(this.client, "child", MAIN_LEASE_MS, 5000));
    exit(this.failed > 0);   /* which lets it go */
}

/* GCC's address sanitizer does not look after forks: the lock of its allocator may be held
 * in the child, for ever. */
#ifdef __SANITIZE_ADDRESS__
enum { MAY_HANG = 1, CHILD_MS = 5000 };
#else
enum { MAY_HANG = 0, CHILD_MS = 30000 };
#endif

/* The exit status of a child; -1: it had to be killed. */
static int end_of(pid_t pid)
{
    int status = -1;
    for (int ms = 0; waitpid(pid, &status, WNOHANG) == 0; ms += 10) {
        if (ms >= CHILD_MS) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -1;
        }
        pause_ms(10);
    }
    return status;
}

static void fork_once(rl_lease *mine)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child(mine);
    EXPECT(pid > 0);
    int status = end_of(pid);
    EXPECT(status == 0 || (MAY_HANG && status == -1));
    EXPECT(rl_remaining_ms(mine) > 0 && rl_lease_lost(mine) == RL_NOT_LOST);
    int outcome = outcome_of(rl_extend(mine, MAIN_LEASE_MS));
    EXPECT(outcome == RL_GRANTED || outcome == RL_NO_QUORUM);
    rl_lease *lease = take(this.client, "child", LEASE_MAX_MS, 5000);
    if (EXPECT(lease)) {
        rl_round_free(rl_release(lease, RL_BEGIN));
        rl_lease_free(lease, RL_DROP);
    }
}

/* ---- all of it ---- */

static void set_up(int ports, char **port)
{
    this.n = ports;
    for (int i = 0; i < ports; i++) {
        /* One name, so that there is a thread for the lookup. */
        this.nodes[i].host = i == 0 ? "localhost" : "127.0.0.1";
        this.nodes[i].port = atoi(port[i]);
        this.nodes[i].tls = this.ca_file && i == ports - 1;
    }
    for (int i = 0; i < NAMES; i++) {
        snprintf(this.locks[i].name, sizeof(this.locks[i].name), "name%d", i);
        pthread_mutex_init(&this.locks[i].mutex, NULL);
    }
    for (int i = 0; i < WORKERS; i++) {
        this.workers[i].rng.state = this.seed * 31 + (uint64_t)i;
        pthread_mutex_init(&this.workers[i].mutex, NULL);
    }
}

static int much_was_done(void)
{
    return this.outcomes[RL_GRANTED] >= 50 && this.outcomes[RL_HELD] >= 10 &&
           this.seconds >= 5 && this.looped >= 500 && this.passed >= 20;
}

/* On a slow machine for longer. */
static void run(rl_lease *mine, int64_t ms)
{
    pthread_t looking, opening, loop[LOOPS];
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&this.workers[i].thread, NULL, work, &this.workers[i]);
    pthread_create(&looking, NULL, look, NULL);
    pthread_create(&opening, NULL, open_and_close, NULL);
    for (int i = 0; i < LOOPS; i++)
        pthread_create(&loop[i], NULL, run_loop, (void *)(intptr_t)i);
    int64_t begin_ms = rl_now_ms();
    for (int i = 1; i <= FORKS; i++) {
        int64_t left_ms = begin_ms + ms * i / (FORKS + 1) - rl_now_ms();
        pause_ms(left_ms > 0 ? left_ms : 0);
        fork_once(mine);
    }
    int64_t left_ms = begin_ms + ms - rl_now_ms();
    pause_ms(left_ms > 0 ? left_ms : 0);
    while (!much_was_done() && rl_now_ms() < begin_ms + 4 * ms)
        pause_ms(10);
    this.stop = 1;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(this.workers[i].thread, NULL);
    pthread_join(looking, NULL);
    pthread_join(opening, NULL);
    for (int i = 0; i < LOOPS; i++)
        pthread_join(loop[i], NULL);
}

/* Nothing is left of it that would last longer than the leases that were dropped: the main one
 * would outlast this patience. */
static void check_all_free(void)
{
    rl_client *c = open_client(NULL);
    connect_all(c);
    for (int i = 0; i < NAMES + 2; i++) {
        const char *name = i < NAMES ? this.locks[i].name : i == NAMES ? "main" : "child";
        rl_lease *lease = take(c, name, LEASE_MAX_MS, 5000);
        if (EXPECT(lease))
            rl_lease_free(lease, RL_DROP);
    }
    rl_close(c);
}

int main(int argc, char **argv)
{
    double seconds = 4;
    int c;
    while ((c = getopt(argc, argv, "t:s:c:")) != -1) {
        if (c == 't')
            seconds = atof(optarg);
        else if (c == 's')
            this.seed = strtoull(optarg, NULL, 10);
        else if (c == 'c')
            this.ca_file = optarg;
    }
    if (optind >= argc || argc - optind > RL_MAX_NODES) {
        fprintf(stderr, "usage: %s [-t seconds] [-s seed] [-c ca_file] port...\n", argv[0]);
        return 2;
    }
    alarm(STUCK_S);
    set_up(argc - optind, argv + optind);
    this.client = open_client(NULL);
    connect_all(this.client);
    rl_lease *mine = take(this.client, "main", MAIN_LEASE_MS, 5000);
    if (!EXPECT(mine))
        return 1;
    run(mine, (int64_t)(seconds * 1000));
    /* One handle is given back after the client is closed, which releases it. */
    rl_close(this.client);
    EXPECT(rl_lease_lost(mine) == RL_LOSS_CLOSED);
    rl_lease_free(mine, RL_DROP);
    check_all_free();

    printf("attempts:");
    for (int i = 0; i < RL_CODES; i++) {
        if (this.outcomes[i])
            printf(" %d %s", this.outcomes[i], rl_code_name(i));
    }
    printf("; %d second clients\n", this.seconds);
    EXPECT(much_was_done());
    printf("%d passed, %d failed\n", this.failed == 0, this.failed);
    return this.failed > 0;
}
