/* Reads the events of a file by several threads.
 *
 * The text is cut into batches of a fixed size, so that the result does not depend on the
 * number of threads. The beginning of the first event of a batch is guessed, and verified
 * when the previous batch has been committed: after a wrong guess, the batch is parsed
 * again. Batches are parsed in parallel, committed in the order of the file (under the
 * mutex, one at a time), and their rows are copied into blocks in parallel. */
#include "trace/read/read.h"

typedef struct load {
    kt_reader *r;
    size_t begin;  /* offset after the opening bracket of the array */
    uint64_t next; /* next batch to parse; atomic */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex: */
    uint64_t turn;   /* the batch that is committed next */
    size_t expected; /* where that batch must begin */
    bool comma_due;  /* it must begin with a comma */
    bool one_batch;  /* stop after the first batch; constant while threads run */
    bool done;       /* the array has ended, or reading failed; never reset */
    size_t stop;     /* end of the last committed batch */
    kineto_status status;
} load;

/* ---- guessing -------------------------------------------------------------------------------- */

static const char *skip_json_space(const char *at, const char *end)
{
    while (at < end && kt_is_space(*at))
        at++;
    return at;
}

/* True if an event seems to begin here: a comma, a brace and the key of a member of events. */
static bool begins_event_object(const char *at, const char *end)
{
    static const char *const keys[] = {"\"ph\"",  "\"name\"", "\"cat\"",  "\"pid\"",
                                       "\"tid\"", "\"ts\"",   "\"args\"", "\"dur\""};
    at = skip_json_space(at, end);
    if (at == end || *at++ != ',')
        return false;
    at = skip_json_space(at, end);
    if (at == end || *at++ != '{')
        return false;
    at = skip_json_space(at, end);
    for (size_t i = 0; i < KB_COUNT(keys); i++) {
        size_t size = strlen(keys[i]);
        if ((size_t)(end - at) >= size && memcmp(at, keys[i], size) == 0)
            return true;
    }
    return false;
}

/* Guesses where an element of the array ends: the first such offset at or after `offset`;
 * SIZE_MAX: none within one batch. The guess is verified when the previous batch is
 * committed. */
static size_t guess_batch_start(kt_input *input, size_t offset)
{
    size_t ready = kt_input_ready(input, offset + KT_BATCH_BYTES);
    size_t most = KB_MIN(ready, offset + KT_BATCH_BYTES);
    const char *end = input->base + most;
    if (offset == 0 || offset > most)
        return SIZE_MAX;
    for (const char *at = input->base + offset - 1;
         (at = memchr(at, '}', (size_t)(end - at))) != NULL;)
        if (begins_event_object(++at, end))
            return (size_t)(at - input->base);
    return SIZE_MAX;
}

/* ---- batches -------------------------------------------------------------------------------- */

/* The end of batch k: batches lie on a fixed grid of the file. */
static size_t batch_limit(const load *l, uint64_t k)
{
    return (l->begin / KT_BATCH_BYTES + k + 1) * KT_BATCH_BYTES;
}

/* Parses batch k from its guessed beginning; without one, commit_next_batch parses it. */
static void parse_batch(load *l, kt_batch *p, uint64_t k)
{
    size_t start = k == 0 ? l->begin : guess_batch_start(l->r->input, batch_limit(l, k - 1));
    if (start == SIZE_MAX)
        p->start = SIZE_MAX;
    else
        kt_batch_read(p, l->r->input, start, batch_limit(l, k), k == 0);
}

/* Reports why a batch failed, as precisely as the strict parser can. */
static kineto_status explain_batch_failure(const load *l, kt_batch *p)
{
    if (p->out_of_memory)
        return kt_read_no_memory(l->r);
    if (kt_input_status(l->r->input) == KINETO_E_LIMIT)
        return KINETO_E_LIMIT;
    bool first = p->stop == l->begin;
    kineto_status status = kt_read_explain(l->r, p->stop, first, '[');
    return status != KINETO_OK ? status
                               : kt_read_fail(l->r, p->cursor->problem_at, p->cursor->problem);
}

/* With the mutex held, in the order of batches: commits a batch to the trace. If its
 * beginning was guessed wrong, it is parsed again first. */
static void commit_next_batch(load *l, kt_batch *p, uint64_t k)
{
    KB_ASSERT(l->turn == k && !l->done && l->status == KINETO_OK);
    if (p->start != l->expected || l->comma_due != (k > 0))
        kt_batch_read(p, l->r->input, l->expected, batch_limit(l, k), !l->comma_due);
    l->status = p->failed || p->out_of_memory ? explain_batch_failure(l, p) : kt_batch_commit(l->r,
                                                                                              p);
    KB_ASSERT(l->status != KINETO_OK || (p->start == l->expected && p->stop >= p->start));
    l->expected = p->stop;
    l->comma_due = p->comma_due;
    l->stop = p->stop;
    l->done = p->at_end || l->status != KINETO_OK;
}

/* The loop of each reading thread: take a batch, parse it, wait for its turn, commit it,
 * copy its rows. */
static void *run_reader_thread(void *argument)
{
    load *l = argument;
    kt_batch *p = kt_batch_create(l->r->seed, l->r->strict, l->r->ts_unit_ns);
    for (bool done = false; !done && !(l->one_batch && l->next);) {
        uint64_t k = kb_add_relaxed(&l->next, 1);
        if (p)
            parse_batch(l, p, k);
        pthread_mutex_lock(&l->mutex);
        while (l->turn != k && !l->done)
            pthread_cond_wait(&l->changed, &l->mutex);
        done = l->done;
        if (!done && !p)
            l->status = kt_read_no_memory(l->r);
        else if (!done)
            commit_next_batch(l, p, k);
        KB_ASSERT(done || l->turn == k);
        bool settle = !done && l->status == KINETO_OK;
        l->done = l->done || l->status != KINETO_OK;
        size_t passed = kb_min_u64(l->stop, batch_limit(l, k) - 1); /* a guess reads the byte before */
        l->turn++;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->mutex);
        if (settle)
            kt_input_mark_passed(l->r->input, passed);
        kt_store_check(l->r->store);
        if (settle)
            kt_batch_write_rows(p, l->r->used_base_ns, l->r->kind_category);
    }
    kt_batch_free(p);
    return NULL;
}

/* Small texts are read by one thread. */
static uint32_t count_useful_threads(const kt_reader *r)
{
    size_t ready = kt_input_ready(r->input, KT_BATCH_BYTES * 2);
    return ready >= KT_BATCH_BYTES * 2 ? r->threads : 1;
}

/* A text may hold any number of short lists, and parsing in parallel would read far past
 * the end of each. So the first batch of every list but the first is read by one thread.
 * True: the list ends in it. */
static bool read_first_batch_alone(load *l)
{
    if (!l->r->lists++)
        return false;
    l->one_batch = true;
    run_reader_thread(l);
    l->one_batch = false;
    return l->done;
}

kineto_status kt_read_events(kt_reader *r, size_t offset, size_t *stop)
{
    enum { MAX_THREADS = 64 };
    pthread_t threads[MAX_THREADS];
    load l = {.r = r, .begin = offset, .expected = offset};
    pthread_mutex_init(&l.mutex, NULL);
    pthread_cond_init(&l.changed, NULL);
    uint32_t wanted = kb_min_u32(count_useful_threads(r), (uint32_t)MAX_THREADS);
    uint32_t started = 0;
    bool ended = read_first_batch_alone(&l);
    while (!ended && started < wanted - 1 &&
           kb_thread_start(&threads[started], run_reader_thread, &l) == 0)
        started++;
    if (!ended)
        run_reader_thread(&l);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&l.mutex);
    pthread_cond_destroy(&l.changed);
    *stop = l.stop;
    return l.status;
}
