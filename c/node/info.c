#include "node/info.h"

#include <string.h>

const char *const info_sections[] = {"server", "replication", "persistence", "memory",
                                     NULL};

/* Returns a decimal number; 0 for any other text, and for numbers above about 2^62, of
 * which INFO has none. */
static int64_t parse_number(const char *text, size_t len)
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

/* Copies a word, cut to size - 1 bytes. A text with a space or an unprintable byte becomes
 * "", as these words are put into messages, and master_replid into scripts. */
static void copy_word(char *to, size_t size, const char *text, size_t len)
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

static int equals(const char *text, size_t len, const char *expected)
{
    return strlen(expected) == len && !memcmp(text, expected, len);
}

static int is_all_zeros(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '0')
            return 0;
    }
    return 1;
}

static void store_field(struct info *info, const char *key, size_t key_len,
                        const char *value, size_t len)
{
    if (equals(key, key_len, "run_id")) {
        copy_word(info->server.run_id, sizeof(info->server.run_id), value, len);
    } else if (equals(key, key_len, "master_replid")) {
        copy_word(info->replid, sizeof(info->replid), value, len);
    } else if (equals(key, key_len, "master_replid2")) {
        info->failed_over = !is_all_zeros(value, len);
    } else if (equals(key, key_len, "connected_slaves")) {
        info->replicas = (int)parse_number(value, len);
    } else if (equals(key, key_len, "redis_mode") || equals(key, key_len, "server_mode")) {
        info->cluster = equals(value, len, "cluster");
        info->sentinel = equals(value, len, "sentinel");
    } else if (equals(key, key_len, "redis_version")) {
        if (!info->server.version[0])       /* Valkey sends both, and its own counts */
            copy_word(info->server.version, sizeof(info->server.version), value, len);
    } else if (equals(key, key_len, "valkey_version")) {
        static const char name[] = "valkey ";
        const size_t at = sizeof(name) - 1;
        memcpy(info->server.version, name, at);
        copy_word(info->server.version + at, RL_WORD_MAX - at, value, len);
    } else if (equals(key, key_len, "uptime_in_seconds")) {
        info->server.uptime_s = parse_number(value, len);
    } else if (equals(key, key_len, "role")) {
        info->server.role = equals(value, len, "master") ? RL_ROLE_MASTER : RL_ROLE_REPLICA;
    } else if (equals(key, key_len, "master_host")) {
        copy_word(info->server.master_host, sizeof(info->server.master_host), value,
                  len);
    } else if (equals(key, key_len, "master_port")) {
        info->server.master_port = (int)parse_number(value, len);
    } else if (equals(key, key_len, "aof_enabled")) {
        info->server.aof = equals(value, len, "1");
    } else if (equals(key, key_len, "rdb_last_bgsave_time_sec")) {
        info->server.rdb = parse_number(value, len) >= 0;
    } else if (equals(key, key_len, "maxmemory")) {
        info->server.maxmemory = parse_number(value, len);
    } else if (equals(key, key_len, "maxmemory_policy")) {
        copy_word(info->server.policy, sizeof(info->server.policy), value, len);
    }
}

void info_read(struct info *info, const char *text, size_t len)
{
    const char *end = text + len;
    info->server.known = 1;
    while (text < end) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));
        const char *next = eol ? eol + 1 : end;
        const char *stop = eol ? eol : end;
        if (stop > text && stop[-1] == '\r')
            stop--;
        const char *colon = memchr(text, ':', (size_t)(stop - text));
        if (colon)
            store_field(info, text, (size_t)(colon - text), colon + 1,
                 (size_t)(stop - colon - 1));
        text = next;
    }
}
