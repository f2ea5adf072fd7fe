/* Filling the raster of a picture: which tracks, which levels, which names. The cost is one pass over the activities
 * of the tracks. */
#include "cli/mcp/picture.h"

/* ---- tracks ---------------------------------------------------------------------------------- */

/* Walks the ranges of a track within the picture, with their levels of nesting. */
typedef struct track_walk {
    const kc_picture *p;
    const kineto_row *rows;
    uint64_t count, next;
    int64_t ends[KC_PICTURE_LEVELS]; /* of the open ranges */
    uint32_t open;
} track_walk;

static bool begin_walk(track_walk *w, const kc_picture *p, uint32_t track)
{
    kineto_track t;
    kineto_trace_track(p->trace, track, &t);
    *w = (track_walk){.p = p, .rows = kineto_trace_track_rows(p->trace, track), .count = t.count};
    return w->rows != NULL;
}

/* The next range that touches the picture; deeper ones than there are levels are left out. */
static bool step_walk(track_walk *w, kineto_activity *a, uint32_t *level)
{
    while (w->next < w->count) {
        kineto_trace_get(w->p->trace, w->rows[w->next++], a);
        if (a->start_ns >= w->p->to_ns)
            return false;
        if (a->end_ns <= w->p->from_ns || a->end_ns == a->start_ns || a->form > KINETO_FORM_ASYNC)
            continue;
        while (w->open && w->ends[w->open - 1] <= a->start_ns)
            w->open--;
        if (w->open == KC_PICTURE_LEVELS)
            continue;
        *level = w->open;
        w->ends[w->open++] = a->end_ns;
        return true;
    }
    return false;
}

/* Within the picture, in ns. */
static double get_shown_ns(const kc_picture *p, const kineto_activity *a)
{
    return (double)(KB_MIN(a->end_ns, p->to_ns) - KB_MAX(a->start_ns, p->from_ns));
}

static kc_picture_lane measure_track(const kc_picture *p, uint32_t track)
{
    kc_picture_lane lane = {.track = track};
    track_walk w;
    kineto_activity a;
    uint32_t level;
    for (bool more = begin_walk(&w, p, track); more && step_walk(&w, &a, &level);) {
        lane.levels = KB_MAX(lane.levels, level + 1);
        lane.covered_ns += level ? 0 : get_shown_ns(p, &a);
    }
    return lane;
}

/* The busiest first. */
static int compare_lanes_by_time(const void *left, const void *right)
{
    const kc_picture_lane *a = left, *b = right;
    if (a->covered_ns != b->covered_ns)
        return a->covered_ns > b->covered_ns ? -1 : 1;
    return a->track < b->track ? -1 : a->track > b->track;
}

/* In the order of the trace: processes stay together. */
static int compare_lanes_by_track(const void *left, const void *right)
{
    const kc_picture_lane *a = left, *b = right;
    return a->track < b->track ? -1 : a->track > b->track;
}

/* Counters have no ranges, and spans of other tools only repeat how long all took. */
static bool is_drawn_type(uint32_t type) { return type != KINETO_TRACK_COUNTER && type != KINETO_TRACK_OTHER; }

/* The busiest tracks, and the rows of each. */
static kineto_status choose_lanes(kc_picture *p, uint32_t most, kineto_error *err)
{
    uint32_t tracks = kineto_trace_track_count(p->trace), used = 0;
    kc_picture_lane *all = calloc(tracks + 1u, sizeof *all);
    if (!all)
        return kb_fail_memory(err, NULL);
    for (uint32_t i = 0; i < tracks; i++) {
        kineto_track t;
        kineto_trace_track(p->trace, i, &t);
        if (is_drawn_type(t.type))
            all[used] = measure_track(p, i);
        used += all[used].levels > 0;
    }
    qsort(all, used, sizeof *all, compare_lanes_by_time);
    p->lane_count = KB_MIN(used, KB_MIN(most, KC_PICTURE_LANES));
    p->lanes_left = used - p->lane_count;
    memcpy(p->lanes, all, p->lane_count * sizeof *all);
    free(all);
    qsort(p->lanes, p->lane_count, sizeof *p->lanes, compare_lanes_by_track);
    for (uint32_t i = 0; i < p->lane_count; i++) {
        p->lanes[i].row = p->row_count;
        p->row_count += p->lanes[i].levels;
    }
    return KINETO_OK;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Part of cell x that [from, to), in cells, covers. */
static void cover_cell(kc_picture_cell *cell, double share, uint32_t name)
{
    cell->covered = KB_MIN(cell->covered + (float)share, 1.0f);
    if ((float)share <= cell->largest)
        return;
    cell->largest = (float)share;
    cell->name = name + 1;
}

static void draw_range(kc_picture *p, kc_picture_cell *row, const kineto_activity *a)
{
    double scale = p->width / (double)(p->to_ns - p->from_ns);
    double from = (double)(KB_MAX(a->start_ns, p->from_ns) - p->from_ns) * scale;
    double to = (double)(KB_MIN(a->end_ns, p->to_ns) - p->from_ns) * scale;
    for (uint32_t x = (uint32_t)from; x < p->width && x < to; x++)
        cover_cell(&row[x], KB_MIN(to, (double)x + 1) - KB_MAX(from, (double)x), a->name_id);
}

/* Bytes of a name without the number after '#'; all of any other name. */
static size_t get_stem_size(kineto_string name)
{
    size_t size = name.size;
    while (size && kb_is_digit(name.data[size - 1]))
        size--;
    return size && name.data[size - 1] == '#' ? size : name.size;
}

/* The id that stands for all names with this stem; UINT32_MAX: out of memory. */
static uint32_t find_first_of_stem(kc_picture *p, uint32_t id)
{
    kineto_string name = kineto_trace_string(p->trace, id);
    size_t size = get_stem_size(name);
    if (size == name.size)
        return id;
    uint64_t *first = kb_map_insert(&p->stems, kb_hash(name.data, size), id, NULL);
    return first ? (uint32_t)*first : UINT32_MAX;
}

/* Adds the time of each name to `sums`: name id → place in `names`. */
static bool add_name_time(kb_map *sums, uint32_t id, double ns)
{
    uint64_t *sum = kb_map_insert(sums, id, 0, NULL);
    if (sum)
        *sum += (uint64_t)ns;
    return sum != NULL;
}

static bool draw_lane(kc_picture *p, const kc_picture_lane *lane, kb_map *sums)
{
    track_walk w;
    kineto_activity a;
    uint32_t level;
    bool well = true;
    for (bool more = begin_walk(&w, p, lane->track); more && well && step_walk(&w, &a, &level);) {
        a.name_id = find_first_of_stem(p, a.name_id);
        if (a.name_id != UINT32_MAX)
            draw_range(p, p->cells + (size_t)(lane->row + level) * p->width, &a);
        well = a.name_id != UINT32_MAX && add_name_time(sums, a.name_id, get_shown_ns(p, &a));
    }
    return well;
}

/* Keeps the list of the heaviest names sorted. */
static void insert_name(kc_picture *p, kc_picture_name name)
{
    uint32_t i = p->name_count;
    if (i == KC_PICTURE_NAMES && p->names[--i].ns >= name.ns)
        return;
    for (; i > 0 && p->names[i - 1].ns < name.ns; i--)
        p->names[i] = p->names[i - 1];
    p->names[i] = name;
    p->name_count = KB_MIN(p->name_count + 1, KC_PICTURE_NAMES);
}

/* In the order of ids, so that the same trace gives the same picture. */
static void choose_names(kc_picture *p, const kb_map *sums)
{
    for (uint32_t id = 0; id < kineto_trace_string_count(p->trace); id++) {
        const uint64_t *ns = kb_map_find(sums, id);
        if (ns)
            insert_name(p, (kc_picture_name){id, (double)*ns});
    }
}

kineto_status kc_picture_make(const kineto_trace *trace, int64_t from_ns, int64_t to_ns, uint32_t width,
                              uint32_t lanes, kc_picture *out, kineto_error *err)
{
    int64_t end_ns;
    kb_map sums = {0};
    *out = (kc_picture){.trace = trace, .from_ns = from_ns, .to_ns = to_ns, .width = width};
    KB_ASSERT(from_ns < to_ns && width);
    kineto_trace_window(trace, &out->start_ns, &end_ns);
    kineto_status status = choose_lanes(out, lanes, err);
    out->cells = status ? NULL : calloc((size_t)out->row_count * width + 1, sizeof *out->cells);
    bool well = out->cells != NULL;
    for (uint32_t i = 0; i < out->lane_count && well; i++)
        well = draw_lane(out, &out->lanes[i], &sums);
    if (well)
        choose_names(out, &sums);
    else if (!status)
        status = kb_fail_memory(err, NULL);
    kb_map_free(&sums);
    return status;
}

void kc_picture_free(kc_picture *p)
{
    free(p->cells);
    p->cells = NULL;
    kb_map_free(&p->stems);
}

/* ---- what writers ask ------------------------------------------------------------------------ */

uint32_t kc_picture_name_at(const kc_picture *p, uint32_t row, uint32_t x)
{
    const float min_share = 0.02f; /* less is not visible */
    const kc_picture_cell *cell = &p->cells[(size_t)row * p->width + x];
    uint32_t i = 0;
    if (!cell->name || cell->covered < min_share)
        return UINT32_MAX;
    while (i < p->name_count && p->names[i].id != cell->name - 1)
        i++;
    return i < p->name_count ? i : KC_PICTURE_NAMES;
}

ke_label kc_picture_name_of(const kc_picture *p, uint32_t name)
{
    enum { NAME_BYTES = 120 };
    kineto_string all = kineto_trace_string(p->trace, p->names[name].id);
    size_t stem = get_stem_size(all);
    kineto_string cut = kb_utf8_cut(all.size ? (kineto_string){all.data, stem} : kb_string("(no name)"), NAME_BYTES);
    ke_label l;
    int size = snprintf(l.text, sizeof l.text, "%.*s%s", (int)cut.size, cut.data,
                        cut.size < all.size ? "…" : "");
    l.size = (size_t)KB_MIN(KB_MAX(size, 0), (int)sizeof l.text - 1);
    return l;
}

/* Of equal lightness, and distinct for most kinds of colour vision as far as twelve can be; the last one is for all
 * other names. */
const char *kc_picture_colour(uint32_t name)
{
    static const char *const colours[KC_PICTURE_NAMES + 1] = {
        "#3b76c4", "#e08214", "#2f9e5b", "#c8403a", "#8a5fc0", "#8c6a4f", "#d66fb0",
        "#5f6b12", "#19a3b5", "#b59b00", "#44508c", "#e59a86", "#b4b4b4"};
    return colours[KB_MIN(name, KC_PICTURE_NAMES)];
}

ke_label kc_picture_label(const kc_picture *p, uint32_t lane)
{
    kineto_track t;
    kineto_trace_track(p->trace, p->lanes[lane].track, &t);
    ke_label process = ke_process_label(p->trace, t.process), track = ke_track_label(p->trace, p->lanes[lane].track);
    ke_label l;
    int size = snprintf(l.text, sizeof l.text, "%.*s: %.*s", (int)KB_MIN(process.size, sizeof l.text / 2),
                        process.text, (int)KB_MIN(track.size, sizeof l.text / 2), track.text);
    l.size = (size_t)KB_MIN(KB_MAX(size, 0), (int)sizeof l.text - 1);
    return l;
}
