/* The memory that the recorder shares with libckineto-timers.so: whatever a program writes there, the
 * recorder passes full slots once, in order of time, and never reads outside. */
#include "unit.h"

#include "cpu/timers.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct shared {
    ku_timers *timers;
    kf_timers *memory; /* as a program maps it */
    size_t bytes;
} shared;

static shared open_both(uint32_t hz)
{
    shared s = {.timers = ku_timers_create(hz, NULL)};
    assert_non_null(s.timers);
    int fd = open(ku_timers_path(s.timers), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    s.bytes = (size_t)lseek(fd, 0, SEEK_END);
    s.memory = mmap(NULL, s.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    assert_true(s.memory != MAP_FAILED);
    assert_int_equal(s.memory->magic, KF_TIMERS_MAGIC);
    assert_int_equal(s.bytes, kf_timers_bytes(s.memory->slot_count));
    return s;
}

static void close_both(shared *s)
{
    ku_timers_destroy(s->timers);
    assert_int_equal(s->memory->period_ns, 0); /* programs that go on stop to sample */
    munmap(s->memory, s->bytes);
}

typedef struct passed {
    uint64_t count, last_ns, sum_ns;
    uint32_t max_bytes;
} passed;

static void note_slot(void *context, const kf_slot *slot)
{
    passed *p = context;
    assert_true(slot->time_ns >= p->last_ns);
    p->last_ns = slot->time_ns;
    p->sum_ns += slot->period_ns;
    p->max_bytes = KB_MAX(p->max_bytes, slot->bytes);
    p->count++;
}

static void test_full_slots_are_passed_once_in_order_of_time(void **state)
{
    (void)state;
    shared s = open_both(99);
    uint64_t random = 1, sum_ns = 0;
    for (int round = 0; round < 20; round++) {
        passed p = {0};
        uint64_t full = 0;
        sum_ns = 0;
        for (uint32_t i = 0; i < s.memory->slot_count; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            kf_slot *slot = kf_timers_slot(s.memory, i);
            slot->time_ns = random >> 40;
            slot->period_ns = i + 1;
            slot->bytes = (uint32_t)(random >> 32);
            memset(slot->name, 'x', sizeof slot->name);
            s.memory->states[i] = (uint32_t)(random >> 20) % 3;
            full += s.memory->states[i] == KF_SLOT_FULL;
            sum_ns += s.memory->states[i] == KF_SLOT_FULL ? i + 1 : 0;
        }
        ku_timers_drain(s.timers, note_slot, &p);
        assert_int_equal(p.count, full);
        assert_int_equal(p.sum_ns, sum_ns);
        assert_true(p.max_bytes <= KF_TIMERS_STACK);
        ku_timers_drain(s.timers, note_slot, &p);
        assert_int_equal(p.count, full);
    }
    close_both(&s);
}

static void test_slots_of_threads_that_have_ended_are_freed(void **state)
{
    (void)state;
    shared s = open_both(99);
    kf_slot *mine = kf_timers_slot(s.memory, 0), *gone = kf_timers_slot(s.memory, 1);
    mine->pid = gone->pid = kb_os_pid();
    mine->tid = kb_os_tid();
    gone->tid = 0x7ffffffe; /* above all thread ids */
    s.memory->states[0] = s.memory->states[1] = KF_SLOT_WRITING;
    ku_timers_reclaim(s.timers);
    assert_int_equal(s.memory->states[0], KF_SLOT_WRITING);
    assert_int_equal(s.memory->states[1], KF_SLOT_FREE);
    close_both(&s);
}

static void test_a_header_that_the_program_overwrites(void **state)
{
    (void)state;
    shared s = open_both(10000);
    passed p = {0};
    memset(s.memory, 0xff, s.bytes);
    ku_timers_drain(s.timers, note_slot, &p);
    ku_timers_reclaim(s.timers);
    assert_int_equal(p.count, 0);
    ku_timers_set_hz(s.timers, 100);
    assert_int_equal(s.memory->period_ns, 10000000);
    close_both(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_slots_are_passed_once_in_order_of_time),
        cmocka_unit_test(test_slots_of_threads_that_have_ended_are_freed),
        cmocka_unit_test(test_a_header_that_the_program_overwrites),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
