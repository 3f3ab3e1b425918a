/* What the servers made for the specs have in common. */
#ifndef SPEC_SUPPORT_NET_H
#define SPEC_SUPPORT_NET_H

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static inline void die(const char *what)
{
    perror(what);
    exit(1);
}

static inline struct sockaddr_in loopback(int port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

static inline int listen_on(int port, int flags)
{
    struct sockaddr_in addr = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | flags, 0), one = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&addr, sizeof addr) != 0 || listen(fd, 1024) != 0)
        die("listen");
    return fd;
}

#endif
