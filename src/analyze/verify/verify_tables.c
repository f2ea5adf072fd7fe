/* Checks the tables of a trace besides its rows: ledger (what was lost, repaired or unreadable),
 * processes, tracks and header. Lines of the ledger are mapped to rules by their wording, see
 * ledger_rules. */
#include "analyze/verify/verify.h"
#include "trace/bytes/json_value.h"
#include "trace/repair/repair.h"

/* ---- ledger ---------------------------------------------------------------------------------- */

/* Compares with a C string. */
static bool is_text(kineto_string s, const char *text)
{
    return kb_string_equal(s, kb_string(text));
}

/* The number after "byte " in a line of the ledger; KINETO_NO_OFFSET: none. */
static uint64_t offset_in(kineto_string s)
{
    static const char word[] = "byte ";
    const char *at = memmem(s.data, s.size, word, sizeof word - 1), *end = s.data + s.size;
    uint64_t offset = 0;
    if (!at)
        return KINETO_NO_OFFSET;
    at += sizeof word - 1;
    if (at == end || !kb_is_digit(*at))
        return KINETO_NO_OFFSET;
    for (; at < end && kb_is_digit(*at); at++)
        if (__builtin_mul_overflow(offset, 10, &offset) ||
            __builtin_add_overflow(offset, (uint64_t)(*at - '0'), &offset))
            return KINETO_NO_OFFSET;
    return offset;
}

/* Is the line about damage that the reader repaired? By its source, or by the names and texts
 * of repairs. */
static bool is_repair(const kineto_ledger_line *line)
{
    if (is_text(line->source, "repair") || is_text(line->reason, KT_REPAIR_DAMAGED) ||
        is_text(line->reason, "half a surrogate pair replaced by U+FFFD"))
        return true;
    for (uint32_t kind = 0; kind < KT_REPAIR_KINDS; kind++)
        if (is_text(line->reason, kt_repair_name(kind)) ||
            kb_string_contains(line->reason, kt_repair_text(kind)))
            return true;
    return false;
}

/* The place in the file that a line of the ledger names. */
static void line_place(const kineto_ledger_line *line, char *text, size_t size)
{
    snprintf(text, size, "%.*s: %.*s: %llu%s%.*s", (int)KB_MIN(line->source.size, (size_t)60),
             line->source.data, (int)KB_MIN(line->reason.size, (size_t)120), line->reason.data,
             (unsigned long long)line->count, line->detail.size ? ": " : "",
             (int)KB_MIN(line->detail.size, (size_t)240), line->detail.data);
}

/* Classes of lines; each has a rule. */
typedef enum line_class {
    LINE_OTHER,
    LINE_LOSS,
    LINE_UNREAD,
    LINE_PROCESSES,
    LINE_CUT,
    LINE_REPAIRED,
    LINE_HEADER,
    LINE_NEGATIVE,
    LINE_RESIDUAL,
    LINE_STEP
} line_class;

/* By the reason and the words of a line. */
static line_class classify_ledger_line(const kineto_ledger_line *line)
{
    if (!line->count)
        return LINE_OTHER;
    if (is_text(line->source, "trace") &&
        is_text(line->reason, "end before start: duration set to 0"))
        return LINE_NEGATIVE;
    if (is_text(line->reason, "residual [ns]"))
        return line->count > KA_RESIDUAL_NS ? LINE_RESIDUAL : LINE_OTHER;
    if (is_text(line->source, "clock") && is_text(line->reason, "wall clock steps"))
        return LINE_STEP;
    if (kb_string_contains(line->reason, "in the header, with another value"))
        return LINE_HEADER;
    if (kt_ledger_line_is_cut(line))
        return LINE_CUT;
    if (is_repair(line))
        return LINE_REPAIRED;
    static const line_class of[] = {[KT_LOSS_NONE] = LINE_OTHER,
                                    [KT_LOSS_RECORDING] = LINE_LOSS,
                                    [KT_LOSS_READING] = LINE_UNREAD,
                                    [KT_LOSS_PROCESSES] = LINE_PROCESSES};
    return of[kt_ledger_loss(line)];
}

/* Sum of the counts of all lines of a class; of residuals the largest. Saturates. */
static uint64_t total_of(const ka_verify *v, line_class wanted)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(v->t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(v->t, i, &line);
        if (classify_ledger_line(&line) != wanted)
            continue;
        if (wanted == LINE_RESIDUAL)
            total = KB_MAX(total, line.count);
        else if (__builtin_add_overflow(total, line.count, &total))
            total = UINT64_MAX;
    }
    return total;
}

/* One finding for all lines of a class, with their sum in the sentence (`words` has one %llu
 * at most) and a place for each line. */
static void find_lines(ka_verify *v, line_class wanted, ka_rule rule, kineto_severity severity,
                       const char *words)
{
    uint64_t total = total_of(v, wanted);
    for (uint32_t i = 0; total && i < kineto_trace_ledger_count(v->t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(v->t, i, &line);
        if (classify_ledger_line(&line) != wanted)
            continue;
        char text[600];
        uint64_t offset = offset_in(line.detail);
        line_place(&line, text, sizeof text);
        ka_find_text(v, rule, severity, wanted == LINE_RESIDUAL ? 1 : line.count, text,
                     offset == KINETO_NO_OFFSET ? offset_in(line.reason) : offset, words,
                     (unsigned long long)total);
    }
}

static const struct {
    line_class line;
    ka_rule rule;
    kineto_severity severity;
    const char *words; /* with the sum of the lines */
} ledger_rules[] = {{LINE_LOSS, KA_RULE_LEDGER_LOSSES, KINETO_SEVERITY_WARNING,
                     "events that are missing, in all %llu"},
                    {LINE_PROCESSES, KA_RULE_LEDGER_LOSSES, KINETO_SEVERITY_WARNING,
                     "processes whose events are missing, in all %llu"},
                    {LINE_UNREAD, KA_RULE_LEDGER_UNREAD, KINETO_SEVERITY_WARNING,
                     "events of the file that could not be used, in all %llu"},
                    {LINE_CUT, KA_RULE_LEDGER_REPAIRED, KINETO_SEVERITY_WARNING,
                     "the file ends early: what followed is missing, how many events is not known"},
                    {LINE_REPAIRED, KA_RULE_LEDGER_REPAIRED, KINETO_SEVERITY_WARNING,
                     "repairs were needed to read the file, in all %llu"},
                    {LINE_HEADER, KA_RULE_LEDGER_REPAIRED, KINETO_SEVERITY_NOTE,
                     "members are in the header twice, with different values, in all %llu"},
                    {LINE_NEGATIVE, KA_RULE_DURATION_NEGATIVE, KINETO_SEVERITY_ERROR,
                     "activities end before they start, in all %llu"},
                    {LINE_RESIDUAL, KA_RULE_CLOCK_RESIDUAL, KINETO_SEVERITY_WARNING,
                     "readings of clocks are up to %llu ns off their line"},
                    {LINE_STEP, KA_RULE_CLOCK_STEPPED, KINETO_SEVERITY_NOTE,
                     "the wall clock was set (%llu time or more)"}};

/* Classes are reported in the order of ledger_rules. */
static void check_ledger(ka_verify *v)
{
    for (size_t i = 0; i < KB_COUNT(ledger_rules); i++)
        find_lines(v, ledger_rules[i].line, ledger_rules[i].rule, ledger_rules[i].severity,
                   ledger_rules[i].words);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* A process and the extent of its host activity. */
typedef struct process_use {
    kineto_process p;
    int64_t start_ns, end_ns;
    bool used;
} process_use;

/* Extent of the host activity of each process. NULL: out of memory. */
static process_use *collect_process_uses(ka_verify *v, uint32_t *count)
{
    *count = kineto_trace_process_count(v->t);
    process_use *uses = calloc((size_t)*count + 1, sizeof *uses);
    for (uint32_t i = 0; uses && i < *count; i++) {
        kineto_trace_process(v->t, i, &uses[i].p);
        uses[i].start_ns = INT64_MAX;
        uses[i].end_ns = INT64_MIN;
    }
    for (uint32_t i = 0; uses && i < v->track_count; i++) {
        const ka_track *track = &v->tracks[i];
        if (!track->host || track->process >= *count)
            continue;
        process_use *use = &uses[track->process];
        use->used = !use->p.is_device && !kt_process_text_of(v->t, track->process).data;
        use->start_ns = KB_MIN(use->start_ns, track->min_start_ns);
        use->end_ns = KB_MAX(use->end_ns, track->max_end_ns);
    }
    v->no_memory |= !uses;
    return uses;
}

/* Is one the parent of the other, or have both the same parent? Children inherit the rank in
 * their environment, so that they may share it. */
static bool are_related(const kineto_process *a, const kineto_process *b)
{
    return a->pid == b->pid || (a->ppid && (a->ppid == b->pid || a->ppid == b->ppid)) ||
           (b->ppid && b->ppid == a->pid);
}

/* The same pid on the same host at the same time, or one rank in unrelated processes. Images
 * of one process (exec) have one pid, and do not overlap. */
static bool processes_conflict(const process_use *a, const process_use *b)
{
    if (a->p.pid == b->p.pid && kb_string_equal(a->p.host, b->p.host))
        return a->start_ns < b->end_ns &&
               b->start_ns < a->end_ns; /* images of one do not overlap */
    return a->p.rank >= 0 && a->p.rank == b->p.rank && !are_related(&a->p, &b->p);
}

/* Files may name any number of processes; the first ones of each rank stand for the others. */
#define MAX_PROCESSES 4096u

/* One finding per process suffices. */
static void check_processes(ka_verify *v)
{
    uint32_t count;
    process_use *uses = collect_process_uses(v, &count);
    count = uses ? KB_MIN(count, MAX_PROCESSES) : 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; uses[i].used && j < i; j++) {
            char text[120];
            if (!uses[j].used || !processes_conflict(&uses[j], &uses[i]))
                continue;
            snprintf(text, sizeof text, "processes %lld (rank %d) and %lld (rank %d)",
                     (long long)uses[j].p.pid, uses[j].p.rank, (long long)uses[i].p.pid,
                     uses[i].p.rank);
            ka_find_text(v, KA_RULE_PROCESS_CONFLICT, KINETO_SEVERITY_WARNING, 1, text,
                         KINETO_NO_OFFSET, "unrelated processes have one identity");
            break;
        }
    }
    free(uses);
}

/* ---- tracks and header ----------------------------------------------------------------------- */

/* Tracks with activities but without a name. */
static void check_track_names(ka_verify *v)
{
    ka_tally unnamed = {0};
    for (uint32_t i = 0; i < v->track_count; i++) {
        kineto_track track;
        kineto_trace_track(v->t, i, &track);
        const kineto_row *rows = NULL;
        if (!track.name.size && (v->tracks[i].work || v->tracks[i].host))
            rows = kineto_trace_track_rows(v->t, i);
        if (rows)
            ka_tally_add(v, &unnamed, rows[0]);
    }
    ka_find(v, KA_RULE_TRACK_UNNAMED, KINETO_SEVERITY_NOTE, &unnamed,
            "tracks have no name; the first activity of each is given");
}

/* rank must be below world_size. */
static void check_header(ka_verify *v)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(v->t); i++) {
        kineto_string key, value;
        int64_t rank, world;
        kineto_trace_metadata(v->t, i, &key, &value);
        if (!is_text(key, "distributedInfo") ||
            !kt_value_whole(kt_member_of(value, "rank"), &rank) ||
            !kt_value_whole(kt_member_of(value, "world_size"), &world) ||
            (rank >= 0 && rank < world))
            continue;
        ka_find_text(v, KA_RULE_HEADER_RANK, KINETO_SEVERITY_WARNING, 1, NULL, KINETO_NO_OFFSET,
                     "rank %lld of %lld", (long long)rank, (long long)world);
    }
}

/* Cheap checks run always; ka_find_text drops findings of rules that are not wanted. */
void ka_verify_tables(ka_verify *v)
{
    check_ledger(v);
    if (ka_wants(v, KA_RULE_PROCESS_CONFLICT))
        check_processes(v);
    if (ka_wants(v, KA_RULE_TRACK_UNNAMED))
        check_track_names(v);
    check_header(v);
    if (v->waits && !v->kinds[KINETO_KIND_CUDA_SYNC])
        ka_find_text(
            v, KA_RULE_SYNC_MISSING, KINETO_SEVERITY_NOTE, v->waits, NULL, KINETO_NO_OFFSET,
            "%llu calls make a stream wait, but no synchronisation activities were recorded",
            (unsigned long long)v->waits);
}
