/* lookup.h - looks up host names by getaddrinfo(), each in a short-lived thread. */
#ifndef LOOKUP_H
#define LOOKUP_H

struct addrinfo;
struct lookup;

/* Starts a lookup of TCP addresses, which writes to the eventfd notify at its end. NULL:
 * no memory, descriptor or thread. */
struct lookup *lookup_start(const char *host, int port, int notify);

int lookup_done(const struct lookup *l);

/* Ends a lookup that is done. The addresses, for freeaddrinfo(), or NULL and *why. */
struct addrinfo *lookup_take(struct lookup *l, const char **why);

/* Gives a lookup up; never waits for its thread. */
void lookup_abandon(struct lookup *l);

/* The address list of a literal IPv4 or IPv6 address, without a thread. NULL: a name. */
struct addrinfo *lookup_literal(const char *host, int port);

#endif
