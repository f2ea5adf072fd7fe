/* Collects calls in which threads were blocked, and says what they waited for. The arguments are those of
 * the source "waits": "address" of a lock and "holder", the id of the thread that held it. */
#include "analyze/dataset/blocking_calls.h"

#include "analyze/dataset/arg_lookup.h"

#define K(kind)   KINETO_KIND_BIT(KINETO_KIND_##kind)
/* Collectives of MPI have the kind of collectives; on threads of the host they are calls. */
#define CALL_KINDS (K(BLOCKING_CALL) | K(OPENMP) | K(MPI) | K(COLLECTIVE_COMM))

/* Of OpenMP's rows only those in which a thread waits: others contain work. */
static bool is_blocking_row(const kineto_trace *t, const kt_block *block, uint32_t at, kineto_row row)
{
    kineto_activity a;
    if (!(CALL_KINDS & KINETO_KIND_BIT(block->kind[at])) || block->form[at] != KINETO_FORM_SLICE)
        return false;
    if (block->kind[at] != KINETO_KIND_OPENMP)
        return true;
    kineto_trace_get(t, row, &a);
    return kb_string_contains(a.name, "barrier") || kb_string_contains(a.name, "wait");
}

static bool add_calls_of_track(const kineto_trace *t, uint32_t index, const kineto_track *track,
                               ka_blocking_calls *out)
{
    const kineto_row *rows = kineto_trace_track_rows(t, index);
    for (uint64_t i = 0; rows && i < track->count; i++) {
        const kt_block *block = kt_block_at(t, rows[i] / KT_BLOCK_ROWS);
        uint32_t at = rows[i] % KT_BLOCK_ROWS;
        if (!is_blocking_row(t, block, at, rows[i]))
            continue;
        ka_blocking_call call = {block->start_ns[at], block->end_ns[at], track->id, rows[i],
                                 track->process};
        if (!kb_vec_push(&out->list, call))
            return false;
    }
    return rows != NULL;
}

static int compare_calls(const void *left, const void *right)
{
    const ka_blocking_call *a = left, *b = right;
    if (a->process != b->process)
        return KB_COMPARE(a->process, b->process);
    if (a->thread_id != b->thread_id)
        return KB_COMPARE(a->thread_id, b->thread_id);
    return a->start_ns != b->start_ns ? KB_COMPARE(a->start_ns, b->start_ns)
                                      : KB_COMPARE(a->row, b->row);
}

bool ka_blocking_calls_make(const kineto_trace *trace, ka_blocking_calls *out)
{
    bool any = false, ok = true;
    *out = (ka_blocking_calls){0};
    for (uint32_t b = 0; b < kt_block_count(trace) && !any; b++)
        any = kt_block_at(trace, b)->kinds & CALL_KINDS;
    for (uint32_t i = 0; any && ok && i < kineto_trace_track_count(trace); i++) {
        kineto_track track;
        kineto_trace_track(trace, i, &track);
        ok = !track.count || track.type != KINETO_TRACK_THREAD ||
             add_calls_of_track(trace, i, &track, out);
    }
    if (out->list.count)
        qsort(out->list.data, out->list.count, sizeof *out->list.data, compare_calls);
    return ok;
}

void ka_blocking_calls_free(ka_blocking_calls *calls) { kb_vec_free(&calls->list); }

size_t ka_blocking_call_after(const ka_blocking_calls *calls, uint32_t process, int64_t thread_id,
                              int64_t ns)
{
    const ka_blocking_call *list = calls->list.data;
    size_t at = 0;
    KB_LOWER_BOUND(at, calls->list.count,
                   list[at].process < process ||
                       (list[at].process == process &&
                        (list[at].thread_id < thread_id ||
                         (list[at].thread_id == thread_id && list[at].end_ns <= ns))));
    return at;
}

/* ---- what they waited for -------------------------------------------------------------------- */

static bool find_number(const kineto_trace *trace, kineto_row row, const char *key, uint64_t *out)
{
    kineto_arg arg;
    if (!kineto_args_find(trace, row, key, &arg) ||
        (arg.type != KINETO_ARG_UINT && arg.type != KINETO_ARG_INT))
        return false;
    *out = arg.type == KINETO_ARG_UINT ? arg.u : (uint64_t)arg.i;
    return true;
}

int64_t ka_blocking_call_holder(const kineto_trace *trace, kineto_row row)
{
    uint64_t holder;
    return find_number(trace, row, "holder", &holder) && (int64_t)holder > 0 ? (int64_t)holder : -1;
}

kb_text ka_blocked_words(kineto_string function)
{
    kb_text text;
    size_t size = KB_MIN(function.size, (size_t)50);
    size = size ? kb_utf8_valid_prefix(function.data, size) : 0;
    (void)kb_snprintf(text.s, sizeof text.s, "blocked%s%.*s", size ? " in " : "", (int)size,
                      size ? function.data : "");
    return text;
}

kb_text ka_blocking_call_words(const kineto_trace *trace, kineto_row row)
{
    kb_text text;
    kineto_activity a;
    uint64_t address, holder;
    kineto_trace_get(trace, row, &a);
    bool is_lock = find_number(trace, row, "address", &address) &&
                   find_number(trace, row, "holder", &holder);
    if (!is_lock)
        return ka_blocked_words(a.name);
    (void)kb_snprintf(text.s, sizeof text.s, "waiting for lock 0x%llx", (unsigned long long)address);
    if ((int64_t)holder > 0)
        (void)kb_snprintf(text.s, sizeof text.s, "waiting for lock 0x%llx held by thread %lld",
                          (unsigned long long)address, (long long)holder);
    return text;
}

kineto_string ka_lock_name(const kineto_trace *trace, uint32_t process, uint64_t address)
{
    char key[48], digits[32];
    kineto_process p;
    kineto_string name, value;
    kineto_trace_process(trace, process, &p);
    (void)kb_snprintf(key, sizeof key, "ckineto_locks_%lld", (long long)p.pid);
    (void)kb_snprintf(digits, sizeof digits, "%llu", (unsigned long long)address);
    for (uint32_t i = 0; kineto_trace_metadata(trace, i, &name, &value); i++)
        if (kb_string_equal(name, kb_string(key)))
            return ka_json_text(value, digits);
    return (kineto_string){"", 0};
}
