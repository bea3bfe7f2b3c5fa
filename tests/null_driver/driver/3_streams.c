/* ------------------------------------------------------------------ streams, events, captures */

struct capture {
    struct stream *origin;
    struct tally nodes;
    int broken;
};

struct stream {
    unsigned flags; /* 1: takes no part in the legacy stream's order */
    int priority;
    struct capture *capture;
    long works, joined; /* how much it has to do in the capture, how much of that the origin saw */
    struct stream *next;
};

struct event {
    struct capture *capture; /* in which it was recorded */
    struct stream *stream;
    long works;
};

struct graph {
    struct tally nodes;
};

static struct stream *streams;
static struct stream legacy = {0}, per_thread = {0};

static struct stream *stream_of(intptr_t handle) {
    if (handle == 0 || handle == 1) return &legacy;
    return handle == 2 ? &per_thread : (struct stream *)handle;
}

/* A capture of a stream that keeps the legacy stream's order, NULL if there is none. */
static struct capture *ordered_capture(void) {
    for (struct stream *s = streams; s; s = s->next)
        if (s->capture && !(s->flags & 1)) return s->capture;
    return NULL;
}

static int any_capture_broken(void) {
    int found = 0;
    for (struct stream *s = streams; s; s = s->next)
        if (s->capture) found = s->capture->broken = 1;
    return found;
}

/* Where work for a stream is noted down: eagerly done, or in a capture. */
static int entered(intptr_t handle, struct tally **where, int *captured) {
    struct stream *s = stream_of(handle);
    *captured = 0, *where = &null_books.eager;
    if (s == &legacy) {
        struct capture *c = ordered_capture();
        if (!c) return SUCCESS;
        c->broken = 1;
        return CAPTURE_IMPLICIT;
    }
    if (!s->capture) return SUCCESS;
    if (s->capture->broken) return CAPTURE_INVALIDATED;
    s->works++;
    *captured = 1, *where = &s->capture->nodes;
    return SUCCESS;
}

static int noted(struct name *name, intptr_t stream) {
    struct tally *where;
    int captured, status = entered(stream, &where, &captured);
    if (status) return status;
    add(name->is_library ? &where->library : &where->kernels, 1);
    if (captured) add(name->is_library ? &null_books.captured.library : &null_books.captured.kernels, 1);
    add(captured ? &name->captured : &name->eager, 1);
    return SUCCESS;
}

/* Called by the libraries that do nothing, and for kernels that come compiled with CuPy. */
int null_library_call(const char *name, intptr_t stream) { return noted(interned(name, 1), stream); }
int null_kernel_call(const char *name, intptr_t stream) { return noted(interned(name, 0), stream); }

static int waited_for(intptr_t handle, long *count) {
    struct stream *s = stream_of(handle);
    if (s == &legacy && ordered_capture()) {
        ordered_capture()->broken = 1;
        return CAPTURE_IMPLICIT;
    }
    if (s->capture) {
        s->capture->broken = 1;
        return CAPTURE_UNSUPPORTED;
    }
    add(count, 1);
    return SUCCESS;
}

static int direction(intptr_t to, intptr_t from) {
    if (on_device(to)) return on_device(from) ? ON_DEVICE : TO_DEVICE;
    return on_device(from) ? TO_HOST : ON_HOST;
}

static int worked(int kind, size_t size, intptr_t stream, int *captured) {
    struct tally *where;
    int status = entered(stream, &where, captured);
    if (status) return status;
    add(&where->copies[kind], 1), add(&where->bytes[kind], (long)size);
    if (*captured)
        add(&null_books.captured.copies[kind], 1), add(&null_books.captured.bytes[kind], (long)size);
    return SUCCESS;
}

static int copied(intptr_t to, intptr_t from, size_t size, intptr_t stream) {
    int captured, status = worked(direction(to, from), size, stream, &captured);
    if (!status && !captured) memmove((void *)to, (void *)from, size);
    return status;
}

static int filled(intptr_t at, int value, size_t size, intptr_t stream) {
    int captured, status = worked(FILLS, size, stream, &captured);
    if (!status && !captured) memset((void *)at, value, size);
    return status;
}
