/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into a server, or into the process that is forked for it, it stands between SQLite and
 * the disk, for the database and its write-ahead log only.
 *
 * UNSYNCED_FOLDER   the data folder, as the kernel names it
 * UNSYNCED_LOG      a file: before every write, what it replaces is noted there, and after every
 *                   sync that it returned. So a test can take back what was never synced, as a
 *                   loss of power would.
 * UNSYNCED_SYNC_US  how many microseconds every sync takes longer: time for a kill to come between
 *                   a write and its sync, which a fast disk hardly leaves.
 * UNSYNCED_TROUBLE  a folder: while it holds a file `full`, writes fail with ENOSPC; while it
 *                   holds `failing`, syncs fail with EIO.
 *
 * Not modelled: names in folders (the files exist before the power goes) and the -shm file, which
 * is memory shared through a file and which a test deletes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE = 1, TRUNCATE = 2, SYNC = 3 };

struct record {
    uint32_t kind;
    uint32_t path_bytes;
    uint64_t number;     /* of this record; for SYNC the last one that the sync covers */
    uint64_t offset;     /* for TRUNCATE the new size */
    uint64_t old_size;
    uint32_t old_bytes;
    uint32_t new_bytes;
};

static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_ftruncate)(int, off64_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder, *trouble;
static int undo_log = -1;
static uint64_t number;
static useconds_t sync_us;

__attribute__((constructor)) static void start(void)
{
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_write = dlsym(RTLD_NEXT, "write");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
}

/* At the first use that follows a fork: it is then that the environment says what to do. */
static void configure(void)
{
    const char *wanted = getenv("UNSYNCED_FOLDER");
    if (!wanted)
        return;
    pthread_mutex_lock(&lock);
    if (!folder) {
        trouble = getenv("UNSYNCED_TROUBLE");
        const char *slowness = getenv("UNSYNCED_SYNC_US");
        sync_us = slowness ? (useconds_t)atoi(slowness) : 0;
        const char *path = getenv("UNSYNCED_LOG");
        if (path)
            undo_log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        __atomic_store_n(&folder, wanted, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

static int has_trouble(const char *name)
{
    char path[PATH_MAX];
    if (!trouble)
        return 0;
    snprintf(path, sizeof path, "%s/%s", trouble, name);
    return access(path, F_OK) == 0;
}

/* The length of the path if the file is one of those watched, else 0. */
static uint32_t watched(int fd, char path[PATH_MAX])
{
    char link[64];
    size_t folder_bytes;
    if (!__atomic_load_n(&folder, __ATOMIC_ACQUIRE))
        configure();
    if (!folder)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, PATH_MAX - 1);
    if (bytes <= 0)
        return 0;
    path[bytes] = 0;
    folder_bytes = strlen(folder);
    if (strncmp(path, folder, folder_bytes) || !strstr(path + folder_bytes, ".db"))
        return 0;
    return strstr(path + folder_bytes, "-shm") ? 0 : (uint32_t)bytes;
}

static void note(const void *bytes, size_t count)
{
    for (const char *at = bytes; count > 0;) {
        ssize_t done = real_write(undo_log, at, count);
        if (done < 0)
            abort();
        at += done;
        count -= (size_t)done;
    }
}

/* Called with the lock held, before the file is changed. */
static void note_change(int fd, const char *path, uint32_t path_bytes, uint32_t kind,
                        off64_t offset, const void *new, size_t new_bytes)
{
    struct stat64 state;
    if (undo_log < 0)
        return;
    if (fstat64(fd, &state))
        abort();
    size_t lost = kind == WRITE ? new_bytes
        : state.st_size > offset ? (size_t)(state.st_size - offset) : 0;
    char *old = malloc(lost + 1);
    ssize_t old_bytes = lost && old ? pread64(fd, old, lost, offset) : 0;
    if (!old || old_bytes < 0)
        abort();
    struct record record = {
        .kind = kind, .path_bytes = path_bytes, .number = ++number, .offset = (uint64_t)offset,
        .old_size = (uint64_t)state.st_size, .old_bytes = (uint32_t)old_bytes,
        .new_bytes = (uint32_t)new_bytes,
    };
    note(&record, sizeof record);
    note(path, path_bytes);
    note(old, (size_t)old_bytes);
    note(new, new_bytes);
    free(old);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset)
{
    char path[PATH_MAX];
    uint32_t path_bytes = watched(fd, path);
    if (!path_bytes)
        return real_pwrite(fd, bytes, count, offset);
    if (has_trouble("full")) {
        errno = ENOSPC;
        return -1;
    }
    /* Held over both: whatever is noted before a sync begins has reached the file before it. */
    pthread_mutex_lock(&lock);
    note_change(fd, path, path_bytes, WRITE, offset, bytes, count);
    ssize_t done = real_pwrite(fd, bytes, count, offset);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    return pwrite64(fd, bytes, count, offset);
}

int ftruncate64(int fd, off64_t size)
{
    char path[PATH_MAX];
    uint32_t path_bytes = watched(fd, path);
    if (!path_bytes)
        return real_ftruncate(fd, size);
    pthread_mutex_lock(&lock);
    note_change(fd, path, path_bytes, TRUNCATE, size, "", 0);
    int outcome = real_ftruncate(fd, size);
    pthread_mutex_unlock(&lock);
    return outcome;
}

int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}

static int sync_with(int (*real_sync)(int), int fd)
{
    char path[PATH_MAX];
    uint32_t path_bytes = watched(fd, path);
    if (!path_bytes)
        return real_sync(fd);
    if (has_trouble("failing")) {
        errno = EIO;
        return -1;
    }
    pthread_mutex_lock(&lock);
    struct record record = { .kind = SYNC, .path_bytes = path_bytes, .number = number };
    pthread_mutex_unlock(&lock);
    usleep(sync_us);
    int outcome = real_sync(fd);
    if (outcome == 0 && undo_log >= 0) {
        pthread_mutex_lock(&lock);
        note(&record, sizeof record);
        note(path, path_bytes);
        pthread_mutex_unlock(&lock);
    }
    return outcome;
}

int fsync(int fd)
{
    return sync_with(real_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_with(real_fdatasync, fd);
}
