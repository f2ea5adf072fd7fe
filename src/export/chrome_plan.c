/* Before anything is written: in which order rows come, which pid and tid each gets, and from when
 * times count. */
#include "export/chrome.h"

#define SHIFT_PROCESS 1000000000u
#define SHIFT_LANE    100000000u
/* Traces that were taken within the same three weeks get the same base, so that those of many hosts
 * can be laid over each other. It is a quarter of Kineto's three months: then times stay below 2^41
 * us, and viewers that read them as doubles get every nanosecond right; a nanosecond off, and a
 * slice that ends with what it lies in sticks out of it, and is dropped. */
#define BASE_STEP_NS (INT64_C(7889238) * 1000000000 / 4)

/* ---- order ------------------------------------------------------------------------------------
 *
 * A reader meets rows that have names first, since names stand before the events. So these come
 * first here too: what is read and written again keeps its order. */

typedef struct order {
    uint32_t *list, count;
    bool *taken;
} order;

static bool order_make(order *o, uint32_t most)
{
    o->count = 0;
    o->list = calloc((size_t)most + 1, sizeof *o->list);
    o->taken = calloc((size_t)most + 1, sizeof *o->taken);
    return o->list && o->taken;
}

static void order_add(order *o, uint32_t index)
{
    if (!o->taken[index])
        o->list[o->count++] = index;
    o->taken[index] = true;
}

static void order_tracks(ke_chrome *c, order *tracks, order *processes, bool with_names)
{
    for (uint32_t i = 0; i < kineto_trace_track_count(c->trace); i++) {
        kineto_track track;
        kineto_trace_track(c->trace, i, &track);
        if (with_names ? !ke_track_has_names(c, i) : !track.count)
            continue;
        order_add(tracks, i);
        order_add(processes, track.process);
    }
}

static bool plan_order(ke_chrome *c)
{
    uint32_t process_count = kineto_trace_process_count(c->trace);
    uint32_t track_count = kineto_trace_track_count(c->trace);
    order tracks = {0}, processes = {0};
    bool ok = order_make(&tracks, track_count) & order_make(&processes, process_count);
    c->track_order = tracks.list;
    c->process_order = processes.list;
    for (uint32_t i = 0; ok && i < process_count; i++)
        if (ke_process_has_names(c, i))
            order_add(&processes, i);
    for (int with_names = 1; ok && with_names >= 0; with_names--)
        order_tracks(c, &tracks, &processes, with_names);
    for (uint32_t i = 0; ok && i < track_count; i++)
        order_add(&tracks, i);
    for (uint32_t i = 0; ok && i < process_count; i++)
        order_add(&processes, i);
    free(tracks.taken);
    free(processes.taken);
    return ok;
}

/* Devices with properties in the order of the file's list, then others in that of their processes. */
static int compare_places(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static bool plan_devices(ke_chrome *c)
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
    qsort(keys, c->device_count, sizeof *keys, compare_places);
    for (uint32_t i = 0; i < c->device_count; i++) {
        c->device_order[i] = c->process_order[(uint32_t)keys[i]];
        c->device_place[c->device_order[i]] = i;
    }
    free(keys);
    return true;
}

/* ---- pids and tids --------------------------------------------------------------------------- */

/* Tries in big steps, which a reader can see through; then any free number will do. */
#define BIG_STEPS 32

/* The first of number, number + step, … whose lower half `scope` has not handed out; *ok false: no
 * memory. */
static int64_t claim(kb_map *taken, uint64_t scope, int64_t number, uint32_t step, bool *ok)
{
    bool created = false;
    for (uint32_t tries = 0; *ok; tries++) {
        uint64_t key[2] = {scope, (uint32_t)number};
        *ok = kb_map_insert(taken, kb_hash(key, sizeof key), 1, &created) != NULL;
        if (created)
            break;
        number = (uint32_t)((uint32_t)number + (tries < BIG_STEPS ? step : 1));
    }
    return number;
}

/* A number or text as JSON, at most this long. */
#define ID_BYTES (6 * KE_LONGEST_TEXT + 64)

/* As much of a text as fits, with its quotes and escapes; out has room for ID_BYTES. */
static char *cut_text(char *out, kineto_string text, size_t most, uint64_t *replaced)
{
    for (text = kb_utf8_cut(text, most);;) {
        uint64_t count = 0;
        char *end = kb_json_escape(out, text, &count);
        if ((size_t)(end - out) <= most) {
            *replaced += count;
            return end;
        }
        size_t less = ((size_t)(end - out) - most) / 6 + 1; /* a byte becomes at most six */
        text = kb_utf8_cut(text, text.size - less);
    }
}

static size_t format_id(char *out, kineto_string text, int64_t number, uint32_t lane,
                        uint64_t *replaced)
{
    if (!text.data)
        return (size_t)(kb_json_format_int(out, number) - out);
    char *end = cut_text(out, text, KE_LONGEST_TEXT - (lane ? 32 : 0), replaced);
    if (lane)
        end += snprintf(end - 1, 32, " (lane %u)\"", lane + 1) - 1;
    return (size_t)(end - out);
}

static bool plan_pids(ke_chrome *c)
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
        int64_t pid = name.data ? 0 : claim(&taken, 0, p.pid, SHIFT_PROCESS, &ok);
        size_t size = format_id(text, name, pid, 0, &c->replaced);
        char *copy = kb_arena_copy(&c->arena, text, size);
        ok = ok && copy;
        c->pid_numbers[index] = pid;
        c->pids[index] = (kineto_string){copy, size};
    }
    kb_map_free(&taken);
    return ok;
}

static bool make_place(ke_chrome *c, ke_place *place, uint32_t process, kineto_string tid)
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

static bool plan_track(ke_chrome *c, uint32_t index, kb_map *taken)
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
        bool stays = !lane && kt_track_has_own_tid(c->trace, index); /* as the file had it */
        if (lane || (number < 0 && !stays)) /* those, Perfetto would put onto the main thread */
            number = (uint32_t)((uint32_t)number + lane * SHIFT_LANE);
        if (!text.data && !ke_shares_tid(&track->view))
            number = claim(taken, 1 + (uint64_t)track->view.process, number, SHIFT_LANE, &ok);
        track->tids[lane] = number;
        size_t size = format_id(tid, text, number, lane, &c->replaced);
        if (track->view.type == KINETO_TRACK_COUNTER && !text.data && !number)
            size = 0; /* viewers put counters into the row of their process */
        ok = ok &&
             make_place(c, &track->places[lane], track->view.process, (kineto_string){tid, size});
    }
    return ok;
}

static void plan_base(ke_chrome *c)
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

/* Keys of the header that are taken: ours before any of the program's. */
static bool take_own_keys(ke_chrome *c)
{
    static const char *const own[] = {
        "schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds",
        "traceEvents",   "ckineto",          "traceName"};
    for (size_t i = 0; i < KB_COUNT(own); i++)
        if (!kb_map_insert(&c->header_keys, kb_hash(own[i], strlen(own[i])), 1, NULL))
            return false;
    return true;
}

bool ke_plan(ke_chrome *c)
{
    uint32_t tracks = kineto_trace_track_count(c->trace);
    kb_map taken = {0};
    c->room = KE_ROOM;
    c->was_read = kt_was_read(c->trace);
    plan_base(c);
    c->tracks = calloc(tracks + 1, sizeof *c->tracks);
    bool ok = c->tracks && take_own_keys(c) && plan_order(c) && plan_devices(c) && plan_pids(c);
    for (uint32_t i = 0; ok && i < tracks; i++)
        ok = plan_track(c, c->track_order[i], &taken);
    kb_map_free(&taken);
    return ok;
}
