/* A library as others write them: it asks the C library for everything that a run has to answer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int64_t ns_of(struct timespec at) { return at.tv_sec * 1000000000LL + at.tv_nsec; }

int64_t planted_clock(int id) {
    struct timespec at;
    return clock_gettime(id, &at) ? -1 : ns_of(at);
}

int64_t planted_time(void) { return time(NULL); }

int planted_sleep(int us) { return usleep(us); }

/* Waits for a condition that nobody signals; returns by how much the clock has moved on. */
int64_t planted_wait(int clock, int ms) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_t how;
    pthread_cond_t cond;
    struct timespec at;
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, clock);
    pthread_cond_init(&cond, &how);
    clock_gettime(clock, &at);
    int64_t began = ns_of(at), until = began + ms * 1000000LL;
    at.tv_sec = until / 1000000000LL;
    at.tv_nsec = until % 1000000000LL;
    pthread_mutex_lock(&mutex);
    int result = pthread_cond_timedwait(&cond, &mutex, &at);
    pthread_mutex_unlock(&mutex);
    return result == ETIMEDOUT ? planted_clock(clock) - began : -1;
}

/* Looks at the clock until so much time has passed. */
int planted_spin(int ms) {
    int64_t began = planted_clock(CLOCK_MONOTONIC), looks = 0;
    while (planted_clock(CLOCK_MONOTONIC) - began < ms * 1000000LL) looks++;
    return looks > 0;
}

uint64_t planted_random(int how) {
    uint64_t value = 0;
    int fd = -1;
    if (how == 0 && getrandom(&value, sizeof value, 0) != sizeof value) return 0;
    if (how == 1 && getentropy(&value, sizeof value)) return 0;
    if (how == 2 && syscall(SYS_getrandom, &value, sizeof value, 0) != sizeof value) return 0;
    if (how == 3 && ((fd = open("/dev/urandom", O_RDONLY)) < 0 ||
                     read(fd, &value, sizeof value) != sizeof value))
        return 0;
    if (fd >= 0) close(fd);
    return value;
}

static void *nothing(void *given) { return given; }

/* Each is a way out; returns an errno. */
int planted_escape(const char *how, const char *path) {
    errno = 0;
    if (!strcmp(how, "socket")) close(socket(AF_INET, SOCK_STREAM, 0));
    if (!strcmp(how, "SYS_socket")) close(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
    if (!strcmp(how, "open")) close(open(path, O_WRONLY | O_CREAT, 0600));
    if (!strcmp(how, "fopen")) {
        FILE *file = fopen(path, "w");
        if (file) fclose(file);
    }
    if (!strcmp(how, "mkdir")) mkdir(path, 0700);
    if (!strcmp(how, "system")) system("true");
    if (!strcmp(how, "fork") && !fork()) _exit(0);
    if (!strcmp(how, "pthread_create")) {
        pthread_t thread;
        if (!pthread_create(&thread, NULL, nothing, NULL)) pthread_join(thread, NULL);
    }
    return errno;
}

/* Waits for a thread of its own that never ends, as a client of a dead server does. */
static void *forever(void *given) {
    for (;;) pause();
    return given;
}

void planted_hang(void) {
    pthread_t thread;
    if (!pthread_create(&thread, NULL, forever, NULL)) pthread_join(thread, NULL);
}

/* Writes to a file that Python has opened, and reads it back. Returns the line that fails, or 0. */
#define WANT(condition)                                                                            \
    if (!(condition)) return __LINE__

int planted_file(int fd) {
    char got[16] = {0};
    struct stat found;
    struct iovec parts[2] = {{"", 0}, {"-two", 4}};
    WANT(write(fd, "one", 3) == 3);
    WANT(writev(fd, parts, 2) == 4);
    WANT(lseek(fd, 0, SEEK_CUR) == 7);
    WANT(pwrite(fd, "O", 1, 0) == 1);
    WANT(pread(fd, got, 3, 0) == 3 && !strcmp(got, "One"));
    WANT(!fstat(fd, &found) && found.st_size == 7 && S_ISREG(found.st_mode));
    WANT(!fsync(fd) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
    int other = dup(fd);
    WANT(other >= 0 && other != fd && !lseek(other, 0, SEEK_SET));
    FILE *file = fdopen(other, "r+");
    WANT(file && fgets(got, sizeof got, file) && !strcmp(got, "One-two"));
    WANT(!fseek(file, 0, SEEK_END) && ftell(file) == 7);
    WANT(fputs("-three", file) >= 0 && !fclose(file));
    WANT(lseek(other, 0, SEEK_SET) == -1 && errno == EBADF);
    WANT(!ftruncate(fd, 12));
    return 0;
}

/* A pool of one thread, as libraries keep them: work is handed to it, and waited for. */
static pthread_mutex_t pool = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_work = PTHREAD_COND_INITIALIZER, is_done = PTHREAD_COND_INITIALIZER;
static int asked, done;

static void *serve(void *given) {
    pthread_mutex_lock(&pool);
    for (;;) {
        while (done == asked) pthread_cond_wait(&has_work, &pool);
        done = asked;
        pthread_cond_signal(&is_done);
    }
    return given;
}

int planted_pool(void) {
    static pthread_t thread;
    pthread_mutex_lock(&pool);
    if (!thread) pthread_create(&thread, NULL, serve, NULL);
    int mine = ++asked;
    pthread_cond_signal(&has_work);
    while (done < mine) pthread_cond_wait(&is_done, &pool);
    pthread_mutex_unlock(&pool);
    return mine;
}

/* A pool that grows by itself, when work is there: its thread starts another one. */
static volatile int wanted, grown;

static void *grow(void *given) {
    for (;;) {
        pthread_t thread;
        while (wanted == grown) sched_yield();
        if (!pthread_create(&thread, NULL, nothing, NULL)) pthread_join(thread, NULL);
        grown = wanted;
    }
    return given;
}

int planted_growing(void) {
    static pthread_t thread;
    if (!thread) pthread_create(&thread, NULL, grow, NULL);
    wanted++;
    while (grown != wanted) sched_yield();
    pthread_cond_signal(&has_work);
    return grown;
}

/* Looks a function up once, and keeps it, as Rust does. */
ssize_t (*planted_kept)(void *, size_t, unsigned);

uint64_t planted_looked_up(void) {
    uint64_t value = 0;
    if (!planted_kept) *(void **)&planted_kept = dlsym(RTLD_DEFAULT, "getrandom");
    planted_kept(&value, sizeof value, 0);
    return value;
}

/* Asks for the time again and again, whatever the answer. */
void planted_ask(time_t (*function)(time_t *), int times) {
    while (times--) function(NULL);
}
