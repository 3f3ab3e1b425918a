/* core.c - the whole pure core below a user and servers made of the input: any calls, any
 * answers, well-formed or not, in any pieces, connections that break anywhere, any times.
 *
 * Whatever the servers say: a lease counts as held only when a majority of the nodes
 * granted it, never for longer than asked, never after its end; every round ends; a tick
 * leaves nothing due; memory is bounded, and all given back.
 */
#include <sanitizer/allocator_interface.h>
#include <string.h>

#include "core/close.h"
#include "core/core.h"
#include "core/eligibility/guard.h"
#include "core/eligibility/eligibility.h"
#include "core/leases/acquire.h"
#include "core/leases/holder.h"
#include "core/leases/watchdog.h"
#include "core/rounds/query.h"
#include "core/rounds/subscription.h"
#include "core/rounds/teach.h"
#include "fuzz.h"
#include "node/reader.h"

#ifndef GUARDED
#define GUARDED 0
#endif

enum {
    DEALS = 6,
    SUBSCRIPTIONS = 2,
    STEPS_MAX = 400,
    MEMORY_MAX = 32 << 20        /* a reply without an end on each connection */
};

static const char MARKER[] = "redlock:{server}:marker";

struct deal {
    rl_lease *lease;
    rl_round *acquire, *other;
    int64_t started_ms, lease_ms;    /* of the last acquire or extend */
    int granted;
};

struct world {
    struct core core;
    struct node_config config[5];
    int64_t now_ms;
    rl_primitive primitive;
    int question;                    /* another script's number */
    struct deal deal[DEALS];
    rl_round *pause[SUBSCRIPTIONS];
    rl_subscription *subscription[SUBSCRIPTIONS];
    unsigned values;
    size_t memory;                   /* in use before */
};

static const char *const lines[] = {
    ":1\r\n", ":0\r\n", ":-1\r\n", ":2\r\n", "+OK\r\n", "$-1\r\n",
    "*2\r\n:0\r\n:700\r\n", "*2\r\n:1\r\n:3\r\n", "*3\r\n:1\r\n:9\r\n$1\r\nx\r\n",
    "$40\r\n0123456789012345678901234567890123456789\r\n",
    "-NOSCRIPT no\r\n", "-OOM no\r\n", "-NOAUTH no\r\n", "-READONLY no\r\n",
    "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
    "*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:1\r\n",
    "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$0\r\n\r\n",
    "*3\r\n$7\r\nmessage\r\n$1\r\nb\r\n$0\r\n\r\n",
    "*65\r\n", "what\r\n",
};

enum { LINES = sizeof(lines) / sizeof(lines[0]) };

/* ---- the driver's part ---- */

static void close_wanted(struct world *w)
{
    w->core.want_close = 0;
}

static void feed(struct world *w, int i, const char *bytes, size_t len)
{
    core_feed(&w->core, i, bytes, len, w->now_ms);
    close_wanted(w);
}

/* ---- what servers say of themselves, with the guard ---- */

static void say(struct world *w, int i, const char *text, size_t len)
{
    char all[2048];
    size_t k = (size_t)snprintf(all, sizeof(all), "$%zu\r\n", len);
    memcpy(all + k, text, len);
    memcpy(all + k + len, "\r\n", 2);
    feed(w, i, all, k + len + 2);
}

/* Small ones are frequent. */
static uint64_t number(struct input *in)
{
    uint8_t how = input_byte(in);
    uint64_t n = how;
    for (int k = 0; how > 127 && k < (how & 7) + 1; k++)
        n = n << 8 | input_byte(in);
    return n;
}

static void say_info(struct world *w, int i, struct input *in)
{
    static const char *const keys[] = {
        "run_id", "master_replid", "master_replid2", "connected_slaves", "redis_mode",
        "redis_version", "valkey_version", "uptime_in_seconds", "role", "master_host",
        "master_port", "aof_enabled", "rdb_last_bgsave_time_sec", "maxmemory",
        "maxmemory_policy"};
    char text[1024];
    uint8_t how = input_byte(in);
    int len = snprintf(text, sizeof(text), "run_id:%040d\r\nmaster_replid:%040x\r\nrole:master\r\n",
                       i, (how & 3) + 1);
    for (int k = 0; k < how >> 4; k++) {
        size_t got;
        const char *key = keys[input_byte(in) % 15];
        const char *bytes = input_bytes(in, input_byte(in) % 24, &got);
        len += snprintf(text + len, sizeof(text) - (size_t)len, "%s:%.*s\r\n", key, (int)got, bytes);
    }
    say(w, i, text, (size_t)len);
}

static void say_time(struct world *w, int i, struct input *in)
{
    char s[24], all[96];
    uint64_t n = input_byte(in) & 1 ? 1790000000 + input_byte(in) : number(in);
    int len = snprintf(s, sizeof(s), "%llu", (unsigned long long)n);
    len = snprintf(all, sizeof(all), "*2\r\n$%d\r\n%s\r\n$3\r\n%03d\r\n", len, s,
                   input_byte(in));
    feed(w, i, all, (size_t)len);
}

/* A marker, mostly of those that the client would believe. Its length. */
static size_t make_marker(struct world *w, int i, struct input *in, char *text)
{
    struct marker m = {.state = "anals"[input_byte(in) % 5], .max_lease_ms = 60000};
    uint8_t how = input_byte(in);
    const char *bang = how & 1 ? "!" : "";
    marker_hex(how & 2 ? number(in) : 7, MARKER_HEX, m.inc);
    if (how & 4)
        marker_replid(w->core.nodes[i].info.replid, m.replid);
    if (how & 8)
        m.max_lease_ms = 1 + (int64_t)(number(in) % 999999999999999);
    snprintf(m.cluster, sizeof(m.cluster), "%s", how & 16 ? "theirs" : w->core.cluster);
    size_t len = (size_t)sprintf(text, "%s", bang);
    if (how & 32)
        return len + (size_t)sprintf(text + len, "%.100s", w->core.guards[i].want);
    marker_write(&m, text + len);
    len = strlen(text);
    if (m.state != 'a')
        len += (size_t)sprintf(text + len, " %d %u", input_byte(in) * 300, 1 + input_byte(in));
    return len;
}

static void say_marker(struct world *w, int i, struct input *in)
{
    char text[2 * MARKER_MAX];
    size_t len;
    const char *bytes;
    switch (input_byte(in) % 5) {
    case 0:
        feed(w, i, "$-1\r\n", 5);
        break;
    case 1:
        bytes = input_bytes(in, input_byte(in), &len);
        say(w, i, bytes, len);
        break;
    default:
        len = make_marker(w, i, in, text);
        say(w, i, text, len);
    }
}

static void say_vote(struct world *w, int i, struct input *in)
{
    char text[2 * MARKER_MAX], all[512];
    uint8_t how = input_byte(in);
    if (how % 4 < 2) {
        feed(w, i, how & 1 ? ":1\r\n" : ":0\r\n", 4);
        return;
    }
    int len = (int)make_marker(w, i, in, text);
    len = snprintf(all, sizeof(all), "*3\r\n:%d\r\n$%d\r\n%s\r\n:%llu\r\n",
                   how & 1 ? 3 : (how >> 2) * 50 - 1000, len, text,
                   (unsigned long long)(number(in) & INT64_MAX));
    feed(w, i, all, (size_t)len);
}

/* Answers what node i was asked first. */
static void answer(struct world *w, int i, struct input *in)
{
    const struct node *nd = &w->core.nodes[i];
    size_t len;
    const char *bytes;
    if (nd->state < NODE_HANDSHAKE || !nd->queue_len)
        return;
    switch (nd->queue[nd->queue_head].kind) {
    case REQUEST_INFO:
        say_info(w, i, in);
        break;
    case REQUEST_TIME:
        say_time(w, i, in);
        break;
    case REQUEST_MARKER:
        say_marker(w, i, in);
        break;
    case REQUEST_SERVERS:
        bytes = input_bytes(in, input_byte(in), &len);
        say(w, i, bytes, len);
        break;
    case REQUEST_CALL:
        say_vote(w, i, in);
        break;
    default:
        bytes = input_byte(in) > 248 ? "-NOPERM no\r\n" : "+OK\r\n";
        feed(w, i, bytes, strlen(bytes));
    }
}

/* ---- connections and time ---- */

static void all_go_up(struct world *w, struct input *in)
{
    struct core *core = &w->core;
    for (int i = 0; i < 2 * core->n; i++) {
        if (core->nodes[i].state != NODE_CONNECTING)
            continue;
        core->want_connect &= ~link_bit(i);
        core_connected(core, i, w->now_ms);
        while (!GUARDED && core->nodes[i].state == NODE_HANDSHAKE)
            core_feed(core, i, "+OK\r\n", 5, w->now_ms);
        for (int k = 0; k < 32 && core->nodes[i].state == NODE_HANDSHAKE; k++)
            answer(w, i, in);
        close_wanted(w);
    }
}

static void flood(struct world *w, int i, int pages)
{
    static char page[8192];
    for (int k = 0; k < pages; k++)
        feed(w, i, page, sizeof(page));
}

static void write_out(struct world *w, int i, size_t some)
{
    struct buf *out = core_out(&w->core, i);
    buf_take(out, some < buf_len(out) ? some : buf_len(out));
    if (!buf_len(out))
        w->core.want_write &= ~link_bit(i);
}

static void pass_time(struct world *w, int64_t ms)
{
    w->now_ms += ms;
    core_tick(&w->core, w->now_ms);
    close_wanted(w);
    MUST(core_due_ms(&w->core) > w->now_ms);
}

/* ---- the user's part ---- */

static void free_round(rl_round **round)
{
    if (*round)
        round_free(*round);
    *round = NULL;
}

static void give_back(struct world *w, struct deal *d, void (*how)(rl_lease *, int64_t))
{
    free_round(&d->acquire);
    free_round(&d->other);
    if (d->lease)
        how(d->lease, w->now_ms);
    memset(d, 0, sizeof(*d));
}

static void drop(struct world *w, struct deal *d)
{
    give_back(w, d, holder_drop);
}

static void acquire(struct world *w, struct deal *d, struct input *in)
{
    char value[RL_VALUE_LEN + 1];
    rl_bytes key = {"name", (size_t)(1 + input_byte(in) % 2)};
    uint8_t how = input_byte(in);
    snprintf(value, sizeof(value), "%040u", ++w->values);
    d->started_ms = w->now_ms;
    d->lease_ms = 1 + input_byte(in) * (how & 1 ? 100 : 1);
    if (how & 0x40 && how & 0x20) {
        d->acquire = acquire_import(&w->core, &w->primitive, &key, 1, NULL, 0,
                                    (rl_bytes){value, RL_VALUE_LEN},
                                    (rl_bytes){value, RL_VALUE_LEN}, d->lease_ms,
                                    w->primitive.rule ? 3 : 0, how >> 4 & 1, w->now_ms,
                                    &d->lease);
        return;
    }
    d->acquire = acquire_begin(&w->core, &w->primitive, &key, 1, NULL, 0,
                               (rl_bytes){value, RL_VALUE_LEN}, d->lease_ms, input_byte(in) * 10,
                               how & 2 ? how >> 2 : -1, w->now_ms, &d->lease);
    if (d->acquire && how & 0x80)
        round_notify(d->acquire);
}

static void use_lease(struct world *w, struct deal *d, struct input *in)
{
    uint8_t how = input_byte(in);
    switch (how % 8) {
    case 0:
        free_round(&d->other);
        d->other = holder_release(d->lease, w->now_ms);
        break;
    case 1:
        free_round(&d->other);
        d->lease_ms = 1 + input_byte(in) * 20;
        d->started_ms = w->now_ms;
        d->other = holder_extend(d->lease, d->lease_ms, w->now_ms);
        break;
    case 2:
        watchdog_start(d->lease, 1 + input_byte(in) * 20, input_byte(in) * 10, w->now_ms);
        break;
    case 3:
        (void)watchdog_lost_why(d->lease, w->now_ms);
        break;
    case 4:
        if (d->acquire && d->acquire->outcome == RL_GRANTED) {
            free_round(&d->acquire);
            free_round(&d->other);
            holder_disown(d->lease, w->now_ms);
            memset(d, 0, sizeof(*d));
        }
        break;
    case 5:
        give_back(w, d, holder_abandon);
        break;
    case 6:
        give_back(w, d, holder_orphan);
        break;
    default:
        drop(w, d);
    }
}

static void use_subscription(struct world *w, struct input *in)
{
    uint8_t how = input_byte(in);
    int k = how % SUBSCRIPTIONS;
    if (!w->subscription[k]) {
        w->subscription[k] = subscription_open(&w->core, how & 2 ? "a" : "b", 1, w->now_ms);
    } else if (how & 4) {
        free_round(&w->pause[k]);
        subscription_close(w->subscription[k], w->now_ms);
        w->subscription[k] = NULL;
    } else {
        free_round(&w->pause[k]);
        w->pause[k] = subscription_pause(&w->core, w->subscription[k],
                                         w->subscription[k]->wakes - (how >> 7),
                                         input_byte(in), w->now_ms);
    }
}

static void ask(struct world *w, struct deal *d)
{
    rl_bytes key = {"name", 4};
    free_round(&d->other);
    d->other = query_ask(&w->core, RL_ASK_MAJORITY, w->question, &key, 1, NULL, 0, 1000, w->now_ms);
}

static void teach(struct world *w, struct deal *d, int force)
{
    free_round(&d->other);
    d->other = teach_begin(&w->core, w->now_ms, force, 1000, w->now_ms);
}

/* ---- what must hold ---- */

static void check_guard(const struct world *w)
{
    for (int i = 0; i < w->core.n; i++) {
        const struct guard *g = &w->core.guards[i];
        rl_node_info info = {0};
        eligibility_report(&w->core, i, &info, w->now_ms);
        MUST(memchr(g->marker, '\0', sizeof(g->marker)) && memchr(g->want, '\0', sizeof(g->want)));
        MUST(info.objection < RL_WHYS && info.guard <= RL_GUARD_DISAGREES);
        MUST(info.foreign < w->core.n && info.same < w->core.n && !info.servers[RL_TEXT_MAX - 1]);
        MUST(info.guard_left_ms >= -1 && info.suspect_left_ms >= 0);
    }
    MUST(eligibility_left_ms(&w->core, w->now_ms) >= -1);
}

static void check(struct world *w)
{
    const struct core *core = &w->core;
    MUST(__sanitizer_get_current_allocated_bytes() - w->memory < MEMORY_MAX);
    if (GUARDED)
        check_guard(w);
    for (const struct rl_round *r = core->active; r; r = r->next) {
        const struct tally *t = &r->tally;
        MUST(!r->outcome && r->refs > 0);
        MUST(t->yes + t->absent + t->foreign + t->missing + t->pending == core->n);
    }
    for (int k = 0; k < DEALS; k++) {
        struct deal *d = &w->deal[k];
        int granted = d->acquire && d->acquire->outcome == RL_GRANTED;
        if (granted && !d->granted && d->lease->state == LEASE_HELD)
            MUST(d->lease->deadline_ms > w->now_ms);
        d->granted = granted;
        int64_t left_ms = d->lease ? lease_remaining_ms(d->lease, w->now_ms) : 0;
        if (!left_ms)
            continue;
        MUST(d->lease->state == LEASE_HELD && !d->lease->lost);
        if (d->acquire)
            MUST(granted && 2 * d->acquire->tally.yes > core->n);
        int64_t most_ms = d->lease_ms > d->lease->keep_ms ? d->lease_ms
                                                          : d->lease->keep_ms;
        if (!d->other && !core->renewals)    /* what was said may be longer than this */
            MUST(left_ms < most_ms || most_ms == 0);
    }
    for (int i = 0; i < 2 * core->n; i++) {
        const struct node *nd = &core->nodes[i];
        MUST(memchr(nd->text, '\0', sizeof(nd->text)) && nd->code < RL_CODES && nd->why < RL_WHYS);
        MUST(nd->state != NODE_DOWN || nd->queue_len == 0);
        MUST(!nd->servers || strlen(nd->servers) < RL_SERVERS_MAX);
        MUST(nd->state < NODE_HANDSHAKE ||
             nd->wire.reader->len - nd->wire.reader->pos <= WIRE_MAX_PENDING);
    }
}

static void step(struct world *w, struct input *in)
{
    struct core *core = &w->core;
    uint8_t op = input_byte(in);
    int i = op >> 4 & 15;
    i %= 2 * core->n;
    struct deal *d = &w->deal[(op >> 4) % DEALS];
    size_t len;
    const char *bytes;
    switch (op & 15) {
    case 0:
        bytes = input_bytes(in, input_byte(in), &len);
        feed(w, i, bytes, len);
        break;
    case 1: case 2: case 3:
        if (GUARDED) {
            answer(w, i, in);
            break;
        }
        bytes = lines[input_byte(in) % LINES];
        feed(w, i, bytes, strlen(bytes));
        break;
    case 4:                                   /* the same word from a few */
        bytes = lines[input_byte(in) % LINES];
        for (int k = 0; k <= op >> 4 && k < core->n; k++)
            feed(w, k, bytes, strlen(bytes));
        break;
    case 5:
        if (core->nodes[i].state == NODE_CONNECTING) {
            core->want_connect &= ~link_bit(i);
            core_connected(core, i, w->now_ms);
        }
        break;
    case 6:
        core_lost(core, i, RL_REFUSED, "cut", w->now_ms);
        close_wanted(w);
        break;
    case 7:
        write_out(w, i, input_byte(in) * 4);
        break;
    case 8:
        all_go_up(w, in);
        break;
    case 9:
        pass_time(w, input_byte(in));
        break;
    case 10:
        pass_time(w, input_byte(in) * 50);
        break;
    case 11: case 12:
        if (d->lease)
            use_lease(w, d, in);
        else if (!core->closed)
            acquire(w, d, in);
        break;
    case 13:
        use_subscription(w, in);
        break;
    case 14:
        if (op == 0xee)
            flood(w, input_byte(in) % (2 * core->n), input_byte(in));
        else if (op == 0xfe)
            w->now_ms += input_byte(in) * 10;     /* without a tick: it did not run */
        else
            ask(w, d);
        break;
    default:
        if (op == 0xff)
            close_finish(core, w->now_ms);
        else if (op == 0xef)
            close_void(core);
        else if (GUARDED && op < 0x40)
            teach(w, d, op >> 5);
        else if (op == 0xdf)
            core_script(core, "L", input_byte(in) % 2, w->now_ms);
        else
            while (round_next(core))
                continue;
    }
}

static void begin(struct world *w, uint8_t how)
{
    memset(w, 0, sizeof(*w));
    w->memory = __sanitizer_get_current_allocated_bytes();
    int n = 1 + how % 5;
    for (int i = 0; i < n; i++) {
        w->config[i].timeout_ms = 250;
        w->config[i].connect_timeout_ms = 1000;
        w->config[i].password = how & 0x80 ? "p" : NULL;
        w->config[i].client_name = how & 0x40 ? "n" : NULL;
        w->config[i].marker = GUARDED ? MARKER : NULL;
        w->config[i].guarded = GUARDED;
        w->config[i].behind_proxy = how >> 4 & 1;
    }
    w->now_ms = 1000000;
    MUST(reader_load() == NULL);
    MUST(core_init(&w->core, w->config, n, 10000, how) == 0);
    if (GUARDED) {
        guard_init(&w->core, MARKER, "M", 60000, 30000, how & 0x20 ? "ours" : NULL, "a:1 b:1");
        w->core.tell = core_script(&w->core, "T", 1, w->now_ms);
    }
    w->primitive.acquire = core_script(&w->core, "A", 1, w->now_ms);
    w->primitive.extend = how & 0x20 ? core_script(&w->core, "E", 1, w->now_ms) : -1;
    w->primitive.release = core_script(&w->core, "R", 1, w->now_ms);
    w->primitive.confirm = how & 0x10 ? core_script(&w->core, "C", 1, w->now_ms) : -1;
    w->primitive.import = core_script(&w->core, "I", 1, w->now_ms);
    w->primitive.heal = -1;
    w->primitive.rule = how & 0x10   ? RL_RULE_LARGEST
                        : how & 0x08 ? RL_RULE_SAME : RL_RULE_YES;
    w->primitive.knows_run = how >> 4 & 1;
    w->question = core_script(&w->core, "Q", 1, w->now_ms);
}

static void end(struct world *w)
{
    for (int k = 0; k < DEALS; k++)
        drop(w, &w->deal[k]);
    for (int k = 0; k < SUBSCRIPTIONS; k++) {
        free_round(&w->pause[k]);
        if (w->subscription[k])
            subscription_close(w->subscription[k], w->now_ms);
    }
    /* With nobody left to answer, all of it ends by its own times. */
    for (int k = 0; k < 40; k++)
        pass_time(w, 3000);
    MUST(!w->core.owing && !w->core.held);
    close_free(&w->core);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    struct input in = {data, data + size};
    begin(&w, input_byte(&in));
    for (int k = 0; k < STEPS_MAX && input_left(&in); k++) {
        step(&w, &in);
        check(&w);
    }
    end(&w);
    return 0;
}
