/* resolve.h - host names by getaddrinfo() in a short-lived thread of their own. */
#ifndef RESOLVE_H
#define RESOLVE_H

struct addrinfo;
struct lookup;

/* Starts a lookup of TCP addresses; writes to the eventfd notify when it is done. NULL:
 * no memory or no thread. */
struct lookup *lookup_start(const char *host, int port, int notify);

/* True when the answer is there. */
int lookup_done(const struct lookup *l);

/* The addresses, for freeaddrinfo(), or NULL with *why set. Ends the lookup. */
struct addrinfo *lookup_take(struct lookup *l, const char **why);

/* Nobody wants the answer any more; never waits for the thread. */
void lookup_abandon(struct lookup *l);

/* The addresses of a literal IPv4 or IPv6 address, without a thread; NULL: it is a
 * name. */
struct addrinfo *lookup_literal(const char *host, int port);

#endif
