/* Contexts, buffers and services of rocprofiler-sdk. All are created while the SDK starts; a session
 * only starts and stops contexts. Code objects are followed from the beginning, since kernels are known
 * by numbers that are given when their code is loaded. */
#include "rocm.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static rp_context contexts[RP_PARTS], code_context;
static rp_buffer buffers[RP_PARTS];
static bool has_part[RP_PARTS];

static uint8_t kind_of[RP_SDK_KINDS];     /* our kind, by the SDK's number */
static uint32_t number_of[RP_KIND_COUNT]; /* and back; 0: the SDK does not have it */
static bool is_traced[RP_KIND_COUNT];
static uint32_t code_kind, marker_kind; /* numbers of callbacks */

static const struct {
    const char *name;
    rp_part part;
    bool needed;
} kinds[RP_KIND_COUNT] = {
#define RP_X(name, text, part, needed) [RP_KIND_##name] = {text, RP_PART_##part, needed},
    RP_KIND_MAP(RP_X)
#undef RP_X
};

/* ---- numbers of kinds ------------------------------------------------------------------------ */

/* The numbers differ between versions, the names do not. */
static void find_kind_numbers(void)
{
    memset(kind_of, 0, sizeof kind_of);
    memset(number_of, 0, sizeof number_of);
    for (uint32_t n = 1; n < RP_SDK_KINDS; n++) {
        const char *name = NULL;
        if (rp_sdk.buffer_kind_name(n, &name, NULL) != RP_SUCCESS || !name)
            continue;
        for (uint8_t k = 1; k < RP_KIND_COUNT; k++)
            if (strcmp(name, kinds[k].name) == 0) {
                kind_of[n] = k;
                number_of[k] = n;
            }
    }
}

/* Callbacks have numbers of their own. 0: this version does not have the kind. */
static uint32_t find_callback_kind(const char *wanted)
{
    for (uint32_t n = 1; n < RP_SDK_KINDS; n++) {
        const char *name = NULL;
        if (rp_sdk.callback_kind_name(n, &name, NULL) == RP_SUCCESS && name &&
            strcmp(name, wanted) == 0)
            return n;
    }
    return 0;
}

rp_kind rp_kind_of(uint32_t number)
{
    return number < RP_SDK_KINDS ? (rp_kind)kind_of[number] : RP_KIND_NONE;
}

uint32_t rp_kind_number(rp_kind kind) { return number_of[kind]; }
bool rp_kind_is_traced(rp_kind kind) { return is_traced[kind]; }

/* ---- callbacks ------------------------------------------------------------------------------- */

typedef struct callback_parts {
    int32_t operation;
    uint32_t phase;
    const void *payload;
} callback_parts;

/* Long ids move what follows them by 8 bytes. With short ids the place of the kind has the phase there,
 * which is never as large as the number of a kind that we ask for. */
static bool split_callback(const rp_callback_record *r, uint32_t kind, callback_parts *out)
{
    size_t at = r->words[2] == kind ? 2 : 0;
    uint64_t payload;
    if (r->words[at] != kind)
        return false;
    out->operation = (int32_t)r->words[at + 1];
    out->phase = r->words[at + 2];
    memcpy(&payload, &r->words[at + 4], sizeof payload);
    out->payload = (const void *)(uintptr_t)payload;
    return payload != 0;
}

/* A kernel's symbol was loaded, on any thread of the program. */
static void receive_code(rp_callback_record record, rp_user_data *user, void *data)
{
    callback_parts c;
    (void)user;
    (void)data;
    if (!split_callback(&record, code_kind, &c) || c.operation != RP_CODE_KERNEL_SYMBOL ||
        c.phase != RP_PHASE_ENTER)
        return;
    const rp_kernel_symbol *symbol = c.payload;
    if (symbol->size >= RP_KERNEL_SYMBOL_BYTES)
        rp_symbols_add(symbol);
}

/* A call of ROCTX begins or ends, on the thread that makes it. */
static void receive_marker(rp_callback_record record, rp_user_data *user, void *data)
{
    callback_parts c;
    (void)user;
    (void)data;
    if (!split_callback(&record, marker_kind, &c))
        return;
    const rp_marker_call *call = c.payload;
    if (call->size >= sizeof *call)
        rp_markers_call(marker_kind, c.operation, c.phase, call);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Frequent calls without information, as in Kineto. */
static const char *const unwanted_hip_calls[] = {
    "hipGetDevice",        "hipSetDevice",          "hipGetLastError",
    "hipPeekAtLastError",  "hipExtGetLastError",    "hipCtxSetCurrent",
    "hipCtxGetCurrent",    "hipGetDeviceCount",     "hipGetDevicePropertiesR0600",
    "hipGetDevicePropertiesR0000", "hipDeviceGetAttribute", "hipRuntimeGetVersion",
    "hipDriverGetVersion", "hipModuleGetFunction",  "hipEventCreate",
    "hipEventCreateWithFlags", "hipEventDestroy",   "hipDevicePrimaryCtxGetState",
    "hipStreamIsCapturing",
};

#define MAX_OPERATIONS 1024u
typedef struct operation_list {
    int32_t list[MAX_OPERATIONS];
    size_t count;
} operation_list;

/* Callback of the SDK for each operation of a kind. */
static int add_wanted_operation(uint32_t kind, int32_t operation, void *data)
{
    operation_list *l = data;
    const char *name = NULL;
    (void)rp_sdk.operation_name(kind, operation, &name, NULL);
    for (size_t i = 0; name && i < CP_COUNT(unwanted_hip_calls); i++)
        if (strcmp(name, unwanted_hip_calls[i]) == 0)
            return 0;
    if (l->count < MAX_OPERATIONS)
        l->list[l->count++] = operation;
    return 0;
}

/* ---- services -------------------------------------------------------------------------------- */

/* Asks for the records of one kind: all operations, of HIP's calls those that are of interest. */
static rp_status add_buffer_service(rp_kind kind)
{
    rp_part part = kinds[kind].part;
    operation_list *wanted = kind == RP_KIND_HIP ? calloc(1, sizeof *wanted) : NULL;
    if (wanted)
        (void)rp_sdk.operations(number_of[kind], add_wanted_operation, wanted);
    bool selects = wanted && wanted->count && wanted->count < MAX_OPERATIONS;
    rp_status status =
        rp_sdk.buffer_service(contexts[part], number_of[kind], selects ? wanted->list : NULL,
                              selects ? wanted->count : 0, buffers[part]);
    free(wanted);
    return status;
}

/* A kind that the SDK lacks or refuses is an error only if nothing makes sense without it. */
static bool add_kind(rp_kind kind, char why[CP_TEXT_BYTES])
{
    if (!has_part[kinds[kind].part])
        return true;
    rp_status status = number_of[kind] ? add_buffer_service(kind) : RP_SUCCESS;
    is_traced[kind] = number_of[kind] && status == RP_SUCCESS;
    if (is_traced[kind] || !kinds[kind].needed)
        return true;
    char doing[96];
    snprintf(doing, sizeof doing, "%s cannot be recorded", kinds[kind].name);
    if (number_of[kind])
        rp_explain(status, doing, why);
    else
        snprintf(why, CP_TEXT_BYTES, "%s: this version of rocprofiler-sdk does not report it", doing);
    return false;
}

/* The SDK refuses a handle that is not 0 beforehand. */
static bool create_context(rp_context *context, char why[CP_TEXT_BYTES])
{
    context->handle = 0;
    rp_status status = rp_sdk.create_context(context);
    if (status != RP_SUCCESS)
        rp_explain(status, "rocprofiler-sdk gives no context", why);
    return status == RP_SUCCESS;
}

/* A context with a buffer, which is handed over when it is half full. */
static bool create_part(rp_part part, const rp_options *o, rp_callback_thread thread,
                        char why[CP_TEXT_BYTES])
{
    if (!create_context(&contexts[part], why))
        return false;
    rp_status status = rp_sdk.create_buffer(
        contexts[part], o->buffer_bytes, o->buffer_bytes / 2,
        o->discard ? RP_POLICY_DISCARD : RP_POLICY_LOSSLESS, rp_source_receive,
        (void *)(uintptr_t)part, &buffers[part]);
    if (status != RP_SUCCESS) {
        rp_explain(status, "rocprofiler-sdk gives no buffer", why);
        return false;
    }
    if (thread.handle)
        (void)rp_sdk.assign_thread(buffers[part], thread);
    if (!rp_sdk.external_service ||
        rp_sdk.external_service(contexts[part], NULL, 0, rp_operators_answer, NULL) != RP_SUCCESS)
        rp_operators_push_to_sdk();
    has_part[part] = true;
    return true;
}

/* Started at once: code that is loaded before a session has kernels of the session. */
static bool create_code_context(char why[CP_TEXT_BYTES])
{
    code_kind = find_callback_kind("CODE_OBJECT");
    if (!code_kind || !create_context(&code_context, why))
        return false;
    rp_status status =
        rp_sdk.callback_service(code_context, code_kind, NULL, 0, receive_code, NULL);
    if (status == RP_SUCCESS)
        status = rp_sdk.start_context(code_context);
    if (status != RP_SUCCESS)
        rp_explain(status, "names of kernels cannot be recorded", why);
    return status == RP_SUCCESS;
}

/* Without ranges of ROCTX everything else is recorded. */
static void create_marker_context(void)
{
    char unused[CP_TEXT_BYTES];
    marker_kind = find_callback_kind("MARKER_CORE_API");
    if (marker_kind && create_context(&contexts[RP_PART_MARKERS], unused))
        has_part[RP_PART_MARKERS] =
            rp_sdk.callback_service(contexts[RP_PART_MARKERS], marker_kind, NULL, 0, receive_marker,
                                    NULL) == RP_SUCCESS;
}

/* Services can only be added here: the SDK locks its configuration when all tools are initialised. */
bool rp_tracing_create(const rp_options *options, char why[CP_TEXT_BYTES])
{
    rp_callback_thread thread = {0};
    find_kind_numbers();
    if (rp_sdk.create_thread && rp_sdk.assign_thread)
        (void)rp_sdk.create_thread(&thread);
    snprintf(why, CP_TEXT_BYTES, "this version of rocprofiler-sdk does not report code objects");
    if (!create_code_context(why))
        return false;
    for (rp_part part = RP_PART_MAIN; part <= RP_PART_HSA; part++)
        if (!create_part(part, options, thread, why))
            return false;
    for (rp_kind kind = RP_KIND_NONE + 1; kind < RP_KIND_COUNT; kind++)
        if (!add_kind(kind, why))
            return false;
    create_marker_context();
    why[0] = '\0';
    return true;
}

/* ---- sessions -------------------------------------------------------------------------------- */

rp_status rp_part_start(rp_part part)
{
    return has_part[part] ? rp_sdk.start_context(contexts[part]) : RP_SUCCESS;
}

void rp_part_stop(rp_part part)
{
    if (has_part[part])
        (void)rp_sdk.stop_context(contexts[part]);
}

#define MAX_FLUSHES   200
#define FLUSH_WAIT_NS 1000000

/* A buffer that is being handed over is asked again. */
static rp_status flush_part(rp_part part)
{
    rp_status status = rp_sdk.flush_buffer(buffers[part]);
    const struct timespec pause = {.tv_nsec = FLUSH_WAIT_NS};
    for (int i = 0; i < MAX_FLUSHES && status == RP_ERROR_BUFFER_BUSY; i++) {
        (void)nanosleep(&pause, NULL);
        status = rp_sdk.flush_buffer(buffers[part]);
    }
    return status;
}

rp_status rp_tracing_flush(void)
{
    rp_status result = RP_SUCCESS;
    for (rp_part part = RP_PART_MAIN; part <= RP_PART_HSA; part++) {
        rp_status status = has_part[part] ? flush_part(part) : RP_SUCCESS;
        result = status != RP_SUCCESS ? status : result;
    }
    return result;
}

rp_context rp_tracing_context(rp_part part) { return contexts[part]; }
