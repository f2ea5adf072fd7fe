/* What a child that checks a plug-in tells its parent. */
#include "cli/check.h"
#include "cli/isolate.h"

#define MOST_FAULTS 3u /* of one rule that are sent; the others are the same again */

static void send(kc_check *k, kc_word word, kc_rule rule, double ns, const char *fmt, va_list args)
{
    kc_note note = {.magic = KC_NOTE_MAGIC, .word = word, .rule = rule, .ns = ns};
    size_t used = 0;
    if (k->where->profiler[0] && k->profiler_count > 1 && word != KC_WORD_PROFILER)
        used = (size_t)snprintf(note.text, sizeof note.text, "%s: ", k->where->profiler);
    if (word == KC_WORD_FAULT)
        note.again = kb_add_relaxed(&k->told_faults[rule], 1) > 0;
    vsnprintf(note.text + used, sizeof note.text - used, fmt, args);
    (void)kc_isolated_write(k->to, &note, sizeof note);
}

void kc_fault(kc_check *k, kc_rule rule, const char *fmt, ...)
{
    va_list args;
    if (kb_load_relaxed(&k->told_faults[rule]) >= MOST_FAULTS)
        return;
    va_start(args, fmt);
    send(k, KC_WORD_FAULT, rule, 0, fmt, args);
    va_end(args);
}

void kc_ok(kc_check *k, kc_rule rule, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    send(k, KC_WORD_OK, rule, 0, fmt, args);
    va_end(args);
}

void kc_untested(kc_check *k, kc_rule rule, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    send(k, KC_WORD_UNTESTED, rule, 0, fmt, args);
    va_end(args);
}

static void send_measured(kc_check *k, kc_rule rule, double ns, const char *fmt, ...)
    KINETO_PRINTF(4, 5);
static void send_measured(kc_check *k, kc_rule rule, double ns, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    send(k, KC_WORD_MEASURED, rule, ns, fmt, args);
    va_end(args);
}

void kc_measured(kc_check *k, kc_rule rule, double ns, const char *what)
{
    if (ns >= 1e5)
        send_measured(k, rule, ns, "%.2f ms %s", ns / 1e6, what);
    else if (ns >= 1e3)
        send_measured(k, rule, ns, "%.2f us %s", ns / 1e3, what);
    else
        send_measured(k, rule, ns, "%.1f ns %s", ns, what);
}

void kc_tell(kc_check *k, kc_word word, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    send(k, word, KC_RULE_COUNT, 0, fmt, args);
    va_end(args);
}

void kc_at(kc_check *k, kc_rule rule) { k->where->rule = rule; }

void kc_calling(kc_check *k, const char *call)
{
    snprintf(k->where->call, sizeof k->where->call, "%s", call);
}
