/* test.h - a tiny harness: suites of test functions, checks that report and go on.
 *
 * A test fails when a CHECK in it fails, a REQUIRE ends it, or the code under test hits
 * an assertion: the others still run, and the last line counts all of them.
 */
#ifndef TEST_H
#define TEST_H

#include <stddef.h>
#include <stdint.h>

struct test {
    const char *name;
    void (*run)(void);
};

struct suite {
    const char *name;
    const struct test *tests;     /* up to one without a name */
};

#define SUITE(id, ...)                         \
    const struct suite suite_##id = {          \
        #id, (const struct test[]){__VA_ARGS__, {NULL, NULL}}}
#define T(function) {#function, function}

/* The condition holds; its value is the condition's. */
#define CHECK(cond) test_check(!!(cond), __FILE__, __LINE__, #cond)

/* As CHECK; the test is over when it fails. */
#define REQUIRE(cond) \
    (CHECK(cond) ? (void)0 : test_abandon())

/* Two integers, or two strings, are the same. */
#define CHECK_INT(got, want) \
    test_check_int((int64_t)(got), (int64_t)(want), __FILE__, __LINE__, #got)
#define CHECK_STR(got, want) test_check_str((got), (want), __FILE__, __LINE__, #got)

int test_check(int ok, const char *file, int line, const char *what);
int test_check_int(int64_t got, int64_t want, const char *file, int line,
                   const char *what);
int test_check_str(const char *got, const char *want, const char *file, int line,
                   const char *what);
_Noreturn void test_abandon(void);

/* How many checks of the running test failed so far. */
int test_failures(void);

/* What a failure is printed with, for tests that repeat; NULL: nothing. Copied. */
void test_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The command line's seed and its factor for the number of random runs. */
uint64_t test_seed(void);
int test_runs(int usual);

/* Pseudo-random numbers (splitmix64), the same ones for the same seed everywhere. */
struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

/* 0 .. n - 1 */
static inline int rng_below(struct rng *r, int n)
{
    return (int)(rng_next(r) % (uint64_t)n);
}

/* True once in n times. */
static inline int rng_one_in(struct rng *r, int n)
{
    return rng_below(r, n) == 0;
}

#endif
