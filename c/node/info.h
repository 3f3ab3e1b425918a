/* info.h - what a server says of itself in INFO. Pure: text in, a record out. */
#ifndef INFO_H
#define INFO_H

#include <stddef.h>
#include <stdint.h>

#include "redlock.h"

/* The sections that are asked for; each is one command, as Redis before 7 needs it. */
extern const char *const info_sections[];       /* up to NULL */

struct info {
    int known;               /* a section was read; the rest is as in INFO */
    int denied;              /* a section was refused: no permission */
    char run_id[RL_RUN_ID_MAX];     /* "": not told */
    char version[RL_WORD_MAX];      /* "7.0.15", "valkey 8.0.1" */
    char policy[RL_WORD_MAX];       /* maxmemory_policy */
    char master_host[64];
    int master_port;
    int role;                /* RL_ROLE_* */
    char replid[RL_RUN_ID_MAX];     /* of the history of its data: new with each start, and
                                each change from replica to master; "": not told */
    int failed_over;         /* it went on with the history of another server */
    int replicas;            /* how many are connected to it */
    int cluster;             /* it runs in cluster mode */
    int sentinel;            /* it keeps no data, but watches those that do */
    int aof;                 /* appendonly is on */
    int rdb;                 /* a snapshot was made since the server started */
    int64_t uptime_s;
    int64_t maxmemory;
};

/* Takes the lines "key:value" of one section into *to, a struct info; what it does not
 * know, or is malformed, is skipped. The signature is that of a wire's taker. */
void info_read(void *to, const char *text, size_t len);

#endif
