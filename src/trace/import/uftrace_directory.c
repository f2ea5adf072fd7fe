/* A directory of `uftrace record` (uftrace.data) as a trace: functions as ranges, names of threads, and,
 * from the events of the scheduler, states of threads.
 *
 * info       header and facts about the recording
 * task.txt   processes and threads, executed programs, loaded libraries
 * TID.dat    records of a thread, of 16 bytes: entry, exit, event, lost records. A record can have data
 *            (arguments, values of events), whose size only the options of uftrace tell; they are skipped
 * perf-cpuN.dat  events of the scheduler on a CPU, as the kernel writes them
 *
 * Layouts: uftrace.h and utils/data-file.c of uftrace, perf_event_open(2). */
#include "trace/import/import.h"
#include "trace/import/text_line.h"
#include "trace/import/uftrace_calls.h"
#include "trace/import/uftrace_names.h"

#include <linux/perf_event.h>

#define HEADER_BYTES    40u
#define RECORD_BYTES    16u
#define RECORD_MAGIC    5u
#define MAX_DATA_BYTES  65536u
#define MAX_TIME_NS     (UINT64_C(1) << 61)
#define OLDEST_VERSION  4u
#define NEWEST_VERSION  4u
#define DEPTH_MASK      1023u

enum { TYPE_ENTRY, TYPE_EXIT, TYPE_LOST, TYPE_EVENT };
enum { LITTLE_ENDIAN_FILE = 1 };

typedef struct uftrace_record {
    uint64_t time_ns, address;
    uint32_t type, depth;
    bool has_data;
} uftrace_record;

/* A thread, or the first thread of a process that fork() made. */
typedef struct uftrace_task {
    uint32_t tid, pid, parent; /* parent: pid; 0: not made by fork() */
    uint64_t start_ns;
} uftrace_task;

typedef struct directory_import {
    kt_uftrace_calls calls;
    kt_uftrace_names names;
    kt_directory directory;
    KB_VEC(uftrace_task) tasks;
    kb_map task_of_tid; /* → index */
    kb_map name_of_key; /* session and address → string id */
    kineto_string events; /* events.txt */
    const kt_uftrace_session *session; /* of the thread that is read, between these times */
    uint64_t session_from_ns, session_until_ns;
    uint64_t skipped_data, damaged, is_cut;
} directory_import;

/* ---- task.txt -------------------------------------------------------------------------------- */

/* The value of "key=value" in a line; with quotes, what is in them. Empty: absent. */
static kineto_string find_task_value(kineto_string line, const char *key)
{
    size_t key_bytes = strlen(key);
    const char *at = memmem(line.data, line.size, key, key_bytes);
    if (!at)
        return (kineto_string){"", 0};
    kineto_string rest = kb_string_skip(line, (size_t)(at - line.data) + key_bytes);
    char end = ' ';
    if (rest.size && rest.data[0] == '"') {
        end = '"';
        rest = kb_string_skip(rest, 1);
    }
    const char *stop = rest.size ? memchr(rest.data, end, rest.size) : NULL;
    return (kineto_string){rest.data, stop ? (size_t)(stop - rest.data) : rest.size};
}

static uint32_t find_task_number(kineto_string line, const char *key)
{
    uint64_t number = kt_line_number(find_task_value(line, key));
    return number <= INT32_MAX ? (uint32_t)number : 0;
}

static uftrace_task *find_task(const directory_import *u, uint32_t tid)
{
    const uint64_t *index = kb_map_find(&u->task_of_tid, tid);
    return index ? &u->tasks.data[*index] : NULL;
}

static bool add_task(directory_import *u, uftrace_task task)
{
    bool is_new = false;
    if (!task.tid)
        return true;
    if (!kb_map_insert(&u->task_of_tid, task.tid, u->tasks.count, &is_new))
        return false;
    return !is_new || kb_vec_push(&u->tasks, task); /* once more: it executed a program */
}

static bool is_session_id(kineto_string id)
{
    for (size_t i = 0; i < id.size; i++)
        if (!kb_is_letter_or_digit(id.data[i]))
            return false;
    return id.size != 0;
}

static kineto_status add_library(directory_import *u, kineto_string line, uint64_t time_ns)
{
    kineto_string hex = find_task_value(line, " base=");
    uint64_t base = 0;
    for (size_t i = 0; i < hex.size && i < 16 && kb_is_hex_digit(hex.data[i]); i++)
        base = base << 4 | (uint64_t)kb_hex_value(hex.data[i]);
    return kt_uftrace_library_add(&u->names, find_task_value(line, " sid="), base, time_ns,
                                  find_task_value(line, " libname="))
               ? KINETO_OK
               : KINETO_E_MEMORY;
}

/* A line is a kind and "key=value" pairs. TASK: a thread; FORK: a process that fork() made; SESS: a
 * program was executed; DLOP: dlopen() loaded a library. Other lines are skipped. */
static kineto_status apply_task_line(directory_import *u, kineto_string line, kineto_error *err)
{
    uint64_t time_ns = kt_line_time(find_task_value(line, " timestamp="));
    uint32_t tid = find_task_number(line, " tid="), pid = find_task_number(line, " pid=");
    time_ns = time_ns == KT_NO_NUMBER ? 0 : time_ns;
    if (kb_string_starts_with(line, "TASK"))
        return add_task(u, (uftrace_task){tid, pid ? pid : tid, 0, time_ns}) ? KINETO_OK
                                                                            : KINETO_E_MEMORY;
    if (kb_string_starts_with(line, "FORK")) {
        uint32_t parent = find_task_number(line, " ppid=");
        const uftrace_task *task = find_task(u, parent); /* a thread's number */
        parent = task ? task->pid : parent;
        return add_task(u, (uftrace_task){pid, pid, parent, time_ns}) ? KINETO_OK : KINETO_E_MEMORY;
    }
    if (kb_string_starts_with(line, "DLOP"))
        return add_library(u, line, time_ns);
    kt_uftrace_session session = {.id = find_task_value(line, " sid="),
                                  .program = find_task_value(line, " exename="),
                                  .start_ns = time_ns,
                                  .pid = pid};
    if (!kb_string_starts_with(line, "SESS") || !is_session_id(session.id))
        return KINETO_OK;
    return kt_uftrace_session_add(&u->names, &u->directory, session, err);
}

static kineto_status read_tasks(directory_import *u, kineto_error *err)
{
    kineto_string text, line;
    kineto_status status = kt_directory_read(&u->directory, "task.txt", &text, err);
    while (!status && kt_line_next(&text, &line))
        status = apply_task_line(u, line, err);
    return status == KINETO_E_MEMORY ? kb_fail_memory(err, "uftrace") : status;
}

/* A child of fork() has the program that its parent had then, until it executes another one. */
static const kt_uftrace_session *find_session(const directory_import *u, uint32_t pid,
                                              uint64_t time_ns)
{
    enum { MAX_GENERATIONS = 64 };
    for (int i = 0; i < MAX_GENERATIONS && pid; i++) {
        const kt_uftrace_session *session = kt_uftrace_session_find(&u->names, pid, time_ns);
        const uftrace_task *task = find_task(u, pid);
        if (session)
            return session;
        pid = task ? task->parent : 0;
        time_ns = task ? KB_MIN(time_ns, task->start_ns) : time_ns;
    }
    return u->names.sessions.count ? &u->names.sessions.data[0] : NULL;
}

/* Sets the session of a record of the process, and until when it stays. */
static void select_session(directory_import *u, uint32_t pid, uint64_t time_ns)
{
    if (time_ns >= u->session_from_ns && time_ns < u->session_until_ns)
        return;
    u->session = find_session(u, pid, time_ns);
    u->session_from_ns = time_ns;
    u->session_until_ns = UINT64_MAX;
    for (size_t i = 0; i < u->names.sessions.count; i++) {
        const kt_uftrace_session *s = &u->names.sessions.data[i];
        if (s->pid == pid && s->start_ns > time_ns)
            u->session_until_ns = KB_MIN(u->session_until_ns, s->start_ns);
    }
}

/* ---- records of a thread --------------------------------------------------------------------- */

/* Time in 8 bytes, then from the lowest bit: type (2), has data (1), magic (3), depth (10), address (48).
 * Of an event the address is its number, of lost records how many. False: it is no record. */
static bool parse_record(const char *at, uftrace_record *out)
{
    uint64_t word;
    memcpy(&out->time_ns, at, sizeof word);
    memcpy(&word, at + 8, sizeof word);
    out->type = (uint32_t)(word & 3);
    out->has_data = word >> 2 & 1;
    out->depth = (uint32_t)(word >> 6) & DEPTH_MASK;
    out->address = word >> 16;
    return (word >> 3 & 7) == RECORD_MAGIC && out->time_ns <= MAX_TIME_NS;
}

/* The record can follow the one before, whose data may look like records: an entry is of code, and as deep
 * as it must be; an exit is of the innermost function. */
static bool can_follow(const directory_import *u, const uftrace_record *before,
                       const uftrace_record *next)
{
    uint32_t inside = before->depth + (before->type == TYPE_ENTRY);
    bool is_entry = next->type == TYPE_ENTRY, is_exit = next->type == TYPE_EXIT;
    if (next->time_ns < before->time_ns)
        return false;
    if (!is_entry && !is_exit)
        return next->type == TYPE_EVENT && next->address >= 100000 && next->address < 10000000;
    if (next->depth + is_exit != (inside & DEPTH_MASK))
        return false;
    if (is_exit && before->type == TYPE_ENTRY)
        return next->address == before->address;
    return kt_uftrace_mapping_find(u->session, next->address, next->time_ns) != NULL;
}

/* The size of a record's data at `at`; SIZE_MAX: no record follows within reach. */
static size_t find_data_size(const directory_import *u, const uftrace_record *record,
                             kineto_string rest)
{
    uint16_t size;
    uftrace_record next;
    if (record->type == TYPE_EVENT && rest.size >= sizeof size) { /* size, values */
        memcpy(&size, rest.data, sizeof size);
        return ((size_t)size + sizeof size + 7) & ~(size_t)7;
    }
    size_t limit = KB_MIN(rest.size, (size_t)MAX_DATA_BYTES);
    for (size_t at = 8; at + RECORD_BYTES <= limit; at += 8)
        if (parse_record(rest.data + at, &next) && can_follow(u, record, &next))
            return at;
    return rest.size <= MAX_DATA_BYTES ? rest.size : SIZE_MAX;
}

static uint32_t find_name(directory_import *u, uint64_t address, uint64_t time_ns)
{
    uint64_t key[2] = {u->session ? (uint64_t)(u->session - u->names.sessions.data) + 1 : 0, address};
    kt_build_state *s = u->calls.timeline.s;
    bool is_new = false;
    uint64_t *id = kb_map_insert(&u->name_of_key, kb_hash(key, sizeof key), 0, &is_new);
    if (!id) {
        s->out_of_memory = true;
        return 0;
    }
    if (is_new)
        *id = kt_string(s->b, kt_uftrace_name_find(&u->names, u->session, address, time_ns));
    return (uint32_t)*id;
}

/* "EVENT: 1000000 provider:name" of events.txt, or the names that uftrace has for its own. */
static uint32_t find_event_name(directory_import *u, uint64_t number)
{
    char name[64];
    kt_builder *b = u->calls.timeline.s->b;
    kineto_string text = u->events, line;
    while (kt_line_next(&text, &line)) {
        (void)kt_line_word(&line);
        if (kt_line_number(kt_line_word(&line)) == number)
            return kt_string(b, kt_line_trim(line));
    }
    snprintf(name, sizeof name, "uftrace event %llu", (unsigned long long)number);
    return kt_string(b, kb_string(name));
}

static void apply_record(directory_import *u, const uftrace_record *r)
{
    switch (r->type) {
    case TYPE_ENTRY:
        kt_uftrace_enter(&u->calls, find_name(u, r->address, r->time_ns), r->depth, r->time_ns);
        break;
    case TYPE_EXIT:
        kt_uftrace_leave(&u->calls, find_name(u, r->address, r->time_ns), r->depth, r->time_ns);
        break;
    case TYPE_EVENT:
        kt_uftrace_mark(&u->calls, find_event_name(u, r->address), r->time_ns);
        break;
    default:
        u->calls.lost += r->address;
        kt_uftrace_mark(&u->calls, kt_string(u->calls.timeline.s->b, kb_string("lost records")),
                        r->time_ns);
    }
}

static void read_thread_records(directory_import *u, uint32_t pid, kineto_string rest)
{
    uftrace_record r;
    u->session_until_ns = 0;
    while (rest.size >= RECORD_BYTES && !u->calls.timeline.s->out_of_memory) {
        if (!parse_record(rest.data, &r)) {
            u->damaged++;
            return;
        }
        select_session(u, pid, r.time_ns);
        rest = kb_string_skip(rest, RECORD_BYTES);
        size_t data = r.has_data ? find_data_size(u, &r, rest) : 0;
        apply_record(u, &r);
        u->skipped_data += r.has_data;
        u->damaged += data == SIZE_MAX;
        u->is_cut += data > rest.size && data != SIZE_MAX;
        rest = kb_string_skip(rest, KB_MIN(data, rest.size));
    }
    u->is_cut += rest.size != 0;
}

static kt_timeline_thread *add_thread(directory_import *u, const uftrace_task *task)
{
    kt_timeline *t = &u->calls.timeline;
    if (task->parent && !kt_timeline_known_thread(t, task->tid))
        kt_timeline_fork(t, task->pid, task->tid, task->parent, task->start_ns);
    kt_timeline_thread *thread = kt_timeline_find_thread(t, task->pid, task->tid, task->start_ns);
    const kt_uftrace_session *session = find_session(u, task->pid, UINT64_MAX);
    kineto_string name = session ? session->program : (kineto_string){"", 0};
    const char *slash = name.size ? memrchr(name.data, '/', name.size) : NULL;
    if (slash)
        name = kb_string_skip(name, (size_t)(slash - name.data) + 1);
    if (thread && name.size)
        kt_timeline_name(t, thread, name, false, task->start_ns);
    return thread;
}

static kineto_status read_thread(directory_import *u, const char *file, uint32_t tid, kineto_error *err)
{
    kt_input *input;
    kineto_string bytes;
    uftrace_task unknown = {.tid = tid, .pid = tid};
    const uftrace_task *task = find_task(u, tid);
    task = task ? task : &unknown;
    kineto_status status = kt_directory_open(&u->directory, file, &input, &bytes, err);
    if (status)
        return status;
    kt_timeline_thread *thread = bytes.size >= RECORD_BYTES ? add_thread(u, task) : NULL;
    if (thread) {
        kt_uftrace_select(&u->calls, thread);
        read_thread_records(u, task->pid, bytes);
    }
    return kt_directory_release(input, err);
}

/* ---- events of the scheduler ----------------------------------------------------------------- */

/* Records of the kernel as in perf.data: switches, names and ends of threads. They end with pid, tid and
 * time (sample_id_all). */
static void apply_cpu_record(directory_import *u, struct perf_event_header header, const char *at,
                             uint32_t cpu)
{
    enum { ID_BYTES = 16 };
    kt_uftrace_event e = {.cpu = cpu, .what = KT_UFTRACE_SWITCH_IN};
    size_t body = header.size - sizeof header;
    if (body < ID_BYTES)
        return;
    memcpy(&e.pid, at + body - ID_BYTES, sizeof e.pid);
    memcpy(&e.tid, at + body - ID_BYTES + 4, sizeof e.tid);
    memcpy(&e.time_ns, at + body - ID_BYTES + 8, sizeof e.time_ns);
    if (header.type == PERF_RECORD_SWITCH && header.misc & PERF_RECORD_MISC_SWITCH_OUT) {
        e.what = header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? KT_UFTRACE_PREEMPTED
                                                                   : KT_UFTRACE_SWITCH_OUT;
    } else if (header.type == PERF_RECORD_COMM && body >= ID_BYTES + 8) { /* pid, tid, name */
        e.what = KT_UFTRACE_NAME;
        memcpy(&e.tid, at + 4, sizeof e.tid);
        e.name = (kineto_string){at + 8, strnlen(at + 8, body - ID_BYTES - 8)};
    } else if (header.type == PERF_RECORD_EXIT && body >= ID_BYTES + 24) { /* pid, ppid, tid, ptid, time */
        e.what = KT_UFTRACE_EXIT;
        memcpy(&e.tid, at + 8, sizeof e.tid);
        memcpy(&e.time_ns, at + 16, sizeof e.time_ns);
    } else if (header.type != PERF_RECORD_SWITCH) {
        return;
    }
    if (e.time_ns && e.time_ns <= MAX_TIME_NS)
        kt_uftrace_add_event(&u->calls, e);
}

static kineto_status read_cpu(directory_import *u, const char *file, uint32_t cpu, kineto_error *err)
{
    kineto_string rest;
    kineto_status status = kt_directory_read(&u->directory, file, &rest, err);
    struct perf_event_header header;
    while (!status && rest.size >= sizeof header) {
        memcpy(&header, rest.data, sizeof header);
        if (header.size < sizeof header || header.size > rest.size)
            break;
        apply_cpu_record(u, header, rest.data + sizeof header, cpu);
        rest = kb_string_skip(rest, header.size);
    }
    u->is_cut += !status && rest.size != 0;
    return status;
}

/* ---- the directory --------------------------------------------------------------------------- */

/* The value of "key:value" in the text of `info`; empty: absent. */
static kineto_string find_info_value(kineto_string text, const char *key)
{
    kineto_string line;
    while (kt_line_next(&text, &line))
        if (kb_string_starts_with(line, key))
            return kb_string_skip(line, strlen(key));
    return (kineto_string){"", 0};
}

/* The header of `info`: magic in 8 bytes, version in 4, its size in 2, then byte
 * order and class of the ELF file. */
static kineto_status check_header(kineto_string info, kineto_error *err)
{
    uint32_t version;
    if (info.size < HEADER_BYTES)
        return kb_fail(err, KINETO_E_FORMAT, "its file info ends inside the header");
    if (info.data[14] != LITTLE_ENDIAN_FILE)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "recorded by uftrace on a machine with the other byte order; there, run 'uftrace "
                       "dump -d DIRECTORY > FILE.txt', which ckineto reads");
    memcpy(&version, info.data + 8, sizeof version);
    if (version < OLDEST_VERSION || version > NEWEST_VERSION)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "version %u of uftrace's data, and only version 4 is supported; run 'uftrace dump "
                       "-d DIRECTORY > FILE.txt', which ckineto reads",
                       version);
    return KINETO_OK;
}

static kineto_status read_info(directory_import *u, kineto_error *err)
{
    static const struct {
        const char *key, *name;
    } facts[] = {{"uftrace_version:", "uftrace_version"}, {"osinfo:hostname=", "hostname"},
                 {"cmdline:", "uftrace_command"}, {"record_date:", "uftrace_date"}};
    kineto_string info;
    kineto_status status = kt_directory_read(&u->directory, "info", &info, err);
    if (!status)
        status = check_header(info, err);
    if (status)
        return status;
    info = kb_string_skip(info, HEADER_BYTES);
    for (size_t i = 0; i < KB_COUNT(facts); i++) {
        kineto_string value = kt_line_trim(find_info_value(info, facts[i].key));
        if (value.size)
            kt_metadata(u->calls.timeline.s->b, kb_string(facts[i].name), value);
    }
    return KINETO_OK;
}

typedef kineto_status read_numbered(directory_import *u, const char *file, uint32_t number,
                                    kineto_error *err);

/* Calls `read` for all files whose names have a number between these texts; NULL: only counts them. */
static kineto_status read_numbered_files(directory_import *u, const char *begin, read_numbered *read,
                                         uint64_t *count, kineto_error *err)
{
    kt_directory_names names;
    kineto_status status = kt_directory_find(u->directory.path, begin, ".dat", &names, err);
    for (size_t i = 0; i < names.list.count && !status; i++) {
        uint64_t number = kt_directory_number(names.list.data[i], begin, ".dat");
        if (number > INT32_MAX)
            continue;
        ++*count;
        if (read)
            status = read(u, names.list.data[i], (uint32_t)number, err);
    }
    kt_directory_names_free(&names);
    return status;
}

static kineto_status read_directory(directory_import *u, kineto_error *err)
{
    uint64_t threads = 0, cpus = 0, kernel = 0;
    kineto_status status = read_info(u, err);
    if (!status)
        status = kt_uftrace_tables_read(&u->names, &u->directory, err);
    if (!status)
        status = read_tasks(u, err);
    if (!status && kt_directory_read(&u->directory, "events.txt", &u->events, NULL))
        u->events = (kineto_string){"", 0};
    if (!status)
        status = read_numbered_files(u, "", read_thread, &threads, err);
    if (!status && !threads)
        status = kb_fail(err, KINETO_E_FORMAT, "uftrace's data without records: no file TID.dat");
    if (!status)
        status = read_numbered_files(u, "perf-cpu", read_cpu, &cpus, err);
    if (!status)
        status = read_numbered_files(u, "kernel-cpu", NULL, &kernel, err);
    kt_uftrace_count(&u->calls,
                     "files with functions of the kernel, not read; 'uftrace dump --chrome' prints them",
                     kernel, false);
    return status;
}

static kineto_status build_directory_trace(directory_import *u, kineto_trace **out, kineto_error *err)
{
    kt_build_state *s = u->calls.timeline.s;
    kt_uftrace_finish(&u->calls);
    kt_uftrace_count(&u->calls,
                     "records with arguments, results or values of events, which are not read; 'uftrace "
                     "replay' prints them",
                     u->skipped_data, false);
    kt_uftrace_count(&u->calls, "damaged records, after which a thread's file was not read",
                     u->damaged, true);
    kt_uftrace_count(&u->calls, "files that end inside a record", u->is_cut, true);
    kineto_status status = kt_directory_check(&u->directory, err);
    if (status)
        return status;
    return s->out_of_memory ? kb_fail_memory(err, "uftrace") : kt_builder_finish(s->b, out, err);
}

kineto_status kt_import_uftrace_directory(const char *path, kineto_trace **out, kineto_error *err)
{
    directory_import *u = calloc(1, sizeof *u);
    kineto_status status = u ? kt_uftrace_create(&u->calls, err) : kb_fail_memory(err, "uftrace");
    if (!status) {
        u->directory.path = path;
        status = read_directory(u, err);
        if (!status)
            status = build_directory_trace(u, out, err);
        kt_uftrace_free(&u->calls);
        kt_uftrace_names_free(&u->names);
        kt_directory_close(&u->directory);
        kb_vec_free(&u->tasks);
        kb_map_free(&u->task_of_tid);
        kb_map_free(&u->name_of_key);
    }
    free(u);
    return status;
}
