/* Time that nothing hides, calls that wait, and the critical path without slices: what the
 * rules about copies, waits and communication share. find_time.h has the contracts. */
#include "analyze/findings/find_time.h"

/* ---- names ----------------------------------------------------------------------------------- */

static bool has_one_of(kineto_string name, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kb_string_contains(name, words[i]))
            return true;
    return false;
}

bool ka_is_upload(kineto_string name)
{
    static const char *const words[] = {"HtoD", "HostToDevice", "H2D", "M2D"};
    return has_one_of(name, words, KB_COUNT(words));
}

static bool is_download_name(kineto_string name)
{
    static const char *const words[] = {"DtoH", "DeviceToHost", "D2H", "D2M"};
    return has_one_of(name, words, KB_COUNT(words));
}

bool ka_is_within_device(kineto_string name)
{
    static const char *const words[] = {"DtoD", "DeviceToDevice", "D2D"};
    return has_one_of(name, words, KB_COUNT(words));
}

uint32_t ka_find_range(const ka_dataset *s, const char *begins)
{
    for (uint32_t i = 0; i < s->slice_count; i++) {
        uint8_t kind = s->slices[i].kind;
        if ((kind == KINETO_KIND_CPU_OP || kind == KINETO_KIND_USER_ANNOTATION) &&
            kb_string_starts_with(ka_name(s, s->slices[i].name), begins))
            return i;
    }
    return KA_NONE;
}

#define MAX_AROUND 64u /* that are climbed */

uint32_t ka_site_of(const ka_dataset *s, uint32_t slice)
{
    uint32_t i = ka_operator_around(s, slice), site = i, left = MAX_AROUND;
    if (i == KA_NONE)
        return slice;
    for (; (i = s->slices[i].around) != KA_NONE && left; site = i, left--)
        if (s->slices[i].kind != KINETO_KIND_CPU_OP ||
            !kb_string_starts_with(ka_name(s, s->slices[i].name), "aten::"))
            break;
    return site;
}

kineto_string ka_place_of(const ka_dataset *s, uint32_t call)
{
    if (call == KA_NONE)
        return (kineto_string){"", 0};
    uint32_t site = ka_site_of(s, call), around = s->slices[call].parent;
    if (site != call)
        return ka_name(s, s->slices[site].name);
    bool is_step = around != KA_NONE && ka_is_step(s, around);
    return around == KA_NONE || is_step ? (kineto_string){"", 0}
                                        : ka_name(s, s->slices[around].name);
}

/* ---- time that nothing hides ----------------------------------------------------------------- */

/* Spans of one device; `work` are the selected pieces in order of streams, only if `each` is
 * given. */
typedef struct device_spans {
    ka_spans selected, hiding;
    KB_VEC(uint32_t) work; /* selected, if `each` is given */
} device_spans;

typedef struct exposing {
    ka_finder *f;
    ka_select *pick;
    ka_each *each;
    void *context;
    kb_map at; /* of a device → index of devices */
    KB_VEC(device_spans) devices;
} exposing;

/* The spans of the stream's device, which are appended if it is new; valid until the next
 * call. NULL: out of memory. */
static device_spans *list_busy_spans(exposing *x, const ka_stream *stream)
{
    int64_t key[] = {stream->process, stream->device};
    bool created;
    uint64_t *at = kb_map_insert(&x->at, kb_hash(key, sizeof key), x->devices.count, &created);
    if (!at || (created && !kb_vec_push(&x->devices, (device_spans){0})))
        return NULL;
    return &x->devices.data[*at];
}

/* Selected work outside of steps is ignored; hiding work counts wherever it is. */
static bool add_selected_work(exposing *x, device_spans *to, uint32_t work, ka_exposure *out)
{
    const ka_work *w = &x->f->s->work[work];
    int which = x->pick(x->f, w, x->context);
    ka_span span = {w->start_ns, w->end_ns};
    if (which == KA_IGNORE || w->end_ns <= w->start_ns ||
        (which == KA_SELECTED && !ka_is_in_steps(x->f, w->step)))
        return true;
    if (which == KA_HIDES)
        return kb_vec_push(&to->hiding, span);
    out->count++;
    return kb_vec_push(&to->selected, span) && (!x->each || kb_vec_push(&to->work, work));
}

static bool add_stream_spans(exposing *x, const ka_stream *stream, ka_exposure *out)
{
    device_spans *to = stream->count ? list_busy_spans(x, stream) : NULL;
    bool ok = to || !stream->count;
    for (uint32_t i = stream->first; ok && i < stream->first + stream->count; i++)
        ok = add_selected_work(x, to, i, out);
    return ok;
}

/* Work of one stream is in order, so that the cursor only moves forward; it restarts with each
 * stream. */
static void call_for_each_exposed(const exposing *x, const device_spans *d)
{
    const ka_work *work = x->f->s->work;
    size_t cursor = 0;
    for (size_t i = 0; i < d->work.count; i++) {
        const ka_work *w = &work[d->work.data[i]];
        if (i && w->start_ns < work[d->work.data[i - 1]].start_ns)
            cursor = 0;
        int64_t covered = ka_spans_within(&d->hiding, w->start_ns, w->end_ns, &cursor);
        x->each(x->f, d->work.data[i], ka_work_ns(w) - covered, x->context);
    }
}

/* Adds one device to `out`, then calls `each` for its selected work. Unites the spans of `d`. */
static bool add_exposed_ns(const exposing *x, device_spans *d, ka_exposure *out)
{
    ka_spans alone = {0};
    ka_spans_unite(&d->selected);
    ka_spans_unite(&d->hiding);
    bool ok = ka_spans_without(&d->selected, &d->hiding, &alone);
    out->ns = ka_add_ns(out->ns, ka_spans_ns(&d->selected));
    out->exposed_ns = ka_add_ns(out->exposed_ns, ka_spans_ns(&alone));
    kb_vec_free(&alone);
    if (ok && x->each)
        call_for_each_exposed(x, d);
    return ok;
}

bool ka_exposed_time(ka_finder *f, ka_select *pick, ka_each *each, void *context, ka_exposure *out)
{
    exposing x = {.f = f, .pick = pick, .each = each, .context = context};
    bool ok = true;
    *out = (ka_exposure){0};
    for (uint32_t i = 0; ok && i < f->s->stream_count; i++)
        ok = add_stream_spans(&x, &f->s->streams[i], out);
    for (size_t i = 0; i < x.devices.count; i++) {
        device_spans *d = &x.devices.data[i];
        ok = ok && add_exposed_ns(&x, d, out);
        kb_vec_free(&d->selected);
        kb_vec_free(&d->hiding);
        kb_vec_free(&d->work);
    }
    if (x.devices.count) {
        out->ns /= (int64_t)x.devices.count;
        out->exposed_ns /= (int64_t)x.devices.count;
    }
    KB_ASSERT(!ok || (out->exposed_ns >= 0 && out->exposed_ns <= out->ns));
    kb_vec_free(&x.devices);
    kb_map_free(&x.at);
    f->no_memory |= !ok;
    return ok;
}

/* ---- the critical path without something ----------------------------------------------------- */

bool ka_what_if_mask_create(ka_finder *f, ka_what_if_mask *w, bool with_work)
{
    w->slices = calloc((size_t)f->s->slice_count + 1, 1);
    w->work_ns = with_work ? calloc((size_t)f->s->work_count + 1, sizeof *w->work_ns) : NULL;
    f->no_memory |= !w->slices || (with_work && !w->work_ns);
    return !f->no_memory;
}

void ka_what_if_mask_free(ka_what_if_mask *w)
{
    free(w->slices);
    free(w->work_ns);
    *w = (ka_what_if_mask){0};
}

/* Slices are in an order in which parents come first: one pass is enough. */
static void inherit_mask_bits(const ka_dataset *s, ka_what_if_mask *w)
{
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (s->slices[i].parent != KA_NONE)
            w->slices[i] |= w->slices[s->slices[i].parent];
}

/* Does the edge end a call that waited for device work? */
static bool is_waiting_call(const ka_path *p, const ka_edge *e)
{
    const ka_node *node = &p->nodes.data[e->dst];
    return (e->type == KA_EDGE_SYNC || e->type == KA_EDGE_SYNC_INFERRED) &&
           node->of == KA_OF_SLICE && node->is_end;
}

/* Weight of an edge under the mask. Waiting edges that are removed get a weight that no path
 * would choose, without overflow when others are added. */
static int64_t masked_weight(const ka_path *p, const ka_what_if_mask *w, const ka_edge *e)
{
    if (is_waiting_call(p, e) && w->slices[p->nodes.data[e->dst].index] & KA_NO_WAIT)
        return INT64_MIN / 2; /* as if the edge were not there */
    if (e->of == KA_OF_SLICE && w->slices[e->owner] & KA_ZERO_COST)
        return 0;
    if (e->of == KA_OF_WORK && w->work_ns)
        return KB_MAX(e->ns - w->work_ns[e->owner], 0);
    return e->ns;
}

/* The critical path, which is made at its first use; NULL: not known. */
static const ka_path *get_path(ka_finder *f)
{
    return ka_saved_by(f, NULL, 0) == KA_NO_SAVINGS ? NULL : f->path;
}

int64_t ka_saved_by_mask(ka_finder *f, ka_what_if_mask *w)
{
    const ka_path *p = get_path(f);
    if (!p)
        return KA_NO_SAVINGS;
    inherit_mask_bits(f->s, w);
    int64_t *weights = malloc((p->edges.count + 1) * sizeof *weights),
            *times = malloc((p->nodes.count + 1) * sizeof *times), latest = 0;
    for (size_t i = 0; weights && times && i < p->edges.count; i++)
        weights[i] = masked_weight(p, w, &p->edges.data[i]);
    if (weights && times) {
        ka_path_times(p, weights, times);
        latest = ka_path_length(p, times);
    } else {
        f->no_memory = true;
    }
    free(weights);
    free(times);
    return f->no_memory ? KA_NO_SAVINGS : p->length_ns - latest;
}

/* ---- calls in which the host waited ---------------------------------------------------------- */

/* Allocations and releases wait for the device, too; memory.allocator_churn reports them. */
static bool is_memory_call(kineto_string name)
{
    static const char *const words[] = {"lloc", "Free", "free", "Register"};
    return has_one_of(name, words, KB_COUNT(words));
}

/* Calls of the CUDA and HIP runtimes and drivers. */
static bool is_synchronous_copy(kineto_string name)
{
    static const char *const words[] = {"Memcpy", "Memset"};
    return kb_string_starts_with(name, "cu") || kb_string_starts_with(name, "hip")
               ? has_one_of(name, words, KB_COUNT(words)) && !kb_string_contains(name, "Async")
               : false;
}

/* Bound for operators with very much inside. */
#define MAX_ASKED 64u /* slices and work of an operator */

static bool is_transfer_name(const ka_dataset *s, uint32_t work)
{
    kineto_string name = ka_name(s, s->work[work].name);
    return s->work[work].kind == KINETO_KIND_GPU_MEMCPY &&
           (ka_is_upload(name) || is_download_name(name));
}

/* The first copy between host and device that the operator launched; KA_NONE. */
static uint32_t find_copy_of(const ka_dataset *s, uint32_t site)
{
    uint32_t end = KB_MIN(s->slices[site].next, site + MAX_ASKED), left = MAX_ASKED;
    for (uint32_t i = site; i < end; i++)
        for (uint32_t k = 0; k < s->slices[i].work_count && left; k++, left--) {
            uint32_t work = s->launched[s->slices[i].first_work + k];
            if (is_transfer_name(s, work))
                return work;
        }
    return KA_NONE;
}

static uint8_t classify_wait(const ka_dataset *s, const ka_wait *w)
{
    if (is_synchronous_copy(ka_name(s, s->slices[w->call].name)))
        return KA_WAIT_COPY_CALL;
    if (w->copy == KA_NONE)
        return KA_WAIT_OTHER;
    kineto_string name = ka_name(s, s->work[w->copy].name);
    return ka_is_upload(name) && kb_string_contains(name, "Pageable") ? KA_WAIT_UPLOAD
                                                                      : KA_WAIT_OTHER;
}

/* Appends a wait with its place and kind. An operator that copies and then synchronises waits
 * once: is_first is set for the first wait of a kind in the operator. seen[] has a bit per
 * kind; bit 0 is for calls (collect_waits). */
static void append_wait(ka_finder *f, ka_waits *out, uint8_t *seen, uint32_t call)
{
    const ka_dataset *s = f->s;
    ka_wait w = {.call = call, .site = ka_site_of(s, call), .ns = ka_slice_ns(&s->slices[call])};
    w.copy = find_copy_of(s, w.site);
    w.kind = classify_wait(s, &w);
    uint8_t bit = (uint8_t)(2u << w.kind);
    w.is_first = !(seen[w.site] & bit);
    seen[w.site] |= bit;
    f->no_memory |= !kb_vec_push(&out->list, w);
}

static int compare_wait_ends(const void *left, const void *right, void *context)
{
    const ka_slice *slices = context;
    const ka_wait *a = left, *b = right;
    int64_t end_a = slices[a->call].end_ns, end_b = slices[b->call].end_ns;
    if (end_a != end_b)
        return end_a < end_b ? -1 : 1;
    return (a->call > b->call) - (a->call < b->call);
}

/* Union of all work on all devices. False: out of memory. */
static bool list_device_busy(const ka_dataset *s, ka_spans *busy)
{
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        if (w->end_ns > w->start_ns && !kb_vec_push(busy, (ka_span){w->start_ns, w->end_ns}))
            return false;
    }
    ka_spans_unite(busy);
    return true;
}

/* Gives each wait the idle time after its end, up to its own length. Without the wait the next
 * work would begin earlier by as much, hence a gap is given out once. With several devices,
 * gaps are those of all together. Waits are in the order of their ends. */
static void share_gaps_among_waits(const ka_dataset *s, ka_waits *waits, const ka_spans *busy)
{
    size_t next = 0, gap = SIZE_MAX;
    int64_t left = 0;
    for (size_t i = 0; i < waits->list.count; i++) {
        ka_wait *w = &waits->list.data[i];
        const ka_slice *call = &s->slices[w->call];
        while (next < busy->count && busy->data[next].start_ns <= call->end_ns)
            next++;
        if (!next || next == busy->count || busy->data[next - 1].end_ns > call->end_ns)
            continue; /* busy, or nothing before or after */
        if (next != gap)
            left = kb_length_ns(KB_MAX(busy->data[next - 1].end_ns, call->start_ns),
                                busy->data[next].start_ns);
        gap = next;
        w->idle_ns = KB_MIN(w->ns, left);
        left -= w->idle_ns;
    }
}

/* Calls at the end of waiting edges, each once; allocations and calls that cannot block are
 * left out. */
static void collect_waits(ka_finder *f, const ka_path *p, uint8_t *seen, ka_waits *out)
{
    for (size_t i = 0; i < p->edges.count && !f->no_memory; i++) {
        const ka_edge *e = &p->edges.data[i];
        if (!is_waiting_call(p, e))
            continue;
        uint32_t call = p->nodes.data[e->dst].index;
        if (seen[call] & 1 || !ka_is_in_steps(f, f->s->slices[call].step) ||
            ka_cannot_block(f->s, call) || is_memory_call(ka_name(f->s, f->s->slices[call].name)))
            continue;
        seen[call] |= 1;
        append_wait(f, out, seen, call);
    }
}

bool ka_waits_find(ka_finder *f, ka_waits *out)
{
    const ka_path *p = get_path(f);
    ka_spans busy = {0};
    if (!p)
        return true;
    uint8_t *seen = calloc((size_t)f->s->slice_count + 1, 1);
    f->no_memory |= !seen;
    if (!f->no_memory)
        collect_waits(f, p, seen, out);
    f->no_memory |= !f->no_memory && out->list.count && !list_device_busy(f->s, &busy);
    if (!f->no_memory && out->list.count) {
        qsort_r(out->list.data, out->list.count, sizeof *out->list.data, compare_wait_ends,
                (void *)(uintptr_t)f->s->slices);
        share_gaps_among_waits(f->s, out, &busy);
    }
    kb_vec_free(&busy);
    free(seen);
    return !f->no_memory;
}

void ka_waits_free(ka_waits *waits) { kb_vec_free(&waits->list); }

int64_t ka_host_idle_ns(const ka_finder *f)
{
    return ka_idle_ns(f, KA_IDLE_BIT(SYNCHRONIZING) | KA_IDLE_BIT(IN_OPERATOR) |
                             KA_IDLE_BIT(LAUNCHING) | KA_IDLE_BIT(BETWEEN_OPERATORS) |
                             KA_IDLE_BIT(IN_RUNTIME));
}

kb_text ka_later_text(int64_t saved_ns, int64_t measured_ns)
{
    kb_text text = {""};
    if (saved_ns > measured_ns)
        kb_snprintf(text.s, sizeof text.s,
                    "; staying ahead of the device saves %s more later",
                    kb_duration(saved_ns - measured_ns).s);
    return text;
}
