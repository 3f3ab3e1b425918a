/* test_cleanups.c - what a program cleaned up is told once, and nothing of it is left. */
#include "engine/client.h"
#include "engine/mailbox.h"
#include "redlock.h"

#include "test.h"

void rl_mailbox_ring(rl_mailbox *mailbox)
{
    CHECK(!mailbox);
}

int mailbox_is_heard(struct rl_mailbox *mailbox)
{
    CHECK(!mailbox);
    return 0;
}

void clients_orphan(const int32_t *request)
{
    CHECK(!request);
}

static void are_taken_once(void)
{
    rl_cleanups *list = rl_cleanups_open(NULL);
    REQUIRE(list != NULL);
    CHECK_INT(rl_cleanups_take(list), 0);
    void *a = rl_cleanups_add(list, 7), *b = rl_cleanups_add(list, 8);
    void *c = rl_cleanups_add(list, 7);
    REQUIRE(a && b && c);
    CHECK_INT(rl_cleanups_take(list), 0);
    rl_cleanup_done(b);
    CHECK_INT(rl_cleanups_take(list), 8);
    CHECK_INT(rl_cleanups_take(list), 0);
    rl_cleanup_done(a);
    rl_cleanup_done(c);
    CHECK_INT(rl_cleanups_take(list), 7);
    CHECK_INT(rl_cleanups_take(list), 7);
    CHECK_INT(rl_cleanups_take(list), 0);
    rl_cleanups_close(list);
}

/* Valgrind and the sanitizers see what is left, or touched too late. */
static void outlive_their_list(void)
{
    rl_cleanups *list = rl_cleanups_open(NULL);
    REQUIRE(list != NULL);
    void *done = rl_cleanups_add(list, 1);
    void *late = rl_cleanups_add(list, 2), *last = rl_cleanups_add(list, 3);
    rl_cleanup_done(done);
    rl_cleanups_close(list);
    rl_cleanup_done(late);
    rl_cleanup_done(last);
}

SUITE(cleanups, T(are_taken_once), T(outlive_their_list));
