#include "node/questions.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int put_time(struct node *nd, int64_t now_ms)
{
    int failed = node_request(nd, REQUEST_TIME, 1, (const char *[]){"TIME"}, NULL, now_ms);
    if (!failed) {
        nd->timing = 1;
        nd->looked_ms = now_ms;
    }
    return failed;
}

void questions_servers_answered(struct node *nd)
{
    /* Each denied command is an entry in the server's ACL log: ask only once. */
    const struct reply *reply = &nd->wire.reply;
    size_t len;
    const char *text = reply_string(reply, &len);
    nd->listing =
        reply->type == REPLY_ERROR && wire_error_code(reply->text) == RL_NOPERM ? -1 : 0;
    free(nd->servers);
    nd->servers =
        reply->type == REPLY_STRING && len < RL_SERVERS_MAX ? strndup(text, len) : NULL;
}

/* The key of the list is "...:servers" for a marker "...:marker". */
static int put_servers(struct node *nd, int64_t now_ms)
{
    char key[64];
    int len = (int)strlen(nd->config->marker) - (int)strlen("marker");
    snprintf(key, sizeof(key), "%.*sservers", len > 0 ? len : 0, nd->config->marker);
    int failed =
        node_request(nd, REQUEST_SERVERS, 2, (const char *[]){"GET", key}, NULL, now_ms);
    nd->listing = !failed;
    nd->listed_ms = now_ms;
    return failed;
}

int node_ask_servers(struct node *nd, int64_t now_ms)
{
    assert(nd->state == NODE_READY);
    return !nd->listing && put_servers(nd, now_ms) == 0;
}

int questions_put(struct node *nd, int64_t now_ms)
{
    int failed = 0;
    nd->info.denied = 0;          /* the other fields keep the last answer until the next */
    nd->info_ms = now_ms;
    for (int i = 0; info_sections[i] && !failed; i++) {
        const char *words[] = {"INFO", info_sections[i]};
        failed = node_request(nd, REQUEST_INFO, 2, words, NULL, now_ms);
    }
    if (!failed && nd->timing == 0)
        failed = put_time(nd, now_ms);
    const char *marker[] = {"GET", nd->config->marker};
    if (!failed && marker[1])
        failed = node_request(nd, REQUEST_MARKER, 2, marker, NULL, now_ms) ||
                 (!nd->listing && put_servers(nd, now_ms));
    return failed ? -1 : 0;
}

int node_look_at_life(struct node *nd, int64_t now_ms)
{
    assert(nd->state == NODE_READY);
    const char *words[] = {"INFO", "replication"};
    if (nd->looking || node_request(nd, REQUEST_INFO, 2, words, NULL, now_ms))
        return 0;
    nd->looking = 1;
    nd->life_ms = now_ms;
    return 1;
}

/* Without the guard: somebody else may use the server with it now. */
static int look_for_marker(struct node *nd, int64_t now_ms)
{
    const char *words[] = {"GET", nd->config->marker};
    return words[1] && !node_request(nd, REQUEST_MARKER, 2, words, NULL, now_ms);
}

int node_look(struct node *nd, int64_t now_ms)
{
    assert(nd->state == NODE_READY);
    if (now_ms - nd->looked_ms < NODE_LOOK_MS || nd->timing > 0 || nd->looking)
        return 0;
    int asked = nd->config->guarded ? !nd->info.denied && node_look_at_life(nd, now_ms)
                                    : look_for_marker(nd, now_ms);
    if (asked)
        nd->looked_ms = now_ms;
    return (nd->timing == 0 && put_time(nd, now_ms) == 0) || asked;
}
