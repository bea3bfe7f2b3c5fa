/* ------------------------------------------------------------------ device memory */

/* Free blocks wait in a list, each with its head in the space that holds the sizes of all. */
enum { UNIT = 512 };
#define ARENA ((size_t)64 << 30)
#define TOTAL ((size_t)140 << 30)
struct block {
    char *at;
    size_t size;
    int is_free;
};
static char *arena;
static size_t arena_used, arena_held;
static struct block *blocks;
static size_t block_count, block_room;

static int on_device(intptr_t at) {
    return arena && (char *)at >= arena && (char *)at < arena + ARENA;
}

static int allocate(size_t size, intptr_t *at) {
    size_t i, wanted = (size + UNIT - 1) / UNIT * UNIT;
    int status = OUT_OF_MEMORY;
    wanted = wanted ? wanted : UNIT;
    pthread_mutex_lock(&lock);
    if (!arena) {
        int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *got = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, how, -1, 0);
        arena = got == MAP_FAILED ? NULL : got;
    }
    for (i = 0; i < block_count; i++)
        if (blocks[i].is_free && blocks[i].size == wanted) break;
    if (i == block_count && arena && wanted <= ARENA - arena_used) {
        if (block_count == block_room) {
            block_room = 2 * block_room + 64;
            blocks = realloc(blocks, block_room * sizeof *blocks);
            if (!blocks) abort();
        }
        blocks[block_count++] = (struct block){arena + arena_used, wanted, 1};
        arena_used += wanted;
    }
    if (i < block_count) {
        blocks[i].is_free = 0;
        arena_held += wanted;
        *at = (intptr_t)blocks[i].at;
        status = SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static int release(intptr_t at) {
    int status = INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < block_count; i++)
        if (blocks[i].at == (char *)at && !blocks[i].is_free) {
            uintptr_t page = 4096, from = ((uintptr_t)at + page - 1) & ~(page - 1);
            uintptr_t to = ((uintptr_t)at + blocks[i].size) & ~(page - 1);
            if (to > from) madvise((void *)from, to - from, MADV_DONTNEED);
            blocks[i].is_free = 1;
            arena_held -= blocks[i].size;
            status = SUCCESS;
        }
    pthread_mutex_unlock(&lock);
    return status;
}

void null_memory(size_t *free_bytes, size_t *total) {
    *total = TOTAL;
    *free_bytes = TOTAL - arena_held;
}

int null_is_on_device(intptr_t at) { return on_device(at); }
