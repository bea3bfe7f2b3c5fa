/* ------------------------------------------------------------------ libcuda */

struct module {
    char *image;
    size_t size;
};
enum { MOST_PARAMETERS = 1024, SYSTEM_SHARED = 1024 /* of each block, from 8.0 on */ };
struct function {
    struct name *name;
    int most_shared, shared, registers, stack; /* the last two of each thread, the stack in bytes */
    int parameters, sizes[MOST_PARAMETERS];
};

int cuGetErrorName(int status, const char **text) {
    static __thread char buffer[32];
    snprintf(buffer, sizeof buffer, "CUDA_ERROR_%d", status);
    *text = buffer;
    return SUCCESS;
}
int cuGetErrorString(int status, const char **text) {
    *text = "said by the driver that does nothing";
    return SUCCESS;
}
int cuCtxGetCurrent(void **context) { return *context = &null_books, SUCCESS; }
int cuCtxSetCurrent(void *context) { return SUCCESS; }
int cuCtxGetDevice(int *device) { return *device = current_device, SUCCESS; }
int cuStreamGetCtx(void *stream, void **context) { return cuCtxGetCurrent(context); }

/* ELF, as far as a cubin needs it: a table of sections, their names in one of them. */
struct section {
    uint32_t name, kind;
    uint64_t flags, address, offset, size;
    uint32_t link, info;
    uint64_t alignment, each;
};

static int is_elf(const char *image) { return !memcmp(image, "\177ELF", 4); }

static const struct section *section(const struct module *m, unsigned i) {
    uint64_t start;
    uint16_t each, count;
    memcpy(&start, m->image + 40, 8), memcpy(&each, m->image + 58, 2);
    memcpy(&count, m->image + 60, 2);
    return i < count ? (const struct section *)(m->image + start + (size_t)i * each) : NULL;
}

static const char *section_name(const struct module *m, const struct section *s) {
    uint16_t names_at;
    memcpy(&names_at, m->image + 62, 2);
    return m->image + section(m, names_at)->offset + s->name;
}

static const struct section *section_called(const struct module *m, const char *before,
                                            const char *name) {
    const struct section *s;
    size_t length = strlen(before);
    if (!is_elf(m->image)) return NULL;
    for (unsigned i = 0; (s = section(m, i)); i++) {
        const char *found = section_name(m, s);
        if (!strncmp(found, before, length) && !strcmp(found + length, name)) return s;
    }
    return NULL;
}

static const char *symbol(const struct module *m, uint32_t i) {
    const struct section *symbols = section_called(m, ".symtab", "");
    uint32_t name;
    memcpy(&name, m->image + symbols->offset + 24 * (size_t)i, 4);
    return m->image + section(m, symbols->link)->offset + name;
}

/* What the compiler notes down of a kernel; `.nv.info` has a list of attributes, each of 4 bytes
   (a format, which one, a size) and, in format 4, of so many more: here a symbol and a number. */
enum { NOTE_REGISTERS = 0x2f, NOTE_STACK = 0x11 };
static uint32_t noted_of(const struct module *m, const char *kernel, int which) {
    const struct section *notes = section_called(m, ".nv.info", "");
    if (!notes) return 0;
    for (size_t at = notes->offset; at + 4 <= notes->offset + notes->size;) {
        const unsigned char *note = (const unsigned char *)m->image + at;
        uint16_t size = (uint16_t)(note[2] | note[3] << 8);
        uint32_t pair[2] = {0, 0};
        at += 4 + (note[0] == 4 ? size : 0);
        if (note[0] != 4 || note[1] != which || size < 8) continue;
        memcpy(pair, note + 4, 8);
        if (!strcmp(symbol(m, pair[0]), kernel)) return pair[1];
    }
    return 0;
}

/* How many parameters a kernel has, and the bytes of each: `.nv.info.` and its name has notes of
   which one, which place and, in the upper bits of the last word, which size. */
enum { NOTE_PARAMETER = 0x17 };
static int parameters_of(const struct module *m, const char *kernel, int *sizes) {
    const struct section *notes = section_called(m, ".nv.info.", kernel);
    int count = 0;
    if (!notes) return 0;
    for (size_t at = notes->offset; at + 4 <= notes->offset + notes->size;) {
        const unsigned char *note = (const unsigned char *)m->image + at;
        uint16_t size = (uint16_t)(note[2] | note[3] << 8), place;
        uint32_t last;
        at += 4 + (note[0] == 4 ? size : 0);
        if (note[0] != 4 || note[1] != NOTE_PARAMETER || size < 12) continue;
        memcpy(&place, note + 8, 2), memcpy(&last, note + 12, 4);
        if (place >= MOST_PARAMETERS) return -1;
        sizes[place] = (int)(last >> 18);
        count = place + 1 > count ? place + 1 : count;
    }
    return count;
}

/* What is known of a loaded function, for Python. */
int null_function(const struct function *f, int *registers, int *stack, int *shared, int *sizes) {
    *registers = f->registers, *stack = f->stack, *shared = f->shared;
    memcpy(sizes, f->sizes, sizeof f->sizes);
    return f->parameters;
}

/* The table of sections comes last; text ends with a zero. */
static size_t image_size(const char *image) {
    uint64_t start;
    uint16_t each, count;
    if (!is_elf(image)) return strlen(image) + 1;
    memcpy(&start, image + 40, 8), memcpy(&each, image + 58, 2), memcpy(&count, image + 60, 2);
    size_t end = start + (size_t)each * count, programs;
    memcpy(&start, image + 32, 8), memcpy(&each, image + 54, 2), memcpy(&count, image + 56, 2);
    programs = start + (size_t)each * count;
    return end > programs ? end : programs;
}

int cuModuleLoadData(void **module, const char *image) {
    struct module *m = malloc(sizeof *m);
    if (!m) return OUT_OF_MEMORY;
    m->size = image_size(image);
    m->image = malloc(m->size);
    if (!m->image) abort();
    memcpy(m->image, image, m->size);
    add(&null_books.modules, 1);
    *module = m;
    return SUCCESS;
}
int cuModuleUnload(struct module *m) {
    free(m->image);
    free(m);
    return SUCCESS;
}
int cuModuleGetFunction(struct function **function, struct module *m, const char *name) {
    const struct section *shared = section_called(m, ".nv.shared.", name);
    if (!section_called(m, ".text.", name)) return NOT_FOUND;
    *function = malloc(sizeof **function);
    if (!*function) return OUT_OF_MEMORY;
    (*function)->name = interned(name, 0);
    (*function)->most_shared = 49152;
    (*function)->shared = shared ? (int)shared->size - SYSTEM_SHARED : 0;
    (*function)->registers = (int)noted_of(m, name, NOTE_REGISTERS);
    (*function)->stack = (int)noted_of(m, name, NOTE_STACK);
    (*function)->parameters = parameters_of(m, name, (*function)->sizes);
    return SUCCESS;
}
int cuModuleGetGlobal(intptr_t *at, size_t *size, struct module *m, const char *name) {
    *size = 1 << 16;
    return memmem(m->image, m->size, name, strlen(name) + 1) ? allocate(*size, at) : NOT_FOUND;
}
int cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared, intptr_t stream, void **parameters,
                   void **extra) {
    if (!gx || !gy || !gz || gx > 2147483647u || gy > 65535 || gz > 65535) return INVALID_VALUE;
    if (!bx || !by || !bz || bx > 1024 || by > 1024 || bz > 64) return INVALID_VALUE;
    if ((size_t)bx * by * bz > 1024 || (int)shared + f->shared > f->most_shared)
        return INVALID_VALUE;
    /* registers go to warps of 32 threads, 8 for each thread at a time */
    if (((size_t)bx * by * bz + 31) / 32 * 32 * ((f->registers + 7) / 8 * 8) > 65536)
        return OUT_OF_RESOURCES;
    return noted(f->name, stream);
}
int cuLaunchCooperativeKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz,
                              unsigned bx, unsigned by, unsigned bz, unsigned shared,
                              intptr_t stream, void **parameters) {
    return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, NULL);
}
enum { MOST_THREADS, SHARED_BYTES, CONST_BYTES, LOCAL_BYTES, REGISTERS, DYNAMIC_SHARED = 8 };
int cuFuncGetAttribute(int *value, int which, struct function *f) {
    if (which == MOST_THREADS) *value = 1024;
    else if (which == DYNAMIC_SHARED) *value = f->most_shared;
    else if (which == SHARED_BYTES) *value = f->shared;
    else if (which == CONST_BYTES) *value = 0;
    else if (which == LOCAL_BYTES) *value = f->stack;
    else if (which == REGISTERS) *value = f->registers;
    else return INVALID_VALUE;
    return SUCCESS;
}
int cuFuncSetAttribute(struct function *f, int which, int value) {
    if (which == DYNAMIC_SHARED) {
        if (value > 232448) return INVALID_VALUE;
        f->most_shared = value;
    }
    return SUCCESS;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *fitting, struct function *f, int threads,
                                                size_t shared) {
    int by_threads = threads > 0 ? 2048 / threads : 0;
    int by_registers = threads > 0 && f->registers ? 65536 / (threads * f->registers) : by_threads;
    size_t each = shared + (size_t)f->shared + SYSTEM_SHARED;
    int by_shared = (int)(233472 / each);
    *fitting = by_threads < by_registers ? by_threads : by_registers;
    if (by_shared < *fitting) *fitting = by_shared;
    return SUCCESS;
}
int cuOccupancyMaxPotentialBlockSize(int *grid, int *block, void *f, void *by_size, size_t shared,
                                     int limit) {
    return *grid = 264, *block = limit ? limit : 1024, SUCCESS;
}
