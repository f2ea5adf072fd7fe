/* The ROCTX source: ranges and marks of programs that are annotated for AMD's tools. ROCTX has no place
 * for a tool's library, so this is the library itself: it exports the functions of libroctx64.so.4 and
 * librocprofiler-sdk-roctx.so.1. It comes first in the program's search order, records each call, and
 * passes it on to AMD's library if that is there, so that a profiler of AMD's sees the same calls and
 * the program gets the same results. Without AMD's library the results are those that it gives when no
 * profiler is attached. */
#include "../annotations/annotations.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROCTX_API __attribute__((visibility("default")))

const cn_source cn_this_source = {.name = "roctx", .site_name = "ROCTX"};

/* ---- AMD's library --------------------------------------------------------------------------- */

/* Marks this library: where it is installed as several files, one of them may follow another. */
ROCTX_API extern const char roctx_ckineto_copy;
const char roctx_ckineto_copy = 1;

/* A function of it, looked up at the first call. */
typedef struct next_function {
    const char *name;
    /* NULL: not looked up; &no_function: there is none. */
    _Atomic(void *) address;
} next_function;
static char no_function;

static void *find_next(next_function *f)
{
    void *address = atomic_load_explicit(&f->address, memory_order_acquire);
    if (CN_LIKELY(address != NULL))
        return address == &no_function ? NULL : address;
    address = dlsym(RTLD_NEXT, "roctx_ckineto_copy") ? NULL : dlsym(RTLD_NEXT, f->name);
    atomic_store_explicit(&f->address, address ? address : &no_function, memory_order_release);
    return address;
}

/* Calls the next function of this name with its type, if there is one; else the value is `other`. A
 * function pointer is read from the object pointer that dlsym returns. */
#define CALL_NEXT(function, other, ...)                                                            \
    __extension__({                                                                                \
        static next_function next = {.name = #function};                                           \
        void *address = find_next(&next);                                                          \
        __typeof__(&function) call;                                                                \
        memcpy(&call, &address, sizeof call);                                                      \
        call ? call(__VA_ARGS__) : (other);                                                        \
    })

/* ---- the interface --------------------------------------------------------------------------- */

struct hsa_agent_s;
struct ihipStream_t;

ROCTX_API uint32_t roctx_version_major(void);
ROCTX_API uint32_t roctx_version_minor(void);
ROCTX_API void roctxMarkA(const char *message);
ROCTX_API int roctxRangePushA(const char *message);
ROCTX_API int roctxRangePop(void);
ROCTX_API uint64_t roctxRangeStartA(const char *message);
ROCTX_API void roctxRangeStop(uint64_t id);
ROCTX_API int roctxGetThreadId(uint64_t *tid);
ROCTX_API int roctxProfilerPause(uint64_t tid);
ROCTX_API int roctxProfilerResume(uint64_t tid);
ROCTX_API int roctxNameOsThread(const char *name);
ROCTX_API int roctxNameHsaAgent(const char *name, const struct hsa_agent_s *hsa);
ROCTX_API int roctxNameHipDevice(const char *name, int device);
ROCTX_API int roctxNameHipStream(const char *name, const struct ihipStream_t *stream);

uint32_t roctx_version_major(void) { return CALL_NEXT(roctx_version_major, 4u); }
uint32_t roctx_version_minor(void) { return CALL_NEXT(roctx_version_minor, 1u); }

/* ---- ranges and marks ------------------------------------------------------------------------ */

/* Results are levels of AMD's library, not of the front, which counts what was recorded only. */
static __thread int nested_level CN_TLS;

static int pop_level(void) { return nested_level ? --nested_level : -1; }

void roctxMarkA(const char *message)
{
    cn_mark(message);
    CALL_NEXT(roctxMarkA, (void)0, message);
}

int roctxRangePushA(const char *message)
{
    (void)cn_range_push(message);
    return CALL_NEXT(roctxRangePushA, nested_level++, message);
}

int roctxRangePop(void)
{
    int level = CALL_NEXT(roctxRangePop, pop_level());
    (void)cn_range_pop();
    return level;
}

/* Ids are those that AMD's library gives out: they are the keys of our ranges. */
static uint64_t make_range_key(uint64_t id) { return id * UINT64_C(0x9e3779b97f4a7c15) | 1; }

uint64_t roctxRangeStartA(const char *message)
{
    static atomic_uint_fast64_t last_id;
    uint64_t id = CALL_NEXT(roctxRangeStartA, atomic_fetch_add(&last_id, 1) + 1, message);
    if (cn_recording()) {
        cn_event e = {.shape = &cn_plain, .text = message ? message : ""};
        cn_start_keyed(make_range_key(id), &e);
    }
    return id;
}

void roctxRangeStop(uint64_t id)
{
    cn_end_keyed(make_range_key(id));
    CALL_NEXT(roctxRangeStop, (void)0, id);
}

/* ---- threads and names ----------------------------------------------------------------------- */

static int store_thread_id(uint64_t *tid)
{
    *tid = (uint64_t)syscall(SYS_gettid);
    return 0;
}

int roctxGetThreadId(uint64_t *tid)
{
    return CALL_NEXT(roctxGetThreadId, store_thread_id(tid), tid);
}

/* Shown as a range: what a profiler of AMD's leaves out is recorded here nevertheless. */
#define PAUSE_KEY UINT64_C(2)

int roctxProfilerPause(uint64_t tid)
{
    if (cn_recording()) {
        cn_event e = {.shape = &cn_plain, .text = "ROCTX paused"};
        cn_start_keyed(PAUSE_KEY, &e);
    }
    return CALL_NEXT(roctxProfilerPause, 0, tid);
}

int roctxProfilerResume(uint64_t tid)
{
    cn_end_keyed(PAUSE_KEY);
    return CALL_NEXT(roctxProfilerResume, 0, tid);
}

int roctxNameOsThread(const char *name)
{
    if (name)
        kineto_thread_set_name(name);
    return CALL_NEXT(roctxNameOsThread, 0, name);
}

int roctxNameHsaAgent(const char *name, const struct hsa_agent_s *hsa)
{
    cn_resource_name("hsa", (uintptr_t)hsa, name);
    return CALL_NEXT(roctxNameHsaAgent, 0, name, hsa);
}

int roctxNameHipDevice(const char *name, int device)
{
    cn_resource_name("device", (uint64_t)(uint32_t)device, name);
    return CALL_NEXT(roctxNameHipDevice, 0, name, device);
}

int roctxNameHipStream(const char *name, const struct ihipStream_t *stream)
{
    cn_resource_name("stream", (uintptr_t)stream, name);
    return CALL_NEXT(roctxNameHipStream, 0, name, stream);
}
