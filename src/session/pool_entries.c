/* Entries of a pool's dictionary that the recorder's side reads and writes: the processes that
 * attached, lines of the ledger, keys of the trace header. Reading trusts nothing, since every
 * attached program can write to the dictionary; writing is lock-free (kf_dictionary_add) and may be
 * done by any thread. */
#include "session/session.h"

#define MAX_JOB_TEXT 1000u /* bytes of a job's name, version or attempt that are kept */

/* ---- processes ------------------------------------------------------------------------------- */

/* Calls back for an entry that describes a process; others are skipped. @return whether to go on.
 */
static bool visit_entry(const uint64_t *entry, uint64_t header, uint32_t words, bool watched,
                        ks_process_visit *visit, void *context)
{
    const uint8_t *payload = (const uint8_t *)(entry + 1);
    size_t bytes = KB_MIN((size_t)(header >> 32), (size_t)(words - 1) * 8);
    size_t text_at = sizeof(kf_process_entry);
    kf_process_entry p;
    bool is_wanted = kf_entry_header_type(header) == KF_ENTRY_PROCESS ||
                     (watched && kf_entry_header_type(header) == KF_ENTRY_WATCHED_PROCESS);
    if (!is_wanted || bytes < sizeof p)
        return true;
    KB_ASSERT(words > 0);
    memcpy(&p, payload, sizeof p);
    return visit(context, &p, kf_entry_text(payload, bytes, &text_at));
}

void ks_pool_processes(const kf_pool *pool, bool watched, ks_process_visit *visit, void *context)
{
    uint32_t used =
        kb_min_u32(kb_load_acquire(&pool->control->dictionary_used), pool->dictionary_words);
    for (uint32_t at = 1, words; at < used; at += words) {
        uint64_t header = kb_load_acquire(&pool->dictionary[at]);
        words = kf_entry_header_words(header);
        if (words == 0 || words > used - at ||
            !visit_entry(pool->dictionary + at, header, words, watched, visit,
                         context))
            return;
    }
}

/* ---- the ledger ------------------------------------------------------------------------------ */

void ks_pool_note_at(const kf_pool *pool, const char *source, const char *reason, uint64_t count,
                     bool is_loss, const char *detail, uint64_t ticks)
{
    kf_ledger_entry entry = {0, is_loss, count, ticks};
    uint32_t sizes[3] = {(uint32_t)strlen(source), (uint32_t)strlen(reason),
                         (uint32_t)strlen(detail)};
    kf_part parts[] = {{&entry, sizeof entry}, {&sizes[0], sizeof sizes[0]},
                       {source, sizes[0]},     {&sizes[1], sizeof sizes[1]},
                       {reason, sizes[1]},     {&sizes[2], sizeof sizes[2]},
                       {detail, sizes[2]}};
    if (!kf_dictionary_add(pool, KF_ENTRY_LEDGER, parts, KB_COUNT(parts)))
        kb_log(KINETO_LOG_WARNING, "%s: %s: %llu (%s)", source, reason, (unsigned long long)count,
               detail);
}

void ks_pool_note(const kf_pool *pool, const char *source, const char *reason, uint64_t count,
                  bool is_loss, const char *detail)
{
    ks_pool_note_at(pool, source, reason, count, is_loss, detail, 0);
}

/* ---- the header of traces -------------------------------------------------------------------- */

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
    char json[6 * MAX_JOB_TEXT + 8];
    uint64_t replaced = 0;
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        const char *text = kb_setting(names[i]);
        kineto_string value = kb_string(text ? text : "");
        if (!value.size)
            continue;
        value.size = kb_utf8_valid_prefix(value.data, KB_MIN(value.size, (size_t)MAX_JOB_TEXT));
        *kb_json_escape(json, value, &replaced) = '\0';
        ks_pool_metadata(pool, names[i], json);
    }
}
