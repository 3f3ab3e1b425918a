/* signals.c - signals that end a process let go first what it holds.
 *
 * The handler only rings a bell; a thread does the rest, also while the main thread is in a
 * system call, or in a loop that LuaJIT has compiled. Then the signal is raised again, with
 * what was to become of it before. What is ignored stays so. The bell is a semaphore: a
 * program that closes all descriptors when it becomes a daemon does not close it.
 */
#include "engine.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM};

enum { KINDS = sizeof(numbers) / sizeof(numbers[0]) };   /* RL_SIGNAL_* in this order */

static struct {
    pthread_mutex_t mutex;
    int running;                       /* the thread */
    int caught;                        /* signals with our handler: a mask, as ... */
    struct sigaction before[KINDS];    /* ... these are of */
    sigset_t outside;                  /* blocked before a fork */
    sem_t bell;
    _Atomic int came;
} this = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void on_signal(int signo)
{
    int saved = errno;
    for (int k = 0; k < KINDS; k++) {
        if (numbers[k] == signo)
            this.came |= 1 << k;
    }
    sem_post(&this.bell);
    errno = saved;
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
        clients_let_go(came);
        pthread_mutex_lock(&this.mutex);
        give_back(came);
        pthread_mutex_unlock(&this.mutex);
        for (int k = 0; k < KINDS; k++) {
            if (came & 1 << k)
                kill(getpid(), numbers[k]);
        }
    }
    return arg;
}

/* ---- fork: the child has no such thread, and its signals are its own ---- */

void signals_before_fork(void)
{
    sigset_t all;
    pthread_mutex_lock(&this.mutex);
    sigfillset(&all);        /* none may come in the child before they are given back */
    pthread_sigmask(SIG_SETMASK, &all, &this.outside);
}

void signals_after_fork(int is_child)
{
    sigset_t outside = this.outside;
    if (is_child) {
        give_back(this.caught);
        this.running = 0;
        this.came = 0;
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
