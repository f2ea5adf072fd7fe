/* A kernel that cannot wipe pages on fork (before Linux 4.14, or one that is emulated): libc's fork
 * tells us, and a child is still a process of its own. */
#include "unit.h"

#include "../helpers/recording.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

KINETO_SITE(site_parent, KINETO_KIND_CPU_OP, "parent");
KINETO_SITE(site_child, KINETO_KIND_CPU_OP, "child");

/* In front of libc's. */
int madvise(void *memory, size_t bytes, int advice)
{
    if (advice != MADV_WIPEONFORK)
        return (int)syscall(SYS_madvise, memory, bytes, advice);
    errno = EINVAL;
    return -1;
}

static void a_child_is_a_process_of_its_own(void **state)
{
    (void)state;
    enum { STEPS = 3 };
    kineto_session *s = record();
    kineto_range outer = kineto_range_begin(&site_parent);
    for (int i = 0; i < STEPS; i++)
        kineto_step_mark();
    pid_t pid = fork();
    if (pid == 0) {
        kineto_range_end(kineto_range_begin(&site_child));
        kineto_range_end(outer); /* the parent's */
        kineto_step_mark();
        kineto_step_mark();
        _exit(0);
    }
    assert_exit(pid, 0);
    kineto_range_end(outer);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_of_pid(t, "parent", getpid()), 1);
    assert_int_equal(count_of_pid(t, "child", pid), 1);
    assert_int_equal(process_of(t, find_only(t, "child").row).ppid, getpid());
    assert_int_equal(count_of_pid(t, "ProfilerStep#0", pid), 1);
    assert_int_equal(count_of_pid(t, "ProfilerStep#0", getpid()), 1);
    assert_int_equal(find_only(t, "parent").flags, 0);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_a_process_of_its_own),
    };
    return RUN_TESTS(tests);
}
