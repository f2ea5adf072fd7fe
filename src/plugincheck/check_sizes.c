/* Scenarios of versions: hosts of a later and of earlier versions, parameters that are too short,
 * and the text of an error. Every struct of the interface begins with its size, which a plug-in
 * must check before it reads an appended member. */
#include "plugincheck/check_scenarios.h"

#define SIZE(type, last) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last)

/* ---- hosts of other versions ----------------------------------------------------------------- */

/* A host of a later version: its structs are longer than the known ones, which must not
 * matter. */
static void run_later_host(kv_check *k, kv_profiler *p)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_HOST_LARGER);
    if (kv_run_session(&s, KV_RULE_SIZE_LARGER, 16, NULL))
        kv_ok(k, KV_RULE_SIZE_LARGER, "%s", "");
}

void kv_scene_larger(kv_check *k)
{
    if (!kv_load_and_query(k, KV_HOST_LARGER, KV_RULE_SIZE_LARGER))
        return;
    for (size_t i = 0; i < k->profiler_count; i++)
        run_later_host(k, &k->profilers[i]);
}

/* The plug-in may refuse an old host at create or start; what it has begun must work. */
static void run_old_host(kv_check *k, kv_profiler *p, kv_host_version version, kv_rule rule)
{
    kv_session s;
    char text[200];
    kv_session_init(&s, k, p, version);
    int result = kv_create(&s);
    if (result) {
        kv_ok(k, rule, "refused: %s", kv_failure(&s, "profilerCreate", result, text, sizeof text));
        return;
    }
    result = kv_start(&s);
    if (result) {
        kv_ok(k, rule, "refused: %s", kv_failure(&s, "profilerStart", result, text, sizeof text));
        kv_expect_success(&s, rule, "after a start that failed, profilerDestroy", kv_destroy(&s));
        return;
    }
    bool worked = kv_exercise(k, 16);
    kv_expect_success(&s, rule, "profilerStop", kv_stop(&s));
    kv_expect_success(&s, rule, "profilerProcessEvents", kv_process(&s));
    kv_expect_success(&s, rule, "profilerDestroy", kv_destroy(&s));
    kv_check_events(&s);
    uint64_t events = k->seen->event_count;
    if (worked && !events)
        kv_ok(k, rule, "it delivers nothing to such a host");
    else
        kv_ok(k, rule, "%llu events", (unsigned long long)events);
}

/* Loads the plug-in under an old host and runs each profiler; a failed load is reported for
 * `rule`. */
static void run_old_host_for_all(kv_check *k, kv_host_version version, kv_rule rule)
{
    if (!kv_load_and_query(k, version, rule))
        return;
    for (size_t i = 0; i < k->profiler_count; i++)
        run_old_host(k, &k->profilers[i], version, rule);
}

void kv_scene_revision_b(kv_check *k)
{
    run_old_host_for_all(k, KV_HOST_REVISION_B, KV_RULE_SIZE_REVISION_B);
}

void kv_scene_revision_0(kv_check *k)
{
    run_old_host_for_all(k, KV_HOST_REVISION_0, KV_RULE_SIZE_REVISION_0);
}

/* ---- too short ------------------------------------------------------------------------------- */

/* The call must not return 0. */
static void expect_refusal(kv_check *k, const char *call, size_t bytes, int result)
{
    KB_ASSERT(bytes < sizeof(KinetoPlugin_ProfilerStart_Params));
    kv_set_call(k, "");
    if (result == 0)
        kv_fault(k, KV_RULE_SIZE_SHORT, "%s accepts parameters of %zu bytes", call, bytes);
}

/* The structs have their full memory, so that a plug-in that ignores the size does not crash; it is
 * detected by its result. */
static void call_with_short_params(kv_check *k, kv_session *s)
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
    kv_set_call(k, "profilerQuery");
    expect_refusal(k, "profilerQuery", bytes, f->profilerQuery(&query));
    kv_set_call(k, "profilerStart");
    expect_refusal(k, "profilerStart", bytes, f->profilerStart(&start));
    kv_set_call(k, "profilerDestroy");
    int result = f->profilerDestroy(&destroy);
    expect_refusal(k, "profilerDestroy", bytes, result);
    if (result == 0)
        s->handle = NULL;
}

/* A handle that was created nevertheless is destroyed. */
static void create_with_short_params(kv_check *k, kv_profiler *p)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_HOST_TODAY);
    KinetoPlugin_ProfilerCreate_Params create = {.unpaddedStructSize = sizeof(size_t)};
    kv_set_call(k, "profilerCreate");
    int result = p->functions->profilerCreate(&create);
    expect_refusal(k, "profilerCreate", sizeof(size_t), result);
    s.handle = create.pProfilerHandle;
    if (result == 0)
        (void)kv_destroy(&s);
}

/* A profiler that accepted the short stop is stopped; any other is stopped properly. */
static void stop_with_short_params(kv_check *k, kv_session *s)
{
    const KinetoPlugin_ProfilerInterface *f = s->p->functions;
    KinetoPlugin_ProfilerStop_Params stop = {sizeof(size_t), s->handle};
    KinetoPlugin_ProfilerProcessEvents_Params process = {sizeof(size_t), s->handle, s->live};
    kv_set_call(k, "profilerStop");
    int result = f->profilerStop(&stop);
    expect_refusal(k, "profilerStop", sizeof(size_t), result);
    kv_set_call(k, "profilerProcessEvents");
    expect_refusal(k, "profilerProcessEvents", sizeof(size_t), f->profilerProcessEvents(&process));
    if (result != 0)
        (void)kv_stop(s);
    else
        kv_builder_end(s->live_handle);
}

/* Afterwards an ordinary session must still work. */
static void try_short_params(kv_check *k, kv_profiler *p)
{
    kv_session s;
    create_with_short_params(k, p);
    if (!kv_create_session(k, &s, p, KV_RULE_SIZE_SHORT))
        return;
    call_with_short_params(k, &s);
    if (s.handle && kv_start(&s) == 0) {
        stop_with_short_params(k, &s);
        (void)kv_process(&s);
    }
    if (s.handle)
        kv_expect_success(&s, KV_RULE_SIZE_SHORT, "after calls that were refused, profilerDestroy",
                          kv_destroy(&s));
    kv_expect_working_session(k, p, KV_RULE_SIZE_SHORT);
}

void kv_scene_short(kv_check *k) { kv_for_each_profiler(k, KV_RULE_SIZE_SHORT, try_short_params); }

/* ---- error texts ----------------------------------------------------------------------------- */

/* A buffer of `max` bytes and the NUL, at the end of accessible memory. @param whole the text fits,
 * so that its content is checked as well. */
static void request_error_text(kv_check *k, const kv_profiler *p, size_t max, bool whole)
{
    char quoted[160], *text = kv_guard_new(max + 1, "the buffer for the text", false);
    size_t pad = kb_align(max + 1, 8) - max - 1;
    text = (char *)memset(text, 'x', pad + max + 1) + pad;
    KinetoPlugin_ProfilerErrorText_Params params = {SIZE(ProfilerErrorText_Params, textMaxLen),
                                                    NULL, text, max};
    kv_set_call(k, "profilerErrorText");
    int result = p->functions->profilerErrorText(&params);
    kv_set_call(k, "");
    const char *end = memchr(text, 0, max + 1);
    if (result)
        kv_fault(k, KV_RULE_ERROR_TEXT, "profilerErrorText returned %d", result);
    else if (!end)
        kv_fault(k, KV_RULE_ERROR_TEXT, "the text is not terminated in %zu bytes", max + 1);
    else if (whole && end == text)
        kv_fault(k, KV_RULE_ERROR_TEXT, "the text is empty");
    else if (whole && kb_utf8_valid_prefix(text, (size_t)(end - text)) != (size_t)(end - text))
        kv_fault(k, KV_RULE_ERROR_TEXT, "the text is not UTF-8: %s",
                 kv_quote(text, quoted, sizeof quoted));
    else if (whole)
        kv_ok(k, KV_RULE_ERROR_TEXT, "\"%.120s\"", kv_quote(text, quoted, sizeof quoted));
}

/* Provoke a failure, then read its text with buffers of several sizes. */
static void check_error_text(kv_check *k, kv_profiler *p)
{
    KinetoPlugin_ProfilerCreate_Params create = {.unpaddedStructSize = sizeof(size_t)};
    if (!KINETO_PLUGIN_HAS(p->functions, KinetoPlugin_ProfilerInterface, profilerErrorText) ||
        !p->functions->profilerErrorText) {
        kv_untested(k, KV_RULE_ERROR_TEXT, "it has no profilerErrorText");
        return;
    }
    kv_set_call(k, "profilerCreate");
    int result = p->functions->profilerCreate(&create);
    if (result == 0) {
        kv_untested(k, KV_RULE_ERROR_TEXT, "no call could be made to fail");
        return;
    }
    request_error_text(k, p, 255, true);
    request_error_text(k, p, 6, false);
    request_error_text(k, p, 0, false);
}

void kv_scene_error_text(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_ERROR_TEXT, check_error_text);
}
