/* ------------------------------------------------------------------ libcuda */

struct module {
    char *image;
    size_t size;
};
struct function {
    struct name *name;
    int most_shared;
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
int cuCtxGetDevice(int *device) { return *device = 0, SUCCESS; }
int cuStreamGetCtx(void *stream, void **context) { return cuCtxGetCurrent(context); }

/* The size of an ELF image, whose table of sections comes last; text ends with a zero. */
static size_t image_size(const char *image) {
    uint64_t start;
    uint16_t each, count;
    if (memcmp(image, "\177ELF", 4)) return strlen(image);
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
    char section[4096];
    snprintf(section, sizeof section, ".text.%s", name);
    if (!memmem(m->image, m->size, section, strlen(section) + 1)) return NOT_FOUND;
    *function = malloc(sizeof **function);
    if (!*function) return OUT_OF_MEMORY;
    **function = (struct function){interned(name, 0), 49152};
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
    if ((size_t)bx * by * bz > 1024 || (int)shared > f->most_shared) return INVALID_VALUE;
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
    else if (which == SHARED_BYTES || which == CONST_BYTES || which == LOCAL_BYTES) *value = 0;
    else if (which == REGISTERS) *value = 32;
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
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks_, void *f, int threads, size_t shared) {
    return *blocks_ = threads > 0 ? 2048 / threads : 0, SUCCESS;
}
int cuOccupancyMaxPotentialBlockSize(int *grid, int *block, void *f, void *by_size, size_t shared,
                                     int limit) {
    return *grid = 264, *block = limit ? limit : 1024, SUCCESS;
}
