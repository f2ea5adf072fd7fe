/* The decoder on any bytes: no crash, nothing read out of bounds, and what it says is consistent.
 */
#include "recording.h"

typedef struct seen {
    const kf_input *input;
    uint64_t sum, events;
} seen;

static void check(bool right)
{
    if (!right)
        abort();
}

static void touch_value(seen *s, const kf_arg *a)
{
    const uint64_t *at = a->value;
    s->sum += fuzz_touch(a->name.data, a->name.size) + fuzz_touch(a->value, a->word_count * 8u);
    s->sum += fuzz_touch(a->text.data, a->text.size);
    if (a->type == KINETO_ARG_INTS)
        s->sum += fuzz_touch(a->ints, a->int_count * 8u);
    check(a->type == KINETO_ARG_STRING || a->type == KINETO_ARG_JSON || a->text.size == 0);
    if (a->type != KINETO_ARG_STRINGS)
        return;
    at++;
    for (uint64_t i = 0; i < a->value[0]; i++) {
        kineto_string text = kf_text(s->input, &at);
        s->sum += fuzz_touch(text.data, text.size);
    }
    check(at == a->value + a->word_count);
}

static void touch_args(seen *s, const kf_args *args)
{
    kf_args_iterator it;
    kf_arg a;
    uint32_t count = 0;
    kf_args_begin(&it, args, s->input);
    for (; kf_args_next(&it, &a); count++)
        touch_value(s, &a);
    if (args->words && args->site)
        check(count == args->site->arg_count);
    if (args->words)
        check(it.position == args->word_count);
}

/* Every input of an operator, and every size of it. */
static void touch_inputs(seen *s, const kf_function *f)
{
    const uint64_t *at = f->inputs, *end = at + f->input_words;
    kf_input_item item;
    while (kf_input_next(&at, end, &item)) {
        bool tensor = item.type == KINETO_INPUT_TENSOR, list = item.type >= KINETO_INPUT_INTS;
        check(at <= end && item.type < KINETO_INPUT_TYPE_COUNT);
        for (uint32_t k = 0; tensor && k < item.count; k++) {
            s->sum += (uint64_t)kf_input_size(&item, item.sizes, k);
            s->sum += item.strides ? (uint64_t)kf_input_size(&item, item.strides, k) : 0;
        }
        if (item.ids)
            s->sum += fuzz_touch(item.ids, 3 * sizeof *item.ids);
        if (item.values)
            s->sum += fuzz_touch(item.values, (list ? item.count : 1u) * sizeof *item.values);
    }
    check(at <= end); /* what is wrong with them shows when they are walked, as here */
}

static void touch_function(seen *s, const uint64_t *words)
{
    if (!words)
        return;
    kf_function f = kf_function_read(words);
    kf_args loose = {f.args, f.arg_words, NULL};
    s->sum += fuzz_touch(f.stack, f.stack_count * sizeof *f.stack) + f.thread;
    s->sum += (uint64_t)f.sequence + f.forward_thread + (uint64_t)f.debug_handle;
    touch_args(s, &loose);
    touch_inputs(s, &f);
}

static kineto_status on_event(void *context, const kf_event *e)
{
    seen *s = context;
    s->events++;
    check(e->form == KF_FORM_DEVICE || e->end >= e->start);
    check(e->kind < KINETO_KIND_COUNT || (e->kind >= KINETO_KIND_OWN_FIRST && e->kind < 64));
    check(e->source < KF_MAX_SOURCES && e->spelling <= kb_kind_alias_count);
    check(!e->args.site || e->args.site == e->site);
    s->sum += fuzz_touch(e->name.data, e->name.size);
    touch_args(s, &e->args);
    for (uint32_t i = 0; i < e->more_count; i++)
        touch_args(s, &e->more_args[i]);
    if (e->set) {
        kf_args set = kf_set_args(s->input->dictionary, s->input->dictionary_words, e->set);
        check(set.word_count > 0 && e->form == KF_FORM_DEVICE && !e->site);
        touch_args(s, &set);
    }
    s->sum += fuzz_touch(e->flows, e->flow_count * sizeof *e->flows);
    touch_function(s, e->function);
    touch_function(s, e->outputs);
    if (e->memory)
        s->sum += fuzz_touch(e->memory, 5 * sizeof *e->memory);
    return KINETO_OK;
}

static kineto_status on_sample(void *context, const kf_clock_sample *sample)
{
    ((seen *)context)->sum += sample->ticks_after;
    return KINETO_OK;
}

static kineto_status on_name(void *context, uint32_t process, uint32_t pid, uint32_t tid,
                             kineto_string name, bool of_system)
{
    ((seen *)context)->sum += process + pid + tid + of_system + fuzz_touch(name.data, name.size);
    return KINETO_OK;
}

static kineto_status on_entry(void *context, uint32_t id, kf_entry_type type,
                              const uint8_t *payload, size_t size)
{
    size_t at = 0;
    check(id != 0 && type < KF_ENTRY_TYPE_COUNT);
    while (at < size) {
        size_t before = at;
        kineto_string text = kf_entry_text(payload, size, &at);
        ((seen *)context)->sum += fuzz_touch(text.data, text.size);
        if (at == before)
            break;
    }
    return KINETO_OK;
}

static kineto_status on_run(void *context, const kf_thread_run *run)
{
    seen *s = context;
    check(run->end >= run->start);
    s->sum += run->start + run->end + run->cpu + run->flags + run->thread.pid + run->thread.tid;
    return KINETO_OK;
}

static kineto_status on_stack(void *context, const kf_stack_sample *sample)
{
    seen *s = context;
    check(sample->kernel_count <= sample->count && sample->count <= KF_MAX_RECORD_WORDS);
    for (uint32_t i = 0; i < sample->count; i++)
        s->sum += sample->addresses[i];
    s->sum += sample->ticks + sample->cpu_ns;
    return KINETO_OK;
}

static kineto_status on_life(void *context, const kf_thread_life *life)
{
    seen *s = context;
    check(life->end >= life->start);
    s->sum += life->start + life->creator_tid;
    return KINETO_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_recording r;
    kf_decode_result first, again;
    if (fuzz_open(&r, data, size)) {
        seen a = {.input = &r.input}, b = a;
        kf_visitor v = {.context = &a,
                        .event = on_event,
                        .clock_sample = on_sample,
                        .thread_name = on_name,
                        .thread_run = on_run,
                        .stack_sample = on_stack,
                        .thread_life = on_life,
                        .entry = on_entry};
        kf_visitor w = v;
        w.context = &b;
        check(kf_decode(&r.input, &v, &first, NULL) == KINETO_OK);
        check(kf_decode(&r.input, &w, &again, NULL) == KINETO_OK);
        check(a.sum == b.sum && a.events == b.events);
        check(memcmp(&first, &again, sizeof first) == 0);
    }
    fuzz_close(&r);
    return 0;
}
