/* A CUDA driver that does nothing but keep the books.

   Two faces: functions of libcuda, which CuPy's module `driver` finds by their names, and functions
   with the names of CuPy's module `runtime` behind `null_`, which installing.py puts in the place of
   CuPy's own. Device memory is an address range of the host; copies copy, a fill fills, a launch is
   counted. A stream knows whether it captures, and refuses then what CUDA refuses.
   Source: NVIDIA, "CUDA C++ Programming Guide", section 3.2.8.7.3.1 (what a capture prohibits), and
   "CUDA Driver API", "CUDA Runtime API" for signatures and error codes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    OUT_OF_RESOURCES = 701,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907
};

/* ------------------------------------------------------------------ the books */

enum { TO_DEVICE, TO_HOST, ON_DEVICE, ON_HOST, FILLS, DIRECTIONS };

struct tally {
    long kernels, library, copies[DIRECTIONS], bytes[DIRECTIONS];
};

/* What Python reads; the order is that of the class Books in counting.py. */
struct books {
    struct tally eager, captured;
    long graphs_launched, nodes_replayed, graphs_made;
    long stream_waits, device_waits, event_waits, copy_waits;
    long allocations, allocated_bytes, pinned_allocations, modules;
} null_books;

struct name {
    char *text;
    int is_library;
    long eager, captured;
};

enum { MOST_NAMES = 1 << 16 };
static struct name names[MOST_NAMES];
static int name_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add(long *count, long more) { __atomic_fetch_add(count, more, __ATOMIC_RELAXED); }

static struct name *interned(const char *text, int is_library) {
    int i;
    pthread_mutex_lock(&lock);
    for (i = 0; i < name_count && strcmp(names[i].text, text); i++) continue;
    if (i == name_count) {
        if (i == MOST_NAMES) abort();
        names[name_count++] = (struct name){strdup(text), is_library, 0, 0};
    }
    pthread_mutex_unlock(&lock);
    return &names[i];
}

int null_name(int i, const char **text, int *is_library, long *eager, long *captured) {
    if (i >= name_count) return 0;
    *text = names[i].text, *is_library = names[i].is_library;
    *eager = names[i].eager, *captured = names[i].captured;
    return 1;
}

void null_forget(void) {
    memset(&null_books, 0, sizeof null_books);
    for (int i = 0; i < name_count; i++) names[i].eager = names[i].captured = 0;
}
