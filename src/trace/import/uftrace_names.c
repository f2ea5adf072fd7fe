/* Reads uftrace's tables of functions and mappings; see uftrace_names.h. */
#include "trace/import/uftrace_names.h"
#include "trace/import/text_line.h"

#define NO_TABLE UINT32_MAX

/* ---- texts ----------------------------------------------------------------------------------- */

/* A hexadecimal number at the beginning of a text, which is taken off it. False: there is none. */
static bool take_hex(kineto_string *text, uint64_t *value)
{
    size_t digits = 0;
    *value = 0;
    for (; digits < text->size && kb_is_hex_digit(text->data[digits]); digits++)
        *value = *value << 4 | (uint64_t)kb_hex_value(text->data[digits]);
    *text = kb_string_skip(*text, digits);
    return digits != 0 && digits <= 16;
}

/* ---- tables of functions --------------------------------------------------------------------- */

/* "0000000000001229 t fib". A function ends where the next line begins; lines of type '?' are ends of
 * sections. */
static bool add_function(kt_uftrace_table *table, kineto_string line)
{
    kt_uftrace_function f;
    if (!take_hex(&line, &f.offset))
        return true;
    kineto_string type = kt_line_word(&line);
    f.name = kt_line_trim(line);
    if (type.size != 1 || !f.name.size)
        return true;
    if (type.data[0] == '?')
        f.name.size = 0;
    return kb_vec_push(&table->functions, f);
}

static int compare_functions(const void *left, const void *right)
{
    const kt_uftrace_function *a = left, *b = right;
    return a->offset != b->offset ? KB_COMPARE(a->offset, b->offset)
                                  : KB_COMPARE(a->name.data, b->name.data);
}

static bool read_table(kt_uftrace_names *n, kineto_string text)
{
    static const char path_key[] = "# path name: ";
    kt_uftrace_table table = {.path = {"", 0}};
    kineto_string line;
    bool has_memory = true;
    while (has_memory && kt_line_next(&text, &line)) {
        if (kb_string_starts_with(line, path_key))
            table.path = kb_string_skip(line, sizeof path_key - 1);
        else
            has_memory = add_function(&table, line);
    }
    if (table.functions.count)
        qsort(table.functions.data, table.functions.count, sizeof *table.functions.data,
              compare_functions);
    if (has_memory && kb_vec_push(&n->tables, table))
        return true;
    kb_vec_free(&table.functions);
    return false;
}

kineto_status kt_uftrace_tables_read(kt_uftrace_names *n, kt_directory *d, kineto_error *err)
{
    kt_directory_names names;
    kineto_string text;
    kineto_status status = kt_symbols_create(&n->symbols, err);
    if (!status)
        status = kt_directory_find(d->path, "", ".sym", &names, err);
    else
        return status;
    for (size_t i = 0; i < names.list.count && !status; i++) {
        status = kt_directory_read(d, names.list.data[i], &text, err);
        if (!status && !read_table(n, text))
            status = kb_fail_memory(err, "uftrace");
    }
    kt_directory_names_free(&names);
    return status;
}

static uint32_t find_table(const kt_uftrace_names *n, kineto_string path)
{
    for (size_t i = 0; i < n->tables.count; i++)
        if (kb_string_equal(n->tables.data[i].path, path))
            return (uint32_t)i;
    return NO_TABLE;
}

/* The function that contains an offset; empty: none. */
static kineto_string find_uftrace_symbol(const kt_uftrace_table *table, uint64_t offset)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, table->functions.count, table->functions.data[after].offset <= offset);
    return after ? table->functions.data[after - 1].name : (kineto_string){"", 0};
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* "55e4c6a00000-55e4c6a05000 r-xp 00000000 00:00 0    /path build-id:…". */
static bool parse_mapping_line(kineto_string line, kt_uftrace_mapping *m)
{
    *m = (kt_uftrace_mapping){.table = NO_TABLE};
    if (!take_hex(&line, &m->start) || !line.size || line.data[0] != '-')
        return false;
    line = kb_string_skip(line, 1);
    if (!take_hex(&line, &m->end))
        return false;
    for (int field = 0; field < 4; field++) /* protection, offset, device, inode */
        (void)kt_line_word(&line);
    line = kt_line_trim(line);
    const char *id = line.size ? memmem(line.data, line.size, " build-id:", 10) : NULL;
    m->path = kt_line_trim((kineto_string){line.data, id ? (size_t)(id - line.data) : line.size});
    return m->path.size != 0 && m->path.data[0] != '[' && m->start < m->end;
}

/* Parts of one file follow each other, and are one mapping: functions are counted from its start. */
static bool add_mapping(kt_uftrace_session *s, kt_uftrace_mapping m)
{
    kt_uftrace_mapping *last = s->mappings.count ? &s->mappings.data[s->mappings.count - 1] : NULL;
    if (last && kb_string_equal(last->path, m.path)) {
        last->end = KB_MAX(last->end, m.end);
        return true;
    }
    return kb_vec_push(&s->mappings, m);
}

kineto_status kt_uftrace_session_add(kt_uftrace_names *n, kt_directory *d, kt_uftrace_session session,
                                     kineto_error *err)
{
    char name[80];
    kineto_string text, line;
    kt_uftrace_mapping m;
    bool has_memory = true;
    snprintf(name, sizeof name, "sid-%.*s.map", (int)KB_MIN(session.id.size, (size_t)64),
             session.id.data);
    kineto_status status = kt_directory_read(d, name, &text, err);
    while (!status && has_memory && kt_line_next(&text, &line))
        if (parse_mapping_line(line, &m))
            has_memory = add_mapping(&session, m);
    for (size_t i = 0; i < session.mappings.count; i++)
        session.mappings.data[i].table = find_table(n, session.mappings.data[i].path);
    if (!status && (!has_memory || !kb_vec_push(&n->sessions, session)))
        status = kb_fail_memory(err, "uftrace");
    if (status)
        kb_vec_free(&session.mappings);
    return status;
}

/* The end of what is known of a library: its last function. */
static uint64_t end_of_library(const kt_uftrace_names *n, uint32_t table, uint64_t base)
{
    uint64_t end = base + 1;
    if (table != NO_TABLE && n->tables.data[table].functions.count)
        end += n->tables.data[table].functions.data[n->tables.data[table].functions.count - 1].offset;
    return KB_MAX(end, base);
}

bool kt_uftrace_library_add(kt_uftrace_names *n, kineto_string session, uint64_t base,
                            uint64_t since_ns, kineto_string path)
{
    uint32_t table = find_table(n, path);
    kt_uftrace_mapping m = {base, end_of_library(n, table, base), since_ns, path, table};
    for (size_t i = n->sessions.count; i-- > 0;)
        if (kb_string_equal(n->sessions.data[i].id, session))
            return kb_vec_push(&n->sessions.data[i].mappings, m);
    return true;
}

const kt_uftrace_session *kt_uftrace_session_find(const kt_uftrace_names *n, uint32_t pid,
                                                  uint64_t time_ns)
{
    for (size_t i = n->sessions.count; i-- > 0;)
        if (n->sessions.data[i].pid == pid && n->sessions.data[i].start_ns <= time_ns)
            return &n->sessions.data[i];
    return NULL;
}

const kt_uftrace_mapping *kt_uftrace_mapping_find(const kt_uftrace_session *session, uint64_t address,
                                                  uint64_t time_ns)
{
    for (size_t i = session ? session->mappings.count : 0; i-- > 0;) {
        const kt_uftrace_mapping *m = &session->mappings.data[i];
        if (address >= m->start && address < m->end && m->since_ns <= time_ns)
            return m;
    }
    return NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

kineto_string kt_uftrace_name_find(kt_uftrace_names *n, const kt_uftrace_session *session,
                                   uint64_t address, uint64_t time_ns)
{
    const kt_uftrace_mapping *m = kt_uftrace_mapping_find(session, address, time_ns);
    kineto_string name = {"", 0};
    if (m && m->table != NO_TABLE)
        name = find_uftrace_symbol(&n->tables.data[m->table], address - m->start);
    if (name.size)
        return kt_symbols_demangle(n->symbols, name);
    if (!m) {
        snprintf(n->unnamed, sizeof n->unnamed, "0x%llx", (unsigned long long)address);
        return kb_string(n->unnamed);
    }
    kineto_string file = m->path;
    const char *slash = memrchr(file.data, '/', file.size);
    if (slash)
        file = kb_string_skip(file, (size_t)(slash - file.data) + 1);
    snprintf(n->unnamed, sizeof n->unnamed, "%.*s+0x%llx", (int)KB_MIN(file.size, (size_t)255),
             file.data, (unsigned long long)(address - m->start));
    return kb_string(n->unnamed);
}

void kt_uftrace_names_free(kt_uftrace_names *n)
{
    for (size_t i = 0; i < n->tables.count; i++)
        kb_vec_free(&n->tables.data[i].functions);
    for (size_t i = 0; i < n->sessions.count; i++)
        kb_vec_free(&n->sessions.data[i].mappings);
    kb_vec_free(&n->tables);
    kb_vec_free(&n->sessions);
    kt_symbols_destroy(n->symbols);
}
