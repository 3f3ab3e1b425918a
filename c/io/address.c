#include "io/address.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_PORT = 6379,
    NUMBERS = 96                  /* bytes: enough for all but the host or path */
};

/* ---- addresses ---- */

/* Appends len bytes; %XX for a space, a percent sign, or a byte that is not printable. */
static char *put_escaped(char *to, const char *text, size_t len)
{
    for (size_t k = 0; k < len; k++) {
        unsigned char c = (unsigned char)text[k];
        to += c <= ' ' || c > '~' || c == '%' ? sprintf(to, "%%%02X", c)
                                              : sprintf(to, "%c", c);
    }
    return to;
}

static char *put_name(char *to, const char *host)
{
    size_t len = strlen(host);
    char *end = put_escaped(to, host, len > 1 && host[len - 1] == '.' ? len - 1 : len);
    for (; to < end; to++) {
        if (*to >= 'A' && *to <= 'Z')
            *to = (char)(*to - 'A' + 'a');
    }
    return end;
}

static char *put_host(char *to, const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    char text[INET6_ADDRSTRLEN];
    int is_v4 = inet_pton(AF_INET, host, &v4) == 1;
    int is_v6 = !is_v4 && inet_pton(AF_INET6, host, &v6) == 1;
    if (is_v6 && IN6_IS_ADDR_V4MAPPED(&v6)) {
        memcpy(&v4, &v6.s6_addr[12], sizeof(v4));
        is_v4 = 1;
    }
    if (is_v4)
        return to + sprintf(to, "%s", inet_ntop(AF_INET, &v4, text, sizeof(text)));
    if (is_v6)
        return to + sprintf(to, "[%s]", inet_ntop(AF_INET6, &v6, text, sizeof(text)));
    return put_name(to, host);
}

/* Writes the address of a server and a 0. Returns where the 0 ends. */
static char *put_address(char *to, const rl_node_options *node)
{
    if (node->path) {
        to += sprintf(to, "unix:");
        to = put_escaped(to, node->path, strlen(node->path));
    } else {
        to = put_host(to, node->host ? node->host : "");
        to += sprintf(to, ":%" PRId32, node->port ? node->port : DEFAULT_PORT);
    }
    if (node->db)
        to += sprintf(to, node->path ? "?db=%" PRId32 : "/%" PRId32, node->db);
    return to + 1;
}

/* ---- lists ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char *address_list(const rl_node_options *nodes, int n)
{
    const char *address[RL_MAX_NODES];
    size_t room = 1;
    for (int i = 0; i < n; i++) {
        const char *name = nodes[i].path ? nodes[i].path : nodes[i].host;
        room += NUMBERS + 3 * (name ? strlen(name) : 0);
    }
    char *texts = malloc(room), *list = malloc(room), *to = texts;
    if (texts && list) {
        for (int i = 0; i < n; i++) {
            address[i] = to;
            to = put_address(to, &nodes[i]);
        }
        qsort(address, (size_t)n, sizeof(address[0]), by_text);
        to = list;
        *to = '\0';
        for (int i = 0; i < n; i++)
            to += sprintf(to, "%s%s", i ? " " : "", address[i]);
    } else {
        free(list);
        list = NULL;
    }
    free(texts);
    return list;
}
