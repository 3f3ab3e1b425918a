/* address.h - where a server is, as the label of a node says. */
#ifndef ADDRESS_H
#define ADDRESS_H

#include <stddef.h>

struct address {
    char *host;                   /* NULL with path */
    char *path;                   /* unix socket; NULL with host */
    int port, db, tls;
};

/* Reads what lua/redlock/api/uri.lua writes: redis://host:port/db, rediss://[::1]:port,
 * unix:///path?db=1, with %-escapes. 0; or -1: it is none, or out of memory. */
int address_read(struct address *address, const char *label, size_t len);

#endif
