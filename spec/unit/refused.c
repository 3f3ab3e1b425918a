/* refused.c - the system refuses something, once, at every moment in turn: memory, a
 * descriptor, a thread, a call on a socket.
 *
 *   refused [-c ca_file] [-s stride] port...
 *
 * With a ca_file the last port is one of TLS. A stride of n tries every n-th moment.
 *
 * To be run in the top directory, against servers that are well. Whatever was refused, the
 * caller is told, or nothing shows; asking again works, nothing stays on the servers, and
 * no descriptor is lost. (Sanitizers see to the memory.)
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lock_script.h"
#include "redlock.h"

enum { LEASE_MS = 60000, PATIENCE_MS = 10000, MOMENTS_MAX = 3000, STUCK_S = 570 };

/* What is refused, and how. */
static const struct kind {
    const char *name;
    int error;
} kinds[] = {
    {"memory", ENOMEM},
    {"a call", ENOBUFS},
    {"a call, by a signal", EINTR},
    {"a call that would block", EAGAIN},
    {"a call, by the peer", ECONNRESET},
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static struct {
    rl_node_options nodes[RL_MAX_NODES];
    int n;
    const char *ca_file;
    const struct kind *kind;
    int moment;                   /* of this kind, from 1 */
    int by_loop;                  /* the client is shared, as below an event loop */
    int failed;
} this;

/* ---- refusing: the linker hands these calls of the core to us (--wrap) ---- */

static atomic_int until_refusal;  /* calls until one is refused; 0 and below: none will */
static atomic_int refused;

static int refuses(int memory)
{
    if (memory != (this.kind == kinds) || atomic_fetch_sub(&until_refusal, 1) != 1)
        return 0;
    refused = 1;
    errno = this.kind->error;
    return 1;
}

/* Refuses the moment-th of the calls from now on; 0: none. */
static void refuse_at(int moment)
{
    refused = 0;
    until_refusal = moment;
}

#define REFUSABLE(memory, failure, type, name, params, ...) \
    type __real_##name params;                              \
    type __wrap_##name params;                              \
    type __wrap_##name params                               \
    {                                                       \
        if (refuses(memory))                                \
            return failure;                                 \
        return __real_##name(__VA_ARGS__);                  \
    }
#define MEMORY(type, ...) REFUSABLE(1, NULL, type, __VA_ARGS__)
#define CALL(type, ...) REFUSABLE(0, -1, type, __VA_ARGS__)

MEMORY(void *, malloc, (size_t size), size)
MEMORY(void *, calloc, (size_t n, size_t size), n, size)
MEMORY(void *, realloc, (void *old, size_t size), old, size)
MEMORY(char *, strdup, (const char *s), s)
CALL(int, socket, (int domain, int type, int protocol), domain, type, protocol)
CALL(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *len), fd, level,
     name, value, len)
CALL(int, epoll_create1, (int flags), flags)
CALL(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *event), epfd, op, fd,
     event)
CALL(int, epoll_wait, (int epfd, struct epoll_event *events, int max, int ms), epfd, events,
     max, ms)
CALL(int, timerfd_create, (int clock, int flags), clock, flags)
CALL(int, eventfd, (unsigned initial, int flags), initial, flags)
CALL(int, fcntl, (int fd, int cmd, int arg), fd, cmd, arg)
CALL(ssize_t, send, (int fd, const void *data, size_t len, int flags), fd, data, len, flags)
CALL(ssize_t, recv, (int fd, void *data, size_t len, int flags), fd, data, len, flags)
CALL(ssize_t, getrandom, (void *data, size_t len, unsigned flags), data, len, flags)

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg)
{
    return refuses(0) ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

/* ---- expecting ---- */

#define EXPECT(cond) expect(!!(cond), __LINE__, #cond)

static int expect(int ok, int line, const char *what)
{
    if (!ok) {
        this.failed++;
        fprintf(stderr, "refused.c:%d: not so: %s (%s, %d%s)\n", line, what,
                this.kind->name, this.moment, this.by_loop ? ", by a loop" : "");
    }
    return ok;
}

/* What may be refused once works when it is asked for again. */
#define AGAIN(call)                                 \
    do {                                            \
        for (int try_ = 0; try_ < 2 && !(call); try_++) \
            EXPECT(refused && try_ == 0);              \
    } while (0)

static int count_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void pause_ms(int64_t ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* ---- a client's life ---- */

/* The scripts are registered in this order. */
enum { ACQUIRE, EXTEND, RELEASE, PEEK, IMPORT, SCRIPTS };

static const char *const script_names[] = {"acquire", "extend", "release", "peek",
                                           "import"};
static const rl_primitive primitive = {ACQUIRE, EXTEND, RELEASE, IMPORT, -1, -1, 0, 0, 0};

static char script_text[SCRIPTS][LOCK_SCRIPT_MAX];

static const rl_bytes key = {"refused", 7};

static void read_scripts(void)
{
    for (int i = 0; i < SCRIPTS; i++)
        lock_script(script_names[i], script_text[i]);
}

static rl_client *open_client(void)
{
    char err[RL_TEXT_MAX] = "";
    const rl_options options = {.timeout_ms = 1000,
                                .connect_timeout_ms = 2000,
                                .drift_ppm = 10000,
                                .tls_verify = 1,
                                .ca_file = this.ca_file};
    rl_client *c = rl_open(this.by_loop ? "key" : NULL, 3, &options, this.nodes, this.n, err,
                           sizeof(err));
    EXPECT(!c == !!*err);
    return c;
}

static void close_client(rl_client *c)
{
    if (this.by_loop)
        rl_unshare(c, 1);
    else
        rl_close(c);
}

static int outcome_of(rl_round *round)
{
    int outcome;
    if (!round)
        return RL_NOMEM;
    while ((outcome = rl_wait(round)) == RL_INTERRUPTED)
        continue;
    rl_round_free(round);
    return outcome;
}

static rl_lease *take(rl_client *c)
{
    int64_t finish_ms = rl_now_ms() + PATIENCE_MS;
    while (EXPECT(rl_now_ms() < finish_ms)) {
        rl_lease *lease = NULL;
        rl_round *round = rl_acquire(c, &primitive, &key, 1, NULL, 0, NULL, LEASE_MS, 5000, -1,
                                     RL_BEGIN, &lease);
        EXPECT(round || refused);
        if (outcome_of(round) == RL_GRANTED)
            return lease;
        if (round)
            rl_lease_free(lease, RL_DROP);
        outcome_of(rl_sleep(c, 5, NULL, 0));
    }
    return NULL;
}

/* A round that is done is found in a mailbox. */
static void use_mailbox(rl_client *c)
{
    rl_mailbox *box = NULL;
    rl_round *round = NULL;
    rl_done done;
    int fd = -1;
    AGAIN((box = rl_mailbox_open()) != NULL);
    AGAIN(rl_mailbox_serve(box, c) == RL_OK);
    AGAIN((fd = rl_mailbox_fd(box)) >= 0);
    AGAIN((round = rl_sleep(c, 1, NULL, 0)) != NULL);
    int rung = rl_round_post(round, box) != RL_OK;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    /* What was to ring it may have been refused: whoever waits looks at times. */
    while (!rung && !rl_round_outcome(round)) {
        poll(&p, 1, 10);
        rung = rl_mailbox_take(box, &done, 1) == 1;
        EXPECT(!rung || (done.round == round && done.outcome == RL_GRANTED));
    }
    rl_round_free(round);
    rl_mailbox_close(box);
}

/* All servers have it: one that was still connecting is given it with an extension. */
static void await_all(rl_client *c, rl_lease *lease)
{
    int64_t finish_ms = rl_now_ms() + PATIENCE_MS;
    while (rl_lease_votes(lease, 0) < this.n && EXPECT(rl_now_ms() < finish_ms)) {
        outcome_of(rl_extend(lease, LEASE_MS));
        outcome_of(rl_sleep(c, 5, NULL, 0));
    }
}

static void use(rl_client *c)
{
    rl_subscription *subscription = NULL;
    rl_round *round = NULL;
    rl_lease *lease = take(c);
    if (!lease)
        return;
    AGAIN(rl_keep(lease, LEASE_MS, 0) == 0);
    AGAIN((subscription = rl_subscribe(c, "channel", 7)) != NULL);
    AGAIN((round = rl_sleep(c, 5, subscription, rl_subscription_wakes(subscription, 0))) != NULL);
    EXPECT(outcome_of(round) == RL_GRANTED);
    AGAIN(outcome_of(rl_extend(lease, LEASE_MS)) == RL_GRANTED);
    await_all(c, lease);
    char whole[RL_VALUE_MAX];
    const rl_bytes old = {whole, rl_lease_text(lease, 0, whole)};
    rl_lease_free(lease, RL_DISOWN);
    AGAIN((round = rl_import(c, &primitive, &key, 1, NULL, 0, &old, NULL, LEASE_MS, 0,
                             0, &lease)) != NULL);
    int outcome = outcome_of(round);
    EXPECT(outcome == RL_GRANTED);
    AGAIN(outcome_of(rl_ask(c, RL_ASK_MAJORITY, PEEK, &key, 1, NULL, 0, 10000)) == RL_GRANTED);
    AGAIN(outcome_of(rl_check(c)) == RL_GRANTED);
    rl_unsubscribe(subscription);
    if (this.by_loop) {
        use_mailbox(c);
    }
    outcome = outcome_of(rl_release(lease, RL_BEGIN));
    EXPECT(outcome == RL_GRANTED || refused);
    rl_lease_free(lease, RL_DROP);
}

static int64_t owed(rl_client *c)
{
    rl_counters counters;
    rl_get_counters(c, &counters);
    return counters.owed;
}

/* All servers have confirmed that nothing is left, now or later. */
static void await_clean(rl_client *c)
{
    int64_t finish_ms = rl_now_ms() + PATIENCE_MS;
    while (owed(c) > 0 && EXPECT(rl_now_ms() < finish_ms))
        outcome_of(rl_sleep(c, 5, NULL, 0));
}

static void live(int moment)
{
    int before = count_descriptors();
    rl_client *c = NULL;
    this.moment = moment;
    refuse_at(moment);
    AGAIN((c = open_client()) != NULL);
    if (!c)
        return;
    for (int i = 0; i < SCRIPTS; i++)
        AGAIN(rl_script(c, script_text[i], strlen(script_text[i])) == i);
    use(c);
    await_clean(c);
    close_client(c);
    until_refusal = 0;
    /* Threads of lookups may have one a moment longer. */
    for (int i = 0; i < 1000 && count_descriptors() > before; i++)
        pause_ms(1);
    EXPECT(count_descriptors() <= before);
}

int main(int argc, char **argv)
{
    int c, stride = 1, lives = 0;
    while ((c = getopt(argc, argv, "c:s:")) != -1) {
        if (c == 'c')
            this.ca_file = optarg;
        else if (c == 's')
            stride = atoi(optarg);
    }
    if (optind >= argc || argc - optind > RL_MAX_NODES || stride < 1) {
        fprintf(stderr, "usage: %s [-c ca_file] [-s stride] port...\n", argv[0]);
        return 2;
    }
    alarm(STUCK_S);
    read_scripts();
    for (; optind < argc; optind++) {
        this.nodes[this.n] = (rl_node_options){.label = argv[optind],
                                               .host = "127.0.0.1",
                                               .port = atoi(argv[optind])};
        this.n++;
    }
    this.nodes[0].host = "localhost";
    this.nodes[this.n - 1].tls = this.ca_file != NULL;
    this.kind = kinds;
    live(0);                     /* what stays open from the first time on is no loss */
    for (int k = 0; k < 2 * KINDS; k++) {
        this.kind = &kinds[k / 2];
        this.by_loop = k % 2;
        refused = 1;
        for (int i = 1; refused && EXPECT(i < MOMENTS_MAX); i += stride, lives++)
            live(i);
    }
    printf("%d times\n%d passed, %d failed\n", lives, this.failed == 0, this.failed);
    return this.failed > 0;
}
