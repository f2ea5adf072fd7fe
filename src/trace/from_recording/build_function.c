/* Operators of a recording: their rows' args and flags. */
#include "trace/from_recording/build.h"

static void put_number_arg(kt_build_state *s, uint32_t *key, const char *name, uint64_t value)
{
    if (!*key)
        *key = kt_string(s->b, kb_string(name));
    kt_args_put_number(s->b, *key, value);
}

/* Another session may have wanted it: stacks and modules are one wish, keywords another. */
static bool is_unwanted(const kt_build_state *s, uint32_t key)
{
    const kt_build_keys *k = &s->function_keys;
    bool text = key == k->call_stack || key == k->modules;
    return !(s->options.wants & (text ? KF_WANT_TEXTS : KF_WANT_INPUTS));
}

static void put_loose(kt_build_state *s, const kf_function *f, const kf_event *e, uint32_t *flags)
{
    kf_event loose = {.args = {f->args, f->arg_words, NULL}, .source = e->source};
    s->leave_out = is_unwanted;
    kt_build_put_args(s, &loose, flags);
    s->leave_out = NULL;
}

static void put_shared_text(kt_build_state *s, uint32_t key, kineto_string text)
{
    kt_args_put_shared(s->b, key, KINETO_ARG_STRING, kt_string(s->b, text));
}

static void put_told(kt_build_state *s, uint32_t key, kineto_string text)
{
    if (text.size && !kt_build_has_key(s, key))
        put_shared_text(s, key, text);
}

/* @return they say its call stack. */
static bool post_args(kt_build_state *s, int64_t debug_handle)
{
    kt_build_post *p = &s->post;
    if (!s->options.post)
        return false;
    p->stack.count = p->modules.count = 0;
    s->options.post(s->options.post_context, debug_handle, p);
    s->out_of_memory |= p->out_of_memory;
    put_told(s, s->function_keys.call_stack, (kineto_string){p->stack.data, p->stack.count});
    put_told(s, s->function_keys.modules, (kineto_string){p->modules.data, p->modules.count});
    return p->stack.count != 0;
}

/* The native one, unless the program says its own; or beside it. */
static void put_stack(kt_build_state *s, const kf_function *f, bool told)
{
    kt_symbols *symbols = s->processes.data[s->here].symbols;
    const kt_build_keys *keys = &s->function_keys;
    if (!f->stack_count || !(s->options.wants & KF_WANT_STACK) || !symbols)
        return;
    told = told || kt_build_has_key(s, keys->call_stack);
    if (told && !(s->options.wants & KF_WANT_BOTH))
        return;
    kineto_string text = kt_symbols_stack(symbols, f->stack, f->stack_count);
    if (text.size)
        put_shared_text(s, told ? keys->native_stack : keys->call_stack, text);
}

static bool is_step(kineto_string name)
{
    static const char prefix[] = "ProfilerStep#";
    return name.size >= sizeof prefix - 1 && memcmp(name.data, prefix, sizeof prefix - 1) == 0;
}

/* A thread's number, for who reads the trace: "Fwd thread id" is one. */
static void note_thread(kt_build_state *s, uint32_t number)
{
    if (number)
        s->threads.data[s->here_thread].number = number;
}

void kt_build_thread_numbers(kt_build_state *s)
{
    bool first = true;
    s->text.count = 0;
    kt_build_put(s, "{");
    for (size_t i = 0; i < s->threads.count; i++) {
        const kt_build_thread *t = &s->threads.data[i];
        if (t->track == KT_NONE || !t->number)
            continue;
        kt_build_put(s, first ? "\"" : ",\"");
        kt_build_put_int(s, s->processes.data[t->process].pid);
        kt_build_put(s, "/");
        kt_build_put_int(s, t->tid);
        kt_build_put(s, "\":");
        kt_build_put_int(s, t->number);
        first = false;
    }
    kt_build_put(s, "}");
    if (!first)
        kt_metadata(s->b, kb_string("ckineto_threads"),
                    (kineto_string){s->text.data, s->text.count});
}

void kt_build_function(kt_build_state *s, const kf_event *e, kt_row *row)
{
    kf_function f = kf_function_read(e->function);
    uint32_t wants = s->options.wants;
    kt_build_keys *keys = &s->function_keys;
    row->flags |= (uint32_t)(e->site->scope & 15) << KINETO_ACTIVITY_SCOPE_SHIFT;
    s->keys.count = 0;
    kt_build_node_adopt(s, e, &f);
    note_thread(s, f.thread);
    put_number_arg(s, &keys->event, "Ev Idx", s->b->trace->count);
    put_number_arg(s, &keys->function_id, "Record function id", e->external_id);
    if (f.sequence >= 0) {
        put_number_arg(s, &keys->sequence, "Sequence number", (uint64_t)f.sequence);
        put_number_arg(s, &keys->forward_thread, "Fwd thread id", f.forward_thread);
        if (e->form == KF_FORM_RANGE)
            kt_build_node_keep(s, &f);
    }
    if (f.debug_handle != -1)
        kt_args_put_int(s->b, kt_string(s->b, kb_string("Debug handle")), f.debug_handle);
    if (e->form == KF_FORM_ASYNC && e->tid) /* its track is none of a thread */
        kt_args_put_number(s->b, kt_string(s->b, kb_string("Start thread")), e->tid);
    if (e->form == KF_FORM_ASYNC && e->end_tid && e->end_tid != e->tid)
        kt_args_put_number(s->b, kt_string(s->b, kb_string("End thread")), e->end_tid);
    if ((f.parts & KF_FUNCTION_INPUTS) && (wants & KF_WANT_INPUTS)) {
        if (!(wants & KF_WANT_VALUES))
            f.parts &= ~KF_FUNCTION_VALUES;
        kt_build_inputs_put(s, &f, false, &row->flags);
    }
    if (e->outputs && (wants & KF_WANT_IDS)) {
        kf_function out = kf_function_read(e->outputs);
        kt_build_inputs_put(s, &out, true, &row->flags);
    }
    if (f.args && (wants & (KF_WANT_TEXTS | KF_WANT_INPUTS)))
        put_loose(s, &f, e, &row->flags);
    put_stack(s, &f, post_args(s, f.debug_handle));
    if (s->options.adjust_steps && is_step(e->name))
        s->out_of_memory |= !kb_vec_push(&s->steps, (kineto_row)s->b->trace->count);
    if (f.parts & KF_FUNCTION_CUT)
        row->flags |= KINETO_ACTIVITY_ARGS_LOST;
}

/* What a backend ran as a whole and reported afterwards. */
void kt_build_backend(kt_build_state *s, const kf_event *e)
{
    kf_args_iterator it;
    kf_arg arg;
    int64_t debug_handle = -1;
    if (!s->options.post)
        return;
    if (e->args.words)
        kf_args_begin(&it, &e->args, s->input);
    else
        s->keys.count = 0;
    while (e->args.words && kf_args_next(&it, &arg))
        if (arg.type == KINETO_ARG_INT && kb_string_equal(arg.name, kb_string("Debug handle")))
            debug_handle = (int64_t)arg.value[0];
    (void)post_args(s, debug_handle);
}
