/* Stands between a process and the C library's file calls (LD_PRELOAD): counts those on paths below one directory
   and on descriptors opened there, and at a chosen call kills the process group or makes the call fail.

   What is counted and what is to be done is in a control block in a file that every process of a command maps
   (`stage.py` has the same structure). Without ZARRLIFT_CONTROL, and before `control_begin`, nothing is done. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LOGGED = 64, DESCRIPTORS = 4096, NAME = 256 };

struct failed {
    uint64_t number;
    int32_t error;
    char call[20];
    char path[NAME];
};

struct control {
    char root[NAME];
    _Atomic uint64_t calls, changes; /* so far; changes are those calls that may alter what is stored */
    uint64_t kill_call, kill_change; /* before which one to kill; 0 is never */
    uint64_t seed;
    uint64_t fail_call;              /* this one fails */
    uint64_t full_from;              /* from this one on the disk is full */
    uint32_t share;                  /* of 2^32: how many of all calls fail */
    uint32_t stats;                  /* calls that ask for a file's facts may fail as well */
    _Atomic uint64_t failed;
    struct failed log[LOGGED];
};

static struct control *control;
static char opened[DESCRIPTORS][NAME]; /* path of each watched descriptor; empty for others */
static _Atomic(DIR *) listed[64];

void control_begin(const char *path) {
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) abort();
    void *block = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (block == MAP_FAILED) abort();
    control = block;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("ZARRLIFT_CONTROL");
    if (path) control_begin(path);
}

/* What is watched */

static int below(const char *path) {
    if (!control || !path) return 0;
    size_t length = strlen(control->root);
    return !strncmp(path, control->root, length) && (path[length] == '/' || !path[length]);
}

static const char *of_descriptor(int descriptor) {
    if (!control || descriptor < 0 || descriptor >= DESCRIPTORS || !opened[descriptor][0]) return NULL;
    return opened[descriptor];
}

static const char *at(int directory, const char *path) {
    if (directory == AT_FDCWD || (path && path[0] == '/')) return below(path) ? path : NULL;
    return of_descriptor(directory);
}

static void note(int descriptor, const char *path) {
    if (descriptor < 0 || descriptor >= DESCRIPTORS) return;
    if (path && path != opened[descriptor]) snprintf(opened[descriptor], NAME, "%s", path);
    else if (!path) opened[descriptor][0] = 0;
}

static void note_listed(DIR *directory, int there) {
    for (int i = 0; i < 64; i++) {
        DIR *expected = there ? NULL : directory;
        if (atomic_compare_exchange_strong(&listed[i], &expected, there ? directory : NULL)) return;
    }
}

static int is_listed(DIR *directory) {
    for (int i = 0; i < 64; i++)
        if (listed[i] == directory) return 1;
    return 0;
}

/* What is done at each call */

enum { SHORT = -1 };
static const int OPENS[] = {EIO, EINTR, EMFILE, 0}, CREATES[] = {EIO, EINTR, EMFILE, ENOSPC, 0},
                 READS[] = {EIO, EINTR, SHORT, 0}, WRITES[] = {EIO, EINTR, ENOSPC, SHORT, 0},
                 NAMES[] = {EIO, EINTR, ENOSPC, 0}, REMOVES[] = {EIO, EINTR, 0}, SYNCS[] = {EIO, EINTR, ENOSPC, 0},
                 LISTS[] = {EIO, 0}, FACTS[] = {EIO, 0};

static uint64_t mixed(uint64_t x) { /* splitmix64, https://prng.di.unimi.it/splitmix64.c */
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static int has(const int *errors, int wanted) {
    for (; *errors; errors++)
        if (*errors == wanted) return 1;
    return 0;
}

/* 0 to do the call, SHORT to do a part of it, else the error it fails with. */
static int step(const char *call, const char *path, const int *errors, int changes) {
    if (!path) return 0;
    uint64_t number = atomic_fetch_add(&control->calls, 1) + 1;
    uint64_t change = changes ? atomic_fetch_add(&control->changes, 1) + 1 : 0;
    if (number == control->kill_call || (change && change == control->kill_change)) {
        kill(0, SIGKILL);
        for (;;) pause();
    }
    if (!*errors || (errors == FACTS && !control->stats)) return 0;
    uint64_t drawn = mixed(control->seed ^ mixed(number));
    int error = 0, count = 0;
    while (errors[count]) count++;
    if (control->full_from && number >= control->full_from && has(errors, ENOSPC)) error = ENOSPC;
    else if (number == control->fail_call || (drawn & 0xffffffff) < control->share) error = errors[(drawn >> 32) % count];
    if (!error) return 0;
    struct failed *entry = &control->log[atomic_fetch_add(&control->failed, 1) % LOGGED];
    entry->number = number;
    entry->error = error;
    snprintf(entry->call, sizeof entry->call, "%s", call);
    snprintf(entry->path, sizeof entry->path, "%s", path);
    return error;
}

#define REAL(name) ((__typeof__(&name))({ \
    static void *real; \
    if (!real) real = dlsym(RTLD_NEXT, #name); \
    real; }))
#define TRY(call, path, errors, changes) \
    do { \
        int error_ = step(call, path, errors, changes); \
        if (error_ > 0) { errno = error_; return -1; } \
    } while (0)

/* Opening */

#define OPENED(type, name, declared, given) \
    type name declared { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        const char *seen = WHERE; \
        char name_[NAME]; \
        if (seen) snprintf(name_, NAME, "%s", seen); \
        int writes = flags & (O_CREAT | O_TRUNC); \
        TRY("open", seen, flags & O_CREAT ? CREATES : OPENS, writes); \
        int result = REAL(name) given; \
        note(result, seen ? name_ : NULL); \
        return result; \
    }
#define WHERE (below(path) ? path : NULL)
OPENED(int, open, (const char *path, int flags, ...), (path, flags, mode))
OPENED(int, open64, (const char *path, int flags, ...), (path, flags, mode))
#undef WHERE
#define WHERE at(directory, path)
OPENED(int, openat, (int directory, const char *path, int flags, ...), (directory, path, flags, mode))
OPENED(int, openat64, (int directory, const char *path, int flags, ...), (directory, path, flags, mode))

int close(int descriptor) {
    note(descriptor, NULL);
    return REAL(close)(descriptor);
}

/* Reading and writing */

#define PART(size) ((size) > 1 ? (size_t)(drawn_part() % ((size)-1) + 1) : (size))
static uint64_t drawn_part(void) { return mixed(control->seed + atomic_load(&control->failed)); }

#define MOVED(call, name, buffer_type, errors, changes, extra, given) \
    ssize_t name(int descriptor, buffer_type buffer, size_t size extra) { \
        const char *seen = of_descriptor(descriptor); \
        int error = step(call, seen, errors, changes); \
        if (error > 0) { errno = error; return -1; } \
        if (error == SHORT) size = PART(size); \
        return REAL(name) given; \
    }
#define COMMA ,
MOVED("read", read, void *, READS, 0, , (descriptor, buffer, size))
MOVED("read", pread, void *, READS, 0, COMMA off_t offset, (descriptor, buffer, size, offset))
MOVED("read", pread64, void *, READS, 0, COMMA off64_t offset, (descriptor, buffer, size, offset))
MOVED("write", write, const void *, WRITES, 1, , (descriptor, buffer, size))
MOVED("write", pwrite, const void *, WRITES, 1, COMMA off_t offset, (descriptor, buffer, size, offset))
MOVED("write", pwrite64, const void *, WRITES, 1, COMMA off64_t offset, (descriptor, buffer, size, offset))

#define VECTORED(call, name, errors, changes) \
    ssize_t name(int descriptor, const struct iovec *parts, int count) { \
        const char *seen = of_descriptor(descriptor); \
        int error = step(call, seen, errors, changes); \
        if (error > 0) { errno = error; return -1; } \
        if (error == SHORT && count > 0) { \
            struct iovec first = {parts[0].iov_base, PART(parts[0].iov_len)}; \
            return REAL(name)(descriptor, &first, 1); \
        } \
        return REAL(name)(descriptor, parts, count); \
    }
VECTORED("read", readv, READS, 0)
VECTORED("write", writev, WRITES, 1)

ssize_t copy_file_range(int from, off64_t *start, int to, off64_t *end, size_t size, unsigned flags) {
    const char *seen = of_descriptor(to);
    int error = step("copy_file_range", seen, WRITES, 1);
    if (error > 0) { errno = error; return -1; }
    return REAL(copy_file_range)(from, start, to, end, error == SHORT ? PART(size) : size, flags);
}

#define TRUNCATED(name, type) \
    int name(int descriptor, type size) { \
        TRY("ftruncate", of_descriptor(descriptor), NAMES, 1); \
        return REAL(name)(descriptor, size); \
    }
TRUNCATED(ftruncate, off_t)
TRUNCATED(ftruncate64, off64_t)

#define SYNCED(name) \
    int name(int descriptor) { \
        TRY(#name, of_descriptor(descriptor), SYNCS, 1); \
        return REAL(name)(descriptor); \
    }
SYNCED(fsync)
SYNCED(fdatasync)

/* Names */

int rename(const char *from, const char *to) {
    TRY("rename", below(from) ? from : below(to) ? to : NULL, NAMES, 1);
    return REAL(rename)(from, to);
}
int renameat(int one, const char *from, int other, const char *to) {
    TRY("rename", at(one, from) ? at(one, from) : at(other, to), NAMES, 1);
    return REAL(renameat)(one, from, other, to);
}
int link(const char *from, const char *to) {
    TRY("link", below(from) ? from : below(to) ? to : NULL, NAMES, 1);
    return REAL(link)(from, to);
}
int linkat(int one, const char *from, int other, const char *to, int flags) {
    TRY("link", at(one, from) ? at(one, from) : at(other, to), NAMES, 1);
    return REAL(linkat)(one, from, other, to, flags);
}
int unlink(const char *path) {
    TRY("unlink", below(path) ? path : NULL, REMOVES, 1);
    return REAL(unlink)(path);
}
int unlinkat(int directory, const char *path, int flags) {
    TRY("unlink", at(directory, path), REMOVES, 1);
    return REAL(unlinkat)(directory, path, flags);
}
int rmdir(const char *path) {
    TRY("rmdir", below(path) ? path : NULL, REMOVES, 1);
    return REAL(rmdir)(path);
}
int mkdir(const char *path, mode_t mode) {
    TRY("mkdir", below(path) ? path : NULL, NAMES, 1);
    return REAL(mkdir)(path, mode);
}
int mkdirat(int directory, const char *path, mode_t mode) {
    TRY("mkdir", at(directory, path), NAMES, 1);
    return REAL(mkdirat)(directory, path, mode);
}

/* Directories */

DIR *opendir(const char *path) {
    const char *seen = below(path) ? path : NULL;
    int error = step("opendir", seen, OPENS, 0);
    if (error > 0) { errno = error; return NULL; }
    DIR *result = REAL(opendir)(path);
    if (seen && result) note_listed(result, 1);
    return result;
}
DIR *fdopendir(int descriptor) {
    const char *seen = of_descriptor(descriptor);
    DIR *result = REAL(fdopendir)(descriptor);
    if (seen && result) note_listed(result, 1);
    return result;
}
int closedir(DIR *directory) {
    if (control) {
        note_listed(directory, 0);
        note(dirfd(directory), NULL);
    }
    return REAL(closedir)(directory);
}
#define LISTED(name, type) \
    type *name(DIR *directory) { \
        int error = step("readdir", control && is_listed(directory) ? "a directory" : NULL, LISTS, 0); \
        if (error > 0) { errno = error; return NULL; } \
        return REAL(name)(directory); \
    }
LISTED(readdir, struct dirent)
LISTED(readdir64, struct dirent64)

/* Facts */

#define ASKED(name, type) \
    int name(const char *path, type *facts) { \
        TRY("stat", below(path) ? path : NULL, FACTS, 0); \
        return REAL(name)(path, facts); \
    }
ASKED(stat, struct stat)
ASKED(stat64, struct stat64)
ASKED(lstat, struct stat)
ASKED(lstat64, struct stat64)
#define ASKED_AT(name, type) \
    int name(int directory, const char *path, type *facts, int flags) { \
        TRY("stat", at(directory, path), FACTS, 0); \
        return REAL(name)(directory, path, facts, flags); \
    }
ASKED_AT(fstatat, struct stat)
ASKED_AT(fstatat64, struct stat64)
#define ASKED_OF(name, type) \
    int name(int descriptor, type *facts) { \
        TRY("fstat", of_descriptor(descriptor), FACTS, 0); \
        return REAL(name)(descriptor, facts); \
    }
ASKED_OF(fstat, struct stat)
ASKED_OF(fstat64, struct stat64)
int statx(int directory, const char *restrict path, int flags, unsigned mask, struct statx *restrict facts) {
    TRY("stat", path && !*path ? of_descriptor(directory) : at(directory, path), FACTS, 0);
    return REAL(statx)(directory, path, flags, mask, facts);
}
