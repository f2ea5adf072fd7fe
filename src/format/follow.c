/* Processes that follow the windows. An on-demand recorder opens and closes windows while programs
 * run that are not aware of it, and some sources have to be started and stopped with them. The
 * follower sleeps on the futex window_changes and reports on `followed` (record/follow.c is its
 * side); the recorder waits with kf_followers_wait. Part of libckineto-rt. Without such a recorder
 * (`watched` 0) no system call is made. */
#include "format/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLICE_NS (50 * KB_MILLISECOND_NS) /* a follower may die while the recorder waits for it */
#define FOLLOW_LOOK_S 10                  /* interval in which a follower checks for a program */

/* Shared between processes, so FUTEX_PRIVATE_FLAG must not be set. */
static void futex_wake(uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void futex_wait(uint32_t *word, uint32_t seen, const struct timespec *limit)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, limit, NULL, 0);
}

void kf_windows_changed(kf_control *control)
{
    (void)kb_add_relaxed(&control->window_changes, 1u);
    kb_fence_seqcst();
    if (kb_load_relaxed(&control->watched))
        futex_wake(&control->window_changes);
}

void kf_follow_wait(kf_control *control, uint32_t seen)
{
    const struct timespec limit = {.tv_sec = FOLLOW_LOOK_S};
    futex_wait(&control->window_changes, seen, &limit);
}

/* ---- places of followers --------------------------------------------------------------------- */

/* Claim the place of `owner` (0: free, or a dead process). False: another process was faster. */
static bool claim_follower(kf_follower *f, uint32_t owner, uint32_t pid)
{
    if (!kb_cas_acqrel(&f->pid, &owner, pid))
        return false;
    kb_store_release(&f->start_time, kb_os_start_time(pid));
    return true;
}

kf_follower *kf_follow_begin(kf_control *control, uint32_t pid)
{
    KB_ASSERT(pid != 0);
    for (uint32_t i = 0; i < KF_FOLLOWERS; i++) {
        kf_follower *f = &control->followers[i];
        uint32_t owner = kb_load_acquire(&f->pid);
        if (owner == pid || (owner == 0 && claim_follower(f, 0, pid)))
            return f;
    }
    for (uint32_t i = 0; i < KF_FOLLOWERS; i++) {
        kf_follower *f = &control->followers[i];
        uint32_t owner = kb_load_acquire(&f->pid);
        if (kf_owner_is_dead(owner, kb_load_relaxed(&f->start_time)) &&
            claim_follower(f, owner, pid))
            return f;
    }
    return NULL;
}

void kf_follow_end(kf_follower *f)
{
    KB_ASSERT(f != NULL);
    kb_store_release(&f->pid, 0u);
}

void kf_follow_forget(kf_control *control, uint32_t pid)
{
    for (uint32_t i = 0; i < KF_FOLLOWERS && kb_load_relaxed(&control->watched); i++)
        if (kb_load_relaxed(&control->followers[i].pid) == pid)
            kf_follow_end(&control->followers[i]);
}

void kf_follow_report(kf_control *control, kf_follower *f, uint32_t seen)
{
    kb_store_release(&f->seen, seen);
    (void)kb_add_relaxed(&control->followed, 1u);
    kb_fence_seqcst();
    futex_wake(&control->followed);
}

void kf_followers_collect(kf_control *control)
{
    (void)kb_add_relaxed(&control->collects, 1u);
    kf_windows_changed(control);
}

/* ---- waiting for them ------------------------------------------------------------------------ */

/* Has a living follower not carried out this change? Serial number arithmetic: counters may
 * wrap. */
static bool is_follower_late(const kf_follower *f, uint32_t change)
{
    uint32_t pid = kb_load_acquire(&f->pid);
    return pid && (int32_t)(kb_load_acquire(&f->seen) - change) < 0 &&
           !kf_owner_is_dead(pid, kb_load_relaxed(&f->start_time));
}

static uint32_t count_late_followers(const kf_control *control, uint32_t change)
{
    uint32_t late = 0;
    for (uint32_t i = 0; i < KF_FOLLOWERS; i++)
        late += is_follower_late(&control->followers[i], change);
    return late;
}

/* Free the places of late followers, so that they are not waited for again until they report: their
 * program is stopped, or was replaced by another one (exec). */
static void drop_late_followers(kf_control *control, uint32_t change)
{
    for (uint32_t i = 0; i < KF_FOLLOWERS; i++) {
        kf_follower *f = &control->followers[i];
        uint32_t pid = kb_load_acquire(&f->pid);
        if (is_follower_late(f, change))
            (void)kb_cas_acqrel(&f->pid, &pid, 0u);
    }
}

uint32_t kf_followers_wait(kf_control *control, uint64_t timeout_ns)
{
    uint32_t change = kb_load_acquire(&control->window_changes);
    uint64_t until = kb_monotonic_ns() + timeout_ns;
    for (;;) {
        uint32_t followed = kb_load_acquire(&control->followed);
        uint32_t late = count_late_followers(control, change);
        uint64_t now = kb_monotonic_ns();
        if (late && now >= until)
            drop_late_followers(control, change);
        if (late == 0 || now >= until)
            return late;
        struct timespec limit = {0, (long)KB_MIN(until - now, (uint64_t)SLICE_NS)};
        futex_wait(&control->followed, followed, &limit);
    }
}
