/* roll_fixture.h - servers with names, and the lists that they are in. */
#ifndef ROLL_FIXTURE_H
#define ROLL_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "core/roll.h"
#include "guard_fixture.h"

/* The same servers, by these names. */
static inline struct sim *named(const char *const *names, int n)
{
    struct sim *s = sim_new(n);
    for (int i = 0; i < n; i++) {
        s->config[i].label = strdup(names[i]);
        s->server[i].clockless = 0;
    }
    sim_guard(s, MAX_LEASE_MS);
    return s;
}

static inline void finish(struct sim *s)
{
    char *labels[RL_MAX_NODES];
    int n = s->n;
    for (int i = 0; i < n; i++)
        labels[i] = s->config[i].label;
    sim_advance(s, 2000);
    sim_finish(s);
    for (int i = 0; i < n; i++)
        free(labels[i]);
}

/* All of them are in that list, as its members 1, 2, 3. */
static inline void put_into(struct sim *s, const struct view *view)
{
    char record[VIEW_MAX];
    REQUIRE(view_write(view, record) > 0);
    for (int i = 0; i < s->n; i++) {
        struct marker m = sim_marker(s, i, MAX_LEASE_MS);
        m.view = view->id;
        m.id = i + 1;
        sim_set_marker(s, i, &m);
        strcpy(s->server[i].record, record);
    }
}

static inline struct view list_of(const char *const *names, int n, int64_t epoch)
{
    struct view v = {.id.epoch = epoch};
    memcpy(v.id.cluster, "c1d2e3f4", VIEW_HEX);
    for (int k = 0; k < n; k++)
        v.list.at[k] = (struct member){k + 1, names[k], strlen(names[k])};
    v.list.n = n;
    REQUIRE(view_sign(&v) == 0);
    return v;
}

static const char *const ABC[] = {"a", "b", "c"}, *const CAB[] = {"c", "a", "b"},
                 *const DBC[] = {"d", "b", "c"}, *const XYZ[] = {"x", "y", "z"};

/* What an attempt comes to; the first one only waits for connections. */
static inline int tries(struct sim *s)
{
    try(s, "j");
    return try(s, "k");
}

#endif
