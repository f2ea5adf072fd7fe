/* Sending notes from the child of a scenario to its parent. Threads of a plug-in may report faults
 * through the builder: a note is one write of fixed size, smaller than PIPE_BUF, and therefore
 * atomic. */
#include "plugincheck/check_host.h"
#include "plugincheck/isolate.h"

#include <limits.h>

#define MAX_FAULTS 3u /* sent of one rule: more of them would repeat the same */

_Static_assert(sizeof(kv_note) <= PIPE_BUF, "a note is written atomically");

/* With several profilers the text begins with the name of the current one. */
static void write_note(kv_check *k, kv_note_type type, kv_rule rule, double ns, const char *fmt,
                       va_list args)
{
    kv_note note = {.magic = KV_NOTE_MAGIC, .type = type, .rule = rule, .ns = ns};
    size_t used = 0;
    if (k->site->profiler[0] && k->profiler_count > 1 && type != KV_NOTE_PROFILER)
        used = (size_t)snprintf(note.text, sizeof note.text, "%s: ", k->site->profiler);
    if (type == KV_NOTE_FAULT)
        note.again = kb_add_relaxed(&k->fault_counts[rule], 1) > 0;
    vsnprintf(note.text + used, sizeof note.text - used, fmt, args);
    (void)kv_isolated_write(k->to, &note, sizeof note);
}

/* Counted with a relaxed atomic: threads may race for the last one, which only sends one note more.
 */
void kv_fault(kv_check *k, kv_rule rule, const char *fmt, ...)
{
    va_list args;
    if (kb_load_relaxed(&k->fault_counts[rule]) >= MAX_FAULTS)
        return;
    va_start(args, fmt);
    write_note(k, KV_NOTE_FAULT, rule, 0, fmt, args);
    va_end(args);
}

void kv_ok(kv_check *k, kv_rule rule, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    write_note(k, KV_NOTE_OK, rule, 0, fmt, args);
    va_end(args);
}

void kv_untested(kv_check *k, kv_rule rule, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    write_note(k, KV_NOTE_UNTESTED, rule, 0, fmt, args);
    va_end(args);
}

static void write_measurement(kv_check *k, kv_rule rule, double ns, const char *fmt, ...)
    KINETO_PRINTF(4, 5);
static void write_measurement(kv_check *k, kv_rule rule, double ns, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    write_note(k, KV_NOTE_MEASURED, rule, ns, fmt, args);
    va_end(args);
}

/* In the unit that fits. */
void kv_measured(kv_check *k, kv_rule rule, double ns, const char *what)
{
    if (ns >= 1e5)
        write_measurement(k, rule, ns, "%.2f ms %s", ns / 1e6, what);
    else if (ns >= 1e3)
        write_measurement(k, rule, ns, "%.2f us %s", ns / 1e3, what);
    else
        write_measurement(k, rule, ns, "%.1f ns %s", ns, what);
}

void kv_send_note(kv_check *k, kv_note_type type, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    write_note(k, type, KV_RULE_COUNT, 0, fmt, args);
    va_end(args);
}

void kv_set_crash_rule(kv_check *k, kv_rule rule)
{
    KB_ASSERT(rule < KV_RULE_COUNT);
    k->site->rule = rule;
}

void kv_set_call(kv_check *k, const char *call)
{
    snprintf(k->site->call, sizeof k->site->call, "%s", call);
}
