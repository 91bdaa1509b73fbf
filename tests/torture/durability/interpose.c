/* Stands between a process and the C library (LD_PRELOAD), and does something to the Nth operation on files below a
 * directory: every write, sync, rename, link, removal, truncation and creation, whoever asks: Python, LMDB, Arrow.
 * Asked for by tests/torture/durability/interpose.py through `interpose_arm`. Linux, glibc.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, FAIL, FAIL_ON, KILL, KILL_AFTER, TEAR, STOP };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char below[PATH_MAX];
static size_t below_length;
static long chosen;
static int action, error_number, armed;
/* Shared with processes that are forked later: what they have met is read when they are dead. */
static struct { long counted; char reached[PATH_MAX + 64]; } *told;

__attribute__((constructor)) static void share(void) {
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED) abort();
}

/* From now on: the `nth` operation (from 1) below `directory` meets `what`; for failures with this errno. */
void interpose_arm(const char *directory, long nth, int what, int number) {
    snprintf(below, sizeof below, "%s/", directory);
    below_length = strlen(below);
    told->counted = 0;
    chosen = nth;
    action = what;
    error_number = number;
    told->reached[0] = 0;
    armed = 1;
}

void interpose_disarm(void) { armed = 0; }
long interpose_counted(void) { return told->counted; }
/* What the operation was and on which file, "" if there were fewer. */
const char *interpose_reached(void) { return told->reached; }

/* What to do with an operation on a path: NOTHING, FAIL, KILL_AFTER or TEAR; the others are done here. */
static int meet(const char *name, const char *path) {
    if (!armed || strncmp(path, below, below_length) != 0) return NOTHING;
    pthread_mutex_lock(&lock);
    long number = ++told->counted;
    int what = NOTHING;
    if (number == chosen || (action == FAIL_ON && chosen > 0 && number > chosen)) what = action;
    if (number == chosen) snprintf(told->reached, sizeof told->reached, "%s %s", name, path + below_length);
    pthread_mutex_unlock(&lock);
    if (what == KILL) kill(getpid(), SIGKILL);
    if (what == STOP) kill(getpid(), SIGSTOP);
    if (what == FAIL_ON) what = FAIL;
    return what == STOP ? NOTHING : what;
}

static int meet_fd(const char *name, int fd) {
    if (!armed) return NOTHING;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return NOTHING;
    path[length] = 0;
    return meet(name, path);
}

static int meet_at(const char *name, int directory, const char *path) {
    if (!armed) return NOTHING;
    if (path[0] == '/' ) return meet(name, path);
    char whole[2 * PATH_MAX], base[PATH_MAX];
    if (directory == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return NOTHING;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length <= 0) return NOTHING;
        base[length] = 0;
    }
    snprintf(whole, sizeof whole, "%s/%s", base, path);
    return meet(name, whole);
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)
#define AROUND(found, call) \
    do { \
        int met = (found); \
        if (met == FAIL) { errno = error_number; return -1; } \
        __typeof__(call) result = (call); \
        if (met == KILL_AFTER || met == TEAR) kill(getpid(), SIGKILL); \
        return result; \
    } while (0)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    int what = meet_fd("write", fd);
    if (what == TEAR) real(fd, data, size / 2);
    AROUND(what, real(fd, data, what == TEAR ? 0 : size));
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    int what = meet_fd("write", fd);
    AROUND(what, real(fd, data, what == TEAR ? size / 2 : size, offset));
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    int what = meet_fd("write", fd);
    AROUND(what, real(fd, parts, what == TEAR ? count / 2 : count));
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off64_t);
    int what = meet_fd("write", fd);
    AROUND(what, real(fd, parts, what == TEAR ? count / 2 : count, offset));
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return pwritev64(fd, parts, count, offset); }

int fsync(int fd) {
    REAL(int, "fsync", int);
    AROUND(meet_fd("sync", fd), real(fd));
}

int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    AROUND(meet_fd("sync", fd), real(fd));
}

int ftruncate64(int fd, off64_t length) {
    REAL(int, "ftruncate64", int, off64_t);
    AROUND(meet_fd("truncate", fd), real(fd, length));
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
    REAL(int, "fallocate64", int, int, off64_t, off64_t);
    AROUND(meet_fd("hole", fd), real(fd, mode, offset, length));
}
int fallocate(int fd, int mode, off_t offset, off_t length) { return fallocate64(fd, mode, offset, length); }

int rename(const char *old, const char *new) {
    REAL(int, "rename", const char *, const char *);
    AROUND(meet_at("rename", AT_FDCWD, new), real(old, new));
}

int renameat(int from, const char *old, int to, const char *new) {
    REAL(int, "renameat", int, const char *, int, const char *);
    AROUND(meet_at("rename", to, new), real(from, old, to, new));
}

int link(const char *old, const char *new) {
    REAL(int, "link", const char *, const char *);
    AROUND(meet_at("link", AT_FDCWD, new), real(old, new));
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    AROUND(meet_at("link", to, new), real(from, old, to, new, flags));
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    AROUND(meet_at("unlink", AT_FDCWD, path), real(path));
}

int unlinkat(int directory, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    AROUND(meet_at("unlink", directory, path), real(directory, path, flags));
}

int rmdir(const char *path) {
    REAL(int, "rmdir", const char *);
    AROUND(meet_at("rmdir", AT_FDCWD, path), real(path));
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    AROUND(meet_at("mkdir", AT_FDCWD, path), real(path, mode));
}

static mode_t mode_of(int flags, va_list arguments) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0; }

#define CREATES(flags) ((flags) & (O_CREAT | O_TRUNC))
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, #name, const char *, int, ...); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = mode_of(flags, arguments); \
        va_end(arguments); \
        int what = CREATES(flags) ? meet_at("create", AT_FDCWD, path) : NOTHING; \
        AROUND(what, real(path, flags, mode)); \
    }
#define OPENAT(name) \
    int name(int directory, const char *path, int flags, ...) { \
        REAL(int, #name, int, const char *, int, ...); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = mode_of(flags, arguments); \
        va_end(arguments); \
        int what = CREATES(flags) ? meet_at("create", directory, path) : NOTHING; \
        AROUND(what, real(directory, path, flags, mode)); \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
