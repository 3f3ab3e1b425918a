/* sim_guard.c - the markers of scripted servers. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

void sim_fail_over(struct sim *s, int i)
{
    snprintf(s->server[i].replid, sizeof(s->server[i].replid), "%08x%032x", ++s->lives, i);
}

int64_t sim_wall_ms(const struct sim *s, const struct sim_server *sv)
{
    return SIM_WALL_MS + s->now_ms + sv->wall_ms;
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
    char *text = s->server[i].marker;
    marker_write(marker, text);
    if (marker->state != MARKER_ADMITTED)
        sprintf(text + strlen(text), " %lld %lld", (long long)marker->observed_ms,
                (long long)sim_wall_ms(s, &s->server[i]));
    s->server[i].began_ms = s->now_ms - marker->observed_ms;
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

/* Appends to a text for a quarantine what both clocks have seen, and the server's time. */
static void count(const struct sim *s, const struct sim_server *sv, redisReply **words, char *text)
{
    struct marker m;
    int version;
    int64_t at_ms = sim_wall_ms(s, sv), both_ms = 0, before_ms = 0;
    if (marker_parse(sv->marker, strlen(sv->marker), &m, &version) == MARKER_READ &&
        !strncmp(m.inc, text, MARKER_HEX) && m.state != MARKER_ADMITTED && words[6]->str[0]) {
        int64_t own_ms = atoll(words[6]->str), theirs_ms = at_ms - atoll(strrchr(sv->marker, ' '));
        both_ms = own_ms < theirs_ms ? own_ms : theirs_ms;
        before_ms = m.observed_ms;
    }
    int64_t whole_ms = atoll(words[7]->str);
    int64_t observed_ms = before_ms + (both_ms > 0 ? both_ms : 0);
    sprintf(text + strlen(text), " %lld %lld",
            (long long)(observed_ms < whole_ms ? observed_ms : whole_ms), (long long)at_ms);
}

/* The script that compares and sets the marker: its text, 1, key, seen, wanted, servers, for
 * how long it was seen, how long a quarantine is, a base for the floors. Without the guard
 * the life is wanted, and the base is all that is set. */
void sim_mark(const struct sim *s, struct sim_server *sv, redisReply **words)
{
    char text[MARKER_MAX];
    seen(sv, text);
    int other = !strcmp(text, words[3]->str) && !lives(sv, words[4]->str);
    sv->marks++;
    if (!strchr(words[4]->str, ' ')) {
        CHECK_STR(words[4]->str, sv->replid);
        sv->base = atoll(words[8]->str);
        sim_reply(sv, "$0\r\n\r\n");
        return;
    }
    if (!sv->stubborn && !strcmp(text, words[3]->str) && !other) {
        strcpy(text, words[4]->str);
        if (text[20] == MARKER_ADMITTED)
            sv->lasted_ms = s->now_ms - sv->began_ms;
        else
            count(s, sv, words, text);
        if (!words[6]->str[0])
            sv->began_ms = s->now_ms;
        strcpy(sv->marker, text);
        sv->base = atoll(words[8]->str);
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
    REQUIRE(command->elements >= 7);
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
