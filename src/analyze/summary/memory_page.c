/* Memory over time as an HTML page with a picture: stacked areas, one for each function that
 * allocated much, or for each category. One file without scripts, so that it can be mailed and
 * archived; texts of the trace are escaped. */
#include "analyze/summary/summary.h"

/* Areas; the last one stands for all other owners. */
#define MAX_SERIES 9
/* Intervals of time, each one pixel wide. */
#define BUCKETS 800
/* Tooltips: the width is divided into this many parts; each is BUCKETS / HINTS buckets wide. */
#define HINTS 200
/* Position and height of the picture in pixels. */
#define LEFT   90
#define TOP    20
#define HEIGHT 420

static const char *const colours[MAX_SERIES] = {"#4269d0", "#efb118", "#ff725c",
                                                "#6cc5b0", "#3ca951", "#ff8ab7",
                                                "#a463f2", "#97bbf5", "#9c9c9c"};

/* Sizes at the moment of a bucket at which their total was largest. */
typedef struct bucket_sizes {
    int64_t bytes[MAX_SERIES], total;
} bucket_sizes;

/* The state while a page is written. An owner is a name id, or a category. */
typedef struct page_writer {
    const ka_memory_timeline *t;
    kb_sink *sink;
    int64_t *now, *peak; /* by owner */
    uint32_t owners, shown[MAX_SERIES - 1], shown_count;
    bucket_sizes *moments;
    int64_t first_ns, last_ns, largest_total;
    ka_text_cell cell;
} page_writer;

/* ---- owners ---------------------------------------------------------------------------------- */

static uint32_t get_change_owner(const page_writer *d, const ka_memory_change *c)
{
    return d->t->by_category ? c->category : c->owner;
}

static kineto_string get_owner_name(const page_writer *d, uint32_t owner)
{
    if (d->t->by_category)
        return kb_string(kineto_memory_category_name(owner));
    kineto_string name = kb_intern_get(&d->t->e->names.texts, owner);
    return name.size ? name : kb_string("(not known, or outside of functions)");
}

/* Follows the size of an owner over time and its peak. */
static void add_to_owner(page_writer *d, const ka_memory_change *c)
{
    uint32_t owner = get_change_owner(d, c);
    int64_t *now = &d->now[owner];
    *now = ka_add_saturated(*now, c->action == KA_MEMORY_DESTROY ? -c->bytes : c->bytes);
    d->peak[owner] = KB_MAX(d->peak[owner], *now);
}

/* Chooses the owners with the largest peaks, the largest first (insertion into a short sorted
 * list). */
static void choose_shown_owners(page_writer *d)
{
    for (uint32_t owner = 0; owner < d->owners; owner++) {
        if (d->peak[owner] <= 0)
            continue;
        uint32_t at = d->shown_count;
        while (at > 0 && d->peak[d->shown[at - 1]] < d->peak[owner])
            at--;
        if (at == MAX_SERIES - 1)
            continue;
        uint32_t last = KB_MIN(d->shown_count, (uint32_t)MAX_SERIES - 2);
        KB_ASSERT(at <= last);
        memmove(&d->shown[at + 1], &d->shown[at], (last - at) * sizeof *d->shown);
        d->shown[at] = owner;
        d->shown_count = last + 1;
    }
}

static uint32_t find_series(const page_writer *d, uint32_t owner)
{
    for (uint32_t i = 0; i < d->shown_count; i++)
        if (d->shown[i] == owner)
            return i;
    return MAX_SERIES - 1;
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* The bucket of a time, clamped to the picture. */
static uint32_t find_bucket(const page_writer *d, int64_t time_ns)
{
    double span = (double)kb_length_ns(d->first_ns, d->last_ns) + 1;
    double at = (double)kb_length_ns(d->first_ns, time_ns) / span * BUCKETS;
    return at < 0 ? 0 : at >= BUCKETS ? BUCKETS - 1 : (uint32_t)at;
}

static void apply_change(bucket_sizes *now, const page_writer *d, const ka_memory_change *c)
{
    int64_t bytes = c->action == KA_MEMORY_DESTROY ? -c->bytes : c->bytes;
    uint32_t series = find_series(d, get_change_owner(d, c));
    now->bytes[series] = ka_add_saturated(now->bytes[series], bytes);
    now->total = ka_add_saturated(now->total, bytes);
}

/* Replays all changes; empty buckets repeat the sizes before them. */
static void fill_buckets(page_writer *d)
{
    bucket_sizes now = {.total = 0};
    uint32_t bucket = 0;
    for (size_t i = 0; i < d->t->before.count; i++)
        apply_change(&now, d, &d->t->before.data[i]);
    d->moments[0] = now;
    for (size_t i = 0; i < d->t->changes.count; i++) {
        const ka_memory_change *c = &d->t->changes.data[i];
        uint32_t here = find_bucket(d, c->time_ns);
        while (bucket < here)
            d->moments[++bucket] = now;
        apply_change(&now, d, c);
        if (now.total > d->moments[bucket].total)
            d->moments[bucket] = now;
    }
    while (bucket + 1 < BUCKETS)
        d->moments[++bucket] = now;
    for (uint32_t i = 0; i < BUCKETS; i++)
        d->largest_total = KB_MAX(d->largest_total, d->moments[i].total);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void write_format(page_writer *d, const char *fmt, ...) KINETO_PRINTF(2, 3);
static void write_format(page_writer *d, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (size > 0)
        kb_sink_write(d->sink, text, KB_MIN((size_t)size, sizeof text - 1));
}

/* Writes a text, cut to `limit` characters and escaped for HTML. */
static void write_escaped(page_writer *d, kineto_string text, size_t limit)
{
    ka_text_cell_set(&d->cell, text);
    bool cut = d->cell.columns > limit;
    ka_text_cell_keep_front(&d->cell, limit);
    for (size_t i = 0; i < d->cell.text.count; i++) {
        char c = d->cell.text.data[i];
        if (c == '<' || c == '>' || c == '&' || c == '"')
            write_format(d, "&#%d;", c);
        else
            kb_sink_write(d->sink, &c, 1);
    }
    if (cut)
        write_format(d, "...");
}

/* Height of a size in pixels. */
static unsigned scale_height(const page_writer *d, int64_t bytes)
{
    double part = d->largest_total > 0 && bytes > 0 ? (double)bytes / (double)d->largest_total : 0;
    return (unsigned)(KB_MIN(part, 1.0) * HEIGHT + 0.5);
}

/* The total of the series before `series`, where its area begins. */
static int64_t sum_below(const bucket_sizes *m, uint32_t series)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < series; i++)
        sum = ka_add_saturated(sum, KB_MAX(m->bytes[i], 0));
    return sum;
}

/* One area: along its upper edge to the right, and back along the lower one. */
static void write_area(page_writer *d, uint32_t series)
{
    write_format(d, "<path fill=\"%s\" d=\"M%d %d", colours[series], LEFT, TOP + HEIGHT);
    for (uint32_t i = 0; i < BUCKETS; i++)
        write_format(d, "V%uH%u",
                     TOP + HEIGHT - scale_height(d, sum_below(&d->moments[i], series + 1)),
                     LEFT + i + 1);
    for (uint32_t i = BUCKETS; i-- > 0;)
        write_format(d, "V%uH%u", TOP + HEIGHT - scale_height(d, sum_below(&d->moments[i], series)),
                     LEFT + i);
    write_format(d, "Z\"/>\n");
}

static void write_axes(page_writer *d)
{
    for (int i = 0; i <= 4; i++) {
        int y = TOP + HEIGHT - HEIGHT * i / 4;
        write_format(d,
                     "<path stroke=\"#0002\" d=\"M%d %dh%d\"/><text x=\"%d\" y=\"%d\" "
                     "text-anchor=\"end\">%s</text>\n",
                     LEFT, y, BUCKETS, LEFT - 6, y + 4,
                     ka_memory_text((int64_t)((double)d->largest_total * i / 4)).s);
    }
    int64_t span = kb_length_ns(d->first_ns, d->last_ns);
    for (int i = 0; i <= 4; i++)
        write_format(d, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n",
                     LEFT + BUCKETS * i / 4, TOP + HEIGHT + 18,
                     i == 0   ? "start"
                     : i == 4 ? "end"
                              : "middle",
                     kb_duration((int64_t)((double)span * i / 4)).s);
}

/* The tooltip of one part: the time and the sizes, in the order of the areas from top to bottom. */
static void write_hint(page_writer *d, uint32_t hint)
{
    const uint32_t width = BUCKETS / HINTS, first = hint * width;
    uint32_t at = first;
    for (uint32_t i = first; i < first + width; i++)
        at = d->moments[i].total > d->moments[at].total ? i : at;
    const bucket_sizes *m = &d->moments[at];
    int64_t span = kb_length_ns(d->first_ns, d->last_ns);
    write_format(d, "<rect x=\"%u\" y=\"%d\" width=\"%u\" height=\"%d\"><title>%s: %s",
                 LEFT + first, TOP, width, HEIGHT,
                 kb_duration((int64_t)((double)span * at / BUCKETS)).s, ka_memory_text(m->total).s);
    for (uint32_t i = d->shown_count; i-- > 0;) {
        if (m->bytes[i] <= 0)
            continue;
        write_format(d, "\n%s ", ka_memory_text(m->bytes[i]).s);
        write_escaped(d, get_owner_name(d, d->shown[i]), 60);
    }
    write_format(d, "</title></rect>\n");
}

static void write_legend(page_writer *d)
{
    write_format(d, "<table><tr><th></th><th>%s</th><th>most</th></tr>\n",
                 d->t->by_category ? "for" : "allocated in");
    for (uint32_t i = 0; i < d->shown_count; i++) {
        write_format(d, "<tr><td style=\"background:%s\">&emsp;</td><td>", colours[i]);
        write_escaped(d, get_owner_name(d, d->shown[i]), 100);
        write_format(d, "</td><td>%s</td></tr>\n", ka_memory_text(d->peak[d->shown[i]]).s);
    }
    if (!d->t->by_category)
        write_format(d,
                     "<tr><td style=\"background:%s\">&emsp;</td><td>(others)</td><td></td></tr>\n",
                     colours[MAX_SERIES - 1]);
    write_format(d, "</table>\n");
}

static void write_page(page_writer *d, const char *title)
{
    const kineto_memory_timeline_result *r = &d->t->result;
    write_format(d, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>");
    write_escaped(d, kb_string(title), 200);
    write_format(d, "</title>\n<style>body,text{font:14px sans-serif}text{font-size:11px}"
                    "td,th{padding:1px 8px;text-align:left}</style></head>\n<body><h1>");
    write_escaped(d, kb_string(title), 200);
    write_format(d, "</h1>\n<p>%s: most %s, at the end %s; %llu allocations, %llu releases",
                 r->device, ka_memory_text(r->peak_bytes).s, ka_memory_text(r->end_bytes).s,
                 (unsigned long long)r->allocations, (unsigned long long)r->releases);
    if (r->unknown_releases)
        write_format(d, ", %llu of them of memory from before",
                     (unsigned long long)r->unknown_releases);
    write_format(d, ".</p>\n<svg width=\"%d\" height=\"%d\">\n", LEFT + BUCKETS + 30,
                 TOP + HEIGHT + 30);
    for (uint32_t i = 0; i < MAX_SERIES; i++)
        if (i < d->shown_count || i == MAX_SERIES - 1)
            write_area(d, i);
    write_axes(d);
    write_format(d, "<g fill=\"#0000\">\n");
    for (uint32_t i = 0; i < HINTS; i++)
        write_hint(d, i);
    write_format(d, "</g></svg>\n");
    write_legend(d);
    write_format(d, "</body></html>");
}

bool ka_memory_write_page(const ka_memory_timeline *t, const char *title, kb_sink *sink)
{
    page_writer d = {.t = t, .sink = sink, .owners = (uint32_t)t->e->names.texts.strings.count};
    if (t->by_category)
        d.owners = KINETO_MEMORY_CATEGORY_COUNT;
    d.first_ns = t->changes.data[0].time_ns;
    d.last_ns = t->changes.data[t->changes.count - 1].time_ns;
    d.now = calloc(d.owners, sizeof *d.now);
    d.peak = calloc(d.owners, sizeof *d.peak);
    d.moments = calloc(BUCKETS, sizeof *d.moments);
    bool ok = d.now && d.peak && d.moments;
    if (ok) {
        for (size_t i = 0; i < t->before.count; i++)
            add_to_owner(&d, &t->before.data[i]);
        for (size_t i = 0; i < t->changes.count; i++)
            add_to_owner(&d, &t->changes.data[i]);
        choose_shown_owners(&d);
        fill_buckets(&d);
        write_page(&d, title);
        ok = !d.cell.no_memory;
    }
    kb_vec_free(&d.cell.text);
    free(d.now);
    free(d.peak);
    free(d.moments);
    return ok;
}
