/* signals.c - a signal that ends a process first releases what the process holds.
 *
 * The handler rings a bell, and a thread does the rest, also while the main thread is in
 * a system call, or in a loop that LuaJIT has compiled. Then the signal is raised again,
 * with the effect that it had before. Ignored signals stay so. The bell is a semaphore:
 * a program that closes all descriptors when it becomes a daemon does not close the
 * bell.
 *
 * Meanwhile the thread that got the signal stands still in the handler: as its lock may
 * have another owner by now, nothing must go on under that lock. A thread that has one
 * of our mutexes goes on until the mutex is free, and is stopped by the signal once
 * more. A thread may have another mutex that is needed, as that of malloc: none stands
 * still for long.
 */
#include "engine/signals.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/client.h"
#include "io/linger.h"

static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM};

enum {
    KINDS = sizeof(numbers) / sizeof(numbers[0]),        /* RL_SIGNAL_* in this order */
    OFFER_MS = 3,            /* to stand still, perhaps with a mutex of ours */
    STOP_MS = 5,             /* to stop the thread when it has given the mutex back */
    HALT_MS = LINGER_MS + 50,
    NAP_NS = 100000
};

enum halt {
    GOING,
    OFFERED,                 /* the thread stands still for a moment ... */
    HALTED                   /* ... or until all is let go */
};

static struct {
    pthread_mutex_t mutex;
    int running;                       /* the thread */
    int caught;                        /* signals with our handler: a mask, as ... */
    struct sigaction before[KINDS];    /* ... these are of */
    sigset_t outside;                  /* blocked before a fork */
    sem_t bell;
    _Atomic int came;                  /* signals: a mask */
    _Atomic int served;                /* the thread is about these */
    _Atomic int halt;                  /* enum halt, of ... */
    _Atomic int tid;                   /* ... the thread that got the last one */
} this = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Waits while halt is as given. */
static void stay(enum halt halt, int64_t ms)
{
    int64_t until_ms = rl_now_ms() + ms;
    while (this.halt == (int)halt && rl_now_ms() < until_ms)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static void on_signal(int signo)
{
    int saved = errno, signal = 0, offered = OFFERED;
    for (int k = 0; k < KINDS; k++)
        signal |= numbers[k] == signo ? 1 << k : 0;
    this.tid = (int)syscall(SYS_gettid);
    if (this.served & signal) {
        this.halt = HALTED;            /* see halt() */
    } else {
        this.halt = OFFERED;
        this.came |= signal;
        sem_post(&this.bell);
        stay(OFFERED, OFFER_MS);
        atomic_compare_exchange_strong(&this.halt, &offered, GOING);
    }
    stay(HALTED, HALT_MS);
    errno = saved;
}

/* With the mutexes of the clients: stops the thread that was told to end, if it can. */
static void halt(int came)
{
    int offered = OFFERED;
    if (atomic_compare_exchange_strong(&this.halt, &offered, HALTED))
        return;
    int k = __builtin_ctz((unsigned)came);
    syscall(SYS_tgkill, getpid(), this.tid, numbers[k]);
    stay(GOING, STOP_MS);
}

/* With the mutex. Gives the signals back, unless somebody else has taken them since. */
static void give_back(int signals)
{
    struct sigaction now;
    for (int k = 0; k < KINDS; k++) {
        if (!(this.caught & signals & 1 << k))
            continue;
        sigaction(numbers[k], NULL, &now);
        if (now.sa_handler == on_signal)
            sigaction(numbers[k], &this.before[k], NULL);
    }
    this.caught &= ~signals;
}

static void *serve(void *arg)
{
    for (;;) {
        while (sem_wait(&this.bell) < 0)
            continue;
        int came = atomic_exchange(&this.came, 0);
        if (!came)
            continue;
        this.served = came;
        clients_lock(came);
        halt(came);
        clients_let_go(came);
        pthread_mutex_lock(&this.mutex);
        give_back(came);
        pthread_mutex_unlock(&this.mutex);
        for (int k = 0; k < KINDS; k++) {
            if (came & 1 << k)
                kill(getpid(), numbers[k]);
        }
        this.served = 0;
        this.halt = GOING;
        clients_unlock(came);
    }
    return arg;
}

/* ---- fork: the child has no such thread, and signals of its own ---- */

void signals_before_fork(void)
{
    sigset_t all;
    pthread_mutex_lock(&this.mutex);
    sigfillset(&all);        /* none may come in the child before signals_after_fork() */
    pthread_sigmask(SIG_SETMASK, &all, &this.outside);
}

void signals_after_fork(int is_child)
{
    sigset_t outside = this.outside;
    if (is_child) {
        give_back(this.caught);
        this.running = 0;
        this.came = 0;
        this.served = 0;
        this.halt = GOING;
        pthread_mutex_init(&this.mutex, NULL);
    } else {
        pthread_mutex_unlock(&this.mutex);
    }
    pthread_sigmask(SIG_SETMASK, &outside, NULL);
}

/* With the mutex. 0, or -1. */
static int start_thread(void)
{
    pthread_t thread;
    sigset_t all, old;
    if (this.running)
        return 0;
    if (sem_init(&this.bell, 0, 0) < 0)
        return -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    this.running = pthread_create(&thread, NULL, serve, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (this.running)
        pthread_detach(thread);
    return this.running ? 0 : -1;
}

int signals_catch(int signals)
{
    struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, now;
    pthread_mutex_lock(&this.mutex);
    int failed = start_thread();
    sigfillset(&ours.sa_mask);
    for (int k = 0; k < KINDS && !failed; k++) {
        if (!(signals & 1 << k))
            continue;
        sigaction(numbers[k], NULL, &now);
        if (now.sa_handler == on_signal || now.sa_handler == SIG_IGN)
            continue;
        this.before[k] = now;
        this.caught |= 1 << k;
        sigaction(numbers[k], &ours, NULL);
    }
    pthread_mutex_unlock(&this.mutex);
    return failed;
}
