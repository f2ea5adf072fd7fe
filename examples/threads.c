/* A small pipeline that is recorded: producers pass jobs to workers. Shows thread names, ranges
 * with typed arguments, counters, flows between threads, and ranges that end on another thread.
 *
 *   threads [FILE]      default: threads.json
 */
#include <ckineto/ckineto.h>

#include <pthread.h>
#include <stdio.h>

enum { PRODUCERS = 2, WORKERS = 2, JOBS_EACH = 20, JOBS = PRODUCERS * JOBS_EACH };

KINETO_SITE_ARGS(produce_site, KINETO_KIND_CPU_OP, "produce", {"job", KINETO_ARG_INT});
KINETO_SITE_ARGS(work_site, KINETO_KIND_CPU_OP, "work", {"job", KINETO_ARG_INT},
                 {"terms", KINETO_ARG_INT});
KINETO_SITE_ARGS(result_site, KINETO_KIND_CPU_OP, "work result", {"sum", KINETO_ARG_DOUBLE});
KINETO_SITE(job_site, KINETO_KIND_USER_ANNOTATION, "job");
KINETO_SITE(empty_site, KINETO_KIND_CPU_INSTANT_EVENT, "queue is empty");
KINETO_SITE_ARGS(queue_site, KINETO_KIND_COUNTER, "queue", {"waiting", KINETO_ARG_INT});

/* A stack of job numbers under a lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    int jobs[JOBS];
    int count, taken;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

/* Records the length of the queue. The lock is held, so that the samples are in order. */
static void sample_queue(void)
{
    kineto_value waiting[] = {{.i = queue.count}};
    kineto_counter_sample(&queue_site, waiting);
}

/* Adds a job and wakes one worker. */
static void put_job(int job)
{
    pthread_mutex_lock(&queue.lock);
    queue.jobs[queue.count++] = job;
    sample_queue();
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
}

/* The next job; 0 when all have been taken. */
static int take_job(void)
{
    int job = 0;
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0 && queue.taken < JOBS) {
        kineto_instant_mark(&empty_site, NULL);
        pthread_cond_wait(&queue.filled, &queue.lock);
    }
    if (queue.count > 0) {
        job = queue.jobs[--queue.count];
        queue.taken++;
        sample_queue();
    }
    if (queue.taken == JOBS)
        pthread_cond_broadcast(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
    return job;
}

/* A producer thread: begins a job as an asynchronous range and a flow, and queues it. */
static void *run_producer(void *first)
{
    int job = *(int *)first;
    kineto_thread_set_name("producer");
    for (int i = 0; i < JOBS_EACH; i++, job++) {
        kineto_value args[] = {{.i = job}};
        kineto_range range = kineto_range_begin_args(&produce_site, args);
        kineto_async_begin(&job_site, (uint64_t)job, NULL);
        kineto_flow_begin(KINETO_FLOW_USER, (uint64_t)job);
        put_job(job);
        kineto_range_end(range);
    }
    return NULL;
}

/* Some work whose result can be checked. */
static double sum_harmonic(int terms)
{
    double sum = 0;
    for (int i = 1; i <= terms; i++)
        sum += 1.0 / i;
    return sum;
}

/* A worker thread: ends the flow and the job, and adds the result to its arguments. */
static void *run_worker(void *total)
{
    int job;
    KINETO_SCOPED("serve");
    kineto_thread_set_name("worker");
    while ((job = take_job()) != 0) {
        int terms = job * 1000;
        kineto_value args[] = {{.i = job}, {.i = terms}};
        kineto_range range = kineto_range_begin_args(&work_site, args);
        kineto_flow_end(KINETO_FLOW_USER, (uint64_t)job);
        kineto_value result[] = {{.d = sum_harmonic(terms)}};
        *(double *)total += result[0].d;
        kineto_range_args(range, &result_site, result);
        kineto_range_end(range);
        kineto_async_end(&job_site, (uint64_t)job);
    }
    return NULL;
}

/* Starts all threads, waits for them and adds up their results. */
static double run_pipeline(void)
{
    pthread_t threads[PRODUCERS + WORKERS];
    int first[PRODUCERS];
    double totals[WORKERS] = {0}, sum = 0;
    KINETO_SCOPED("pipeline");

    for (int i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, run_worker, &totals[i]);
    for (int i = 0; i < PRODUCERS; i++) {
        first[i] = 1 + i * JOBS_EACH;
        pthread_create(&threads[WORKERS + i], NULL, run_producer, &first[i]);
    }
    for (int i = 0; i < PRODUCERS + WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKERS; i++)
        sum += totals[i];
    return sum;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "threads.json";
    kineto_session *session = NULL;
    kineto_trace *trace = NULL;
    kineto_error error;
    int failed = 1;

    kineto_process_set_name("pipeline");
    kineto_metadata_add("pipeline", "{\"producers\": 2, \"workers\": 2}");
    if (kineto_session_create(NULL, &session, &error) != KINETO_OK ||
        kineto_session_start(session, &error) != KINETO_OK)
        goto done;
    printf("sum %.6f\n", run_pipeline());
    if (kineto_session_stop(session, &trace, &error) != KINETO_OK)
        goto done;
    if (kineto_trace_save(trace, path, &error) != KINETO_OK)
        goto done;
    printf("%llu activities in %s, %llu lost\n", (unsigned long long)kineto_trace_count(trace),
           path, (unsigned long long)kineto_trace_lost(trace));
    failed = 0;
done:
    if (failed)
        fprintf(stderr, "threads: %s\n", error.message);
    kineto_trace_release(trace);
    kineto_session_destroy(session);
    return failed;
}
