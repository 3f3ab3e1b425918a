/* signals.c - the handler rings a bell, and a thread does the rest, even while the main
 * thread is in a system call or in a loop that LuaJIT has compiled. Then the thread
 * raises the signal again, with its former effect. Ignored signals stay ignored. The bell
 * is a semaphore, as a program that becomes a daemon may close all descriptors.
 *
 * Meanwhile the thread that got the signal waits in the handler: its lock may soon have
 * another owner, so it must do nothing under that lock. If it is in the engine, perhaps with
 * one of our mutexes, it goes on, and waits when it leaves. It may also have another mutex
 * that we need, such as malloc's, so it does not wait for ever.
 */
#include "engine/signals.h"

#include <errno.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "engine/client.h"

static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM};

enum {
    KINDS = sizeof(numbers) / sizeof(numbers[0]),        /* RL_SIGNAL_* in this order */
    HALT_MS = 1000,          /* also on a machine that is busy */
    NAP_NS = 100000
};

static struct {
    pthread_mutex_t mutex;
    int running;                       /* the thread */
    _Atomic int caught;                /* mask of the signals with our handler, ... */
    struct sigaction before[KINDS];    /* ... and their former actions */
    sigset_t outside;                  /* the signal mask before a fork */
    sem_t bell;
    _Atomic int came;                  /* mask of signals that came */
    _Atomic int served;                /* mask of those that the thread handles now */
} this = {.mutex = PTHREAD_MUTEX_INITIALIZER};

SIGNALS_THREAD volatile sig_atomic_t signals_inside, signals_waits;

void signals_wait(void)
{
    int64_t until_ms = rl_now_ms() + HALT_MS;
    while ((this.came | this.served) & signals_waits && rl_now_ms() < until_ms)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    signals_waits = 0;
}

static void on_signal(int signo)
{
    int saved = errno, k = 0;
    while (numbers[k] != signo)
        k++;
    if (this.caught & 1 << k) {
        signals_waits = signals_waits | 1 << k;
        this.came |= 1 << k;
        sem_post(&this.bell);
        if (!signals_inside)
            signals_wait();
    } else {                 /* all is released: the handler that replaced ours calls it */
        sigaction(signo, &this.before[k], NULL);
        raise(signo);
    }
    errno = saved;
}

/* With the mutex. Restores the signals' former actions, unless others replaced ours. */
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
        int came = this.came;
        this.served = came;
        this.came &= ~came;
        if (!came)
            continue;
        clients_lock(came);
        clients_let_go(came);
        pthread_mutex_lock(&this.mutex);
        give_back(came);
        pthread_mutex_unlock(&this.mutex);
        for (int k = 0; k < KINDS; k++) {
            if (came & 1 << k)
                kill(getpid(), numbers[k]);
        }
        this.served = 0;
        clients_unlock(came);
    }
    return arg;
}

/* ---- fork: the child has no such thread, and its own signals ---- */

void signals_before_fork(void)
{
    sigset_t all;
    pthread_mutex_lock(&this.mutex);
    sigfillset(&all);        /* the child gets none before signals_after_fork() */
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
        signals_inside = signals_waits = 0;
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
