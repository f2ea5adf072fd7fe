/* Pages that are wrapped when they are complete. */
#include "cli/page.h"

FILE *kc_page_begin(kc_page *p, FILE *to)
{
    *p = (kc_page){.to = to};
    p->text = open_memstream(&p->data, &p->size);
    return p->text ? p->text : to;
}

/* The blanks at its begin, and four more, begin the lines after the first. */
static void put_line(FILE *out, kineto_string line, size_t width)
{
    enum { MAX_INDENT = 32, MORE = 4 };
    static const char blanks[] = "                                        ";
    size_t indent = 0;
    if (kc_name_columns(line) <= width) {
        fwrite(line.data, 1, line.size, out);
        fputc('\n', out);
        return;
    }
    while (indent < line.size && line.data[indent] == ' ')
        indent++;
    size_t first = KB_MIN(indent, (size_t)MAX_INDENT);
    kc_put_wrapped(out, width, blanks + sizeof blanks - 1 - first,
                   blanks + sizeof blanks - 1 - first - MORE, 0,
                   (kineto_string){line.data + indent, line.size - indent});
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
