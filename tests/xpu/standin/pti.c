/* The fake PTI: views that are enabled, a buffer for each thread, and a thread that returns buffers. */
#include "standin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_RECORD 192u

enum { SUCCESS, END_OF_BUFFER, NOT_IMPLEMENTED, BAD_ARGUMENT, NO_CALLBACKS, QUEUE_EMPTY };

typedef void request_fn(unsigned char **, size_t *);
typedef void complete_fn(unsigned char *, size_t, size_t);
typedef uint64_t clock_fn(void);

/* ---- the script -------------------------------------------------------------------------------- */

static const char *find_word(const char *name)
{
    const char *text = getenv("CKINETO_XPU_STANDIN");
    size_t size = strlen(name);
    while (text && *text) {
        if (strncmp(text, name, size) == 0 && text[size] == '=')
            return text + size + 1;
        text = strchr(text, ' ');
        text += text != NULL;
    }
    return NULL;
}

static long number(const char *name, long otherwise)
{
    const char *word = find_word(name);
    return word ? strtol(word, NULL, 10) : otherwise;
}

static long version(void) { return number("version", 1002); }

/* The status that the script sets for this call; 0: none. */
static int scripted(const char *function)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static long calls;
    const char *word = find_word("fail");
    size_t size = strlen(function);
    int status = 0;
    if (!word || strncmp(word, function, size) != 0 || word[size] != ':')
        return 0;
    char *end;
    long wanted = strtol(word + size + 1, &end, 10), only = *end == ':' ? strtol(end + 1, NULL, 10) : 0;
    pthread_mutex_lock(&lock);
    calls++;
    if (!only || only == calls)
        status = (int)wanted;
    pthread_mutex_unlock(&lock);
    return status;
}

#define SCRIPTED(name)                                                                             \
    do {                                                                                           \
        int status_ = scripted(name);                                                              \
        if (status_)                                                                               \
            return status_;                                                                        \
        if (number("gpus", 2) == 0)                                                                \
            return NOT_IMPLEMENTED;                                                                \
    } while (0)

/* ---- state ------------------------------------------------------------------------------------- */

typedef struct thread_buffer {
    uint32_t thread;
    unsigned char *memory;
    size_t size, used;
    struct thread_buffer *next;
} thread_buffer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static thread_buffer *buffers, *filled, **filled_end = &filled;
static size_t in_work; /* filled ones that are being returned */
static request_fn *request;
static complete_fn *complete;
static uint32_t enabled;
static uint64_t correlations;

static uint64_t read_realtime(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static clock_fn *clock_now = read_realtime;

static uint32_t thread_id(void) { return (uint32_t)syscall(SYS_gettid); }

/* ---- buffers ----------------------------------------------------------------------------------- */

static void *return_buffers(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!filled)
            pthread_cond_wait(&changed, &lock);
        thread_buffer *b = filled;
        filled = b->next;
        if (!filled)
            filled_end = &filled;
        complete_fn *fn = complete;
        in_work++;
        pthread_mutex_unlock(&lock);
        fn(b->memory, b->size, b->used);
        free(b);
        pthread_mutex_lock(&lock);
        in_work--;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

/* The lock is held. */
static void hand_over(thread_buffer *b)
{
    static int has_thread;
    thread_buffer *copy = malloc(sizeof *copy);
    pthread_t thread;
    *copy = *b;
    copy->next = NULL;
    *filled_end = copy;
    filled_end = &copy->next;
    b->memory = NULL;
    if (!has_thread) {
        has_thread = 1;
        pthread_create(&thread, NULL, return_buffers, NULL);
        pthread_detach(thread);
    }
    pthread_cond_broadcast(&changed);
}

static thread_buffer *buffer_of(uint32_t thread)
{
    thread_buffer *b = buffers;
    while (b && b->thread != thread)
        b = b->next;
    if (b)
        return b;
    b = calloc(1, sizeof *b);
    b->thread = thread;
    b->next = buffers;
    return buffers = b;
}

static void insert_record(uint32_t thread, const void *record, size_t size)
{
    pthread_mutex_lock(&lock);
    thread_buffer *b = buffer_of(thread);
    if (!b->memory) {
        request(&b->memory, &b->size);
        b->used = 0;
        if (!b->memory || b->size < MAX_RECORD)
            abort(); /* PTI would write to it nevertheless */
    }
    memcpy(b->memory + b->used, record, size);
    b->used += size;
    if (b->size - b->used < MAX_RECORD)
        hand_over(b);
    pthread_mutex_unlock(&lock);
}

static int is_enabled(uint32_t view) { return (int)(__atomic_load_n(&enabled, __ATOMIC_ACQUIRE) >> view & 1); }

/* ---- PTI's functions ---------------------------------------------------------------------------- */

typedef struct si_version {
    uint32_t major, minor, patch;
} si_version;

API si_version ptiVersion(void);
si_version ptiVersion(void)
{
    return (si_version){(uint32_t)(version() / 1000), (uint32_t)(version() % 1000), 0};
}

API int ptiViewSetCallbacks(request_fn *r, complete_fn *c);
int ptiViewSetCallbacks(request_fn *r, complete_fn *c)
{
    unsigned char *memory = NULL;
    size_t size = 0;
    SCRIPTED("ptiViewSetCallbacks");
    if (!r || !c)
        return BAD_ARGUMENT;
    r(&memory, &size);
    if (!memory || size < MAX_RECORD) {
        c(memory, size, 0);
        return BAD_ARGUMENT;
    }
    pthread_mutex_lock(&lock);
    request = r;
    complete = c;
    thread_buffer *b = buffer_of(thread_id());
    if (b->memory)
        hand_over(b); /* to the new user */
    b->memory = memory;
    b->size = size;
    b->used = 0;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

API int ptiViewEnable(int view);
int ptiViewEnable(int view)
{
    char name[40];
    snprintf(name, sizeof name, "ptiViewEnable_%d", view);
    SCRIPTED(name);
    SCRIPTED("ptiViewEnable");
    if (!request)
        return NO_CALLBACKS;
    if (view == VIEW_CPU)
        return NOT_IMPLEMENTED;
    if (view <= 0 || view >= VIEWS || (view == VIEW_SYNC && version() < 12) ||
        (view == VIEW_COMMS && version() < 17))
        return BAD_ARGUMENT;
    __atomic_fetch_or(&enabled, 1u << view, __ATOMIC_ACQ_REL);
    return SUCCESS;
}

API int ptiViewDisable(int view);
int ptiViewDisable(int view)
{
    SCRIPTED("ptiViewDisable");
    __atomic_fetch_and(&enabled, ~(1u << view), __ATOMIC_ACQ_REL);
    return SUCCESS;
}

API int ptiViewGPULocalAvailable(void);
int ptiViewGPULocalAvailable(void)
{
    SCRIPTED("ptiViewGPULocalAvailable");
    return SUCCESS;
}

API int ptiFlushAllViews(void);
int ptiFlushAllViews(void)
{
    SCRIPTED("ptiFlushAllViews");
    pthread_mutex_lock(&lock);
    for (thread_buffer *b = buffers; b && !number("keep", 0); b = b->next)
        if (b->memory)
            hand_over(b);
    while (filled || in_work)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

static size_t record_size(uint32_t kind)
{
    size_t tail = version() >= 1000 ? 16 : 0;
    const size_t sizes[VIEWS] = {[VIEW_KERNEL] = sizeof(si_kernel_v2) - 16 + tail,
                                 [VIEW_DRIVER] = sizeof(si_api),
                                 [VIEW_OVERHEAD] = sizeof(si_overhead),
                                 [VIEW_RUNTIME] = sizeof(si_api),
                                 [VIEW_EXTERNAL] = sizeof(si_external),
                                 [VIEW_COPY] = sizeof(si_copy_v2) - 16 + tail,
                                 [VIEW_FILL] = sizeof(si_fill_v2) - 16 + tail,
                                 [VIEW_P2P] = sizeof(si_p2p_v2) - (tail ? 0 : 24),
                                 [VIEW_SYNC] = sizeof(si_sync),
                                 [VIEW_COMMS] = sizeof(si_comms)};
    return kind < VIEWS ? sizes[kind] : 64;
}

/* The size of a cut kernel is in its padding. */
API int ptiViewGetNextRecord(unsigned char *buffer, size_t used, unsigned char **record);
int ptiViewGetNextRecord(unsigned char *buffer, size_t used, unsigned char **record)
{
    uint32_t kind, pad;
    SCRIPTED("ptiViewGetNextRecord");
    if (!record)
        return BAD_ARGUMENT;
    if (!*record) {
        *record = buffer;
        return used ? SUCCESS : END_OF_BUFFER;
    }
    memcpy(&kind, *record, 4);
    memcpy(&pad, *record + 4, 4);
    unsigned char *next = *record + (kind == VIEW_KERNEL && pad ? pad : record_size(kind));
    if (next >= buffer + used)
        return END_OF_BUFFER;
    *record = next;
    return SUCCESS;
}

/* ---- operators ----------------------------------------------------------------------------------- */

#define KINDS 6u
static _Thread_local struct {
    uint64_t ids[64];
    unsigned depth;
} operators[KINDS];

API int ptiViewPushExternalCorrelationId(int kind, uint64_t id);
int ptiViewPushExternalCorrelationId(int kind, uint64_t id)
{
    SCRIPTED("ptiViewPushExternalCorrelationId");
    if (kind < 0 || (unsigned)kind >= KINDS)
        return BAD_ARGUMENT;
    if (operators[kind].depth < 64)
        operators[kind].ids[operators[kind].depth] = id;
    operators[kind].depth++;
    return SUCCESS;
}

API int ptiViewPopExternalCorrelationId(int kind, uint64_t *id);
int ptiViewPopExternalCorrelationId(int kind, uint64_t *id)
{
    SCRIPTED("ptiViewPopExternalCorrelationId");
    if (kind < 0 || (unsigned)kind >= KINDS || !operators[kind].depth)
        return QUEUE_EMPTY;
    operators[kind].depth--;
    if (id && operators[kind].depth < 64)
        *id = operators[kind].ids[operators[kind].depth];
    return SUCCESS;
}

static void insert_operators(uint32_t correlation)
{
    for (unsigned k = 0; k < KINDS && is_enabled(VIEW_EXTERNAL); k++) {
        si_external r = {VIEW_EXTERNAL, correlation, 0, k, 0};
        if (!operators[k].depth)
            continue;
        r.id = operators[k].ids[(operators[k].depth < 64 ? operators[k].depth : 64) - 1];
        insert_record(thread_id(), &r, sizeof r);
    }
}

/* ---- the clock and names --------------------------------------------------------------------------- */

API int ptiViewSetTimestampCallback(clock_fn *fn);
int ptiViewSetTimestampCallback(clock_fn *fn)
{
    SCRIPTED("ptiViewSetTimestampCallback");
    if (number("utc", 0))
        return NOT_IMPLEMENTED;
    __atomic_store_n(&clock_now, fn, __ATOMIC_RELEASE);
    return SUCCESS;
}

static uint64_t now(void) { return __atomic_load_n(&clock_now, __ATOMIC_ACQUIRE)(); }

static const char *const sycl_calls[CALLS] = {"urEnqueueKernelLaunch", "urEnqueueUSMMemcpy",
                                              "urEnqueueUSMFill", "urQueueFinish", "urUSMDeviceAlloc"};
static const char *const driver_calls[CALLS] = {
    "zeCommandListAppendLaunchKernel", "zeCommandListAppendMemoryCopy", "zeCommandListAppendMemoryFill",
    "zeCommandQueueSynchronize", "zeMemAllocDevice"};

API int ptiViewGetApiIdName(int group, uint32_t api, const char **name);
int ptiViewGetApiIdName(int group, uint32_t api, const char **name)
{
    SCRIPTED("ptiViewGetApiIdName");
    if (api >= CALLS || (group != 1 && group != 3))
        return BAD_ARGUMENT;
    *name = group == 3 ? sycl_calls[api] : driver_calls[api];
    return SUCCESS;
}

static int only_work;
API int ptiViewEnableRuntimeApiClass(uint32_t enable, int class, int group);
int ptiViewEnableRuntimeApiClass(uint32_t enable, int class, int group)
{
    SCRIPTED("ptiViewEnableRuntimeApiClass");
    (void)class;
    (void)group;
    only_work = (int)enable;
    return SUCCESS;
}

API const char *ptiResultTypeToString(int status);
const char *ptiResultTypeToString(int status)
{
    return status == NOT_IMPLEMENTED ? "PTI_ERROR_NOT_IMPLEMENTED" : "PTI_ERROR_INTERNAL";
}

/* ---- what the fake SYCL does ------------------------------------------------------------------------ */

uint32_t si_begin_call(uint64_t *start)
{
    *start = now();
    return (uint32_t)__atomic_add_fetch(&correlations, 1, __ATOMIC_RELAXED);
}

static void insert_call(uint32_t view, uint32_t group, si_call call, uint32_t correlation, uint64_t start)
{
    uint32_t thread = thread_id();
    if (!is_enabled(view))
        return;
    if (version() < 11 && view == VIEW_RUNTIME) {
        si_named_call r = {VIEW_RUNTIME, 0, sycl_calls[call], start, now(), (uint32_t)getpid(), thread,
                           correlation, 0};
        insert_record(thread, &r, sizeof r);
    } else if (version() >= 11) {
        si_api r = {view, 0, start, now(), group, (uint32_t)call, (uint32_t)getpid(), thread, correlation, 0};
        insert_record(thread, &r, sizeof r);
    }
}

void si_end_call(si_call call, uint32_t correlation, uint64_t start)
{
    insert_call(VIEW_DRIVER, 1, call, correlation, start);
    if (!number("plain", 0) && (!only_work || call != CALL_WAIT))
        insert_call(VIEW_RUNTIME, 3, call, correlation, start);
    if (call == CALL_WAIT && is_enabled(VIEW_SYNC)) {
        si_sync r = {.kind = VIEW_SYNC, .type = 6, .context = &enabled, .queue = &lock, .start = start,
                     .end = now(), .thread = thread_id(), .correlation = correlation, .api = CALL_WAIT,
                     .group = 1};
        insert_record(r.thread, &r, sizeof r);
    }
    insert_operators(correlation);
}

/* ---- work ------------------------------------------------------------------------------------------- */

typedef struct pending_work {
    si_work work;
    uint64_t append;
    struct pending_work *next;
} pending_work;

static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pending_work *pending, **pending_end = &pending;
static uint64_t device_time, works; /* until when the device is busy */

void si_add_work(const si_work *work)
{
    pending_work *w = malloc(sizeof *w);
    *w = (pending_work){*work, now(), NULL};
    w->work.thread = thread_id();
    pthread_mutex_lock(&work_lock);
    *pending_end = w;
    pending_end = &w->next;
    pthread_mutex_unlock(&work_lock);
}

static int is_nth(const char *name, uint64_t n)
{
    long every = number(name, 0);
    return every > 0 && n % (uint64_t)every == 0;
}

static uint64_t sycl_queue(const si_work *w) { return number("plain", 0) ? UINT64_MAX - 1 : w->queue; }
static void *queue_of(const si_work *w) { return (void *)(uintptr_t)(0x1000 + 16 * w->queue); }

/* As in PTI, each record has a text of its own, which stays. */
static const char *copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

static void insert_kernel(const pending_work *p, uint64_t start, uint64_t end)
{
    static uint64_t kernels;
    const si_work *w = &p->work;
    uint64_t n = ++kernels;
    si_kernel_v2 r = {.kind = is_nth("unknown", n) ? 77 : VIEW_KERNEL, .queue = queue_of(w), .context = &lock,
                      .name = is_nth("nameless", n) ? NULL : copy_text(w->name), .id = n, .correlation = w->correlation,
                      .thread = w->thread, .append = p->append, .start = is_nth("timeless", n) ? 0 : start,
                      .end = end, .submit = p->append + 100, .task_begin = p->append - 100,
                      .enqk_begin = p->append - 50, .node = n, .sycl_queue = sycl_queue(w), .invocation = 1};
    size_t size = record_size(r.kind);
    r.source_file = copy_text(w->value == 1 ? "kernels.cpp" : "");
    r.line = w->value == 1 ? 42 : 0;
    r.uuid[0] = (uint8_t)(w->gpu + 1);
    if (is_nth("short", n))
        r.pad = 96, size = 96;
    insert_record(w->thread, &r, size);
}

static void insert_transfer(const pending_work *p, uint64_t start, uint64_t end)
{
    const si_work *w = &p->work;
    static uint64_t operations;
    uint64_t op = ++operations;
    if (w->view == VIEW_COPY) {
        si_copy_v2 r = {.kind = VIEW_COPY, .type = 2, .src = 0, .dst = 2, .queue = queue_of(w),
                        .context = &lock, .name = copy_text(driver_calls[CALL_COPY]), .op = op,
                        .correlation = w->correlation, .thread = w->thread, .append = p->append,
                        .start = start, .end = end, .submit = p->append + 100, .bytes = w->bytes,
                        .sycl_queue = sycl_queue(w)};
        r.uuid[0] = (uint8_t)(w->gpu + 1);
        insert_record(w->thread, &r, record_size(VIEW_COPY));
    } else if (w->view == VIEW_P2P) {
        si_p2p_v2 r = {.kind = VIEW_P2P, .type = 10, .src = 2, .dst = 2, .queue = queue_of(w),
                       .context = &lock, .name = copy_text(driver_calls[CALL_COPY]), .op = op,
                       .correlation = w->correlation, .thread = w->thread, .append = p->append,
                       .start = start, .end = end, .submit = p->append + 100, .bytes = w->bytes,
                       .sycl_queue = sycl_queue(w)};
        r.src_uuid[0] = (uint8_t)(w->gpu + 1);
        r.dst_uuid[0] = (uint8_t)(w->value + 1);
        insert_record(w->thread, &r, record_size(VIEW_P2P));
    } else {
        si_fill_v2 r = {.kind = VIEW_FILL, .type = 2, .queue = queue_of(w), .context = &lock,
                        .name = copy_text(driver_calls[CALL_FILL]), .op = op, .correlation = w->correlation,
                        .thread = w->thread, .append = p->append, .start = start, .end = end,
                        .submit = p->append + 100, .bytes = w->bytes, .value = w->value,
                        .sycl_queue = version() < 1000 ? 0x7f001234u : w->queue};
        r.uuid[0] = (uint8_t)(w->gpu + 1);
        insert_record(w->thread, &r, record_size(VIEW_FILL));
    }
}

static void insert_work(const pending_work *p)
{
    uint64_t ready = p->append + 200, start = device_time > ready ? device_time : ready,
             end = start + p->work.duration;
    device_time = end;
    works++;
    if (!is_enabled(p->work.view))
        return;
    if (p->work.view == VIEW_KERNEL)
        insert_kernel(p, start, end);
    else
        insert_transfer(p, start, end);
    if (works % 16 == 0 && is_enabled(VIEW_OVERHEAD)) {
        si_overhead r = {VIEW_OVERHEAD, 0, start, end, p->work.thread, 3, 4, 500, 5, 0};
        insert_record(p->work.thread, &r, sizeof r);
    }
}

/* The device works on one thing after the other, and the program waits for it. */
void si_finish_work(void)
{
    pthread_mutex_lock(&work_lock);
    device_time = 0;
    while (pending) {
        pending_work *p = pending;
        pending = p->next;
        insert_work(p);
        free(p);
    }
    pending_end = &pending;
    while (now() < device_time)
        usleep(20);
    pthread_mutex_unlock(&work_lock);
}

void si_communicate(const char *name, uint64_t bytes)
{
    uint64_t start = now();
    si_comms r = {VIEW_COMMS, 0, start, start + 1000, (uint32_t)getpid(), thread_id(), bytes, bytes, 7, name};
    if (is_enabled(VIEW_COMMS))
        insert_record(r.thread, &r, sizeof r);
}
