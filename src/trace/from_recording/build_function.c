/* Args and flags of the rows of operators (PyTorch's RecordFunction): ids, sequence
 * numbers, inputs and outputs, stacks and modules, as far as the session wants them
 * (KF_WANT_…). Called once for each operator, before its row is appended. */
#include "trace/from_recording/build.h"

static void stage_number_arg(kt_build_state *s, uint32_t *key, const char *name, uint64_t value)
{
    if (!*key)
        *key = kt_string(s->b, kb_string(name));
    kt_args_put_number(s->b, *key, value);
}

/* True for a loose arg that this session does not want, but another one did: stacks and
 * modules are one wish (KF_WANT_TEXTS), keyword arguments another (KF_WANT_INPUTS). */
static bool is_unwanted_loose_arg(const kt_build_state *s, uint32_t key)
{
    const kt_build_keys *k = &s->function_keys;
    bool text = key == k->call_stack || key == k->modules;
    return !(s->options.wants & (text ? KF_WANT_TEXTS : KF_WANT_INPUTS));
}

/* Stages the loose args of an operator that are wanted. */
static void stage_operator_loose_args(kt_build_state *s, const kf_function *f, const kf_event *e,
                                      uint32_t *flags)
{
    kf_event loose = {.args = {f->args, f->arg_words, NULL}, .source = e->source};
    s->leave_out = is_unwanted_loose_arg;
    kt_build_stage_args(s, &loose, flags);
    s->leave_out = NULL;
}

static void stage_shared_text(kt_build_state *s, uint32_t key, kineto_string text)
{
    kt_args_put_shared(s->b, key, KINETO_ARG_STRING, kt_string(s->b, text));
}

/* Stages a text of options.post, unless the row has this key. */
static void stage_posted_text(kt_build_state *s, uint32_t key, kineto_string text)
{
    if (text.size && !kt_build_has_key(s, key))
        stage_shared_text(s, key, text);
}

/* Stages stack and modules that the program provides (options.post). True: it provided a
 * call stack. */
static bool stage_posted_args(kt_build_state *s, int64_t debug_handle)
{
    kt_build_post *p = &s->post;
    if (!s->options.post)
        return false;
    p->stack.count = p->modules.count = 0;
    s->options.post(s->options.post_context, debug_handle, p);
    s->out_of_memory |= p->out_of_memory;
    stage_posted_text(s, s->function_keys.call_stack,
                      (kineto_string){p->stack.data, p->stack.count});
    stage_posted_text(s, s->function_keys.modules,
                      (kineto_string){p->modules.data, p->modules.count});
    return p->stack.count != 0;
}

/* Stages the native stack as "Call stack", or if the row has one (has_stack) and
 * KF_WANT_BOTH is set, as "Native stack". */
static void stage_native_stack(kt_build_state *s, const kf_function *f, bool has_stack)
{
    kt_symbols *symbols = s->processes.data[s->here].symbols;
    const kt_build_keys *keys = &s->function_keys;
    if (!f->stack_count || !(s->options.wants & KF_WANT_STACK) || !symbols)
        return;
    has_stack = has_stack || kt_build_has_key(s, keys->call_stack);
    if (has_stack && !(s->options.wants & KF_WANT_BOTH))
        return;
    kineto_string text = kt_symbols_stack(symbols, f->stack, f->stack_count);
    if (text.size)
        stage_shared_text(s, has_stack ? keys->native_stack : keys->call_stack, text);
}

static bool is_profiler_step(kineto_string name)
{
    static const char prefix[] = "ProfilerStep#";
    return name.size >= sizeof prefix - 1 && memcmp(name.data, prefix, sizeof prefix - 1) == 0;
}

/* Remembers the number of the current thread, which "Fwd thread id" of other rows refers to. */
static void remember_thread_number(kt_build_state *s, uint32_t number)
{
    if (number)
        s->threads.data[s->here_thread].number = number;
}

void kt_build_thread_numbers(kt_build_state *s)
{
    bool first = true;
    s->text.count = 0;
    kt_build_append(s, "{");
    for (size_t i = 0; i < s->threads.count; i++) {
        const kt_build_thread *t = &s->threads.data[i];
        KB_ASSERT(t->process < s->processes.count);
        if (t->track == KT_NONE || !t->number)
            continue;
        kt_build_append(s, first ? "\"" : ",\"");
        kt_build_append_int(s, s->processes.data[t->process].pid);
        kt_build_append(s, "/");
        kt_build_append_int(s, t->tid);
        kt_build_append(s, "\":");
        kt_build_append_int(s, t->number);
        first = false;
    }
    kt_build_append(s, "}");
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
    kt_build_adopt_node(s, e, &f);
    remember_thread_number(s, f.thread);
    stage_number_arg(s, &keys->event, "Ev Idx", s->b->trace->count);
    stage_number_arg(s, &keys->function_id, "Record function id", e->external_id);
    if (f.sequence >= 0) {
        stage_number_arg(s, &keys->sequence, "Sequence number", (uint64_t)f.sequence);
        stage_number_arg(s, &keys->forward_thread, "Fwd thread id", f.forward_thread);
        if (e->form == KF_FORM_RANGE)
            kt_build_add_node(s, &f);
    }
    if (f.debug_handle != -1)
        kt_args_put_int(s->b, kt_string(s->b, kb_string("Debug handle")), f.debug_handle);
    if (e->form == KF_FORM_ASYNC && e->tid) /* its track does not identify the thread */
        kt_args_put_number(s->b, kt_string(s->b, kb_string("Start thread")), e->tid);
    if (e->form == KF_FORM_ASYNC && e->end_tid && e->end_tid != e->tid)
        kt_args_put_number(s->b, kt_string(s->b, kb_string("End thread")), e->end_tid);
    if ((f.parts & KF_FUNCTION_INPUTS) && (wants & KF_WANT_INPUTS)) {
        if (!(wants & KF_WANT_VALUES))
            f.parts &= ~KF_FUNCTION_VALUES;
        kt_build_stage_inputs(s, &f, false, &row->flags);
    }
    if (e->outputs && (wants & KF_WANT_IDS)) {
        kf_function out = kf_function_read(e->outputs);
        kt_build_stage_inputs(s, &out, true, &row->flags);
    }
    if (f.args && (wants & (KF_WANT_TEXTS | KF_WANT_INPUTS)))
        stage_operator_loose_args(s, &f, e, &row->flags);
    stage_native_stack(s, &f, stage_posted_args(s, f.debug_handle));
    if (s->options.adjust_steps && is_profiler_step(e->name))
        s->out_of_memory |= !kb_vec_push(&s->steps, (kineto_row)s->b->trace->count);
    if (f.parts & KF_FUNCTION_CUT)
        row->flags |= KINETO_ACTIVITY_ARGS_LOST;
}

/* An operator that a backend ran as a whole and reported afterwards. */
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
    (void)stage_posted_args(s, debug_handle);
}
