/* lock.c - a lock from C, without Lua.
 *
 *   cc lock.c -lredlock -o lock
 *   ./lock NAME HOST:PORT...      holds it until a line, or the end, arrives on stdin
 *
 * It needs `make install`, or the package redlock-dev. If redlock is neither below /usr nor below
 * /usr/local, put `pkg-config --cflags --libs redlock` in place of -lredlock, and add
 * -Wl,-rpath,$(pkg-config --variable=libdir redlock).
 *
 * It uses the plain lock's key, so it excludes clients in Lua that lock the same name. There is no
 * restart guard here: a server that lost its keys must stay down for LEASE_MS.
 */
#include <redlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_MS = 30000, WITHIN_MS = 1000 };

/* For their arguments and results see rl_acquire and rl_release. */
static const char acquire[] =
    "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end "
    "if redis.call('get', KEYS[1]) == ARGV[1] then return 2 end "
    "return {0, redis.call('pttl', KEYS[1])}";
static const char release[] =
    "local value = redis.call('get', KEYS[1]) "
    "if value ~= ARGV[1] then return value and -1 or 0 end "
    "return redis.call('del', KEYS[1])";

/* Waits for a round, frees it, and returns its outcome. */
static int finish(rl_round *round)
{
    int outcome = RL_NOMEM;
    while (round && (outcome = rl_wait(round)) == RL_INTERRUPTED)
        ;
    if (round)
        rl_round_free(round);
    return outcome;
}

int main(int argc, char **argv)
{
    rl_options options = {.timeout_ms = 250, .connect_timeout_ms = 1000, .drift_ppm = 10000};
    rl_node_options nodes[RL_MAX_NODES] = {{0}};
    char err[RL_TEXT_MAX] = "usage: lock NAME HOST:PORT...";
    for (int i = 0; i < argc - 2 && i < RL_MAX_NODES; i++) {
        char *colon = strrchr(argv[i + 2], ':');
        nodes[i].label = nodes[i].host = argv[i + 2];
        nodes[i].port = colon ? atoi(colon + 1) : 6379;
        if (colon)
            *colon = '\0';
    }
    rl_client *client =
        argc < 3 ? NULL : rl_open(NULL, 0, &options, nodes, argc - 2, err, sizeof(err));
    if (!client) {
        fprintf(stderr, "%s\n", err);
        return 2;
    }
    rl_primitive lock = {rl_script(client, acquire, strlen(acquire)), -1,
                         rl_script(client, release, strlen(release)), -1, -1, -1,
                         RL_RULE_YES, 0, 0};
    rl_bytes key = {argv[1], strlen(argv[1])};
    rl_lease *lease = NULL;
    int outcome = finish(
        rl_acquire(client, &lock, &key, 1, NULL, 0, NULL, LEASE_MS, WITHIN_MS, -1, RL_BEGIN,
                   &lease));
    if (outcome == RL_GRANTED) {
        printf("held for %d ms\n", (int)rl_remaining_ms(lease));
        fflush(stdout);
        getchar();                    /* the work */
        outcome = finish(rl_release(lease, RL_BEGIN));
    }
    printf("%s\n", outcome == RL_GRANTED ? "released" : rl_code_name(outcome));
    if (lease)
        rl_lease_free(lease, RL_DROP);
    rl_close(client);
    return outcome != RL_GRANTED;
}
