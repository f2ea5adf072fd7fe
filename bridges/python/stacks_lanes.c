/* Lanes: the functions that are running in each thread, and how a lane is brought up to date.
 *
 * As long as a lane's epoch is the present one, events alone keep its entries equal to the thread's
 * frames. At the first event of an epoch, and when a function ends that is not the innermost one
 * (an event was missed, or a library switched stacks), the frames are walked and compared. */
#include "stacks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_CAPACITY 126u

pthread_mutex_t cs_lock = PTHREAD_MUTEX_INITIALIZER;
cs_lane *cs_lanes;

/* ---- life of a lane -------------------------------------------------------------------------- */

cs_lane *cs_lane_new(bool has_owner)
{
    cs_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    lane->entries = calloc(FIRST_CAPACITY + 1, sizeof *lane->entries);
    if (!lane->entries) {
        free(lane);
        return NULL;
    }
    lane->capacity = FIRST_CAPACITY;
    lane->has_owner = has_owner;
    (void)pthread_mutex_lock(&cs_lock);
    lane->next = cs_lanes;
    lane->link = &cs_lanes;
    if (cs_lanes)
        cs_lanes->link = &lane->next;
    cs_lanes = lane;
    (void)pthread_mutex_unlock(&cs_lock);
    return lane;
}

/* Remove a lane from the list; the caller holds the lock. */
static void unlink_lane(cs_lane *lane)
{
    *lane->link = lane->next;
    if (lane->next)
        lane->next->link = lane->link;
}

static void destroy_lane(cs_lane *lane)
{
    free(lane->entries);
    free(lane);
}

void cs_lane_forget(cs_lane *lane)
{
    cs_set_depth(lane, 0);
    atomic_store_explicit(&lane->epoch, 0, memory_order_relaxed);
    lane->synced = 0;
    lane->beyond = 0;
    lane->check_next = false;
}

static bool is_recording_functions(void)
{
    return cs.active && atomic_load_explicit(&cs.recording, memory_order_relaxed) &&
           kineto_enabled(KINETO_KIND_PYTHON_FUNCTION);
}

static uint32_t load_epoch(void) { return atomic_load_explicit(&cs.epoch, memory_order_relaxed); }

/* Write rows of the entries after `keep`, which end now. With the lock, or by the thread that is
 * inside its lane. */
static void record_above(const cs_lane *lane, uint32_t keep)
{
    for (uint32_t i = cs_depth(lane); i > keep; i--)
        cs_record(&lane->entries[i]);
}

/* Do the entries belong to the session that runs now? Otherwise they are of an earlier epoch, and
 * their rows have been written already. */
static bool has_valid_entries(const cs_lane *lane)
{
    return lane->synced == load_epoch() &&
           atomic_load_explicit(&cs.recording, memory_order_relaxed);
}

void cs_lane_free(cs_lane *lane)
{
    (void)pthread_mutex_lock(&cs_lock);
    if (cs_depth(lane) && has_valid_entries(lane))
        for (uint32_t i = cs_depth(lane); i > 0; i--)
            cs_emit(lane, &lane->entries[i], kineto_record_ticks());
    unlink_lane(lane);
    (void)pthread_mutex_unlock(&cs_lock);
    destroy_lane(lane);
}

/* Called by the lane's own thread. The lock keeps a reader from seeing the old array freed. */
bool cs_lane_grow(cs_lane *lane)
{
    uint32_t capacity = lane->capacity * 2;
    if (capacity > CS_MAX_DEPTH)
        return false;
    (void)pthread_mutex_lock(&cs_lock);
    cs_entry *grown = realloc(lane->entries, (capacity + 1) * sizeof *grown);
    if (grown) {
        lane->entries = grown;
        lane->capacity = capacity;
    }
    (void)pthread_mutex_unlock(&cs_lock);
    return grown != NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

void cs_record_slow(const cs_entry *entry)
{
    if (entry->name->flags & CS_IS_HIDDEN)
        return;
    kineto_value values[3] = {
        {.i = (int64_t)entry->id}, {.s = "null"}, {.i = entry->name->number}};
    kineto_record_past(&entry->name->root, entry->start, values);
}

/* ---- frames ---------------------------------------------------------------------------------- */

typedef struct frame_list {
    cs_entry *items; /* innermost first; starts are not set */
    size_t count, room;
} frame_list;

/* Append a frame to the list. False: out of memory. */
static bool add_frame(frame_list *list, const void *key, cs_name *name)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        cs_entry *grown = realloc(list->items, room * sizeof *grown);
        if (!grown)
            return false;
        list->items = grown;
        list->room = room;
    }
    list->items[list->count++] = (cs_entry){key, name, 0, 0};
    return true;
}

/* Append a frame if functions of its code are recorded. False: an error; the walk ends here. */
static bool visit_frame(frame_list *list, PyObject *frame)
{
    PyObject *code = PyObject_GetAttrString(frame, "f_code");
    bool done = false;
    if (code && !cs.functions && code != cs.call_code) {
        done = true; /* only modules are recorded */
    } else if (code && cs_is_outside(code)) {
        done = true;
    } else if (code) {
        cs_name *name = cs_name_of_frame(code, frame);
        done = name && add_frame(list, code, name);
    }
    Py_XDECREF(code);
    return done;
}

/* List the frames from this one outwards. An error ends the list early: functions outside of it
 * then have no rows. */
static void list_frames(frame_list *list, PyObject *frame, bool include_top)
{
    Py_XINCREF(frame);
    for (bool visit = include_top; frame && frame != Py_None; visit = true) {
        if (visit && !visit_frame(list, frame))
            break;
        PyObject *outer = PyObject_GetAttrString(frame, "f_back");
        Py_DECREF(frame);
        frame = outer;
    }
    Py_XDECREF(frame);
    PyErr_Clear();
}

/* ---- bringing entries up to date ------------------------------------------------------------- */

typedef enum rebuild_reason {
    NEW_EPOCH,  /* entries without a frame ended before this epoch; they have their rows */
    MISSED,     /* an event was missed: entries without a frame end now */
    BEGUN_TWICE /* the walk found a frame whose begin event comes only now */
} rebuild_reason;

/* Count the outermost entries that the frames still have; *frames: how many frames they cover.
 * Functions in C have no frame: they stay as long as a function that they call does. */
static uint32_t count_common(const cs_lane *lane, const frame_list *list, size_t *frames)
{
    uint32_t keep = 0, depth = cs_depth(lane);
    *frames = 0;
    for (uint32_t i = 1; i <= depth && *frames < list->count; i++) {
        const cs_entry *e = &lane->entries[i];
        if (e->name->flags & CS_IS_C)
            continue;
        if (e->key != list->items[list->count - 1 - *frames].key)
            break;
        keep = i;
        ++*frames;
    }
    return keep;
}

/* Append an entry for a frame; with no room it is only counted (`beyond`). */
static void append_frame(cs_lane *lane, const cs_entry *frame, uint64_t start)
{
    uint32_t depth = cs_depth(lane);
    cs_entry *e = &lane->entries[depth + 1];
    if (depth == lane->capacity) {
        lane->beyond++;
        return;
    }
    *e = (cs_entry){frame->key, frame->name, 0, start};
    e->id = frame->name->flags & CS_IS_HIDDEN ? e[-1].id : cs_next_id(lane);
    cs_set_depth(lane, depth + 1);
}

/* Give an entry of an earlier epoch a new start and id: its time until the epoch began is a row of
 * its own already. */
static void renew_entry(cs_lane *lane, cs_entry *e, uint64_t start)
{
    if (e->start >= start)
        return;
    e->start = start;
    e->id = e->name->flags & CS_IS_HIDDEN ? e[-1].id : cs_next_id(lane);
}

/* With the lock. Makes the entries equal to the frames; those that are new began at `start`. */
static void apply_frames(cs_lane *lane, const frame_list *list, rebuild_reason reason,
                         uint64_t start)
{
    size_t frames;
    uint32_t keep = count_common(lane, list, &frames);
    if (reason == MISSED)
        record_above(lane, keep);
    cs_set_depth(lane, keep);
    lane->beyond = 0;
    for (uint32_t i = 1; reason == NEW_EPOCH && i <= keep; i++)
        renew_entry(lane, &lane->entries[i], start);
    for (; frames < list->count; frames++)
        append_frame(lane, &list->items[list->count - 1 - frames], start);
}

/* Grow the lane for `count` entries if possible; append_frame copes when it is not. */
static void ensure_capacity(cs_lane *lane, size_t count)
{
    while (lane->capacity < count && cs_lane_grow(lane))
        ;
}

/* Walk the frames from `frame` (NULL: the running one) and make the lane's entries equal to them.
 * The walk runs Python code, so it is done before the lock is taken. */
static void rebuild_lane(cs_lane *lane, PyObject *frame, bool include_top, rebuild_reason reason)
{
    frame_list list = {NULL, 0, 0};
    PyObject *found = frame ? NULL : cs_current_frame();
    list_frames(&list, frame ? frame : found, include_top);
    Py_XDECREF(found);
    ensure_capacity(lane, list.count);
    (void)pthread_mutex_lock(&cs_lock);
    uint32_t epoch = load_epoch();
    bool since_epoch = reason == NEW_EPOCH && lane->idle != epoch;
    apply_frames(lane, &list, reason, since_epoch ? cs_windows_began() : kineto_record_ticks());
    lane->synced = epoch;
    (void)pthread_mutex_unlock(&cs_lock);
    free(list.items);
}

/* ---- slow paths of events -------------------------------------------------------------------- */

/* The thread makes a call while no session records: end its entries, and remember the epoch so that
 * further events of it need no work. */
static void mark_lane_idle(cs_lane *lane)
{
    if (lane->idle == load_epoch() && !lane->synced)
        return;
    (void)pthread_mutex_lock(&cs_lock);
    if (has_valid_entries(lane))
        record_above(lane, 0);
    cs_lane_forget(lane);
    lane->idle = load_epoch();
    (void)pthread_mutex_unlock(&cs_lock);
}

/* Remove the placeholder lanes of this thread, or with 0 of all. */
static void drop_placeholders(uint32_t tid)
{
    (void)pthread_mutex_lock(&cs_lock);
    for (cs_lane *lane = cs_lanes, *next; lane; lane = next) {
        next = lane->next;
        if (!lane->has_owner && (!tid || lane->tid == tid)) {
            unlink_lane(lane);
            destroy_lane(lane);
        }
    }
    (void)pthread_mutex_unlock(&cs_lock);
}

void cs_lanes_drop_placeholders(void) { drop_placeholders(0); }

/* Set the lane's process and thread ids, which change with a fork, and remove the thread's
 * placeholder. */
static void identify_thread(cs_lane *lane)
{
    uint32_t pid = atomic_load_explicit(&cs.pid, memory_order_relaxed);
    if (lane->pid != pid) {
        lane->pid = pid;
        lane->tid = (uint32_t)syscall(SYS_gettid);
    }
    drop_placeholders(lane->tid);
}

bool cs_lane_attend(cs_lane *lane, PyObject *frame, bool begins)
{
    if (!is_recording_functions()) {
        mark_lane_idle(lane);
        return false;
    }
    if (lane->synced != load_epoch()) {
        identify_thread(lane);
        rebuild_lane(lane, frame, !begins, NEW_EPOCH);
        lane->check_next = !begins;
    }
    return true;
}

/* Let further events take the fast path, unless the lane has something left to check: then epoch 0,
 * which never equals cs.epoch, keeps them on the slow path. */
static void update_fast_path(cs_lane *lane)
{
    bool settled = !lane->check_next && !lane->beyond;
    atomic_store_explicit(&lane->epoch, settled ? lane->synced : 0, memory_order_relaxed);
}

/* Bring the lane up to date and enter it; again if the epoch changed in between. False: no session
 * records, and the lane is not entered. */
static bool enter_attended(cs_lane *lane, PyObject *frame, bool begins)
{
    for (;;) {
        if (!cs_lane_attend(lane, frame, begins))
            return false;
        cs_enter(lane);
        if (lane->synced == load_epoch())
            return true;
        cs_leave(lane);
    }
}

/* Hooks may be installed after a thread has entered a function and before its begin event: then the
 * walk has listed the function already, and its entry is replaced. */
static void check_begin(cs_lane *lane, const void *key, PyObject *frame)
{
    lane->check_next = false;
    if (lane->entries[cs_depth(lane)].key == key)
        rebuild_lane(lane, frame, false, BEGUN_TWICE);
}

void cs_begin_slow(cs_lane *lane, const void *key, cs_name *name, PyObject *frame)
{
    bool is_python = !name || !(name->flags & CS_IS_C);
    if (!cs_lane_attend(lane, frame, is_python) || !name)
        return;
    if (lane->check_next && is_python)
        check_begin(lane, key, frame);
    bool has_room = cs_depth(lane) < lane->capacity || cs_lane_grow(lane);
    if (!enter_attended(lane, frame, is_python))
        return;
    if (lane->beyond || !has_room || cs_depth(lane) == lane->capacity) {
        lane->beyond++;
        (void)atomic_fetch_add_explicit(&cs.too_deep, 1, memory_order_relaxed);
    } else {
        cs_push(lane, key, name);
    }
    update_fast_path(lane);
    cs_leave(lane);
}

/* End functions in C on top of the entry with this key: their end events were missed. */
static void pop_c_functions(cs_lane *lane, const void *key)
{
    uint32_t depth = cs_depth(lane), i = depth;
    while (i && (lane->entries[i].name->flags & CS_IS_C))
        i--;
    for (; lane->entries[i].key == key && depth > i; depth--)
        cs_pop(lane);
}

/* A frame is left. If it is not the innermost entry, events were missed, and the lane is rebuilt,
 * which ends the entries inside of it. */
void cs_end_slow(cs_lane *lane, const void *key, PyObject *frame)
{
    bool is_known = true;
    if (!enter_attended(lane, frame, false))
        return;
    if (lane->beyond) {
        lane->beyond--;
    } else {
        pop_c_functions(lane, key);
        is_known = lane->entries[cs_depth(lane)].key == key;
        if (is_known)
            cs_pop(lane);
    }
    update_fast_path(lane);
    cs_leave(lane);
    if (!is_known)
        rebuild_lane(lane, frame, false, MISSED);
}

void cs_end_c_slow(cs_lane *lane, const void *key)
{
    if (!enter_attended(lane, NULL, false))
        return;
    if (!lane->beyond && lane->entries[cs_depth(lane)].key == key)
        cs_pop(lane);
    update_fast_path(lane);
    cs_leave(lane);
}

cs_name *cs_name_of_frame(PyObject *code, PyObject *frame)
{
    cs_name *name = cs_name_code(code), *of_module = NULL;
    if (name && (name->flags & CS_IS_OUTSIDE))
        return NULL;
    if (!name || !(name->flags & CS_IS_CALL) || !cs.modules)
        return name;
    PyObject *found = frame ? NULL : cs_current_frame();
    PyObject *self = frame || found ? cs_frame_self(frame ? frame : found) : NULL;
    if (self)
        of_module = cs_name_module(self);
    Py_XDECREF(self);
    Py_XDECREF(found);
    return of_module ? of_module : name;
}

/* ---- placeholders: lanes for threads that made no call --------------------------------------- */

/* Does the thread have a lane of this epoch? */
static bool has_current_lane(uint32_t tid)
{
    uint32_t epoch = load_epoch();
    bool found = false;
    (void)pthread_mutex_lock(&cs_lock);
    for (const cs_lane *l = cs_lanes; l && !found; l = l->next)
        found = l->tid == tid && l->synced == epoch;
    (void)pthread_mutex_unlock(&cs_lock);
    return found;
}

/* Add a lane for a thread whose innermost frame is `frame`, as of the begin of the epoch. */
static void add_placeholder(uint32_t tid, PyObject *frame)
{
    frame_list list = {NULL, 0, 0};
    list_frames(&list, frame, true);
    cs_lane *lane = list.count ? cs_lane_new(false) : NULL;
    if (lane) {
        ensure_capacity(lane, list.count);
        (void)pthread_mutex_lock(&cs_lock);
        lane->pid = atomic_load_explicit(&cs.pid, memory_order_relaxed);
        lane->tid = tid;
        apply_frames(lane, &list, NEW_EPOCH, cs_windows_began());
        lane->synced = load_epoch();
        (void)pthread_mutex_unlock(&cs_lock);
    }
    free(list.items);
}

#ifdef Py_GIL_DISABLED
/* Frames of a running thread must not be read by another one. */
void cs_lanes_add_placeholders(PyObject *threads)
{
    (void)threads;
    (void)add_placeholder;
    (void)has_current_lane;
}
#else
void cs_lanes_add_placeholders(PyObject *threads)
{
    PyObject *function = PySys_GetObject("_current_frames"); /* borrowed */
    PyObject *frames = function ? PyObject_CallObject(function, NULL) : NULL, *ident, *frame;
    uint32_t self = (uint32_t)syscall(SYS_gettid);
    Py_ssize_t at = 0;
    while (frames && PyDict_Check(frames) && PyDict_Next(frames, &at, &ident, &frame)) {
        PyObject *number = PyDict_GetItem(threads, ident); /* borrowed */
        uint32_t tid = number && PyLong_Check(number) ? (uint32_t)PyLong_AsLong(number) : 0;
        if (tid && tid != self && !has_current_lane(tid))
            add_placeholder(tid, frame);
    }
    Py_XDECREF(frames);
    PyErr_Clear();
}
#endif
