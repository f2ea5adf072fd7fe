/* Launches into a graph that is being captured: between …StreamBeginCapture and …StreamEndCapture
 * a launch becomes a node of a graph and has no device work of its own. So such launches are not
 * lost.
 *
 * The runtime's rows do not say which stream a call is about. A launch is taken to be captured if
 * its own thread captures; or if another thread of its process does, and none of the launches of
 * its thread meanwhile has work (a backward pass launches from a thread of its own). */
#include "analyze/verify/verify.h"

/* A call that begins or ends a capture; `ns` is when the capture does. */
typedef struct capture_mark {
    uint32_t track;
    bool begins;
    int64_t ns;
    kineto_row row;
} capture_mark;

typedef KB_VEC(capture_mark) capture_marks;

/* By track and time. */
static int compare_marks(const void *left, const void *right)
{
    const capture_mark *a = left, *b = right;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* By owner and start. */
static int compare_captures(const void *left, const void *right)
{
    const ka_capture *a = left, *b = right;
    if (a->owner != b->owner)
        return a->owner < b->owner ? -1 : 1;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* Collects begins and ends of captures by the names of calls. */
static void gather_marks(ka_verify *v, capture_marks *marks)
{
    kineto_row row = 0;
    for (uint32_t n = 0; n < kt_block_count(v->t); n++) {
        const kt_block *b = kt_block_at(v->t, n);
        for (uint32_t i = 0; b && i < b->count; i++, row++) {
            uint8_t hint = v->names[KB_MIN(b->name[i], v->name_count)];
            if (!(hint & (KA_NAME_CAPTURE | KA_NAME_CAPTURED)) || !kt_kind_is_launch(b->kind[i]) ||
                b->form[i] != KINETO_FORM_SLICE || b->track[i] >= v->track_count)
                continue;
            bool begins = hint & KA_NAME_CAPTURE;
            capture_mark mark = {b->track[i], begins, begins ? b->start_ns[i] : b->end_ns[i], row};
            v->no_memory |= !kb_vec_push(marks, mark);
        }
    }
    if (marks->count)
        qsort(marks->data, marks->count, sizeof *marks->data, compare_marks);
}

/* The captures of one track; several streams may be captured at once. One that began before the
 * recording, or ends after it, is open at that end. Returns the first mark of the next track. */
static size_t add_captures_of_track(ka_verify *v, const capture_marks *marks, size_t from,
                                    ka_captures *out)
{
    uint32_t track = marks->data[from].track;
    ka_capture open = {.owner = track, .start_ns = INT64_MIN};
    uint32_t depth = !marks->data[from].begins;
    size_t i = from;
    for (; i < marks->count && marks->data[i].track == track; i++) {
        const capture_mark *mark = &marks->data[i];
        if (mark->begins && !depth++)
            open.start_ns = mark->ns;
        if (mark->begins || !depth || --depth)
            continue;
        open.end_ns = mark->ns;
        v->no_memory |= !kb_vec_push(&out->of_tracks, open);
    }
    open.end_ns = INT64_MAX;
    if (depth)
        v->no_memory |= !kb_vec_push(&out->of_tracks, open);
    return i;
}

/* When any thread of a process captures. */
static void unite_by_process(ka_verify *v, ka_captures *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->of_tracks.count && !v->no_memory; i++) {
        ka_capture of = c->of_tracks.data[i];
        of.owner = v->tracks[of.owner].process;
        v->no_memory |= !kb_vec_push(&c->of_processes, of);
    }
    if (c->of_processes.count)
        qsort(c->of_processes.data, c->of_processes.count, sizeof *c->of_processes.data,
              compare_captures);
    for (size_t i = 0; i < c->of_processes.count; i++) {
        ka_capture *last = kept ? &c->of_processes.data[kept - 1] : NULL,
                   *at = &c->of_processes.data[i];
        if (last && last->owner == at->owner && at->start_ns <= last->end_ns)
            last->end_ns = KB_MAX(last->end_ns, at->end_ns);
        else
            c->of_processes.data[kept++] = *at;
    }
    c->of_processes.count = kept;
}

/* Marks are sorted by track, so each track is one run of the array. */
void ka_captures_find(ka_verify *v, ka_captures *out)
{
    capture_marks marks = {0};
    *out = (ka_captures){.v = v};
    gather_marks(v, &marks);
    for (size_t i = 0; i < marks.count && !v->no_memory;)
        i = add_captures_of_track(v, &marks, i, out);
    kb_vec_free(&marks);
    unite_by_process(v, out);
}

void ka_captures_free(ka_captures *c)
{
    kb_vec_free(&c->of_tracks);
    kb_vec_free(&c->of_processes);
    kb_map_free(&c->executing);
}

/* Index + 1 of the capture of the owner that a moment is in; 0. */
static size_t capture_at(const ka_capture *list, size_t count, uint32_t owner, int64_t ns)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, count,
                   list[after].owner < owner ||
                       (list[after].owner == owner && list[after].start_ns <= ns));
    return after && list[after - 1].owner == owner && ns <= list[after - 1].end_ns ? after : 0;
}

/* What says that a thread launches work that runs during a capture of its process; 0: none. */
static uint64_t executing_key(const ka_captures *c, uint32_t track, int64_t ns)
{
    size_t at =
        capture_at(c->of_processes.data, c->of_processes.count, c->v->tracks[track].process, ns);
    uint64_t key[] = {at, track};
    return at ? kb_hash(key, sizeof key) | 1 : 0;
}

void ka_captures_see_linked(ka_captures *c, uint32_t track, int64_t ns)
{
    uint64_t key = track < c->v->track_count ? executing_key(c, track, ns) : 0;
    if (key)
        c->v->no_memory |= !kb_map_insert(&c->executing, key, 1, NULL);
}

/* By the captures of its own track, else by those of its process, see the first comment. */
bool ka_is_captured(const ka_captures *c, uint32_t track, int64_t ns)
{
    if (!c->of_tracks.count || track >= c->v->track_count)
        return false;
    if (capture_at(c->of_tracks.data, c->of_tracks.count, track, ns))
        return true;
    uint64_t key = executing_key(c, track, ns);
    return key && !kb_map_find(&c->executing, key);
}

/* Reads all rows: called only for traces without any device work. */
uint64_t ka_count_captured_launches(const ka_captures *c)
{
    const ka_verify *v = c->v;
    uint64_t count = 0;
    for (uint32_t n = 0; c->of_tracks.count && n < kt_block_count(v->t); n++) {
        const kt_block *b = kt_block_at(v->t, n);
        for (uint32_t i = 0; b && i < b->count; i++)
            count += v->names[KB_MIN(b->name[i], v->name_count)] & KA_NAME_LAUNCH &&
                     ka_is_captured(c, b->track[i], b->start_ns[i]);
    }
    return count;
}
