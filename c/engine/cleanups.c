/* cleanups.c - notes which requests have ended: nginx calls a handler for each. */
#include "redlock.h"

#include <stdlib.h>

#include "core/leases/lease.h"
#include "engine/client.h"
#include "engine/mailbox.h"

struct cleanup {
    int32_t holds;                /* the program's count: see rl_cleanups_add() */
    struct cleanup *next;
    struct rl_cleanups *list;
    uintptr_t number;
};

struct rl_cleanups {
    struct cleanup *done;         /* ended, and not taken yet */
    int64_t added;                /* how many have not ended yet */
    int open;
    rl_mailbox *mailbox;
};

rl_cleanups *rl_cleanups_open(rl_mailbox *mailbox)
{
    struct rl_cleanups *list = calloc(1, sizeof(*list));
    if (list) {
        list->open = 1;
        list->mailbox = mailbox;
    }
    return list;
}

static void free_if_over(struct rl_cleanups *list)
{
    if (!list->open && !list->added)
        free(list);
}

void rl_cleanups_close(rl_cleanups *list)
{
    while (rl_cleanups_take(list)) {
    }
    list->open = 0;
    free_if_over(list);
}

int32_t *rl_cleanups_add(rl_cleanups *list, uintptr_t number)
{
    struct cleanup *cleanup = malloc(sizeof(*cleanup));
    if (!cleanup)
        return NULL;
    *cleanup = (struct cleanup){.list = list, .number = number};
    list->added++;
    return &cleanup->holds;
}

void rl_cleanups_own(const int32_t *added, rl_lease *lease)
{
    lease->request = added;
}

void rl_cleanup_done(void *added)
{
    struct cleanup *cleanup = added;
    struct rl_cleanups *list = cleanup->list;
    list->added--;
    if (list->open) {
        cleanup->next = list->done;
        list->done = cleanup;
        if (cleanup->holds && list->mailbox) {
            if (!mailbox_is_heard(list->mailbox))
                clients_orphan(&cleanup->holds);
            rl_mailbox_ring(list->mailbox);
        }
    } else {
        free(cleanup);
        free_if_over(list);
    }
}

uintptr_t rl_cleanups_take(rl_cleanups *list)
{
    struct cleanup *cleanup = list->done;
    if (!cleanup)
        return 0;
    uintptr_t number = cleanup->number;
    list->done = cleanup->next;
    free(cleanup);
    return number;
}
