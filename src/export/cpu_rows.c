/* Rows of the source "cpu" (cpu_rows.h). Their tracks are known by a text, "state 42" or "samples
 * 42", as src/trace/from_recording/build_watched.c makes them, also after reading a file. */
#include "export/cpu_rows.h"

static const char *const track_words[] = {"", "state", "samples"}; /* by ke_cpu_row_type */

/* The number after "word "; false: the text is another one. */
static bool parse_track_text(kineto_string text, const char *word, uint32_t *tid)
{
    size_t at = strlen(word), digits = 0;
    uint64_t number = 0;
    if (text.size < at + 2 || memcmp(text.data, word, at) != 0 || text.data[at] != ' ')
        return false;
    for (at++; at < text.size && kb_is_digit(text.data[at]) && digits < 10; at++, digits++)
        number = number * 10 + (uint64_t)(text.data[at] - '0');
    *tid = (uint32_t)number;
    return at == text.size && number > 0 && number <= INT32_MAX;
}

ke_cpu_row_type ke_cpu_track(const kineto_trace *t, uint32_t track, uint32_t *tid)
{
    kineto_string text = kt_track_text_of(t, track);
    if (!text.data)
        return KE_CPU_ROW_NONE;
    for (ke_cpu_row_type i = KE_CPU_ROW_STATE; i <= KE_CPU_ROW_SAMPLES; i++)
        if (parse_track_text(text, track_words[i], tid))
            return i;
    return KE_CPU_ROW_NONE;
}

/* The name of the track ends in ": state" or ": samples". */
ke_label ke_cpu_thread_label(const kineto_trace *t, uint32_t track)
{
    ke_label label = {.size = 0};
    kineto_track view;
    uint32_t tid = 0;
    size_t ending = strlen(track_words[ke_cpu_track(t, track, &tid)]) + 2;
    kineto_trace_track(t, track, &view);
    KB_ASSERT(tid > 0);
    if (view.name.size <= ending || memcmp(view.name.data + view.name.size - ending, ": ", 2) != 0) {
        label.size = (size_t)snprintf(label.text, sizeof label.text, "thread %u", tid);
        return label;
    }
    label.size = KB_MIN(view.name.size - ending, sizeof label.text);
    memcpy(label.text, view.name.data, label.size);
    return label;
}

kineto_string ke_cpu_thread_name(const ke_label *label)
{
    const char *open = memchr(label->text, '(', label->size);
    if (!open || label->text[label->size - 1] != ')')
        return (kineto_string){"", 0};
    return (kineto_string){open + 1, (size_t)(label->text + label->size - 1 - (open + 1))};
}

/* A number that is not negative; false: there is none with this key. */
static bool read_count_arg(const kineto_trace *t, kineto_row row, const char *key, int64_t *out)
{
    kineto_arg arg;
    return kineto_args_find(t, row, key, &arg) && kt_arg_whole(&arg, out) && *out >= 0;
}

ke_sampled ke_sampled_of(const kineto_trace *t, kineto_row row)
{
    ke_sampled s = {0};
    if (!read_count_arg(t, row, "cpu_ns", &s.cpu_ns))
        s.cpu_ns = 0;
    if (!read_count_arg(t, row, "samples", &s.samples))
        s.samples = 0;
    return s;
}

bool ke_row_is_kind(const kineto_trace *t, kineto_row row, uint32_t kind)
{
    return kt_block_at(t, row / KT_BLOCK_ROWS)->kind[row % KT_BLOCK_ROWS] == kind;
}

ke_state ke_state_of(const kineto_trace *t, kineto_row row)
{
    static const char *const names[] = {"running", "waiting for a CPU", "blocked"};
    const kt_block *b = kt_block_at(t, row / KT_BLOCK_ROWS);
    kineto_string name = kineto_trace_string(t, b->name[row % KT_BLOCK_ROWS]);
    uint32_t i = 0;
    while (i < KE_STATE_COUNT && !kb_string_equal(name, kb_string(names[i])))
        i++;
    return (ke_state)i;
}

bool ke_state_cpu(const kineto_trace *t, kineto_row row, uint32_t *cpu)
{
    int64_t number;
    if (!read_count_arg(t, row, "cpu", &number) || number > UINT16_MAX)
        return false;
    *cpu = (uint32_t)number;
    return true;
}

kineto_string ke_state_stack(const kineto_trace *t, kineto_row row)
{
    kineto_arg arg;
    if (!kineto_args_find(t, row, "Call stack", &arg) || arg.type != KINETO_ARG_STRING)
        return (kineto_string){"", 0};
    return arg.text;
}

/* "module!function" and "module+0x1f20". */
static ke_stack_frame split_module(kineto_string text)
{
    const char *mark = memchr(text.data, '!', text.size);
    size_t before = mark ? (size_t)(mark - text.data) : 0;
    if (!before || before + 1 == text.size)
        return (ke_stack_frame){.function = text, .file = {"", 0}};
    return (ke_stack_frame){.function = {mark + 1, text.size - before - 1},
                            .file = {text.data, before}};
}

bool ke_stack_next(kineto_string *stack, ke_stack_frame *frame)
{
    while (stack->size && *stack->data == ';')
        *stack = (kineto_string){stack->data + 1, stack->size - 1};
    if (!stack->size)
        return false;
    const char *end = memchr(stack->data, ';', stack->size);
    kineto_string text = {stack->data, end ? (size_t)(end - stack->data) : stack->size};
    *stack = (kineto_string){text.data + text.size, stack->size - text.size};
    *frame = (ke_stack_frame){.function = text, .file = {"", 0}};
    if (!ke_parse_python_name(text, &frame->file, &frame->line, &frame->function))
        *frame = split_module(text);
    return true;
}
