/* test_cmd.c - against hiredis' formatter, and what the pool keeps. */
#include "node/cmd.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { WORDS_MAX = 2 * RL_MAX_KEYS + RL_MAX_ARGS + 4 };

/* The words behind the script, as strings. */
struct words {
    const char *argv[WORDS_MAX];
    size_t len[WORDS_MAX];
    int argc;
    char numkeys[24];
    char lease[24];
};

static void word(struct words *w, const char *data, size_t len)
{
    w->argv[w->argc] = data;
    w->len[w->argc++] = len;
}

static void words_begin(struct words *w, const rl_bytes *keys, int nkeys)
{
    w->argc = 0;
    word(w, w->numkeys, (size_t)snprintf(w->numkeys, sizeof(w->numkeys), "%d", nkeys));
    for (int i = 0; i < nkeys; i++)
        word(w, keys[i].data, keys[i].len);
}

static void words_lease(struct words *w, rl_bytes value, int64_t lease_ms)
{
    word(w, value.data, value.len);
    word(w, w->lease, (size_t)snprintf(w->lease, sizeof(w->lease), "%lld",
                                       (long long)lease_ms));
}

static void words_args(struct words *w, const rl_bytes *args, int nargs)
{
    for (int i = 0; i < nargs; i++)
        word(w, args[i].data, args[i].len);
}

static void is_formatted(const struct cmd *cmd, struct words *w)
{
    char *want = NULL;
    int len = redisFormatCommandArgv(&want, w->argc, w->argv, w->len);
    REQUIRE(len > 0);
    int head = (int)(strchr(want, '\n') + 1 - want);   /* "*argc\r\n" */
    CHECK_INT(cmd->argc, w->argc);
    if (CHECK_INT(cmd->len, len - head))
        CHECK(!memcmp(cmd->bytes, want + head, cmd->len));
    CHECK(cmd->len <= cmd->cap);
    redisFreeCommand(want);
}

/* ---- random arguments ---- */

static char noise[8192];

static int random_items(struct rng *r, rl_bytes *items, int max)
{
    static const int most[] = {1, 20, 300, 4000};
    int n = rng_below(r, max + 1), longest = most[rng_below(r, 4)];
    for (int i = 0; i < n; i++) {
        items[i].data = noise + rng_below(r, 4096);
        items[i].len = (size_t)rng_below(r, longest);
    }
    return n;
}

static void make_noise(struct rng *r)
{
    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)rng_next(r);
}

/* With a card, or without one. */
static rl_bytes random_value(struct rng *r)
{
    size_t card = (size_t)rng_below(r, RL_VALUE_MAX - RL_VALUE_LEN + 1);
    return (rl_bytes){noise + rng_below(r, 4096),
                      RL_VALUE_LEN + (rng_below(r, 2) ? card : 0)};
}

static int64_t random_lease(struct rng *r)
{
    return (int64_t)(rng_next(r) >> (1 + rng_below(r, 62)));
}

static void formats_keys_and_arguments(void)
{
    struct cmd_pool pool = {0};
    struct rng r = {test_seed()};
    make_noise(&r);
    for (int k = 0; k < test_runs(400); k++) {
        rl_bytes keys[RL_MAX_KEYS], args[RL_MAX_ARGS];
        int nkeys = random_items(&r, keys, RL_MAX_KEYS);
        int nargs = random_items(&r, args, RL_MAX_ARGS);
        struct words w;
        test_note("run %d", k);
        words_begin(&w, keys, nkeys);
        words_args(&w, args, nargs);
        struct cmd *cmd = cmd_new(&pool, keys, nkeys, args, nargs);
        REQUIRE(cmd != NULL);
        is_formatted(cmd, &w);
        CHECK_INT(cmd->lease_len, 0);
        cmd_unref(&pool, cmd);
    }
    cmd_pool_free(&pool);
}

static void shortens_a_lease(void)
{
    struct cmd_pool pool = {0};
    struct rng r = {test_seed()};
    make_noise(&r);
    for (int k = 0; k < test_runs(400); k++) {
        rl_bytes keys[RL_MAX_KEYS + 1] = {{noise, 9}}, args[RL_MAX_ARGS];
        int nkeys = 1 + random_items(&r, keys + 1, RL_MAX_KEYS - 1);
        int nargs = random_items(&r, args, RL_MAX_ARGS);
        int64_t lease_ms = random_lease(&r);
        rl_bytes value = random_value(&r);
        struct words w;
        test_note("run %d", k);
        words_begin(&w, keys, 1);
        words_lease(&w, value, lease_ms);
        struct cmd *cmd = cmd_new_lease(&pool, keys, nkeys, value, 1, k, args, nargs);
        REQUIRE(cmd != NULL);
        struct cmd *changed = cmd_with_lease(&pool, cmd, lease_ms);
        REQUIRE(changed != NULL);
        struct cmd *brief = cmd_brief(&pool, changed);
        REQUIRE(brief != NULL);
        is_formatted(brief, &w);
        cmd_unref(&pool, brief);
        cmd_unref(&pool, changed);
        cmd_unref(&pool, cmd);
    }
    cmd_pool_free(&pool);
}

static void formats_leases_and_changes_them(void)
{
    struct cmd_pool pool = {0};
    struct rng r = {test_seed()};
    make_noise(&r);
    for (int k = 0; k < test_runs(400); k++) {
        rl_bytes keys[RL_MAX_KEYS], args[RL_MAX_ARGS];
        int nkeys = random_items(&r, keys, RL_MAX_KEYS);
        int nargs = random_items(&r, args, RL_MAX_ARGS);
        int64_t first_ms = random_lease(&r), second_ms = random_lease(&r);
        rl_bytes value = random_value(&r);
        struct words a, b;
        test_note("run %d", k);
        words_begin(&a, keys, nkeys);
        words_lease(&a, value, first_ms);
        words_args(&a, args, nargs);
        words_begin(&b, keys, nkeys);
        words_lease(&b, value, second_ms);
        words_args(&b, args, nargs);

        struct cmd *one =
            cmd_new_lease(&pool, keys, nkeys, value, first_ms, -1, args, nargs);
        REQUIRE(one != NULL);
        is_formatted(one, &a);
        struct cmd *two = cmd_with_lease(&pool, one, second_ms);
        REQUIRE(two != NULL);
        is_formatted(two, &b);
        is_formatted(one, &a);           /* the old one is as it was */
        struct cmd *back = cmd_with_lease(&pool, two, first_ms);
        REQUIRE(back != NULL);
        is_formatted(back, &a);
        CHECK_INT(back->lease_at, one->lease_at);
        CHECK_INT(back->lease_len, one->lease_len);
        cmd_unref(&pool, one);
        cmd_unref(&pool, two);
        cmd_unref(&pool, back);
    }
    cmd_pool_free(&pool);
}

/* ---- the pool ---- */

static struct cmd *with_key(struct cmd_pool *pool, const char *key, size_t len)
{
    struct cmd *cmd = cmd_new(pool, &(rl_bytes){key, len}, 1, NULL, 0);
    REQUIRE(cmd != NULL);
    return cmd;
}

static int pool_len(const struct cmd_pool *pool)
{
    int n = 0;
    for (const struct cmd *cmd = pool->free; cmd; cmd = cmd->next)
        n++;
    return n;
}

static void short_ones_are_used_again(void)
{
    struct cmd_pool pool = {0};
    struct cmd *a = with_key(&pool, "a", 1), *b = with_key(&pool, "b", 1);
    CHECK(a != b);
    cmd_unref(&pool, a);
    CHECK_INT(pool_len(&pool), 1);
    struct cmd *c = with_key(&pool, "longer", 6);
    CHECK(c == a);
    CHECK_INT(pool_len(&pool), 0);
    CHECK_INT(c->refs, 1);
    cmd_unref(&pool, b);
    cmd_unref(&pool, c);
    CHECK_INT(pool_len(&pool), 2);
    cmd_pool_free(&pool);
    CHECK_INT(pool_len(&pool), 0);
}

static void references_keep_it(void)
{
    struct cmd_pool pool = {0};
    struct cmd *a = with_key(&pool, "a", 1);
    CHECK(cmd_ref(a) == a);
    cmd_unref(&pool, a);
    CHECK_INT(pool_len(&pool), 0);
    CHECK_INT(a->refs, 1);
    cmd_unref(&pool, a);
    CHECK_INT(pool_len(&pool), 1);
    cmd_pool_free(&pool);
}

/* They would fill the pool with memory that is seldom needed. */
static void long_ones_are_not_kept(void)
{
    struct cmd_pool pool = {0};
    struct cmd *small = with_key(&pool, "a", 1);
    cmd_unref(&pool, small);
    struct cmd *big = with_key(&pool, noise, 5000);
    CHECK(big != small);
    CHECK(big->cap >= 5000);
    cmd_unref(&pool, big);
    CHECK_INT(pool_len(&pool), 1);
    CHECK(pool.free == small);
    cmd_pool_free(&pool);
}

/* Every length around the pooled size, with the longest integers. */
static void lengths_around_the_pooled_size(void)
{
    struct cmd_pool pool = {0};
    struct rng r = {test_seed()};
    make_noise(&r);
    for (size_t len = 0; len < CMD_ROOM + 40; len++) {
        rl_bytes key = {noise, len}, digits = {noise + 7, RL_VALUE_LEN};
        struct words w;
        test_note("length %zu", len);
        words_begin(&w, &key, 1);
        words_lease(&w, digits, INT64_MAX);
        struct cmd *a = cmd_new_lease(&pool, &key, 1, digits, 1, -1, NULL, 0);
        REQUIRE(a != NULL);
        struct cmd *b = cmd_with_lease(&pool, a, INT64_MAX);
        REQUIRE(b != NULL);
        is_formatted(b, &w);
        cmd_unref(&pool, a);
        cmd_unref(&pool, b);
    }
    cmd_pool_free(&pool);
}

static void a_mebibyte_of_key(void)
{
    enum { LEN = 1 << 20 };
    struct cmd_pool pool = {0};
    char *key = malloc(LEN);
    REQUIRE(key != NULL);
    memset(key, 'k', LEN);
    struct words w;
    rl_bytes keys[] = {{key, LEN}}, digits = {noise, RL_VALUE_LEN};
    words_begin(&w, keys, 1);
    words_lease(&w, digits, 5);
    struct cmd *a = cmd_new_lease(&pool, keys, 1, digits, 123456, -1, NULL, 0);
    REQUIRE(a != NULL);
    struct cmd *b = cmd_with_lease(&pool, a, 5);
    REQUIRE(b != NULL);
    is_formatted(b, &w);
    cmd_unref(&pool, a);
    cmd_unref(&pool, b);
    CHECK_INT(pool_len(&pool), 0);
    free(key);
}

SUITE(cmd, T(formats_keys_and_arguments), T(formats_leases_and_changes_them),
      T(shortens_a_lease), T(short_ones_are_used_again),
      T(references_keep_it),
      T(long_ones_are_not_kept), T(lengths_around_the_pooled_size), T(a_mebibyte_of_key));
