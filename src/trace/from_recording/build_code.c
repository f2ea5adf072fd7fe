/* Names of constructs of OpenMP by their place in the program. Sites of that kind whose first arg is
 * "code", an address, get rows that are named "omp parallel main (work.c:12)": the name of the site, the
 * function, and where line tables exist the line. Each address is named once. */
#include "trace/from_recording/build.h"

/* What GCC and Clang call the functions that they make of the body of a construct: the enclosing function
 * and one of these marks, and more. */
static const char *const outlined_marks[] = {"._omp_fn.", ".omp_outlined", ".omp_task_entry"};

/* The function before such a mark; empty: the name begins with it. */
static kineto_string strip_outlined_mark(kineto_string function)
{
    for (size_t k = 0; k < KB_COUNT(outlined_marks); k++) {
        const char *mark = outlined_marks[k];
        const char *at = function.size ? memmem(function.data, function.size, mark, strlen(mark))
                                       : NULL;
        if (at)
            return (kineto_string){function.data, (size_t)(at - function.data)};
    }
    return function;
}

static kineto_string strip_folders(kineto_string path)
{
    const char *slash = path.size ? memrchr(path.data, '/', path.size) : NULL;
    if (!slash)
        return path;
    return (kineto_string){slash + 1, path.size - (size_t)(slash + 1 - path.data)};
}

static void append_code_line(kt_build_state *s, const kt_symbol_text *text)
{
    kineto_string function = strip_outlined_mark(text->function);
    kt_build_append_text(s, function);
    kt_build_append(s, function.size ? " (" : "");
    kt_build_append_text(s, strip_folders(text->file));
    kt_build_append(s, ":");
    kt_build_append_int(s, text->line);
    kt_build_append(s, function.size ? ")" : "");
}

/* Appends the place of an address: "function (file:line)", "function", "module+0x12", or the address.
 * Without a line the name of an outlined function stays whole: its number tells it from others. */
static void append_code_place(kt_build_state *s, uint64_t code)
{
    kt_symbols *symbols = s->processes.data[s->here].symbols;
    kt_symbol_text text;
    char number[32];
    if (symbols && kt_symbol(symbols, code, &text)) {
        if (text.line)
            append_code_line(s, &text);
        else
            kt_build_append_text(s, text.function.size ? text.function : text.text);
        return;
    }
    snprintf(number, sizeof number, "0x%llx", (unsigned long long)code);
    kt_build_append(s, number);
}

static uint32_t make_code_name(kt_build_state *s, const kf_event *e, uint64_t code)
{
    s->text.count = 0;
    kt_build_append_text(s, e->name);
    kt_build_append(s, " ");
    append_code_place(s, code);
    return kt_string(s->b, (kineto_string){s->text.data, s->text.count});
}

bool kt_build_has_code(const kf_event *e)
{
    const kf_site *site = e->site;
    return e->kind == KINETO_KIND_OPENMP && site && site->arg_count && e->args.site == site &&
           e->args.word_count && site->arg_types[0] == KINETO_ARG_UINT &&
           kb_string_equal(site->arg_names[0], kb_string("code")) && e->args.words[0];
}

uint32_t kt_build_code_name(kt_build_state *s, const kf_event *e)
{
    uint64_t about[3] = {s->here, e->site->index, e->args.words[0]};
    bool created;
    KB_ASSERT(kt_build_has_code(e));
    uint64_t *name = kb_map_insert(&s->code_names, kb_hash(about, sizeof about), 0, &created);
    if (!name) {
        s->out_of_memory = true;
        return 0;
    }
    if (created) /* the map does not change meanwhile */
        *name = make_code_name(s, e, e->args.words[0]);
    return (uint32_t)*name;
}
