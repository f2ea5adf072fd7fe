/* The words of rocprofiler-sdk in Kineto's; see rocm.h. */
#include "trace/import/rocm.h"

kineto_status kt_rocm_begin(kt_rocm *r, const kt_import_source *source, const char *tool, kineto_error *err)
{
    *r = (kt_rocm){0};
    kineto_status status = kt_import_begin(&r->m, source, tool, err);
    const struct {
        uint32_t *id;
        const char *text;
    } texts[] = {{&r->grid, "grid"},
                 {&r->block, "block"},
                 {&r->shared, "shared memory"},
                 {&r->queue, "queue"},
                 {&r->bytes, "bytes"},
                 {&r->bandwidth, "memory bandwidth (GB/s)"},
                 {&r->type, "Device Type"},
                 {&r->id, "Device Id"},
                 {&r->address, "Addr"},
                 {&r->size, "Bytes"},
                 {&r->name, "[memory]"}};
    for (size_t i = 0; i < KB_COUNT(texts) && !status; i++)
        *texts[i].id = kt_string(r->m.b, kb_string(texts[i].text));
    return status;
}

void kt_rocm_free(kt_rocm *r)
{
    kb_map_free(&r->kernel_args);
    kb_map_free(&r->allocations);
    kt_import_free(&r->m);
}

void kt_rocm_put_header(kt_rocm *r, const char *recorder)
{
    kt_import_header(&r->m, "recorder", kb_string(recorder));
    kt_import_note(&r->m, "the file does not tell the time of day: times count from the start of the machine", 1,
                   kb_string(""));
}

/* ---- calls ------------------------------------------------------------------------------------ */

static bool has_word(kineto_string text, const char *word) { return kb_string_contains_ignoring_case(text, word); }

bool kt_rocm_is_marker(kineto_string domain) { return has_word(domain, "marker") || has_word(domain, "roctx"); }

void kt_rocm_classify(kt_rocm *r, kineto_string domain, kt_row *row)
{
    static const struct {
        const char *word;
        uint32_t kind;
    } words[] = {{"hip_", KINETO_KIND_RUNTIME},   {"hsa_", KINETO_KIND_DRIVER}, {"ompt", KINETO_KIND_OPENMP},
                 {"openmp", KINETO_KIND_OPENMP}, {"mpi", KINETO_KIND_MPI},     {"pthread", KINETO_KIND_BLOCKING_CALL}};
    row->kind = KINETO_KIND_USER_ANNOTATION;
    row->category = 0;
    if (kt_rocm_is_marker(domain))
        return;
    for (size_t i = 0; i < KB_COUNT(words); i++)
        if (has_word(domain, words[i].word)) {
            row->kind = words[i].kind;
            break;
        }
    if (row->kind == KINETO_KIND_RUNTIME)
        row->category = r->m.cuda_runtime;
    else if (row->kind == KINETO_KIND_DRIVER)
        row->category = r->m.cuda_driver;
    else if (row->kind == KINETO_KIND_USER_ANNOTATION)
        row->category = kt_string(r->m.b, domain);
}

/* ---- kernels ---------------------------------------------------------------------------------- */

/* "[64,2,1]", one text for all launches of that size. */
static void put_dimensions(kt_rocm *r, uint32_t key, const int64_t *size)
{
    char text[80];
    int bytes = kb_snprintf(text, sizeof text, "[%lld,%lld,%lld]", (long long)size[0], (long long)size[1],
                            (long long)size[2]);
    kt_args_put_shared(r->m.b, key, KINETO_ARG_INTS, kt_string(r->m.b, (kineto_string){text, (size_t)bytes}));
}

/* ROCm counts work items, Kineto blocks. */
static uint32_t make_launch_set(kt_rocm *r, const kt_rocm_launch *launch)
{
    int64_t blocks[3];
    for (int i = 0; i < 3; i++)
        blocks[i] = launch->block[i] > 0 ? launch->grid[i] / launch->block[i] : launch->grid[i];
    if (launch->shared >= 0)
        kt_args_put_int(r->m.b, r->shared, launch->shared);
    put_dimensions(r, r->grid, blocks);
    put_dimensions(r, r->block, launch->block);
    return kt_args_make_set(r->m.b);
}

void kt_rocm_put_launch(kt_rocm *r, const kt_rocm_launch *launch)
{
    bool is_new = false;
    uint64_t hash = kb_hash_seeded(kb_hash_secret(), launch, sizeof *launch);
    uint64_t *set = kb_map_insert(&r->kernel_args, hash, 0, &is_new);
    if (set && is_new)
        *set = make_launch_set(r, launch);
    if (set)
        kt_args_put_set(r->m.b, (uint32_t)*set);
}

/* ---- copies ----------------------------------------------------------------------------------- */

uint32_t kt_rocm_copy_name(kt_rocm *r, kineto_string operation)
{
    static const struct {
        const char *operation, *name;
    } names[] = {{"HOST_TO_DEVICE", "Memcpy HtoD (Host -> Device)"},
                 {"DEVICE_TO_HOST", "Memcpy DtoH (Device -> Host)"},
                 {"DEVICE_TO_DEVICE", "Memcpy DtoD (Device -> Device)"},
                 {"HOST_TO_HOST", "Memcpy HtoH (Host -> Host)"}};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        if (kb_string_ends_with(operation, names[i].operation))
            return kt_string(r->m.b, kb_string(names[i].name));
    return kt_string(r->m.b, operation.size ? operation : kb_string("Memcpy"));
}

void kt_rocm_put_copy(kt_rocm *r, int64_t bytes, const kt_row *row)
{
    if (bytes < 0)
        return;
    kt_args_put_int(r->m.b, r->bytes, bytes);
    if (row->end_ns > row->start_ns)
        kt_args_put_double(r->m.b, r->bandwidth, (double)bytes / (double)(row->end_ns - row->start_ns));
}

/* ---- memory ----------------------------------------------------------------------------------- */

bool kt_rocm_append_memory(kt_rocm *r, const kt_row *at, int64_t device, int64_t address, int64_t bytes,
                           bool is_release)
{
    kt_row row = *at;
    uint64_t *known = kb_map_insert(&r->allocations, (uint64_t)address, 0, NULL);
    if (!known || (is_release && !*known) || bytes < 0 || bytes == INT64_MAX)
        return false;
    if (is_release)
        bytes = -((int64_t)*known - 1);
    *known = is_release ? 0 : (uint64_t)bytes + 1;
    row.kind = KINETO_KIND_MEMORY;
    row.form = KINETO_FORM_INSTANT;
    row.category = kt_string(r->m.b, kb_string("cpu_instant_event"));
    row.name = r->name;
    row.end_ns = row.start_ns;
    kt_args_put_int(r->m.b, r->type, 1);
    kt_args_put_int(r->m.b, r->id, device);
    kt_args_put_int(r->m.b, r->address, address);
    kt_args_put_int(r->m.b, r->size, bytes);
    kt_append(r->m.b, &row);
    return true;
}

/* ---- devices ---------------------------------------------------------------------------------- */

void kt_rocm_describe(kt_rocm *r, int64_t device, kineto_string name, int64_t compute_units)
{
    kb_sink *sink = NULL;
    kb_json j;
    char *text = NULL;
    size_t size = 0;
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL))
        return;
    kb_json_init(&j, sink);
    kb_json_object_begin(&j);
    kb_json_put_int(&j, "id", device);
    kb_json_put_string(&j, "name", name);
    if (compute_units > 0)
        kb_json_put_int(&j, "numSms", compute_units);
    kb_json_object_end(&j);
    if (!kb_sink_take(sink, &text, &size, NULL))
        kt_import_describe_device(&r->m, device, (kineto_string){"", 0}, (kineto_string){text, size});
    free(text);
    kb_sink_abort(sink);
}
