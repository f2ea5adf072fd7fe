/* Functions that the compiler inlined, from debug information. The entries of a unit are read once, when
 * the first address in it is looked up, into a list of its functions and of what was inlined into each:
 * after that a search costs less than a microsecond. Files are untrusted: what they say is bounded here. */
#include "trace/from_recording/symbols_dwarf.h"

#ifdef KT_WITH_DW
#define MAX_NESTING 256u
#define MAX_SCOPES  16u /* in a name */

/* ---- reading a unit -------------------------------------------------------------------------- */

/* What goes on while a unit is read. */
typedef struct unit_reader {
    kt_dwarf_unit *unit;
    uint32_t nesting, scope;
    bool is_out_of_memory;
} unit_reader;

static void read_children(unit_reader *r, Dwarf_Die *parent);

/* Offsets are not unique: units may be in files of their own. */
static uint64_t key_of_entry(const Dwarf_Die *die) { return (uint64_t)(uintptr_t)die->addr; }

/* What is declared in a namespace, class or function. */
static void read_scope(unit_reader *r, Dwarf_Die *die)
{
    kt_dwarf_scope scope = {*die, r->scope};
    r->is_out_of_memory |= r->unit->scopes.count >= UINT32_MAX || !kb_vec_push(&r->unit->scopes, scope);
    r->scope = (uint32_t)r->unit->scopes.count - 1;
    read_children(r, die);
    r->scope = scope.parent;
}

static void add_inlining(unit_reader *r, Dwarf_Die *die)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
        kt_dwarf_inlining inlining = {start, end, *die};
        if (start < end)
            r->is_out_of_memory |= !kb_vec_push(&r->unit->inlined, inlining);
    }
}

/* Adds the code of a function, and what was inlined into it. */
static void add_function_code(unit_reader *r, Dwarf_Die *die, uint32_t first)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
        kt_dwarf_function f = {start, end, first, (uint32_t)r->unit->inlined.count};
        if (start && start < end)
            r->is_out_of_memory |= !kb_vec_push(&r->unit->functions, f);
    }
}

/* A function: a declaration of one, one that is only inlined, or one with code. */
static void read_function(unit_reader *r, Dwarf_Die *die)
{
    uint32_t first = (uint32_t)r->unit->inlined.count;
    if (r->scope && dwarf_hasattr(die, DW_AT_name))
        r->is_out_of_memory |= !kb_map_insert(&r->unit->scope_of, key_of_entry(die), r->scope, NULL);
    if (dwarf_hasattr(die, DW_AT_declaration))
        return;
    read_scope(r, die);
    if (r->unit->inlined.count > first)
        add_function_code(r, die, first);
}

static void read_entry(unit_reader *r, Dwarf_Die *die)
{
    switch (dwarf_tag(die)) {
    case DW_TAG_subprogram:
        read_function(r, die);
        break;
    case DW_TAG_inlined_subroutine:
        add_inlining(r, die);
        read_children(r, die);
        break;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
        read_children(r, die);
        break;
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
        read_scope(r, die);
        break;
    default:
        break;
    }
}

/* The entries below one. In a malformed file they could lead back. */
static void read_children(unit_reader *r, Dwarf_Die *parent)
{
    Dwarf_Die die;
    Dwarf_Off last = dwarf_dieoffset(parent);
    if (r->nesting >= MAX_NESTING || dwarf_child(parent, &die) != 0)
        return;
    r->nesting++;
    while (dwarf_dieoffset(&die) > last && !r->is_out_of_memory) {
        last = dwarf_dieoffset(&die);
        read_entry(r, &die);
        if (dwarf_siblingof(&die, &die) != 0)
            break;
    }
    r->nesting--;
}

static int compare_functions(const void *left, const void *right)
{
    const kt_dwarf_function *a = left, *b = right;
    return a->start != b->start ? KB_COMPARE(a->start, b->start) : KB_COMPARE(a->first, b->first);
}

/* The entry of the unit's contents, which are in a file of their own if they were split off (.dwo). */
static void read_unit(kt_dwarf_unit *unit)
{
    unit_reader r = {.unit = unit};
    Dwarf_Die split = {.addr = NULL}, *contents = &unit->entry;
    uint8_t type = 0;
    unit->is_indexed = true;
    if (dwarf_cu_info(unit->entry.cu, NULL, &type, NULL, &split, NULL, NULL, NULL) == 0 && split.addr)
        contents = &split;
    read_scope(&r, contents);
    if (r.is_out_of_memory)
        unit->functions.count = 0;
    if (unit->functions.count)
        qsort(unit->functions.data, unit->functions.count, sizeof *unit->functions.data, compare_functions);
}

/* ---- looking up an address ------------------------------------------------------------------- */

static const char *name_of_linkage(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    Dwarf_Attribute *found = dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute);
    if (!found)
        found = dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute);
    return found ? dwarf_formstring(found) : NULL;
}

/* Goes from a place where a function was inlined to its declaration. */
static void find_declaration(Dwarf_Die *die)
{
    static const unsigned links[] = {DW_AT_abstract_origin, DW_AT_specification};
    Dwarf_Attribute attribute;
    for (size_t i = 0; i < KB_COUNT(links); i++)
        if (dwarf_attr(die, links[i], &attribute))
            (void)dwarf_formref_die(&attribute, die);
}

static uint64_t read_number(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0)
        return 0;
    return value;
}

static bool is_function(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

/* The name of an entry alone. Classes of lambdas have none. */
static const char *own_name(kt_dwarf *d, Dwarf_Die *die)
{
    const char *name = dwarf_diename(die);
    if (name || is_function(die))
        return name;
    if (dwarf_tag(die) == DW_TAG_namespace)
        return "(anonymous namespace)";
    char *text = kb_arena_alloc(&d->texts, 48, 1);
    if (text)
        snprintf(text, 48, "{unnamed at line %llu}", (unsigned long long)read_number(die, DW_AT_decl_line));
    return text;
}

/* "outer::inner"; NULL: out of memory. */
static const char *join_names(kt_dwarf *d, const char *outer, const char *inner)
{
    size_t bytes = strlen(outer) + strlen(inner) + 3;
    char *text = kb_arena_alloc(&d->texts, bytes, 1);
    if (text)
        snprintf(text, bytes, "%s::%s", outer, inner);
    return text;
}

/* The name of an entry with the scopes that it is in: of static functions and lambdas, which have no linkage
 * name, the name alone is not unique. NULL: it has no name.
 * @param scope  of other entries than functions, whose declarations have one. */
static const char *name_in_scopes(kt_dwarf *d, const kt_dwarf_unit *unit, Dwarf_Die die, uint32_t scope,
                                  unsigned depth)
{
    if (is_function(&die)) {
        find_declaration(&die);
        const uint64_t *found = kb_map_find(&unit->scope_of, key_of_entry(&die));
        scope = found ? (uint32_t)*found : 0;
    }
    const uint64_t *known = kb_map_find(&d->names, key_of_entry(&die));
    if (known)
        return (const char *)(uintptr_t)*known;
    const char *name = own_name(d, &die);
    if (!name || !scope || depth >= MAX_SCOPES)
        return name;
    const kt_dwarf_scope *outer = &unit->scopes.data[scope];
    const char *before = name_in_scopes(d, unit, outer->entry, outer->parent, depth + 1);
    const char *whole = before ? join_names(d, before, name) : name;
    if (whole)
        (void)kb_map_insert(&d->names, key_of_entry(&die), (uint64_t)(uintptr_t)whole, NULL);
    return whole;
}

/* Sets where the function was called. */
static void read_call_site(kt_dwarf_unit *unit, Dwarf_Die *die, kt_inlined *out)
{
    Dwarf_Files *files;
    size_t count;
    uint64_t file = read_number(die, DW_AT_call_file), line = read_number(die, DW_AT_call_line);
    if (dwarf_getsrcfiles(&unit->entry, &files, &count) != 0 || file >= count || line > UINT32_MAX)
        return;
    out->call_file = dwarf_filesrc(files, file, NULL, NULL);
    out->call_line = (uint32_t)line;
}

/* False: it has no name. */
static bool read_inlined(kt_dwarf *d, kt_dwarf_unit *unit, Dwarf_Die *die, bool with_lines, kt_inlined *out)
{
    const char *name = name_of_linkage(die);
    *out = (kt_inlined){.name = name ? name : name_in_scopes(d, unit, *die, 0, 0)};
    if (with_lines)
        read_call_site(unit, die, out);
    return out->name != NULL;
}

/* The function with the code at an address; NULL: none that something was inlined into. */
static const kt_dwarf_function *find_unit_function(const kt_dwarf_unit *unit, uint64_t address)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, unit->functions.count, unit->functions.data[after].start <= address);
    if (after == 0 || address >= unit->functions.data[after - 1].end)
        return NULL;
    return &unit->functions.data[after - 1];
}

/* The innermost comes last in the list of a function, and first in the result. */
static uint32_t find_inlined(kt_dwarf *d, kt_dwarf_unit *unit, uint64_t address, bool with_lines, kt_inlined *out)
{
    const kt_dwarf_function *f = find_unit_function(unit, address);
    uint32_t count = 0;
    for (uint32_t i = f ? f->after : 0; f && i-- > f->first && count < KT_MAX_INLINED;) {
        kt_dwarf_inlining *in = &unit->inlined.data[i];
        if (address >= in->start && address < in->end)
            count += read_inlined(d, unit, &in->entry, with_lines, &out[count]);
    }
    return count;
}

uint32_t kt_dwarf_inlined(kt_dwarf *d, uint64_t address, bool with_lines, kt_dwarf_budget *budget, kt_inlined *out)
{
    kt_dwarf_unit *unit = budget->limit_bytes ? kt_dwarf_unit_at(d, address) : NULL;
    if (!unit)
        return 0;
    if (!unit->is_indexed) {
        if (unit->bytes > budget->limit_bytes - budget->read_bytes) {
            budget->skipped++;
            return 0;
        }
        budget->read_bytes += unit->bytes;
        read_unit(unit);
    }
    return find_inlined(d, unit, address, with_lines, out);
}

#else
uint32_t kt_dwarf_inlined(kt_dwarf *d, uint64_t address, bool with_lines, kt_dwarf_budget *budget, kt_inlined *out)
{
    (void)d, (void)address, (void)with_lines, (void)budget, (void)out;
    return 0;
}
#endif
