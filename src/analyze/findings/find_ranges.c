/* The rule about ranges of the user that usually are short and sometimes take long. The slow calls of a name
 * are those above the widest step in its sorted lengths; their cause is the state of their thread, or the
 * inner range, that takes longer in them than in the usual calls. */
#include "analyze/dataset/thread_time.h"
#include "analyze/findings/find_work.h"

#define MIN_CALLS          20u
#define MAX_SLOW_PERCENT   10.0 /* of the calls: more are a second kind of call */
#define MIN_TIMES          5    /* the median: the shortest slow call */
#define MIN_EXCESS_PERCENT 10.0 /* of the time of all its calls, that slow ones take above the median … */
#define MIN_SHARE_PERCENT  1.0  /* … and of the time of all */
#define MAX_COMPARED       1000u /* calls of each side whose contents are added up */
#define MIN_CAUSE          0.5  /* of the excess: then the cause is named */

typedef KB_VEC(uint32_t) slice_list;

/* Calls of one name, by length; the last `slow` of them are the slow ones. */
typedef struct calls {
    const uint32_t *list;
    size_t count, slow;
    int64_t median_ns, sum_ns, slow_ns, excess_ns, saved_ns;
} calls;

typedef KB_VEC(calls) calls_list;

/* ---- which calls are slow -------------------------------------------------------------------- */

static int compare_lengths(const void *left, const void *right, void *slices)
{
    const ka_slice *a = &((const ka_slice *)slices)[*(const uint32_t *)left],
                   *b = &((const ka_slice *)slices)[*(const uint32_t *)right];
    if (a->name != b->name)
        return KB_COMPARE(a->name, b->name);
    return ka_slice_ns(a) != ka_slice_ns(b) ? KB_COMPARE(ka_slice_ns(a), ka_slice_ns(b))
                                            : KB_COMPARE(a->row, b->row);
}

static int64_t call_ns(const ka_finder *f, const calls *c, size_t i)
{
    return ka_slice_ns(&f->s->slices[c->list[i]]);
}

/* Where the lengths rise by the largest factor, weighted with the time above it. 0: nowhere. */
static size_t count_slow(const ka_finder *f, const calls *c)
{
    size_t slow = 0, most = (size_t)((double)c->count * MAX_SLOW_PERCENT / 100);
    double above_ns = 0, best = 0;
    for (size_t n = 1; n <= most; n++) {
        int64_t ns = call_ns(f, c, c->count - n), below_ns = KB_MAX(call_ns(f, c, c->count - n - 1), 1);
        above_ns += (double)ns;
        double weight = above_ns * ((double)ns / (double)below_ns - 1);
        if (ns / MIN_TIMES >= c->median_ns && weight > best) {
            best = weight;
            slow = n;
        }
    }
    return slow;
}

/* Slow calls of several threads run side by side: what the thread with most of them would save. */
static int64_t find_most_of_a_thread(ka_finder *f, const calls *c)
{
    int64_t most = 0, *ns = calloc((size_t)f->s->thread_count + 1, sizeof *ns);
    f->no_memory |= !ns;
    for (size_t i = c->count - c->slow; ns && i < c->count; i++) {
        uint32_t thread = f->s->slices[c->list[i]].thread;
        ns[thread] = ka_add_ns(ns[thread], call_ns(f, c, i) - c->median_ns);
        most = KB_MAX(most, ns[thread]);
    }
    free(ns);
    return most;
}

/* Is every slow call the first one of its name in its thread? Those are first-time work. */
static bool are_first_calls(const ka_finder *f, const calls *c)
{
    for (size_t i = c->count - c->slow; i < c->count; i++)
        for (size_t k = 0; k < c->count; k++)
            if (f->s->slices[c->list[k]].thread == f->s->slices[c->list[i]].thread &&
                f->s->slices[c->list[k]].start_ns < f->s->slices[c->list[i]].start_ns)
                return false;
    return true;
}

static bool has_slow_calls(ka_finder *f, calls *c)
{
    if (c->count < MIN_CALLS)
        return false;
    c->median_ns = call_ns(f, c, c->count / 2);
    c->slow = count_slow(f, c);
    for (size_t i = 0; i < c->count; i++)
        c->sum_ns = ka_add_ns(c->sum_ns, call_ns(f, c, i));
    for (size_t i = c->count - c->slow; i < c->count; i++) {
        c->slow_ns = ka_add_ns(c->slow_ns, call_ns(f, c, i));
        c->excess_ns = ka_add_ns(c->excess_ns, call_ns(f, c, i) - c->median_ns);
    }
    if (!c->slow || ka_percent((double)c->excess_ns, (double)c->sum_ns) < MIN_EXCESS_PERCENT)
        return false;
    c->saved_ns = find_most_of_a_thread(f, c);
    return ka_share(f, c->saved_ns) >= MIN_SHARE_PERCENT && !are_first_calls(f, c);
}

/* ---- what takes longer in them --------------------------------------------------------------- */

/* One thing in the calls under way, by words. */
typedef struct part {
    uint32_t words;
    bool is_state;
    double slow_ns, usual_ns; /* sums over the compared calls of each side */
} part;

typedef struct comparing {
    ka_finder *f;
    const ka_watched *w;
    const ka_blocking_calls *blocking;
    kb_intern words;
    KB_VEC(part) parts;
    bool is_slow, is_state; /* of the call under way */
} comparing;

static void add_part(void *context, kineto_string words, int64_t ns)
{
    comparing *x = context;
    uint32_t id = kb_intern_id(&x->words, words);
    size_t i = 0;
    if (kb_string_is(words, KA_STATE_UNKNOWN) || kb_string_is(words, ka_state_name(KA_STATE_RUNNING)))
        return;
    while (i < x->parts.count && x->parts.data[i].words != id)
        i++;
    x->f->no_memory |= id == KB_INTERN_NONE ||
                       (i == x->parts.count &&
                        !kb_vec_push(&x->parts, ((part){.words = id, .is_state = x->is_state})));
    if (x->f->no_memory)
        return;
    *(x->is_slow ? &x->parts.data[i].slow_ns : &x->parts.data[i].usual_ns) += (double)ns;
}

/* States of its thread, and the ranges directly in it. */
static void add_call(comparing *x, uint32_t index)
{
    const ka_dataset *s = x->f->s;
    const ka_slice *call = &s->slices[index];
    const ka_thread *thread = &s->threads[call->thread];
    x->is_state = true;
    ka_thread_time(x->w, x->blocking, thread->process, thread->id, call->start_ns, call->end_ns, add_part, x);
    x->is_state = false;
    for (uint32_t i = index + 1; i < call->next; i = s->slices[i].next)
        add_part(x, ka_name(s, s->slices[i].name), ka_slice_ns(&s->slices[i]));
}

/* Adds up the longest slow calls and as many usual ones around the median. Returns how many are compared:
 * slow ones, and usual ones in *usual. */
static size_t compare_range_calls(comparing *x, const calls *c, size_t *usual)
{
    size_t slow = KB_MIN(c->slow, MAX_COMPARED), rest = c->count - c->slow, first;
    *usual = KB_MIN(rest, MAX_COMPARED);
    first = (rest - *usual) / 2;
    x->is_slow = true;
    for (size_t i = c->count - slow; i < c->count && !x->f->no_memory; i++)
        add_call(x, c->list[i]);
    x->is_slow = false;
    for (size_t i = first; i < first + *usual && !x->f->no_memory; i++)
        add_call(x, c->list[i]);
    return slow;
}

/* Why slow calls are slow: words, and whether they are a state of the thread. Without words: not known. */
typedef struct cause {
    char words[120];
    bool is_state;
} cause;

static cause find_cause(ka_finder *f, const calls *c)
{
    comparing x = {.f = f, .w = ka_dataset_watched(f->s)};
    ka_blocking_calls blocking = {0};
    cause found = {.words = ""};
    f->no_memory |= !x.w || !ka_blocking_calls_make(f->s->trace, &blocking);
    x.blocking = &blocking;
    size_t usual, slow = f->no_memory ? 0 : compare_range_calls(&x, c, &usual);
    double most = slow ? MIN_CAUSE * (double)c->excess_ns / (double)c->slow : 0;
    for (size_t i = 0; slow && i < x.parts.count; i++) {
        const part *p = &x.parts.data[i];
        double more = p->slow_ns / (double)slow - p->usual_ns / (double)KB_MAX(usual, 1u);
        if (more < most)
            continue;
        most = more;
        found.is_state = p->is_state;
        kb_snprintf(found.words, sizeof found.words, "%s", ka_short_name(kb_intern_get(&x.words, p->words)).s);
    }
    kb_intern_free(&x.words);
    kb_vec_free(&x.parts);
    ka_blocking_calls_free(&blocking);
    return found;
}

/* ---- the finding ----------------------------------------------------------------------------- */

static void advise_slow_calls(ka_finder *f, ka_found *x, const char *name, const cause *why)
{
    if (!*why->words)
        ka_advise(f, x, "%s shows where %s spends the time in these calls",
                  f->has & (KA_NEEDS_OPERATORS | KA_NEEDS_PYTHON)
                      ? "Recording with_stack=True"
                      : "Recording with 'ckineto record --waits' (or --off-cpu)",
                  name);
    else if (strcmp(why->words, "blocked") == 0)
        ka_advise(f, x, "Record with 'ckineto record --waits' (or --off-cpu): it names the call in which the "
                        "thread is blocked");
    else if (strcmp(why->words, ka_state_name(KA_STATE_WAITING)) == 0)
        ka_advise(f, x, "Other threads or programs had the CPUs: start no more threads than CPUs, and see what "
                        "else runs on the machine");
    else if (why->is_state)
        ka_advise(f, x,
                  "Look at what %s waits for in these calls (%s): move the wait to another thread, do it less "
                  "often, or wait for the event itself", name, why->words);
    else
        ka_advise(f, x, "Look at %s in these calls of %s: do it less often, or in another thread", why->words,
                  name);
}

static void report_slow_calls(ka_finder *f, const calls *c)
{
    kineto_string name = ka_name(f->s, f->s->slices[c->list[0]].name);
    kb_text shown = ka_short_name(name);
    cause why = find_cause(f, c);
    ka_found *x = ka_open_finding(f, f->host_only ? c->saved_ns : KA_NO_SAVINGS, 0.4, name);
    char text[200] = "";
    if (!x)
        return;
    x->count = c->slow;
    ka_set_extent(x, ka_share(f, c->saved_ns));
    if (*why.words)
        kb_snprintf(text, sizeof text, why.is_state ? "; in them the thread is %s" : "; in them %s takes longer",
                    why.words);
    ka_say(f, x, "%zu of %zu calls of %s take %s or longer (median %s): they are %.0f %% of its time%s", c->slow,
           c->count, shown.s, kb_short_duration(call_ns(f, c, c->count - c->slow)).s,
           kb_short_duration(c->median_ns).s, ka_percent((double)c->slow_ns, (double)c->sum_ns), text);
    advise_slow_calls(f, x, shown.s, &why);
    for (size_t i = c->count; i > c->count - c->slow && c->count - i < f->evidence_limit; i--) {
        const ka_slice *call = &f->s->slices[c->list[i - 1]];
        ka_show_row(f, x, call->row, ka_slice_ns(call), "%.0f times the median",
                    (double)ka_slice_ns(call) / (double)KB_MAX(c->median_ns, 1));
    }
}

/* Ranges of the user within the steps that count; steps themselves have a rule of their own. */
static void list_ranges(ka_finder *f, slice_list *list)
{
    for (uint32_t i = 0; i < f->s->slice_count && !f->no_memory; i++) {
        const ka_slice *s = &f->s->slices[i];
        if (s->kind == KINETO_KIND_USER_ANNOTATION && ka_is_in_steps(f, s->step) && !ka_is_step(f->s, i))
            f->no_memory |= !kb_vec_push(list, i);
    }
    if (list->count)
        qsort_r(list->data, list->count, sizeof *list->data, compare_lengths, (void *)f->s->slices);
}

static int compare_excess(const void *left, const void *right)
{
    const calls *a = left, *b = right;
    return a->excess_ns != b->excess_ns ? KB_COMPARE(b->excess_ns, a->excess_ns)
                                        : KB_COMPARE(a->list[0], b->list[0]);
}

/* Names with slow calls, those that take the most longer first. */
static void list_slow_names(ka_finder *f, const slice_list *list, calls_list *slow)
{
    for (size_t from = 0, to; from < list->count && !f->no_memory; from = to) {
        uint32_t name = f->s->slices[list->data[from]].name;
        for (to = from + 1; to < list->count && f->s->slices[list->data[to]].name == name;)
            to++;
        calls c = {.list = list->data + from, .count = to - from};
        if (has_slow_calls(f, &c))
            f->no_memory |= !kb_vec_push(slow, c);
    }
    if (slow->count)
        qsort(slow->data, slow->count, sizeof *slow->data, compare_excess);
}

static bool is_around_or_in_reported(const ka_dataset *s, uint32_t index, const uint8_t *reported)
{
    for (uint32_t at = s->slices[index].parent; at != KA_NONE; at = s->slices[at].parent)
        if (reported[at])
            return true;
    for (uint32_t at = index + 1; at < s->slices[index].next; at++)
        if (reported[at])
            return true;
    return false;
}

/* Are most of the slow calls around or in those of a name that was reported? Then it is the same time. */
static bool is_repeated(const ka_finder *f, const calls *c, const uint8_t *reported)
{
    size_t same = 0;
    for (size_t i = c->count - c->slow; i < c->count; i++)
        same += is_around_or_in_reported(f->s, c->list[i], reported);
    return 2 * same > c->slow;
}

void ka_find_slow_calls(ka_finder *f)
{
    slice_list list = {0};
    calls_list slow = {0};
    uint8_t *reported = calloc((size_t)f->s->slice_count + 1, 1);
    f->no_memory |= !reported;
    list_ranges(f, &list);
    list_slow_names(f, &list, &slow);
    for (size_t i = 0; i < slow.count && !f->no_memory; i++) {
        const calls *c = &slow.data[i];
        if (is_repeated(f, c, reported))
            continue;
        report_slow_calls(f, c);
        for (size_t k = c->count - c->slow; k < c->count; k++)
            reported[c->list[k]] = 1;
    }
    free(reported);
    kb_vec_free(&list);
    kb_vec_free(&slow);
}
