/* A program with every construct that the source records. It counts them itself and prints the counts and a
 * checksum of its results: "regions 12\n…". */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS  8
#define NUMBERS 64

enum { REGIONS, MEMBERS, BARRIERS, TASKS, TASKWAITS, TASKGROUPS, CRITICALS, SINGLES, LOOPS, LOCKS, ORDERED, TASKLOOPS, COUNTS };
static const char *const names[] = {"regions", "implicit_tasks", "barriers", "tasks", "taskwaits", "taskgroups",
                                    "criticals", "singles", "loops", "locks", "ordered", "taskloops"};
static long counts[COUNTS], checksum;
static omp_lock_t lock;

static void count(int what) { __atomic_fetch_add(&counts[what], 1, __ATOMIC_RELAXED); }
static void add(long n) { __atomic_fetch_add(&checksum, n, __ATOMIC_RELAXED); }

static void share_work(void)
{
    count(REGIONS);
#pragma omp parallel
    {
        count(MEMBERS);
        count(LOOPS);
#pragma omp for schedule(dynamic, 7)
        for (int i = 0; i < 100; i++)
            add(i);
        count(LOOPS);
#pragma omp for schedule(guided) nowait
        for (unsigned long long i = 0; i < 100; i++)
            add((long)i);
        count(BARRIERS);
#pragma omp barrier
#pragma omp single
        count(SINGLES);
        count(CRITICALS);
#pragma omp critical
        add(1);
        count(CRITICALS);
#pragma omp critical(named)
        add(2);
        count(LOCKS);
        omp_set_lock(&lock);
        add(3);
        omp_unset_lock(&lock);
    }
}

static void combine(void)
{
    long sum = 0;
    count(REGIONS);
#pragma omp parallel for schedule(dynamic, 3) reduction(+ : sum)
    for (int i = 0; i < 50; i++)
        sum += i;
    add(sum);
    count(REGIONS);
#pragma omp parallel for ordered schedule(dynamic, 1)
    for (int i = 0; i < 8; i++) {
#pragma omp ordered
        {
            count(ORDERED);
            checksum = checksum * 3 % 1000003 + i;
        }
    }
    count(REGIONS);
#pragma omp parallel sections
    {
        add(5);
#pragma omp section
        add(6);
    }
}

static void run_tasks(void)
{
    int numbers[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i * i;
    count(REGIONS);
#pragma omp parallel
    {
        count(MEMBERS);
#pragma omp single
        {
            count(SINGLES);
            for (int k = 0; k < 8; k++) {
#pragma omp task firstprivate(numbers, k) untied
                {
                    count(TASKS);
                    add(numbers[k * 8]);
                }
            }
#pragma omp task if (0) firstprivate(numbers)
            {
                count(TASKS);
                add(numbers[NUMBERS - 1]);
            }
            count(TASKWAITS);
#pragma omp taskwait
            count(TASKGROUPS);
#pragma omp taskgroup
            {
#pragma omp task depend(out : numbers[0])
                {
                    count(TASKS);
                    add(7);
                }
#pragma omp task depend(in : numbers[0])
                {
                    count(TASKS);
                    add(11);
                }
            }
        }
    }
}

/* Reductions over tasks: the runtime reads and writes the data of regions, tasks and loops. */
static void reduce(void)
{
    long sum = 0, product = 1;
    count(REGIONS);
#pragma omp parallel num_threads(2) reduction(task, + : sum)
    {
        count(MEMBERS);
#pragma omp single
        {
            count(SINGLES);
            for (int i = 0; i < 4; i++) {
#pragma omp task in_reduction(+ : sum) firstprivate(i)
                {
                    count(TASKS);
                    sum += i;
                }
            }
        }
    }
    count(REGIONS);
#pragma omp parallel num_threads(2)
    {
        count(MEMBERS);
#pragma omp single
        {
            count(SINGLES);
            count(TASKLOOPS);
#pragma omp taskloop num_tasks(3) reduction(* : product)
            for (int i = 1; i < 6; i++)
                product *= i;
        }
    }
    add(sum * 1000 + product);
}

static void nest(void)
{
    count(REGIONS);
#pragma omp parallel num_threads(2)
    {
        count(MEMBERS);
        count(REGIONS);
#pragma omp parallel num_threads(2)
        {
            count(MEMBERS);
            add(omp_get_level());
        }
    }
    count(REGIONS);
#pragma omp parallel num_threads(1)
    {
        count(MEMBERS);
        add(13);
    }
}

static void *run_rounds(void *unused)
{
    for (int r = 0; r < ROUNDS; r++) {
        share_work();
        combine();
        run_tasks();
        reduce();
        nest();
    }
    return unused;
}

int main(void)
{
    pthread_t other;
    omp_init_lock(&lock);
    omp_set_max_active_levels(2);
    run_rounds(NULL);
    pthread_create(&other, NULL, run_rounds, NULL); /* another thread with teams of its own */
    pthread_join(other, NULL);
    for (int i = 0; i < COUNTS; i++)
        printf("%s %ld\n", names[i], counts[i]);
    printf("checksum %ld\n", checksum);
    return 0;
}
