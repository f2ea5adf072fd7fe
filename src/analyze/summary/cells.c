/* Cells of the table: numbers as PyTorch spells them, and texts with their width in characters. */
#include "analyze/summary/summary.h"

/* ---- numbers --------------------------------------------------------------------------------- */

static kb_text decimal(double number, int decimals, const char *unit)
{
    kb_text t;
    kb_snprintf(t.s, sizeof t.s, "%.*f%s", decimals, number, unit);
    return t;
}

kb_text ka_time_text(double us, uint32_t unit)
{
    if (unit == KINETO_TIME_S || (unit == KINETO_TIME_AUTO && us >= 1e6))
        return decimal(us / 1e6, 3, "s");
    if (unit == KINETO_TIME_MS || (unit == KINETO_TIME_AUTO && us >= 1e3))
        return decimal(us / 1e3, 3, "ms");
    return decimal(us, 3, "us");
}

kb_text ka_share_text(double part, double whole)
{
    if (whole == 0)
        return (kb_text){"NaN"};
    return decimal(part * 100.0 / whole, 2, "%");
}

kb_text ka_memory_text(int64_t bytes)
{
    static const struct {
        uint64_t bytes;
        const char *unit;
    } units[] = {{1u << 30, " GB"}, {1u << 20, " MB"}, {1u << 10, " KB"}};
    uint64_t size = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
    for (size_t i = 0; i < KB_COUNT(units); i++)
        if (size >= units[i].bytes)
            return decimal((double)bytes / (double)units[i].bytes, 2, units[i].unit);
    return decimal((double)bytes, 0, " B");
}

const char *const ka_flops_units[6] = {"FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"};

uint32_t ka_flops_thousands(uint64_t smallest)
{
    uint32_t thousands = 0;
    for (; smallest >= 1000 && thousands + 1 < KB_COUNT(ka_flops_units); smallest /= 1000)
        thousands++;
    return thousands;
}

kb_text ka_flops_text(uint64_t flops, uint32_t thousands)
{
    static const double scale[] = {1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15};
    if (!flops)
        return (kb_text){"--"};
    return decimal((double)flops * scale[thousands], 3, "");
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Bytes of the character at the front; 0: it must not reach a terminal as it is. */
static size_t plain_character(kineto_string s)
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
        size_t size = plain_character(text), bytes = size ? size : 4;
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
        size_t size = plain_character(text);
        columns += size ? 1 : 4;
        text.data += size ? size : 1;
        text.size -= size ? size : 1;
    }
    return columns;
}

/* Where the character after so many begins; a cell holds valid UTF-8 only. */
static size_t offset_of(const ka_text_cell *cell, size_t columns)
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
    cell->text.count = offset_of(cell, columns);
    cell->columns = columns;
}

void ka_text_cell_keep_back(ka_text_cell *cell, size_t columns)
{
    if (columns >= cell->columns)
        return;
    size_t from = offset_of(cell, cell->columns - columns);
    memmove(cell->text.data, cell->text.data + from, cell->text.count - from);
    cell->text.count -= from;
    cell->columns = columns;
}
