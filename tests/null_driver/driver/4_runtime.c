/* ------------------------------------------------------------------ CuPy's module `runtime` */

/* CuPy's `check_status`: None for 0, else NULL with a CUDARuntimeError set. */
static void *(*check)(int, int);
extern void *PyLong_FromLong(long);
void null_setup(void *check_status) { check = check_status; }

#define DONE(status) return check((status), 0)
#define GIVEN(status, failed, value) \
    do { \
        int found_ = (status); \
        if (found_) { \
            check(found_, 0); \
            return failed; \
        } \
        return value; \
    } while (0)

/* Each thread works on a device of its own. None reads the memory of another. */
enum { DEVICES = 4 };
static __thread int current_device;

static int device_is_known(int device) {
    return device >= 0 && device < DEVICES ? SUCCESS : INVALID_DEVICE;
}

int null_getDeviceCount(int skip) { return DEVICES; }
int null_getDevice(int skip) { return current_device; }
void *null_setDevice(int device, int skip) {
    int status = device_is_known(device);
    if (!status) current_device = device;
    DONE(status);
}
int null_driverGetVersion(int skip) { return 13000; }
void *null__ensure_context(void) { DONE(SUCCESS); }
int null_deviceCanAccessPeer(int device, int peer, int skip) { return 0; }

/* An H200, as far as CuPy asks. */
static const int attributes[][2] = {
    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152},
    {9, 65536}, {10, 32}, {12, 65536}, {13, 1980000}, {16, 132}, {17, 0}, {18, 0}, {19, 1},
    {20, 0}, {31, 1}, {36, 3201000}, {37, 6144}, {38, 62914560}, {39, 2048}, {40, 3}, {41, 1},
    {75, 9}, {76, 0}, {78, 1}, {79, 1}, {80, 1}, {81, 233472}, {82, 65536}, {83, 1}, {84, 0},
    {88, 1}, {89, 1}, {90, 1}, {91, 1}, {95, 1}, {97, 232448}, {106, 32}, {111, 1024}, {115, 1}};

static int attribute(int which, int *value) {
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i][0] == which) {
            *value = attributes[i][1];
            return SUCCESS;
        }
    return INVALID_VALUE;
}

int null_deviceGetAttribute(int which, int device, int skip) {
    int value = 0, status = device_is_known(device);
    GIVEN(status ? status : attribute(which, &value), -1, value);
}

void *null_deviceSynchronize(int skip) {
    if (any_capture_broken()) DONE(CAPTURE_UNSUPPORTED);
    add(&null_books.device_waits, 1);
    DONE(SUCCESS);
}

intptr_t null_malloc(size_t size, int skip) {
    intptr_t at = 0;
    int status = allocate(size, &at);
    add(&null_books.allocations, 1), add(&null_books.allocated_bytes, (long)size);
    GIVEN(status, 0, at);
}
void *null_free(intptr_t at, int skip) { DONE(at ? release(at) : SUCCESS); }

intptr_t null_hostAlloc(size_t size, unsigned flags, int skip) {
    void *at = malloc(size ? size : 1);
    add(&null_books.pinned_allocations, 1);
    GIVEN(at ? SUCCESS : OUT_OF_MEMORY, 0, (intptr_t)at);
}
void *null_freeHost(intptr_t at, int skip) {
    free((void *)at);
    DONE(SUCCESS);
}

/* A copy without a stream works on the legacy one and waits, but from device to device. */
void *null_memcpy(intptr_t to, intptr_t from, size_t size, int kind, int skip) {
    int status = copied(to, from, size, 0);
    if (!status && direction(to, from) != ON_DEVICE) add(&null_books.copy_waits, 1);
    DONE(status);
}
void *null_memcpyAsync(intptr_t to, intptr_t from, size_t size, int kind, intptr_t stream, int skip) {
    DONE(copied(to, from, size, stream));
}
void *null_memset(intptr_t at, int value, size_t size, int skip) { DONE(filled(at, value, size, 0)); }
void *null_memsetAsync(intptr_t at, int value, size_t size, intptr_t stream, int skip) {
    DONE(filled(at, value, size, stream));
}
int null_pointerGetMemoryType(intptr_t at, int skip) { return on_device(at) ? 2 : 0; }

static intptr_t new_stream(unsigned flags, int priority) {
    struct stream *s = calloc(1, sizeof *s);
    if (!s) abort();
    s->flags = flags, s->priority = priority;
    pthread_mutex_lock(&lock);
    s->next = streams, streams = s;
    pthread_mutex_unlock(&lock);
    return (intptr_t)s;
}
intptr_t null_streamCreate(int skip) { return new_stream(0, 0); }
intptr_t null_streamCreateWithFlags(unsigned flags, int skip) { return new_stream(flags, 0); }
intptr_t null_streamCreateWithPriority(unsigned flags, int priority, int skip) {
    return new_stream(flags, priority);
}
unsigned null_streamGetFlags(intptr_t stream, int skip) { return stream_of(stream)->flags; }
int null_streamGetPriority(intptr_t stream, int skip) { return stream_of(stream)->priority; }
void *null_streamDestroy(intptr_t stream, int skip) {
    struct stream **place = &streams;
    pthread_mutex_lock(&lock);
    while (*place && *place != (struct stream *)stream) place = &(*place)->next;
    if (*place) *place = (*place)->next;
    pthread_mutex_unlock(&lock);
    free((void *)stream);
    DONE(SUCCESS);
}
void *null_streamSynchronize(intptr_t stream, int skip) {
    DONE(waited_for(stream, &null_books.stream_waits));
}
void *null_streamQuery(intptr_t stream, int skip) {
    long none = 0;
    return PyLong_FromLong(waited_for(stream, &none));
}

static int begun(struct stream *s) {
    if (s == &legacy) return CAPTURE_UNSUPPORTED;
    if (s->capture) return INVALID_VALUE;
    struct capture *c = calloc(1, sizeof *c);
    if (!c) abort();
    c->origin = s, s->capture = c, s->works = s->joined = 0;
    return SUCCESS;
}
void *null_streamBeginCapture(intptr_t stream, int skip, void *mode) { DONE(begun(stream_of(stream))); }

static int ended(struct stream *s, intptr_t *graph) {
    struct capture *c = s->capture;
    int status;
    if (!c) return INVALID_VALUE;
    if (c->origin != s) return CAPTURE_UNMATCHED;
    status = c->broken ? CAPTURE_INVALIDATED : SUCCESS;
    for (struct stream *other = streams; other; other = other->next)
        if (other->capture == c) {
            if (!status && other != s && other->joined < other->works) status = CAPTURE_UNJOINED;
            other->capture = NULL;
        }
    s->capture = NULL;
    if (!status) {
        struct graph *made = calloc(1, sizeof *made);
        if (!made) abort();
        made->nodes = c->nodes;
        *graph = (intptr_t)made;
        add(&null_books.graphs_made, 1);
    }
    return status; /* `c` stays: events may point to it */
}
intptr_t null_streamEndCapture(intptr_t stream, int skip) {
    intptr_t graph = 0;
    int status = ended(stream_of(stream), &graph);
    GIVEN(status, 0, graph);
}
int null_streamIsCapturing(intptr_t stream, int skip) {
    struct stream *s = stream_of(stream);
    if (s == &legacy && ordered_capture()) GIVEN(CAPTURE_IMPLICIT, -1, 0);
    if (s->capture && s->capture->broken) GIVEN(CAPTURE_INVALIDATED, -1, 0);
    return s->capture != NULL;
}

static intptr_t new_event(void) {
    struct event *e = calloc(1, sizeof *e);
    if (!e) abort();
    return (intptr_t)e;
}
intptr_t null_eventCreate(int skip) { return new_event(); }
intptr_t null_eventCreateWithFlags(unsigned flags, int skip) { return new_event(); }
void *null_eventDestroy(intptr_t event, int skip) {
    free((void *)event);
    DONE(SUCCESS);
}
void *null_eventRecord(intptr_t event, intptr_t stream, int skip) {
    struct event *e = (struct event *)event;
    struct stream *s = stream_of(stream);
    if (s == &legacy && ordered_capture()) {
        ordered_capture()->broken = 1;
        DONE(CAPTURE_IMPLICIT);
    }
    e->capture = s->capture, e->stream = s, e->works = s->works;
    DONE(SUCCESS);
}
static int event_waited(struct event *e, long *count) {
    if (e->capture && e->stream->capture == e->capture) {
        e->capture->broken = 1;
        return CAPTURED_EVENT;
    }
    add(count, 1);
    return SUCCESS;
}
void *null_eventSynchronize(intptr_t event, int skip) {
    DONE(event_waited((struct event *)event, &null_books.event_waits));
}
void *null_eventQuery(intptr_t event, int skip) {
    long none = 0;
    return PyLong_FromLong(event_waited((struct event *)event, &none));
}
float null_eventElapsedTime(intptr_t start, intptr_t end, int skip) {
    struct event *first = (struct event *)start, *last = (struct event *)end;
    GIVEN(first->stream && last->stream ? SUCCESS : INVALID_HANDLE, 0, 1.0f);
}
static int joined(struct stream *s, struct event *e) {
    struct capture *theirs = e->capture && e->stream->capture == e->capture ? e->capture : NULL;
    if (!theirs) {
        if (!s->capture || !e->stream) return SUCCESS;
        s->capture->broken = 1;
        return CAPTURE_ISOLATION;
    }
    if (s->capture && s->capture != theirs) {
        s->capture->broken = theirs->broken = 1;
        return CAPTURE_MERGE;
    }
    if (!s->capture) s->capture = theirs, s->works = s->joined = 0;
    if (s == theirs->origin && e->works > e->stream->joined) e->stream->joined = e->works;
    return SUCCESS;
}
void *null_streamWaitEvent(intptr_t stream, intptr_t event, int skip, void *flags) {
    struct stream *s = stream_of(stream);
    DONE(s == &legacy && ordered_capture() ? CAPTURE_IMPLICIT : joined(s, (struct event *)event));
}

intptr_t null_graphInstantiate(intptr_t graph, int skip) {
    struct graph *made = malloc(sizeof *made);
    if (!made) abort();
    *made = *(struct graph *)graph;
    return (intptr_t)made;
}
void *null_graphDestroy(intptr_t graph, int skip) {
    free((void *)graph);
    DONE(SUCCESS);
}
void *null_graphExecDestroy(intptr_t graph, int skip) {
    free((void *)graph);
    DONE(SUCCESS);
}
void *null_graphUpload(intptr_t graph, intptr_t stream, int skip) { DONE(SUCCESS); }
void *null_graphLaunch(intptr_t graph, intptr_t stream, int skip) {
    struct tally *where, *nodes = &((struct graph *)graph)->nodes;
    int captured, status = entered(stream, &where, &captured);
    if (!status) {
        add(&null_books.graphs_launched, 1);
        add(&null_books.nodes_replayed, nodes->kernels + nodes->library);
        for (int i = 0; i < DIRECTIONS; i++) add(&null_books.nodes_replayed, nodes->copies[i]);
    }
    DONE(status);
}
