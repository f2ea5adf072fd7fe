/* What the environment says of the job that is recorded, as Kineto puts it into the header of traces: the variables
 * that schedulers of training jobs set, as texts under their own names. */
#include "session/session.h"

#define MAX_TEXT 1000u

void ks_pool_metadata(const kf_pool *pool, const char *key, const char *json_value)
{
    kf_meta_entry entry = {0};
    uint32_t key_bytes = (uint32_t)strlen(key), bytes = (uint32_t)strlen(json_value);
    kf_part parts[] = {{&entry, sizeof entry},
                       {&key_bytes, sizeof key_bytes},
                       {key, key_bytes},
                       {&bytes, sizeof bytes},
                       {json_value, bytes}};
    (void)kf_dictionary_add(pool, KF_ENTRY_META, parts, KB_COUNT(parts));
}

void ks_pool_put_job(const kf_pool *pool)
{
    static const char *const names[] = {"PT_PROFILER_JOB_NAME", "PT_PROFILER_JOB_VERSION",
                                        "PT_PROFILER_JOB_ATTEMPT_INDEX"};
    char json[6 * MAX_TEXT + 8];
    uint64_t replaced = 0;
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        const char *text = kb_setting(names[i]);
        kineto_string value = kb_string(text ? text : "");
        if (!value.size)
            continue;
        value.size = kb_utf8_valid_prefix(value.data, KB_MIN(value.size, (size_t)MAX_TEXT));
        *kb_json_escape(json, value, &replaced) = '\0';
        ks_pool_metadata(pool, names[i], json);
    }
}
