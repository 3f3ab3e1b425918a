/* sim.c - the driver: bytes, time, what the user does. The servers are in sim_server.c. */
#include "sim.h"

#include "core/eligibility/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- connections ---- */

static void server_close(struct sim *s, int i)
{
    struct sim_server *sv = &s->server[i];
    if (sv->state == SIM_OPEN) {
        if (sv->lingers && !sv->ghost.reader) {
            sv->ghost = sv->live;
            sv->live = (struct sim_stream){.reader = NULL};
        }
        sim_stream_end(&sv->live);
    }
    sv->state = SIM_CLOSED;
    sv->wants = 0;
    buf_clear(&sv->out);
}

static int take_wish(uint64_t *mask, int i)
{
    int wished = *mask >> i & 1;
    *mask &= ~bit(i);
    return wished;
}

static int write_out(struct sim *s, int i)
{
    struct sim_server *sv = &s->server[i];
    struct buf *out = core_out(&s->core, i);
    size_t len = buf_len(out) < sv->room ? buf_len(out) : sv->room;
    if (!len)
        return 0;
    REQUIRE(wire_raw(&sv->live.in, out->data + out->start, len) == 0);
    buf_take(out, len);
    if (sv->room != SIZE_MAX)
        sv->room -= len;
    return 1;
}

int sim_serve(struct sim *s, int i)
{
    struct core *core = &s->core;
    struct sim_server *sv = &s->server[i];
    int moved = 0;
    core->want_close &= ~link_bit(core->n + i);    /* no subscriber is connected here */
    if (take_wish(&core->want_close, i)) {
        server_close(s, i);
        moved = 1;
    }
    if (take_wish(&core->want_connect, i)) {
        CHECK(sv->state == SIM_CLOSED);
        sv->state = SIM_OPENING;
        moved = 1;
    }
    if (take_wish(&core->want_write, i) && sv->state == SIM_OPEN)
        sv->wants = 1;
    if (sv->wants && sv->room)
        moved |= write_out(s, i);
    if (!buf_len(core_out(core, i)))
        sv->wants = 0;
    return moved;
}

int sim_open(struct sim *s, int i)
{
    struct sim_server *sv = &s->server[i];
    if (sv->state != SIM_OPENING || sv->hushed)
        return 0;
    if (sv->refuses) {
        sv->state = SIM_CLOSED;
        core_lost(&s->core, i, RL_REFUSED, "connection refused", s->now_ms);
        return 1;
    }
    sv->state = SIM_OPEN;
    sv->opened++;
    sim_stream_begin(&sv->live);
    core_connected(&s->core, i, s->now_ms);
    return 1;
}

int sim_deliver(struct sim *s, int i, size_t max)
{
    struct sim_server *sv = &s->server[i];
    static char bytes[1 << 16];
    size_t len = buf_len(&sv->out);
    if (sv->state != SIM_OPEN || sv->holds || !len)
        return 0;
    len = len < max ? len : max;
    len = len < sizeof(bytes) ? len : sizeof(bytes);
    memcpy(bytes, sv->out.data + sv->out.start, len);
    buf_take(&sv->out, len);
    core_feed(&s->core, i, bytes, len, s->now_ms);
    return 1;
}

void sim_cut(struct sim *s, int i)
{
    if (s->server[i].state == SIM_CLOSED)
        return;
    server_close(s, i);
    core_lost(&s->core, i, RL_REFUSED, "connection reset", s->now_ms);
}

void sim_leave(struct sim *s, int i)
{
    s->server[i].refuses = 1;
    sim_cut(s, i);
}

void sim_leave_first(struct sim *s, int n)
{
    for (int i = 0; i < n; i++)
        sim_leave(s, i);
}

static void new_run(struct sim *s, int i)
{
    struct sim_server *sv = &s->server[i];
    snprintf(sv->run_id, sizeof(sv->run_id), "run%d%c%032d", sv->runs++, 'a' + i % 26, i);
    sim_fail_over(s, i);
}

void sim_restart(struct sim *s, int i)
{
    struct sim_server *sv = &s->server[i];
    sv->keys = 0;
    memset(sv->loaded, 0, sizeof(sv->loaded));
    sv->marker[0] = '\0';
    new_run(s, i);
    sim_cut(s, i);
}

void sim_guard(struct sim *s, int64_t max_lease_ms)
{
    guard_init(&s->core, "marker", "mark", max_lease_ms, max_lease_ms, NULL, "");
    s->core.tell = core_script(&s->core, "tell", 4, s->now_ms);
    for (int i = 0; i < s->n; i++)
        s->config[i].marker = "marker", s->config[i].guarded = 1,
        s->config[i].client_name = s->core.name;
}

void sim_cut_after(struct sim *s, int i)
{
    sim_serve(s, i);
    sim_execute(s, i, SIM_LOG);
    sim_cut(s, i);
}

void sim_fork(struct sim *s)
{
    close_void(&s->core);
    CHECK(!s->core.want_close && !s->core.want_connect && !s->core.want_write);
    CHECK_INT(core_due_ms(&s->core), INT64_MAX);
    for (int i = 0; i < s->n; i++) {
        CHECK_INT(buf_len(core_out(&s->core, i)), 0);
        CHECK_INT(s->core.nodes[i].state, NODE_DOWN);
        CHECK_INT(s->core.nodes[i].queue_len, 0);
        server_close(s, i);
    }
}

/* ---- time and bytes ---- */

void sim_run(struct sim *s)
{
    size_t chunk = s->chunk ? s->chunk : SIZE_MAX;
    int moved = 1;
    for (int turns = 0; moved; turns++) {
        REQUIRE(turns < 10000);
        moved = 0;
        for (int i = 0; i < s->n; i++) {
            moved |= sim_serve(s, i);
            moved |= sim_open(s, i);
            moved |= sim_serve(s, i);
            moved |= sim_execute(s, i, SIM_LOG);
            moved |= sim_deliver(s, i, chunk);
        }
    }
    REQUIRE(!s->core.want_close && !s->core.want_connect);
}

void sim_tick(struct sim *s)
{
    core_tick(&s->core, s->now_ms);
    REQUIRE(core_due_ms(&s->core) > s->now_ms);  /* else a driver would spin */
}

void sim_skip(struct sim *s, int64_t ms)
{
    s->now_ms += ms;
}

/* To the next deadline, or to end_ms if it is earlier. */
static void step(struct sim *s, int64_t end_ms)
{
    int64_t due_ms = core_due_ms(&s->core);
    if (due_ms > s->now_ms)
        s->now_ms = due_ms < end_ms ? due_ms : end_ms;
    sim_tick(s);
    sim_run(s);
}

void sim_advance(struct sim *s, int64_t ms)
{
    int64_t end_ms = s->now_ms + ms;
    sim_run(s);
    while (s->now_ms < end_ms)
        step(s, end_ms);
}

int sim_wait(struct sim *s, rl_round *round, int64_t ms)
{
    int64_t end_ms = s->now_ms + ms;
    sim_run(s);
    while (!round->outcome && s->now_ms < end_ms)
        step(s, end_ms);
    return round->outcome;
}

int sim_outcome(struct sim *s, const rl_round *round)
{
    sim_run(s);
    return round->outcome;
}

int sim_result(struct sim *s, rl_round *round)
{
    sim_run(s);
    return sim_end(round);
}

/* ---- beginning and end ---- */

struct sim *sim_new(int n)
{
    static const char *const bodies[] = {"acquire",        "extend",
                                         "release",        "ask",
                                         "import",         "fenced acquire",
                                         "fenced extend",  "fenced release",
                                         "confirm",        "heal",
                                         "fenced import"};
    struct sim *s = calloc(1, sizeof(*s));
    REQUIRE(s != NULL);
    s->n = n;
    s->now_ms = 1000000;
    s->primitive =
        (rl_primitive){SIM_ACQUIRE, SIM_EXTEND, SIM_RELEASE, SIM_IMPORT, -1, -1,
                       RL_RULE_YES, 0, 0};
    for (int i = 0; i < n; i++) {
        s->config[i].timeout_ms = SIM_TIMEOUT_MS;
        s->config[i].connect_timeout_ms = SIM_CONNECT_MS;
        s->server[i].room = SIZE_MAX;
        s->server[i].clockless = 1;
        new_run(s, i);
    }
    /* Tests suppose what this seed draws; those in test_random.c set their own. */
    REQUIRE(core_init(&s->core, s->config, n, SIM_DRIFT_PPM, 1) == 0);
    for (int k = 0; k < SIM_SCRIPTS; k++)
        REQUIRE(core_script(&s->core, bodies[k], strlen(bodies[k]), s->now_ms) == k);
    return s;
}

void sim_fence(struct sim *s)
{
    s->primitive = (rl_primitive){SIM_FENCED_ACQUIRE, SIM_FENCED_EXTEND,
                                  SIM_FENCED_RELEASE, SIM_FENCED_IMPORT,
                                  SIM_CONFIRM, SIM_HEAL, RL_RULE_LARGEST, 1, 0};
}

static struct sim *bring_up(struct sim *s, int n)
{
    rl_round *round = sim_ask(s, "nothing");
    sim_run(s);
    REQUIRE(sim_end(round) == RL_GRANTED);
    for (int i = 0; i < n; i++) {
        REQUIRE(s->core.nodes[i].state == NODE_READY);
        REQUIRE(s->server[i].opened-- == 2);     /* the first one met the same server */
    }
    sim_advance(s, 2 * NODE_STABLE_MS);
    sim_clear_logs(s);
    return s;
}

struct sim *sim_up(int n)
{
    return bring_up(sim_new(n), n);
}

struct sim *sim_admitted(int n, int64_t max_lease_ms)
{
    struct sim *s = sim_new(n);
    sim_guard(s, max_lease_ms);
    for (int i = 0; i < n; i++) {
        struct sim_server *sv = &s->server[i];
        sv->clockless = 0;
        struct marker marker = sim_marker(s, i, max_lease_ms);
        sim_set_marker(s, i, &marker);
    }
    return bring_up(s, n);
}

int sim_live(const struct sim *s)
{
    int pooled = 0;
    for (const struct rl_round *r = s->core.round_pool; r; r = r->next)
        pooled++;
    for (const struct rl_lease *l = s->core.lease_pool; l; l = l->next)
        pooled++;
    return (int)s->core.timers_wanted - 2 * s->n - 2 - pooled;   /* a timer a link */
}

void sim_heal(struct sim *s)
{
    for (int i = 0; i < s->n; i++) {
        struct sim_server *sv = &s->server[i];
        sv->refuses = sv->hushed = sv->frozen = sv->holds = 0;
        sv->room = SIZE_MAX;
        sv->greets = sv->info = NULL;
        memset(sv->say, 0, sizeof(sv->say));
        memset(sv->instead, 0, sizeof(sv->instead));
    }
}

/* A lease that is held is looked after for as long as it has its handle. */
static void drop_held(struct sim *s)
{
    for (int k = 0; k < SIM_KEYS && s->lease[k]; k++)
        if (s->lease[k]->list == &s->core.held && !s->lease[k]->orphan)
            holder_drop(s->lease[k], s->now_ms);
}

/* An idle client that has had a vote looks after the servers for ever: no longer. */
static void come_to_rest(struct sim *s)
{
    s->core.name[sizeof("redlock") - 1] = ':';
    sim_run(s);
    for (int k = 0; k < 2000 && core_due_ms(&s->core) != INT64_MAX; k++) {
        drop_held(s);
        step(s, INT64_MAX);
    }
    CHECK_INT(core_due_ms(&s->core), INT64_MAX);
}

/* The handles that the test has still: at rest nothing else refers to a round, and nothing
 * but rounds and a handle to a lease. */
static void give_back(struct sim *s)
{
    for (int k = 0; k < SIM_KEYS && s->round[k]; k++)
        if (s->round[k]->refs > 0)
            round_free(s->round[k]);
    for (int k = 0; k < SIM_KEYS && s->lease[k]; k++)
        if (s->lease[k]->refs > 0)
            holder_drop(s->lease[k], s->now_ms);
}

void sim_finish(struct sim *s)
{
    drop_held(s);
    sim_heal(s);
    come_to_rest(s);
    give_back(s);
    come_to_rest(s);
    CHECK_INT(s->core.handles, 0);
    CHECK(s->core.active == NULL && s->core.active_last == NULL);
    CHECK(s->core.owing == NULL);
    for (int i = 0; i < s->n; i++)
        CHECK_INT(s->core.nodes[i].stats.owed, 0);
    CHECK_INT(s->core.timers.len, 0);
    CHECK_INT(sim_live(s), 0);
    for (int i = 0; i < s->n; i++) {
        struct sim_server *sv = &s->server[i];
        CHECK_INT(s->core.nodes[i].queue_len, 0);
        sim_stream_end(&sv->live);
        sim_stream_end(&sv->ghost);
        buf_free(&sv->out);
    }
    close_free(&s->core);
    free(s);
}

void sim_all_clean(struct sim *s)
{
    CHECK_INT(sim_with(s, "k"), 0);
    CHECK(s->core.owing == NULL);
}

/* ---- logs ---- */

void sim_clear_logs(struct sim *s)
{
    for (int i = 0; i < s->n; i++) {
        s->server[i].logged = 0;
        s->server[i].log[0] = '\0';
    }
}

void sim_logs_are(struct sim *s, const char *want)
{
    for (int i = 0; i < s->n; i++)
        CHECK_STR(s->server[i].log, want);
}

void sim_flush_scripts(struct sim *s)
{
    for (int i = 0; i < s->n; i++)
        memset(s->server[i].loaded, 0, sizeof(s->server[i].loaded));
}

/* ---- what the user does ---- */

/* Remembers what the user has a handle of; the core uses the same memory again. */
static void gave(struct sim *s, rl_round *round, rl_lease *lease)
{
    int r = 0, l = 0;
    while (s->round[r] && s->round[r] != round)
        REQUIRE(++r < SIM_KEYS);
    s->round[r] = round;
    while (s->lease[l] && s->lease[l] != lease)
        REQUIRE(++l < SIM_KEYS);
    s->lease[l] = lease;
}

struct hold sim_acquire(struct sim *s, const char *key, int64_t lease_ms,
                        int64_t within_ms)
{
    struct hold h = {NULL, NULL};
    char value[RL_VALUE_LEN + 1];
    rl_bytes keys[] = {{key, strlen(key)}};
    snprintf(value, sizeof(value), "%0*u", RL_VALUE_LEN, ++s->values);
    h.round = acquire_begin(&s->core, &s->primitive, keys, 1, NULL, 0,
                            (rl_bytes){value, RL_VALUE_LEN}, lease_ms, within_ms,
                            s->gate ? 0 : -1, s->now_ms, &h.lease);
    REQUIRE(h.round != NULL && h.lease != NULL);
    gave(s, h.round, h.lease);
    return h;
}

rl_lease *sim_hold(struct sim *s, const char *key, int64_t lease_ms)
{
    struct hold h = sim_acquire(s, key, lease_ms, 1000);
    sim_run(s);
    REQUIRE(sim_end(h.round) == RL_GRANTED);
    return h.lease;
}

int sim_release(struct sim *s, rl_lease *lease)
{
    return sim_result(s, holder_release(lease, s->now_ms));
}

void sim_let_go(struct sim *s, rl_lease *lease)
{
    sim_release(s, lease);
    holder_drop(lease, s->now_ms);
}

int64_t sim_begin_renewal(struct sim *s, const rl_lease *lease)
{
    sim_skip(s, lease->renew_ms - s->now_ms);
    sim_tick(s);
    REQUIRE(lease->renewal != NULL);
    return s->now_ms;
}

struct parcel sim_export(struct sim *s, rl_lease *lease)
{
    (void)s;
    struct parcel p = {.token = lease->token};
    memcpy(p.value, cmd_value(lease->cmd).data, RL_VALUE_LEN);
    holder_disown(lease, s->now_ms);
    return p;
}

struct hold sim_import(struct sim *s, const char *key, const struct parcel *p,
                       int64_t lease_ms)
{
    struct hold h = {NULL, NULL};
    char value[RL_VALUE_LEN + 1];
    rl_bytes name = {key, strlen(key)}, old = {p->value, RL_VALUE_LEN};
    snprintf(value, sizeof(value), "%0*u", RL_VALUE_LEN, ++s->values);
    h.round = acquire_import(&s->core, &s->primitive, &name, 1, NULL, 0, old,
                             (rl_bytes){value, RL_VALUE_LEN}, lease_ms, p->token,
                             p->once, s->now_ms, &h.lease);
    REQUIRE(h.round != NULL && h.lease != NULL);
    gave(s, h.round, h.lease);
    return h;
}

rl_round *sim_ask(struct sim *s, const char *key)
{
    return sim_ask_within(s, key, 1 << 30);
}

rl_round *sim_ask_within(struct sim *s, const char *key, int64_t within_ms)
{
    rl_bytes keys[] = {{key, strlen(key)}};
    rl_round *round =
        query_ask(&s->core, RL_ASK_MAJORITY, SIM_ASK, keys, 1, NULL, 0, within_ms, s->now_ms);
    REQUIRE(round != NULL);
    gave(s, round, NULL);
    return round;
}

int sim_end(rl_round *round)
{
    int outcome = round->outcome;
    round_free(round);
    return outcome;
}

void sim_drop(struct sim *s, struct hold *h)
{
    if (h->round)
        round_free(h->round);
    if (h->lease)
        holder_drop(h->lease, s->now_ms);
    *h = (struct hold){NULL, NULL};
}

int64_t sim_validity(int64_t lease_ms, int64_t elapsed_ms)
{
    int64_t drift_ms = (lease_ms + 99) / 100 + 2;
    return lease_ms - elapsed_ms - drift_ms;
}

rl_lease *sim_keep(struct sim *s, const char *key, int64_t lease_ms)
{
    rl_lease *lease = sim_hold(s, key, lease_ms);
    watchdog_start(lease, lease_ms, 0, s->now_ms);
    sim_clear_logs(s);
    return lease;
}

void sim_pass(struct sim *s, int i)
{
    sim_serve(s, i);
    sim_execute(s, i, SIM_LOG);
    sim_deliver(s, i, SIZE_MAX);
}

void sim_hold_answers(struct sim *s, uint32_t mask)
{
    for (int i = 0; i < s->n; i++)
        s->server[i].holds = mask >> i & 1;
}

void sim_freeze(struct sim *s, uint32_t mask)
{
    for (int i = 0; i < s->n; i++)
        s->server[i].frozen = mask >> i & 1;
}
