/*
 * cut N PROGRAM ARG...
 *
 * Runs PROGRAM, and kills it and all that it started at its N-th point: just before it creates,
 * truncates, writes, syncs, renames or deletes a file, or as a program starts. Exits with 99 then.
 * -N kills only the process that came there. Exits with 98 when there are fewer points and
 * PROGRAM has succeeded, else with PROGRAM's status.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CUT = 99, TOO_FEW = 98, OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK
    | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL };

static int is_file(pid_t pid, int fd)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int is_point(pid_t pid)
{
    struct __ptrace_syscall_info call;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(call), &call) <= 0
            || call.op != PTRACE_SYSCALL_INFO_ENTRY)
        return 0;
    switch (call.entry.nr) {
#ifdef SYS_rename
    case SYS_rename: case SYS_unlink: case SYS_creat:
        return 1;
    case SYS_open:
        return (call.entry.args[1] & (O_CREAT | O_TRUNC)) != 0;
#endif
    case SYS_renameat: case SYS_renameat2: case SYS_unlinkat: case SYS_ftruncate:
        return 1;
    case SYS_openat:
        return (call.entry.args[2] & (O_CREAT | O_TRUNC)) != 0;
    case SYS_write: case SYS_writev: case SYS_pwrite64: case SYS_fsync: case SYS_fdatasync:
        return is_file(pid, (int)call.entry.args[0]);
    default:
        return 0;
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    long n = atol(argv[1]), points = 0;
    pid_t first = fork(), pid;
    if (first == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status, result = 0;
    waitpid(first, &status, 0);
    if (ptrace(PTRACE_SETOPTIONS, first, 0, OPTIONS) != 0)
        return 2;
    ptrace(PTRACE_SYSCALL, first, 0, 0);
    while ((pid = waitpid(-1, &status, __WALL)) > 0) {
        if (!WIFSTOPPED(status)) {
            if (pid == first)
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int signo = WSTOPSIG(status);
        int here = status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)
            || (signo == (SIGTRAP | 0x80) && is_point(pid));
        if (here && ++points == labs(n)) {
            if (n > 0)
                return CUT;                 /* PTRACE_O_EXITKILL kills the rest */
            kill(pid, SIGKILL);
        }
        if (signo == (SIGTRAP | 0x80) || signo == SIGTRAP || signo == SIGSTOP)
            signo = 0;
        ptrace(PTRACE_SYSCALL, pid, 0, signo);
    }
    return points < labs(n) && result == 0 ? TOO_FEW : result;
}
