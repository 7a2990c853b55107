/* A program with a filter of its own: rename fails, symlink ends the process, the rest is allowed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_symlinkat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        return 2;
    close(open("allowed", O_CREAT | O_WRONLY, 0600));
    int renamed = syscall(SYS_renameat2, AT_FDCWD, "old", AT_FDCWD, "new", 0);
    printf("rename: %d %d\n", renamed, errno == EACCES);
    fflush(stdout);
    if (fork() == 0) {
        syscall(SYS_symlinkat, "x", AT_FDCWD, "never");
        _exit(0);
    }
    int status;
    wait(&status);
    printf("killed: %d\n", WIFSIGNALED(status));
    return 0;
}
