/* The optional parts of events (KF_PROP_…), and asynchronous ranges. The two ends of such a range
 * may be records of different cursors, so copies of both halves are collected, and joined when
 * everything has been decoded. */
#include "format/decode.h"

/* ---- parts ----------------------------------------------------------------------------------- */

/* Read one word if the bit is set in `props`. False: no word is left. */
static bool read_optional_word(uint32_t props, uint32_t bit, const uint64_t **at,
                               const uint64_t *end, uint64_t *out)
{
    if (!(props & bit))
        return true;
    if (*at == end)
        return false;
    *out = *(*at)++;
    return true;
}

static bool read_part_name(const kf_input *input, const uint64_t **at, const uint64_t *end,
                           kineto_string *name)
{
    uint32_t left = (uint32_t)(end - *at);
    if (kf_value_words(KINETO_ARG_STRING, *at, left) == 0)
        return false;
    *name = kf_text(input, at);
    return true;
}

bool kf_parts_parse(kf_sites *sites, const uint64_t *record, uint32_t words, uint32_t first,
                    kf_parts_view *out)
{
    const uint64_t *at = record + first, *end = record + words;
    uint32_t props = kf_header_aux(record[0]) >> 8;
    const kf_site *site = kf_site_of(sites, kf_header_id(record[0]));
    *out = (kf_parts_view){.site = site, .name = site->name};
    if (props == 0)
        return first == words;
    if (!read_optional_word(props, KF_PROP_CORRELATION, &at, end, &out->correlation_id) ||
        !read_optional_word(props, KF_PROP_EXTERNAL, &at, end, &out->external_id))
        return false;
    if ((props & KF_PROP_NAME) && !read_part_name(sites->input, &at, end, &out->name))
        return false;
    if (props & KF_PROP_FUNCTION) {
        uint32_t part = kf_function_check(at, (uint32_t)(end - at));
        if (!part)
            return false;
        out->function = at;
        at += part;
    }
    if (props & KF_PROP_ARGS_LOST)
        out->flags |= KF_EVENT_ARGS_LOST;
    if (!(props & KF_PROP_ARGS))
        return at == end;
    if (!site->known) {
        out->flags |= KF_EVENT_ARGS_LOST;
        return true;
    }
    out->args = (kf_args){at, (uint32_t)(end - at), site};
    return kf_site_args_valid(site, at, out->args.word_count);
}

void kf_event_set_parts(kf_event *event, const kf_parts_view *parts)
{
    event->site = parts->site;
    event->kind = parts->site->kind;
    event->name = parts->name;
    event->correlation_id = parts->correlation_id;
    event->external_id = parts->external_id;
    event->args = parts->args;
    event->function = parts->function;
    event->flags |= parts->flags;
}

/* ---- halves ---------------------------------------------------------------------------------- */

bool kf_half_add(kf_halves *halves, kf_half half, const uint64_t *record, uint32_t words)
{
    uint64_t *copy = kb_arena_alloc(&halves->arena, words * sizeof *copy, sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, record, words * sizeof *copy);
    half.record = copy;
    half.order = halves->list.count;
    return kb_vec_push(&halves->list, half);
}

void kf_halves_free(kf_halves *halves)
{
    kb_vec_free(&halves->list);
    kb_arena_free(&halves->arena);
}

/* Halves with the same key belong to one range, or to successive ones. */
static int compare_half_keys(const kf_half *a, const kf_half *b)
{
    if (a->pid != b->pid)
        return KB_COMPARE(a->pid, b->pid);
    if (a->site != b->site)
        return KB_COMPARE(a->site, b->site);
    return KB_COMPARE(a->id, b->id);
}

/* By key and time; a begin before an end of the same time, then in the order of decoding. */
static int compare_halves(const void *left, const void *right)
{
    const kf_half *a = left, *b = right;
    int order = compare_half_keys(a, b);
    if (order)
        return order;
    if (a->ticks != b->ticks)
        return KB_COMPARE(a->ticks, b->ticks);
    if (a->is_end != b->is_end)
        return a->is_end ? 1 : -1;
    return KB_COMPARE(a->order, b->order);
}

typedef struct joiner {
    kf_sites *sites;
    const kf_visitor *visitor;
    kf_decode_result *result;
} joiner;

static bool parse_half(joiner *j, const kf_half *half, kf_parts_view *parts)
{
    return kf_parts_parse(j->sites, half->record, kf_header_words(half->record[0]), 3, parts);
}

/* Emit the range of two halves, one of which may be NULL. Both were validated when they were
 * added. */
static kineto_status emit_async_pair(joiner *j, const kf_half *begin, const kf_half *end)
{
    const kf_half *half = begin ? begin : end;
    KB_ASSERT(half && (!begin || !begin->is_end) && (!end || end->is_end));
    kf_parts_view parts = {.site = &kf_site_unknown}, end_parts = {.site = &kf_site_unknown};
    (void)parse_half(j, half, &parts);
    kf_event e = {.form = KF_FORM_ASYNC,
                  .clock = KINETO_PLUGIN_CLOCK_TICKS,
                  .process = half->process,
                  .pid = half->pid,
                  .tid = half->tid,
                  .cursor = half->cursor,
                  .start = half->ticks,
                  .end = end ? end->ticks : KB_MAX(half->ticks, j->result->last_ticks),
                  .async_id = half->id,
                  .end_tid = end ? end->tid : 0};
    kf_event_set_parts(&e, &parts);
    if (!end) {
        e.flags |= KF_EVENT_OPEN_END | KF_EVENT_STILL_OPEN;
        j->result->open_ranges++;
    } else if (!begin) {
        e.flags |= KF_EVENT_OPEN_START;
        j->result->unmatched_ends++;
    } else if (parse_half(j, end, &end_parts) && end_parts.args.words) {
        e.more_args = &end_parts.args;
        e.more_count = 1;
    }
    return j->visitor->event ? j->visitor->event(j->visitor->context, &e) : KINETO_OK;
}

/* Pair the halves of one key, in time order: each end belongs to the oldest begin without an
 * end. */
static kineto_status emit_async_group(joiner *j, const kf_half *half, size_t count)
{
    size_t oldest = 0;
    kineto_status status = KINETO_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (!half[i].is_end)
            continue;
        while (oldest < i && half[oldest].is_end)
            oldest++;
        status = emit_async_pair(j, oldest < i ? &half[oldest++] : NULL, &half[i]);
    }
    for (; oldest < count && !status; oldest++)
        if (!half[oldest].is_end)
            status = emit_async_pair(j, &half[oldest], NULL);
    return status;
}

kineto_status kf_halves_emit(kf_halves *halves, kf_sites *sites, const kf_visitor *visitor,
                             kf_decode_result *result)
{
    joiner j = {sites, visitor, result};
    kf_half *all = halves->list.data;
    size_t count = halves->list.count;
    if (count)
        qsort(all, count, sizeof *all, compare_halves);
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && compare_half_keys(&all[first], &all[next]) == 0;)
            next++;
        kineto_status status = emit_async_group(&j, all + first, next - first);
        if (status)
            return status;
    }
    return KINETO_OK;
}
