/* Scenarios: hosts of other times, parameters that are too short, and what is said about failures.
 */
#include "plugincheck/check.h"

#define SIZE(type, last) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last)

/* ---- hosts of other times ------------------------------------------------------------------------- */

static void play_later_host(kv_check *k, kv_checked *p)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_SIZE_LARGER);
    if (kv_whole_session(&s, KV_RULE_SIZE_LARGER, 16, NULL))
        kv_ok(k, KV_RULE_SIZE_LARGER, "%s", "");
}

void kv_scene_larger(kv_check *k)
{
    if (!kv_load_and_query(k, KV_SIZE_LARGER, KV_RULE_SIZE_LARGER))
        return;
    for (size_t i = 0; i < k->profiler_count; i++)
        play_later_host(k, &k->profilers[i]);
}

/* To refuse is fine; to begin and then fail is not. */
static void play_old_host(kv_check *k, kv_checked *p, kv_size size, kv_rule rule)
{
    kv_session s;
    char text[200];
    kv_session_init(&s, k, p, size);
    int result = kv_create(&s);
    if (result) {
        kv_ok(k, rule, "refused: %s", kv_failure(&s, "profilerCreate", result, text, sizeof text));
        return;
    }
    result = kv_start(&s);
    if (result) {
        kv_ok(k, rule, "refused: %s", kv_failure(&s, "profilerStart", result, text, sizeof text));
        kv_expect(&s, rule, "after a start that failed, profilerDestroy", kv_destroy(&s));
        return;
    }
    bool worked = kv_exercise(k, 16);
    kv_expect(&s, rule, "profilerStop", kv_stop(&s));
    kv_expect(&s, rule, "profilerProcessEvents", kv_process(&s));
    kv_expect(&s, rule, "profilerDestroy", kv_destroy(&s));
    kv_look(&s);
    uint64_t events = k->seen->event_count;
    if (worked && !events)
        kv_ok(k, rule, "it delivers nothing to such a host");
    else
        kv_ok(k, rule, "%llu events", (unsigned long long)events);
}

static void play_old_hosts(kv_check *k, kv_size size, kv_rule rule)
{
    if (!kv_load_and_query(k, size, rule))
        return;
    for (size_t i = 0; i < k->profiler_count; i++)
        play_old_host(k, &k->profilers[i], size, rule);
}

void kv_scene_revision_b(kv_check *k)
{
    play_old_hosts(k, KV_SIZE_REVISION_B, KV_RULE_SIZE_REVISION_B);
}

void kv_scene_revision_0(kv_check *k)
{
    play_old_hosts(k, KV_SIZE_REVISION_0, KV_RULE_SIZE_REVISION_0);
}

/* ---- too short ------------------------------------------------------------------------------------ */

static void refuse(kv_check *k, const char *call, size_t bytes, int result)
{
    kv_calling(k, "");
    if (result == 0)
        kv_fault(k, KV_RULE_SIZE_SHORT, "%s takes parameters of %zu bytes", call, bytes);
}

/* The memory is there, so that what does not look at the size is told by what it returns. */
static void short_calls(kv_check *k, kv_session *s)
{
    const size_t bytes = sizeof(size_t);
    const KinetoPlugin_ProfilerInterface *f = s->p->functions;
    char name[32] = "";
    int32_t kinds[KV_MAX_KINDS] = {0};
    KinetoPlugin_ProfilerQuery_Params query = {.unpaddedStructSize = bytes,
                                               .pProfilerName = name,
                                               .profilerNameMaxLen = sizeof name - 1,
                                               .pSupportedActivityTypes = kinds,
                                               .supportedActivityTypesMaxLen = KV_MAX_KINDS};
    KinetoPlugin_ProfilerStart_Params start = {.unpaddedStructSize = bytes,
                                               .pProfilerHandle = s->handle};
    KinetoPlugin_ProfilerDestroy_Params destroy = {bytes, s->handle};
    kv_calling(k, "profilerQuery");
    refuse(k, "profilerQuery", bytes, f->profilerQuery(&query));
    kv_calling(k, "profilerStart");
    refuse(k, "profilerStart", bytes, f->profilerStart(&start));
    kv_calling(k, "profilerDestroy");
    int result = f->profilerDestroy(&destroy);
    refuse(k, "profilerDestroy", bytes, result);
    if (result == 0)
        s->handle = NULL;
}

static void short_create(kv_check *k, kv_checked *p)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_SIZE_TODAY);
    KinetoPlugin_ProfilerCreate_Params create = {.unpaddedStructSize = sizeof(size_t)};
    kv_calling(k, "profilerCreate");
    int result = p->functions->profilerCreate(&create);
    refuse(k, "profilerCreate", sizeof(size_t), result);
    s.handle = create.pProfilerHandle;
    if (result == 0)
        (void)kv_destroy(&s);
}

static void short_stop(kv_check *k, kv_session *s)
{
    const KinetoPlugin_ProfilerInterface *f = s->p->functions;
    KinetoPlugin_ProfilerStop_Params stop = {sizeof(size_t), s->handle};
    KinetoPlugin_ProfilerProcessEvents_Params process = {sizeof(size_t), s->handle, s->live};
    kv_calling(k, "profilerStop");
    int result = f->profilerStop(&stop);
    refuse(k, "profilerStop", sizeof(size_t), result);
    kv_calling(k, "profilerProcessEvents");
    refuse(k, "profilerProcessEvents", sizeof(size_t), f->profilerProcessEvents(&process));
    if (result != 0)
        (void)kv_stop(s);
    else
        kv_builder_end(s->live_handle);
}

static void too_short(kv_check *k, kv_checked *p)
{
    kv_session s;
    short_create(k, p);
    if (!kv_begin(k, &s, p, KV_RULE_SIZE_SHORT))
        return;
    short_calls(k, &s);
    if (s.handle && kv_start(&s) == 0) {
        short_stop(k, &s);
        (void)kv_process(&s);
    }
    if (s.handle)
        kv_expect(&s, KV_RULE_SIZE_SHORT, "after calls that were refused, profilerDestroy",
                  kv_destroy(&s));
    kv_afterwards(k, p, KV_RULE_SIZE_SHORT);
}

void kv_scene_short(kv_check *k) { kv_for_each(k, KV_RULE_SIZE_SHORT, too_short); }

/* ---- what is said about failures ------------------------------------------------------------------ */

/* Ask for at most `most` bytes, in memory that ends there. */
static void ask_for_text(kv_check *k, const kv_checked *p, size_t most, bool whole)
{
    char quoted[160], *text = kv_guard_new(most + 1, "the buffer for the text", false);
    size_t pad = kb_align(most + 1, 8) - most - 1;
    text = (char *)memset(text, 'x', pad + most + 1) + pad;
    KinetoPlugin_ProfilerErrorText_Params params = {SIZE(ProfilerErrorText_Params, textMaxLen),
                                                    NULL, text, most};
    kv_calling(k, "profilerErrorText");
    int result = p->functions->profilerErrorText(&params);
    kv_calling(k, "");
    const char *end = memchr(text, 0, most + 1);
    if (result)
        kv_fault(k, KV_RULE_ERROR_TEXT, "profilerErrorText returned %d", result);
    else if (!end)
        kv_fault(k, KV_RULE_ERROR_TEXT, "the text is not terminated in %zu bytes", most + 1);
    else if (whole && end == text)
        kv_fault(k, KV_RULE_ERROR_TEXT, "the text is empty");
    else if (whole && kb_utf8_valid_prefix(text, (size_t)(end - text)) != (size_t)(end - text))
        kv_fault(k, KV_RULE_ERROR_TEXT, "the text is no UTF-8: %s",
                 kv_quote(text, quoted, sizeof quoted));
    else if (whole)
        kv_ok(k, KV_RULE_ERROR_TEXT, "\"%.120s\"", kv_quote(text, quoted, sizeof quoted));
}

static void error_text(kv_check *k, kv_checked *p)
{
    KinetoPlugin_ProfilerCreate_Params create = {.unpaddedStructSize = sizeof(size_t)};
    if (!KINETO_PLUGIN_HAS(p->functions, KinetoPlugin_ProfilerInterface, profilerErrorText) ||
        !p->functions->profilerErrorText) {
        kv_untested(k, KV_RULE_ERROR_TEXT, "it has no profilerErrorText");
        return;
    }
    kv_calling(k, "profilerCreate");
    int result = p->functions->profilerCreate(&create);
    if (result == 0) {
        kv_untested(k, KV_RULE_ERROR_TEXT, "no call could be made to fail");
        return;
    }
    ask_for_text(k, p, 255, true);
    ask_for_text(k, p, 6, false);
    ask_for_text(k, p, 0, false);
}

void kv_scene_error_text(kv_check *k) { kv_for_each(k, KV_RULE_ERROR_TEXT, error_text); }
