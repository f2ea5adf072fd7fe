/* A perf.data file as a trace: the samples of CPU time as rows of sampled functions, and, if it has
 * switches, rows of thread states, as ckineto's own source "cpu" makes them. Copied stacks (perf record
 * --call-graph dwarf) are unwound here.
 *
 * Records come from perf_file.c in the order of time, so that each is applied to what is known of
 * processes and threads at its time (timeline.h). Times are ns of the clock of the recording. */
#include "trace/import/directory.h"
#include "trace/import/import.h"
#include "trace/import/perf_events.h"
#include "trace/from_recording/build_watched.h"
#include "trace/import/timeline.h"

#include <unistd.h>

#define MAX_SAMPLE_FRAMES  1024u
#define MAX_SPACE_MAPPINGS 8192u
/* Values of a call chain from here on are markers: PERF_CONTEXT_…. */
#define FIRST_MARKER ((uint64_t)PERF_CONTEXT_MAX)

/* Intel PT, SPE and the like. */
#define DECODE_AUX                                                                                 \
    "'perf script --itrace=i10us -F +pid > FILE.txt' decodes them, and ckineto reads that"

typedef struct perf_import {
    kt_perf_file file;
    kt_perf_events events;
    kt_timeline timeline;
    ku_unwinder *unwinder;
    ku_images images;
    bool is_of_this_arch, is_of_this_host;
    uint64_t last_ns;
    uint64_t lost, idle, ended, cut_stacks, bad_switches, delivered;
} perf_import;

/* ---- stacks ---------------------------------------------------------------------------------- */

/* Registers in the order of their bits, by DWARF's numbers; -1: not of interest. */
#if defined(__aarch64__)
static int dwarf_register(unsigned bit) { return bit < 32 ? (int)bit : -1; }
#define IP_BIT 32u
#else
static int dwarf_register(unsigned bit)
{
    static const int8_t numbers[24] = {0,  3,  2,  1,  4,  5, 6, 7,  16, -1, -1, -1,
                                       -1, -1, -1, -1, 8,  9, 10, 11, 12, 13, 14, 15};
    return bit < KB_COUNT(numbers) ? numbers[bit] : -1;
}
#define IP_BIT 8u
#endif

/* False: there are none, no stack, or of another kind of processor. */
static bool copy_registers(const perf_import *p, const kt_perf_sample *sample, ku_stack_copy *copy)
{
    uint64_t mask = p->file.attrs.data[sample->attr].registers, value;
    const uint8_t *at = sample->registers;
    if (!at || !sample->stack || sample->registers_abi != PERF_SAMPLE_REGS_ABI_64 || !p->is_of_this_arch)
        return false;
    for (unsigned bit = 0; bit < 64; bit++) {
        if (!(mask >> bit & 1))
            continue;
        memcpy(&value, at, sizeof value);
        at += sizeof value;
        if (bit == IP_BIT)
            copy->instruction = value;
        if (dwarf_register(bit) >= 0)
            copy->registers[dwarf_register(bit)] = value;
    }
    copy->bytes = sample->stack;
    copy->size = sample->stack_bytes;
    return copy->instruction != 0;
}

/* The addresses of a call chain: first those of the kernel, then those of the program. Markers between
 * them say whose the next ones are; frames of a guest are not read. Kernel addresses after those of the
 * program are skipped, since kernel_count is the number of the first frames. */
static void copy_chain(const kt_perf_sample *sample, uint64_t *frames, kt_build_sample *out)
{
    bool in_kernel = false, in_guest = false;
    for (uint64_t i = 0; i < sample->chain_count && out->count < MAX_SAMPLE_FRAMES; i++) {
        uint64_t address;
        memcpy(&address, sample->chain + 8 * i, sizeof address);
        if (address >= FIRST_MARKER) {
            in_kernel = address == (uint64_t)PERF_CONTEXT_KERNEL ||
                        address == (uint64_t)PERF_CONTEXT_HV;
            in_guest = address <= (uint64_t)PERF_CONTEXT_GUEST &&
                       address >= (uint64_t)PERF_CONTEXT_GUEST_USER;
            continue;
        }
        if (in_guest || address == 0 || (in_kernel && out->kernel_count != out->count))
            continue; /* 0: where frame pointers ended */
        frames[out->count++] = address;
        out->kernel_count += in_kernel;
    }
}

/* The stack of a sample. Without one, it is the address where the thread was. */
static void find_stack(perf_import *p, kt_timeline_thread *thread, const kt_perf_sample *sample,
                       bool in_kernel, uint64_t *frames, kt_build_sample *out)
{
    kt_timeline_process *process = kt_timeline_process_of(&p->timeline, thread);
    ku_stack_copy copy = {.size = 0};
    bool is_cut = false;
    copy_chain(sample, frames, out);
    if (copy_registers(p, sample, &copy)) {
        out->count = out->kernel_count; /* a program's part of the chain would be by frame pointers */
        out->count = (uint16_t)(out->count + ku_unwind(p->unwinder, &p->images, &process->space,
                                                       &copy, frames + out->count, &is_cut));
        out->flags = is_cut ? KF_SAMPLE_CUT : 0;
        p->cut_stacks += is_cut;
    }
    if (out->count == 0 && sample->ip) {
        frames[out->count++] = sample->ip;
        out->kernel_count = in_kernel;
    }
    out->addresses = frames;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* A sample of the tracepoint sched_switch: one thread loses the CPU, another one gets it. Thread 0 is
 * the idle task of a CPU, and has no states. */
static void apply_sched_switch(perf_import *p, const kt_perf_sample *sample)
{
    uint32_t prev, next;
    bool is_preempted;
    if (!kt_perf_sched_switch_read(&p->events, sample, &prev, &next, &is_preempted)) {
        p->bad_switches++;
        return;
    }
    kt_timeline_thread *out = kt_timeline_known_thread(&p->timeline, prev);
    kt_timeline_thread *in = kt_timeline_known_thread(&p->timeline, next);
    if (out && prev)
        kt_timeline_switch_out(&p->timeline, out, is_preempted, sample->time_ns);
    if (in && next) {
        in->born_ns = in->born_ns ? in->born_ns : sample->time_ns;
        kt_timeline_switch_in(in, sample->cpu, sample->time_ns);
    }
}

/* A sample of sched_waking or sched_wakeup: a thread that was blocked can run from here on, and waits for a CPU. */
static void apply_waking(perf_import *p, const kt_perf_sample *sample)
{
    uint32_t tid;
    kt_timeline_thread *thread = NULL;
    if (!kt_perf_sched_waking_read(&p->events, sample, &tid))
        p->bad_switches++;
    else if (tid)
        thread = kt_timeline_known_thread(&p->timeline, tid);
    if (thread)
        kt_timeline_wake(&p->timeline, thread, sample->time_ns);
}

/* The CPU time that a sample stands for, ns: its period, which is ns for clocks, and a count of cycles
 * or the like for other events (perf_events.c). 0: it is beyond all times. */
static uint64_t cpu_time_of(const perf_import *p, const kt_perf_sample *sample)
{
    double ns = (double)sample->period * p->events.of_attr[sample->attr].ns_per_unit;
    return ns < 1e18 ? (uint64_t)ns : 0;
}

/* Samples of the thread's stack, of CPU time or where it loses its CPU. */
static void apply_stack_sample(perf_import *p, const kt_perf_sample *sample, bool in_kernel)
{
    uint64_t frames[MAX_SAMPLE_FRAMES + KU_MAX_FRAMES];
    kt_perf_role role = p->events.of_attr[sample->attr].role;
    kt_timeline_thread *thread = kt_timeline_find_thread(&p->timeline, sample->pid, sample->tid,
                                                         sample->time_ns);
    p->ended += !thread && role == KT_PERF_CPU_TIME;
    if (!thread)
        return;
    bool is_blocked = role != KT_PERF_CPU_TIME;
    kt_build_sample out = {.ticks = sample->time_ns};
    find_stack(p, thread, sample, in_kernel, frames, &out);
    if (is_blocked) { /* the kernel's part of every such stack is the scheduler */
        out.addresses += out.kernel_count;
        out.count = (uint16_t)(out.count - out.kernel_count);
        out.kernel_count = 0;
    } else {
        out.cpu_ns = cpu_time_of(p, sample);
        p->delivered++;
    }
    if (out.count)
        kt_timeline_sample(&p->timeline, thread, out, is_blocked);
}

static void apply_sample(perf_import *p, const uint8_t *record)
{
    kt_perf_sample sample;
    uint16_t mode = kt_perf_header(record).misc & PERF_RECORD_MISC_CPUMODE_MASK;
    bool in_kernel = mode == PERF_RECORD_MISC_KERNEL || mode == PERF_RECORD_MISC_HYPERVISOR;
    if (!kt_perf_sample_read(&p->file, record, &sample))
        return;
    kt_perf_role role = p->events.of_attr[sample.attr].role;
    if (role == KT_PERF_OTHER)
        return;
    if (role == KT_PERF_CPU_TIME && sample.tid == 0) {
        p->idle++;
        return;
    }
    if (role == KT_PERF_SCHED_WAKING) {
        apply_waking(p, &sample);
        return;
    }
    apply_stack_sample(p, &sample, in_kernel);
    if (role == KT_PERF_SCHED_SWITCH)
        apply_sched_switch(p, &sample);
}

/* ---- other records --------------------------------------------------------------------------- */

typedef struct perf_mapping {
    uint32_t pid;
    uint64_t start, bytes, file_offset;
    kineto_string build_id, name;
} perf_mapping;

/* PERF_RECORD_MMAP: pid, tid, address, length, offset in the file, path. MMAP2 has 24 bytes more before
 * the protection: device and inode, or, if misc says so, size and bytes of the build id. False:
 * malformed, data, or of the kernel. */
static bool parse_mapping(const perf_import *p, const uint8_t *record, perf_mapping *out)
{
    enum { HAS_BUILD_ID = 1 << 14, MAX_ID_BYTES = 20 };
    struct perf_event_header header = kt_perf_header(record);
    size_t id_bytes = kt_perf_id_read(&p->file, record).bytes;
    kt_perf_cursor c = {record + sizeof header, record + header.size - id_bytes, false};
    *out = (perf_mapping){.pid = kt_perf_u32(&c), .build_id = {"", 0}};
    (void)kt_perf_u32(&c);
    out->start = kt_perf_u64(&c);
    out->bytes = kt_perf_u64(&c);
    out->file_offset = kt_perf_u64(&c);
    if (header.type == PERF_RECORD_MMAP2) {
        const uint8_t *id = kt_perf_take(&c, 24);
        (void)kt_perf_u64(&c); /* protection, flags */
        if (id && header.misc & HAS_BUILD_ID)
            out->build_id = (kineto_string){(const char *)id + 4,
                                            KB_MIN(id[0], (uint8_t)MAX_ID_BYTES)};
    }
    out->name = kt_perf_rest_text(&c);
    return !c.failed && !(header.misc & PERF_RECORD_MISC_MMAP_DATA) &&
           (header.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_KERNEL;
}

static void apply_mapping(perf_import *p, const uint8_t *record)
{
    perf_mapping m;
    char path[4096];
    if (!parse_mapping(p, record, &m) || m.pid == UINT32_MAX || m.name.size >= sizeof path)
        return;
    kt_timeline_process *process = kt_timeline_find_process(&p->timeline, m.pid);
    if (!process || process->space.mappings.count >= MAX_SPACE_MAPPINGS)
        return;
    memcpy(path, m.name.data, m.name.size);
    path[m.name.size] = '\0';
    if (path[0] == '/' && path[1] == '/') /* "//anon" */
        path[0] = '\0';
    if (m.build_id.size && !kt_perf_file_add_build_id(&p->file, m.name, m.build_id))
        p->timeline.s->out_of_memory = true;
    if (!ku_space_add(&process->space, m.start, m.bytes, m.file_offset, path))
        p->timeline.s->out_of_memory = true;
    ku_mapping *added = ku_space_find(&process->space, m.start);
    if (added)
        added->build_id = kt_perf_file_build_id(&p->file, m.name);
}

static void apply_comm(perf_import *p, const uint8_t *record, uint64_t time_ns)
{
    struct perf_event_header header = kt_perf_header(record);
    size_t id_bytes = kt_perf_id_read(&p->file, record).bytes;
    kt_perf_cursor c = {record + sizeof header, record + header.size - id_bytes, false};
    uint32_t pid = kt_perf_u32(&c), tid = kt_perf_u32(&c);
    if (c.failed || id_bytes + sizeof header > header.size)
        return;
    kt_timeline_thread *thread = kt_timeline_find_thread(&p->timeline, pid, tid, time_ns);
    if (thread)
        kt_timeline_name(&p->timeline, thread, kt_perf_rest_text(&c),
                         header.misc & PERF_RECORD_MISC_COMM_EXEC, time_ns);
}

/* PERF_RECORD_FORK and PERF_RECORD_EXIT: pid, ppid, tid, ptid, time. An id of -1 is no thread. */
static void apply_life(perf_import *p, const uint8_t *record, uint64_t time_ns)
{
    struct perf_event_header header = kt_perf_header(record);
    kt_perf_cursor c = {record + sizeof header, record + header.size, false};
    uint32_t pid = kt_perf_u32(&c), ppid = kt_perf_u32(&c), tid = kt_perf_u32(&c);
    (void)kt_perf_u32(&c);
    if (c.failed || pid == UINT32_MAX || tid == UINT32_MAX)
        return;
    if (header.type == PERF_RECORD_EXIT)
        kt_timeline_exit(&p->timeline, tid, time_ns);
    else if (!kt_timeline_known_thread(&p->timeline, tid) || time_ns)
        kt_timeline_fork(&p->timeline, pid, tid, ppid, time_ns);
}

/* PERF_RECORD_SWITCH of perf record --switch-events. With the tracepoint, which says more, it is not
 * needed. */
static void apply_switch(perf_import *p, const uint8_t *record)
{
    struct perf_event_header header = kt_perf_header(record);
    kt_perf_id id = kt_perf_id_read(&p->file, record);
    kt_timeline_thread *thread =
        id.bytes ? kt_timeline_find_thread(&p->timeline, id.pid, id.tid, id.time_ns) : NULL;
    if (!thread || p->events.by_tracepoint)
        return;
    if (header.misc & PERF_RECORD_MISC_SWITCH_OUT)
        kt_timeline_switch_out(&p->timeline, thread,
                               header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, id.time_ns);
    else
        kt_timeline_switch_in(thread, id.cpu, id.time_ns);
}

/* LOST has the id of the event before the count, LOST_SAMPLES the count alone. */
static void apply_lost(perf_import *p, const uint8_t *record)
{
    struct perf_event_header header = kt_perf_header(record);
    kt_perf_cursor c = {record + sizeof header, record + header.size, false};
    if (header.type == PERF_RECORD_LOST)
        (void)kt_perf_u64(&c);
    p->lost += kt_perf_u64(&c);
}

static void apply_record(perf_import *p, const kt_perf_record *record)
{
    p->last_ns = KB_MAX(p->last_ns, record->time_ns);
    switch (kt_perf_header(record->at).type) {
    case PERF_RECORD_SAMPLE:
        apply_sample(p, record->at);
        break;
    case PERF_RECORD_MMAP:
    case PERF_RECORD_MMAP2:
        apply_mapping(p, record->at);
        break;
    case PERF_RECORD_COMM:
        apply_comm(p, record->at, record->time_ns);
        break;
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        apply_life(p, record->at, record->time_ns);
        break;
    case PERF_RECORD_SWITCH:
    case PERF_RECORD_SWITCH_CPU_WIDE:
        apply_switch(p, record->at);
        break;
    default:
        apply_lost(p, record->at);
    }
}

/* ---- the trace ------------------------------------------------------------------------------- */

/* Names of generated code are those of a process of this machine only. */
static bool is_of_this_host(const kt_perf_file *file)
{
    char name[256] = "";
    kineto_string host = kt_perf_file_text(file, KT_PERF_HOSTNAME);
    (void)gethostname(name, sizeof name - 1);
    return host.size != 0 && kb_string_is(host, name);
}

static kineto_status create_symbols(perf_import *p, const kt_timeline_process *process,
                                    kineto_error *err)
{
    kt_build_process *row = &p->timeline.s->processes.data[process->index];
    kineto_status status = KINETO_OK;
    row->symbols = kt_build_create_symbols(p->timeline.s, row->pid, p->is_of_this_host);
    if (!row->symbols)
        return kb_fail_memory(err, "perf.data");
    for (size_t i = 0; i < process->space.mappings.count && !status; i++) {
        const ku_mapping *m = &process->space.mappings.data[i];
        kt_module module = {.start = m->start,
                            .end = m->end,
                            .file_offset = m->file_offset,
                            .path = kb_string(m->path),
                            .build_id = m->build_id};
        status = kt_symbols_add(row->symbols, &module, err);
    }
    return status;
}

/* Times of the file are those of the scheduler's clock, from the start of the machine, unless the file
 * has a moment of both clocks (perf record -k). HEADER_CLOCK_DATA has version, clock, and the wall
 * clock and this clock at one moment, in ns. */
static void set_clock(perf_import *p)
{
    kineto_string data = p->file.features[KT_PERF_CLOCK_DATA];
    kt_perf_cursor c = {(const uint8_t *)data.data, (const uint8_t *)data.data + data.size, false};
    (void)kt_perf_u32(&c);
    (void)kt_perf_u32(&c);
    uint64_t wall_ns = kt_perf_u64(&c), clock_ns = kt_perf_u64(&c);
    if (data.size && !c.failed && clock_ns <= wall_ns && wall_ns < UINT64_C(1) << 61)
        p->timeline.s->fit.ns0 = (int64_t)(wall_ns - clock_ns);
}

/* From the first record with a time to the last one: records of what was there before have time 0. */
static void set_window(perf_import *p)
{
    const kt_perf_file *file = &p->file;
    kt_build_state *s = p->timeline.s;
    size_t first = 0;
    KB_LOWER_BOUND(first, file->records.count, file->records.data[first].time_ns == 0);
    if (first < file->records.count)
        kt_window(s->b, kb_clock_fit_ns(&s->fit, file->records.data[first].time_ns),
                  kb_clock_fit_ns(&s->fit, p->last_ns));
}

static void add_line(perf_import *p, const char *reason, uint64_t count, bool is_loss,
                     kineto_string detail)
{
    if (count)
        kt_ledger_add(p->timeline.s->b, kb_string("perf"), kb_string(reason), count, is_loss, detail);
}

static void add_event_lines(perf_import *p)
{
    for (size_t i = 0; i < p->file.attrs.count; i++) {
        const kt_perf_event *e = &p->events.of_attr[i];
        kineto_string name = p->file.attrs.data[i].name;
        if (e->role == KT_PERF_OTHER)
            add_line(p, "samples of an event that does not measure CPU time, not read", e->samples,
                     false, name);
        if (p->file.attrs.data[i].sample_type & PERF_SAMPLE_BRANCH_STACK)
            add_line(p, "samples with branches (LBR), which are not read; 'perf script -F +brstack' prints "
                        "them",
                     e->samples, false, name);
        if (e->role == KT_PERF_CPU_TIME && e->is_estimated)
            add_line(p, "samples whose CPU time was estimated from the event's count", e->samples,
                     false, name);
    }
}

static void add_ledger(perf_import *p)
{
    kineto_string none = {"", 0};
    add_line(p, "delivered", p->delivered, false, none);
    add_line(p, "lost by the kernel", p->lost, true, none);
    add_line(p, "samples of idle CPUs, left out", p->idle, false, none);
    add_line(p, "samples of threads that had ended", p->ended, true, none);
    add_line(p, "stacks that end early", p->cut_stacks, false, none);
    add_line(p, "malformed records", p->file.bad_records + p->bad_switches, true, none);
    add_line(p, "bytes of hardware traces (AUX), which are not read; " DECODE_AUX, p->file.aux_bytes,
             false, none);
    add_line(p, "the file ends inside a record", p->file.is_cut, true, none);
    add_line(p, "the file was not finished by perf record", p->file.is_unfinished, true, none);
    add_line(p, "the file has no samples", p->events.samples == 0, false, none);
    add_event_lines(p);
    kt_build_inlined_line(p->timeline.s, "perf");
}

static void add_header(perf_import *p)
{
    static const struct {
        const char *key;
        kt_perf_feature feature;
    } keys[] = {{"perf_version", KT_PERF_VERSION},
                {"hostname", KT_PERF_HOSTNAME},
                {"perf_osrelease", KT_PERF_OSRELEASE},
                {"perf_arch", KT_PERF_ARCH}};
    for (size_t i = 0; i < KB_COUNT(keys); i++) {
        kineto_string text = kt_perf_file_text(&p->file, keys[i].feature);
        if (text.size)
            kt_metadata(p->timeline.s->b, kb_string(keys[i].key), text);
    }
}

static kineto_status fail_without_time(const perf_import *p, kineto_error *err)
{
    kineto_string name = p->file.attrs.data[0].name;
    return kb_fail(err, KINETO_E_UNSUPPORTED,
                   "perf.data: no event in it measures CPU time%s%.*s%s; record with 'perf record -e "
                   "cpu-clock' or '-e cycles', or with --switch-events%s",
                   name.size ? " (its first event is " : "", (int)KB_MIN(name.size, (size_t)100),
                   name.size ? name.data : "", name.size ? ")" : "",
                   p->file.aux_bytes ? "; it has hardware traces (AUX): " DECODE_AUX : "");
}

static kineto_status build_perf_trace(perf_import *p, kineto_trace **out, kineto_error *err)
{
    kt_build_state *s = p->timeline.s;
    kineto_status status = KINETO_OK;
    kt_timeline_finish(&p->timeline, p->last_ns);
    for (size_t i = 0; i < p->timeline.processes.count && !status; i++)
        if (p->timeline.processes.data[i]->has_samples)
            status = create_symbols(p, p->timeline.processes.data[i], err);
    if (status || s->out_of_memory)
        return status ? status : kb_fail_memory(err, "perf.data");
    set_clock(p);
    kt_build_thread_states(s);
    kt_build_samples(s);
    set_window(p);
    add_header(p);
    add_ledger(p);
    return s->out_of_memory ? kb_fail_memory(err, "perf.data") : kt_builder_finish(s->b, out, err);
}

static kineto_status read_perf_data(perf_import *p, const kt_perf_part *parts, size_t count,
                                    kineto_trace **out, kineto_error *err)
{
    kineto_status status = kt_perf_file_read(parts, count, &p->file, err);
    if (status)
        return status;
    if (!kt_perf_events_read(&p->file, &p->events) || !(p->unwinder = ku_unwinder_create()))
        return kb_fail_memory(err, "perf.data");
    if (!p->events.has_cpu_time && !p->events.has_switches && (p->events.samples || p->file.aux_bytes))
        return fail_without_time(p, err);
    p->is_of_this_arch = kt_perf_file_is_of_this_arch(&p->file);
    p->is_of_this_host = is_of_this_host(&p->file);
    p->timeline.has_states = p->events.has_switches;
    for (size_t i = 0; i < p->file.records.count && !p->timeline.s->out_of_memory; i++)
        apply_record(p, &p->file.records.data[i]);
    return build_perf_trace(p, out, err);
}

bool kt_is_perf_data(kineto_string head) { return kb_string_starts_with(head, "PERFILE2"); }

static kineto_status import_parts(const kt_perf_part *parts, size_t count, kineto_trace **out,
                                  kineto_error *err)
{
    perf_import *p = calloc(1, sizeof *p);
    kineto_status status = p ? kt_timeline_create(&p->timeline, err)
                             : kb_fail_memory(err, "perf.data");
    if (!status) {
        status = read_perf_data(p, parts, count, out, err);
        kt_timeline_free(&p->timeline); /* its symbols refer to texts of the file */
        ku_unwinder_destroy(p->unwinder);
        ku_images_free(&p->images);
        kt_perf_events_free(&p->events);
        kt_perf_file_free(&p->file);
    }
    free(p);
    return status;
}

kineto_status kt_import_perf_data(const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    return import_parts(&(kt_perf_part){source->bytes, NULL}, 1, out, err);
}

/* ---- the directory of perf record --threads -------------------------------------------------- */

static kineto_status read_directory_parts(kt_directory *d, const kt_directory_names *names,
                                          kineto_trace **out, kineto_error *err)
{
    size_t count = names->list.count + 1;
    kt_perf_part *parts = calloc(count, sizeof *parts);
    kineto_status status = parts ? KINETO_OK : kb_fail_memory(err, "perf.data");
    for (size_t i = 0; i < count && !status; i++) {
        parts[i].name = i ? names->list.data[i - 1] : "data";
        status = kt_directory_read(d, parts[i].name, &parts[i].bytes, err);
    }
    if (!status)
        status = import_parts(parts, count, out, err);
    free(parts);
    return status;
}

kineto_status kt_import_perf_directory(const char *path, kineto_trace **out, kineto_error *err)
{
    kt_directory d = {.path = path};
    kt_directory_names names;
    kineto_status status = kt_directory_find(path, "data.", "", &names, err);
    if (!status)
        status = read_directory_parts(&d, &names, out, err);
    if (!status && (status = kt_directory_check(&d, err)) != KINETO_OK) {
        kineto_trace_release(*out);
        *out = NULL;
    }
    kt_directory_names_free(&names);
    kt_directory_close(&d);
    return status;
}
