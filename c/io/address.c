/* address.c - where a server is, as the label of a node says. */
#include "io/address.h"

#include <stdlib.h>
#include <string.h>

enum { PORT_MAX = 65535 };

struct rest {
    const char *at, *end;
};

static int comes(struct rest *r, const char *text)
{
    size_t len = strlen(text);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, text, len))
        return 0;
    r->at += len;
    return 1;
}

/* -1: there is none. */
static int number(struct rest *r)
{
    const char *first = r->at;
    int n = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && n <= PORT_MAX)
        n = n * 10 + (*r->at++ - '0');
    return r->at == first || n > PORT_MAX ? -1 : n;
}

static int hex(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | ('A' <= c && c <= 'F' ? 32 : 0)) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* What is between the two, without escapes; NULL: nothing, or no memory. */
static char *unescaped(const char *from, const char *to)
{
    char *text = to > from ? malloc((size_t)(to - from) + 1) : NULL;
    size_t len = 0;
    while (text && from < to) {
        int high = *from == '%' && to - from > 2 ? hex(from[1]) : -1;
        int low = high >= 0 ? hex(from[2]) : -1;
        text[len++] = low >= 0 ? (char)(high * 16 + low) : *from;
        from += low >= 0 ? 3 : 1;
    }
    if (text)
        text[len] = '\0';
    return text;
}

static int read_path(struct rest *r, struct address *a)
{
    const char *question = memchr(r->at, '?', (size_t)(r->end - r->at));
    a->path = unescaped(r->at, question ? question : r->end);
    r->at = question ? question : r->end;
    a->db = comes(r, "?db=") ? number(r) : 0;
    return a->path && a->db >= 0 && r->at == r->end ? 0 : -1;
}

static int read_host(struct rest *r, struct address *a)
{
    int bracket = comes(r, "[");
    const char *end = memchr(r->at, bracket ? ']' : ':', (size_t)(r->end - r->at));
    if (!end)
        return -1;
    a->host = unescaped(r->at, end);
    r->at = end + bracket;
    a->port = comes(r, ":") ? number(r) : -1;
    a->db = comes(r, "/") ? number(r) : 0;
    return a->host && a->port > 0 && a->db >= 0 && r->at == r->end ? 0 : -1;
}

int address_read(struct address *address, const char *label, size_t len)
{
    struct rest r = {label, label + len};
    memset(address, 0, sizeof(*address));
    int path = comes(&r, "unix://");
    address->tls = !path && comes(&r, "rediss://");
    int known = path || address->tls || comes(&r, "redis://");
    if (known && !(path ? read_path(&r, address) : read_host(&r, address)))
        return 0;
    free(address->host);
    free(address->path);
    memset(address, 0, sizeof(*address));
    return -1;
}
