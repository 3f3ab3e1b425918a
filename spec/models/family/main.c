/* main.c - readers and writers, permits, and their tokens, drawn at random.
 *
 *   family KIND SERVERS MILLIONS SEED [RULE]      RULE: is dropped; see `rules`
 *
 * KIND: rw, one writer or many readers, and some writers go on as readers; slots, as many
 * permits as slots. Every step is one event: a message is executed, answered, lost, late
 * or executed twice; a client acts on what it was told, or stops; a tick passes; a server
 * forgets, and votes no more for a while. Two holders who must not be there together are
 * the violation.
 * rw-tokens, slots-tokens: writers and permits have tokens, too. Violations: one twice,
 * or not above all that were known when its attempt began; an extension of a writer
 * behind a larger token. rw-timeless, slots-timeless: the same, and what is held ends at
 * any moment, so that nobody excludes anybody; tokens must be right all the same.
 * Says "holds" or "counterexample", and what was done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/* What can be dropped. Those behind the empty line are not seen to matter here; see
 * spec/models/README.md for why they stay. */
struct rule rules[] = {
    {"majority", 0},         /* more than half, also of an even number */
    {"quarantine", 0},       /* who forgot has no vote for longer than a lease */
    {"start", 0},            /* validity counts from the request, not from the answer */
    {"value", 0},            /* only who holds it lets it go */
    {"writer", 0},           /* a reader looks for a writer */
    {"readers", 0},          /* a writer looks for readers */
    {"heal_readers", 0},     /* so does who gives a server back what it lost */
    {"same", 0},             /* only votes for one slot add up */
    {"stray", 0},            /* no extension of another slot than the agreed one */
    {"witness", 0},          /* a token is what a majority has, not the largest seen */
    {"below", 0},            /* no confirmation where the counter is past the token */
    {"ours", 0},             /* none for a writer whose lock is somebody else's, */
    {"counted", 0},          /* nor for a permit that was not counted there last */
    {"extend_below", 0},     /* no extension where the counter is past the token */
    {"learn", 0},            /* who forgot goes on from what N - q + 1 others counted */
    {"no_reader_token", 0},  /* readers have none; else: the largest counter they met */
    {"heal_no_vote", 0},     /* a server that was given back its key has no vote */

    {"replace", 0},          /* who goes on as a reader takes no free place */
    {"again", 0},            /* who asks twice is counted once */
    {NULL, 0}
};

struct server servers[MOST];
struct client clients[CLIENTS];
struct counts done;
int n, quorum, permits, fenced, timeless;
int64_t now;

static uint64_t seed;

int below(int limit)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (int)((seed >> 16) % (uint64_t)limit);
}

int permille(int p)
{
    return below(1000) < p;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    int is_rw = !strncmp(argv[1], "rw", 2);
    timeless = strstr(argv[1], "-timeless") != NULL;
    fenced = timeless || strstr(argv[1], "-tokens");
    n = atoi(argv[2]);
    permits = is_rw ? 0 : 2;
    long events = atol(argv[3]) * 1000000;
    seed = (uint64_t)atol(argv[4]) * 0x9E3779B97F4A7C15u;
    if (argc > 5) {
        struct rule *rule = rules;
        while (rule->name && strcmp(rule->name, argv[5]))
            rule++;
        if (!rule->name)
            return 2;
        rule->dropped = 1;
    }
    quorum = KEEPS(MAJORITY) ? n / 2 + 1 : (n + 1) / 2;
    for (long event = 0; event < events; event++) {
        int what = below(1000);
        if (what < 620 && deliver())
            continue;
        if (what < 880)
            act(below(CLIENTS), is_rw);
        else if (what < 960)
            now++;
        else if (what < 961 && permille(500))
            forget();
        else if (what >= 970 && timeless)
            end_early();
    }
    printf("holds: %ld holds, %ld at a time, %ld tokens, %ld extended, %ld downgraded, "
           "%ld healed, %ld forgot\n", done.holds, done.together, done.tokens,
           done.extended, done.downgraded, done.healed, done.forgotten);
    return 0;
}
