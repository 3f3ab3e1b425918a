#include "node/info.h"

#include <string.h>

const char *const info_sections[] = {"server", "replication", "persistence", "memory",
                                     NULL};

/* A decimal number; 0 for other text, or above about 2^62, which INFO does not have. */
static int64_t number(const char *text, size_t len)
{
    int64_t n = 0;
    int minus = len > 0 && text[0] == '-';
    for (size_t i = (size_t)minus; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || n > INT64_MAX / 20)
            return 0;
        n = n * 10 + (text[i] - '0');
    }
    return minus ? -n : n;
}

/* Copies printable text without spaces, cut to size - 1, and "" for any other text: words
 * go into messages, and master_replid to scripts. */
static void word(char *to, size_t size, const char *text, size_t len)
{
    to[0] = '\0';
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return;
    }
    len = len < size ? len : size - 1;
    memcpy(to, text, len);
    to[len] = '\0';
}

static int is(const char *text, size_t len, const char *what)
{
    return strlen(what) == len && !memcmp(text, what, len);
}

static void take(struct info *info, const char *key, size_t key_len, const char *value,
                 size_t len)
{
    if (is(key, key_len, "run_id")) {
        word(info->run_id, sizeof(info->run_id), value, len);
    } else if (is(key, key_len, "master_replid")) {
        word(info->replid, sizeof(info->replid), value, len);
    } else if (is(key, key_len, "master_replid2")) {
        info->failed_over = len > 0 && strspn(value, "0") < len;
    } else if (is(key, key_len, "connected_slaves")) {
        info->replicas = (int)number(value, len);
    } else if (is(key, key_len, "redis_mode") || is(key, key_len, "server_mode")) {
        info->cluster = is(value, len, "cluster");
        info->sentinel = is(value, len, "sentinel");
    } else if (is(key, key_len, "redis_version")) {
        if (!info->version[0])
            word(info->version, sizeof(info->version), value, len);
    } else if (is(key, key_len, "valkey_version")) {
        static const char name[] = "valkey ";
        memcpy(info->version, name, sizeof(name));
        word(info->version + sizeof(name) - 1, sizeof(info->version) - sizeof(name) + 1,
             value, len);
    } else if (is(key, key_len, "uptime_in_seconds")) {
        info->uptime_s = number(value, len);
    } else if (is(key, key_len, "role")) {
        info->role = is(value, len, "master") ? RL_ROLE_MASTER : RL_ROLE_REPLICA;
    } else if (is(key, key_len, "master_host")) {
        word(info->master_host, sizeof(info->master_host), value, len);
    } else if (is(key, key_len, "master_port")) {
        info->master_port = (int)number(value, len);
    } else if (is(key, key_len, "aof_enabled")) {
        info->aof = is(value, len, "1");
    } else if (is(key, key_len, "rdb_last_bgsave_time_sec")) {
        info->rdb = number(value, len) >= 0;
    } else if (is(key, key_len, "maxmemory")) {
        info->maxmemory = number(value, len);
    } else if (is(key, key_len, "maxmemory_policy")) {
        word(info->policy, sizeof(info->policy), value, len);
    }
}

void info_read(void *to, const char *text, size_t len)
{
    struct info *info = to;
    const char *end = text + len;
    info->known = 1;
    while (text < end) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));
        const char *next = eol ? eol + 1 : end;
        const char *stop = eol ? eol : end;
        if (stop > text && stop[-1] == '\r')
            stop--;
        const char *colon = memchr(text, ':', (size_t)(stop - text));
        if (colon)
            take(info, text, (size_t)(colon - text), colon + 1,
                 (size_t)(stop - colon - 1));
        text = next;
    }
}
