/* Cells of the summary table: numbers in PyTorch's spelling, and texts with their width in
 * characters. What could disturb a terminal is written as an escape, so that tables of untrusted
 * files can be printed. */
#include "analyze/summary/summary.h"

/* ---- numbers --------------------------------------------------------------------------------- */

static kb_text format_decimal(double number, int decimals, const char *unit)
{
    kb_text t;
    kb_snprintf(t.s, sizeof t.s, "%.*f%s", decimals, number, unit);
    return t;
}

kb_text ka_time_text(double us, uint32_t unit)
{
    if (unit == KINETO_TIME_S || (unit == KINETO_TIME_AUTO && us >= 1e6))
        return format_decimal(us / 1e6, 3, "s");
    if (unit == KINETO_TIME_MS || (unit == KINETO_TIME_AUTO && us >= 1e3))
        return format_decimal(us / 1e3, 3, "ms");
    return format_decimal(us, 3, "us");
}

kb_text ka_share_text(double part, double whole)
{
    if (whole == 0)
        return (kb_text){"NaN"};
    return format_decimal(part * 100.0 / whole, 2, "%");
}

kb_text ka_memory_text(int64_t bytes)
{
    /* PyTorch's units: powers of 1024 with the names of powers of 1000. */
    static const struct {
        uint64_t bytes;
        const char *unit;
    } units[] = {{1u << 30, " GB"}, {1u << 20, " MB"}, {1u << 10, " KB"}};
    uint64_t size = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
    for (size_t i = 0; i < KB_COUNT(units); i++)
        if (size >= units[i].bytes)
            return format_decimal((double)bytes / (double)units[i].bytes, 2, units[i].unit);
    return format_decimal((double)bytes, 0, " B");
}

const char *const ka_flops_units[6] = {"FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"};

uint32_t ka_flops_thousands(uint64_t smallest)
{
    uint32_t thousands = 0;
    for (; smallest >= 1000 && thousands + 1 < KB_COUNT(ka_flops_units); smallest /= 1000)
        thousands++;
    return thousands;
}

/* `thousands` is the same for all rows of a column, which its header names. */
kb_text ka_flops_text(uint64_t flops, uint32_t thousands)
{
    KB_ASSERT(thousands < KB_COUNT(ka_flops_units));
    static const double scale[] = {1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15};
    if (!flops)
        return (kb_text){"--"};
    return format_decimal((double)flops * scale[thousands], 3, "");
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Bytes of the first character; 0: a control character or invalid UTF-8, which must be escaped. */
static size_t printable_length(kineto_string s)
{
    unsigned char c = (unsigned char)s.data[0];
    if (c < 0x80)
        return c >= 0x20 && c != 0x7f;
    size_t size = kb_utf8_length(s.data, s.size);
    return c == 0xc2 && size == 2 && (unsigned char)s.data[1] < 0xa0 ? 0 : size;
}

void ka_text_cell_append(ka_text_cell *cell, const char *text, size_t bytes, size_t columns)
{
    if (!bytes)
        return;
    if (!kb_vec_reserve(&cell->text, cell->text.count + bytes)) {
        cell->no_memory = true;
        return;
    }
    memcpy(cell->text.data + cell->text.count, text, bytes);
    cell->text.count += bytes;
    cell->columns += columns;
}

void ka_text_cell_set(ka_text_cell *cell, kineto_string text)
{
    cell->text.count = 0;
    cell->columns = 0;
    while (text.size) {
        char escape[8];
        size_t size = printable_length(text), bytes = size ? size : 4;
        if (!size)
            snprintf(escape, sizeof escape, "\\x%02x", (unsigned char)text.data[0]);
        ka_text_cell_append(cell, size ? text.data : escape, bytes, size ? 1 : 4);
        text.data += size ? size : 1;
        text.size -= size ? size : 1;
    }
}

size_t ka_text_columns(kineto_string text)
{
    size_t columns = 0;
    while (text.size) {
        size_t size = printable_length(text);
        columns += size ? 1 : 4;
        text.data += size ? size : 1;
        text.size -= size ? size : 1;
    }
    return columns;
}

/* Byte offset of the character after `columns` characters. Cells hold valid UTF-8 only. */
static size_t offset_of_column(const ka_text_cell *cell, size_t columns)
{
    size_t at = 0;
    for (; columns && at < cell->text.count; columns--)
        do
            at++;
        while (at < cell->text.count && ((unsigned char)cell->text.data[at] & 0xc0) == 0x80);
    return at;
}

void ka_text_cell_keep_front(ka_text_cell *cell, size_t columns)
{
    if (columns >= cell->columns)
        return;
    cell->text.count = offset_of_column(cell, columns);
    cell->columns = columns;
}

void ka_text_cell_keep_back(ka_text_cell *cell, size_t columns)
{
    if (columns >= cell->columns)
        return;
    size_t from = offset_of_column(cell, cell->columns - columns);
    KB_ASSERT(from <= cell->text.count);
    memmove(cell->text.data, cell->text.data + from, cell->text.count - from);
    cell->text.count -= from;
    cell->columns = columns;
}
