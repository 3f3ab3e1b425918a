/* ends.c - threads, forks and exits that come at an awkward moment.
 *
 *   ends case port...
 *
 * To be run in the top directory, under the sanitizers, against servers that are well. Ends
 * with 0 when nothing is wrong; a sanitizer ends it otherwise.
 */
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lock_script.h"
#include "redlock.h"

enum { LEASE_MS = 60000, WAIT_MS = 1500, IN_LOOKUP_MS = 15, STUCK_S = 60 };

static struct {
    rl_node_options nodes[RL_MAX_NODES];
    int n;
    rl_primitive primitive;
    int signals;                  /* of clients opened from now on */
    int slow_join;                /* ms that joining takes */
    rl_client *client;
    rl_lease *lease;
} this = {.primitive = {0, 1, 2, -1, -1, -1, RL_RULE_YES, 0, 0}};

#define EXPECT(cond)                                                                         \
    do {                                                                                     \
        if (!(cond)) {                                                                       \
            fprintf(stderr, "ends.c:%d: %s\n", __LINE__, #cond);                             \
            _exit(1);                                                                        \
        }                                                                                    \
    } while (0)

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) < 0)
        continue;
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* ---- clients ---- */

static void script(rl_client *c, const char *name)
{
    char body[LOCK_SCRIPT_MAX];
    EXPECT(rl_script(c, body, lock_script(name, body)) >= 0);
}

/* key: of a shared one, or NULL. */
static rl_client *open_client(const char *key)
{
    char err[256];
    rl_options options = {.timeout_ms = 250, .connect_timeout_ms = 1000, .drift_ppm = 10000,
                          .signals = this.signals};
    rl_client *c = rl_open(key, key ? strlen(key) : 0, &options, this.nodes, this.n, err,
                           sizeof(err));
    EXPECT(c);
    script(c, "acquire");
    script(c, "extend");
    script(c, "release");
    return c;
}

static int finish(rl_round *round)
{
    int outcome;
    if (!round)
        return RL_CLOSED;
    while ((outcome = rl_wait(round)) == RL_INTERRUPTED)
        continue;
    rl_round_free(round);
    return outcome;
}

static int take(rl_client *c, rl_lease **lease)
{
    rl_bytes key = {"x", 1};
    *lease = NULL;
    return finish(rl_acquire(c, &this.primitive, &key, 1, NULL, 0, NULL, LEASE_MS, 10000, -1,
                             RL_BEGIN, lease));
}

static void give_back(void)
{
    finish(rl_release(this.lease, RL_BEGIN));
    rl_lease_free(this.lease, RL_DROP);
}

/* ---- the cases ---- */

/* A program that embeds us gives its handles back in an exit handler, behind ours. */
static void drop_and_close(void)
{
    rl_lease_free(this.lease, RL_DROP);
    rl_close(this.client);
}

static void exit_before_close(void)
{
    atexit(drop_and_close);
    this.client = open_client(NULL);
    EXPECT(take(this.client, &this.lease) == RL_GRANTED);
    exit(0);
}

/* A thread goes on waiting while the process ends. */
static void *wait_on(void *arg)
{
    for (;;) {
        rl_round *round = rl_sleep(this.client, LEASE_MS, NULL, 0);
        if (round)
            finish(round);
        else
            pause_ms(1);
    }
    return arg;
}

static void linger(void)
{
    pause_ms(200);
}

static void exit_while_waiting(void)
{
    pthread_t thread;
    atexit(linger);
    this.client = open_client(NULL);
    pthread_create(&thread, NULL, wait_on, NULL);
    pause_ms(300);
    exit(0);
}

/* Another thread gives back the last use of a shared client while the process ends. Joining
 * takes a while here, which makes the window wide. */
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);

int __wrap_pthread_join(pthread_t thread, void **result)
{
    static atomic_int joins;
    EXPECT(!this.slow_join || joins++ == 0);
    pause_ms(this.slow_join);
    return __real_pthread_join(thread, result);
}

static void *give_up(void *arg)
{
    rl_unshare(this.client, 1);
    return arg;
}

static void exit_while_unsharing(void)
{
    pthread_t thread;
    atexit(linger);
    this.slow_join = 50;
    this.client = open_client("k");
    EXPECT(finish(rl_sleep(this.client, 10, NULL, 0)) == RL_GRANTED);
    pthread_create(&thread, NULL, give_up, NULL);
    pause_ms(20);
    exit(0);
}

/* Two threads wait on one client that has a keeper: nobody works. */
static void *sleep_on(void *arg)
{
    finish(rl_sleep(this.client, WAIT_MS, NULL, 0));
    return arg;
}

static void two_who_wait(void)
{
    pthread_t threads[2];
    this.client = open_client(NULL);
    EXPECT(take(this.client, &this.lease) == RL_GRANTED);
    EXPECT(rl_keep(this.lease, LEASE_MS, 0) == RL_OK);
    pause_ms(100);
    double before_s = cpu_s();
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, sleep_on, NULL);
    for (int i = 0; i < 2; i++)
        __real_pthread_join(threads[i], NULL);
    EXPECT(cpu_s() - before_s < WAIT_MS / 3000.0);
    give_back();
    exit(0);
}

/* The child of a fork hands its parent's lease to the watchdog: of no effect. */
static void keep_in_a_child(void)
{
    this.client = open_client("k");
    EXPECT(take(this.client, &this.lease) == RL_GRANTED);
    pid_t pid = fork();
    if (pid == 0) {
        EXPECT(rl_keep(this.lease, LEASE_MS, 0) == RL_OK);
        double before_s = cpu_s();
        pause_ms(WAIT_MS);
        EXPECT(cpu_s() - before_s < WAIT_MS / 3000.0);
        _exit(0);
    }
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    give_back();
    rl_unshare(this.client, 1);
    exit(0);
}

/* The machine sleeps while the last user gives a shared client back and its thread, which looks
 * at the time often here, has the mutex: one of the two closes it. */
enum { AWAKE, LEAVING, LEFT, DOZING, SLEPT, SLEPT_MS = 60000 };

static atomic_int phase, looks;
static pthread_t user;

int64_t __real_rl_now_ms(void);
int64_t __wrap_rl_now_ms(void);
ssize_t __real_read(int fd, void *data, size_t size);
ssize_t __wrap_read(int fd, void *data, size_t size);

int64_t __wrap_rl_now_ms(void)
{
    int64_t now_ms = __real_rl_now_ms();
    if (phase == LEAVING && pthread_equal(pthread_self(), user)) {
        phase = LEFT;
        while (phase == LEFT)
            pause_ms(1);
        return now_ms;
    }
    if (phase == LEFT) {
        phase = DOZING;
        pause_ms(100);       /* the user waits for the mutex meanwhile */
        phase = SLEPT;
    }
    return now_ms + (phase == SLEPT ? SLEPT_MS : 0);
}

ssize_t __wrap_read(int fd, void *data, size_t size)
{
    if (!looks)
        return __real_read(fd, data, size);
    pause_ms(1);             /* the thread's sleep */
    return 0;
}

static void a_sleep_while_unsharing(void)
{
    looks = 1;
    user = pthread_self();
    this.client = open_client("k");
    EXPECT(finish(rl_sleep(this.client, 10, NULL, 0)) == RL_GRANTED);
    phase = LEAVING;
    rl_unshare(this.client, 1);
    EXPECT(!rl_known(this.client));
    this.client = open_client("k");
    rl_unshare(this.client, 0);        /* it has no thread, which would close it */
    EXPECT(!rl_known(this.client));
    exit(0);
}

/* The resolver hangs: there is one lookup for each connection, not one more each second; and
 * a program that is executed meanwhile inherits nothing. */
static atomic_int hangs, ends;

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list)
{
    while (hangs && !(hints->ai_flags & AI_NUMERICHOST))
        pause_ms(10);
    if (ends && hints->ai_flags & AI_NUMERICHOST) {
        ends = 0;            /* in the engine, with its mutex */
        kill(getpid(), SIGTERM);
        pause_ms(IN_LOOKUP_MS);
    }
    return __real_getaddrinfo(host, port, hints, list);
}

static void a_resolver_that_hangs(void)
{
    for (int i = 0; i < this.n; i++)
        this.nodes[i].host = "localhost";
    hangs = 1;
    int status, before = entries("/proc/self/fd");
    this.client = open_client("k");
    rl_subscription *subscription = rl_subscribe(this.client, "c", 1);
    rl_lease *lease;
    int threads = entries("/proc/self/task");
    for (int i = 0; i < 6; i++) {
        EXPECT(take(this.client, &lease) == RL_NO_QUORUM);
        rl_lease_free(lease, RL_DROP);
        pause_ms(500);
    }
    EXPECT(entries("/proc/self/task") - threads <= 1 + 2 * this.n);
    EXPECT(system("test $(ls -l /proc/self/fd | grep -c eventfd) = 0") == 0);
    rl_client *closed = open_client(NULL);
    EXPECT(take(closed, &lease) == RL_NO_QUORUM);
    rl_lease_free(lease, RL_DROP);
    rl_close(closed);
    pid_t pid = fork();
    if (pid == 0)            /* it has the descriptors of no lookup */
        _exit(entries("/proc/self/fd") - before);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    hangs = 0;
    for (int i = 0; i < 100 && take(this.client, &this.lease) != RL_GRANTED; i++) {
        rl_lease_free(this.lease, RL_DROP);
        this.lease = NULL;
        pause_ms(50);
    }
    EXPECT(this.lease);
    give_back();
    rl_unsubscribe(subscription);
    rl_unshare(this.client, 1);
    exit(0);
}

/* The program has a handler of its own, which lets it go on: it comes behind the release, and
 * the client is as one that is closed. Again and again, while threads wait on it. */
static atomic_int handled;

static void on_signal(int signo)
{
    handled += signo == SIGTERM;
}

static void *wait_until_closed(void *arg)
{
    while (finish(rl_sleep(this.client, LEASE_MS, NULL, 0)) != RL_CLOSED)
        continue;
    return arg;
}

static void signals_with_a_handler(void)
{
    pthread_t threads[3];
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGTERM, &act, NULL);
    this.signals = RL_SIGNAL_TERM | RL_SIGNAL_USR1;
    for (int k = 1; k <= 20; k++) {
        this.client = open_client(NULL);
        EXPECT(take(this.client, &this.lease) == RL_GRANTED);
        EXPECT(k % 2 || rl_keep(this.lease, LEASE_MS, 0) == RL_OK);
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, wait_until_closed, NULL);
        pause_ms(k);
        kill(getpid(), SIGTERM);
        for (int i = 0; i < STUCK_S * 1000 && handled < k; i++)
            pause_ms(1);
        EXPECT(handled == k);
        EXPECT(rl_remaining_ms(this.lease) == 0);
        EXPECT(rl_lease_lost(this.lease) == RL_LOSS_CLOSED);
        for (int i = 0; i < 3; i++)
            __real_pthread_join(threads[i], NULL);
        rl_lease_free(this.lease, RL_DROP);
        rl_close(this.client);
    }
    exit(0);
}

/* The thread that gets the signal has a mutex of ours: it is stopped when it has given that
 * back, until what it held is let go, for which the last server, which hangs, is waited for. */
static void a_signal_in_the_engine(void)
{
    rl_lease *lease;
    rl_bytes key = {"y", 1};
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGTERM, &act, NULL);
    this.signals = RL_SIGNAL_TERM;
    this.client = open_client(NULL);
    for (rl_node_info info = {0}; !info.stats.ready;) {   /* else it has none to release */
        EXPECT(take(this.client, &this.lease) == RL_GRANTED);
        give_back();
        rl_node_get_info(this.client, this.n - 1, &info);
    }
    EXPECT(take(this.client, &this.lease) == RL_GRANTED);
    puts("held");
    fflush(stdout);
    getchar();               /* it hangs from now on */
    rl_client *other = open_client(NULL);
    ends = 1;
    int64_t last_ms = rl_now_ms(), longest_ms = 0;
    rl_round *round = rl_acquire(other, &this.primitive, &key, 1, NULL, 0, NULL, LEASE_MS, 10000,
                                 -1, RL_BEGIN, &lease);
    for (int over = 0; !over;) {
        over = handled;      /* before the look at the clock: the pause was before, too */
        int64_t now_ms = rl_now_ms();
        if (now_ms - last_ms > longest_ms)
            longest_ms = now_ms - last_ms;
        last_ms = now_ms;
    }
    EXPECT(longest_ms >= 40);
    EXPECT(finish(round) == RL_CLOSED);
    rl_lease_free(lease, RL_DROP);
    rl_lease_free(this.lease, RL_DROP);
    exit(0);
}

/* The thread that releases hears of a signal late: the one that got the signal does nothing
 * before all is released, and the program's own handler has run. */
static int late_ms;

int __real_sem_wait(sem_t *sem);
int __wrap_sem_wait(sem_t *sem);

int __wrap_sem_wait(sem_t *sem)
{
    int failed = __real_sem_wait(sem);
    pause_ms(late_ms);
    return failed;
}

static void signals_on_a_busy_machine(void)
{
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGTERM, &act, NULL);
    this.signals = RL_SIGNAL_TERM;
    this.client = open_client(NULL);
    EXPECT(take(this.client, &this.lease) == RL_GRANTED);
    late_ms = 100;
    kill(getpid(), SIGTERM);
    EXPECT(handled == 1);
    EXPECT(rl_lease_lost(this.lease) == RL_LOSS_CLOSED);
    rl_lease_free(this.lease, RL_DROP);
    rl_close(this.client);
    exit(0);
}

/* The program's own handler calls the one that it replaced: the signal ends the process all the
 * same. */
static struct sigaction replaced;

static void hand_on(int signo)
{
    replaced.sa_handler(signo);
}

static void signals_handed_on(void)
{
    struct sigaction act = {.sa_handler = hand_on};
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(STUCK_S / 2);
        this.signals = RL_SIGNAL_TERM;
        this.client = open_client(NULL);
        EXPECT(take(this.client, &this.lease) == RL_GRANTED);
        sigaction(SIGTERM, &act, &replaced);
        kill(getpid(), SIGTERM);
        for (;;)
            pause();
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    exit(0);
}

/* Signals come while threads fork and clients come and go: each child ends by the signal. */
static void *fork_on(void *arg)
{
    int status;
    for (int k = 0; k < 50; k++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (;;)
                pause();
        }
        kill(pid, SIGUSR1);
        while (waitpid(pid, &status, 0) < 0)
            EXPECT(errno == EINTR);
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    }
    return arg;
}

static void signals_while_forking(void)
{
    pthread_t threads[2];
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGTERM, &act, NULL);
    this.signals = RL_SIGNAL_TERM | RL_SIGNAL_USR1;
    this.client = open_client(NULL);
    EXPECT(take(this.client, &this.lease) == RL_GRANTED);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, fork_on, NULL);
    for (int k = 0; k < 30; k++) {
        rl_client *other = open_client(NULL);
        rl_lease *lease;
        int outcome = take(other, &lease);
        EXPECT(outcome == RL_HELD || outcome == RL_GRANTED || outcome == RL_CLOSED);
        if (k % 5 == 0)
            kill(getpid(), SIGTERM);
        if (lease)
            rl_lease_free(lease, RL_DROP);
        rl_close(other);
    }
    for (int i = 0; i < 2; i++)
        __real_pthread_join(threads[i], NULL);
    rl_lease_free(this.lease, RL_DROP);
    rl_close(this.client);
    exit(0);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"signals_with_a_handler", signals_with_a_handler},
    {"signals_while_forking", signals_while_forking},
    {"signals_on_a_busy_machine", signals_on_a_busy_machine},
    {"signals_handed_on", signals_handed_on},
    {"a_signal_in_the_engine", a_signal_in_the_engine},
    {"exit_before_close", exit_before_close},
    {"exit_while_waiting", exit_while_waiting},
    {"exit_while_unsharing", exit_while_unsharing},
    {"two_who_wait", two_who_wait},
    {"keep_in_a_child", keep_in_a_child},
    {"a_sleep_while_unsharing", a_sleep_while_unsharing},
    {"a_resolver_that_hangs", a_resolver_that_hangs},
};

int main(int argc, char **argv)
{
    alarm(STUCK_S);
    for (int i = 2; i < argc && this.n < RL_MAX_NODES; i++) {
        this.nodes[this.n].host = "127.0.0.1";
        this.nodes[this.n++].port = atoi(argv[i]);
    }
    for (size_t i = 0; argc > 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!strcmp(argv[1], cases[i].name))
            cases[i].run();
    }
    fprintf(stderr, "usage: ends case port...\n");
    return 2;
}
