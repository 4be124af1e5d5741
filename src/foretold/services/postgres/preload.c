/* Loaded into PostgreSQL with LD_PRELOAD: its clock, timers, sleeps and randomness obey the world.
 *
 * The server and the simulator share one page of memory (shared_page.py has the other side): the
 * virtual time, a seed, and a slot for each process of the server. A process is *virtual* if the
 * simulator has said so in its slot, or if it was born while the virtual clock was set, for then it
 * serves a client. All others (postmaster, checkpointer, ...) live in real time.
 *
 * In a virtual process:
 *   - every clock shows the virtual time;
 *   - a timer (statement_timeout, lock_timeout, ...) never fires by itself. Its deadline is written
 *     into the slot; the simulator sets the clock and sends SIGALRM;
 *   - deadlock_timeout, which is set to its least value of 1 ms, is the exception: once the process
 *     waits for something it is due at once, so that a blocked session says so without delay;
 *   - a wait with a time limit (pg_sleep) writes its deadline into the slot, tells the simulator
 *     through a pipe, and waits without limit, until SIGALRM comes.
 * In every process, while a seed is set, random bytes follow from it.
 *
 * All decisions stay PostgreSQL's own: it reads the clock after the signal, and finds what is due.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x31656761506c7466LL
#define SLOTS 1023
#define SHORT_US 1000 /* deadlock_timeout, see cluster.py */

struct slot {
    volatile int64_t pid;        /* 0: free */
    volatile int64_t is_virtual; /* written by the simulator; by us at birth */
    volatile int64_t stream;     /* tells the randomness of two sessions apart */
    volatile int64_t timer_us;   /* when SIGALRM is wanted, in virtual time; 0: never */
    volatile int64_t sleep_us;   /* when a wait is over, in virtual time; 0: no such wait */
    volatile int64_t is_waiting; /* and timer_us is what it waits for */
    int64_t unused[2];
};

struct page {
    volatile int64_t magic;
    volatile int64_t now_us; /* 0: real time */
    volatile uint64_t seed;  /* 0: real randomness */
    volatile int64_t next_oid; /* 0: nothing to do */
    volatile uint64_t seedings; /* how often a seed was set */
    volatile int64_t oid_setter; /* the process that shall put next_oid into force */
    int64_t unused[2];
    struct slot slots[SLOTS];
};

static struct page *page;
static struct slot *mine;
static int forked;       /* a child of the postmaster, not a program that someone has executed */
static int born_virtual; /* this process was forked in a run */
static int notices = -1; /* the pipe to the simulator */
/* Volatile: to the compiler `raise` is a leaf, which runs no handler of ours. */
static volatile int settled;      /* timer_us is right, until this process has done anything else */
static volatile int is_short;     /* timer_us was set for deadlock_timeout */
static volatile int real_timer;   /* a real timer may run, from before this process was virtual */
static volatile int set_again;    /* the signal's handler wants another signal */
static volatile int64_t floor_us; /* our clock shows at least that, while a handler runs */

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_setitimer)(__itimer_which_t, const struct itimerval *, struct itimerval *);
static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static int (*real_poll)(struct pollfd *, nfds_t, int);
static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
static int (*real_open)(const char *, int, ...);
static int (*real_open64)(const char *, int, ...);
static ssize_t (*real_read)(int, void *, size_t);
static int (*real_close)(int);
static void (*flush_statistics)(void); /* of PostgreSQL 15 and later */
static struct counters { uint32_t next_oid, oids_logged; } **counters; /* in the server's memory */

/* --- set up ------------------------------------------------------------------------------------ */

static void find_originals(void) {
    if (real_close) return;
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_setitimer = dlsym(RTLD_NEXT, "setitimer");
    real_epoll_wait = dlsym(RTLD_NEXT, "epoll_wait");
    real_poll = dlsym(RTLD_NEXT, "poll");
    real_ppoll = dlsym(RTLD_NEXT, "ppoll");
    real_open = dlsym(RTLD_NEXT, "open");
    real_open64 = dlsym(RTLD_NEXT, "open64");
    real_read = dlsym(RTLD_NEXT, "read");
    real_close = dlsym(RTLD_NEXT, "close");
}

/* Decided before the fork: how soon the child runs is the machine's choice. The server's own
 * processes begin in real time, and were virtual if they came to look at the clock when a schema was
 * being made already. */
static void before_fork(void) { born_virtual = page && page->now_us != 0; }

static void in_child(void) {
    forked = 1;
    mine = NULL;
    settled = is_short = real_timer = 0;
    floor_us = 0;
}

static void map_page(const char *path) {
    int fd = real_open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *there = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    real_close(fd);
    if (there != MAP_FAILED && ((struct page *)there)->magic == MAGIC) page = there;
}

__attribute__((constructor)) static void begin(void) {
    find_originals();
    const char *path = getenv("FORETOLD_PG_PAGE");
    if (path) map_page(path);
    path = getenv("FORETOLD_PG_NOTICES");
    /* For reading too: then opening never waits, and writing never fails for want of a reader. */
    if (path) notices = real_open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    /* Should the guardian be killed, the server must not outlive it. */
    const char *guardian = getenv("FORETOLD_PG_GUARDIAN");
    if (guardian && atoi(guardian) == getppid()) prctl(PR_SET_PDEATHSIG, SIGQUIT);
    flush_statistics = dlsym(RTLD_DEFAULT, "pgstat_force_next_flush");
    counters = dlsym(RTLD_DEFAULT, "TransamVariables"); /* since 17 */
    if (!counters) counters = dlsym(RTLD_DEFAULT, "ShmemVariableCache");
    pthread_atfork(before_fork, NULL, in_child);
}

__attribute__((destructor)) static void end(void) {
    if (mine && mine->pid == getpid()) mine->pid = 0;
}

/* --- the slot of this process ------------------------------------------------------------------ */

static struct slot *take(struct slot *slot, int64_t from, int64_t pid) {
    if (!__sync_bool_compare_and_swap(&slot->pid, from, pid)) return NULL;
    slot->stream = slot->timer_us = slot->sleep_us = slot->is_waiting = 0;
    slot->is_virtual = born_virtual;
    return slot;
}

static void claim(void) {
    int64_t pid = getpid();
    for (int i = 0; i < SLOTS && !mine; i++) {
        struct slot *slot = &page->slots[(pid + i) % SLOTS];
        if (slot->pid == 0 || slot->pid == pid) mine = take(slot, slot->pid, pid);
    }
    for (int i = 0; i < SLOTS && !mine; i++) { /* full: some of them were killed */
        int64_t other = page->slots[i].pid;
        if (kill((pid_t)other, 0) && errno == ESRCH) mine = take(&page->slots[i], other, pid);
    }
}

static void set_next_oid(void);

static int is_virtual(void) {
    if (!page || !forked) return 0;
    if (!mine) { /* also while time is real: the simulator must find the slot later */
        int before = errno;
        claim();
        errno = before;
    }
    if (page->next_oid && page->oid_setter == getpid()) set_next_oid();
    return page->now_us && mine && mine->is_virtual;
}

/* Objects that are made from now on get ids from here on, as in all other runs. PostgreSQL checks
 * each id against those in use. Only done between runs, when nobody else makes any, and by the
 * process of the simulator's own session: another might be slow to do it, and the next run is there. */
static void set_next_oid(void) {
    int64_t wanted = __sync_lock_test_and_set(&page->next_oid, 0);
    if (wanted && counters && *counters) {
        (*counters)->next_oid = (uint32_t)wanted;
        (*counters)->oids_logged = 0;
    }
}

/* --- clocks ------------------------------------------------------------------------------------ */

static int64_t now_us(void) {
    int64_t now = page->now_us;
    return now > floor_us ? now : floor_us;
}

int clock_gettime(clockid_t clock, struct timespec *ts) {
    find_originals();
    /* Statistics are written at the end of a statement, or 10 s later if some were written less than
     * a second ago. That depends on earlier runs, and needs a timer: always write them at once. */
    if (flush_statistics && forked && page) flush_statistics();
    if (clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID || !is_virtual())
        return real_clock_gettime(clock, ts);
    int64_t now = now_us();
    ts->tv_sec = now / 1000000;
    ts->tv_nsec = now % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    struct timespec ts;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &ts);
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return result;
}

time_t time(time_t *where) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    if (where) *where = ts.tv_sec;
    return ts.tv_sec;
}

/* --- timers ------------------------------------------------------------------------------------ */

int setitimer(__itimer_which_t which, const struct itimerval *restrict new,
              struct itimerval *restrict old) {
    find_originals();
    if (which != ITIMER_REAL || !is_virtual()) {
        if (which == ITIMER_REAL) real_timer = new->it_value.tv_sec || new->it_value.tv_usec;
        return real_setitimer(which, new, old);
    }
    int64_t after_us = new->it_value.tv_sec * 1000000LL + new->it_value.tv_usec;
    if (old) memset(old, 0, sizeof *old);
    mine->timer_us = after_us ? now_us() + after_us : 0;
    is_short = after_us == SHORT_US;
    settled = 0;
    set_again = 1;
    return 0;
}

/* PostgreSQL leaves a timer running that it needs no more, and sorts that out when the signal comes.
 * So before this process waits, give it the signal: then timer_us is what it really waits for. If it
 * waits for a lock (`endless`), deadlock_timeout is due: the clock says so to the signal's handler.
 * True if the signal was given: its handler wakes the process, so look again before waiting. */
static int settle_timer(int endless) {
    static const struct itimerval none;
    if (settled || (!real_timer && !mine->timer_us)) return 0;
    if (real_timer) real_setitimer(ITIMER_REAL, &none, NULL);
    if (endless && is_short) floor_us = mine->timer_us;
    real_timer = is_short = set_again = 0;
    raise(SIGALRM);
    /* Not before: who asks meanwhile must not take "not yet known" for "never". */
    if (!set_again) mine->timer_us = 0;
    floor_us = 0;
    settled = 1;
    return 1;
}

/* --- waiting ----------------------------------------------------------------------------------- */

static void fall_asleep(int64_t after_us) {
    int32_t pid = (int32_t)mine->pid;
    if (after_us > 0) mine->sleep_us = now_us() + after_us;
    mine->is_waiting = 1;
    /* If the pipe is full nobody reads it, and there is nobody to tell. */
    if (after_us > 0 && notices >= 0 && write(notices, &pid, sizeof pid) < 0) errno = 0;
}

static int woken(int ready) {
    mine->sleep_us = mine->is_waiting = 0;
    settled = 0;
    return ready;
}

/* All three begin by looking without waiting: what is ready already wakes nobody else. */

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms) {
    find_originals();
    if (timeout_ms == 0 || !is_virtual()) return real_epoll_wait(epfd, events, max, timeout_ms);
    int ready = real_epoll_wait(epfd, events, max, 0);
    if (ready) return woken(ready);
    if (settle_timer(timeout_ms < 0) && (ready = real_epoll_wait(epfd, events, max, 0)))
        return ready;
    fall_asleep(timeout_ms * 1000LL);
    return woken(real_epoll_wait(epfd, events, max, -1));
}

int poll(struct pollfd *fds, nfds_t n, int timeout_ms) {
    find_originals();
    if (timeout_ms == 0 || !is_virtual()) return real_poll(fds, n, timeout_ms);
    int ready = real_poll(fds, n, 0);
    if (ready) return woken(ready);
    if (settle_timer(timeout_ms < 0) && (ready = real_poll(fds, n, 0))) return ready;
    fall_asleep(timeout_ms * 1000LL);
    return woken(real_poll(fds, n, -1));
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask) {
    static const struct timespec at_once;
    find_originals();
    if (!is_virtual()) return real_ppoll(fds, n, limit, mask);
    int ready = real_ppoll(fds, n, &at_once, mask);
    if (ready || (limit && !limit->tv_sec && !limit->tv_nsec)) return woken(ready);
    if (settle_timer(limit == NULL) && (ready = real_ppoll(fds, n, &at_once, mask))) return ready;
    fall_asleep(limit ? limit->tv_sec * 1000000LL + limit->tv_nsec / 1000 : -1);
    return woken(real_ppoll(fds, n, NULL, mask));
}

/* --- randomness -------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static int is_seeded(void) { return page && forked && page->seed; }

static void fill(unsigned char *bytes, size_t n) {
    static uint64_t seedings, stream, count;
    if (!mine) claim();
    uint64_t stream_now = mine ? (uint64_t)mine->stream : 0;
    if (seedings != page->seedings || stream != stream_now) {
        seedings = page->seedings;
        stream = stream_now;
        count = 0;
    }
    while (n) {
        uint64_t word = mixed(mixed(page->seed + mixed(stream)) + ++count);
        size_t part = n < sizeof word ? n : sizeof word;
        memcpy(bytes, &word, part);
        bytes += part;
        n -= part;
    }
}

int RAND_bytes(unsigned char *bytes, int n) {
    static int (*original)(unsigned char *, int);
    if (is_seeded()) {
        fill(bytes, (size_t)n);
        return 1;
    }
    if (!original) original = dlsym(RTLD_NEXT, "RAND_bytes");
    return original ? original(bytes, n) : 0;
}

ssize_t getrandom(void *bytes, size_t n, unsigned flags) {
    static ssize_t (*original)(void *, size_t, unsigned);
    if (is_seeded()) {
        fill(bytes, n);
        return (ssize_t)n;
    }
    if (!original) original = dlsym(RTLD_NEXT, "getrandom");
    return original(bytes, n, flags);
}

int getentropy(void *bytes, size_t n) {
    static int (*original)(void *, size_t);
    if (is_seeded()) {
        fill(bytes, n);
        return 0;
    }
    if (!original) original = dlsym(RTLD_NEXT, "getentropy");
    return original(bytes, n);
}

static int urandom = -1; /* the descriptor of /dev/urandom, while it is open */

static int opened(const char *path, int fd) {
    if (fd >= 0 && strcmp(path, "/dev/urandom") == 0) urandom = fd;
    return fd;
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    find_originals();
    return opened(path, real_open(path, flags, mode));
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    find_originals();
    return opened(path, real_open64(path, flags, mode));
}

ssize_t read(int fd, void *bytes, size_t n) {
    find_originals();
    if (fd != urandom || fd < 0 || !is_seeded()) return real_read(fd, bytes, n);
    fill(bytes, n);
    return (ssize_t)n;
}

ssize_t __read_chk(int fd, void *bytes, size_t n, size_t room) { /* read, in hardened builds */
    if (n > room) abort();
    return read(fd, bytes, n);
}

int close(int fd) {
    find_originals();
    if (fd == urandom) urandom = -1;
    return real_close(fd);
}
