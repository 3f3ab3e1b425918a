#include "core/base/marker.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const HEX = "0123456789abcdef";
static const char *const WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789._-";

/* ---- reading ---- */

/* Reads INC and "v4 ", as the texts of all versions begin. Returns how long that is; 0: this
 * one does not. */
static size_t read_version(const char *text, char *inc, int *version)
{
    char again[MARKER_HEX + 8];
    if (sscanf(text, "%16[0-9a-f] v%3d", inc, version) != 2 || strlen(inc) != MARKER_HEX ||
        *version < 0)
        return 0;
    size_t len = (size_t)snprintf(again, sizeof(again), "%s v%d ", inc, *version);
    return strncmp(text, again, len) ? 0 : len;
}

/* Whether a script may have written these words. */
static int is_valid(const struct marker *m)
{
    size_t digits = strspn(m->replid, HEX);
    return memchr("nlsa", m->state, 4) && !m->replid[digits] &&
           (!digits || digits == MARKER_HEX) && m->db >= 0 && m->db <= INT32_MAX &&
           m->max_lease_ms > 0 && m->cluster[0] && !m->cluster[strspn(m->cluster, WORD)] &&
           m->observed_ms >= 0 && m->at_ms >= 0;
}

/* True: writing the words again gives this text. So sscanf() has passed over no sign, space or
 * zero that does not belong there. */
static int is_written_so(const struct marker *m, const char *text)
{
    char again[MARKER_MAX];
    marker_write(m, again);
    size_t len = strlen(again);
    if (m->state != MARKER_ADMITTED)
        snprintf(again + len, sizeof(again) - len, " %" PRId64 " %" PRId64, m->observed_ms,
                 m->at_ms);
    return !strcmp(again, text);
}

enum marker_kind marker_parse(const char *text, size_t len, struct marker *out,
                              int *version)
{
    char copy[MARKER_MAX];
    memset(out, 0, sizeof(*out));
    *version = -1;
    if (!len)
        return MARKER_NONE;
    size_t some = len < MARKER_MAX ? len : MARKER_MAX - 1;
    memcpy(copy, text, some);
    copy[some] = '\0';
    size_t at = read_version(copy, out->inc, version);
    if (!at)
        *version = -1;
    if (*version != RL_MARKER_VERSION)
        return at ? MARKER_UNKNOWN : MARKER_FOREIGN;
    sscanf(copy + at, "%c %16s %10" SCNd64 " %15" SCNd64 " %32s %15" SCNd64 " %15" SCNd64,
           &out->state, out->replid, &out->db, &out->max_lease_ms, out->cluster,
           &out->observed_ms, &out->at_ms);
    if (!strcmp(out->replid, "-"))
        out->replid[0] = '\0';
    if (strlen(copy) == len && is_valid(out) && is_written_so(out, copy))
        return MARKER_READ;
    memset(out, 0, sizeof(*out));
    return MARKER_FOREIGN;
}

/* ---- writing ---- */

void marker_write(const struct marker *m, char *text)
{
    int len = snprintf(text, MARKER_MAX, "%s v%d %c %s %" PRId64 " %" PRId64 " %s", m->inc,
                       RL_MARKER_VERSION, m->state, m->replid[0] ? m->replid : "-", m->db,
                       m->max_lease_ms, m->cluster);
    assert(len > 0 && len <= MARKER_TEXT);
}

void marker_hex(uint64_t n, int digits, char *to)
{
    for (int k = digits - 1; k >= 0; k--, n >>= 4)
        to[k] = HEX[n & 15];
    to[digits] = '\0';
}

void marker_replid(const char *replid, char *to)
{
    size_t len = strspn(replid, HEX) < MARKER_HEX ? 0 : MARKER_HEX;
    memcpy(to, replid, len);
    to[len] = '\0';
}
