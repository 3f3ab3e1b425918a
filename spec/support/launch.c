/*
 * launch PARENT DIR PROGRAM ARG...
 *
 * Runs PROGRAM in DIR such that it dies with the process PARENT, which
 * must be the caller, and inherits nothing but the three standard streams: also no signal
 * that is ignored, as by nohup and in the background of a script.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* As closefrom(3), which Debian 11 and musl do not have. */
static void close_all(void)
{
    enum { CLOSE_RANGE = 436 };     /* SYS_close_range, which Debian 11 has no name for */
    if (syscall(CLOSE_RANGE, 3, ~0U, 0) == 0)
        return;
    for (int fd = (int)sysconf(_SC_OPEN_MAX); fd-- > 3;)
        close(fd);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s PARENT DIR PROGRAM ARG...\n", argv[0]);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The parent may have died before the request above took effect. */
    if (getppid() != atoi(argv[1]))
        return 1;
    if (chdir(argv[2]) != 0) {
        perror(argv[2]);
        return 126;
    }
    close_all();
    for (int signo = 1; signo < NSIG; signo++)
        signal(signo, SIG_DFL);
    execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 127;
}
