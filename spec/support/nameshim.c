/* nameshim.c - preload: the name 127.0.0.1-127.0.0.2.test has these addresses, in this order. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *restrict host, const char *restrict port,
                const struct addrinfo *restrict hints, struct addrinfo **restrict list)
{
    lookup *look = (lookup *)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *end = host ? strstr(host, ".test") : NULL;
    struct addrinfo numeric = *hints, **to = list;
    char literal[64];

    if (!end || numeric.ai_flags & AI_NUMERICHOST)
        return look(host, port, hints, list);
    numeric.ai_flags |= AI_NUMERICHOST;
    for (*to = NULL; host < end; host += strlen(literal) + 1) {
        snprintf(literal, sizeof literal, "%.*s", (int)(end - host), host);
        literal[strcspn(literal, "-")] = '\0';
        int failed = look(literal, port, &numeric, to);
        if (failed)
            return failed;
        to = &(*to)->ai_next;
    }
    return 0;
}
