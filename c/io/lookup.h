/* lookup.h - what may hang before a connection: looks its host name up by getaddrinfo(),
 * and reads its files, which may lie on a disk that does not answer. Each lookup has a
 * short-lived thread. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include "redlock.h"

struct addrinfo;
struct net_address;

enum { PASSWORD_FILE, CA_FILE, CERT_FILE, KEY_FILE, LOOKUP_FILES };

extern const char *const lookup_names[];      /* of the files */

enum {
    LOOKUP_NAME = -1,
    LOOKUP_DONE = LOOKUP_FILES,
    PASSWORD_MAX = 8192           /* cloud tokens have about 2000 bytes */
};

/* Shared by the thread and its client; the last of the two frees it. */
struct lookup {
    _Atomic int refs;
    _Atomic int at;               /* LOOKUP_NAME, the number of a file, or LOOKUP_DONE */
    _Atomic int notify;           /* a duplicate: the client may close its own; -1: none */
    char port[8];
    char *host;                   /* NULL: no name to look up */
    char *file[LOOKUP_FILES];     /* or NULL */
    /* When it is done: */
    int code;                     /* RL_OK, RL_DNS, RL_AUTH (the password file), RL_TLS ... */
    char why[RL_TEXT_MAX];        /* ... and its text */
    struct addrinfo *list;        /* the addresses of the name, for freeaddrinfo() */
    char password[PASSWORD_MAX + 2];
    char *text[LOOKUP_FILES];     /* of the files of TLS */
};

/* Starts to look up the name, if `named`, and then to read the files: of the password file
 * the first line. Writes to the eventfd notify whenever `at` changes. NULL: no
 * memory, descriptor or thread. */
struct lookup *lookup_start(const struct net_address *a, int named, int notify);

/* The text of file k of TLS, for secret_free(). NULL, with a text in why: cannot be read. */
char *lookup_read(int k, const char *path, char *why, size_t size);

/* Gives a lookup up, done or not; never waits for its thread. */
void lookup_abandon(struct lookup *l);

/* The address list of a literal IPv4 or IPv6 address, without a thread. NULL: a name. */
struct addrinfo *lookup_literal(const char *host, int port);

#endif
