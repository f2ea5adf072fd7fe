/* What the library says of schedules, for test_schedule.py to compare: reads lines
 * "skip_first wait warmup active repeat skip_first_wait first-step steps" and writes the action of
 * each step as a digit; with `transitions` the calls of each pair of actions. */
#include <ckineto/schedule.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const calls[KINETO_CALL_COUNT] = {
    "prepare", "start", "stop", "ready", "warn", "warn", "warn",
};

static int transitions(void)
{
    for (int from = 0; from < KINETO_ACTION_COUNT; from++)
        for (int to = 0; to <= (int)KINETO_ACTION_END; to++) {
            kineto_call made[KINETO_TRANSITION_CALLS];
            uint32_t n = kineto_schedule_transition((kineto_action)from, (kineto_action)to, made);
            printf("%d %d", from, to);
            for (uint32_t i = 0; i < n; i++)
                printf(" %s", calls[made[i]]);
            printf("\n");
        }
    return 0;
}

int main(int argc, char **argv)
{
    kineto_schedule s;
    kineto_schedule_init(&s);
    uint64_t first, steps;
    if (argc > 1 && strcmp(argv[1], "transitions") == 0)
        return transitions();
    while (scanf("%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                 " %" SCNu64,
                 &s.skip_first, &s.wait, &s.warmup, &s.active, &s.repeat, &s.skip_first_wait,
                 &first, &steps) == 8) {
        const char *warning = NULL;
        kineto_status status = kineto_schedule_check(&s, &warning, NULL);
        printf("%s %d ", kineto_status_name(status), warning != NULL);
        for (uint64_t i = 0; i < steps; i++)
            putchar('0' + (int)kineto_schedule_action(&s, first + i));
        putchar('\n');
    }
    return 0;
}
