/* Reading the events of a file by several threads.
 *
 * The text is cut into batches of a fixed size, so that the result does not depend on how many
 * threads there are. Where the first event of a batch begins is guessed, and known for certain when
 * the batch before has been read: a wrong guess costs reading the batch once more. Batches are read
 * side by side; what they find enters the trace in their order, a short turn each; their rows are
 * copied to their places side by side again. */
#include "trace/read/read.h"

typedef struct load {
    kt_reader *r;
    size_t begin;  /* offset behind the array's opening bracket */
    uint64_t next; /* batch to be read next */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t turn;   /* batch whose turn it is */
    size_t expected; /* where that one has to begin, and */
    bool comma_due;  /* whether a comma comes first */
    bool one_batch;  /* go no further for now */
    bool done;       /* the array has ended, or something failed */
    size_t stop;
    kineto_status status;
} load;

/* Where batch k ends: batches lie on a grid of the file. */
static size_t limit_of(const load *l, uint64_t k)
{
    return (l->begin / KT_BATCH_BYTES + k + 1) * KT_BATCH_BYTES;
}

static void read_batch(load *l, kt_batch *p, uint64_t k)
{
    size_t start = k == 0 ? l->begin : kt_batch_guess(l->r->input, limit_of(l, k - 1));
    if (start == SIZE_MAX)
        p->start = SIZE_MAX;
    else
        kt_batch_read(p, l->r->input, start, limit_of(l, k), k == 0);
}

static kineto_status batch_failed(const load *l, kt_batch *p)
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

/* Under the lock: enter what the batch found into the trace. */
static void take_turn(load *l, kt_batch *p, uint64_t k)
{
    if (p->start != l->expected || l->comma_due != (k > 0))
        kt_batch_read(p, l->r->input, l->expected, limit_of(l, k), !l->comma_due);
    l->status = p->failed || p->out_of_memory ? batch_failed(l, p) : kt_read_turn(l->r, p);
    l->expected = p->stop;
    l->comma_due = p->comma_due;
    l->stop = p->stop;
    l->done = p->at_end || l->status != KINETO_OK;
}

static void *work(void *argument)
{
    load *l = argument;
    kt_batch *p = kt_batch_create(l->r->seed, l->r->strict, l->r->ts_unit_ns);
    for (bool done = false; !done && !(l->one_batch && l->next);) {
        uint64_t k = kb_add_relaxed(&l->next, 1);
        if (p)
            read_batch(l, p, k);
        pthread_mutex_lock(&l->mutex);
        while (l->turn != k && !l->done)
            pthread_cond_wait(&l->changed, &l->mutex);
        done = l->done;
        if (!done && !p)
            l->status = kt_read_no_memory(l->r);
        else if (!done)
            take_turn(l, p, k);
        bool settle = !done && l->status == KINETO_OK;
        l->done = l->done || l->status != KINETO_OK;
        size_t passed = KB_MIN(l->stop, limit_of(l, k) - 1); /* guesses look at the byte before */
        l->turn++;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->mutex);
        if (settle)
            kt_input_passed(l->r->input, passed);
        kt_store_check(l->r->store);
        if (settle)
            kt_batch_settle(p, l->r->used_base_ns, l->r->kind_category);
    }
    kt_batch_free(p);
    return NULL;
}

static uint32_t useful_threads(const kt_reader *r)
{
    size_t ready = kt_input_ready(r->input, KT_BATCH_BYTES * 2);
    return ready >= KT_BATCH_BYTES * 2 ? r->threads : 1;
}

/* A text may hold any number of short lists, and other threads would look for their beginnings far behind
 * each: of all but the first list, the first batch is read alone. */
static bool ends_with_first_batch(load *l)
{
    if (!l->r->lists++)
        return false;
    l->one_batch = true;
    work(l);
    l->one_batch = false;
    return l->done;
}

kineto_status kt_read_events(kt_reader *r, size_t offset, size_t *stop)
{
    enum { MOST_THREADS = 64 };
    pthread_t threads[MOST_THREADS];
    load l = {.r = r, .begin = offset, .expected = offset};
    pthread_mutex_init(&l.mutex, NULL);
    pthread_cond_init(&l.changed, NULL);
    uint32_t wanted = KB_MIN(useful_threads(r), (uint32_t)MOST_THREADS);
    uint32_t started = 0;
    bool ended = ends_with_first_batch(&l);
    while (!ended && started < wanted - 1 && kb_thread_start(&threads[started], work, &l) == 0)
        started++;
    if (!ended)
        work(&l);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&l.mutex);
    pthread_cond_destroy(&l.changed);
    *stop = l.stop;
    return l.status;
}
