/* What a child that checks a plug-in tells its parent. */
#include "plugincheck/check.h"
#include "plugincheck/isolate.h"

#define MOST_FAULTS 3u /* of one rule that are sent; the others are the same again */

static void send(kv_check *k, kv_word word, kv_rule rule, double ns, const char *fmt, va_list args)
{
    kv_note note = {.magic = KV_NOTE_MAGIC, .word = word, .rule = rule, .ns = ns};
    size_t used = 0;
    if (k->where->profiler[0] && k->profiler_count > 1 && word != KV_WORD_PROFILER)
        used = (size_t)snprintf(note.text, sizeof note.text, "%s: ", k->where->profiler);
    if (word == KV_WORD_FAULT)
        note.again = kb_add_relaxed(&k->told_faults[rule], 1) > 0;
    vsnprintf(note.text + used, sizeof note.text - used, fmt, args);
    (void)kv_isolated_write(k->to, &note, sizeof note);
}

void kv_fault(kv_check *k, kv_rule rule, const char *fmt, ...)
{
    va_list args;
    if (kb_load_relaxed(&k->told_faults[rule]) >= MOST_FAULTS)
        return;
    va_start(args, fmt);
    send(k, KV_WORD_FAULT, rule, 0, fmt, args);
    va_end(args);
}

void kv_ok(kv_check *k, kv_rule rule, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    send(k, KV_WORD_OK, rule, 0, fmt, args);
    va_end(args);
}

void kv_untested(kv_check *k, kv_rule rule, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    send(k, KV_WORD_UNTESTED, rule, 0, fmt, args);
    va_end(args);
}

static void send_measured(kv_check *k, kv_rule rule, double ns, const char *fmt, ...)
    KINETO_PRINTF(4, 5);
static void send_measured(kv_check *k, kv_rule rule, double ns, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    send(k, KV_WORD_MEASURED, rule, ns, fmt, args);
    va_end(args);
}

void kv_measured(kv_check *k, kv_rule rule, double ns, const char *what)
{
    if (ns >= 1e5)
        send_measured(k, rule, ns, "%.2f ms %s", ns / 1e6, what);
    else if (ns >= 1e3)
        send_measured(k, rule, ns, "%.2f us %s", ns / 1e3, what);
    else
        send_measured(k, rule, ns, "%.1f ns %s", ns, what);
}

void kv_tell(kv_check *k, kv_word word, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    send(k, word, KV_RULE_COUNT, 0, fmt, args);
    va_end(args);
}

void kv_at(kv_check *k, kv_rule rule) { k->where->rule = rule; }

void kv_calling(kv_check *k, const char *call)
{
    snprintf(k->where->call, sizeof k->where->call, "%s", call);
}
