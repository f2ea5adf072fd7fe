/* Notes: what a child process that runs a scenario reports to its parent. Notes are records of
 * fixed size on a pipe, so that a child that dies leaves complete ones; the shared kv_crash_site
 * says what the child was doing when it crashed or hung. */
#ifndef KV_CHECK_NOTES_H
#define KV_CHECK_NOTES_H

#include "plugincheck/plugincheck.h"

typedef enum kv_note_type {
    KV_NOTE_FAULT = 1,
    KV_NOTE_OK,
    KV_NOTE_UNTESTED,
    KV_NOTE_MEASURED,
    KV_NOTE_PROFILER,
    KV_NOTE_DONE /* of a scenario that ends the process itself */
} kv_note_type;

typedef struct kv_note {
    uint32_t magic, type, rule;
    /* FAULT: not the first one of this rule */
    uint32_t again;
    double ns; /* MEASURED */
    char text[KV_NOTE_BYTES];
} kv_note;
#define KV_NOTE_MAGIC 0x63686b31u

/* In memory shared with the parent. */
typedef struct kv_crash_site {
    /* the rule that a crash breaks */
    uint32_t rule;
    /* "": the library itself */
    char profiler[32];
    /* function of the plug-in that runs; "": none */
    char call[64];
    /* function of ours that the plug-in has called: kv_builder_call */
    uint32_t builder_call;
    /* the guarded memory that was accessed, if that was the crash */
    char guard[96];
} kv_crash_site;

typedef struct kv_check kv_check;
/** The rule is broken. Only the first faults of a rule are sent; thread-safe. */
void kv_fault(kv_check *k, kv_rule rule, const char *fmt, ...) KINETO_PRINTF(3, 4);
/** The rule was tested, and holds unless a fault was reported; the text may be "". */
void kv_ok(kv_check *k, kv_rule rule, const char *fmt, ...) KINETO_PRINTF(3, 4);
/** The rule could not be tested; the text is the reason. */
void kv_untested(kv_check *k, kv_rule rule, const char *fmt, ...) KINETO_PRINTF(3, 4);
void kv_measured(kv_check *k, kv_rule rule, double ns, const char *what);
/** A note that concerns no rule: PROFILER or DONE. */
void kv_send_note(kv_check *k, kv_note_type type, const char *fmt, ...) KINETO_PRINTF(3, 4);
/** From here on a crash breaks this rule. */
void kv_set_crash_rule(kv_check *k, kv_rule rule);
/** A function of the plug-in is about to be called or, with "", has returned. */
void kv_set_call(kv_check *k, const char *call);
#endif
