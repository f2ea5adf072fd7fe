/* Iterations of the program (kineto_step_mark): counting them, marking them in the trace, and beginning
 * or ending the windows that are limited by iterations (format/steps.c). An ordinary step is a
 * clock reading and a few stores. */
#include "record/encode.h"

#include <ckineto/record.h>

#include <errno.h>

/* In a page that a fork's child sees zeroed: it counts its own iterations. Without a pool they are
 * counted only here. */
typedef struct kr_steps {
    uint64_t count;
    uint64_t last_ticks;
    uint64_t ticks[KF_STEP_TIMES];
    kf_steps *slot; /* of the pool; NULL: not claimed yet */
    uint32_t pid;
} kr_steps;

static kr_steps *kr_steps_page;
static kf_steps kr_no_slot; /* stands in when all slots of the pool are claimed */
static kr_step_hook *kr_hook;
static uint32_t kr_marked; /* profiles that mark iterations themselves */

static KB_COLD kr_steps *make_steps_page(void)
{
    kr_steps *made = kb_os_map_wiped_on_fork(sizeof *made), *known = NULL;
    if (made && !kb_cas_acqrel(&kr_steps_page, &known, made)) {
        kb_os_unmap(made, sizeof *made);
        made = known;
    }
    return made;
}

void kr_steps_forget(void) { kb_store_release(&kr_steps_page, (kr_steps *)NULL); }

/* Claim a slot of the pool and copy the times of earlier iterations to it. Makes system calls. */
static KB_COLD kf_steps *claim_steps_slot(kr_steps *s, const kf_pool *pool)
{
    int saved = errno;
    s->pid = kb_os_pid();
    kf_steps *slot = kf_steps_claim(pool->control, s->pid);
    if (!slot)
        slot = &kr_no_slot;
    for (uint32_t i = 0; i < KF_STEP_TIMES; i++)
        kb_store_relaxed(&slot->ticks[i], kb_load_relaxed(&s->ticks[i]));
    kb_store_release(&s->slot, slot);
    errno = saved;
    return slot;
}

/* Windows are limited by iterations: begin or end those that this one concerns. May make system
 * calls, so errno is preserved. */
static KB_COLD void step_windows(const kr_steps *s, kf_control *control, uint64_t step,
                                 uint64_t ticks)
{
    int saved = errno;
    kf_windows_step(control, s->pid, step, ticks);
    errno = saved;
}

/* Record the iteration that ended as one RANGE record, "ProfilerStep#12". A range opened a step ago
 * could cross the program's own ranges, and would have to end on the thread where it began. */
static KB_NOINLINE void mark_iteration(uint64_t step, uint64_t from, uint64_t to)
{
    KINETO_SITE(site, KINETO_KIND_USER_ANNOTATION, "ProfilerStep");
    char name[48] = "ProfilerStep#", digits[20];
    size_t size = strlen(name), n = 0;
    do
        digits[n++] = (char)('0' + step % 10);
    while (step /= 10);
    KB_ASSERT(n <= sizeof digits && size + n <= sizeof name);
    while (n > 0)
        name[size++] = digits[--n];
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    uint32_t id = kr_site_id(&site);
    uint64_t *at = kr_room(c, 4 + sizeof name / 8);
    if (at) {
        const uint64_t *end =
            kr_text_write(at + 3, kr_record_limit(c, at), name, size, KF_MAX_INLINE_NAME);
        uint32_t words = (uint32_t)(end - at);
        at[1] = from;
        at[2] = to;
        kr_commit(c, at, kf_header(KF_RANGE, words, KF_PROP_NAME << 8, id), words);
    }
    kr_leave(c);
}

/* The previous iteration is marked first, while a window that ends with it is still open. */
static void step_in_pool(kr_steps *s, const kf_pool *pool, uint64_t step, uint64_t before,
                         uint64_t ticks)
{
    kf_steps *slot = kb_load_acquire(&s->slot);
    if (KINETO_UNLIKELY(!slot))
        slot = claim_steps_slot(s, pool);
    kb_store_relaxed(&slot->ticks[step % KF_STEP_TIMES], ticks);
    kb_store_release(&slot->count, kb_load_relaxed(&s->count));
    if (step > 0 && before <= ticks && kineto_enabled(KINETO_KIND_USER_ANNOTATION) &&
        !kb_load_relaxed(&kr_marked))
        mark_iteration(step - 1, before, ticks);
    if (KINETO_UNLIKELY(kb_load_relaxed(&pool->control->step_limits) != 0))
        step_windows(s, pool->control, step, ticks);
}

void kineto_step_mark(void)
{
    kr_steps *s = kb_load_acquire(&kr_steps_page);
    if (KINETO_UNLIKELY(!s) && !(s = make_steps_page()))
        return;
    uint64_t ticks = kb_ticks(kb_ticks_clock());
    uint64_t before = kb_load_relaxed(&s->last_ticks);
    uint64_t step = kb_add_relaxed(&s->count, 1);
    kb_store_relaxed(&s->last_ticks, ticks);
    kb_store_relaxed(&s->ticks[step % KF_STEP_TIMES], ticks);
    const kf_pool *pool = kr_pool_get();
    if (pool)
        step_in_pool(s, pool, step, before, ticks);
    kr_step_hook *hook = kb_load_acquire(&kr_hook);
    if (hook)
        hook(step, ticks);
}

KINETO_API void kineto_rt_step_hook(kr_step_hook *hook) { kb_store_release(&kr_hook, hook); }

KINETO_API void kineto_rt_steps_marked(bool begins)
{
    (void)kb_add_relaxed(&kr_marked, begins ? 1u : (uint32_t)-1);
}

KINETO_API uint64_t kineto_rt_steps(uint64_t ticks[KF_STEP_TIMES])
{
    const kr_steps *s = kb_load_acquire(&kr_steps_page);
    uint64_t count = s ? kb_load_acquire(&s->count) : 0;
    for (uint32_t i = 0; ticks && i < KF_STEP_TIMES; i++)
        ticks[i] = s ? kb_load_relaxed(&s->ticks[i]) : 0;
    return count;
}
