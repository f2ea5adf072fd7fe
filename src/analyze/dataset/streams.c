/* Which streams were asked for. */
#include "analyze/dataset/dataset.h"

bool ka_stream_wanted(const kineto_analyze_options *options, int64_t id)
{
    const char *at = options->streams;
    while (at && *at) {
        char *end;
        if (strtoll(at, &end, 10) == id && end != at)
            return true;
        at = *end ? end + 1 : end;
    }
    return !options->streams;
}

/* "7, 20", each once, of `ids` in order. */
static void list(const int64_t *ids, size_t count, char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used + 24 < size; i++)
        if (!i || ids[i] != ids[i - 1])
            used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "",
                                     (long long)ids[i]);
    if (used + 24 >= size)
        snprintf(text + used, size - used, ", ...");
}

bool ka_streams_missing(const kineto_trace *t, const char *streams, int64_t rank, char *text,
                        size_t size)
{
    const kineto_analyze_options options = {.streams = streams};
    KB_VEC(int64_t) ids = {0};
    bool wanted = !streams, ok = true;
    char there[160];
    for (uint32_t i = 0; i < kineto_trace_track_count(t) && !wanted && ok; i++) {
        kineto_track k;
        kineto_trace_track(t, i, &k);
        if (k.type != KINETO_TRACK_STREAM || !k.count)
            continue;
        wanted = ka_stream_wanted(&options, k.id);
        ok = kb_vec_push(&ids, k.id);
    }
    text[0] = '\0';
    if (!wanted && ids.count) {
        qsort(ids.data, ids.count, sizeof *ids.data, kb_compare_int64);
        list(ids.data, ids.count, there, sizeof there);
        (void)kb_snprintf(text, size,
                          "none of the streams %.60s is in the trace of rank %lld, which has %s",
                          streams, (long long)rank, there);
    }
    kb_vec_free(&ids);
    return ok;
}
