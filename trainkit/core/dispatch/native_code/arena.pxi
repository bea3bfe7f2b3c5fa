# Memory for arrays that end before the run of a graph that made them.
#
# A new array takes the first piece that is long enough, so a chain of arrays comes back to the same
# few megabytes, which a cache has. malloc's choice depends on what all of the process has freed: a
# network of fifty layers took up to a tenth longer once another library had read a file.
#
# Which arrays these are, the run before has shown: the same arrays are made in the same order. What
# outlasts its run, such as a result, would hold up a piece for as long, and is left to malloc.

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>
    #ifdef __linux__
    #include <sys/mman.h>
    #endif
    #include "pythread.h"

    #define TRAINKIT_LINE ((size_t)64)
    #define TRAINKIT_HUGE ((size_t)1 << 22)
    #define TRAINKIT_ARENA ((size_t)1 << 25)
    #define TRAINKIT_LEAST ((size_t)1 << 12)  /* smaller ones malloc has at hand */
    #define TRAINKIT_PIECES 256
    #define TRAINKIT_COUNTED 2048

    static int trainkit_huge_pages = 0;

    static void trainkit_ask_for_huge_pages(char *memory, size_t size)
    {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (trainkit_huge_pages && size >= TRAINKIT_HUGE) {  /* as NumPy does */
            size_t page = 4096, gap = (page - (uintptr_t)memory % page) % page;
            madvise(memory + gap, size - gap, MADV_HUGEPAGE);
        }
    #endif
    }

    /* Lines of the arena; all pieces are in the order of their addresses, no two free ones beside
       each other. */
    typedef struct { uint32_t first, lines; int is_free; } trainkit_piece;

    static struct {
        char *memory;
        PyThread_type_lock lock;
        int count;
        trainkit_piece pieces[TRAINKIT_PIECES];
    } trainkit_arena;

    static int trainkit_make_arena(void)
    {
        char *block = (char *)malloc(TRAINKIT_ARENA + TRAINKIT_HUGE);
        trainkit_arena.lock = PyThread_allocate_lock();
        if (block == NULL || trainkit_arena.lock == NULL) {
            free(block);
            return 0;
        }
        block = (char *)(((uintptr_t)block + TRAINKIT_HUGE - 1) & ~(uintptr_t)(TRAINKIT_HUGE - 1));
        trainkit_ask_for_huge_pages(block, TRAINKIT_ARENA);
        trainkit_arena.pieces[0].lines = TRAINKIT_ARENA / TRAINKIT_LINE;
        trainkit_arena.pieces[0].is_free = 1;
        trainkit_arena.count = 1;
        trainkit_arena.memory = block;
        return 1;
    }

    /* All pieces from one on, in their table. */
    static void trainkit_move_pieces(int from, int to)
    {
        trainkit_piece *pieces = trainkit_arena.pieces;
        memmove(pieces + to, pieces + from, (trainkit_arena.count - from) * sizeof *pieces);
        trainkit_arena.count += to - from;
    }

    static char *trainkit_take(uint32_t lines)
    {
        trainkit_piece *piece = trainkit_arena.pieces;
        char *taken = NULL;
        int i;
        PyThread_acquire_lock(trainkit_arena.lock, WAIT_LOCK);
        for (i = 0; i < trainkit_arena.count; i++, piece++) {
            if (!piece->is_free || piece->lines < lines) continue;
            if (piece->lines > lines) {
                if (trainkit_arena.count == TRAINKIT_PIECES) continue;
                trainkit_move_pieces(i, i + 1);
                piece[1].first += lines;
                piece[1].lines -= lines;
                piece->lines = lines;
            }
            piece->is_free = 0;
            taken = trainkit_arena.memory + piece->first * TRAINKIT_LINE;
            break;
        }
        PyThread_release_lock(trainkit_arena.lock);
        return taken;
    }

    static void trainkit_give_back(char *taken)
    {
        trainkit_piece *pieces = trainkit_arena.pieces;
        uint32_t first = (uint32_t)((taken - trainkit_arena.memory) / TRAINKIT_LINE);
        int low = 0, high;
        PyThread_acquire_lock(trainkit_arena.lock, WAIT_LOCK);
        high = trainkit_arena.count - 1;
        while (low < high) {
            int middle = (low + high + 1) / 2;
            if (pieces[middle].first <= first) low = middle; else high = middle - 1;
        }
        pieces[low].is_free = 1;
        if (low + 1 < trainkit_arena.count && pieces[low + 1].is_free) {
            pieces[low].lines += pieces[low + 1].lines;
            trainkit_move_pieces(low + 2, low + 1);
        }
        if (low > 0 && pieces[low - 1].is_free) {
            pieces[low - 1].lines += pieces[low].lines;
            trainkit_move_pieces(low + 1, low);
        }
        PyThread_release_lock(trainkit_arena.lock);
    }

    /* A run of a function.

       number: of all runs, from 1 on.
       count: of the arrays that it has asked for.
       lines: for each of them, in their order, how many lines the run before took, 0 where that one
           was left when its run ended.
       now: twice the lines of this run, and 1 more for what is not freed yet. */
    typedef struct trainkit_run {
        struct trainkit_run *outer;
        uint64_t number;
        int is_on;
        uint32_t count, lines[TRAINKIT_COUNTED], now[TRAINKIT_COUNTED];
    } trainkit_run;

    #if defined(_MSC_VER)
    static __declspec(thread) trainkit_run *trainkit_current;
    #else
    static __thread trainkit_run *trainkit_current;
    #endif

    /* Runs begin and end with Python's lock held. One that goes on already, in another thread or
       further out, counts nothing. */
    static int trainkit_begin(trainkit_run *run)
    {
        static uint64_t number = 0;
        if (run->is_on || (trainkit_arena.memory == NULL && !trainkit_make_arena())) return 0;
        run->is_on = 1;
        run->number = ++number;
        run->count = 0;
        run->outer = trainkit_current;
        trainkit_current = run;
        return 1;
    }

    static void trainkit_end(trainkit_run *run)
    {
        uint32_t i;
        for (i = 0; i < run->count; i++) run->lines[i] = run->now[i] & 1 ? 0 : run->now[i] >> 1;
        trainkit_current = run->outer;
        run->is_on = 0;
    }
    """
    ctypedef struct trainkit_run:
        pass
    int trainkit_huge_pages
    bint trainkit_begin(trainkit_run *run)
    void trainkit_end(trainkit_run *run)
