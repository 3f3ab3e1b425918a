/* sim_guard.c - the markers of scripted servers. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

void sim_fail_over(struct sim *s, int i)
{
    snprintf(s->server[i].replid, sizeof(s->server[i].replid), "%08x%032x", ++s->lives, i);
}

struct marker sim_marker(const struct sim *s, int i, int64_t max_lease_ms)
{
    struct marker m = {.state = MARKER_ADMITTED, .db = s->config[i].db,
                       .max_lease_ms = max_lease_ms};
    strcpy(m.cluster, s->core.cluster);
    marker_hex((uint64_t)i + 1, MARKER_HEX, m.inc);
    marker_replid(s->server[i].replid, m.replid);
    return m;
}

void sim_set_marker(struct sim *s, int i, const struct marker *marker)
{
    marker_write(marker, s->server[i].marker);
}

/* Redis' own digest is no concern of the core: a text of our own will do. */
static void seen(const struct sim_server *sv, char *text)
{
    size_t len = strlen(sv->marker);
    if (len > MARKER_TEXT)
        snprintf(text, MARKER_MAX, "#%zx", len);
    else
        strcpy(text, sv->marker);
}

static int lives(const struct sim_server *sv, const char *marker)
{
    return marker[22] == '-' || !strncmp(marker + 22, sv->replid, MARKER_HEX);
}

/* The script that compares and sets the marker: its text, 1, key, seen, wanted. */
void sim_mark(struct sim_server *sv, redisReply **words)
{
    char text[MARKER_MAX];
    seen(sv, text);
    int other = !strcmp(text, words[3]->str) && !lives(sv, words[4]->str);
    sv->marks++;
    if (!sv->stubborn && !strcmp(text, words[3]->str) && !other) {
        strcpy(sv->marker, words[4]->str);
        strcpy(text, sv->marker);
        if (words[5]->str[0])
            snprintf(sv->servers, sizeof(sv->servers), "%s", words[5]->str);
        sv->marked++;
    }
    sim_reply(sv, "$%d\r\n%s%s\r\n", (int)strlen(text) + other, other ? "!" : "", text);
}

/* A guarded call has an argument more than others; true: it may go on. */
int sim_passes(struct sim_server *sv, const redisReply *command)
{
    char want[2 * MARKER_MAX];
    REQUIRE(command->elements == 7);
    strcpy(want, command->element[command->elements - 1]->str);
    size_t len = strlen(want);
    int looks = len && want[len - 1] == '!';
    want[len - (size_t)looks] = '\0';
    int other = looks && !strcmp(want, sv->marker) && !lives(sv, want);
    if (*want && (other || strcmp(want, sv->marker))) {
        sim_reply(sv, "*2\r\n:3\r\n$%d\r\n%s%s\r\n", (int)strlen(sv->marker) + other,
              other ? "!" : "", sv->marker);
        return 0;
    }
    return 1;
}
