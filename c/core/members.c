/* members.c - the lists of servers that a client goes by, as it learns them. */
#include "core/members.h"

#include <string.h>

static const char *label_of(const struct core *core, int i)
{
    const char *label = core->nodes[i].config->label;
    return core->listed & bit(i) && label ? label : "";
}

int members_place(const struct core *core, const struct member *member)
{
    for (int i = 0; i < core->n; i++) {
        const char *label = label_of(core, i);
        if (strlen(label) == member->len && !memcmp(label, member->label, member->len))
            return i;
    }
    return -1;
}

void members_configured(const struct core *core, struct member_list *list)
{
    memset(list, 0, sizeof(*list));
    for (int i = 0; i < core->n; i++) {
        const char *label = label_of(core, i);
        if (label[0])
            list->at[list->n++] = (struct member){0, label, strlen(label)};
    }
}

unsigned members_number(const struct core *core, const struct view_id *id)
{
    for (int k = 0; k < core->lists_len; k++) {
        if (view_same(&core->lists[k].id, id))
            return core->lists[k].number;
    }
    return 0;
}

/* The member's place, which is made if there is room. -1: none. */
static int give_place(struct core *core, const struct member *member)
{
    int place = members_place(core, member);
    for (int i = 0; place < 0 && core->join && i < core->n; i++) {
        if ((core->listed | core->leaving) & bit(i))
            continue;
        if (core->join(core, i, member->label, member->len))
            return -1;
        core->listed |= bit(i);
        core->node_changes++;
        return i;
    }
    return place;
}

/* 0, or -1: a member got no place. */
static int give_places(struct core *core, const struct member_list *list, uint32_t *nodes)
{
    *nodes = 0;
    for (int k = 0; k < list->n; k++) {
        int i = give_place(core, &list->at[k]);
        if (i < 0)
            return -1;
        *nodes |= bit(i);
    }
    return 0;
}

unsigned members_adopt(struct core *core, const struct view *view)
{
    const struct list *newest = state_newest(core);
    struct voters voters;
    int between = view->old.n > 0;
    if (members_number(core, &view->id))
        return members_number(core, &view->id);
    if (view->id.epoch < newest->id.epoch)
        return 0;
    uint32_t before = core->listed;
    if (give_places(core, &view->list, &voters.now) < 0 ||
        (between && give_places(core, &view->old, &voters.old) < 0)) {
        core->leaving |= core->listed & ~before;
        return 0;
    }
    if (!between)
        voters.old = voters.now;
    state_add_list(core, &view->id, &voters, !between || !newest->id.epoch);
    core->leaving |= core->listed & ~state_voters(core);
    core->refusing &= ~core->leaving;
    core->node_changes++;
    return core->lists_number;
}

int members_again(const struct core *core, int i)
{
    const struct list *newest = state_newest(core);
    return core->named && newest->voters.now & bit(i) &&
           core->guards[i].is.view.epoch < newest->id.epoch;
}

uint32_t members_leaving(struct core *core)
{
    uint32_t nodes = core->leaving;
    core->listed &= ~nodes;
    core->leaving = 0;
    return nodes;
}
