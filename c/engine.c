/* engine.c - one mutex per client, the baton, clock, fork; opening, closing, waiting.
 *
 * Whoever waits turns the loop: it takes the baton, and gives up the mutex only inside
 * net_wait(). Others that wait meanwhile sleep on a condition variable until the baton
 * is free or their round is done. When nobody waits, the keeper (keeper.c) does what is
 * due.
 */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>

#include "guard.h"
#include "watch.h"

static int64_t clock_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t rl_now_ms(void)
{
    return clock_ms(CLOCK_BOOTTIME);
}

int64_t rl_unix_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

/* ---- fork: the child's clients are as new, with no leases and no connections ---- */

static pthread_mutex_t clients_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t watched_once = PTHREAD_ONCE_INIT;
static struct rl_client *clients;

static void before_fork(void)
{
    pthread_mutex_lock(&clients_mutex);
    for (struct rl_client *c = clients; c; c = c->next)
        pthread_mutex_lock(&c->mutex);
    mailbox_before_fork();
}

static void after_fork_in_parent(void)
{
    mailbox_after_fork(0);
    for (struct rl_client *c = clients; c; c = c->next)
        pthread_mutex_unlock(&c->mutex);
    pthread_mutex_unlock(&clients_mutex);
}

static void after_fork_in_child(void)
{
    mailbox_after_fork(1);
    for (struct rl_client *c = clients; c; c = c->next) {
        net_void(&c->net);
        core_void(&c->core);
        keeper_void(c);
        c->turning = c->wanting = 0;
        c->net.kicked = c->net.corked = 0;
        pthread_mutex_init(&c->mutex, NULL);
        pthread_cond_init(&c->turned, NULL);
    }
    pthread_mutex_init(&clients_mutex, NULL);
}

/* exit() without rl_close(): lets go what is held, of all clients at once. May be called
 * twice: OpenSSL, if it goes first, must not be used any more after that. */
static void at_exit(void)
{
    pthread_mutex_lock(&clients_mutex);
    int64_t now_ms = rl_now_ms(), until_ms = now_ms + NET_LINGER_MS;
    for (struct rl_client *c = clients; c; c = c->next) {
        pthread_mutex_lock(&c->mutex);
        if (c->net.epfd < 0)
            continue;
        core_leave(&c->core, now_ms);
        net_wake(&c->net);
        if (c->key)
            keeper_stop(c);
        net_flush(&c->net, now_ms);
    }
    for (struct rl_client *c = clients; c; c = c->next) {
        if (c->net.epfd >= 0) {
            net_linger(&c->net, until_ms);
            core_close(&c->core, rl_now_ms());
            net_finish(&c->net);
        }
        pthread_mutex_unlock(&c->mutex);
    }
    pthread_mutex_unlock(&clients_mutex);
}

static void watch_process(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(at_exit);
}

/* ---- opening and closing ---- */

static void client_free(struct rl_client *c)
{
    core_free(&c->core);
    for (int i = 0; c->configs && c->addresses && i < c->n; i++) {
        free(c->configs[i].label);
        node_config_free(&c->configs[i]);
        free(c->addresses[i].host);
        free(c->addresses[i].path);
        free(c->addresses[i].server_name);
        free(c->addresses[i].password_file);
    }
    free(c->configs);
    free(c->addresses);
    free(c->client_name);
    free(c->marker);
    free(c->mark_script);
    free(c->key);
    free(c->net.conns);
    if (c->tls) {
        pthread_mutex_lock(&clients_mutex);  /* as in client_secure() */
        tls_context_free(c->tls);
        pthread_mutex_unlock(&clients_mutex);
    }
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->turned);
    free(c);
}

/* Copies a string that may be NULL; *failed is set when there is no memory. */
static char *copy(const char *s, int *failed)
{
    char *s2 = s ? strdup(s) : NULL;
    if (s && !s2)
        *failed = 1;
    return s2;
}

static int client_configure(struct rl_client *c, const rl_options *o,
                            const rl_node_options *nodes, int n)
{
    int failed = 0;
    c->configs = calloc((size_t)n, sizeof(*c->configs));
    c->addresses = calloc((size_t)n, sizeof(*c->addresses));
    if (!c->configs || !c->addresses)
        return -1;
    c->n = n;
    c->client_name = copy(o->client_name, &failed);
    c->marker = copy(o->marker, &failed);
    c->mark_script = copy(o->mark_script, &failed);
    for (int i = 0; i < n; i++) {
        c->configs[i].label = copy(nodes[i].label, &failed);
        c->configs[i].marker = c->marker;
        c->configs[i].require_info = o->require_info;
        c->configs[i].user = copy(nodes[i].user, &failed);
        c->configs[i].password = copy(nodes[i].password, &failed);
        c->configs[i].client_name = c->client_name;
        c->configs[i].db = nodes[i].db;
        c->configs[i].timeout_ms = o->timeout_ms;
        c->configs[i].connect_timeout_ms = o->connect_timeout_ms;
        c->addresses[i].host = copy(nodes[i].host, &failed);
        c->addresses[i].path = copy(nodes[i].path, &failed);
        c->addresses[i].port = nodes[i].port;
        c->addresses[i].server_name = copy(nodes[i].server_name, &failed);
        c->addresses[i].password_file = copy(nodes[i].password_file, &failed);
        c->addresses[i].config = &c->configs[i];
    }
    return failed ? -1 : 0;
}

/* Loads what TLS needs, if a node has it. 0, or -1 with a text in err, and it has none.
 * With the list's mutex, so that there is no fork meanwhile: the child would have OpenSSL's
 * locks as they are just then. */
static int client_secure(struct rl_client *c, const rl_options *o,
                         const rl_node_options *nodes, char *err, size_t err_size)
{
    struct tls_options t = {.ca_file = o->ca_file,
                            .cert_file = o->cert_file,
                            .key_file = o->key_file,
                            .verify = o->tls_verify};
    int failed = 0;
    for (int i = 0; i < c->n && !failed; i++) {
        if (nodes[i].tls && !c->tls) {
            c->tls = tls_context_new(&t, err, err_size);
            failed = !c->tls;
        }
        c->addresses[i].tls = nodes[i].tls ? c->tls : NULL;
    }
    if (c->tls)
        tls_on_cleanup(at_exit);
    return failed ? -1 : 0;
}

/* A client in no list yet. NULL: with a text in err. */
static struct rl_client *client_new(const rl_options *options,
                                    const rl_node_options *nodes, int n, char *err,
                                    size_t err_size)
{
    uint64_t seed;
    struct rl_client *c = n >= 1 && n <= RL_MAX_NODES ? calloc(1, sizeof(*c)) : NULL;
    if (!c) {
        snprintf(err, err_size, "out of memory, or not 1 to %d nodes", RL_MAX_NODES);
        return NULL;
    }
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->turned, NULL);
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed) ||
        client_configure(c, options, nodes, n) < 0 ||
        core_init(&c->core, c->configs, n, options->drift_ppm, seed) < 0 ||
        net_init(&c->net, &c->core, c->addresses, n) < 0) {
        snprintf(err, err_size, "out of memory");
        client_free(c);
        return NULL;
    }
    c->core.lock_delay_ms = options->lock_delay_ms;
    guard_init(&c->core, c->marker, c->mark_script, options->max_lease_ms,
               options->lease_ms);
    return c;
}

void rl_cork(rl_client *c)
{
    pthread_mutex_lock(&c->mutex);
    c->net.corked = 1;
    pthread_mutex_unlock(&c->mutex);
}

void rl_uncork(rl_client *c)
{
    pthread_mutex_lock(&c->mutex);
    net_uncork(&c->net);
    pthread_mutex_unlock(&c->mutex);
}

/* With the list's mutex. */
static void enlist(struct rl_client *c)
{
    c->next = clients;
    if (clients)
        clients->prev = c;
    clients = c;
}

rl_client *rl_open(const rl_options *options, const rl_node_options *nodes, int n,
                   char *err, size_t err_size)
{
    struct rl_client *c = client_new(options, nodes, n, err, err_size);
    if (!c)
        return NULL;
    pthread_once(&watched_once, watch_process);
    pthread_mutex_lock(&clients_mutex);
    int failed = client_secure(c, options, nodes, err, err_size);
    if (!failed)
        enlist(c);
    pthread_mutex_unlock(&clients_mutex);
    if (failed) {
        client_free(c);
        return NULL;
    }
    return c;
}

/* ---- shared clients ---- */

static struct rl_client *find_shared(const char *key, size_t len)
{
    struct rl_client *c = clients;
    while (c && !(c->key && c->key_len == len && !memcmp(c->key, key, len)))
        c = c->next;
    return c;
}

rl_client *rl_share(const char *key, size_t len, const rl_options *options,
                    const rl_node_options *nodes, int n, char *err, size_t err_size)
{
    pthread_once(&watched_once, watch_process);
    pthread_mutex_lock(&clients_mutex);
    struct rl_client *c = find_shared(key, len);
    if (!c && (c = client_new(options, nodes, n, err, err_size))) {
        int failed = !(c->key = malloc(len + 1));
        if (failed)
            snprintf(err, err_size, "out of memory");
        else
            failed = client_secure(c, options, nodes, err, err_size);
        if (!failed) {
            memcpy(c->key, key, len);
            c->net.threaded = 1;
            c->key_len = len;
            enlist(c);
        } else {
            client_free(c);
            c = NULL;
        }
    }
    if (c)
        c->users++;
    pthread_mutex_unlock(&clients_mutex);
    return c;
}

void rl_unshare(rl_client *c, int close)
{
    pthread_mutex_lock(&clients_mutex);
    int last = --c->users == 0 && close;
    if (last)
        c->key_len = SIZE_MAX;         /* nobody finds it any more */
    pthread_mutex_unlock(&clients_mutex);
    if (last)
        rl_close(c);
}

void engine_deliver(struct rl_client *c)
{
    rl_round *round;
    if (!c->key)
        return;
    while ((round = core_next(&c->core))) {
        if (round->box)
            mailbox_push(round->box, round);
    }
    int64_t happened = c->core.losses + c->core.node_changes;
    if (happened != c->rung) {
        c->rung = happened;
        mailbox_ring_all();
    }
}

void engine_forget(rl_round *round)
{
    atomic_store(&round->post, ROUND_POSTED);
    struct rl_mailbox *m = round->box;
    if (m)
        mailbox_remove(m, round);
}

void engine_leave(struct rl_client *c)
{
    engine_deliver(c);
    int over = c->core.closed && c->core.handles == 0;
    pthread_mutex_unlock(&c->mutex);
    if (over)
        client_free(c);
}

static void unlist(struct rl_client *c)
{
    pthread_mutex_lock(&clients_mutex);
    if (c->prev)
        c->prev->next = c->next;
    else
        clients = c->next;
    if (c->next)
        c->next->prev = c->prev;
    pthread_mutex_unlock(&clients_mutex);
}

void rl_close(rl_client *c)
{
    pthread_mutex_lock(&c->mutex);
    int64_t now_ms = rl_now_ms();
    c->core.handles++;       /* ours: others may give back theirs while we wait */
    core_leave(&c->core, now_ms);
    if (c->net.epfd >= 0) {
        net_flush(&c->net, now_ms);
        net_wake(&c->net);
    }
    pthread_cond_broadcast(&c->turned);
    keeper_stop(c);
    while (c->turning)
        pthread_cond_wait(&c->turned, &c->mutex);
    if (c->net.epfd >= 0) {
        net_flush(&c->net, now_ms);
        net_linger(&c->net, now_ms + NET_LINGER_MS);
    }
    core_close(&c->core, rl_now_ms());
    net_finish(&c->net);
    net_void(&c->net);
    pthread_mutex_unlock(&c->mutex);
    unlist(c);               /* not before: a fork meanwhile must close its sockets */
    pthread_mutex_lock(&c->mutex);
    c->core.handles--;
    engine_leave(c);
}

/* ---- the loop ---- */

int engine_turn(struct rl_client *c, int block)
{
    struct epoll_event events[NET_EVENTS];
    c->turning = 1;
    pthread_mutex_unlock(&c->mutex);
    int count = net_wait(&c->net, events, block);
    int failed = count < 0 ? errno : 0;
    pthread_mutex_lock(&c->mutex);
    c->turning = 0;
    if (count > 0) {
        int64_t now_ms = rl_now_ms();
        net_dispatch(&c->net, events, count, now_ms);
        /* We were stopped in between: what arrived meanwhile counts before time-outs. */
        if (now_ms - core_due_ms(&c->core) > AWAY_MS) {
            count = net_wait(&c->net, events, 0);
            net_dispatch(&c->net, events, count > 0 ? count : 0, now_ms);
        }
        core_tick(&c->core, now_ms);
        net_flush(&c->net, now_ms);
        c->last_turn_ms = now_ms;
    }
    engine_deliver(c);
    pthread_cond_broadcast(&c->turned);
    return failed;
}

int64_t engine_enter(struct rl_client *c)
{
    pthread_mutex_lock(&c->mutex);
    if (!c->core.closed &&
        (net_open(&c->net) < 0 || (c->key && keeper_start(c) < 0))) {
        engine_leave(c);
        return -1;
    }
    int64_t now_ms = rl_now_ms();
    if (now_ms - c->last_turn_ms > AWAY_MS && !c->turning && !c->key &&
        !c->core.closed) {
        engine_turn(c, 0);
        now_ms = rl_now_ms();
        c->last_turn_ms = now_ms;
        core_tick(&c->core, now_ms);
    }
    return now_ms;
}

rl_round *engine_started(struct rl_client *c, rl_round *round, int64_t now_ms)
{
    if (!c->core.closed) {
        net_flush(&c->net, now_ms);
        if (!c->key)
            keeper_notice(c);
    }
    engine_leave(c);
    return round;
}

/* Turns the loop once, or waits while somebody else does. 0, or an errno. */
static int turn_or_wait(struct rl_client *c)
{
    if (!c->turning && !c->key)
        return engine_turn(c, 1);
    keeper_make_way(c);
    pthread_cond_wait(&c->turned, &c->mutex);
    return 0;
}

int rl_wait(rl_round *round)
{
    struct rl_client *c = client_of(round->core);
    int interrupted = 0;
    pthread_mutex_lock(&c->mutex);
    c->wanting++;
    while (!round->outcome && !interrupted)
        interrupted = turn_or_wait(c) == EINTR;
    c->wanting--;
    keeper_take_over(c);
    int outcome = round->outcome ? round->outcome : RL_INTERRUPTED;
    pthread_mutex_unlock(&c->mutex);
    return outcome;
}

void rl_round_notify(rl_round *round)
{
    struct rl_client *c = client_of(round->core);
    pthread_mutex_lock(&c->mutex);
    core_notify(round);
    pthread_mutex_unlock(&c->mutex);
}

rl_round *rl_next(rl_client *c, const rl_round *until, int block)
{
    int interrupted = 0;
    struct rl_round *round;
    pthread_mutex_lock(&c->mutex);
    if (!block && !c->turning && !c->key && c->net.epfd >= 0)
        engine_turn(c, 0);
    c->wanting++;
    while (!(round = core_next(&c->core)) && !(until && until->outcome) && !interrupted &&
           block && !c->core.closed)
        interrupted = turn_or_wait(c) == EINTR;
    c->wanting--;
    keeper_take_over(c);
    pthread_mutex_unlock(&c->mutex);
    return round;
}
