/*
 * cut N PROGRAM ARG...
 *
 * Runs PROGRAM, and kills it and all that it started at its N-th point: just before it creates,
 * truncates, writes, syncs, renames or deletes a file, or as a program starts. Exits with 99 then.
 * -N kills only the process that came there. Exits with 98 when there are fewer points and
 * PROGRAM has succeeded, else with PROGRAM's status.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CUT = 99, TOO_FEW = 98, OPTIONS = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK
    | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL };

static int is_file(pid_t pid, int fd)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The calls that may be points; no other one stops a process, as there are thousands of those. */
static const int CALLS[] = {
#ifdef SYS_rename
    SYS_rename, SYS_unlink, SYS_creat, SYS_open,
#endif
    SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_ftruncate, SYS_openat, SYS_write, SYS_writev,
    SYS_pwrite64, SYS_fsync, SYS_fdatasync,
};

static int stop_at_calls(void)
{
    enum { N = sizeof(CALLS) / sizeof(CALLS[0]) };
    struct sock_filter code[N + 3] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
    struct sock_fprog program = { N + 3, code };
    for (int i = 0; i < N; i++)
        code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[i], N - i, 0);
    code[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int is_point(pid_t pid)
{
    struct __ptrace_syscall_info call;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(call), &call) <= 0
            || call.op != PTRACE_SYSCALL_INFO_SECCOMP)
        return 0;
    switch (call.seccomp.nr) {
#ifdef SYS_rename
    case SYS_open:
        return (call.seccomp.args[1] & (O_CREAT | O_TRUNC)) != 0;
#endif
    case SYS_openat:
        return (call.seccomp.args[2] & (O_CREAT | O_TRUNC)) != 0;
    case SYS_write: case SYS_writev: case SYS_pwrite64: case SYS_fsync: case SYS_fdatasync:
        return is_file(pid, (int)call.seccomp.args[0]);
    default:
        return 1;
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
        if (stop_at_calls())
            execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status, result = 0;
    waitpid(first, &status, 0);
    if (ptrace(PTRACE_SETOPTIONS, first, 0, OPTIONS) != 0)
        return 2;
    ptrace(PTRACE_CONT, first, 0, 0);
    while ((pid = waitpid(-1, &status, __WALL)) > 0) {
        if (!WIFSTOPPED(status)) {
            if (pid == first)
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int signo = WSTOPSIG(status);
        int here = status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)
            || (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8) && is_point(pid));
        if (here && ++points == labs(n)) {
            if (n > 0)
                return CUT;                 /* PTRACE_O_EXITKILL kills the rest */
            kill(pid, SIGKILL);
        }
        if (signo == SIGTRAP || signo == SIGSTOP)
            signo = 0;
        ptrace(PTRACE_CONT, pid, 0, signo);
    }
    return points < labs(n) && result == 0 ? TOO_FEW : result;
}
