/* info.h - what a server tells in INFO. Pure: text in, a record out. */
#ifndef INFO_H
#define INFO_H

#include <stddef.h>
#include <stdint.h>

#include "redlock.h"

/* The sections to ask for, up to NULL; each needs its own command before Redis 7. */
extern const char *const info_sections[];

struct info {
    rl_server_info server;
    int denied;              /* a section was refused: no permission */
    char replid[RL_RUN_ID_MAX];     /* master_replid, the server's life: new at each start
                                and each change from replica to master; "": not told */
    int failed_over;         /* it was promoted: master_replid2 is not all zeros */
    int replicas;            /* how many are connected to it */
    int cluster;             /* it runs in cluster mode */
    int sentinel;            /* it is a Sentinel, which keeps no data */
};

/* Reads the lines "key:value" of one section into *to; skips those that
 * are unknown or malformed. */
void info_read(struct info *to, const char *text, size_t len);

#endif
