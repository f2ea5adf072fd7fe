/* Iterations of programs, in the control page: how many began and when, and windows that begin and
 * end with them. Called by kineto_step_mark of the recorded processes (record/step.c) and by owners of
 * windows. Part of libckineto-rt; lock-free except for the gate, which is recomputed when a window
 * begins or ends. */
#include "format/pool.h"

/* ---- slots of processes ---------------------------------------------------------------------- */

static bool is_steps_owner_gone(const kf_steps *s, uint32_t pid)
{
    return kf_owner_is_dead(pid, kb_load_relaxed(&s->start_time));
}

/* Reset a slot that was just claimed: readers ignore a slot with count 0. */
static void begin_steps_slot(kf_steps *s, uint32_t pid)
{
    kb_store_relaxed(&s->count, UINT64_C(0));
    kb_store_release(&s->start_time, kb_os_start_time(pid));
}

kf_steps *kf_steps_claim(kf_control *control, uint32_t pid)
{
    KB_ASSERT(pid != 0);
    for (uint32_t i = 0; i < KF_STEP_SLOTS; i++) {
        kf_steps *s = &control->steps[i];
        uint32_t owner = kb_load_acquire(&s->pid);
        if (owner == pid) /* this process before an exec */
            return s;
        if (owner == 0 && kb_cas_acqrel(&s->pid, &owner, pid)) {
            begin_steps_slot(s, pid);
            return s;
        }
    }
    for (uint32_t i = 0; i < KF_STEP_SLOTS; i++) {
        kf_steps *s = &control->steps[i];
        uint32_t owner = kb_load_acquire(&s->pid);
        if (is_steps_owner_gone(s, owner) && kb_cas_acqrel(&s->pid, &owner, pid)) {
            begin_steps_slot(s, pid);
            return s;
        }
    }
    return NULL;
}

kf_steps *kf_steps_of(kf_control *control, uint32_t pid)
{
    for (uint32_t i = 0; i < KF_STEP_SLOTS; i++) {
        kf_steps *s = &control->steps[i];
        uint32_t owner = kb_load_acquire(&s->pid);
        if (owner == 0 || kb_load_acquire(&s->count) == 0)
            continue;
        if (pid ? owner == pid : !is_steps_owner_gone(s, owner))
            return s;
    }
    return NULL;
}

uint64_t kf_steps_read(const kf_steps *steps, uint64_t ticks[KF_STEP_TIMES])
{
    uint64_t count = kb_load_acquire(&steps->count);
    for (uint32_t i = 0; i < KF_STEP_TIMES; i++)
        ticks[i] = kb_load_relaxed(&steps->ticks[i]);
    return count;
}

/* ---- windows by iteration -------------------------------------------------------------------- */

void kf_window_limit(kf_control *control, uint32_t slot, uint32_t pid, uint64_t from_step,
                     uint64_t until_step)
{
    if (slot >= KF_MAX_WINDOWS)
        return;
    kf_window *w = &control->windows[slot];
    kf_window_pause(control, slot, true);
    kb_store_relaxed(&w->step_pid, pid);
    kb_store_relaxed(&w->from_step, from_step);
    kb_store_relaxed(&w->until_step, until_step);
    kb_store_relaxed(&w->from_ticks, UINT64_C(0));
    kb_store_relaxed(&w->until_ticks, UINT64_C(0));
    kb_store_release(&w->step_state, (uint32_t)KF_STEPS_WAITING);
    kb_or_release(&control->step_limits, UINT32_C(1) << slot);
}

/* Begin or end a window if this iteration is its limit; *changed is set if its kinds change.
 * Several threads of a program may step at once: the compare-and-swap of step_state lets one of
 * them do it.
 * @return whether later iterations matter to the window. */
static bool step_window(kf_window *w, uint64_t step, uint64_t ticks, bool *changed)
{
    uint32_t state = kb_load_acquire(&w->step_state);
    KB_ASSERT(state <= KF_STEPS_OVER);
    uint64_t until = kb_load_relaxed(&w->until_step);
    bool begins = step >= kb_load_relaxed(&w->from_step), ends = until && step >= until;
    if (state == KF_STEPS_WAITING && begins && !ends) {
        if (kb_cas_acqrel(&w->step_state, &state, KF_STEPS_INSIDE)) {
            kb_store_relaxed(&w->kinds, kb_load_relaxed(&w->held));
            kb_store_release(&w->from_ticks, ticks);
            *changed = true;
        }
        return until != 0;
    }
    bool inside = state == KF_STEPS_INSIDE;
    if (ends && (inside || state == KF_STEPS_WAITING) &&
        kb_cas_acqrel(&w->step_state, &state, KF_STEPS_OVER)) {
        if (!inside) /* it was skipped: a window without length */
            kb_store_relaxed(&w->from_ticks, ticks);
        kb_store_relaxed(&w->kinds, UINT64_C(0));
        kb_store_release(&w->until_ticks, ticks);
        *changed = true;
    }
    return !ends && (inside || state == KF_STEPS_WAITING);
}

void kf_windows_step(kf_control *control, uint32_t pid, uint64_t step, uint64_t ticks)
{
    uint32_t limits = kb_load_acquire(&control->step_limits);
    bool changed = false;
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++) {
        kf_window *w = &control->windows[i];
        if (!(limits >> i & 1))
            continue;
        bool open = kb_load_acquire(&w->state) == KF_WINDOW_OPEN;
        if (open && kb_load_relaxed(&w->step_pid) != pid)
            continue;
        if (!open || !step_window(w, step, ticks, &changed))
            kb_and_acqrel(&control->step_limits, ~(UINT32_C(1) << i));
    }
    if (changed)
        kf_gate_update(control);
}
