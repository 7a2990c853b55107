/* Threads that make a directory and names in it at the same moment. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_barrier_t barrier;

static void *run(void *argument) {
    long thread = (long)argument;
    char path[64], other[64];
    for (int i = 0; i < 150; i++) {
        pthread_barrier_wait(&barrier);
        switch (thread) {
        case 0:
            snprintf(path, sizeof path, "d%d", i);
            mkdir(path, 0700);
            snprintf(path, sizeof path, "d%d/z", i);
            mkdir(path, 0700);
            break;
        case 1:
            snprintf(path, sizeof path, "d%d/x", i);
            for (int try = 0; try < 2; try++) {
                int fd = open(path, O_CREAT | O_WRONLY, 0600);
                if (fd >= 0) close(fd);
            }
            snprintf(path, sizeof path, "d%d/z/x", i);
            mkdir(path, 0700);
            break;
        default:
            snprintf(path, sizeof path, "d%d/x", i);
            snprintf(other, sizeof other, "d%d/y", i);
            rename(path, other);
        }
    }
    return 0;
}

int main(void) {
    pthread_t threads[3];
    pthread_barrier_init(&barrier, 0, 3);
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, run, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return 0;
}
