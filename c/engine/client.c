/* client.c - opening, sharing and closing clients; fork and exit. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/close.h"
#include "core/eligibility/guard.h"
#include "core/leases/holder.h"
#include "engine/card.h"
#include "engine/mailbox.h"
#include "io/address.h"
#include "io/linger.h"
#include "node/reader.h"

/* ---- fork: the child's clients have no leases and no connections ---- */

static pthread_mutex_t clients_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t handlers_once = PTHREAD_ONCE_INIT;
static struct rl_client *clients;

/* 0, or -1: the kernel has no random numbers. */
static int random_seed(uint64_t *seed)
{
    return getrandom(seed, sizeof(*seed), 0) == (ssize_t)sizeof(*seed) ? 0 : -1;
}

static void before_fork(void)
{
    signals_lock(&clients_mutex);
    for (struct rl_client *c = clients; c; c = c->next)
        engine_lock(c);
    mailbox_before_fork();
    signals_before_fork();
}

static void after_fork_in_parent(void)
{
    signals_after_fork(0);
    mailbox_after_fork(0);
    for (struct rl_client *c = clients; c; c = c->next)
        engine_unlock(c);
    signals_unlock(&clients_mutex);
}

static void after_fork_in_child(void)
{
    signals_after_fork(1);
    mailbox_after_fork(1);
    card_after_fork();
    for (struct rl_client *c = clients; c; c = c->next) {
        net_void(&c->net);
        close_void(&c->core);
        keeper_void(c);
        c->turning = c->wanting = 0;
        c->unsent_ms = 0;
        c->held = 0;
        c->loops = 0;
        uint64_t seed;
        if (random_seed(&seed) == 0)
            c->core.random = seed | 1;     /* contenders must pause for different times */
        pthread_mutex_init(&c->mutex, NULL);
        pthread_cond_init(&c->turned, NULL);
    }
    pthread_mutex_init(&clients_mutex, NULL);
}

enum { EVERY = ~0 };          /* in place of signals: all clients, also those without */

/* The first client from c on that has one of these signals. */
static struct rl_client *with(struct rl_client *c, int signals)
{
    while (c && signals != EVERY && !(c->core.options.signals & signals))
        c = c->next;
    return c;
}

void clients_lock(int signals)
{
    signals_lock(&clients_mutex);
    for (struct rl_client *c = clients; (c = with(c, signals)); c = c->next)
        engine_lock(c);
}

void clients_let_go(int signals)
{
    int64_t now_ms = rl_now_ms(), until_ms = now_ms + RL_LINGER_MS;
    for (struct rl_client *c = clients; (c = with(c, signals)); c = c->next) {
        if (c->net.epfd >= 0) {
            close_begin(&c->core, now_ms);
            net_wake(c->net.wakefd);       /* waiting threads have an answer */
            net_flush(&c->net, now_ms);
        }
    }
    for (struct rl_client *c = clients; (c = with(c, signals)); c = c->next) {
        if (c->net.epfd >= 0)
            linger_until(&c->net, until_ms);
    }
}

void clients_unlock(int signals)
{
    for (struct rl_client *c = clients; (c = with(c, signals)); c = c->next) {
        pthread_cond_broadcast(&c->turned);
        engine_unlock(c);
    }
    signals_unlock(&clients_mutex);
}

void clients_orphan(const int32_t *request)
{
    signals_lock(&clients_mutex);
    for (struct rl_client *c = clients; c; c = c->next) {
        engine_lock(c);
        holder_orphan_all(&c->core, request, rl_now_ms());
        if (c->net.epfd >= 0)
            engine_flush(c, rl_now_ms());
        keeper_take_over(c);
        engine_unlock(c);
    }
    signals_unlock(&clients_mutex);
}

/* exit() without rl_close(): releases what all clients hold, at once. May run twice: also before
 * OpenSSL's own handler, if that comes first, as nothing may use OpenSSL afterwards. */
static void at_exit(void)
{
    clients_lock(EVERY);
    clients_let_go(EVERY);
    for (struct rl_client *c = clients; c; c = c->next) {
        if (c->net.epfd >= 0) {
            close_finish(&c->core, rl_now_ms());
            net_finish(&c->net);
        }
    }
    clients_unlock(EVERY);
}

static void handle_fork_and_exit(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(at_exit);
}

/* ---- opening ---- */

static void forget_address(struct rl_client *c, int i)
{
    free(c->configs[i].label);
    node_config_free(&c->configs[i]);
    free(c->addresses[i].host);
    free(c->addresses[i].path);
    free(c->addresses[i].server_name);
    for (int k = 0; k < LOOKUP_FILES; k++)
        free(c->addresses[i].file[k]);
}

static void client_free(struct rl_client *c)
{
    close_free(&c->core);
    for (int i = 0; c->configs && c->addresses && i < c->n; i++)
        forget_address(c, i);
    free(c->configs);
    free(c->addresses);
    free(c->marker);
    free(c->cluster);
    free(c->servers);
    free(c->marker_script);
    free(c->key);
    free(c->net.conns);
    if (c->tls) {
        signals_lock(&clients_mutex);   /* as in client_secure() */
        tls_context_free(c->tls);
        signals_unlock(&clients_mutex);
    }
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->turned);
    free(c);
}

/* Copies a string, or NULL. Sets *failed when out of memory. */
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
    c->n = n;
    c->configs = calloc((size_t)n, sizeof(*c->configs));
    c->addresses = calloc((size_t)n, sizeof(*c->addresses));
    c->servers = address_list(nodes, n);
    if (!c->configs || !c->addresses || !c->servers)
        return -1;
    c->marker = copy(o->marker, &failed);
    c->cluster = copy(o->cluster, &failed);
    c->marker_script = copy(o->marker_script, &failed);
    for (int i = 0; i < n; i++) {
        c->configs[i].label = copy(nodes[i].label, &failed);
        c->configs[i].marker = c->marker;
        c->configs[i].guarded = c->marker && !o->unguarded;
        c->configs[i].behind_proxy = o->behind_proxy;
        c->configs[i].user = copy(nodes[i].user, &failed);
        c->configs[i].password = copy(nodes[i].password, &failed);
        c->configs[i].client_name = c->core.name;
        c->configs[i].db = nodes[i].db;
        c->configs[i].timeout_ms = o->timeout_ms;
        c->configs[i].connect_timeout_ms = o->connect_timeout_ms;
        c->addresses[i].host = copy(nodes[i].host, &failed);
        c->addresses[i].path = copy(nodes[i].path, &failed);
        c->addresses[i].port = nodes[i].port;
        c->addresses[i].server_name = copy(nodes[i].server_name, &failed);
        const char *const file[LOOKUP_FILES] = {nodes[i].password_file, o->ca_file,
                                                o->cert_file, o->key_file};
        for (int k = 0; k < LOOKUP_FILES; k++) {
            if (k == PASSWORD_FILE || nodes[i].tls)
                c->addresses[i].file[k] = copy(file[k], &failed);
        }
        c->addresses[i].config = &c->configs[i];
    }
    return failed ? -1 : 0;
}

/* Loads what TLS needs, if a node has TLS. A shared client reads no files here, as its loop
 * must not hang, but for each connection (lookup.h). 0, or -1 with a text in err. With the
 * list's mutex, which keeps forks out: a child would inherit the locks of OpenSSL and of
 * the loader in their present state. */
static int client_secure(struct rl_client *c, const rl_options *o,
                         const rl_node_options *nodes, char *err, size_t err_size)
{
    int here = !c->key || !(o->ca_file || o->cert_file);
    for (int i = 0; i < c->n; i++) {
        struct net_address *a = &c->addresses[i];
        if (nodes[i].tls && !c->tls) {
            c->tls = tls_context_new(o->tls_verify, here ? &a->file[CA_FILE] : NULL, err,
                                     err_size);
            if (!c->tls)
                return -1;
            tls_on_cleanup(at_exit);
        }
        a->tls = nodes[i].tls ? c->tls : NULL;
    }
    return 0;
}

/* A client in no list yet. key: NULL: it is not shared. NULL: with a text in err. With the
 * list's mutex, as this loads hiredis. */
static struct rl_client *client_new(const char *key, size_t len, const rl_options *options,
                                    const rl_node_options *nodes, int n, char *err,
                                    size_t err_size)
{
    uint64_t seed;
    const char *missing = reader_load();
    if (missing) {
        snprintf(err, err_size, "hiredis cannot be loaded: %s", missing);
        return NULL;
    }
    struct rl_client *c = n >= 1 && n <= RL_MAX_NODES ? calloc(1, sizeof(*c)) : NULL;
    if (!c) {
        snprintf(err, err_size, "out of memory, or not 1 to %d nodes", RL_MAX_NODES);
        return NULL;
    }
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->turned, NULL);
    c->key_len = len;
    if (random_seed(&seed) < 0 || (key && !(c->key = malloc(len + 1))) ||
        client_configure(c, options, nodes, n) < 0 ||
        core_init(&c->core, c->configs, c->n, options->drift_ppm, seed) < 0 ||
        net_init(&c->net, &c->core, c->addresses, c->n) < 0) {
        snprintf(err, err_size, "out of memory");
        client_free(c);
        return NULL;
    }
    if (key)
        memcpy(c->key, key, len);
    c->core.options = *options;
    guard_init(&c->core, options->unguarded ? NULL : c->marker, c->marker_script,
               options->max_lease_ms, options->lease_ms, c->cluster, c->servers);
    if (options->tell_script)
        c->core.tell = core_script(&c->core, options->tell_script,
                                   strlen(options->tell_script), 0);
    if (client_secure(c, options, nodes, err, err_size) < 0) {
        client_free(c);
        return NULL;
    }
    return c;
}

static struct rl_client *find_shared(const char *key, size_t len)
{
    struct rl_client *c = clients;
    while (c && !(c->key && c->key_len == len && !memcmp(c->key, key, len)))
        c = c->next;
    return c;
}

rl_client *rl_open(const char *key, size_t len, const rl_options *options,
                   const rl_node_options *nodes, int n, char *err, size_t err_size)
{
    pthread_once(&handlers_once, handle_fork_and_exit);
    signals_lock(&clients_mutex);
    struct rl_client *c = key ? find_shared(key, len) : NULL;
    if (!c && (c = client_new(key, len, options, nodes, n, err, err_size))) {
        c->next = clients;
        if (clients)
            clients->prev = c;
        clients = c;
    }
    if (c) {
        c->users++;
        engine_lock(c);
        if (options->lease_ms && options->lease_ms < c->core.lease_ms)
            c->core.lease_ms = options->lease_ms;
        engine_unlock(c);
    }
    signals_unlock(&clients_mutex);
    return c;
}

/* ---- shared clients ---- */

int rl_unshare_waits(rl_client *c)
{
    engine_lock(c);
    int64_t now_ms = rl_now_ms();
    int waits = c->users == 1 && c->net.epfd >= 0 &&
                linger_awaits(&c->net, now_ms, now_ms + RL_LINGER_MS);
    engine_unlock(c);
    return waits;
}

void rl_unshare(rl_client *c, int close)
{
    signals_lock(&clients_mutex);
    engine_lock(c);
    int last = c->users == 1 && (close || !c->keeper.running);
    engine_unlock(c);
    c->unused_ms = rl_now_ms();
    if (last) {
        c->key_len = SIZE_MAX;     /* no key is that long: rl_open() cannot find it. It keeps
                                      its user: the keeper closes what has none */
    } else if (--c->users == 0) {
        engine_lock(c);
        keeper_notice(c);          /* it must look once in a while */
        engine_unlock(c);
    }
    signals_unlock(&clients_mutex);
    if (last)
        rl_close(c);
}

enum { UNUSED_MS = 10000 };

int client_is_unused(struct rl_client *c)
{
    const struct core *core = &c->core;
    if (!c->key || c->users || core->closed || core->held || core->owing || core->active ||
        core->handles || pthread_mutex_trylock(&clients_mutex))
        return 0;            /* its owner may wait for this thread */
    int unused = !c->users && rl_now_ms() - c->unused_ms >= UNUSED_MS;
    if (unused)
        c->key_len = SIZE_MAX;
    pthread_mutex_unlock(&clients_mutex);
    return unused;
}

void client_close_unused(struct rl_client *c)
{
    int tls = c->tls != NULL;
    rl_close(c);
    if (tls) {
        signals_lock(&clients_mutex);   /* as in client_secure() */
        tls_thread_end();
        signals_unlock(&clients_mutex);
    }
}

/* ---- closing ---- */

int rl_known(const void *handle)
{
    int known = 0;
    signals_lock(&clients_mutex);
    for (const struct rl_client *c = clients; c && !known; c = c->next)
        known = c == handle;
    signals_unlock(&clients_mutex);
    return known;
}

void client_forget(struct rl_client *c)
{
    signals_lock(&clients_mutex);   /* a fork or an exit may use the client */
    if (c->prev)
        c->prev->next = c->next;
    else
        clients = c->next;
    if (c->next)
        c->next->prev = c->prev;
    signals_unlock(&clients_mutex);
    client_free(c);
}

void rl_close(rl_client *c)
{
    engine_lock(c);
    int64_t now_ms = rl_now_ms();
    c->core.handles++;       /* ours: others may free theirs while we wait */
    close_begin(&c->core, now_ms);
    if (c->net.epfd >= 0) {
        net_flush(&c->net, now_ms);
        net_wake(c->net.wakefd);
    }
    pthread_cond_broadcast(&c->turned);
    keeper_stop(c);
    while (c->turning)
        pthread_cond_wait(&c->turned, &c->mutex);
    if (c->net.epfd >= 0) {
        net_flush(&c->net, now_ms);
        linger_until(&c->net, now_ms + RL_LINGER_MS);
    }
    close_finish(&c->core, rl_now_ms());
    net_finish(&c->net);
    net_void(&c->net);
    c->core.handles--;
    c->given_up = 1;
    engine_leave(c);
}
