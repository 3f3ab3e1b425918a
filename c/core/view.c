/* view.c - which list of servers a yes is counted for. */
#include "core/view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

/* What is left to be read; failed: it is not what was asked for. */
struct rest {
    const char *at, *end;
    int failed;
};

/* The text, if that is next. */
static int comes(struct rest *r, const char *text)
{
    size_t len = strlen(text);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, text, len))
        return 0;
    r->at += len;
    return 1;
}

static void expect(struct rest *r, const char *text)
{
    if (!comes(r, text))
        r->failed = 1;
}

static int64_t number(struct rest *r, int64_t most)
{
    const char *first = r->at;
    int64_t n = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && n <= most)
        n = n * 10 + (*r->at++ - '0');
    if (r->at == first || n > most || (*first == '0' && r->at - first > 1))
        r->failed = 1;
    return n;
}

static void hex(struct rest *r, char *to)
{
    for (int k = 0; k < VIEW_HEX; k++) {
        if (r->at == r->end || !strchr("0123456789abcdef", *r->at) || !*r->at) {
            r->failed = 1;
            return;
        }
        to[k] = *r->at++;
    }
}

/* Printable, without spaces. */
static void label(struct rest *r, struct member *to)
{
    to->label = r->at;
    while (r->at < r->end && *r->at > ' ' && *r->at <= '~')
        r->at++;
    to->len = (size_t)(r->at - to->label);
    if (!to->len)
        r->failed = 1;
}

/* " LABEL" or " ID=LABEL", to the end of the line. */
static void list(struct rest *r, struct member_list *to, int with_ids)
{
    while (!r->failed && !comes(r, "\n")) {
        struct member *m = &to->at[to->n];
        if (to->n == RL_MAX_NODES) {
            r->failed = 1;
            return;
        }
        expect(r, " ");
        if (with_ids) {
            m->id = number(r, INT32_MAX);
            expect(r, "=");
        }
        label(r, m);
        to->n++;
    }
    if (!to->n)
        r->failed = 1;
}

/* No two members have a number or an address in common. */
static int distinct(const struct member_list *l)
{
    for (int k = 0; k < l->n; k++) {
        const struct member *a = &l->at[k];
        for (int j = 0; j < k; j++) {
            const struct member *b = &l->at[j];
            if (a->id == b->id || (a->len == b->len && !memcmp(a->label, b->label, a->len)))
                return 0;
        }
        if (a->id < 1)
            return 0;
    }
    return 1;
}

int view_parse(const char *text, size_t len, struct view *out)
{
    struct rest r = {text, text + len, 0};
    memset(out, 0, sizeof(*out));
    expect(&r, "v2 ");
    hex(&r, out->id.cluster);
    expect(&r, " ");
    out->id.epoch = number(&r, INT32_MAX);
    expect(&r, "\n");
    out->online = comes(&r, "online\n");
    if (comes(&r, "old"))
        list(&r, &out->old, 1);
    expect(&r, "new");
    list(&r, &out->list, 1);
    while (!r.failed && out->was_len < VIEW_WAS && comes(&r, "was ")) {
        struct member_list *was = &out->was[out->was_len++];
        was->epoch = number(&r, INT32_MAX);
        list(&r, was, 0);
    }
    expect(&r, "by ");
    out->by = number(&r, INT64_C(99999999999999));
    expect(&r, "\n");
    if (r.failed || r.at != r.end || len >= VIEW_MAX ||
        (out->id.epoch & 1) != (out->old.n > 0) || !distinct(&out->old) ||
        !distinct(&out->list))
        return -1;
    return view_sign(out);
}

/* ---- writing ---- */

static size_t put(char *text, size_t len, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static size_t put(char *text, size_t len, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = len < VIEW_MAX ? VIEW_MAX - len : 0;
    int more = vsnprintf(room ? text + len : NULL, room, format, args);
    va_end(args);
    return len + (size_t)more;
}

static size_t put_list(char *text, size_t len, const struct member_list *l, int with_ids)
{
    for (int k = 0; k < l->n; k++) {
        const struct member *m = &l->at[k];
        len = put(text, len, " ");
        if (with_ids)
            len = put(text, len, "%" PRId64 "=", m->id);
        len = put(text, len, "%.*s", (int)m->len, m->label);
    }
    return put(text, len, "\n");
}

/* All but the last line. */
static size_t put_hashed(const struct view *v, char *text)
{
    size_t len = put(text, 0, "v2 %s %" PRId64 "\n", v->id.cluster, v->id.epoch);
    if (v->online)
        len = put(text, len, "online\n");
    if (v->old.n)
        len = put_list(text, put(text, len, "old"), &v->old, 1);
    len = put_list(text, put(text, len, "new"), &v->list, 1);
    for (int k = 0; k < v->was_len; k++) {
        len = put(text, len, "was %" PRId64, v->was[k].epoch);
        len = put_list(text, len, &v->was[k], 0);
    }
    return len;
}

int view_write(const struct view *v, char *text)
{
    size_t len = put(text, put_hashed(v, text), "by %" PRId64 "\n", v->by);
    return len < VIEW_MAX ? (int)len : -1;
}

int view_sign(struct view *v)
{
    char text[VIEW_MAX];
    size_t len = put_hashed(v, text);
    if (len >= VIEW_MAX)
        return -1;
    uint32_t hash = 2166136261u;               /* FNV-1a: lists differ by mistake only */
    for (size_t k = 0; k < len; k++)
        hash = (hash ^ (unsigned char)text[k]) * 16777619u;
    snprintf(v->id.hash, sizeof(v->id.hash), "%08" PRIx32, hash);
    return 0;
}

int view_same(const struct view_id *a, const struct view_id *b)
{
    return a->epoch == b->epoch && !strcmp(a->cluster, b->cluster) &&
           !strcmp(a->hash, b->hash);
}

const struct member *view_by_label(const struct member_list *l, const char *text)
{
    size_t len = strlen(text);
    for (int k = 0; k < l->n; k++) {
        if (l->at[k].len == len && !memcmp(l->at[k].label, text, len))
            return &l->at[k];
    }
    return NULL;
}

const struct member *view_by_id(const struct member_list *l, int64_t id)
{
    for (int k = 0; k < l->n; k++) {
        if (l->at[k].id == id)
            return &l->at[k];
    }
    return NULL;
}

int view_was_list(const struct view *view, const struct member_list *labels)
{
    for (int w = 0; w < view->was_len; w++) {
        const struct member_list *was = &view->was[w];
        int found = 0;
        for (int k = 0; k < labels->n; k++) {
            for (int j = 0; j < was->n; j++)
                found += was->at[j].len == labels->at[k].len &&
                         !memcmp(was->at[j].label, labels->at[k].label, was->at[j].len);
        }
        if (found == labels->n && labels->n == was->n)
            return 1;
    }
    return 0;
}
