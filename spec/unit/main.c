/* main.c - runs the unit tests of the pure layers.
 *
 *   unit [-s seed] [-x factor] [part of a name]
 *
 * -s: the seed of the random tests (1); -x: so many times the usual number of random
 * runs (1). Exit status 1 when a test failed. Under valgrind, which is some fifty times
 * slower, a sixteenth of the usual number is run: -x 16 runs all.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/reader.h"
#include "test.h"

enum { PRINTED_MAX = 10 };         /* failures of one test that are printed */

static struct {
    uint64_t seed;
    int factor;
    const char *filter;
    char name[128];                /* of the running test */
    char note[128];
    int failures;                  /* of the running test */
    sigjmp_buf out;                /* of the running test */
} this = {.seed = 1, .factor = 1};

extern const struct suite suite_buf, suite_quorum, suite_wire, suite_timer, suite_cmd,
    suite_node, suite_core, suite_acquire, suite_release_late, suite_extend, suite_watchdog,
    suite_release, suite_import, suite_random, suite_vote, suite_memory, suite_fence,
    suite_close, suite_clock, suite_guard, suite_subscription,
    suite_delay, suite_steps,
    suite_query,
    suite_watchdog_loss,
    suite_scripts,
    suite_connection,
    suite_wire_errors, suite_wire_whole,
    suite_answer,
    suite_node_down,
    suite_marker, suite_marked, suite_quarantine, suite_teach, suite_cluster,
    suite_same,
    suite_cleanups,
    suite_pace, suite_batch;

static const struct suite *const suites[] = {
    &suite_buf,     &suite_quorum,  &suite_wire,   &suite_timer,   &suite_cmd,
    &suite_node,    &suite_core,    &suite_acquire, &suite_release_late,  &suite_extend,
    &suite_watchdog,    &suite_release, &suite_import, &suite_random, &suite_vote,
    &suite_memory,  &suite_fence,   &suite_close, &suite_clock,
    &suite_guard,   &suite_subscription,   &suite_delay,  &suite_steps,
    &suite_query,
    &suite_watchdog_loss,
    &suite_scripts,
    &suite_connection,
    &suite_wire_errors, &suite_wire_whole,
    &suite_answer,
    &suite_node_down,
    &suite_marker, &suite_marked, &suite_quarantine, &suite_teach, &suite_cluster,
    &suite_same,
    &suite_cleanups,
    &suite_pace, &suite_batch,
};

/* ---- checks ---- */

static void report(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void report(const char *file, int line, const char *format, ...)
{
    if (++this.failures > PRINTED_MAX)
        return;
    const char *base = strrchr(file, '/');
    printf("%s:%d: %s: ", base ? base + 1 : file, line, this.name);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    if (this.note[0])
        printf(" (%s)", this.note);
    putchar('\n');
    fflush(stdout);
}

int test_check(int ok, const char *file, int line, const char *what)
{
    if (!ok)
        report(file, line, "%s", what);
    return ok;
}

int test_check_int(int64_t got, int64_t want, const char *file, int line,
                   const char *what)
{
    if (got != want)
        report(file, line, "%s is %" PRId64 ", not %" PRId64, what, got, want);
    return got == want;
}

int test_check_str(const char *got, const char *want, const char *file, int line,
                   const char *what)
{
    int ok = strcmp(got, want) == 0;
    if (!ok)
        report(file, line, "%s is \"%s\", not \"%s\"", what, got, want);
    return ok;
}

void test_abandon(void)
{
    siglongjmp(this.out, 1);
}

int test_failures(void)
{
    return this.failures;
}

void test_note(const char *format, ...)
{
    this.note[0] = '\0';
    if (!format)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(this.note, sizeof(this.note), format, args);
    va_end(args);
    for (char *c = this.note; *c; c++)   /* a note may be what a server said */
        *c = *c >= ' ' && *c <= '~' ? *c : '.';
}

uint64_t test_seed(void)
{
    return this.seed;
}

static int under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "vgpreload");
}

int test_runs(int usual)
{
    return usual * this.factor / (under_valgrind() ? 16 : 1);
}

/* ---- running ---- */

/* An assertion of the code under test: what it left behind is lost, but that is the
 * least of the troubles then. */
static void on_abort(int sig)
{
    (void)sig;
    siglongjmp(this.out, 2);
}

/* 1: it passed, 0: it failed. */
static int run(const struct suite *suite, const struct test *test)
{
    snprintf(this.name, sizeof(this.name), "%s.%s", suite->name, test->name);
    this.failures = 0;
    this.note[0] = '\0';
    int how = sigsetjmp(this.out, 1);
    if (!how)
        test->run();
    else if (how == 2)
        report(__FILE__, __LINE__, "aborted");
    if (this.failures > PRINTED_MAX)
        printf("%s: %d failures in all\n", this.name, this.failures);
    return !this.failures;
}

static int options(int argc, char **argv)
{
    int c;
    while ((c = getopt(argc, argv, "s:x:")) != -1) {
        if (c == 's')
            this.seed = strtoull(optarg, NULL, 10);
        else if (c == 'x')
            this.factor = atoi(optarg);
        else
            return -1;
    }
    this.filter = argv[optind];
    return 0;
}

int main(int argc, char **argv)
{
    if (options(argc, argv) < 0) {
        fprintf(stderr, "usage: %s [-s seed] [-x factor] [part of a name]\n", argv[0]);
        return 2;
    }
    const char *missing = reader_load();
    if (missing) {
        fprintf(stderr, "%s: %s\n", argv[0], missing);
        return 2;
    }
    signal(SIGABRT, on_abort);
    int passed = 0, failed = 0;
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++) {
        for (const struct test *t = suites[i]->tests; t->name; t++) {
            char name[128];
            snprintf(name, sizeof(name), "%s.%s", suites[i]->name, t->name);
            if (this.filter && !strstr(name, this.filter))
                continue;
            if (run(suites[i], t))
                passed++;
            else
                failed++;
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
