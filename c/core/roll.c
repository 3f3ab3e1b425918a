/* roll.c - is a server in our list of servers? */
#include "core/roll.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/members.h"

enum { MOST_TORN = 5 };           /* from then on it is taken for what the server is told */

static int by_name(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->label, y->label, len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Keeps a record as ours. 0, or -1: it is none. */
static int keep(struct core *core, const char *text, size_t len)
{
    if (len >= sizeof(core->record))
        return -1;
    memcpy(core->record, text, len);
    core->record[len] = '\0';
    return view_parse(core->record, len, &core->roll);
}

/* The first list of a cluster has the same name whoever writes it, in whatever order. */
void roll_begin(struct core *core)
{
    struct view v = {.id.epoch = 2};
    char text[VIEW_MAX];
    members_configured(core, &v.list);
    if (v.list.n != __builtin_popcount(core->listed))
        return;                   /* nodes without names: no list is looked at */
    qsort(v.list.at, (size_t)v.list.n, sizeof(v.list.at[0]), by_name);
    uint32_t hash = 2166136261u;
    for (int k = 0; k < v.list.n; k++) {
        v.list.at[k].id = k + 1;
        for (size_t c = 0; c <= v.list.at[k].len; c++)
            hash = (hash ^ (unsigned char)(c < v.list.at[k].len ? v.list.at[k].label[c]
                                                               : '\n')) * 16777619u;
    }
    snprintf(v.id.cluster, sizeof(v.id.cluster), "%08" PRIx32, hash);
    int len = view_sign(&v) < 0 ? -1 : view_write(&v, text);
    if (len > 0 && keep(core, text, (size_t)len) == 0)
        core->view = v.id;
}

/* ---- texts ---- */

static int put(char *text, int len, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int put(char *text, int len, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int more = vsnprintf(text + len, (size_t)(RL_TEXT_MAX - len), format, args);
    va_end(args);
    len += more;
    return len < RL_TEXT_MAX ? len : RL_TEXT_MAX - 1;
}

static int put_list(char *text, int len, const struct member_list *list)
{
    len = put(text, len, "{");
    for (int k = 0; k < list->n; k++)
        len = put(text, len, "%s%.*s", k ? ", " : "", (int)list->at[k].len,
                  list->at[k].label);
    return put(text, len, "}");
}

/* Node i is in that list, and we are not. */
static void name_both(struct core *core, int i, const struct view *theirs)
{
    const char *label = core->nodes[i].config->label;
    struct member_list ours;
    members_configured(core, &ours);
    int len = put(core->others, 0, "%s belongs to ", label ? label : "it");
    if (theirs) {
        len = put(core->others, len, "the list ");
        len = put_list(core->others, len, &theirs->list);
        len = put(core->others, len, " (epoch %" PRId64 ")", theirs->id.epoch);
    } else {
        len = put(core->others, len, "another list, of which it has no record");
    }
    len = put(core->others, len, ", this client is configured with ");
    len = put_list(core->others, len, &ours);
    put(core->others, len, "; all clients must have the same servers (to change them: redlock "
        "members)");
}

/* ---- lists ---- */

static int has(const struct member_list *list, const struct member *m)
{
    for (int k = 0; k < list->n; k++) {
        if (list->at[k].len == m->len && !memcmp(list->at[k].label, m->label, m->len))
            return 1;
    }
    return 0;
}

static int same_names(const struct member_list *a, const struct member_list *b)
{
    for (int k = 0; k < a->n; k++) {
        if (!has(b, &a->at[k]))
            return 0;
    }
    return a->n == b->n;
}

/* What the client was configured with is behind: who left since. */
static void note_stale(struct core *core, const struct member_list *ours,
                       const struct view *v)
{
    int len = put(core->stale, 0, "the configuration names ");
    int first = 1;
    for (int k = 0; k < ours->n; k++) {
        if (has(&v->list, &ours->at[k]))
            continue;
        len = put(core->stale, len, "%s%.*s", first ? "" : ", ", (int)ours->at[k].len,
                  ours->at[k].label);
        first = 0;
    }
    len = put(core->stale, len, ", which left the list of servers by epoch %" PRId64
              "; it is ", v->id.epoch);
    put_list(core->stale, len, &v->list);
    core->node_changes++;
}

/* That list is ours from now on. by_names: the nodes are its members, whatever they are
 * called. */
static void adopt(struct core *core, const struct view *v, int by_names)
{
    struct member_list ours;
    members_configured(core, &ours);
    core->named = !by_names;
    if (!state_newest(core)->id.epoch && !v->old.n &&
        (by_names || same_names(&ours, &v->list)))
        core->lists[core->lists_len - 1].id = v->id;      /* the one that we go by has a name */
    else
        members_adopt(core, v);
    core->view = state_newest(core)->id;
    core->node_changes++;
}

/* A list that node i is in, by its record: is it ours? */
static enum roll judge(struct core *core, const struct view *v)
{
    const struct view_id *newest = &state_newest(core)->id;
    struct member_list ours;
    members_configured(core, &ours);
    if (newest->epoch)            /* one that we know has become it, or not */
        return !strcmp(newest->cluster, v->id.cluster) && v->id.epoch > newest->epoch
                   ? ROLL_OURS : ROLL_OTHERS;
    if (same_names(&ours, &v->list) || (v->old.n && same_names(&ours, &v->old)))
        return ROLL_OURS;
    for (int k = 0; k < v->was_len; k++) {
        if (same_names(&ours, &v->was[k]))
            return ROLL_OURS;
    }
    return ROLL_OTHERS;
}

enum roll roll_of(struct core *core, int i)
{
    struct guard *g = &core->guards[i];
    const struct view_id *id = &g->is.view;
    if (!id->epoch || !core->roll.list.n) {       /* it was admitted, or we look, without */
        g->list = state_newest(core)->number;
        return ROLL_OURS;
    }
    if (view_same(id, &core->view) && !state_newest(core)->id.epoch)
        adopt(core, &core->roll, 0);
    g->list = members_number(core, id);
    if (g->list) {
        g->id = g->is.id;
        return ROLL_OURS;
    }
    if (roll_behind(core, i))
        return ROLL_BEHIND;
    return view_same(id, &g->read) ? ROLL_OTHERS : ROLL_UNKNOWN;
}

int roll_behind(const struct core *core, int i)
{
    const struct view_id *is = &core->guards[i].is.view, *newest = &state_newest(core)->id;
    return is->epoch && is->epoch < newest->epoch && !strcmp(is->cluster, newest->cluster);
}

void roll_forward(const struct core *core, int i, struct marker *m)
{
    const struct list *newest = state_newest(core);
    m->view = newest->id;
    if (!(quorum_voters(&newest->voters) & bit(i)))
        m->state = MARKER_RETIRED;
}

int roll_settles(struct core *core)
{
    uint32_t heard = 0;
    if (!core->roll.list.n || (core->named && state_newest(core)->id.epoch))
        return 1;
    for (int i = 0; i < core->n; i++) {
        const struct guard *g = &core->guards[i];
        if (!g->known || core->nodes[i].state != NODE_READY)
            continue;
        if (g->kind == MARKER_READ && roll_of(core, i) == ROLL_UNKNOWN)
            return 0;             /* its record is being read */
        heard |= bit(i);
    }
    return state_majority(core, heard);
}

void roll_told(struct core *core, int i, const char *text, size_t len)
{
    struct view v;
    struct guard *g = &core->guards[i];
    if (g->kind != MARKER_READ || !core->roll.list.n || roll_of(core, i) != ROLL_UNKNOWN)
        return;
    int parsed = text && view_parse(text, len, &v) == 0;
    if (parsed && g->torn < MOST_TORN && v.id.epoch != g->is.view.epoch &&
        !strcmp(v.id.cluster, g->is.view.cluster)) {
        g->torn++;                /* it changed between the two answers */
        return;
    }
    g->torn = 0;
    g->read = g->is.view;
    if (!parsed || !view_same(&v.id, &g->is.view)) {
        name_both(core, i, NULL);
        return;
    }
    int as_many = !state_newest(core)->id.epoch && !v.old.n &&
                  v.list.n == __builtin_popcount(core->listed);
    enum roll roll = judge(core, &v);
    if (roll == ROLL_OTHERS && !as_many) {
        name_both(core, i, &v);
        return;
    }
    struct member_list ours;
    members_configured(core, &ours);
    if (roll == ROLL_OURS && !v.old.n && !same_names(&ours, &v.list))
        note_stale(core, &ours, &v);
    if (keep(core, text, len) == 0)
        adopt(core, &core->roll, roll == ROLL_OTHERS);
}

int roll_strange(const struct core *core, int i)
{
    const char *label = core->nodes[i].config->label;
    return core->roll.list.n && !core->named && state_newest(core)->id.epoch && label &&
           !core->guards[i].id && !view_by_label(&core->roll.list, label);
}

int roll_refuses(struct core *core, int i)
{
    for (int k = 0; k < core->n; k++) {
        const char *label = core->nodes[k].config->label;
        if (k == i || !(core->listed & bit(k)) || !label ||
            !view_by_label(&core->roll.list, label))
            continue;
        name_both(core, k, &core->roll);
        return 1;
    }
    return 0;
}

struct view_id roll_view(struct core *core, int i, int64_t *id)
{
    const char *label = core->nodes[i].config->label;
    *id = core->guards[i].id;
    if (core->roll.list.n && !*id && label) {
        const struct member *m = view_by_label(&core->roll.list, label);
        *id = m ? m->id : 0;
    }
    if (core->roll.list.n && !state_newest(core)->id.epoch)
        adopt(core, &core->roll, 0);
    return core->view;
}
