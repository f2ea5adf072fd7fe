/* Names of reasons for idle time, the reason of a gap, and the sentence of the table idle_gaps
 * with the evidence for it. */
#include "analyze/facts/idle.h"

const char *ka_idle_name(ka_idle reason)
{
    static const char *const names[] = {
#define KA_X(name, text) text,
        KA_IDLE_MAP(KA_X)
#undef KA_X
    };
    return reason < KA_IDLE_COUNT ? names[reason] : "unknown";
}

ka_idle ka_idle_of(kineto_string name)
{
    for (uint32_t i = 0; i < KA_IDLE_COUNT; i++)
        if (kb_string_equal(name, kb_string(ka_idle_name((ka_idle)i))))
            return (ka_idle)i;
    KB_ASSERT(false); /* the table has names of ka_idle_name only */
    return KA_IDLE_UNKNOWN;
}

ka_idle ka_gap_reason(const ka_gap *gap)
{
    uint32_t best = KA_IDLE_UNKNOWN;
    for (uint32_t r = 0; r < KA_IDLE_COUNT; r++)
        if (gap->ns[r] > gap->ns[best])
            best = r;
    return (ka_idle)best;
}

/* A text under construction in a buffer of the caller's. What does not fit is cut; `size`
 * stays below `room`. */
typedef struct sentence {
    char *text;
    size_t room, size;
} sentence;

KINETO_PRINTF(2, 3) static void append_phrase(sentence *to, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = kb_vsnprintf(to->text + to->size, to->room - to->size, fmt, args);
    va_end(args);
    if (n > 0)
        to->size = KB_MIN(to->size + (size_t)n, to->room - 1);
}

/* Bytes of a name in a sentence. */
#define MAX_OF_NAME 60u
/* Appends the beginning of a name, cut between characters of UTF-8: names of kernels
 * (templates) are long. */
static void say_name(sentence *to, kineto_string name)
{
    size_t size = KB_MIN(name.size, (size_t)MAX_OF_NAME);
    size -= size < name.size ? size - kb_utf8_valid_prefix(name.data, size) : 0;
    append_phrase(to, "%.*s%s", (int)size, name.data, size < name.size ? "..." : "");
}

static void say_work(sentence *to, const ka_dataset *s, uint32_t work)
{
    say_name(to, ka_name(s, s->work[work].name));
    append_phrase(to, " on stream %lld", (long long)s->streams[s->work[work].stream].id);
}

/* ---- what the host did ----------------------------------------------------------------------- */

/* The longest part of a gap that has the gap's reason; `slice` may be KA_NONE (outside of
 * every range). */
typedef struct longest {
    ka_idle reason;
    uint32_t slice;
    int64_t ns;
} longest;

static void keep_longest(void *context, uint32_t slice, ka_idle reason, int64_t ns)
{
    longest *l = context;
    if (reason != l->reason || ns <= l->ns)
        return;
    l->slice = slice;
    l->ns = ns;
}

/* Appends the range, the operator that encloses it (except for operators themselves), and how
 * long the range took. */
static void say_slice(sentence *to, const ka_dataset *s, uint32_t slice)
{
    const ka_slice *at = &s->slices[slice];
    uint32_t around = at->kind == KINETO_KIND_CPU_OP ? KA_NONE : ka_operator_around(s, slice);
    say_name(to, ka_name(s, at->name));
    if (around != KA_NONE) {
        append_phrase(to, " of ");
        say_name(to, ka_name(s, s->slices[around].name));
    }
    append_phrase(to, " (%s)", kb_duration(ka_slice_ns(at)).s);
}

/* The sentence for reasons of the host. It names the thread of the longest part, or the one of
 * the call where that part is in no range. */
static void say_host(sentence *to, const ka_dataset *s, const ka_gap *gap, const longest *l)
{
    uint32_t call = s->work[gap->after].call;
    uint32_t thread =
        s->slices[l->slice == KA_NONE ? call : l->slice].thread; /* a host reason has a call */
    append_phrase(to, "thread %lld was ", (long long)s->threads[thread].id);
    if (l->slice == KA_NONE) {
        append_phrase(to, "outside of every recorded range");
    } else {
        append_phrase(to, "in ");
        say_slice(to, s, l->slice);
    }
    append_phrase(to, " for %s of it", kb_duration(l->ns).s);
}

/* The state, other than running, in which the launching thread was longest; ns 0: none. */
typedef struct longest_state {
    char words[130];
    int64_t ns;
} longest_state;

static void keep_longest_state(void *context, kineto_string words, int64_t ns)
{
    longest_state *l = context;
    if (ns <= l->ns || kb_string_equal(words, kb_string(ka_state_name(KA_STATE_RUNNING))) ||
        kb_string_equal(words, kb_string(KA_STATE_UNKNOWN)))
        return;
    l->ns = ns;
    (void)snprintf(l->words, sizeof l->words, "%.*s", (int)KB_MIN(words.size, (size_t)120), words.data);
}

#define MIN_STATE_PERCENT 5 /* of a gap: shorter states explain little */
/* Appends that the launching thread had no CPU, or was blocked, for a part of the gap. */
static void say_state(sentence *to, ka_idleness *idle, const ka_gap *gap)
{
    longest_state l = {.ns = 0};
    int64_t gap_ns = kb_length_ns(gap->start_ns, gap->end_ns);
    if (!ka_has_host_states(idle))
        return;
    ka_gap_states(idle, gap, keep_longest_state, &l);
    if (l.ns <= gap_ns / 100 * MIN_STATE_PERCENT)
        return;
    uint32_t call = idle->s->work[gap->after].call;
    append_phrase(to, "; thread %lld, which launched what came next, was %s for %s",
                  (long long)idle->s->threads[idle->s->slices[call].thread].id, l.words,
                  kb_duration(l.ns).s);
}

/* ---- what the device did --------------------------------------------------------------------- */

/* Appends when the work after the gap was launched. Without a record of its call it was
 * launched no later than what follows it in its stream, which queued_ns is then. */
static void say_launch(sentence *to, const ka_idleness *idle, const ka_gap *gap)
{
    const ka_dataset *s = idle->s;
    const ka_work *w = &s->work[gap->after];
    if (w->call == KA_NONE) {
        append_phrase(to,
                      idle->hosts.launches[gap->after].queued_ns <= gap->start_ns
                          ? "what came next was launched before, by a call that was not recorded"
                          : "the trace does not have the call that launched what came next");
        return;
    }
    int64_t queued_ns = KB_MIN(idle->hosts.launches[gap->after].queued_ns, w->start_ns);
    say_name(to, ka_name(s, s->slices[w->call].name));
    append_phrase(to, " launched what came next %s before it began",
                  kb_duration(kb_length_ns(queued_ns, w->start_ns)).s);
}

/* The list is in the order of ends, so nothing bounds the starts: of work that ends after the
 * gap only the first MAX_LATER pieces are checked. */
#define MAX_LATER 64u
/* The work of another stream that took the most of the gap; of what ended later, the first ones are
 * looked at. */
static uint32_t longest_other(const ka_idleness *idle, const ka_gap *gap, ka_idle reason,
                              int64_t *ns)
{
    const ka_dataset *s = idle->s;
    const ka_device *d = &idle->devices.data[gap->device];
    uint32_t best = KA_NONE, later = 0;
    *ns = 0;
    for (size_t i = ka_ends_until(d, gap->start_ns); i < d->ends.count && later < MAX_LATER; i++) {
        const ka_work *w = &s->work[d->ends.data[i].work];
        int64_t length =
            kb_length_ns(KB_MAX(w->start_ns, gap->start_ns), KB_MIN(w->end_ns, gap->end_ns));
        later += w->end_ns > gap->end_ns;
        if (w->stream == s->work[gap->after].stream || length <= *ns ||
            (reason == KA_IDLE_OTHER_RANK) != (w->type == KA_TYPE_COMMUNICATION))
            continue;
        *ns = length;
        best = d->ends.data[i].work;
    }
    return best;
}

/* For waits on another stream or rank: the longest work there, unrecorded work of graphs, and
 * the work whose end released the stream. */
static void say_others(sentence *to, const ka_idleness *idle, const ka_gap *gap, ka_idle reason)
{
    int64_t ns, unrecorded = ka_sums_within(&idle->devices.data[gap->device].unrecorded,
                                            gap->start_ns, gap->end_ns);
    uint32_t other = longest_other(idle, gap, reason, &ns), graph = ka_gap_graph(idle, gap),
             release = ka_released_by(idle, gap, gap->start_ns, gap->end_ns);
    if (other != KA_NONE) {
        append_phrase(to, "; over %s of it ran ", kb_duration(ns).s);
        say_work(to, idle->s, other);
    }
    if (unrecorded > 0 && graph != KA_NONE)
        append_phrase(to, "; over %s a graph on stream %lld did what was not recorded",
                      kb_duration(unrecorded).s,
                      (long long)idle->s->streams[idle->s->work[graph].stream].id);
    if (release == KA_NONE)
        return;
    append_phrase(to, "; what ended last, %s before, was ",
                  kb_duration(kb_length_ns(idle->s->work[release].end_ns, gap->end_ns)).s);
    say_work(to, idle->s, release);
}

/* For time without a record inside of graphs: which graph it was and, if the gap came back in
 * other launches, how long it was in these. */
static void say_unrecorded(sentence *to, const ka_idleness *idle, const ka_gap *gap)
{
    uint32_t graph = gap->whole ? ka_gap_graph(idle, gap) : gap->after;
    if (graph == KA_NONE)
        return;
    const ka_work *w = &idle->s->work[graph];
    const ka_recurrence *r = ka_recurrence_of(idle, graph);
    if (gap->whole && graph != gap->after) {
        append_phrase(to, "; stream %lld meanwhile had a graph, whose next recorded part was ",
                      (long long)idle->s->streams[w->stream].id);
        say_name(to, ka_name(idle->s, w->name));
    } else {
        append_phrase(to, "; it is part of a graph, of which nothing was recorded for this time");
    }
    if (r && r->count > 1)
        append_phrase(to, "; in %llu launches the gap at this place of the graph was %s to %s",
                      (unsigned long long)r->count, kb_duration(r->least_ns).s,
                      kb_duration(r->most_ns).s);
}

static void say_device(sentence *to, const ka_idleness *idle, const ka_gap *gap, ka_idle reason)
{
    say_launch(to, idle, gap);
    if (reason == KA_IDLE_OTHER_STREAM || reason == KA_IDLE_OTHER_RANK)
        say_others(to, idle, gap, reason);
    else if (reason == KA_IDLE_UNRECORDED_WORK)
        say_unrecorded(to, idle, gap);
    else if (reason == KA_IDLE_UNKNOWN &&
             !ka_sums_within(&idle->devices.data[gap->device].busy, gap->start_ns, gap->end_ns))
        append_phrase(to, "; nothing else of the device ran meanwhile");
}

/* How many launches of the stream had not begun when this call was made; nothing for a call
 * without work. */
static void say_waiting(sentence *to, const ka_idleness *idle, uint32_t slice)
{
    const ka_slice *call = &idle->s->slices[slice];
    if (!call->work_count)
        return;
    const ka_work *w = &idle->s->work[idle->s->launched[call->first_work]];
    append_phrase(to, "; %u launches were waiting in stream %lld",
                  ka_hosts_waiting(&idle->hosts, w->stream, call->start_ns),
                  (long long)idle->s->streams[w->stream].id);
}

size_t ka_gap_evidence(ka_idleness *idle, const ka_gap *gap, char *text, size_t room)
{
    sentence to = {text, room, 0};
    longest l = {ka_gap_reason(gap), KA_NONE, 0};
    bool by_host = l.reason < KA_IDLE_OTHER_STREAM;
    text[0] = '\0';
    if (by_host && ka_gap_parts(idle, gap, keep_longest, &l) && l.ns) {
        say_host(&to, idle->s, gap, &l);
        if (l.reason == KA_IDLE_FULL_QUEUE && l.slice != KA_NONE)
            say_waiting(&to, idle, l.slice);
    } else {
        say_device(&to, idle, gap, l.reason);
    }
    say_state(&to, idle, gap);
    return to.size;
}
