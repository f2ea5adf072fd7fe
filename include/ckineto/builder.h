/** @file
 *  Build a trace from other events: for a converter of another format, a tool with its own recorder, a framework that
 *  delivers its events when a profile ends.
 *
 *      kineto_builder *b; kineto_trace *t;
 *      kineto_builder_create(&b, &err);
 *      kineto_process p = {.pid = 7, .name = {"node", 4}, .rank = -1};
 *      kineto_track main = {.type = KINETO_TRACK_THREAD, .id = 7};
 *      uint32_t process = kineto_builder_process(b, &p);
 *      uint32_t track = kineto_builder_track(b, process, &main);
 *      uint32_t key = kineto_builder_string(b, (kineto_string){"index", 5});
 *      kineto_activity a = {.start_ns = 1000, .end_ns = 2000, .track = track,
 *                           .name_id = kineto_builder_string(b, (kineto_string){"step", 4}),
 *                           .kind = KINETO_KIND_USER_ANNOTATION};
 *      kineto_builder_arg(b, key, &(kineto_arg){.type = KINETO_ARG_INT, .i = 3}); // of the next activity
 *      kineto_builder_add(b, &a);
 *      kineto_builder_finish(b, &t, &err);
 *      kineto_builder_destroy(b);
 *
 *  If memory is exhausted, kineto_builder_finish returns KINETO_E_MEMORY; until then every function may be called.
 *  threads: owner.
 */
#ifndef CKINETO_BUILDER_H
#define CKINETO_BUILDER_H

#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kineto_builder kineto_builder;

/** @param out  receives a builder to destroy; NULL on failure. @return KINETO_E_MEMORY. */
KINETO_API kineto_status kineto_builder_create(kineto_builder **out, kineto_error *err);
/** NULL is fine. */
KINETO_API void kineto_builder_destroy(kineto_builder *builder);

/** Id of a text, for names, categories and keys; equal texts have the same id. 0 is "". */
KINETO_API uint32_t kineto_builder_string(kineto_builder *builder, kineto_string text);

/** Index of a process or device: the one with the same is_device and pid, or a new one. Sets its properties, except for
 *  empty texts, a rank below 0 and a ppid of 0. Copied. */
KINETO_API uint32_t kineto_builder_process(kineto_builder *builder, const kineto_process *process);

/** Index of a row of the timeline: the one with the same process, type and id, or a new one. `process`
 *  is an index; of *track only type, id, name and sort_index are read. An empty name does not replace a name.
 *  Copied. */
KINETO_API uint32_t kineto_builder_track(kineto_builder *builder, uint32_t process,
                                         const kineto_track *track);

/** Index of a track that is identified by texts instead of numbers ("Spans", "PyTorch Profiler"). Copied. */
KINETO_API uint32_t kineto_builder_named_track(kineto_builder *builder, kineto_string process,
                                               kineto_string track);

/** An argument of the next activity, in order. INT, UINT, DOUBLE and BOOL take the number, STRING any
 *  bytes, INTS, STRINGS, SHAPES and JSON one JSON value each; JSON that is not valid becomes a text.
 *  Copied. @param key  from kineto_builder_string. `value->key` is not read. */
KINETO_API void kineto_builder_arg(kineto_builder *builder, uint32_t key, const kineto_arg *value);

/** All arguments of the next activity at once, instead: a JSON object, copied as it is. Its members
 *  "correlation" and "External id" are left out when arguments are read. @return false: it is not a valid JSON
 *  object, and nothing was put. */
KINETO_API bool kineto_builder_args(kineto_builder *builder, kineto_string json_object);

/** Append an activity with the arguments put before. Read are start_ns, end_ns, name_id, track, kind,
 *  category (0: the kind's own name; UINT32_MAX: none), form, flags, correlation_id, external_id, async_id.
 *  @return its row; KINETO_NO_ROW if it could not be added. */
KINETO_API kineto_row kineto_builder_add(kineto_builder *builder, const kineto_activity *activity);

/** One end of an arrow, at a row. Ends of the same type and id are joined by kineto_builder_finish, each
 *  finish with the last start before it. */
KINETO_API void kineto_builder_flow(kineto_builder *builder, uint32_t type, uint64_t id,
                                    kineto_row row, bool is_start);

/** Append a whole trace: activities, rows, processes (those of the same number are one), flows, header,
 *  ledger, clock snapshots. Ids are not changed. @return the row of its first activity. */
KINETO_API kineto_row kineto_builder_append(kineto_builder *builder, const kineto_trace *trace);

/** Append what devices did for each user annotation: a GPU_USER_ANNOTATION on every stream, over what was
 *  launched inside it. Once, after the last activity. */
KINETO_API void kineto_builder_project(kineto_builder *builder);

/** A member of the header: key and JSON value; the last value of a key counts. */
KINETO_API void kineto_builder_metadata(kineto_builder *builder, kineto_string key,
                                        kineto_string json_value);
/** A line of the ledger; equal ones are added up. */
KINETO_API void kineto_builder_ledger(kineto_builder *builder, const kineto_ledger_line *line);
/** The window that was recorded, ns since the Unix epoch. */
KINETO_API void kineto_builder_window(kineto_builder *builder, int64_t start_ns, int64_t end_ns);

/** Make the trace; the builder is empty then, to be destroyed.
 *  @param out  receives a trace to release; NULL on failure.
 *  @return KINETO_E_MEMORY, KINETO_E_LIMIT (too many activities). */
KINETO_API kineto_status kineto_builder_finish(kineto_builder *builder, kineto_trace **out,
                                               kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
