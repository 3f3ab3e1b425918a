/* test_cluster.c - which servers are one cluster: how a list is written, what a marker of
 * another one means, and what a client writes itself. */
#include <stdlib.h>
#include <string.h>

#include "core/eligibility/eligibility.h"
#include "guard_fixture.h"
#include "io/address.h"

/* ---- addresses ---- */

static rl_node_options at(const char *host, int port, int db)
{
    return (rl_node_options){.host = host, .port = port, .db = db};
}

static void is_written(const rl_node_options *nodes, int n, const char *want)
{
    char *list = address_list(nodes, n);
    REQUIRE(list != NULL);
    CHECK_STR(list, want);
    free(list);
}

static void is_written_one(rl_node_options node, const char *want)
{
    is_written(&node, 1, want);
}

static void addresses_are_written_in_one_way(void)
{
    is_written_one(at("10.0.0.1", 6379, 0), "10.0.0.1:6379");
    is_written_one(at("10.0.0.1", 0, 2), "10.0.0.1:6379/2");
    is_written_one(at("::ffff:10.0.0.1", 6380, 0), "10.0.0.1:6380");
    is_written_one(at("::FFFF:0A00:0001", 6380, 0), "10.0.0.1:6380");
    is_written_one(at("FD00:0:0::0001", 6379, 0), "[fd00::1]:6379");
    is_written_one(at("::1", 6379, 1), "[::1]:6379/1");
    is_written_one(at("Redis-A.Example.", 6379, 0), "redis-a.example:6379");
    is_written_one(at("010.0.0.1", 6379, 0), "010.0.0.1:6379");        /* a name, if anything */
    is_written_one(at("a b%", 6379, 0), "a%20b%25:6379");
    is_written_one((rl_node_options){.host = "a", .tls = 1, .server_name = "b"}, "a:6379");
    is_written_one((rl_node_options){.path = "/run/Redis 1.sock"}, "unix:/run/Redis%201.sock");
    is_written_one((rl_node_options){.path = "/run/r.", .db = 3}, "unix:/run/r.?db=3");
}

static void order_means_nothing(void)
{
    rl_node_options nodes[] = {at("c", 0, 0), at("10.0.0.2", 0, 0), at("B.", 0, 0),
                               {.path = "/a"}};
    const char *want = "10.0.0.2:6379 b:6379 c:6379 unix:/a";
    for (int k = 0; k < 4; k++) {
        rl_node_options first = nodes[0];
        memmove(&nodes[0], &nodes[1], 3 * sizeof(nodes[0]));
        nodes[3] = first;
        is_written(nodes, 4, want);
    }
}

static void the_longest_list_has_room(void)
{
    char name[254];
    rl_node_options nodes[RL_MAX_NODES];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < RL_MAX_NODES; i++)
        nodes[i] = at(name, 10000 + i, 10000);
    char *list = address_list(nodes, RL_MAX_NODES);
    REQUIRE(list != NULL);
    CHECK(strlen(list) < RL_SERVERS_MAX);
    free(list);
}

/* ---- words ---- */

static void a_name_is_no_hash(void)
{
    static const char *const names[] = {"a", "orders", "0123456789abcde", "0123456789abcdef0",
                                        "0123456789abcdeg", "0123456789ABCDEF"};
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        test_note("%s", names[k]);
        CHECK(!cluster_is_hash(names[k]));
    }
    CHECK(cluster_is_hash("0123456789abcdef"));
}

/* Of other libraries that read markers, too: it stays as it is. */
static void a_hash_is_that_of_the_list(void)
{
    char hash[CLUSTER_HASH + 1];
    cluster_hash("a:6379 b:6379 c:6379", hash);
    CHECK(cluster_is_hash(hash));
    CHECK(cluster_is_of(hash, "a:6379 b:6379 c:6379"));
    CHECK(!cluster_is_of(hash, "a:6379 b:6379 d:6379"));
    cluster_hash("", hash);
    CHECK_STR(hash, "cbf29ce484222325");
    cluster_hash("foobar", hash);
    CHECK_STR(hash, "85944171f73967e8");     /* as Noll's test vectors have it */
}

/* ---- clients ---- */

#define OURS "a:6379 b:6379 c:6379"
#define THEIRS "c:6379 d:6379 e:6379"

/* Three servers, that a client of that name, or NULL, has admitted. */
static struct sim *cluster_of(const char *name)
{
    struct sim *s = sim_new(3);
    sim_guard(s, MAX_LEASE_MS);
    guard_init(&s->core, "marker", "mark", MAX_LEASE_MS, MAX_LEASE_MS, name, OURS);
    for (int i = 0; i < 3; i++) {
        s->server[i].clockless = 0;
        admitted_by_others(s, i, MAX_LEASE_MS);
    }
    return s;
}

/* Server i says that it is of another cluster, and has that list beside it. */
static void is_of(struct sim *s, int i, const char *cluster, const char *servers)
{
    struct marker m = sim_marker(s, i, MAX_LEASE_MS);
    snprintf(m.cluster, sizeof(m.cluster), "%s", cluster);
    sim_set_marker(s, i, &m);
    strcpy(s->server[i].servers, servers);
}

static void is_of_list(struct sim *s, int i, const char *servers)
{
    char hash[CLUSTER_HASH + 1];
    cluster_hash(servers, hash);
    is_of(s, i, hash, servers);
}

/* Most nodes are refused, which decides, as node `foreign` is of this list. */
static void refuses_all(const struct sim *s, int foreign, const char *list)
{
    for (int i = 0; i < (s->n + 1) / 2; i++) {
        CHECK_INT(s->core.nodes[i].why, RL_WHY_OTHER_CLUSTER);
        CHECK_INT(info_of(s, i).foreign, foreign);
    }
    CHECK_STR(info_of(s, foreign).servers, list);
}

/* What an attempt comes to; the first one only waits for connections. */
static int tries(struct sim *s)
{
    try(s, "i");
    return try(s, "j");
}

SIM_TEST(one_of_another_list_refuses_all, cluster_of(NULL))
{
    is_of_list(s, 2, THEIRS);
    CHECK_INT(tries(s), RL_CONFIG);
    refuses_all(s, 2, THEIRS);
    CHECK_INT(guard_of(s, 2), RL_GUARD_DISAGREES);
    sim_advance(s, 2 * GUARD_MS);
    CHECK_INT(try(s, "k"), RL_CONFIG);
    for (int i = 0; i < 3; i++)
        CHECK_INT(s->server[i].marks, 0);
}

static void so_does_one_of_another_name(void)
{
    static const struct {
        const char *ours, *theirs;
    } cases[] = {{"billing", "orders"}, {NULL, "orders"}, {"billing", "0123456789abcdef"}};
    for (int k = 0; k < 3; k++) {
        struct sim *s = cluster_of(cases[k].ours);
        is_of(s, 0, cases[k].theirs, "stale");
        CHECK_INT(tries(s), RL_CONFIG);
        CHECK_INT(s->core.nodes[1].why, RL_WHY_OTHER_CLUSTER);
        CHECK_INT(info_of(s, 1).foreign, 0);
        CHECK_STR(info_of(s, 0).cluster, cases[k].theirs);
        CHECK_STR(info_of(s, 0).servers, "");
        sim_finish(s);
    }
}

/* A restarted server that kept its data, and one in quarantine, are of it no less. */
static void whatever_else_its_marker_says(void)
{
    for (int k = 0; k < 2; k++) {
        struct sim *s = cluster_of(NULL);
        struct marker m = sim_marker(s, 1, MAX_LEASE_MS);
        strcpy(m.cluster, "orders");
        if (k)
            m.state = MARKER_LOST;
        else
            marker_hex(7, MARKER_HEX, m.replid);
        sim_set_marker(s, 1, &m);
        CHECK_INT(tries(s), RL_CONFIG);
        sim_finish(s);
    }
}

static void of_a_long_list_the_beginning_is_told(void)
{
    char servers[640] = "";
    for (int i = 0; i < 40; i++)
        sprintf(servers + strlen(servers), "%sserver%02d.b:6379", i ? " " : "", i);
    struct sim *s = cluster_of(NULL);
    is_of_list(s, 2, servers);
    CHECK_INT(tries(s), RL_CONFIG);
    servers[RL_TEXT_MAX - 1] = '\0';
    refuses_all(s, 2, servers);
    sim_finish(s);
}

SIM_TEST(holds_go_on, cluster_of(NULL))
{
    tries(s);
    struct hold h = sim_acquire(s, "held", 3000, 1000);
    CHECK_INT(sim_wait(s, h.round, 1000), RL_GRANTED);
    watchdog_start(h.lease, 3000, 0, s->now_ms);
    is_of_list(s, 0, THEIRS);
    CHECK_INT(try(s, "k"), RL_CONFIG);
    sim_advance(s, 10000);
    CHECK(lease_remaining_ms(h.lease, s->now_ms) > 0);
    CHECK_INT(try(s, "k"), RL_CONFIG);
}

/* The list that was beside the marker when the client connected is of another one now. */
SIM_TEST(the_list_is_read_again, cluster_of(NULL))
{
    tries(s);
    is_of_list(s, 0, THEIRS);
    try(s, "k");
    CHECK_INT(try(s, "k"), RL_CONFIG);
    refuses_all(s, 0, THEIRS);
}

SIM_TEST(a_name_is_not_the_hash_of_its_list, cluster_of("orders"))
{
    for (int i = 0; i < 3; i++)
        is_of_list(s, i, OURS);
    CHECK_INT(tries(s), RL_CONFIG);
}

/* No client has the word of a change, so nobody gets a vote. */
SIM_TEST(a_change_refuses_all, cluster_of(NULL))
{
    char word[RL_CLUSTER_MAX], hash[CLUSTER_HASH + 1];
    cluster_hash(THEIRS, hash);
    snprintf(word, sizeof(word), "%s%s", CLUSTER_CHANGE, hash);
    is_of(s, 0, word, THEIRS);
    CHECK_INT(tries(s), RL_CONFIG);
    CHECK_INT(s->core.nodes[0].why, RL_WHY_CHANGING);
    CHECK_INT(s->core.nodes[1].why, RL_WHY_CHANGING);
    CHECK_STR(info_of(s, 0).servers, THEIRS);
}

static void has_word(const struct sim *s, int i, const char *word)
{
    struct marker m = marker_of(s, i);
    CHECK_STR(m.cluster, word);
}

SIM_TEST(it_writes_the_name, cluster_of("orders"))
{
    for (int i = 0; i < 3; i++)
        s->server[i].marker[0] = '\0';
    tries(s);
    for (int i = 0; i < 3; i++)
        has_word(s, i, "orders");
}

/* Once nobody uses the others any more. */
SIM_TEST(force_takes_servers_of_another_list, cluster_of(NULL))
{
    is_of_list(s, 2, THEIRS);
    CHECK_INT(tries(s), RL_CONFIG);
    CHECK_INT(admit(s, 0, s->now_ms, 2), RL_GUARD_DISAGREES);
    CHECK_INT(admit(s, 1, s->now_ms, 2), RL_GUARD_ADMITTED);
    CHECK_STR(s->server[2].servers, OURS);
    CHECK_INT(try(s, "k"), RL_GRANTED);
}

/* ---- before it knows the others ---- */

/* Connections to all but the first so many servers stay in the air. */
static void met_first(struct sim *s, int first)
{
    for (int i = 0; i < s->n; i++)
        s->server[i].hushed = i >= first;
}

static int marked(const struct sim *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->server[i].marker[0] != '\0';
    return n;
}

static void a_new_cluster_begins_with_a_majority(void)
{
    static const int majority[] = {0, 1, 2, 2, 3};
    for (int n = 1; n <= 4; n++) {
        for (int up = 1; up <= n; up++) {
            struct sim *s = sim_new(n);
            sim_guard(s, MAX_LEASE_MS);
            met_first(s, up);
            CHECK_INT(tries(s), RL_NO_QUORUM);
            CHECK_INT(marked(s), up >= majority[n] ? up : 0);
            sim_finish(s);
        }
    }
}

/* Also when nobody asks for anything at the moment in which it is there. */
SIM_TEST(it_begins_at_once, sim_new(3))
{
    sim_guard(s, MAX_LEASE_MS);
    met_first(s, 1);
    rl_round *round = query_probe(&s->core, s->now_ms);
    sim_run(s);
    CHECK_INT(marked(s), 0);
    met_first(s, 3);
    sim_run(s);
    CHECK_INT(marked(s), 3);
    sim_wait(s, round, 2000);
    sim_end(round);
}

/* Another client's server that has forgotten that it is. */
SIM_TEST(a_stranger_begins_nothing, cluster_of(NULL))
{
    s->server[0].marker[0] = '\0';
    is_of_list(s, 1, THEIRS);
    is_of_list(s, 2, THEIRS);
    CHECK_INT(tries(s), RL_CONFIG);
    sim_advance(s, 2 * GUARD_MS);
    CHECK_INT(try(s, "k"), RL_CONFIG);
    CHECK_STR(s->server[0].marker, "");
}

/* ---- one server, without the guard ---- */

SIM_TEST(a_lone_client_takes_no_server_of_many, sim_new(1))
{
    guard_init(&s->core, NULL, NULL, 0, 0, NULL, "c:6379");
    s->config[0].marker = "marker";
    is_of_list(s, 0, THEIRS);
    CHECK_INT(tries(s), RL_CONFIG);
    refuses_all(s, 0, THEIRS);
    is_of_list(s, 0, "c:6379");
    sim_advance(s, 3000);
    CHECK_INT(try(s, "k"), RL_CONFIG);
    CHECK_INT(s->core.nodes[0].why, RL_WHY_GUARD_OFF);
    s->server[0].marker[0] = '\0';
    sim_advance(s, 3000);
    CHECK_INT(tries(s), RL_GRANTED);
}

SUITE(cluster, T(addresses_are_written_in_one_way), T(order_means_nothing),
      T(the_longest_list_has_room), T(a_name_is_no_hash), T(a_hash_is_that_of_the_list),
      T(one_of_another_list_refuses_all), T(so_does_one_of_another_name),
      T(whatever_else_its_marker_says), T(of_a_long_list_the_beginning_is_told), T(holds_go_on),
      T(the_list_is_read_again), T(a_name_is_not_the_hash_of_its_list),
      T(a_change_refuses_all), T(it_writes_the_name), T(force_takes_servers_of_another_list),
      T(a_new_cluster_begins_with_a_majority), T(it_begins_at_once),
      T(a_stranger_begins_nothing), T(a_lone_client_takes_no_server_of_many));
