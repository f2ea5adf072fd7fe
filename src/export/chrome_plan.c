/* Plans a Chrome file before anything is written: the order of processes and tracks, the pid and
 * tid of each, and the base of its times. */
#include "export/chrome.h"

#define PROCESS_ID_STEP 1000000000u
#define LANE_ID_STEP    100000000u
/* Traces recorded within the same three weeks get the same base, so that those of many hosts can be
 * overlaid. It is a quarter of Kineto's three months: then times stay below 2^41 us, and viewers
 * that read them as doubles get every nanosecond right. An error of one nanosecond would make a
 * slice that ends together with its parent stick out of it, and viewers would drop it. */
#define BASE_STEP_NS (INT64_C(7889238) * 1000000000 / 4)

/* ---- order ------------------------------------------------------------------------------------
 *
 * A reader meets rows that have names first, because names precede the events. Those rows come
 * first here as well, so that a trace that is read and written again keeps its order. */

typedef struct row_order {
    uint32_t *list, count;
    bool *taken;
} row_order;

/* False: out of memory; the caller frees both arrays in any case. */
static bool make_row_order(row_order *o, uint32_t most)
{
    o->count = 0;
    o->list = calloc((size_t)most + 1, sizeof *o->list);
    o->taken = calloc((size_t)most + 1, sizeof *o->taken);
    return o->list && o->taken;
}

/* Appends an index unless the order has it already. */
static void append_to_order(row_order *o, uint32_t index)
{
    KB_ASSERT(o->list && o->taken);
    if (!o->taken[index])
        o->list[o->count++] = index;
    o->taken[index] = true;
}

/* Appends tracks that have names, or, if not with_names, those that have rows, and their
 * processes. */
static void append_tracks(ke_chrome *c, row_order *tracks, row_order *processes, bool with_names)
{
    for (uint32_t i = 0; i < kineto_trace_track_count(c->trace); i++) {
        kineto_track track;
        kineto_trace_track(c->trace, i, &track);
        if (with_names ? !ke_track_has_names(c, i) : !track.count)
            continue;
        append_to_order(tracks, i);
        append_to_order(processes, track.process);
    }
}

/* The order of the file: processes and tracks with names, then tracks with rows and their
 * processes, then all that are left. */
static bool plan_row_order(ke_chrome *c)
{
    uint32_t process_count = kineto_trace_process_count(c->trace);
    uint32_t track_count = kineto_trace_track_count(c->trace);
    row_order tracks = {0}, processes = {0};
    bool ok = make_row_order(&tracks, track_count) & make_row_order(&processes, process_count);
    c->track_order = tracks.list;
    c->process_order = processes.list;
    for (uint32_t i = 0; ok && i < process_count; i++)
        if (ke_process_has_names(c, i))
            append_to_order(&processes, i);
    for (int with_names = 1; ok && with_names >= 0; with_names--)
        append_tracks(c, &tracks, &processes, with_names);
    for (uint32_t i = 0; ok && i < track_count; i++)
        append_to_order(&tracks, i);
    for (uint32_t i = 0; ok && i < process_count; i++)
        append_to_order(&processes, i);
    free(tracks.taken);
    free(processes.taken);
    return ok;
}

/* Devices with properties in the order of the file's list, then others in that of their
 * processes. */
static int compare_device_keys(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Fills device_order and device_place. Keys hold the position in the source's list in their upper
 * half, so that sorting them restores its order. */
static bool plan_device_order(ke_chrome *c)
{
    uint32_t count = kineto_trace_process_count(c->trace);
    uint64_t *keys = malloc(((size_t)count + 1) * sizeof *keys);
    c->device_order = calloc((size_t)count + 1, sizeof *c->device_order);
    c->device_place = calloc((size_t)count + 1, sizeof *c->device_place);
    if (!keys || !c->device_order || !c->device_place) {
        free(keys);
        return false;
    }
    for (uint32_t n = 0; n < count; n++) {
        kineto_process p;
        uint32_t place = kt_process_place(c->trace, c->process_order[n]);
        kineto_trace_process(c->trace, c->process_order[n], &p);
        if (p.is_device && p.properties_json.size)
            keys[c->device_count++] = (uint64_t)(place ? place : UINT32_MAX) << 32 | n;
    }
    qsort(keys, c->device_count, sizeof *keys, compare_device_keys);
    for (uint32_t i = 0; i < c->device_count; i++) {
        c->device_order[i] = c->process_order[(uint32_t)keys[i]];
        c->device_place[c->device_order[i]] = i;
    }
    free(keys);
    return true;
}

/* ---- pids and tids --------------------------------------------------------------------------- */

/* This many steps are tried, from which a reader can restore the number; then any free number is
 * used. */
#define BIG_STEPS 32

/* Returns the first of number, number + step, … whose lower half is free in `space`, and marks it
 * as taken. *ok false: out of memory. */
static int64_t claim_id(kb_map *taken, uint64_t space, int64_t number, uint32_t step, bool *ok)
{
    bool created = false;
    for (uint32_t tries = 0; *ok; tries++) {
        uint64_t key[2] = {space, (uint32_t)number};
        *ok = kb_map_insert(taken, kb_hash(key, sizeof key), 1, &created) != NULL;
        if (created)
            break;
        number = (uint32_t)((uint32_t)number + (tries < BIG_STEPS ? step : 1));
    }
    return number;
}

/* Maximum length of a number or text as JSON. */
#define ID_BYTES (6 * KE_LONGEST_TEXT + 64)

/* Writes as much of a text as fits into `most` bytes, with quotes and escapes; `out` has
 * ID_BYTES. */
static char *escape_cut_text(char *out, kineto_string text, size_t most, uint64_t *replaced)
{
    for (text = kb_utf8_cut(text, most);;) {
        uint64_t count = 0;
        char *end = kb_json_escape(out, text, &count);
        if ((size_t)(end - out) <= most) {
            *replaced += count;
            return end;
        }
        /* An escape has at most six bytes. */
        size_t less = ((size_t)(end - out) - most) / 6 + 1;
        text = kb_utf8_cut(text, text.size - less);
    }
}

/* Formats a pid or tid as JSON: the number, or the text, which is cut so that the lane's suffix
 * fits. Returns its size. */
static size_t format_place_id(char *out, kineto_string text, int64_t number, uint32_t lane,
                              uint64_t *replaced)
{
    if (!text.data)
        return (size_t)(kb_json_format_int(out, number) - out);
    char *end = escape_cut_text(out, text, KE_LONGEST_TEXT - (lane ? 32 : 0), replaced);
    if (lane)
        end += snprintf(end - 1, 32, " (lane %u)\"", lane + 1) - 1;
    return (size_t)(end - out);
}

/* Assigns pids to hosts first, so that devices evade them and not the other way round. */
static bool plan_process_ids(ke_chrome *c)
{
    uint32_t count = kineto_trace_process_count(c->trace);
    kb_map taken = {0};
    bool ok = true;
    c->pids = calloc(count + 1, sizeof *c->pids);
    c->pid_numbers = calloc(count + 1, sizeof *c->pid_numbers);
    if (!c->pids || !c->pid_numbers)
        return false;
    for (uint32_t i = 0; i < 2 * count && ok; i++) { /* hosts, then devices */
        kineto_process p;
        char text[ID_BYTES];
        uint32_t index = c->process_order[i % count];
        kineto_trace_process(c->trace, index, &p);
        if (p.is_device != (i >= count))
            continue;
        kineto_string name = kt_process_text_of(c->trace, index);
        int64_t pid = name.data ? 0 : claim_id(&taken, 0, p.pid, PROCESS_ID_STEP, &ok);
        size_t size = format_place_id(text, name, pid, 0, &c->replaced);
        char *copy = kb_arena_copy(&c->arena, text, size);
        ok = ok && copy;
        c->pid_numbers[index] = pid;
        c->pids[index] = (kineto_string){copy, size};
    }
    kb_map_free(&taken);
    return ok;
}

/* Formats `,"pid":…,"tid":…,"ts":` of a lane into the arena; it may be read in pieces of KE_PIECE
 * bytes. */
static bool make_place_text(ke_chrome *c, ke_place *place, uint32_t process, kineto_string tid)
{
    kineto_string pid = c->pids[process];
    size_t room = pid.size + tid.size + 32 + KE_PIECE;
    char *out = kb_arena_alloc(&c->arena, room, 1);
    if (!out)
        return false;
    memset(out, 0, room);
    place->text = out;
    KE_PUT(out, ",\"pid\":");
    memcpy(out, pid.data, pid.size);
    out += pid.size;
    if (tid.size) {
        KE_PUT(out, ",\"tid\":");
        memcpy(out, tid.data, tid.size);
        out += tid.size;
    }
    KE_PUT(out, ",\"ts\":");
    place->size = (size_t)(out - place->text);
    c->room = KB_MAX(c->room, KE_ROOM + 2 * place->size);
    return true;
}

/* Assigns the tids and places of all lanes of a track. Tracks whose activities have ids of their
 * own share the number of their process. */
static bool plan_track_ids(ke_chrome *c, uint32_t index, kb_map *taken)
{
    ke_track *track = &c->tracks[index];
    bool ok = true;
    kineto_trace_track(c->trace, index, &track->view);
    bool split = c->job->options->split_lanes && !ke_shares_tid(&track->view);
    if (!split && track->view.lane_count)
        track->view.lane_count = 1;
    uint32_t lanes = track->view.lane_count;
    track->places = kb_arena_alloc(&c->arena, lanes * sizeof *track->places, 8);
    track->tids = kb_arena_alloc(&c->arena, lanes * sizeof *track->tids, 8);
    if (!lanes || !track->places || !track->tids)
        return false;
    bool counts_device = kt_process_counts_device(c->trace, track->view.process);
    track->counter_category = kb_string(
        kineto_kind_name(counts_device ? KINETO_KIND_GPU_PM_COUNTER : KINETO_KIND_COUNTER));
    kineto_string text = kt_track_text_of(c->trace, index);
    for (uint32_t lane = 0; lane < lanes && ok; lane++) {
        char tid[ID_BYTES];
        int64_t number = track->view.id;
        /* As in the file. */
        bool stays = !lane && kt_track_has_own_tid(c->trace, index);
        /* Perfetto shows negative ones on the main thread. */
        if (lane || (number < 0 && !stays))
            number = (uint32_t)((uint32_t)number + lane * LANE_ID_STEP);
        if (!text.data && !ke_shares_tid(&track->view))
            number = claim_id(taken, 1 + (uint64_t)track->view.process, number, LANE_ID_STEP, &ok);
        track->tids[lane] = number;
        size_t size = format_place_id(tid, text, number, lane, &c->replaced);
        if (track->view.type == KINETO_TRACK_COUNTER && !text.data && !number)
            size = 0; /* viewers put counters into the row of their process */
        ok = ok && make_place_text(c, &track->places[lane], track->view.process,
                                   (kineto_string){tid, size});
    }
    return ok;
}

/* The base is the latest multiple of BASE_STEP_NS that does not exceed the earliest time. */
static void plan_base_time(ke_chrome *c)
{
    const kineto_trace *t = c->trace;
    int64_t earliest, end;
    kineto_trace_window(t, &earliest, &end);
    for (uint32_t i = 0; i < kt_block_count(t); i++)
        earliest = KB_MIN(earliest, kt_block_at(t, i)->min_start_ns);
    int64_t rest = earliest % BASE_STEP_NS;
    if (rest < 0)
        rest += BASE_STEP_NS;
    c->base_ns = earliest < INT64_MIN + rest ? INT64_MIN : earliest - rest;
}

/* Keys of the header that this writer uses are taken before those of the program. */
static bool reserve_own_keys(ke_chrome *c)
{
    static const char *const own[] = {
        "schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds",
        "traceEvents",   "ckineto",          "traceName"};
    for (size_t i = 0; i < KB_COUNT(own); i++)
        if (!kb_map_insert(&c->header_keys, kb_hash(own[i], strlen(own[i])), 1, NULL))
            return false;
    return true;
}

/* The order comes first: pids and tids are assigned in it, so that the first row with a number
 * keeps it. */
bool ke_plan(ke_chrome *c)
{
    uint32_t tracks = kineto_trace_track_count(c->trace);
    kb_map taken = {0};
    c->room = KE_ROOM;
    c->was_read = kt_is_from_file(c->trace);
    plan_base_time(c);
    c->tracks = calloc(tracks + 1, sizeof *c->tracks);
    bool ok = c->tracks && reserve_own_keys(c) && plan_row_order(c) && plan_device_order(c) &&
              plan_process_ids(c);
    for (uint32_t i = 0; ok && i < tracks; i++)
        ok = plan_track_ids(c, c->track_order[i], &taken);
    kb_map_free(&taken);
    return ok;
}
