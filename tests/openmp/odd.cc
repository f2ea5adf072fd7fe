// Constructs whose data the runtime itself reads or writes, and tasks with objects: results must stay the same.
#include <omp.h>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

static long copies, destroyed;

struct Counted {
    std::string text;
    explicit Counted(const char *t) : text(t) {}
    Counted(const Counted &other) : text(other.text)
    {
#pragma omp atomic
        copies++;
    }
    ~Counted()
    {
#pragma omp atomic
        destroyed++;
    }
};

static long run_objects()
{
    long sum = 0;
    Counted object("a text that is too long to be stored inside of the string itself");
    std::vector<int> numbers(100, 3);
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 6; i++) {
#pragma omp task firstprivate(object, numbers, i) shared(sum) if (i != 2) final(i == 4) priority(i)
        {
#pragma omp atomic
            sum += (long)object.text.size() + numbers[i] + i;
        }
    }
    return sum;
}

static long run_detached()
{
    long sum = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        omp_event_handle_t event;
#pragma omp task detach(event) shared(sum)
        {
#pragma omp atomic
            sum += 1;
            omp_fulfill_event(event);
        }
#pragma omp taskwait
#pragma omp atomic
        sum += 10;
    }
    return sum;
}

static long run_loops()
{
    long sum = 0, before[20] = {0};
    int last = 0;
#pragma omp parallel for num_threads(2) ordered(1)
    for (int i = 1; i < 20; i++) {
#pragma omp ordered depend(sink : i - 1)
        before[i] = before[i - 1] + i;
#pragma omp ordered depend(source)
    }
#pragma omp parallel num_threads(2) reduction(+ : sum)
    {
        int mine;
#pragma omp single copyprivate(mine)
        mine = 7;
        sum += mine;
#pragma omp for schedule(dynamic) lastprivate(last)
        for (int i = 0; i < 10; i++)
            last = i;
#pragma omp single nowait
        sum += last;
#pragma omp sections nowait
        {
            sum += 100;
#pragma omp section
            sum += 200;
        }
#pragma omp for schedule(runtime) collapse(2)
        for (int i = 0; i < 4; i++)
            for (unsigned char k = 0; k < 4; k++)
                sum += i * k;
    }
    return sum + before[19];
}

static long run_cancelled()
{
    long found = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < 100; i++) {
            if (i == 5) {
#pragma omp atomic write
                found = 1;
#pragma omp cancel for
            }
#pragma omp cancellation point for
        }
#pragma omp cancel parallel
    }
    return found;
}

static long run_exceptions()
{
    long caught = 0;
#pragma omp parallel num_threads(2) reduction(+ : caught)
    {
        try {
            throw 3;
        } catch (int n) {
            caught += n;
        }
    }
    return caught;
}

int main()
{
    for (int r = 0; r < 3; r++)
        std::printf("%ld %ld %ld %ld %ld\n", run_objects(), run_detached(), run_loops(), run_cancelled(),
                    run_exceptions());
    std::printf("%ld\n", copies - destroyed);
    return 0;
}
