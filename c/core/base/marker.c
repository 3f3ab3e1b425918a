#include "core/base/marker.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

/* The rest of a text; failed: it was not what a reader below expected. */
struct words {
    const char *at, *end;
    int failed;
};

static void skip(struct words *w, char c)
{
    if (w->at < w->end && *w->at == c)
        w->at++;
    else
        w->failed = 1;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

static void read_hex(struct words *w, int digits, char *to)
{
    for (int k = 0; k < digits && !w->failed; k++) {
        if (w->at == w->end || !is_hex(*w->at))
            w->failed = 1;
        else
            to[k] = *w->at++;
    }
    to[w->failed ? 0 : digits] = '\0';
}

/* A number as marker_write() prints it: no sign, no leading zeros. */
static int64_t read_number(struct words *w, int64_t most)
{
    const char *first = w->at;
    int64_t n = 0;
    while (w->at < w->end && is_digit(*w->at) && n <= most)
        n = n * 10 + (*w->at++ - '0');
    if (w->at == first || n > most || (*first == '0' && w->at - first > 1))
        w->failed = 1;
    return n;
}

static void read_cluster(struct words *w, char *to)
{
    size_t len = 0;
    while (w->at < w->end && *w->at != ' ' && len < RL_CLUSTER_MAX - 1)
        to[len++] = *w->at++;
    to[len] = '\0';
    if (strlen(to) != len || (!cluster_is_name(to) && !cluster_is_hash(to)))
        w->failed = 1;
}

static void read_replid(struct words *w, char *to)
{
    to[0] = '\0';
    if (w->at < w->end && *w->at == '-')
        w->at++;
    else
        read_hex(w, MARKER_HEX, to);
}

static void read_state(struct words *w, struct marker *m)
{
    m->state = w->at < w->end ? *w->at : '\0';
    if (m->state && strchr("nlsa", m->state))
        w->at++;
    else
        w->failed = 1;
}

/* Reads INC and "v4 ", as the texts of all versions begin. -1: this one does not. */
static int read_version(struct words *w, char *inc)
{
    read_hex(w, MARKER_HEX, inc);
    skip(w, ' ');
    skip(w, 'v');
    int64_t version = read_number(w, 999);
    skip(w, ' ');
    return w->failed ? -1 : (int)version;
}

enum marker_kind marker_parse(const char *text, size_t len, struct marker *out,
                              int *version)
{
    struct words w = {text, text + len, 0};
    memset(out, 0, sizeof(*out));
    *version = -1;
    if (!len)
        return MARKER_NONE;
    *version = read_version(&w, out->inc);
    if (*version != MARKER_VERSION)
        return *version < 0 ? MARKER_FOREIGN : MARKER_UNKNOWN;
    read_state(&w, out);
    skip(&w, ' ');
    read_replid(&w, out->replid);
    skip(&w, ' ');
    out->db = read_number(&w, INT32_MAX);
    skip(&w, ' ');
    out->max_lease_ms = read_number(&w, INT64_C(999999999999999));
    skip(&w, ' ');
    read_cluster(&w, out->cluster);
    if (out->state != MARKER_ADMITTED) {
        skip(&w, ' ');
        out->observed_ms = read_number(&w, INT64_C(999999999999999));
        skip(&w, ' ');
        out->at_ms = read_number(&w, INT64_C(999999999999999));
    }
    if (w.failed || w.at != w.end || len > MARKER_TEXT || !out->max_lease_ms) {
        memset(out, 0, sizeof(*out));
        return MARKER_FOREIGN;
    }
    return MARKER_READ;
}

/* ---- writing ---- */

void marker_write(const struct marker *m, char *text)
{
    int len = snprintf(text, MARKER_MAX, "%s v%d %c %s %" PRId64 " %" PRId64 " %s", m->inc,
                       MARKER_VERSION, m->state, m->replid[0] ? m->replid : "-", m->db,
                       m->max_lease_ms, m->cluster);
    assert(len > 0 && len <= MARKER_TEXT);
}

void marker_hex(uint64_t n, int digits, char *to)
{
    for (int k = digits - 1; k >= 0; k--, n >>= 4)
        to[k] = "0123456789abcdef"[n & 15];
    to[digits] = '\0';
}

void marker_replid(const char *replid, char *to)
{
    struct words w = {replid, replid + strlen(replid), 0};
    read_hex(&w, MARKER_HEX, to);
}
