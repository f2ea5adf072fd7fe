/* Memory over time as a page with a picture: areas on top of each other, one for each function that
 * allocated much, or each category, in one file without scripts. */
#include "analyze/summary/summary.h"

#define SERIES  9 /* the last one: all others */
#define BUCKETS 800
#define HINTS   200 /* that appear under the pointer: one for so many parts of the width */
#define LEFT    90
#define TOP     20
#define HEIGHT  420

static const char *const colours[SERIES] = {"#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951",
                                            "#ff8ab7", "#a463f2", "#97bbf5", "#9c9c9c"};

/* What lay there at the moment of a bucket in which it was most. */
typedef struct moment {
    int64_t bytes[SERIES], total;
} moment;

typedef struct drawing {
    const ka_memory_timeline *t;
    kb_sink *sink;
    int64_t *now, *peak; /* by owner */
    uint32_t owners, shown[SERIES - 1], shown_count;
    moment *moments;
    int64_t first_ns, last_ns, most;
    ka_text_cell cell;
} drawing;

/* ---- which functions, or categories ---------------------------------------------------------- */

static uint32_t owner_of(const drawing *d, const ka_memory_change *c)
{
    return d->t->by_category ? c->category : c->owner;
}

static kineto_string owner_name(const drawing *d, uint32_t owner)
{
    if (d->t->by_category)
        return kb_string(kineto_memory_category_name(owner));
    kineto_string name = kb_intern_get(&d->t->e->names.texts, owner);
    return name.size ? name : kb_string("(not known, or outside of functions)");
}

static void count_owner(drawing *d, const ka_memory_change *c)
{
    uint32_t owner = owner_of(d, c);
    int64_t *now = &d->now[owner];
    *now = ka_add_saturated(*now, c->action == KA_MEMORY_DESTROY ? -c->bytes : c->bytes);
    d->peak[owner] = KB_MAX(d->peak[owner], *now);
}

/* Those that held most at some time, the largest first. */
static void choose_owners(drawing *d)
{
    for (uint32_t owner = 0; owner < d->owners; owner++) {
        if (d->peak[owner] <= 0)
            continue;
        uint32_t at = d->shown_count;
        while (at > 0 && d->peak[d->shown[at - 1]] < d->peak[owner])
            at--;
        if (at == SERIES - 1)
            continue;
        uint32_t last = KB_MIN(d->shown_count, (uint32_t)SERIES - 2);
        memmove(&d->shown[at + 1], &d->shown[at], (last - at) * sizeof *d->shown);
        d->shown[at] = owner;
        d->shown_count = last + 1;
    }
}

static uint32_t series_of(const drawing *d, uint32_t owner)
{
    for (uint32_t i = 0; i < d->shown_count; i++)
        if (d->shown[i] == owner)
            return i;
    return SERIES - 1;
}

/* ---- moments --------------------------------------------------------------------------------- */

static uint32_t bucket_of(const drawing *d, int64_t time_ns)
{
    double span = (double)kb_length_ns(d->first_ns, d->last_ns) + 1;
    double at = (double)kb_length_ns(d->first_ns, time_ns) / span * BUCKETS;
    return at < 0 ? 0 : at >= BUCKETS ? BUCKETS - 1 : (uint32_t)at;
}

static void change(moment *now, const drawing *d, const ka_memory_change *c)
{
    int64_t bytes = c->action == KA_MEMORY_DESTROY ? -c->bytes : c->bytes;
    uint32_t series = series_of(d, owner_of(d, c));
    now->bytes[series] = ka_add_saturated(now->bytes[series], bytes);
    now->total = ka_add_saturated(now->total, bytes);
}

static void collect(drawing *d)
{
    moment now = {.total = 0};
    uint32_t bucket = 0;
    for (size_t i = 0; i < d->t->before.count; i++)
        change(&now, d, &d->t->before.data[i]);
    d->moments[0] = now;
    for (size_t i = 0; i < d->t->changes.count; i++) {
        const ka_memory_change *c = &d->t->changes.data[i];
        uint32_t here = bucket_of(d, c->time_ns);
        while (bucket < here)
            d->moments[++bucket] = now;
        change(&now, d, c);
        if (now.total > d->moments[bucket].total)
            d->moments[bucket] = now;
    }
    while (bucket + 1 < BUCKETS)
        d->moments[++bucket] = now;
    for (uint32_t i = 0; i < BUCKETS; i++)
        d->most = KB_MAX(d->most, d->moments[i].total);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void put(drawing *d, const char *fmt, ...) KINETO_PRINTF(2, 3);
static void put(drawing *d, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (size > 0)
        kb_sink_write(d->sink, text, KB_MIN((size_t)size, sizeof text - 1));
}

static void put_escaped(drawing *d, kineto_string text, size_t most)
{
    ka_text_cell_set(&d->cell, text);
    bool cut = d->cell.columns > most;
    ka_text_cell_keep_front(&d->cell, most);
    for (size_t i = 0; i < d->cell.text.count; i++) {
        char c = d->cell.text.data[i];
        if (c == '<' || c == '>' || c == '&' || c == '"')
            put(d, "&#%d;", c);
        else
            kb_sink_write(d->sink, &c, 1);
    }
    if (cut)
        put(d, "...");
}

static unsigned height_of(const drawing *d, int64_t bytes)
{
    double part = d->most > 0 && bytes > 0 ? (double)bytes / (double)d->most : 0;
    return (unsigned)(KB_MIN(part, 1.0) * HEIGHT + 0.5);
}

static int64_t below(const moment *m, uint32_t series)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < series; i++)
        sum = ka_add_saturated(sum, KB_MAX(m->bytes[i], 0));
    return sum;
}

static void put_area(drawing *d, uint32_t series)
{
    put(d, "<path fill=\"%s\" d=\"M%d %d", colours[series], LEFT, TOP + HEIGHT);
    for (uint32_t i = 0; i < BUCKETS; i++)
        put(d, "V%uH%u", TOP + HEIGHT - height_of(d, below(&d->moments[i], series + 1)),
            LEFT + i + 1);
    for (uint32_t i = BUCKETS; i-- > 0;)
        put(d, "V%uH%u", TOP + HEIGHT - height_of(d, below(&d->moments[i], series)), LEFT + i);
    put(d, "Z\"/>\n");
}

static void put_axes(drawing *d)
{
    for (int i = 0; i <= 4; i++) {
        int y = TOP + HEIGHT - HEIGHT * i / 4;
        put(d,
            "<path stroke=\"#0002\" d=\"M%d %dh%d\"/><text x=\"%d\" y=\"%d\" "
            "text-anchor=\"end\">%s</text>\n",
            LEFT, y, BUCKETS, LEFT - 6, y + 4,
            ka_memory_text((int64_t)((double)d->most * i / 4)).s);
    }
    int64_t span = kb_length_ns(d->first_ns, d->last_ns);
    for (int i = 0; i <= 4; i++)
        put(d, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", LEFT + BUCKETS * i / 4,
            TOP + HEIGHT + 18,
            i == 0   ? "start"
            : i == 4 ? "end"
                     : "middle",
            kb_duration((int64_t)((double)span * i / 4)).s);
}

/* What a viewer shows where the pointer rests: the time, and what is there, the uppermost first. */
static void put_hint(drawing *d, uint32_t hint)
{
    const uint32_t width = BUCKETS / HINTS, first = hint * width;
    uint32_t at = first;
    for (uint32_t i = first; i < first + width; i++)
        at = d->moments[i].total > d->moments[at].total ? i : at;
    const moment *m = &d->moments[at];
    int64_t span = kb_length_ns(d->first_ns, d->last_ns);
    put(d, "<rect x=\"%u\" y=\"%d\" width=\"%u\" height=\"%d\"><title>%s: %s", LEFT + first, TOP,
        width, HEIGHT, kb_duration((int64_t)((double)span * at / BUCKETS)).s,
        ka_memory_text(m->total).s);
    for (uint32_t i = d->shown_count; i-- > 0;) {
        if (m->bytes[i] <= 0)
            continue;
        put(d, "\n%s ", ka_memory_text(m->bytes[i]).s);
        put_escaped(d, owner_name(d, d->shown[i]), 60);
    }
    put(d, "</title></rect>\n");
}

static void put_legend(drawing *d)
{
    put(d, "<table><tr><th></th><th>%s</th><th>most</th></tr>\n",
        d->t->by_category ? "for" : "allocated in");
    for (uint32_t i = 0; i < d->shown_count; i++) {
        put(d, "<tr><td style=\"background:%s\">&emsp;</td><td>", colours[i]);
        put_escaped(d, owner_name(d, d->shown[i]), 100);
        put(d, "</td><td>%s</td></tr>\n", ka_memory_text(d->peak[d->shown[i]]).s);
    }
    if (!d->t->by_category)
        put(d, "<tr><td style=\"background:%s\">&emsp;</td><td>(others)</td><td></td></tr>\n",
            colours[SERIES - 1]);
    put(d, "</table>\n");
}

static void put_page(drawing *d, const char *title)
{
    const kineto_memory_timeline_result *r = &d->t->result;
    put(d, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>");
    put_escaped(d, kb_string(title), 200);
    put(d, "</title>\n<style>body,text{font:14px sans-serif}text{font-size:11px}"
           "td,th{padding:1px 8px;text-align:left}</style></head>\n<body><h1>");
    put_escaped(d, kb_string(title), 200);
    put(d, "</h1>\n<p>%s: most %s, at the end %s; %llu allocations, %llu releases", r->device,
        ka_memory_text(r->peak_bytes).s, ka_memory_text(r->end_bytes).s,
        (unsigned long long)r->allocations, (unsigned long long)r->releases);
    if (r->unknown_releases)
        put(d, ", %llu of them of memory from before", (unsigned long long)r->unknown_releases);
    put(d, ".</p>\n<svg width=\"%d\" height=\"%d\">\n", LEFT + BUCKETS + 30, TOP + HEIGHT + 30);
    for (uint32_t i = 0; i < SERIES; i++)
        if (i < d->shown_count || i == SERIES - 1)
            put_area(d, i);
    put_axes(d);
    put(d, "<g fill=\"#0000\">\n");
    for (uint32_t i = 0; i < HINTS; i++)
        put_hint(d, i);
    put(d, "</g></svg>\n");
    put_legend(d);
    put(d, "</body></html>");
}

bool ka_memory_write_page(const ka_memory_timeline *t, const char *title, kb_sink *sink)
{
    drawing d = {.t = t, .sink = sink, .owners = (uint32_t)t->e->names.texts.strings.count};
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
            count_owner(&d, &t->before.data[i]);
        for (size_t i = 0; i < t->changes.count; i++)
            count_owner(&d, &t->changes.data[i]);
        choose_owners(&d);
        collect(&d);
        put_page(&d, title);
        ok = !d.cell.no_memory;
    }
    kb_vec_free(&d.cell.text);
    free(d.now);
    free(d.peak);
    free(d.moments);
    return ok;
}
