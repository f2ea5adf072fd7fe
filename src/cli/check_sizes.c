/* Scenarios: hosts of other times, parameters that are too short, and what is said about failures.
 */
#include "cli/check.h"

#define SIZE(type, last) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last)

/* ---- hosts of other times ------------------------------------------------------------------------- */

static void play_later_host(kc_check *k, kc_checked *p)
{
    kc_session s;
    kc_session_init(&s, k, p, KC_SIZE_LARGER);
    if (kc_whole_session(&s, KC_RULE_SIZE_LARGER, 16, NULL))
        kc_ok(k, KC_RULE_SIZE_LARGER, "%s", "");
}

void kc_scene_larger(kc_check *k)
{
    if (!kc_load_and_query(k, KC_SIZE_LARGER, KC_RULE_SIZE_LARGER))
        return;
    for (size_t i = 0; i < k->profiler_count; i++)
        play_later_host(k, &k->profilers[i]);
}

/* To refuse is fine; to begin and then fail is not. */
static void play_old_host(kc_check *k, kc_checked *p, kc_size size, kc_rule rule)
{
    kc_session s;
    char text[200];
    kc_session_init(&s, k, p, size);
    int result = kc_create(&s);
    if (result) {
        kc_ok(k, rule, "refused: %s", kc_failure(&s, "profilerCreate", result, text, sizeof text));
        return;
    }
    result = kc_start(&s);
    if (result) {
        kc_ok(k, rule, "refused: %s", kc_failure(&s, "profilerStart", result, text, sizeof text));
        kc_expect(&s, rule, "after a start that failed, profilerDestroy", kc_destroy(&s));
        return;
    }
    bool worked = kc_exercise(k, 16);
    kc_expect(&s, rule, "profilerStop", kc_stop(&s));
    kc_expect(&s, rule, "profilerProcessEvents", kc_process(&s));
    kc_expect(&s, rule, "profilerDestroy", kc_destroy(&s));
    kc_look(&s);
    uint64_t events = k->seen->event_count;
    if (worked && !events)
        kc_ok(k, rule, "it delivers nothing to such a host");
    else
        kc_ok(k, rule, "%llu events", (unsigned long long)events);
}

static void play_old_hosts(kc_check *k, kc_size size, kc_rule rule)
{
    if (!kc_load_and_query(k, size, rule))
        return;
    for (size_t i = 0; i < k->profiler_count; i++)
        play_old_host(k, &k->profilers[i], size, rule);
}

void kc_scene_revision_b(kc_check *k)
{
    play_old_hosts(k, KC_SIZE_REVISION_B, KC_RULE_SIZE_REVISION_B);
}

void kc_scene_revision_0(kc_check *k)
{
    play_old_hosts(k, KC_SIZE_REVISION_0, KC_RULE_SIZE_REVISION_0);
}

/* ---- too short ------------------------------------------------------------------------------------ */

static void refuse(kc_check *k, const char *call, size_t bytes, int result)
{
    kc_calling(k, "");
    if (result == 0)
        kc_fault(k, KC_RULE_SIZE_SHORT, "%s takes parameters of %zu bytes", call, bytes);
}

/* The memory is there, so that what does not look at the size is told by what it returns. */
static void short_calls(kc_check *k, kc_session *s)
{
    const size_t bytes = sizeof(size_t);
    const KinetoPlugin_ProfilerInterface *f = s->p->functions;
    char name[32] = "";
    int32_t kinds[KC_MAX_KINDS] = {0};
    KinetoPlugin_ProfilerQuery_Params query = {.unpaddedStructSize = bytes,
                                               .pProfilerName = name,
                                               .profilerNameMaxLen = sizeof name - 1,
                                               .pSupportedActivityTypes = kinds,
                                               .supportedActivityTypesMaxLen = KC_MAX_KINDS};
    KinetoPlugin_ProfilerStart_Params start = {.unpaddedStructSize = bytes,
                                               .pProfilerHandle = s->handle};
    KinetoPlugin_ProfilerDestroy_Params destroy = {bytes, s->handle};
    kc_calling(k, "profilerQuery");
    refuse(k, "profilerQuery", bytes, f->profilerQuery(&query));
    kc_calling(k, "profilerStart");
    refuse(k, "profilerStart", bytes, f->profilerStart(&start));
    kc_calling(k, "profilerDestroy");
    int result = f->profilerDestroy(&destroy);
    refuse(k, "profilerDestroy", bytes, result);
    if (result == 0)
        s->handle = NULL;
}

static void short_create(kc_check *k, kc_checked *p)
{
    kc_session s;
    kc_session_init(&s, k, p, KC_SIZE_TODAY);
    KinetoPlugin_ProfilerCreate_Params create = {.unpaddedStructSize = sizeof(size_t)};
    kc_calling(k, "profilerCreate");
    int result = p->functions->profilerCreate(&create);
    refuse(k, "profilerCreate", sizeof(size_t), result);
    s.handle = create.pProfilerHandle;
    if (result == 0)
        (void)kc_destroy(&s);
}

static void short_stop(kc_check *k, kc_session *s)
{
    const KinetoPlugin_ProfilerInterface *f = s->p->functions;
    KinetoPlugin_ProfilerStop_Params stop = {sizeof(size_t), s->handle};
    KinetoPlugin_ProfilerProcessEvents_Params process = {sizeof(size_t), s->handle, s->live};
    kc_calling(k, "profilerStop");
    int result = f->profilerStop(&stop);
    refuse(k, "profilerStop", sizeof(size_t), result);
    kc_calling(k, "profilerProcessEvents");
    refuse(k, "profilerProcessEvents", sizeof(size_t), f->profilerProcessEvents(&process));
    if (result != 0)
        (void)kc_stop(s);
    else
        kc_builder_end(s->live_handle);
}

static void too_short(kc_check *k, kc_checked *p)
{
    kc_session s;
    short_create(k, p);
    if (!kc_begin(k, &s, p, KC_RULE_SIZE_SHORT))
        return;
    short_calls(k, &s);
    if (s.handle && kc_start(&s) == 0) {
        short_stop(k, &s);
        (void)kc_process(&s);
    }
    if (s.handle)
        kc_expect(&s, KC_RULE_SIZE_SHORT, "after calls that were refused, profilerDestroy",
                  kc_destroy(&s));
    kc_afterwards(k, p, KC_RULE_SIZE_SHORT);
}

void kc_scene_short(kc_check *k) { kc_for_each(k, KC_RULE_SIZE_SHORT, too_short); }

/* ---- what is said about failures ------------------------------------------------------------------ */

/* Ask for at most `most` bytes, in memory that ends there. */
static void ask_for_text(kc_check *k, const kc_checked *p, size_t most, bool whole)
{
    char quoted[160], *text = kc_guard_new(most + 1, "the buffer for the text", false);
    size_t pad = kb_align(most + 1, 8) - most - 1;
    text = (char *)memset(text, 'x', pad + most + 1) + pad;
    KinetoPlugin_ProfilerErrorText_Params params = {SIZE(ProfilerErrorText_Params, textMaxLen),
                                                    NULL, text, most};
    kc_calling(k, "profilerErrorText");
    int result = p->functions->profilerErrorText(&params);
    kc_calling(k, "");
    const char *end = memchr(text, 0, most + 1);
    if (result)
        kc_fault(k, KC_RULE_ERROR_TEXT, "profilerErrorText returned %d", result);
    else if (!end)
        kc_fault(k, KC_RULE_ERROR_TEXT, "the text is not terminated in %zu bytes", most + 1);
    else if (whole && end == text)
        kc_fault(k, KC_RULE_ERROR_TEXT, "the text is empty");
    else if (whole && kb_utf8_valid_prefix(text, (size_t)(end - text)) != (size_t)(end - text))
        kc_fault(k, KC_RULE_ERROR_TEXT, "the text is no UTF-8: %s",
                 kc_quote(text, quoted, sizeof quoted));
    else if (whole)
        kc_ok(k, KC_RULE_ERROR_TEXT, "\"%.120s\"", kc_quote(text, quoted, sizeof quoted));
}

static void error_text(kc_check *k, kc_checked *p)
{
    KinetoPlugin_ProfilerCreate_Params create = {.unpaddedStructSize = sizeof(size_t)};
    if (!KINETO_PLUGIN_HAS(p->functions, KinetoPlugin_ProfilerInterface, profilerErrorText) ||
        !p->functions->profilerErrorText) {
        kc_untested(k, KC_RULE_ERROR_TEXT, "it has no profilerErrorText");
        return;
    }
    kc_calling(k, "profilerCreate");
    int result = p->functions->profilerCreate(&create);
    if (result == 0) {
        kc_untested(k, KC_RULE_ERROR_TEXT, "no call could be made to fail");
        return;
    }
    ask_for_text(k, p, 255, true);
    ask_for_text(k, p, 6, false);
    ask_for_text(k, p, 0, false);
}

void kc_scene_error_text(kc_check *k) { kc_for_each(k, KC_RULE_ERROR_TEXT, error_text); }
