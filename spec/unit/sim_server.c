/* sim_server.c - the servers of sim.c, as far as these tests need them: keys, scripts and
 * commands. */
#include "sim.h"

#include <ctype.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- streams ---- */

void sim_stream_begin(struct sim_stream *st)
{
    memset(&st->in, 0, sizeof(st->in));
    st->reader = redisReaderCreate();
    REQUIRE(st->reader != NULL);
}

void sim_stream_end(struct sim_stream *st)
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
        if (key && !memcmp(key->value, cmd_value(lease->cmd).data, RL_VALUE_LEN))
            mask |= bit(i);
    }
    return mask;
}

/* ---- the servers' scripts ---- */

void sim_reply(struct sim_server *sv, const char *format, ...)
{
    char line[512];
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
        sim_reply(&s->server[i], ":2\r\n");
    } else if (key && !s->greedy) {
        sim_reply(&s->server[i], "*2\r\n:0\r\n:%lld\r\n",
              (long long)(key->until_ms - s->now_ms));
    } else {
        key_set(s, i, words[0]->str, value, atoll(words[2]->str));
        sim_reply(&s->server[i], ":1\r\n");
    }
}

static void script_extend(struct sim *s, int i, redisReply **words)
{
    struct sim_key *key = sim_key(s, i, words[0]->str);
    if (!key || memcmp(key->value, words[1]->str, RL_VALUE_LEN)) {
        sim_reply(&s->server[i], ":%d\r\n", key ? -1 : 0);
        return;
    }
    int64_t until_ms = s->now_ms + atoll(words[2]->str);
    if (until_ms > key->until_ms)
        key->until_ms = until_ms;
    sim_reply(&s->server[i], ":1\r\n");
}

static void script_release(struct sim *s, int i, redisReply **words)
{
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    int mine = key && !memcmp(key->value, words[1]->str, RL_VALUE_LEN);
    if (mine) {
        key_delete(s, i, words[0]->str);
        s->server[i].announced += strcmp(words[2]->str, "0") != 0;
    }
    sim_reply(&s->server[i], ":%d\r\n", mine ? 1 : key ? -1 : 0);
}

/* words: key, value, lease, token. */
static void fenced_acquire(struct sim *s, int i, redisReply **words)
{
    struct sim_server *sv = &s->server[i];
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    int again = key && !memcmp(key->value, words[1]->str, RL_VALUE_LEN);
    if (key && !again) {
        sim_reply(sv, "*2\r\n:0\r\n:%lld\r\n", (long long)(key->until_ms - s->now_ms));
        return;
    }
    if (!again) {
        sv->counter++;
        key_set(s, i, words[0]->str, words[1]->str, atoll(words[2]->str));
    }
    if (again)
        sim_reply(sv, "*2\r\n:2\r\n:%lld\r\n", (long long)sv->counter);
    else
        sim_reply(sv, ":%lld\r\n", (long long)sv->counter + 3);
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
        sim_reply(sv, ":%d\r\n", script != SIM_CONFIRM && !key ? 0 : -1);
    } else if (sv->counter > token && script != SIM_FENCED_RELEASE) {
        sim_reply(sv, "*2\r\n:%d\r\n:%lld\r\n", script == SIM_CONFIRM ? 0 : -1,
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
        sim_reply(sv, ":1\r\n");
    }
}

/* words: key, value, lease, old value. */
static void script_import(struct sim *s, int i, redisReply **words)
{
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    const char *value = words[1]->str;
    int vote = !key ? 0 : !memcmp(key->value, value, RL_VALUE_LEN) ? 2 : -1;
    if (key && !memcmp(key->value, words[3]->str, RL_VALUE_LEN)) {
        key_set(s, i, words[0]->str, value, atoll(words[2]->str));
        vote = 1;
    }
    sim_reply(&s->server[i], ":%d\r\n", vote);
}

/* words: key, value, lease, token, old value. */
static void fenced_import(struct sim *s, int i, redisReply **words)
{
    struct sim_server *sv = &s->server[i];
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    const char *value = words[1]->str;
    int again = key && !memcmp(key->value, value, RL_VALUE_LEN);
    int mine = again || (key && !memcmp(key->value, words[4]->str, RL_VALUE_LEN));
    if (!mine || sv->counter != atoll(words[3]->str)) {
        sim_reply(sv, ":%d\r\n", key && !mine ? -1 : 0);
        return;
    }
    if (!again)
        key_set(s, i, words[0]->str, value, atoll(words[2]->str));
    sim_reply(sv, "*2\r\n:%d\r\n:%lld\r\n", again ? 2 : 1, (long long)sv->counter);
}

static void script_ask(struct sim *s, int i, redisReply **words)
{
    const struct sim_key *key = sim_key(s, i, words[0]->str);
    if (!key)
        sim_reply(&s->server[i], ":0\r\n");
    else
        sim_reply(&s->server[i], "*3\r\n:1\r\n:%lld\r\n$%d\r\n%.*s\r\n",
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
    } else if (script == s->core.tell) {
        CHECK_STR(words[0]->str, "floor");
        CHECK_STR(words[2]->str, s->core.marker ? "1" : "");
        sv->asked++;
        int all = sv->marker[0] && sv->marker[20] == MARKER_ADMITTED;
        say(sv, sv->tells ? sv->tells : all ? "*2\r\n:1\r\n:7\r\n" : "*2\r\n:0\r\n:0\r\n");
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
    case SIM_IMPORT:
        script_import(s, i, words);
        break;
    case SIM_FENCED_IMPORT:
        fenced_import(s, i, words);
        break;
    default:
        sim_reply(sv, ":1\r\n");
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
        const char *want = by_sha ? sha : s->core.scripts.item[k]->body;
        size_t len = by_sha ? 40 : s->core.scripts.item[k]->len;
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

static void execute_call(struct sim *s, int i, redisReply *command, int by_sha)
{
    struct sim_server *sv = &s->server[i];
    REQUIRE(command->elements >= 3);
    if (!by_sha && s->core.marker_script &&
        !strcmp(command->element[1]->str, s->core.marker_script)) {
        sim_mark(s, sv, command->element + 1);
        return;
    }
    int script = script_number(s, command->element[1], by_sha);
    REQUIRE(script >= 0);
    int known = !by_sha || sv->loaded[script];
    if (script != s->core.tell)
        note_call(sv, script, by_sha, known);
    if (!known) {
        sim_reply(sv, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
        return;
    }
    sv->loaded[script] = 1;
    redisReply **words = command->element + 3;     /* key, value, lease */
    int guarded = s->core.marker && (script == SIM_ACQUIRE || script == SIM_FENCED_ACQUIRE);
    if (guarded && !sim_passes(sv, command))
        return;
    execute_script(s, i, script, words,
                   (size_t)(command->element + command->elements - words));
}

/* INFO, TIME, GET of the marker and of the list. True: it was one of them. */
static int execute_question(struct sim *s, int i, const redisReply *command)
{
    struct sim_server *sv = &s->server[i];
    const char *name = command->element[0]->str;
    int64_t us = sim_wall_ms(s, sv) * 1000;
    char seconds[24], fraction[8], line[192];
    if (!strcmp(name, "TIME") && sv->clockless) {
        sim_reply(sv, "-NOPERM this user has no permissions to run 'time'\r\n");
    } else if (!strcmp(name, "TIME")) {
        snprintf(seconds, sizeof(seconds), "%lld", (long long)(us / 1000000));
        snprintf(fraction, sizeof(fraction), "%d", (int)(us % 1000000));
        sim_reply(sv, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", (int)strlen(seconds), seconds,
              (int)strlen(fraction), fraction);
    } else if (!strcmp(name, "INFO")) {
        const char *section = command->element[1]->str;
        const char *text = "# nothing\r\n";
        if (!strcmp(section, "server")) {
            snprintf(line, sizeof(line), "run_id:%s\r\n", sv->run_id);
            text = line;
        } else if (!strcmp(section, "replication")) {
            snprintf(line, sizeof(line), "role:%s\r\nconnected_slaves:%d\r\n"
                     "master_replid:%s\r\nmaster_replid2:%040d\r\n",
                     sv->replica ? "slave" : "master", sv->replicas, sv->replid, sv->promoted);
            text = line;
        }
        if (sv->info)
            say(sv, sv->info);
        else
            sim_reply(sv, "$%d\r\n%s\r\n", (int)strlen(text), text);
    } else if (!strcmp(name, "GET")) {
        int marker = !strcmp(command->element[1]->str, "marker");
        const char *text = marker ? sv->marker : sv->servers;
        if (!strcmp(text, "#"))
            sim_reply(sv, "-WRONGTYPE Operation against a key holding the wrong kind\r\n");
        else if (text[0])
            sim_reply(sv, "$%d\r\n", (int)strlen(text)), say(sv, text), say(sv, "\r\n");
        else
            sim_reply(sv, "$-1\r\n");
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
        sim_reply(sv, "-LOADING Redis is loading the dataset in memory\r\n");
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
        sv->loaded[script] = 1;
        sha_of(script, sha);
        sim_reply(sv, "$40\r\n%s\r\n", sha);
    } else {
        if (!strcmp(name, "CLIENT") && !strcmp(command->element[1]->str, "SETNAME"))
            snprintf(sv->name, sizeof(sv->name), "%s", command->element[2]->str);
        sim_reply(sv, strcmp(name, "PING") ? "+OK\r\n" : "+PONG\r\n");
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
    memset(&sv->out, 0, sizeof(sv->out));
    int moved = stream_execute(s, i, &sv->ghost, max);
    buf_free(&sv->out);
    sv->out = out;
    if (!moved)
        sim_stream_end(&sv->ghost);    /* at most half a command was left */
    return moved;
}
