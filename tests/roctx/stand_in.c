/* A stand-in for AMD's library of ROCTX: it prints how often it was called when the program ends, and
 * its results differ from those of ours. */
#include <stdint.h>
#include <stdio.h>

static unsigned pushes, pops, starts, stops, marks;
static int level = 100;
static uint64_t last_id = 5000;

void roctxMarkA(const char *message);
int roctxRangePushA(const char *message);
int roctxRangePop(void);
uint64_t roctxRangeStartA(const char *message);
void roctxRangeStop(uint64_t id);
int roctxNameOsThread(const char *name);

void roctxMarkA(const char *message) { marks += message != NULL; }
int roctxRangePushA(const char *message)
{
    pushes += message != NULL;
    return level++;
}
int roctxRangePop(void)
{
    pops++;
    return --level;
}
uint64_t roctxRangeStartA(const char *message)
{
    starts += message != NULL;
    return last_id++;
}
void roctxRangeStop(uint64_t id) { stops += id >= 5000; }
int roctxNameOsThread(const char *name) { return name ? 77 : 0; }

__attribute__((destructor)) static void print_counts(void)
{
    printf("AMD %u %u %u %u %u\n", pushes, pops, starts, stops, marks);
}
