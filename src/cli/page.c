/* Pages that are wrapped when they are complete. */
#include "cli/page.h"
#include "cli/style.h"

FILE *kc_page_begin(kc_page *p, FILE *to)
{
    *p = (kc_page){.to = to};
    p->text = open_memstream(&p->data, &p->size);
    return p->text ? p->text : to;
}

enum { MAX_INDENT = 32, MORE_INDENT = 4, MAX_SEQUENCES = 64 };

/* The blanks at the begin of a line, and then the sequences of colours among them. Returns their bytes in the line. */
static size_t take_indent(kineto_string line, char *first, size_t *blanks)
{
    char sequences[MAX_SEQUENCES] = "";
    size_t at = 0, used = 0;
    *blanks = 0;
    for (size_t bytes; at < line.size; at += bytes) {
        bytes = kc_style_bytes(line.data + at, line.size - at);
        if (used + bytes >= sizeof sequences || (!bytes && line.data[at] != ' '))
            break;
        memcpy(sequences + used, line.data + at, bytes);
        used += bytes;
        *blanks += !bytes;
        bytes += !bytes;
    }
    *blanks = KB_MIN(*blanks, (size_t)MAX_INDENT);
    memset(first, ' ', *blanks);
    memcpy(first + *blanks, sequences, used);
    first[*blanks + used] = '\0';
    return at;
}

/* The blanks at its begin, and four more, begin the lines after the first. */
static void put_line(FILE *out, kineto_string line, size_t width)
{
    char first[MAX_INDENT + MAX_SEQUENCES], indent[MAX_INDENT + MORE_INDENT + 1];
    size_t blanks;
    if (kc_styled_columns(line) <= width) {
        fwrite(line.data, 1, line.size, out);
        fputc('\n', out);
        return;
    }
    size_t taken = take_indent(line, first, &blanks);
    snprintf(indent, sizeof indent, "%*s", (int)blanks + MORE_INDENT, "");
    kc_put_wrapped_styled(out, width, first, indent, (kineto_string){line.data + taken, line.size - taken});
}

void kc_page_end(kc_page *p)
{
    if (!p->text)
        return;
    size_t width = kc_page_width(p->to);
    if (fclose(p->text) == 0)
        for (size_t at = 0; at < p->size;) {
            const char *end = memchr(p->data + at, '\n', p->size - at);
            size_t size = end ? (size_t)(end - (p->data + at)) : p->size - at;
            put_line(p->to, (kineto_string){p->data + at, size}, width);
            at += size + 1;
        }
    free(p->data);
}
