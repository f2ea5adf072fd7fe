/* The device and profiler of device.h: it delivers at once (LIVE) or after the session. */
#include "device.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

session *current;
pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static bool paused;
static const KinetoPlugin_TraceBuilder *kept;

#define MOST_DEPTH 16u
static _Thread_local uint64_t operators[MOST_DEPTH];
static _Thread_local uint32_t depth;

/* ---- the device ----------------------------------------------------------------------------------- */

static void work(uint32_t id)
{
    piece p = {.id = id, .call_ns = now_ns(CLOCK_REALTIME)};
    p.start_ns = now_ns(CLOCK_REALTIME);
    p.operator_id = depth ? operators[(depth < MOST_DEPTH ? depth : MOST_DEPTH) - 1] : 0;
    p.end_ns = now_ns(CLOCK_REALTIME);
    pthread_mutex_lock(&device_lock);
    session *s = current;
    if (s && (!paused || IS(TOGGLE_IGNORED))) {
        s->taken++;
        if (s->live)
            deliver_live(s, &p);
        else if (s->count < MOST_PIECES)
            s->pieces[s->count++] = p;
    }
    pthread_mutex_unlock(&device_lock);
}

EXPORT int KinetoPlugin_exercise(uint32_t count);
int KinetoPlugin_exercise(uint32_t count)
{
    static uint32_t id;
    for (uint32_t i = 0; i < count; i++)
        work(++id);
    return 0;
}

/* ---- faults that are not about events --------------------------------------------------------------- */

static void on_signal(int number) { (void)number; }

static void *stay(void *context)
{
    for (;;)
        usleep(2000);
    return context;
}

static void misbehave_at_start(void)
{
    static void *volatile lost[4096];
    static unsigned count;
    pthread_t thread;
    if (IS(TALKS))
        printf("device started\n");
    if (IS(SIGNAL_HANDLER))
        signal(SIGUSR2, on_signal);
    if (IS(LEAKS_MEMORY))
        lost[count++ % 4096] = malloc(1000);
    if (IS(LEAKS_FILES))
        (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (IS(LEAKS_THREADS) || (IS(THREAD_STAYS) && count++ == 0))
        (void)pthread_create(&thread, NULL, stay, NULL);
    (void)lost;
}

/* ---- the profiler ---------------------------------------------------------------------------------- */

static bool too_short(size_t size, size_t needed) { return size < needed && !IS(TAKES_SHORT); }

static const int32_t kinds[] = {KERNEL, CALL, KERNEL};

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    static bool asked;
    size_t known = IS(QUERY_KIND_TWICE) ? 3 : IS_LIVE ? 1 : 2, n = 0;
    if (too_short(p->unpaddedStructSize, SIZE(ProfilerQuery_Params, supportedActivityTypesMaxLen)))
        return 1;
    if (IS(QUERY_TOUCHES_HANDLE))
        ((volatile session *)(void *)p->pProfilerHandle)->started = false;
    if (IS(QUERY_OVERFLOWS))
        strcpy(p->pProfilerName, "a device with a long name");
    else
        snprintf(p->pProfilerName, p->profilerNameMaxLen + 1, "%s",
                 IS(QUERY_NO_NAME)            ? ""
                 : IS(QUERY_CHANGES) && asked ? "another"
                                              : "device");
    for (; n < known && n < p->supportedActivityTypesMaxLen; n++)
        p->pSupportedActivityTypes[n] = kinds[n];
    if (IS_LIVE && n < p->supportedActivityTypesMaxLen)
        p->pSupportedActivityTypes[n] = COUNTER;
    asked = true;
    return 0;
}

static void enable(session *s, int32_t kind)
{
    s->kernels |= kind == KERNEL;
    s->calls |= kind == CALL;
    s->counters |= kind == COUNTER;
    if (IS(CREATE_UNKNOWN_KIND) && kind > KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT)
        abort();
}

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    static unsigned sessions;
    if (too_short(p->unpaddedStructSize, SIZE(ProfilerCreate_Params, pProfilerHandle)) ||
        (IS(SIZE_EQUALS) && p->unpaddedStructSize > SIZE(ProfilerCreate_Params, pCustomConfig)))
        return 1;
    session *s = calloc(1, sizeof *s);
    if (!s)
        return 1;
    bool listed =
        HAS(p, ProfilerCreate_Params, enabledActivityTypesMaxLen) || IS(SIZE_IGNORED_CREATE);
    for (size_t i = 0; listed && i < p->enabledActivityTypesMaxLen; i++)
        enable(s, p->pEnabledActivityTypes[i]);
    for (size_t i = 0; !listed && i < (IS_LIVE ? 1 : 2); i++)
        enable(s, kinds[i]);
    if (IS(ONCE_ONLY) && sessions++ >= 2)
        s->kernels = s->calls = false;
    if (IS(ALL_OR_NOTHING) && listed && p->enabledActivityTypesMaxLen == 1) {
        free(s);
        return 1;
    }
    p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)(void *)s;
    return 0;
}

static session *session_of(KinetoPlugin_ProfilerHandle *handle)
{
    return (session *)(void *)handle;
}

static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    if (too_short(p->unpaddedStructSize, SIZE(ProfilerStart_Params, pProfilerHandle)))
        return 1;
    session *s = session_of(p->pProfilerHandle);
    static int *volatile nowhere =
        (int *)64; /* not NULL: a sanitizer sees that before the processor */
    if (IS(START_CRASHES))
        *nowhere = 1;
    if (IS(START_FAILS) || (s->started && !IS(START_TWICE)))
        return 7;
    if (IS(START_TWICE) && s->started)
        abort();
    if (IS(READS_BEHIND) && ((volatile size_t *)p)[p->unpaddedStructSize / sizeof(size_t)])
        return 1;
    misbehave_at_start();
    bool has_live = HAS(p, ProfilerStart_Params, pLiveBuilder);
    if (IS(SIZE_IGNORED))
        (void)*(const KinetoPlugin_TraceBuilder *const volatile *)&p->pLiveBuilder;
    if ((IS_LIVE || IS(LATE)) && has_live)
        kept = p->pLiveBuilder;
    s->started = true;
    s->starter = gettid();
    s->live = IS_LIVE && has_live ? p->pLiveBuilder : NULL;
    pthread_mutex_lock(&device_lock);
    paused = false;
    if (s->live)
        announce_live(s);
    current = s;
    pthread_mutex_unlock(&device_lock);
    return 0;
}

static int stop(KinetoPlugin_ProfilerStop_Params *p)
{
    if (too_short(p->unpaddedStructSize, SIZE(ProfilerStop_Params, pProfilerHandle)))
        return 1;
    session *s = session_of(p->pProfilerHandle);
    if (IS(STOP_UNSTARTED) && !s->started)
        abort();
    if (!s->started || s->stopped)
        return 1;
    while (IS(STOP_HANGS))
        usleep(1000);
    if (IS(STOP_EXITS))
        exit(0);
    pthread_mutex_lock(&device_lock);
    current = NULL;
    s->stopped = true;
    pthread_mutex_unlock(&device_lock);
    return IS(LIFE_ON_ONE_THREAD) && s->starter != gettid();
}

static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    if (too_short(p->unpaddedStructSize, SIZE(ProfilerProcessEvents_Params, pTraceBuilder)))
        return 1;
    session *s = session_of(p->pProfilerHandle);
    if (s->live)
        return 0;
    pthread_mutex_lock(&device_lock);
    int result = deliver_in_steps(s, p->pTraceBuilder);
    pthread_mutex_unlock(&device_lock);
    return result;
}

static int destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    static unsigned unstarted;
    if (too_short(p->unpaddedStructSize, SIZE(ProfilerDestroy_Params, pProfilerHandle)))
        return 1;
    session *s = session_of(p->pProfilerHandle);
    if (IS(DESTROY_UNSTARTED) && !s->started && s->kernels && s->calls && unstarted++)
        abort();
    if (current == s)
        current = NULL;
    if (IS(LATE) && kept && s->count)
        announce_rows(kept);
    free(s);
    return 0;
}

static pthread_t pusher;

static int push(KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    if (IS(PUSH_ON_ONE_THREAD)) {
        pusher = pusher ? pusher : pthread_self();
        if (!pthread_equal(pusher, pthread_self()))
            return 1;
    }
    if (depth < MOST_DEPTH)
        operators[depth] = p->correlationId;
    depth++;
    return 0;
}

static int pop(KinetoPlugin_ProfilerPopCorrelationId_Params *p)
{
    (void)p;
    depth -= depth > 0;
    return 0;
}

static int toggle(KinetoPlugin_ProfilerToggleCollection_Params *p)
{
    pthread_mutex_lock(&device_lock);
    paused = !p->enable;
    pthread_mutex_unlock(&device_lock);
    return 0;
}

static int error_text(KinetoPlugin_ProfilerErrorText_Params *p)
{
    if (IS(ERROR_UNTERMINATED))
        memset(p->pText, 'e', p->textMaxLen + 1);
    else
        snprintf(p->pText, p->textMaxLen + 1, "the device is not there");
    return 0;
}

static KinetoPlugin_ProfilerInterface interface = {
    .unpaddedStructSize = SIZE(ProfilerInterface, profilerErrorText),
    .profilerCreate = create,
    .profilerDestroy = destroy,
    .profilerQuery = query,
    .profilerStart = start,
    .profilerStop = stop,
    .profilerPushCorrelationId = push,
    .profilerPopCorrelationId = pop,
    .profilerProcessEvents = process,
    .profilerToggleCollection = toggle,
    .profilerErrorText = error_text,
};

#ifdef BROKEN_IS_UNRESOLVED
void a_function_that_is_nowhere(void);
#endif

enum fault broken;

/* Our file is …/check-NAME.so. */
static enum fault fault_of_file(void)
{
#define NAME(name) #name,
    static const char *const names[] = {FAULTS(NAME) "LIVE", LIVE_FAULTS(NAME)};
    Dl_info info;
    const char *name = dladdr(&broken, &info) ? strstr(info.dli_fname, "/check-") : NULL;
    size_t size = name ? strcspn(name += sizeof "/check-" - 1, ".") : 0;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (name && strlen(names[i]) == size && !strncmp(names[i], name, size))
            return (enum fault)i;
    return NO_FAULT;
}

__attribute__((constructor)) static void load(void)
{
    broken = fault_of_file();
    if (IS(NO_FAULT)) {
        fprintf(stderr, "a file with the name of no fault in device.h\n");
        abort();
    }
    if (IS(LOAD_CRASHES))
        abort();
#ifdef BROKEN_IS_UNRESOLVED
    if (getpid() == 1)
        a_function_that_is_nowhere();
#endif
}

#ifndef BROKEN_IS_UNEXPORTED
EXPORT
#endif
int KinetoPlugin_register(const KinetoPlugin_Registry *registry);
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    KinetoPlugin_RegistryHandle *handle = registry->pRegistryHandle;
    if (IS(REGISTER_REFUSES))
        return 5;
    if (IS(REGISTER_LACKS))
        interface.profilerStop = NULL;
    if (IS(REGISTER_HANDLE))
        (void)registry->registerProfiler(NULL, &interface);
    return registry->registerProfiler(handle, &interface) && !IS(REGISTER_LACKS);
}
