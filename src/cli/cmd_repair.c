/* ckineto repair: repair a broken trace file, and list every change. The repair works on the text
 * of the file (src/trace/repair), not on a parsed trace, so that sound parts stay byte for byte. */
#include "cli/cli.h"
#include "cli/page.h"
#include "cli/open_many.h"
#include "trace/bytes/input.h"
#include "trace/repair/repair.h"

#include <errno.h>

static bool in_place;
static const char *output;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "FILE", "write the repaired trace to FILE; else only report"},
    {"in-place", 'f', KC_FLAG, &in_place, NULL,
     "replace TRACE, unless --output names another file"},
    KC_TS_UNIT_OPTION,
    KC_JSON_OPTION,
};
static const kc_options options = {
    "repair",
    "[options] TRACE",
    "Repair a trace file that is broken or cut off, and list the changes with their places.\n"
    "Sound parts are copied unchanged. Nothing is guessed: an ambiguous part is removed.\n"
    "The exit status is 0 even if something was lost, 2 if TRACE cannot be read.",
    "ckineto repair broken.json\n"
    "ckineto repair broken.json -o sound.json",
    option_list,
    KB_COUNT(option_list),
    false};

/* One repair: the text of the file, the changes that were made, and the numbers of events. */
typedef struct repair_work {
    const char *path;
    kt_input *input;
    kt_repairs repairs;
    kt_repair_events events;
    /* changes that removed data */
    uint64_t lost;
} repair_work;

/* ---- text ------------------------------------------------------------------------------------ */

/* Number, kind and first place of one kind of change. */
static void print_change_kind(const repair_work *r, kt_repair_kind kind, FILE *page)
{
    uint64_t count = r->repairs.kinds[kind].count;
    fprintf(page, "  %8s  %s (%s", kc_count(count).s, kt_repair_text(kind),
           count > 1 ? "first at byte " : "at byte ");
    fprintf(page, "%llu", (unsigned long long)r->repairs.kinds[kind].first_offset);
    if (kt_repair_loss_of(kind) && r->repairs.kinds[kind].bytes)
        fprintf(page, ", %s", kb_bytes(r->repairs.kinds[kind].bytes).s);
    fputs(")\n", page);
}

/* Numbers of events and changes, then a line for each kind. */
static void write_repair_report(const repair_work *r, FILE *page)
{
    uint64_t events = r->events.whole + r->events.repaired;
    kc_put_name(page, kb_string(r->path), 0);
    fprintf(page, ": %s %s", kc_count(events).s, kc_noun(events, "event", "events"));
    if (r->repairs.total == 0 && r->input->status == KINETO_OK) {
        fputs(", nothing to repair\n", page);
        return;
    }
    fprintf(page, ", %s of them repaired; %s %s, %s with a loss\n", kc_count(r->events.repaired).s,
           kc_count(r->repairs.total).s, kc_noun(r->repairs.total, "change", "changes"),
           kc_count(r->lost).s);
    if (r->input->status != KINETO_OK) {
        fputs("  the file ends early: ", page);
        kc_put_name(page, kb_string(r->input->error.message), 0);
        fputc('\n', page);
    }
    for (uint32_t k = 0; k < KT_REPAIR_KINDS; k++)
        if (r->repairs.kinds[k].count)
            print_change_kind(r, (kt_repair_kind)k, page);
}

static void print_repair_report(const repair_work *r)
{
    kc_page whole;
    write_repair_report(r, kc_page_begin(&whole, stdout));
    kc_page_end(&whole);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Kinds that did not occur are omitted. */
static void put_change_kinds(kb_json *j, const repair_work *r)
{
    kb_json_key_z(j, "kinds");
    kb_json_array_begin(j);
    for (uint32_t k = 0; k < KT_REPAIR_KINDS; k++) {
        if (!r->repairs.kinds[k].count)
            continue;
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "kind", kb_string(kt_repair_name((kt_repair_kind)k)));
        kb_json_put_string(j, "text", kb_string(kt_repair_text((kt_repair_kind)k)));
        kb_json_put_bool(j, "loss", kt_repair_loss_of((kt_repair_kind)k));
        kb_json_put_uint(j, "count", r->repairs.kinds[k].count);
        kb_json_put_uint(j, "first_offset", r->repairs.kinds[k].first_offset);
        kb_json_put_uint(j, "bytes", r->repairs.kinds[k].bytes);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* Each change with its place in the broken file. The list is bounded; the counts of the kinds
 * are exact. */
static void put_change_list(kb_json *j, const repair_work *r)
{
    kb_json_key_z(j, "changes");
    kb_json_array_begin(j);
    for (size_t i = 0; i < r->repairs.list.count; i++) {
        const kt_repair *change = &r->repairs.list.data[i];
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "kind", kb_string(kt_repair_name((kt_repair_kind)change->kind)));
        kb_json_put_uint(j, "offset", change->offset);
        kb_json_put_uint(j, "bytes", change->bytes);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* The whole report; keys are an interface. */
static void put_repair_report(kb_json *j, const void *what)
{
    const repair_work *r = what;
    kb_json_document_begin(j, "ckineto.repair/1");
    kb_json_put_string(j, "file", kb_string(r->path));
    kb_json_put_uint(j, "events", r->events.whole + r->events.repaired);
    kb_json_put_uint(j, "repaired_events", r->events.repaired);
    kb_json_put_uint(j, "changes_total", r->repairs.total);
    kb_json_put_uint(j, "changes_with_loss", r->lost);
    kb_json_key_z(j, "file_problem");
    if (r->input->status != KINETO_OK)
        kb_json_string_z(j, r->input->error.message);
    else
        kb_json_null(j);
    put_change_kinds(j, r);
    put_change_list(j, r);
    kb_json_object_end(j);
}

/* ---- repairing ------------------------------------------------------------------------------- */

/* Read as much of the text as possible, even if the compression or the file is broken. */
static kineto_status read_broken_file(repair_work *r, kineto_error *err)
{
    kineto_status status = kt_input_open(r->path, &r->input, err);
    if (status != KINETO_OK)
        return status;
    if (kt_input_ready(r->input, SIZE_MAX) > 0)
        return KINETO_OK;
    if (r->input->status == KINETO_OK)
        return kb_fail(err, KINETO_E_FORMAT, "%s: the file is empty", r->path);
    if (err)
        *err = r->input->error;
    return r->input->status;
}

/* Write the repaired document, or discard it if only a report is wanted. */
static kineto_status write_repaired_file(repair_work *r, kineto_error *err)
{
    kb_sink *sink;
    kineto_string text = {r->input->base, kt_input_ready(r->input, SIZE_MAX)};
    kineto_status status = output ? kb_sink_open_file(output, kb_compression_of(output), &sink, err)
                                  : kb_sink_open_discard(&sink, err);
    if (status != KINETO_OK)
        return status;
    const char *problem = r->input->status != KINETO_OK ? r->input->error.message : NULL;
    status = kt_repair_document(text, problem, true, sink, &r->repairs, &r->events, err);
    if (status == KINETO_OK)
        status = kt_input_check(r->input, err);
    if (status == KINETO_OK)
        return kb_sink_close(sink, err);
    kb_sink_abort(sink);
    return status;
}

/* Adds up the changes after which data is missing. */
static void count_lossy_changes(repair_work *r)
{
    for (uint32_t k = 0; k < KT_REPAIR_KINDS; k++)
        r->lost += kt_repair_loss_of((kt_repair_kind)k) != KT_LOSES_NOTHING
                       ? r->repairs.kinds[k].count
                       : 0;
}

/* The error with the file in front of its message. */
static const kineto_error *name_file(const char *path, kineto_error *err)
{
    uint64_t offset = err->offset;
    (void)kb_fail(err, err->code, "%s: %s", path, err->message);
    err->offset = offset;
    return err;
}

/* Reads, repairs, writes and reports. Returns 0 also if something was lost: the report says
 * so. An unreadable file is KC_EXIT_USAGE. */
static int run_repair(repair_work *r)
{
    kineto_error err = {.message = ""};
    kineto_status status = read_broken_file(r, &err);
    int unreadable = status != KINETO_OK ? KC_EXIT_USAGE : KC_EXIT_FAILURE;
    if (status == KINETO_OK)
        status = write_repaired_file(r, &err);
    if (status == KINETO_OK) {
        count_lossy_changes(r);
        if (!kc_json_path)
            print_repair_report(r);
        else
            status = kc_put_json(put_repair_report, r, &err);
    }
    if (status == KINETO_OK)
        return 0;
    bool named = strstr(err.message, r->path) != NULL || (output && strstr(err.message, output));
    if (err.os_error != EPIPE)
        kc_complain_of("repair", named ? &err : name_file(r->path, &err));
    return status == KINETO_E_FORMAT ? KC_EXIT_USAGE : unreadable;
}

/* Replacing the input needs --in-place, also if --output names the same file by another path. */
int kc_repair(int argc, char **argv)
{
    int operands;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status != KINETO_OK)
        return status == KINETO_E_NOT_FOUND ? 0 : KC_EXIT_USAGE;
    if (operands != 1) {
        kc_usage_error("repair", "one trace is needed");
        return KC_EXIT_USAGE;
    }
    repair_work r = {.path = argv[1], .repairs = {.ts_unit_ns = kc_reading.ts_unit_ns}};
    if (in_place && !output && strcmp(r.path, "-") == 0) {
        kc_usage_error("repair", "the standard input cannot be replaced; name a file with -o");
        return KC_EXIT_USAGE;
    }
    if (in_place && !output)
        output = r.path;
    if (output && !in_place && kc_is_same_file(r.path, output)) {
        kc_usage_error("repair", "%s would be replaced; use --in-place if that is intended",
                       output);
        return KC_EXIT_USAGE;
    }
    int result = run_repair(&r);
    kt_repairs_free(&r.repairs);
    if (r.input) {
        kt_input_finish(r.input);
        kt_input_release(r.input);
    }
    return kc_finish_stdout("repair", result);
}
