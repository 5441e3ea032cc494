/* A wall clock of its own for the processes that preload this: the machine's, plus the seconds in
   the file of SET_CLOCK_FILE (an int64). The monotonic clock stays. libfaketime cannot do it: its
   semaphore belongs to one user, and Slurm's processes change theirs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none = 0;
static const volatile int64_t *offset_s = &none;
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SET_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *found = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED)
        offset_s = found;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    if (!real_clock_gettime)
        real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real_clock_gettime(clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += *offset_s;
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

/* The kernel waits by its own clock. A clock attribute of the condition is not looked at: Slurm and
   munge set none, and a monotonic time is far below the limit. */
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    struct timespec real = *until;
    if (!real_cond_timedwait)
        real_cond_timedwait = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))
            dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    if (real.tv_sec > 1000000000)
        real.tv_sec -= *offset_s;
    return real_cond_timedwait(cond, mutex, &real);
}
