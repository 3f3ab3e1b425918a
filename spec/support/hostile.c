/*
 * hostile PORT GREETING REPLY REPEAT DRIP CLOSE
 *
 * A server that says what it was told to, well-formed or not.  GREETING and
 * REPLY are files, or "-" for none: the first is sent to every new client,
 * the second, REPEAT times, to a client that has sent something.  A DRIP
 * above 0 sends the reply one byte every DRIP milliseconds.  Having said it
 * all, the server closes the connection if CLOSE is 1, else stays silent.
 * Each line on stdin is answered by "ok <number of accepted connections>".
 */
#include "net.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct text {
    char *data; /* NULL for none */
    size_t len;
};

struct script {
    struct text greeting, reply;
    long repeat, drip;
    int close;
};

static struct text load(const char *path)
{
    struct text text = {0};

    if (strcmp(path, "-") == 0)
        return text;
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        die(path);
    text.len = (size_t)ftell(file);
    text.data = malloc(text.len + 1);
    rewind(file);
    if (!text.data || fread(text.data, 1, text.len, file) != text.len)
        die(path);
    fclose(file);
    return text;
}

static void say(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0)
            exit(0);
        data += n;
        len -= (size_t)n;
    }
}

static void reply(int fd, const struct script *script)
{
    const struct text *text = &script->reply;
    struct timespec pause = {script->drip / 1000, script->drip % 1000 * 1000000};

    for (long i = 0; i < script->repeat; i++) {
        if (script->drip == 0)
            say(fd, text->data, text->len);
        for (size_t at = 0; script->drip > 0 && at < text->len; at++) {
            nanosleep(&pause, NULL);
            say(fd, text->data + at, 1);
        }
    }
}

static void serve(int fd, const struct script *script)
{
    char buf[65536];

    say(fd, script->greeting.data, script->greeting.len);
    if (script->reply.data && recv(fd, buf, sizeof buf, 0) > 0)
        reply(fd, script);
    while (!script->close && recv(fd, buf, sizeof buf, 0) > 0)
        ;
    exit(0);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: %s PORT GREETING REPLY REPEAT DRIP CLOSE\n", argv[0]);
        return 2;
    }
    struct script script = {load(argv[2]), load(argv[3]), atol(argv[4]),
                            atol(argv[5]), atoi(argv[6])};
    struct pollfd fds[2] = {{.fd = 0, .events = POLLIN},
                            {.fd = listen_on(atoi(argv[1]), 0), .events = POLLIN}};
    long accepted = 0;
    char line[64];

    signal(SIGCHLD, SIG_IGN);
    puts("ok 0");
    while (fflush(stdout) == 0 && poll(fds, 2, -1) > 0) {
        if (fds[1].revents) {
            int fd = accept(fds[1].fd, NULL, NULL);
            accepted++;
            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                close(0);
                close(1);
                close(fds[1].fd);
                serve(fd, &script);
            }
            close(fd);
        }
        if (fds[0].revents) {
            if (!fgets(line, sizeof line, stdin))
                return 0;
            printf("ok %ld\n", accepted);
        }
    }
    return 0;
}
