/* Functions that stand in for those of the C library, in extension modules and what they load.
 *
 * While a session lasts, the import tables of these libraries lead here (extensions.py). A function
 * first asks whether the calling thread is one of the run in progress: two loads and a comparison.
 * If not, it calls the original. If so, Python is asked (`struct questions`), with the GIL held and
 * an exception that may be on its way put aside:
 *
 *   - clocks, sleeps and randomness are answered by the world, and so are reads and writes of a
 *     simulated descriptor, which a library gets from Python (`file.fileno()`);
 *   - what would change reality (a socket, a file opened for writing, a process) is told to the
 *     world and fails with an errno;
 *   - threads that a library starts are told to the world and started all the same, because many
 *     libraries abort the process otherwise. Such a thread gets no socket, file or process while
 *     any run is active, and a library that uses it in a later run is told to the world again;
 *   - waits with a deadline are waited for in real time, and virtual time passes if they time out.
 *
 * Tables are found with dl_iterate_phdr, in memory. Nothing here allocates while a lock of the
 * dynamic linker is held, and nothing here takes the GIL then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL
#define ELSEWHERE INT64_MIN /* the answer of a thread that lives in the real world */
#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

/* --- what Python is asked ---------------------------------------------------------------------- */

enum clock_kind { WALL, MONOTONIC, PROCESSOR };
enum matter { NETWORK, FILES, PROCESSES, THREADS, WAITING, GONE };

struct questions {
    int64_t (*now)(int kind);                                    /* ns, or ELSEWHERE */
    int (*sleep)(int64_t ns);                                    /* 0, an errno, or -1: elsewhere */
    int (*fill)(const char *library, void *buffer, size_t size); /* 0, or -1: elsewhere */
    int (*escaped)(const char *library, const char *call, int matter); /* 0, or -1: may pass */
    int64_t (*descriptor)(int call, int fd, void *data, int64_t size, int64_t at); /* or -errno */
};

static struct questions ask;
static volatile uint64_t run; /* the number of the run in progress; 0: none */
static uint64_t runs;
static __thread uint64_t mine;   /* the run that this thread takes part in */
static __thread uint64_t theirs; /* the run in which a library has started this thread */
static __thread int in_ffi;      /* ctypes is calling */

extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int);
extern void PyErr_Fetch(void **, void **, void **);
extern void PyErr_Restore(void *, void *, void *);
extern int PyThreadState_SetAsyncExc(unsigned long, void *);
extern void Py_IncRef(void *);
extern void Py_DecRef(void *);

static __thread void *thrown; /* a class of exceptions that is to be raised in the program */

struct held {
    int gil, number;
    void *type, *value, *trace;
};

static void hold(struct held *held) {
    held->number = errno;
    held->gil = PyGILState_Ensure();
    if (thrown) PyThreadState_SetAsyncExc((unsigned long)pthread_self(), NULL);
    PyErr_Fetch(&held->type, &held->value, &held->trace);
}

/* What is thrown while Python code of ours runs would be raised in that, and be lost. So it is thrown
 * behind it, and raised when the library has returned to the program. */
static void let_go(struct held *held) {
    if (thrown) PyThreadState_SetAsyncExc((unsigned long)pthread_self(), thrown);
    PyErr_Restore(held->type, held->value, held->trace);
    PyGILState_Release(held->gil);
    errno = held->number;
}

static inline int is_active(void) { return run && mine == run; }
static inline int is_tainted(void) { return run && theirs; }

static int64_t now(int kind) {
    struct held held;
    hold(&held);
    int64_t ns = ask.now(kind);
    let_go(&held);
    return ns;
}

static int pause_for(int64_t ns) {
    struct held held;
    hold(&held);
    int result = ask.sleep(ns);
    let_go(&held);
    return result;
}

/* --- the libraries of the process -------------------------------------------------------------- */

struct image {
    uintptr_t base, start, end, sealed, sealed_end, data, data_end;
    uintptr_t first, last; /* the sealed slots */
    const ElfW(Phdr) * headers;
    const ElfW(Dyn) * dynamic;
    char name[96];
    int kind, seen, looks_up, has_cached, has_hooks, is_open;
    volatile int threads; /* alive, started in a run */
    uint64_t told;        /* the run in which the use of such threads was told */
};

struct slot {
    void **where;
    void *before, *after;
    int image, sealed, applied;
};

enum image_kind { SKIPPED, LED, FOREIGN /* ctypes: only what looks up and calls */, SYSTEM, RUNTIME };

#define IMAGES_MAX 4096
static struct image images[IMAGES_MAX];
static int image_count;
static volatile int old_threads; /* of all libraries: alive, started in a run */
static struct slot *slots;
static int slot_count, slot_room;
static unsigned long long adds_seen, subs_seen;
static int patched;
static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;

struct rule {
    char how; /* d: a folder, b: how the file's name begins, p: the folder that it lies in */
    int kind;
    char text[256];
};
static struct rule rules[128];
static int rule_count;

EXPORT int foretold_rule(int how, int kind, const char *text) {
    if (rule_count == 128 || strlen(text) >= sizeof rules[0].text) return -1;
    rules[rule_count].how = (char)how;
    rules[rule_count].kind = kind;
    strcpy(rules[rule_count++].text, text);
    return 0;
}

static int kind_of(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (!*path) return SYSTEM; /* the interpreter */
    for (int i = 0; i < rule_count; i++) {
        const struct rule *rule = &rules[i];
        size_t length = strlen(rule->text);
        const char *at = rule->how == 'b' ? name : path;
        if (rule->how == 'p') {
            if ((size_t)(name - path) < length + 2) continue;
            at = name - length - 1;
            if (at[-1] != '/') continue;
        }
        if (!strncmp(at, rule->text, length)) return rule->kind;
    }
    return slash ? LED : SYSTEM; /* without a folder: the kernel's own, the vdso */
}

/* As people know it: "polars/_polars.abi3.so", from the folder of packages on. */
static void name_of(const char *path, char *name, size_t room) {
    const char *packages = strstr(path, "-packages/"), *up = packages, *shown = strrchr(path, '/');
    shown = packages ? packages + 10 : shown ? shown + 1 : path;
    while (up && (up = strstr(up, "/../"))) shown = (up += 3) + 1; /* found beside another one */
    snprintf(name, room, "%s", shown);
}

static struct image *image_at(const void *address) {
    uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < image_count; i++)
        if (images[i].seen && at >= images[i].start && at < images[i].end) return &images[i];
    return NULL;
}

/* Who has called: not the C++ runtime, which starts threads for others. */
static struct image *caller_at(const void *address) {
    struct image *found = image_at(address);
    if (found && found->kind == LED) return found;
    void *frames[24];
    int count = backtrace(frames, 24);
    for (int i = 1; i < count; i++) {
        struct image *other = image_at(frames[i]);
        if (other && other->kind == LED) return other;
    }
    return NULL;
}

static const char *library_at(const void *address) {
    struct image *found = in_ffi ? NULL : caller_at(address);
    return found ? found->name : in_ffi ? "ctypes" : "a C library";
}

#define OWN_THREADS "work on threads of its own (pthread_create)"

/* --- escapes ----------------------------------------------------------------------------------- */

/* Whether the call must not be made. */
static int is_refused(const void *from, int matter, const char *call) {
    if (is_tainted()) return 1;
    if (!is_active()) return 0;
    struct held held;
    hold(&held);
    int result = ask.escaped(library_at(from), call, matter);
    let_go(&held);
    return result == 0;
}

static int is_refused_at(const void *from, int matter, const char *call, const char *text) {
    char shown[320];
    if (!is_active() && !is_tainted()) return 0;
    snprintf(shown, sizeof shown, "%s(\"%.200s\")", call, text ? text : "");
    return is_refused(from, matter, shown);
}

/* A library hands work to threads that it has started in an earlier run. */
static void see_old_threads(const void *from) {
    if (!old_threads || !is_active()) return;
    struct image *found = image_at(from);
    if (!found || !found->threads || found->told == run) return;
    found->told = run;
    is_refused(from, THREADS, OWN_THREADS);
}

static int is_fork; /* this process began as a copy of another, without that one's threads */

/* The same before a wait without a deadline. In a copy of a process nobody may be there to end it. */
static void see_wait(const void *from) {
    see_old_threads(from);
    if (!is_fork || !is_active()) return;
    struct image *found = image_at(from);
    if (!found || found->kind != LED || found->told == run) return;
    found->told = run;
    is_refused(from, GONE, "wait");
}

/* --- clocks ------------------------------------------------------------------------------------ */

static int kind_of_clock(clockid_t id) {
    switch (id) {
    case CLOCK_REALTIME: case CLOCK_REALTIME_COARSE: case CLOCK_REALTIME_ALARM: case CLOCK_TAI:
        return WALL;
    case CLOCK_MONOTONIC: case CLOCK_MONOTONIC_RAW: case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME: case CLOCK_BOOTTIME_ALARM:
        return MONOTONIC;
    default:
        return PROCESSOR;
    }
}

static int my_clock_gettime(clockid_t id, struct timespec *result) {
    if (is_active()) {
        int kind = kind_of_clock(id);
        if (kind == PROCESSOR && clock_gettime(id, result)) return -1; /* there is no such clock */
        int64_t ns = now(kind);
        if (ns != ELSEWHERE) {
            result->tv_sec = ns / NS;
            result->tv_nsec = ns % NS;
            return 0;
        }
    }
    return clock_gettime(id, result);
}

static int my_gettimeofday(struct timeval *result, void *zone) {
    if (is_active() && result) {
        int64_t ns = now(WALL);
        if (ns != ELSEWHERE) {
            result->tv_sec = ns / NS;
            result->tv_usec = ns % NS / 1000;
            return 0;
        }
    }
    return gettimeofday(result, zone);
}

static time_t my_time(time_t *result) {
    if (is_active()) {
        int64_t ns = now(WALL);
        if (ns != ELSEWHERE) {
            if (result) *result = ns / NS;
            return ns / NS;
        }
    }
    return time(result);
}

static int my_timespec_get(struct timespec *result, int base) {
    if (is_active() && base == TIME_UTC) return my_clock_gettime(CLOCK_REALTIME, result) ? 0 : base;
    return timespec_get(result, base);
}

static clock_t my_clock(void) {
    if (is_active()) {
        int64_t ns = now(PROCESSOR);
        if (ns != ELSEWHERE) return ns / (NS / CLOCKS_PER_SEC);
    }
    return clock();
}

/* --- sleeps ------------------------------------------------------------------------------------ */

static int64_t ns_of(const struct timespec *time) { return time->tv_sec * NS + time->tv_nsec; }

static int my_clock_nanosleep(clockid_t id, int flags, const struct timespec *wanted,
                              struct timespec *left) {
    if (is_active() && wanted && wanted->tv_nsec >= 0 && wanted->tv_nsec < NS) {
        int64_t ns = ns_of(wanted), since = 0;
        if (flags & TIMER_ABSTIME) since = now(kind_of_clock(id));
        int result = since == ELSEWHERE ? -1 : pause_for(ns > since ? ns - since : 0);
        if (result >= 0) return result;
    }
    return clock_nanosleep(id, flags, wanted, left);
}

static int my_nanosleep(const struct timespec *wanted, struct timespec *left) {
    if (is_active()) {
        int result = my_clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left);
        if (result) errno = result;
        return result ? -1 : 0;
    }
    return nanosleep(wanted, left);
}

static int my_usleep(useconds_t us) {
    struct timespec wanted = {us / 1000000, us % 1000000 * 1000};
    return is_active() ? my_nanosleep(&wanted, NULL) : usleep(us);
}

static unsigned my_sleep(unsigned seconds) {
    struct timespec wanted = {seconds, 0};
    return is_active() ? (my_nanosleep(&wanted, NULL) ? seconds : 0) : sleep(seconds);
}

/* --- waits with a deadline --------------------------------------------------------------------- */

/* A deadline of the world as one of the real machine: it is as far away. Returns how far. */
static int64_t real_deadline(clockid_t id, const struct timespec *wanted, struct timespec *result) {
    int64_t since = now(kind_of_clock(id));
    if (since == ELSEWHERE) return ELSEWHERE;
    int64_t left = ns_of(wanted) > since ? ns_of(wanted) - since : 0;
    clock_gettime(id, result);
    int64_t until = ns_of(result) + left;
    result->tv_sec = until / NS;
    result->tv_nsec = until % NS;
    return left;
}

/* Which clock a condition goes by is its secret. The two are half a century apart. */
static clockid_t clock_of(const struct timespec *wanted) {
    return wanted->tv_sec > 100000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

#define TIMED_WAIT(id, wanted, call, original)                                                     \
    do {                                                                                           \
        struct timespec until;                                                                     \
        int64_t left = is_active() && wanted ? real_deadline(id, wanted, &until) : ELSEWHERE;      \
        if (left == ELSEWHERE) return original;                                                    \
        int result = call;                                                                         \
        if (result == ETIMEDOUT || (result == -1 && errno == ETIMEDOUT)) {                         \
            pause_for(left);                                                                       \
            errno = ETIMEDOUT;                                                                     \
        }                                                                                          \
        return result;                                                                             \
    } while (0)

static int my_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                     const struct timespec *wanted) {
    see_old_threads(CALLER);
    TIMED_WAIT(clock_of(wanted), wanted, pthread_cond_timedwait(cond, mutex, &until),
               pthread_cond_timedwait(cond, mutex, wanted));
}

#if __GLIBC_PREREQ(2, 30)
static int my_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id,
                                     const struct timespec *wanted) {
    see_old_threads(CALLER);
    TIMED_WAIT(id, wanted, pthread_cond_clockwait(cond, mutex, id, &until),
               pthread_cond_clockwait(cond, mutex, id, wanted));
}
#endif

static int my_sem_timedwait(sem_t *sem, const struct timespec *wanted) {
    TIMED_WAIT(CLOCK_REALTIME, wanted, sem_timedwait(sem, &until), sem_timedwait(sem, wanted));
}

static int my_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *wanted) {
    TIMED_WAIT(CLOCK_REALTIME, wanted, pthread_mutex_timedlock(mutex, &until),
               pthread_mutex_timedlock(mutex, wanted));
}

static int my_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    see_wait(CALLER);
    return pthread_cond_wait(cond, mutex);
}

static int my_pthread_cond_signal(pthread_cond_t *cond) {
    see_old_threads(CALLER);
    return pthread_cond_signal(cond);
}

static int my_pthread_cond_broadcast(pthread_cond_t *cond) {
    see_old_threads(CALLER);
    return pthread_cond_broadcast(cond);
}

/* C has names of its own for the same things. */

static int my_cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *wanted) {
    struct timespec until;
    see_old_threads(CALLER);
    int64_t left = is_active() ? real_deadline(CLOCK_REALTIME, wanted, &until) : ELSEWHERE;
    int result = cnd_timedwait(cond, mutex, left == ELSEWHERE ? wanted : &until);
    if (result == thrd_timedout && left != ELSEWHERE) pause_for(left);
    return result;
}

static int my_mtx_timedlock(mtx_t *mutex, const struct timespec *wanted) {
    struct timespec until;
    int64_t left = is_active() ? real_deadline(CLOCK_REALTIME, wanted, &until) : ELSEWHERE;
    int result = mtx_timedlock(mutex, left == ELSEWHERE ? wanted : &until);
    if (result == thrd_timedout && left != ELSEWHERE) pause_for(left);
    return result;
}

static int my_cnd_wait(cnd_t *cond, mtx_t *mutex) {
    see_wait(CALLER);
    return cnd_wait(cond, mutex);
}

static int my_cnd_signal(cnd_t *cond) {
    see_old_threads(CALLER);
    return cnd_signal(cond);
}

static int my_cnd_broadcast(cnd_t *cond) {
    see_old_threads(CALLER);
    return cnd_broadcast(cond);
}

static int my_thrd_sleep(const struct timespec *wanted, struct timespec *left) {
    return is_active() ? my_nanosleep(wanted, left) : thrd_sleep(wanted, left);
}

static long futex(const void *from, long a, long b, long c, long d, long e, long f) {
    int operation = (int)b & 127, waits = operation == 0 || operation == 9; /* WAIT, WAIT_BITSET */
    if (waits && !d) see_wait(from);
    else see_old_threads(from);
    if (is_active() && d && waits) {
        const struct timespec *wanted = (const struct timespec *)d;
        struct timespec until;
        int64_t left = ns_of(wanted);
        if (operation == 9) { /* an instant, not a length */
            left = real_deadline((int)b & 256 ? CLOCK_REALTIME : CLOCK_MONOTONIC, wanted, &until);
            if (left != ELSEWHERE) d = (long)&until;
        }
        long result = syscall(SYS_futex, a, b, c, d, e, f);
        if (result == -1 && errno == ETIMEDOUT && left != ELSEWHERE) {
            pause_for(left);
            errno = ETIMEDOUT;
        }
        return result;
    }
    return syscall(SYS_futex, a, b, c, d, e, f);
}

/* Descriptors are waited for in real time, which is told; the wait itself is harmless. */

static int my_poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    if (is_active() && timeout_ms && !count) {
        struct timespec wanted = {timeout_ms / 1000, timeout_ms % 1000 * 1000000};
        if (timeout_ms > 0) return my_nanosleep(&wanted, NULL);
    }
    if (timeout_ms && is_active()) is_refused(CALLER, WAITING, "poll()");
    return poll(fds, count, timeout_ms);
}

static int my_epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms) {
    if (timeout_ms && is_active()) is_refused(CALLER, WAITING, "epoll_wait()");
    return epoll_wait(fd, events, count, timeout_ms);
}

static int my_epoll_pwait(int fd, struct epoll_event *events, int count, int timeout_ms,
                          const sigset_t *mask) {
    if (timeout_ms && is_active()) is_refused(CALLER, WAITING, "epoll_pwait()");
    return epoll_pwait(fd, events, count, timeout_ms, mask);
}

static int my_select(int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *timeout) {
    if (is_active() && timeout && !count) {
        struct timespec wanted = {timeout->tv_sec, timeout->tv_usec * 1000};
        return my_nanosleep(&wanted, NULL);
    }
    if (is_active() && (!timeout || timeout->tv_sec || timeout->tv_usec))
        is_refused(CALLER, WAITING, "select()");
    return select(count, in, out, other, timeout);
}

/* --- randomness -------------------------------------------------------------------------------- */

static int fill(const void *from, void *buffer, size_t size) {
    struct held held;
    if (!is_active()) return -1;
    hold(&held);
    int result = ask.fill(library_at(from), buffer, size);
    let_go(&held);
    return result;
}

static ssize_t real_getrandom(void *buffer, size_t size, unsigned flags) {
    return syscall(SYS_getrandom, buffer, size, flags);
}

static ssize_t my_getrandom(void *buffer, size_t size, unsigned flags) {
    return fill(CALLER, buffer, size) ? real_getrandom(buffer, size, flags) : (ssize_t)size;
}

static int my_getentropy(void *buffer, size_t size) {
    if (size <= 256 && !fill(CALLER, buffer, size)) return 0;
    return getentropy(buffer, size);
}

static void fill_whatever(const void *from, void *buffer, size_t size) {
    if (!fill(from, buffer, size)) return;
    for (size_t done = 0; done < size;) {
        ssize_t got = real_getrandom((char *)buffer + done, size - done, 0);
        done += got > 0 ? (size_t)got : 0;
    }
}

static uint32_t my_arc4random(void) {
    uint32_t value;
    fill_whatever(CALLER, &value, sizeof value);
    return value;
}

static void my_arc4random_buf(void *buffer, size_t size) { fill_whatever(CALLER, buffer, size); }

static uint32_t my_arc4random_uniform(uint32_t bound) {
    uint64_t value;
    fill_whatever(CALLER, &value, sizeof value);
    return bound ? (uint32_t)(value % bound) : 0; /* the bias is below 2^-32 */
}

static unsigned (*real_random_device)(void *);

static unsigned my_random_device(void *device) {
    unsigned value;
    if (!fill(CALLER, &value, sizeof value)) return value;
    if (!real_random_device) {
        void *runtime = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
        if (runtime)
            *(void **)&real_random_device = dlsym(runtime, "_ZNSt13random_device9_M_getvalEv");
    }
    if (real_random_device) return real_random_device(device);
    fill_whatever(CALLER, &value, sizeof value);
    return value;
}

#define URANDOM_BYTES 65536

/* A descriptor with random bytes of the tape, or -1. */
static int urandom(const void *from, const char *path) {
    if (!is_active() || !path || (strcmp(path, "/dev/urandom") && strcmp(path, "/dev/random")))
        return -1;
    char *bytes = malloc(URANDOM_BYTES);
    int fd = bytes && !fill(from, bytes, URANDOM_BYTES) ? memfd_create("urandom", MFD_CLOEXEC) : -1;
    if (fd >= 0 && (write(fd, bytes, URANDOM_BYTES) < 0 || lseek(fd, 0, SEEK_SET))) {
        close(fd);
        fd = -1;
    }
    free(bytes);
    return fd;
}

static long my_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (number == SYS_futex) return futex(CALLER, a, b, c, d, e, f);
    if (is_active()) {
        if (number == SYS_getrandom && !fill(CALLER, (void *)a, (size_t)b)) return b;
        if (number == SYS_clock_gettime) return my_clock_gettime((clockid_t)a, (void *)b);
    }
    if (number == SYS_io_uring_setup && (is_active() || is_tainted())) {
        errno = ENOSYS; /* as on an older system: libraries have another way, which leads here */
        return -1;
    }
    if ((number == SYS_socket && is_refused(CALLER, NETWORK, "syscall(SYS_socket)")) ||
        (number == SYS_connect && is_refused(CALLER, NETWORK, "syscall(SYS_connect)")) ||
        (number == SYS_execve && is_refused(CALLER, PROCESSES, "syscall(SYS_execve)"))) {
        errno = EACCES;
        return -1;
    }
    return syscall(number, a, b, c, d, e, f);
}

/* --- what is refused --------------------------------------------------------------------------- */

#define REFUSE(matter, call, number)                                                               \
    if (is_refused(CALLER, matter, call "()")) {                                                   \
        errno = number;                                                                            \
        return -1;                                                                                 \
    }
#define REFUSE_AT(matter, call, text, number, result)                                              \
    if (is_refused_at(CALLER, matter, call, text)) {                                               \
        errno = number;                                                                            \
        return result;                                                                             \
    }

static int my_socket(int family, int kind, int protocol) {
    REFUSE(NETWORK, "socket", EACCES)
    return socket(family, kind, protocol);
}

static int my_connect(int fd, const struct sockaddr *address, socklen_t size) {
    REFUSE(NETWORK, "connect", EACCES)
    return connect(fd, address, size);
}

static int my_bind(int fd, const struct sockaddr *address, socklen_t size) {
    REFUSE(NETWORK, "bind", EACCES)
    return bind(fd, address, size);
}

/* Pairs of sockets inside of the process are no network; all others were opened before the run. */
static int is_network(int fd) {
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (!is_active() && !is_tainted()) return 0;
    return !getsockname(fd, (struct sockaddr *)&address, &size) && address.ss_family != AF_UNIX;
}

static ssize_t my_send(int fd, const void *data, size_t size, int flags) {
    if (is_network(fd)) REFUSE(NETWORK, "send", EPIPE)
    return send(fd, data, size, flags);
}

static ssize_t my_recv(int fd, void *data, size_t size, int flags) {
    if (is_network(fd)) REFUSE(NETWORK, "recv", ECONNRESET)
    return recv(fd, data, size, flags);
}

static ssize_t my_sendto(int fd, const void *data, size_t size, int flags,
                         const struct sockaddr *address, socklen_t length) {
    if (is_network(fd)) REFUSE(NETWORK, "sendto", EPIPE)
    return sendto(fd, data, size, flags, address, length);
}

static ssize_t my_sendmsg(int fd, const struct msghdr *message, int flags) {
    if (is_network(fd)) REFUSE(NETWORK, "sendmsg", EPIPE)
    return sendmsg(fd, message, flags);
}

static ssize_t my_recvmsg(int fd, struct msghdr *message, int flags) {
    if (is_network(fd)) REFUSE(NETWORK, "recvmsg", ECONNRESET)
    return recvmsg(fd, message, flags);
}

static int my_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                          struct addrinfo **found) {
    if (is_refused_at(CALLER, NETWORK, "getaddrinfo", name)) return EAI_FAIL;
    return getaddrinfo(name, service, hints, found);
}

/* The cards of the real machine, whose numbers some put into ids, are not there. */
static int my_getifaddrs(struct ifaddrs **found) {
    if (!is_active()) return getifaddrs(found);
    *found = NULL;
    return 0;
}

static struct hostent *my_gethostbyname(const char *name) {
    REFUSE_AT(NETWORK, "gethostbyname", name, EACCES, NULL)
    return gethostbyname(name);
}

/* --- simulated descriptors --------------------------------------------------------------------- */

#define FIRST_SIMULATED (1 << 24) /* FIRST of computer.py: no real one is that large */
enum descriptor_call { READ, WRITE, PREAD, PWRITE, LSEEK, CLOSE, DUP, FSTAT, FSYNC, FTRUNCATE, FCNTL,
                       OPEN_FILE };

static int64_t on_simulated(int call, int fd, const void *data, int64_t size, int64_t at) {
    struct held held;
    if (!is_active()) {
        errno = EBADF;
        return -1;
    }
    hold(&held);
    int64_t result = ask.descriptor(call, fd, (void *)data, size, at);
    if (result < 0) held.number = (int)-result;
    let_go(&held);
    return result < 0 ? -1 : result;
}

#define SIMULATED(fd, ...)                                                                         \
    if ((fd) >= FIRST_SIMULATED) return on_simulated(__VA_ARGS__);

static ssize_t my_read(int fd, void *data, size_t size) {
    SIMULATED(fd, READ, fd, data, size, 0)
    return read(fd, data, size);
}

static ssize_t my_read_chk(int fd, void *data, size_t size, size_t room) {
    if (size > room) abort();
    return my_read(fd, data, size);
}

static ssize_t my_write(int fd, const void *data, size_t size) {
    SIMULATED(fd, WRITE, fd, data, size, 0)
    return write(fd, data, size);
}

static ssize_t my_pread(int fd, void *data, size_t size, off_t at) {
    SIMULATED(fd, PREAD, fd, data, size, at)
    return pread(fd, data, size, at);
}

static ssize_t my_pwrite(int fd, const void *data, size_t size, off_t at) {
    SIMULATED(fd, PWRITE, fd, data, size, at)
    return pwrite(fd, data, size, at);
}

/* Of several buffers the first that is not empty: callers go on with the rest. */
static const struct iovec *first_of(const struct iovec *parts, int count) {
    static const struct iovec nothing;
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len) return &parts[i];
    return &nothing;
}

static ssize_t my_readv(int fd, const struct iovec *parts, int count) {
    if (fd < FIRST_SIMULATED) return readv(fd, parts, count);
    const struct iovec *first = first_of(parts, count);
    return my_read(fd, first->iov_base, first->iov_len);
}

static ssize_t my_writev(int fd, const struct iovec *parts, int count) {
    if (fd < FIRST_SIMULATED) return writev(fd, parts, count);
    const struct iovec *first = first_of(parts, count);
    return my_write(fd, first->iov_base, first->iov_len);
}

static off_t my_lseek(int fd, off_t at, int whence) {
    SIMULATED(fd, LSEEK, fd, NULL, whence, at)
    return lseek(fd, at, whence);
}

static int my_close(int fd) {
    SIMULATED(fd, CLOSE, fd, NULL, 0, 0)
    return close(fd);
}

static int my_dup(int fd) {
    SIMULATED(fd, DUP, fd, NULL, 0, 0)
    return dup(fd);
}

static int my_fsync(int fd) {
    SIMULATED(fd, FSYNC, fd, NULL, 0, 0)
    return fsync(fd);
}

static int my_fdatasync(int fd) {
    SIMULATED(fd, FSYNC, fd, NULL, 0, 0)
    return fdatasync(fd);
}

static int my_ftruncate(int fd, off_t size) {
    SIMULATED(fd, FTRUNCATE, fd, NULL, size, 0)
    return ftruncate(fd, size);
}

static int my_fcntl(int fd, int command, long argument) {
    SIMULATED(fd, FCNTL, fd, NULL, command, argument)
    return fcntl(fd, command, argument);
}

static int my_fstat(int fd, struct stat *result) {
    if (fd < FIRST_SIMULATED) return fstat(fd, result);
    int64_t got[6];
    if (on_simulated(FSTAT, fd, got, 0, 0) < 0) return -1;
    memset(result, 0, sizeof *result);
    result->st_mode = got[0], result->st_ino = got[1], result->st_nlink = got[2];
    result->st_size = got[3], result->st_blocks = (got[3] + 511) / 512, result->st_blksize = 4096;
    result->st_mtim = (struct timespec){got[4] / NS, got[4] % NS};
    result->st_ctim = result->st_atim = result->st_mtim;
    result->st_dev = got[5];
    return 0;
}

/* How the C library before 2.33 calls it. */
static int my_fxstat(int version, int fd, struct stat *result) {
    (void)version;
    return my_fstat(fd, result);
}

/* A FILE of the C library over a simulated descriptor. */
static ssize_t cookie_read(void *fd, char *data, size_t size) {
    return my_read((int)(intptr_t)fd, data, size);
}

static ssize_t cookie_write(void *fd, const char *data, size_t size) {
    ssize_t done = my_write((int)(intptr_t)fd, data, size);
    return done < 0 ? 0 : done;
}

static int cookie_seek(void *fd, off64_t *at, int whence) {
    off_t now_at = my_lseek((int)(intptr_t)fd, *at, whence);
    if (now_at < 0) return -1;
    *at = now_at;
    return 0;
}

static int cookie_close(void *fd) { return my_close((int)(intptr_t)fd); }

static FILE *my_fdopen(int fd, const char *mode) {
    if (fd < FIRST_SIMULATED) return fdopen(fd, mode);
    const cookie_io_functions_t calls = {cookie_read, cookie_write, cookie_seek, cookie_close};
    return fopencookie((void *)(intptr_t)fd, mode, calls);
}

/* --- files and processes ----------------------------------------------------------------------- */

/* Files: to read them is no escape; who writes is one, except to where nothing is kept. Those that the
 * program has written in the run are on the simulated disk. */

#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND)

static int is_kept(const char *path) {
    return path && strcmp(path, "/dev/null") && strcmp(path, "/dev/tty") &&
           strncmp(path, "/proc/self/", 11);
}

static int open_simulated(const char *path, int flags) {
    if (flags & WRITES || !path || !is_active()) return -1;
    return (int)on_simulated(OPEN_FILE, 0, path, flags, 0);
}

#define OPEN(name, original, ...)                                                                  \
    do {                                                                                           \
        int fd = urandom(CALLER, path);                                                            \
        if (fd >= 0) return fd;                                                                    \
        if (flags & WRITES && is_kept(path)) REFUSE_AT(FILES, name, path, EACCES, -1)              \
        fd = open_simulated(path, flags);                                                          \
        return fd >= 0 ? fd : original(__VA_ARGS__);                                               \
    } while (0)

static int my_open(const char *path, int flags, unsigned mode) {
    OPEN("open", open, path, flags, mode);
}

static int my_openat(int folder, const char *path, int flags, unsigned mode) {
    OPEN("openat", openat, folder, path, flags, mode);
}

static int my_open_2(const char *path, int flags) { OPEN("open", open, path, flags, 0); }

static int my_creat(const char *path, mode_t mode) {
    REFUSE_AT(FILES, "creat", path, EACCES, -1)
    return creat(path, mode);
}

static FILE *my_fopen(const char *path, const char *mode) {
    int fd = urandom(CALLER, path);
    if (fd >= 0) return fdopen(fd, "r");
    if (mode && strpbrk(mode, "wa+") && is_kept(path)) REFUSE_AT(FILES, "fopen", path, EACCES, NULL)
    fd = open_simulated(path, mode && strpbrk(mode, "wa+") ? O_RDWR : O_RDONLY);
    return fd >= 0 ? my_fdopen(fd, mode) : fopen(path, mode);
}

static int my_mkstemp(char *path) {
    REFUSE_AT(FILES, "mkstemp", path, EACCES, -1)
    return mkstemp(path);
}

static char *my_mkdtemp(char *path) {
    REFUSE_AT(FILES, "mkdtemp", path, EACCES, NULL)
    return mkdtemp(path);
}

static FILE *my_tmpfile(void) {
    if (is_refused(CALLER, FILES, "tmpfile()")) {
        errno = EACCES;
        return NULL;
    }
    return tmpfile();
}

#define CHANGES_PATH(name)                                                                         \
    static int my_##name(const char *path) {                                                       \
        REFUSE_AT(FILES, #name, path, EACCES, -1)                                                  \
        return name(path);                                                                         \
    }
CHANGES_PATH(unlink)
CHANGES_PATH(rmdir)
CHANGES_PATH(remove)

static int my_mkdir(const char *path, mode_t mode) {
    REFUSE_AT(FILES, "mkdir", path, EACCES, -1)
    return mkdir(path, mode);
}

static int my_rename(const char *from, const char *to) {
    REFUSE_AT(FILES, "rename", from, EACCES, -1)
    return rename(from, to);
}

static int my_link(const char *from, const char *to) {
    REFUSE_AT(FILES, "link", to, EACCES, -1)
    return link(from, to);
}

static int my_symlink(const char *from, const char *to) {
    REFUSE_AT(FILES, "symlink", to, EACCES, -1)
    return symlink(from, to);
}

static int my_truncate(const char *path, off_t size) {
    REFUSE_AT(FILES, "truncate", path, EACCES, -1)
    return truncate(path, size);
}

static int my_shm_open(const char *path, int flags, mode_t mode) {
    if (flags & WRITES) REFUSE_AT(FILES, "shm_open", path, EACCES, -1)
    return shm_open(path, flags, mode);
}

/* Processes. vfork is left alone: it returns twice, and its child ends up in execve. */

static pid_t my_fork(void) {
    REFUSE(PROCESSES, "fork", EAGAIN)
    return fork();
}

static int my_execve(const char *path, char *const args[], char *const names[]) {
    REFUSE_AT(PROCESSES, "execve", path, EACCES, -1)
    return execve(path, args, names);
}

static int my_execv(const char *path, char *const args[]) {
    REFUSE_AT(PROCESSES, "execv", path, EACCES, -1)
    return execv(path, args);
}

static int my_execvp(const char *path, char *const args[]) {
    REFUSE_AT(PROCESSES, "execvp", path, EACCES, -1)
    return execvp(path, args);
}

static int my_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *how, char *const args[], char *const names[]) {
    if (is_refused_at(CALLER, PROCESSES, "posix_spawn", path)) return EACCES;
    return posix_spawn(pid, path, actions, how, args, names);
}

static int my_posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *how, char *const args[], char *const names[]) {
    if (is_refused_at(CALLER, PROCESSES, "posix_spawnp", path)) return EACCES;
    return posix_spawnp(pid, path, actions, how, args, names);
}

static int my_system(const char *command) {
    REFUSE_AT(PROCESSES, "system", command, EAGAIN, -1)
    return system(command);
}

static FILE *my_popen(const char *command, const char *mode) {
    REFUSE_AT(PROCESSES, "popen", command, EAGAIN, NULL)
    return popen(command, mode);
}

/* --- threads ----------------------------------------------------------------------------------- */

struct birth {
    void *(*work)(void *);
    void *argument;
    uint64_t in_run;
    struct image *image;
};

static void count_thread(struct image *image, int change) {
    __sync_fetch_and_add(&old_threads, change);
    if (image) __sync_fetch_and_add(&image->threads, change);
}

static void *live(void *given) {
    struct birth birth = *(struct birth *)given;
    free(given);
    theirs = birth.in_run;
    void *result = birth.work(birth.argument);
    count_thread(birth.image, -1);
    return result;
}

static int is_own_thread(const void *from) {
    return is_tainted() || (is_active() && is_refused(from, THREADS, OWN_THREADS));
}

static int start(const void *from, pthread_t *thread, const pthread_attr_t *how,
                 void *(*work)(void *), void *argument) {
    struct birth *birth = malloc(sizeof *birth);
    if (!birth) return EAGAIN;
    *birth = (struct birth){work, argument, run, caller_at(from)};
    struct image *image = birth->image;
    if (image && is_active()) image->told = run; /* a thread of an earlier run has told nothing */
    count_thread(image, 1);
    int result = pthread_create(thread, how, live, birth);
    if (result) {
        count_thread(image, -1);
        free(birth);
    }
    return result;
}

static int my_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *),
                             void *argument) {
    if (!is_own_thread(CALLER)) return pthread_create(thread, how, work, argument);
    return start(CALLER, thread, how, work, argument);
}

/* Its result is an int, which comes back in the same register. */
static int my_thrd_create(thrd_t *thread, thrd_start_t work, void *argument) {
    if (!is_own_thread(CALLER)) return thrd_create(thread, work, argument);
    int failed = start(CALLER, thread, NULL, (void *(*)(void *))work, argument);
    return failed == ENOMEM ? thrd_nomem : failed ? thrd_error : thrd_success;
}

/* --- who looks functions up, and calls them by address ----------------------------------------- */

EXPORT int foretold_look(void);
static void *hook_for(void *address);
static int is_hook(const void *address);

static volatile int is_to_look; /* something was loaded that was not looked at */

/* Who calls decides where the dynamic linker searches. So what cannot be found for us is searched for
 * once more by a jump, which leaves the caller's address in its place. */
static void *my_dlopen(const char *path, int flags) {
    if (!patched || !path) return dlopen(path, flags);
    void *result = dlopen(path, flags);
    if (result) {
        foretold_look();
        return result;
    }
    is_to_look = 1;
    return dlopen(path, flags);
}

static void *my_dlsym(void *library, const char *name) {
    if (is_to_look) {
        is_to_look = 0;
        foretold_look();
    }
    if (is_active() && library != RTLD_NEXT) {
        void *hook = hook_for(dlsym(library, name));
        struct image *keeper = hook ? caller_at(CALLER) : NULL;
        if (keeper) keeper->has_hooks = 1;
        if (hook) return hook;
    }
    return dlsym(library, name); /* a jump, as above */
}

static void (*real_ffi_call)(void *, void (*)(void), void *, void **);

static void my_ffi_call(void *shape, void (*function)(void), void *result, void **arguments) {
    void *hook = is_active() || is_tainted() ? hook_for((void *)function) : NULL;
    if (!hook && is_hook((void *)function)) hook = (void *)function; /* it was looked up in the run */
    if (!hook) {
        real_ffi_call(shape, function, result, arguments);
        return;
    }
    in_ffi++;
    real_ffi_call(shape, (void (*)(void))hook, result, arguments);
    in_ffi--;
}

/* --- the table of all of them ------------------------------------------------------------------ */

struct hook {
    const char *name;
    void *hook, *original;
};

#define HOOK(name) {#name, (void *)my_##name, NULL}
#define ALIAS(alias, name) {#alias, (void *)my_##name, NULL}

static struct hook hooks[] = {
    HOOK(read), ALIAS(__read_chk, read_chk), HOOK(write), HOOK(pread), ALIAS(pread64, pread),
    HOOK(pwrite), ALIAS(pwrite64, pwrite), HOOK(readv), HOOK(writev), HOOK(lseek),
    ALIAS(lseek64, lseek), HOOK(close), HOOK(dup), HOOK(fsync), HOOK(fdatasync), HOOK(ftruncate),
    ALIAS(ftruncate64, ftruncate), HOOK(fcntl), ALIAS(fcntl64, fcntl), HOOK(fstat),
    ALIAS(fstat64, fstat), ALIAS(__fxstat, fxstat), ALIAS(__fxstat64, fxstat), HOOK(fdopen),
#define DESCRIPTORS 24 /* those above: they judge nothing but simulated descriptors */
    HOOK(clock_gettime), ALIAS(__clock_gettime, clock_gettime), HOOK(gettimeofday), HOOK(time),
    HOOK(timespec_get), HOOK(clock),
    HOOK(clock_nanosleep), HOOK(nanosleep), HOOK(usleep), HOOK(sleep),
    HOOK(pthread_cond_timedwait), HOOK(sem_timedwait), HOOK(pthread_mutex_timedlock),
#if __GLIBC_PREREQ(2, 30)
    HOOK(pthread_cond_clockwait),
#endif
    HOOK(pthread_cond_wait), HOOK(pthread_cond_signal), HOOK(pthread_cond_broadcast),
    HOOK(cnd_timedwait), HOOK(mtx_timedlock), HOOK(cnd_wait), HOOK(cnd_signal), HOOK(cnd_broadcast),
    HOOK(thrd_sleep),
    HOOK(poll), HOOK(epoll_wait), HOOK(epoll_pwait), HOOK(select),
    HOOK(getrandom), HOOK(getentropy), HOOK(arc4random), HOOK(arc4random_buf),
    HOOK(arc4random_uniform), ALIAS(_ZNSt13random_device9_M_getvalEv, random_device),
    HOOK(syscall),
    HOOK(socket), HOOK(connect), HOOK(bind), HOOK(send), HOOK(recv), HOOK(sendto), HOOK(sendmsg),
    HOOK(recvmsg), HOOK(getaddrinfo), HOOK(gethostbyname), HOOK(getifaddrs),
    HOOK(open), ALIAS(open64, open), ALIAS(__open_2, open_2), ALIAS(__open64_2, open_2),
    HOOK(openat), ALIAS(openat64, openat), HOOK(creat), ALIAS(creat64, creat),
    HOOK(fopen), ALIAS(fopen64, fopen), HOOK(mkstemp), ALIAS(mkstemp64, mkstemp), HOOK(mkdtemp),
    HOOK(tmpfile), ALIAS(tmpfile64, tmpfile), HOOK(unlink), HOOK(rmdir), HOOK(remove), HOOK(mkdir),
    HOOK(rename), HOOK(link), HOOK(symlink), HOOK(truncate), ALIAS(truncate64, truncate),
    HOOK(shm_open),
    HOOK(fork), HOOK(execve), HOOK(execv), HOOK(execvp), HOOK(posix_spawn), HOOK(posix_spawnp),
    HOOK(system), HOOK(popen), HOOK(pthread_create), HOOK(thrd_create),
    HOOK(dlopen), HOOK(dlsym), HOOK(ffi_call),
};
#define HOOKS ((int)(sizeof hooks / sizeof *hooks))
#define FOREIGN_FIRST (HOOKS - 3)

static void *hook_for(void *address) {
    for (int i = DESCRIPTORS; address && i < FOREIGN_FIRST; i++)
        if (hooks[i].original == address) return hooks[i].hook;
    return NULL;
}

static int is_hook(const void *address) {
    for (int i = DESCRIPTORS; i < FOREIGN_FIRST; i++)
        if (hooks[i].hook == address) return 1;
    return 0;
}

static int hook_named(const char *name, int kind) {
    for (int i = kind == FOREIGN ? FOREIGN_FIRST : 0; i < HOOKS; i++)
        if (hooks[i].name[0] == name[0] && !strcmp(hooks[i].name, name)) return i;
    return -1;
}

/* --- looking at tables ------------------------------------------------------------------------- */

#if defined(__x86_64__)
static int is_import(unsigned kind) {
    return kind == R_X86_64_GLOB_DAT || kind == R_X86_64_JUMP_SLOT || kind == R_X86_64_64;
}
#elif defined(__aarch64__)
static int is_import(unsigned kind) {
    return kind == R_AARCH64_GLOB_DAT || kind == R_AARCH64_JUMP_SLOT || kind == R_AARCH64_ABS64;
}
#else
#error "foretold leads native libraries on x86_64 and aarch64"
#endif

static void add_slot(int image, void **where, void *after) {
    if (slot_count == slot_room) {
        int room = slot_room ? 2 * slot_room : 1024;
        struct slot *more = realloc(slots, room * sizeof *slots);
        if (!more) return;
        slots = more;
        slot_room = room;
    }
    struct image *in = &images[image];
    uintptr_t at = (uintptr_t)where;
    int sealed = at >= in->sealed && at < in->sealed_end;
    if (sealed && (!in->first || at < in->first)) in->first = at;
    if (sealed && at > in->last) in->last = at;
    slots[slot_count++] = (struct slot){where, NULL, after, image, sealed, 0};
}

static uintptr_t absolute(const struct image *image, uintptr_t address) {
    return address >= image->base ? address : address + image->base;
}

/* The library defines the function itself, or another one does that is not the system's. */
static int is_foreign(const struct image *image, const void *value) {
    uintptr_t at = (uintptr_t)value;
    if (!at || (at >= image->start && at < image->end)) return 0; /* weak; not looked up yet */
    const struct image *owner = image_at(value);
    return owner && owner->kind != SYSTEM && owner->kind != RUNTIME;
}

struct dynamic {
    uintptr_t strings, symbols, table[2], size[2], relative;
};

static void look_at_table(int number, const struct dynamic *tags, int which) {
    const struct image *image = &images[number];
    const ElfW(Rela) *entry = (const void *)tags->table[which];
    size_t count = tags->size[which] / sizeof *entry;
    for (size_t i = which ? tags->relative : 0; i < count; i++) {
        if (!is_import((unsigned)ELF64_R_TYPE(entry[i].r_info)) || entry[i].r_addend) continue;
        const ElfW(Sym) *symbol = (const ElfW(Sym) *)tags->symbols + ELF64_R_SYM(entry[i].r_info);
        if (symbol->st_shndx != SHN_UNDEF) continue;
        const char *name = (const char *)tags->strings + symbol->st_name;
        int found = hook_named(name, image->kind);
        void **where = (void **)(image->base + entry[i].r_offset);
        if (found < 0 || (found < FOREIGN_FIRST && is_foreign(image, *where))) continue;
        if (!*where) continue; /* a weak one that is not there */
        if (hooks[found].hook == (void *)my_dlsym) images[number].looks_up = 1;
        add_slot(number, where, hooks[found].hook);
    }
}

static void look_at(int number) {
    struct image *image = &images[number];
    struct dynamic tags = {0};
    for (const ElfW(Dyn) *tag = image->dynamic; tag->d_tag != DT_NULL; tag++) {
        uintptr_t value = tag->d_un.d_val;
        if (tag->d_tag == DT_STRTAB) tags.strings = absolute(image, value);
        if (tag->d_tag == DT_SYMTAB) tags.symbols = absolute(image, value);
        if (tag->d_tag == DT_JMPREL) tags.table[0] = absolute(image, value);
        if (tag->d_tag == DT_PLTRELSZ) tags.size[0] = value;
        if (tag->d_tag == DT_RELA) tags.table[1] = absolute(image, value);
        if (tag->d_tag == DT_RELASZ) tags.size[1] = value;
        if (tag->d_tag == DT_RELACOUNT) tags.relative = value;
    }
    if (!tags.strings || !tags.symbols) return;
    for (int which = 0; which < 2; which++)
        if (tags.table[which]) look_at_table(number, &tags, which);
}

static int note_image(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    struct image *image = NULL;
    for (int i = 0; i < image_count && !image; i++)
        if (images[i].base == info->dlpi_addr && images[i].headers == info->dlpi_phdr)
            image = &images[i];
    if (image && image->seen >= 0) {
        image->seen = 1;
        return 0;
    }
    if (!image && image_count == IMAGES_MAX) return 0;
    if (!image) image = &images[image_count++];
    memset(image, 0, sizeof *image);
    image->base = info->dlpi_addr;
    image->headers = info->dlpi_phdr;
    image->kind = kind_of(info->dlpi_name);
    image->seen = 2; /* new */
    name_of(info->dlpi_name, image->name, sizeof image->name);
    image->start = UINTPTR_MAX;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t at = image->base + header->p_vaddr, end = at + header->p_memsz;
        if (header->p_type == PT_LOAD) {
            if (at < image->start) image->start = at;
            if (end > image->end) image->end = end;
            if (header->p_flags & PF_W) image->data = at, image->data_end = end;
        }
        if (header->p_type == PT_GNU_RELRO) /* whole pages of it */
            image->sealed = at & -page, image->sealed_end = end & -page;
        if (header->p_type == PT_DYNAMIC) image->dynamic = (const void *)at;
    }
    if (!image->dynamic && image->kind != SYSTEM) image->kind = SKIPPED;
    return 0;
}

static int note_changes(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    unsigned long long *counts = data;
    counts[0] = info->dlpi_adds;
    counts[1] = info->dlpi_subs;
    return 1;
}

static void *getrandom_address, *getentropy_address;

/* A word that is an import as well has its slot: a second one would take the first's hook for what was
 * there before. */
static int has_slot(void **where) {
    for (int i = 0; i < slot_count; i++)
        if (slots[i].where == where) return 1;
    return 0;
}

/* Rust looks functions up once and keeps them: what it has kept before the session leads here too. */
static void look_for_cached(int number) {
    struct image *image = &images[number];
    uintptr_t start = image->data;
    if (start >= image->sealed && start < image->sealed_end) start = image->sealed_end;
    void **end = (void **)(image->data_end & ~7UL);
    for (void **at = (void **)((start + 7) & ~7UL); at < end; at++) {
        if (!*at || (*at != getrandom_address && *at != getentropy_address)) continue;
        if (has_slot(at)) continue;
        int is_first = *at == getrandom_address;
        add_slot(number, at, is_first ? (void *)my_getrandom : (void *)my_getentropy);
        image->has_cached = 1;
    }
}

/* The same for what it has looked up, and kept, in a run. */
static void look_for_hooks(int number) {
    struct image *image = &images[number];
    uintptr_t start = image->data;
    if (start >= image->sealed && start < image->sealed_end) start = image->sealed_end;
    void **end = (void **)(image->data_end & ~7UL);
    const struct image *own = image_at((void *)look_for_hooks);
    for (void **at = (void **)((start + 7) & ~7UL); own && at < end; at++) {
        int found = -1;
        if ((uintptr_t)*at < own->start || (uintptr_t)*at >= own->end) continue;
        for (int i = DESCRIPTORS; found < 0 && i < FOREIGN_FIRST; i++)
            if (hooks[i].hook == *at && hooks[i].original) found = i;
        if (found < 0 || has_slot(at)) continue;
        int before = slot_count;
        add_slot(number, at, hooks[found].hook);
        if (slot_count == before) continue;
        slots[before].before = hooks[found].original;
        slots[before].applied = 1;
    }
    image->has_hooks = 0;
}

/* --- applied and undone ------------------------------------------------------------------------ */

/* Tables that the dynamic linker has sealed are open while they lead here, and sealed again after. */
static void open_sealed(struct image *image, int open) {
    long page = sysconf(_SC_PAGESIZE);
    uintptr_t start = image->first & -page, end = (image->last & -page) + page;
    if (image->is_open == open) return;
    mprotect((void *)start, end - start, open ? PROT_READ | PROT_WRITE : PROT_READ);
    image->is_open = open;
}

static void write_slots(int apply) {
    for (int i = 0; i < slot_count; i++) {
        struct slot *slot = &slots[i];
        struct image *image = &images[slot->image];
        if (slot->applied == apply || image->seen < 0) continue;
        if (slot->sealed) open_sealed(image, 1);
        if (apply) slot->before = *slot->where;
        *slot->where = apply ? slot->after : slot->before;
        slot->applied = apply;
    }
    for (int i = 0; !apply && i < image_count; i++)
        if (images[i].is_open && images[i].seen > 0) open_sealed(&images[i], 0);
}

static void refresh(void) {
    unsigned long long counts[2] = {0};
    dl_iterate_phdr(note_changes, counts);
    if (counts[0] == adds_seen && counts[1] == subs_seen) return;
    for (int i = 0; i < image_count; i++)
        if (images[i].seen > 0) images[i].seen = 0;
    dl_iterate_phdr(note_image, NULL);
    for (int i = 0; i < image_count; i++)
        if (!images[i].seen) images[i].seen = -1; /* gone, and its slots with it */
    int kept = 0;
    for (int i = 0; i < slot_count; i++)
        if (images[slots[i].image].seen == 1) slots[kept++] = slots[i];
    slot_count = kept;
    for (int i = 0; i < image_count; i++) {
        int is_new = images[i].seen == 2;
        if (is_new) images[i].seen = 1;
        if (is_new && (images[i].kind == LED || images[i].kind == FOREIGN || images[i].kind == RUNTIME))
            look_at(i);
    }
    adds_seen = counts[0];
    subs_seen = counts[1];
}

/* Libraries that were loaded since the last look lead here as well. Returns how many slots do. */
EXPORT int foretold_look(void) {
    pthread_mutex_lock(&tables);
    refresh();
    if (patched) write_slots(1);
    int result = slot_count;
    pthread_mutex_unlock(&tables);
    return result;
}

EXPORT int foretold_apply(void) {
    pthread_mutex_lock(&tables);
    refresh();
    for (int i = 0; i < image_count; i++)
        if (images[i].seen > 0 && images[i].looks_up && !images[i].has_cached &&
            images[i].kind == LED)
            look_for_cached(i);
    patched = 1;
    write_slots(1);
    int result = slot_count;
    pthread_mutex_unlock(&tables);
    return result;
}

EXPORT void foretold_undo(void) {
    pthread_mutex_lock(&tables);
    refresh();
    for (int i = 0; i < image_count; i++)
        if (images[i].seen > 0 && images[i].has_hooks) look_for_hooks(i);
    write_slots(0);
    patched = 0;
    pthread_mutex_unlock(&tables);
}

/* --- runs -------------------------------------------------------------------------------------- */

/* A call of this address, by ctypes: 1 if it is answered or refused here, 0 if it is not known. System
 * calls by number, most of which pass, and threads, which are started, are known and not judged: -1. */
EXPORT int foretold_judges(void *address) {
    void *hook = hook_for(address);
    if (!hook && is_hook(address)) hook = address;
    if (!hook || !real_ffi_call) return 0;
    int passes = hook == (void *)my_syscall || hook == (void *)my_pthread_create
        || hook == (void *)my_thrd_create;
    return passes ? -1 : 1;
}

EXPORT void foretold_begin(void) { mine = run = ++runs; }
EXPORT void foretold_end(void) { run = 0; }
EXPORT void foretold_join(void) { mine = run; }

EXPORT void foretold_throw(void *kind) {
    if (thrown) return;
    Py_IncRef(kind);
    thrown = kind;
}

/* It was raised, or nobody is there any more to raise it in. */
EXPORT void foretold_raised(void) {
    void *kind = thrown;
    thrown = NULL;
    if (kind) Py_DecRef(kind);
}

static void note_fork(void) { is_fork = 1; }

/* --- around functions of Python ---------------------------------------------------------------- */

/* Functions that are written in Python and stand in for those of the C library, in libraries that are
 * not led here (calls.py). All their arguments and results are numbers or addresses, which travel
 * alike: one that has fewer leaves the others unread. */
typedef long (*any_function)(long, long, long, long, long, long, long, long);
#define BRACKETS 128
static any_function bracketed[BRACKETS];
static int bracket_count;

static long call_in_brackets(int which, long a, long b, long c, long d, long e, long f, long g,
                             long h) {
    struct held held;
    hold(&held);
    errno = held.number;
    long result = bracketed[which](a, b, c, d, e, f, g, h);
    held.number = errno;
    let_go(&held);
    return result;
}

#define BRACKET(n)                                                                                 \
    static long bracket_##n(long a, long b, long c, long d, long e, long f, long g, long h) {      \
        return call_in_brackets(0x##n, a, b, c, d, e, f, g, h);                                    \
    }
#define SIXTEEN(each, n)                                                                           \
    each(n##0) each(n##1) each(n##2) each(n##3) each(n##4) each(n##5) each(n##6) each(n##7)        \
    each(n##8) each(n##9) each(n##a) each(n##b) each(n##c) each(n##d) each(n##e) each(n##f)
#define ALL(each)                                                                                  \
    SIXTEEN(each, 0) SIXTEEN(each, 1) SIXTEEN(each, 2) SIXTEEN(each, 3)                            \
    SIXTEEN(each, 4) SIXTEEN(each, 5) SIXTEEN(each, 6) SIXTEEN(each, 7)
#define NAME(n) bracket_##n,
ALL(BRACKET)
static const any_function brackets[BRACKETS] = {ALL(NAME)};

/* What to call instead of the function; NULL if there are too many. */
EXPORT void *foretold_bracket(void *function) {
    if (bracket_count == BRACKETS) return NULL;
    bracketed[bracket_count] = (any_function)function;
    return (void *)brackets[bracket_count++];
}

EXPORT void foretold_ask(const struct questions *given, const char *ctypes_path) {
    ask = *given;
    pthread_atfork(NULL, NULL, note_fork);
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    for (int i = 0; i < FOREIGN_FIRST; i++)
        hooks[i].original = libc ? dlsym(libc, hooks[i].name) : NULL;
    getrandom_address = libc ? dlsym(libc, "getrandom") : NULL;
    getentropy_address = libc ? dlsym(libc, "getentropy") : NULL;
    void *foreign = ctypes_path ? dlopen(ctypes_path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (foreign) *(void **)&real_ffi_call = dlsym(foreign, "ffi_call");
    hooks[HOOKS - 1].hook = real_ffi_call ? (void *)my_ffi_call : NULL;
    if (!real_ffi_call) hooks[HOOKS - 1].name = "";
    void *frames[1];
    backtrace(frames, 1); /* loads what it needs now, and not in the middle of a run */
}

/* An OpenSSL that is linked into a library shows nothing of itself. But its table of the functions that
 * make random numbers has a shape of its own (seed, bytes, nothing, add, bytes again, status), and the
 * variable that names the table in use points to it. Returns where that variable is, or NULL. */
static int is_code(const struct image *image, uintptr_t at) {
    return at >= image->start && at < image->end && (at < image->data || at >= image->data_end);
}

static int is_random_table(const struct image *image, const uintptr_t *at) {
    return !at[2] && at[1] == at[4] && at[1] != at[0] && is_code(image, at[0]) &&
           is_code(image, at[1]) && is_code(image, at[3]) && is_code(image, at[5]);
}

static uintptr_t *random_variable(const struct image *image) {
    const uintptr_t *table = NULL, *end = (const uintptr_t *)image->data_end - 6;
    const uintptr_t *sealed = (const uintptr_t *)image->sealed;
    const uintptr_t *data = (const uintptr_t *)((image->data + 7) & ~7UL);
    for (const uintptr_t *at = sealed ? sealed : data; at < end; at++) {
        if (at >= (const uintptr_t *)image->sealed_end && at < data) at = data;
        if (is_random_table(image, at)) {
            if (table) return NULL; /* which of the two? */
            table = at;
        }
    }
    uintptr_t *found = NULL;
    for (uintptr_t *at = (uintptr_t *)data; table && at < end; at++) {
        if (*at != (uintptr_t)table) continue;
        if (found) return NULL;
        found = at;
    }
    return found;
}

EXPORT void *foretold_random_variable(const void *function) {
    pthread_mutex_lock(&tables);
    refresh();
    struct image *image = image_at(function);
    void *found = image && image->kind == LED ? random_variable(image) : NULL;
    pthread_mutex_unlock(&tables);
    return found;
}
