/* Who attached to a pool: entries of its dictionary, which anyone may have written. */
#include "session/session.h"

static bool visit_entry(const uint64_t *entry, uint64_t header, uint32_t words,
                        ks_process_visit *visit, void *context)
{
    const uint8_t *payload = (const uint8_t *)(entry + 1);
    size_t bytes = KB_MIN((size_t)(header >> 32), (size_t)(words - 1) * 8);
    size_t text_at = sizeof(kf_process_entry);
    kf_process_entry p;
    if (kf_entry_header_type(header) != KF_ENTRY_PROCESS || bytes < sizeof p)
        return true;
    memcpy(&p, payload, sizeof p);
    return visit(context, &p, kf_entry_text(payload, bytes, &text_at));
}

void ks_pool_processes(const kf_pool *pool, ks_process_visit *visit, void *context)
{
    uint32_t used =
        KB_MIN(kb_load_acquire(&pool->control->dictionary_used), pool->dictionary_words);
    for (uint32_t at = 1, words; at < used; at += words) {
        uint64_t header = kb_load_acquire(&pool->dictionary[at]);
        words = kf_entry_header_words(header);
        if (words == 0 || words > used - at ||
            !visit_entry(pool->dictionary + at, header, words, visit, context))
            return;
    }
}
