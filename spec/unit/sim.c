/* sim.c - the driver, and servers as far as these tests need them. */
#include "sim.h"

#include "core/guard.h"

#include <ctype.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- streams ---- */

static void stream_begin(struct sim_stream *st)
{
    buf_init(&st->in);
    st->reader = redisReaderCreate();
    REQUIRE(st->reader != NULL);
}

static void stream_end(struct sim_stream *st)
{
    buf_free(&st->in);
    if (st->reader)
        redisReaderFree(st->reader);
    st->reader = NULL;
}

/* ---- keys ---- */

struct sim_key *sim_key(struct sim *s, int i, const char *name)
{
    struct sim_server *sv = &s->server[i];
    for (int k = 0; k < sv->keys; k++) {
        if (!strcmp(sv->key[k].name, name))
            return s->now_ms < sv->key[k].until_ms ? &sv->key[k] : NULL;
    }
    return NULL;
}

static void key_delete(struct sim *s, int i, const char *name)
{
    struct sim_server *sv = &s->server[i];
    for (int k = 0; k < sv->keys; k++) {
        if (!strcmp(sv->key[k].name, name))
            sv->key[k--] = sv->key[--sv->keys];
    }
}

static void key_set(struct sim *s, int i, const char *name, const char *value,
                    int64_t ttl_ms)
{
    struct sim_server *sv = &s->server[i];
    key_delete(s, i, name);
    REQUIRE(sv->keys < SIM_KEYS && strlen(name) < sizeof(sv->key[0].name));
    struct sim_key *key = &sv->key[sv->keys++];
    strcpy(key->name, name);
    memcpy(key->value, value, RL_VALUE_LEN);
    key->until_ms = s->now_ms + (s->hasty ? ttl_ms / 2 : ttl_ms);
}

void sim_put(struct sim *s, int i, const char *name, int64_t ttl_ms)
{
    key_set(s, i, name, "somebody else's value, of the same length", ttl_ms);
}

uint32_t sim_with(struct sim *s, const char *name)
{
    uint32_t mask = 0;
    for (int i = 0; i < s->n; i++)
        mask |= sim_key(s, i, name) ? bit(i) : 0;
    return mask;
}

uint32_t sim_mine(struct sim *s, const char *name, const rl_lease *lease)
{
    uint32_t mask = 0;
    for (int i = 0; i < s->n; i++) {
        const struct sim_key *key = sim_key(s, i, name);
        if (key && !memcmp(key->value, lease->value, RL_VALUE_LEN))
            mask |= bit(i);
    }
    return mask;
}

/* ---- the servers' scripts ---- */

static void reply(struct sim_server *sv, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void reply(struct sim_server *sv, const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    REQUIRE(wire_raw(&sv->out, line, (size_t)len) == 0);
}

/* words: key, value, lease. */
static void script_acquire(struct sim *s, int i, redisReply **words)
{
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    const char *value = words[1]->str;
    if (key && !memcmp(key->value, value, RL_VALUE_LEN)) {
        reply(&s->server[i], ":2\r\n");
    } else if (key && !s->greedy) {
        reply(&s->server[i], "*2\r\n:0\r\n:%lld\r\n",
              (long long)(key->until_ms - s->now_ms));
    } else {
        key_set(s, i, words[0]->str, value, atoll(words[2]->str));
        reply(&s->server[i], ":1\r\n");
    }
}

static void script_extend(struct sim *s, int i, redisReply **words)
{
    struct sim_key *key = sim_key(s, i, words[0]->str);
    if (!key || memcmp(key->value, words[1]->str, RL_VALUE_LEN)) {
        reply(&s->server[i], ":%d\r\n", key ? -1 : 0);
        return;
    }
    int64_t until_ms = s->now_ms + atoll(words[2]->str);
    if (until_ms > key->until_ms)
        key->until_ms = until_ms;
    reply(&s->server[i], ":1\r\n");
}

static void script_release(struct sim *s, int i, redisReply **words)
{
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    int mine = key && !memcmp(key->value, words[1]->str, RL_VALUE_LEN);
    if (mine)
        key_delete(s, i, words[0]->str);
    reply(&s->server[i], ":%d\r\n", mine ? 1 : key ? -1 : 0);
}

/* words: key, value, lease, token. */
static void fenced_acquire(struct sim *s, int i, redisReply **words)
{
    struct sim_server *sv = &s->server[i];
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    int again = key && !memcmp(key->value, words[1]->str, RL_VALUE_LEN);
    if (key && !again) {
        reply(sv, "*2\r\n:0\r\n:%lld\r\n", (long long)(key->until_ms - s->now_ms));
        return;
    }
    if (!again) {
        sv->counter++;
        key_set(s, i, words[0]->str, words[1]->str, atoll(words[2]->str));
    }
    if (again)
        reply(sv, "*2\r\n:2\r\n:%lld\r\n", (long long)sv->counter);
    else
        reply(sv, ":%lld\r\n", (long long)sv->counter + 3);
}

/* Confirm, extend and release begin alike: ours, and not counted past the token. */
static void fenced_script(struct sim *s, int i, int script, redisReply **words)
{
    struct sim_server *sv = &s->server[i];
    struct sim_key *key = sim_key(s, i, words[0]->str);
    int64_t lease_ms = atoll(words[2]->str), token = atoll(words[3]->str);
    int mine = key && !memcmp(key->value, words[1]->str, RL_VALUE_LEN);
    int heals = script == SIM_HEAL && !key;
    if (!mine && !heals) {
        reply(sv, ":%d\r\n", script != SIM_CONFIRM && !key ? 0 : -1);
    } else if (sv->counter > token && script != SIM_FENCED_RELEASE) {
        reply(sv, "*2\r\n:%d\r\n:%lld\r\n", script == SIM_CONFIRM ? 0 : -1,
              (long long)sv->counter);
    } else {
        if (sv->counter < token)
            sv->counter = token;
        if (script == SIM_FENCED_RELEASE)
            key_delete(s, i, words[0]->str);
        else if (heals)
            key_set(s, i, words[0]->str, words[1]->str, lease_ms);
        else if (script == SIM_FENCED_EXTEND && key->until_ms < s->now_ms + lease_ms)
            key->until_ms = s->now_ms + lease_ms;
        reply(sv, ":1\r\n");
    }
}

/* words: key, value, lease, old value. */
static void script_handover(struct sim *s, int i, redisReply **words)
{
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    const char *value = words[1]->str;
    int vote = !key ? 0 : !memcmp(key->value, value, RL_VALUE_LEN) ? 2 : -1;
    if (key && !memcmp(key->value, words[3]->str, RL_VALUE_LEN)) {
        key_set(s, i, words[0]->str, value, atoll(words[2]->str));
        vote = 1;
    }
    reply(&s->server[i], ":%d\r\n", vote);
}

/* words: key, value, lease, token, old value. */
static void fenced_handover(struct sim *s, int i, redisReply **words)
{
    struct sim_server *sv = &s->server[i];
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    const char *value = words[1]->str;
    int again = key && !memcmp(key->value, value, RL_VALUE_LEN);
    CHECK_STR(words[3]->str, "0");             /* nobody has a token yet */
    if (!again && (!key || memcmp(key->value, words[4]->str, RL_VALUE_LEN))) {
        reply(sv, ":%d\r\n", key ? -1 : 0);
        return;
    }
    if (!again) {
        sv->counter++;
        key_set(s, i, words[0]->str, value, atoll(words[2]->str));
    }
    reply(sv, "*2\r\n:%d\r\n:%lld\r\n", again ? 2 : 1, (long long)sv->counter);
}

static void script_ask(struct sim *s, int i, redisReply **words)
{
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    if (!key)
        reply(&s->server[i], ":0\r\n");
    else
        reply(&s->server[i], "*3\r\n:1\r\n:%lld\r\n$%d\r\n%.*s\r\n",
              (long long)(key->until_ms - s->now_ms), RL_VALUE_LEN, RL_VALUE_LEN,
              key->value);
}

static void say(struct sim_server *sv, const char *bytes)
{
    REQUIRE(wire_raw(&sv->out, bytes, strlen(bytes)) == 0);
}

static void execute_script(struct sim *s, int i, int script, redisReply **words,
                           size_t n)
{
    struct sim_server *sv = &s->server[i];
    if (script < SIM_SCRIPTS && sv->say[script]) {
        say(sv, sv->say[script]);
        return;
    }
    size_t before = buf_len(&sv->out);
    switch (script) {
    case SIM_ACQUIRE:
        script_acquire(s, i, words);
        break;
    case SIM_EXTEND:
        script_extend(s, i, words);
        break;
    case SIM_RELEASE:
        script_release(s, i, words);
        break;
    case SIM_ASK:
        script_ask(s, i, words);
        break;
    case SIM_FENCED_ACQUIRE:
        fenced_acquire(s, i, words);
        break;
    case SIM_FENCED_RELEASE:
        if (n > 3)
            fenced_script(s, i, script, words);
        else                 /* nothing to count */
            script_release(s, i, words);
        break;
    case SIM_FENCED_EXTEND:
    case SIM_CONFIRM:
    case SIM_HEAL:
        fenced_script(s, i, script, words);
        break;
    case SIM_HANDOVER:
        script_handover(s, i, words);
        break;
    case SIM_FENCED_HANDOVER:
        fenced_handover(s, i, words);
        break;
    default:
        reply(sv, ":1\r\n");
    }
    if (script < SIM_SCRIPTS && sv->instead[script]) {
        sv->out.end = sv->out.start + before;
        say(sv, sv->instead[script]);
    }
}

/* ---- the servers' commands ---- */

static void sha_of(int script, char *sha)
{
    snprintf(sha, 41, "%040d", script);
}

/* The script's number by its text or its sha, or -1. */
static int script_number(const struct sim *s, const redisReply *word, int by_sha)
{
    for (int k = 0; k < s->core.scripts.count; k++) {
        char sha[41];
        sha_of(k, sha);
        const char *want = by_sha ? sha : s->core.scripts.item[k].body;
        size_t len = by_sha ? 40 : s->core.scripts.item[k].len;
        if (word->len == len && !memcmp(word->str, want, len))
            return k;
    }
    return -1;
}

static void note_call(struct sim_server *sv, int script, int by_sha, int known)
{
    char c = known ? (script < SIM_SCRIPTS ? "AERQHFXLCGP"[script] : 'Z') : '?';
    REQUIRE(sv->logged + 1 < SIM_LOG);
    sv->log[sv->logged++] = by_sha ? c : (char)tolower(c);
    sv->log[sv->logged] = '\0';
}

/* The script that compares and sets the marker: its text, 1, key, seen, wanted. */
static void execute_mark(struct sim_server *sv, redisReply **words)
{
    if (!strcmp(sv->marker, words[3]->str))
        strcpy(sv->marker, words[4]->str);
    reply(sv, "$%d\r\n%s\r\n", (int)strlen(sv->marker), sv->marker);
}

/* A guarded call has a key and an argument more than others; true: it may go on. */
static int passes_guard(struct sim_server *sv, const redisReply *command)
{
    const char *want = command->element[command->elements - 1]->str;
    REQUIRE(command->elements == 8 && !strcmp(command->element[4]->str, "marker"));
    if (*want && strcmp(want, sv->marker)) {
        reply(sv, "*2\r\n:3\r\n$%d\r\n%s\r\n", (int)strlen(sv->marker), sv->marker);
        return 0;
    }
    return 1;
}

static void execute_call(struct sim *s, int i, redisReply *command, int by_sha)
{
    struct sim_server *sv = &s->server[i];
    REQUIRE(command->elements >= 3);
    if (!by_sha && s->core.marker_script &&
        !strcmp(command->element[1]->str, s->core.marker_script)) {
        execute_mark(sv, command->element + 1);
        return;
    }
    int script = script_number(s, command->element[1], by_sha);
    REQUIRE(script >= 0);
    int known = !by_sha || (sv->loaded >> script & 1);
    note_call(sv, script, by_sha, known);
    if (!known) {
        reply(sv, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
        return;
    }
    sv->loaded |= 1ULL << script;
    redisReply **words = command->element + 3;     /* key, value, lease */
    if (script == SIM_ACQUIRE && s->core.marker) {
        if (!passes_guard(sv, command))
            return;
        redisReply *marker = words[1];
        words[1] = words[0];
        *words++ = marker;
    }
    execute_script(s, i, script, words,
                   (size_t)(command->element + command->elements - words));
}

/* INFO, TIME, GET of the marker. True: it was one of them. */
static int execute_question(struct sim *s, int i, const redisReply *command)
{
    struct sim_server *sv = &s->server[i];
    const char *name = command->element[0]->str;
    int64_t us = (s->now_ms + sv->wall_ms) * 1000;
    char seconds[24], fraction[8], line[128];
    if (!strcmp(name, "TIME") && sv->clockless) {
        reply(sv, "-NOPERM this user has no permissions to run 'time'\r\n");
    } else if (!strcmp(name, "TIME")) {
        snprintf(seconds, sizeof(seconds), "%lld", (long long)(us / 1000000));
        snprintf(fraction, sizeof(fraction), "%d", (int)(us % 1000000));
        reply(sv, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", (int)strlen(seconds), seconds,
              (int)strlen(fraction), fraction);
    } else if (!strcmp(name, "INFO")) {
        const char *section = command->element[1]->str;
        snprintf(line, sizeof(line), "run_id:%s\r\n", sv->run_id);
        const char *text = strcmp(section, "server") ? "# nothing\r\n" : line;
        if (sv->info)
            say(sv, sv->info);
        else
            reply(sv, "$%d\r\n%s\r\n", (int)strlen(text), text);
    } else if (!strcmp(name, "GET")) {
        if (sv->marker[0])
            reply(sv, "$%d\r\n%s\r\n", (int)strlen(sv->marker), sv->marker);
        else
            reply(sv, "$-1\r\n");
    } else {
        return 0;
    }
    return 1;
}

static void execute_command(struct sim *s, int i, redisReply *command)
{
    struct sim_server *sv = &s->server[i];
    REQUIRE(command->type == REDIS_REPLY_ARRAY && command->elements >= 1);
    const char *name = command->element[0]->str;
    if (sv->loading && strcmp(name, "INFO")) {
        reply(sv, "-LOADING Redis is loading the dataset in memory\r\n");
        return;
    }
    if (!strcmp(name, "EVALSHA") || !strcmp(name, "EVAL")) {
        execute_call(s, i, command, name[4] != '\0');
        return;
    }
    if (sv->greets) {
        say(sv, sv->greets);
    } else if (execute_question(s, i, command)) {
        return;
    } else if (!strcmp(name, "SCRIPT")) {
        char sha[41];
        int script = script_number(s, command->element[2], 0);
        REQUIRE(script >= 0);
        sv->loaded |= 1ULL << script;
        sha_of(script, sha);
        reply(sv, "$40\r\n%s\r\n", sha);
    } else {
        reply(sv, strcmp(name, "PING") ? "+OK\r\n" : "+PONG\r\n");
    }
}

static int stream_execute(struct sim *s, int i, struct sim_stream *st, int max)
{
    void *command = NULL;
    struct buf *in = &st->in;
    size_t len = buf_len(in);
    int moved = len > 0;
    if (len)
        REQUIRE(redisReaderFeed(st->reader, in->data + in->start, len) == REDIS_OK);
    buf_take(in, len);
    for (int k = 0; k < max; k++) {
        REQUIRE(redisReaderGetReply(st->reader, &command) == REDIS_OK);
        if (!command)
            break;
        execute_command(s, i, command);
        freeReplyObject(command);
        moved = 1;
    }
    return moved;
}

int sim_execute(struct sim *s, int i, int max)
{
    struct sim_server *sv = &s->server[i];
    if (sv->state != SIM_OPEN || sv->frozen)
        return 0;
    return stream_execute(s, i, &sv->live, max);
}

int sim_haunt(struct sim *s, int i, int max)
{
    struct sim_server *sv = &s->server[i];
    if (!sv->ghost.reader || sv->frozen)
        return 0;
    struct buf out = sv->out;      /* nobody reads the answers */
    buf_init(&sv->out);
    int moved = stream_execute(s, i, &sv->ghost, max);
    buf_free(&sv->out);
    sv->out = out;
    if (!moved)
        stream_end(&sv->ghost);    /* at most half a command was left */
    return moved;
}

/* ---- connections ---- */

static void server_close(struct sim *s, int i)
{
    struct sim_server *sv = &s->server[i];
    if (sv->state == SIM_OPEN) {
        if (sv->lingers && !sv->ghost.reader) {
            sv->ghost = sv->live;
            sv->live = (struct sim_stream){.reader = NULL};
        }
        stream_end(&sv->live);
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
    stream_begin(&sv->live);
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
}

void sim_restart(struct sim *s, int i)
{
    struct sim_server *sv = &s->server[i];
    sv->keys = 0;
    sv->loaded = 0;
    sv->marker[0] = '\0';
    new_run(s, i);
    sim_cut(s, i);
}

void sim_set_marker(struct sim *s, int i, int64_t max_lease_ms, const char *nonce)
{
    struct sim_server *sv = &s->server[i];
    char marker[MARKER_MAX];
    snprintf(marker, sizeof(marker), "%s %lld%s%s", sv->run_id, (long long)max_lease_ms,
             nonce ? " " : "", nonce ? nonce : "");
    memcpy(sv->marker, marker, sizeof(marker));
}

void sim_guard(struct sim *s, int64_t max_lease_ms)
{
    guard_init(&s->core, "marker", "mark", max_lease_ms, max_lease_ms);
    for (int i = 0; i < s->n; i++)
        s->config[i].marker = "marker";
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
                                         "handover",       "fenced acquire",
                                         "fenced extend",  "fenced release",
                                         "confirm",        "heal",
                                         "fenced handover"};
    struct sim *s = calloc(1, sizeof(*s));
    REQUIRE(s != NULL);
    s->n = n;
    s->now_ms = 1000000;
    s->primitive =
        (rl_primitive){SIM_ACQUIRE, SIM_EXTEND, SIM_RELEASE, SIM_HANDOVER, -1, -1};
    for (int i = 0; i < n; i++) {
        s->config[i].timeout_ms = SIM_TIMEOUT_MS;
        s->config[i].connect_timeout_ms = SIM_CONNECT_MS;
        s->server[i].room = SIZE_MAX;
        s->server[i].clockless = 1;
        new_run(s, i);
    }
    REQUIRE(core_init(&s->core, s->config, n, SIM_DRIFT_PPM, test_seed()) == 0);
    for (int k = 0; k < SIM_SCRIPTS; k++)
        REQUIRE(core_script(&s->core, bodies[k], strlen(bodies[k]), s->now_ms) == k);
    return s;
}

void sim_fence(struct sim *s)
{
    s->primitive = (rl_primitive){SIM_FENCED_ACQUIRE, SIM_FENCED_EXTEND,
                                  SIM_FENCED_RELEASE, SIM_FENCED_HANDOVER,
                                  SIM_CONFIRM, SIM_HEAL};
}

static struct sim *bring_up(struct sim *s, int n)
{
    rl_round *round = sim_ask(s, "nothing");
    sim_run(s);
    REQUIRE(sim_end(round) == RL_GRANTED);
    for (int i = 0; i < n; i++)
        REQUIRE(s->core.nodes[i].state == NODE_READY);
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
        sim_set_marker(s, i, max_lease_ms, NULL);
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
    return (int)s->core.timers_wanted - 2 * s->n - 1 - pooled;   /* a timer a link */
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

void sim_finish(struct sim *s)
{
    sim_heal(s);
    sim_run(s);
    for (int k = 0; k < 2000 && core_due_ms(&s->core) != INT64_MAX; k++)
        step(s, INT64_MAX);
    CHECK_INT(core_due_ms(&s->core), INT64_MAX);
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
        stream_end(&sv->live);
        stream_end(&sv->ghost);
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
        s->server[i].loaded = 0;
}

/* ---- what the user does ---- */

struct hold sim_acquire(struct sim *s, const char *key, int64_t lease_ms,
                        int64_t within_ms)
{
    struct hold h = {NULL, NULL};
    char value[RL_VALUE_LEN + 1];
    rl_bytes keys[] = {{key, strlen(key)}};
    snprintf(value, sizeof(value), "%0*u", RL_VALUE_LEN, ++s->values);
    h.round = lease_acquire(&s->core, &s->primitive, keys, 1, NULL, 0, value, lease_ms,
                            within_ms, -1, s->now_ms, &h.lease);
    REQUIRE(h.round != NULL && h.lease != NULL);
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
    return sim_result(s, release_begin(lease, s->now_ms));
}

void sim_let_go(struct sim *s, rl_lease *lease)
{
    sim_release(s, lease);
    lease_drop(lease, s->now_ms);
}

int64_t sim_begin_renewal(struct sim *s, const rl_lease *lease)
{
    sim_skip(s, lease->renew_ms - s->now_ms);
    sim_tick(s);
    REQUIRE(lease->renewal != NULL);
    return s->now_ms;
}

struct hold sim_handover(struct sim *s, rl_lease *lease, int64_t lease_ms)
{
    struct hold h = {NULL, NULL};
    char value[RL_VALUE_LEN + 1];
    snprintf(value, sizeof(value), "%0*u", RL_VALUE_LEN, ++s->values);
    h.round = handover_begin(lease, value, lease_ms, s->now_ms, &h.lease);
    REQUIRE(h.round != NULL && h.lease != NULL);
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
        query_ask(&s->core, SIM_ASK, keys, 1, NULL, 0, within_ms, s->now_ms);
    REQUIRE(round != NULL);
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
        lease_drop(h->lease, s->now_ms);
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
