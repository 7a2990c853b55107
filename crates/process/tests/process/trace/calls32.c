/* 32-bit system calls: their arguments must lie below 4 GiB. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

static char *memory;

static int call(int number, long a, long b, long c, long d) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result)
                     : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d) : "memory");
    return result;
}

static long text(const char *value) {
    char *at = memory;
    strcpy(at, value);
    memory += strlen(value) + 1;
    return (long)at;
}

int main(void) {
    memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    int ok = call(5, text("made32"), 0102, 0600, 0) >= 0;       /* open */
    ok &= call(295, -100, text("old"), 1, 0) >= 0;              /* openat */
    ok &= call(39, text("dir32"), 0700, 0, 0) == 0;             /* mkdir */
    ok &= call(302, -100, text("made32"), -100, text("dir32/moved")) == 0; /* renameat */
    int fd = call(359, 1, 1, 0, 0);                             /* socket(AF_UNIX, SOCK_STREAM) */
    memory = (char *)(((long)memory + 15) & ~15L);
    unsigned short *address = (unsigned short *)memory;
    address[0] = 1;
    strcpy((char *)(address + 1), "dir32/sock");
    unsigned *arguments = (unsigned *)(memory + 128);
    arguments[0] = fd;
    arguments[1] = (unsigned)(long)address;
    arguments[2] = 2 + sizeof "dir32/sock";
    memory += 256;
    ok &= call(102, 2, (long)arguments, 0, 0) == 0;             /* socketcall(bind) */
    ok &= call(10, text("dir32/moved"), 0, 0, 0) == 0;          /* unlink */
    return !ok;
}
