/* Frequent short ranges are what recording costs most for the least: when a budget demands it, they
 * are left out site by site, and counted.
 *
 * What is frequent and short is seen in a chunk that is full: its ranges are in it with both their
 * times, so that the hot path need not measure anything. A site that is left out has the id 0, as
 * one that was never met: the hot path sends its ranges to the general one, which asks here. Ids are
 * written into sites only while they are being used, since their library may be unloaded otherwise;
 * so a thread that judged sites inspects the ranges that come next. */
#include "record/function.h"

#define SITES      64u  /* of one chunk that are judged */
#define CANDIDATES 256u /* sites that were found too frequent and too short */
#define MUTED      1024u
#define FREQUENT   24u   /* ranges of a site in one chunk */
#define INSPECTED  2048u /* ranges after a chunk was judged */

static kb_lock lock; /* tried only: what is missed now comes again */

/* ---- sites that were judged ------------------------------------------------------------------ */

static uint32_t candidates[CANDIDATES]; /* ids */
static uint32_t candidates_epoch;

static bool is_candidate(uint32_t id)
{
    return kb_load_relaxed(&candidates[id % CANDIDATES]) == id;
}

typedef struct site_use {
    uint32_t id, count;
    uint64_t ticks;
} site_use;

/* Of the chunk that is being judged, with the lock. */
static site_use uses[SITES];
static struct {
    uint64_t begun;
    uint32_t id;
} open[KF_MAX_DEPTH];
static uint32_t top;

static void use(uint32_t id, uint64_t ticks)
{
    site_use *u = &uses[id % SITES];
    if (u->id != id && u->count)
        return; /* the place is taken: in another chunk, perhaps */
    u->id = id;
    u->count++;
    u->ticks += ticks;
}

static void judge_record(const uint64_t *record, uint32_t type, uint32_t words)
{
    if (type == KF_KEYFRAME) {
        top = 0;
    } else if (words > 1 && (type == KF_BEGIN || type == KF_REOPEN)) {
        uint32_t depth = kf_header_aux(record[0]) & 0xff;
        open[depth].begun = record[1];
        open[depth].id = type == KF_BEGIN ? kf_header_id(record[0]) : 0;
        top = depth + 1;
    } else if (type == KF_END) {
        uint32_t depth = (uint32_t)(record[0] >> 6 & 1023);
        if (depth < top && open[depth].id)
            use(open[depth].id, ((record[0] >> 16) - open[depth].begun) & KF_END_TICK_MASK);
        top = KB_MIN(top, depth);
    }
}

static void judge_chunk(const kr_cursor *c)
{
    memset(uses, 0, sizeof uses);
    top = 0;
    for (const uint64_t *at = c->base; at < c->at;) {
        uint32_t words = kf_header_words(*at); /* once: others write into this memory, too */
        if (words == 0 || words > (size_t)(c->at - at))
            return;
        judge_record(at, kf_header_type(*at), words);
        at += words;
    }
}

static bool choose(uint32_t short_ticks)
{
    bool any = false;
    for (uint32_t i = 0; i < SITES; i++) {
        const site_use *u = &uses[i];
        if (u->count < FREQUENT || u->ticks / u->count >= short_ticks)
            continue;
        kb_store_relaxed(&candidates[u->id % CANDIDATES], u->id);
        any = true;
    }
    return any;
}

static bool try_lock(void)
{
    uint64_t nobody = 0, holder = kb_load_relaxed(&lock.owner), self = kr_identity();
    if (holder >> 32 != self >> 32) /* taken in the parent when it forked us */
        nobody = holder;
    return kb_cas_acqrel(&lock.owner, &nobody, self);
}

void kr_shed_judge(kr_cursor *c)
{
    const kf_shed *shed = &kr_pool.control->shed;
    uint32_t epoch = kb_load_relaxed(&shed->epoch), limit = kb_load_relaxed(&shed->short_ticks);
    if (c->is_second || c->inspect || !limit || !try_lock())
        return;
    if (candidates_epoch != epoch)
        memset(candidates, 0, sizeof candidates);
    candidates_epoch = epoch;
    judge_chunk(c);
    bool any = choose(limit);
    kb_lock_drop(&lock);
    if (!any)
        return;
    c->inspect = INSPECTED;
    c->tsc = 0; /* all ranges take the general path */
    kr_functions_update(c);
}

/* ---- sites that are left out ----------------------------------------------------------------- */

typedef struct muted_site {
    const kineto_site *site; /* compared, never followed: it may be gone */
    uint32_t id;
} muted_site;
static muted_site muted[MUTED];

static muted_site *place_of(const kineto_site *site, bool make)
{
    uint32_t first = (uint32_t)((uint64_t)(uintptr_t)site * UINT64_C(0x9e3779b97f4a7c15) >> 40);
    for (uint32_t i = 0; i < MUTED; i++) {
        muted_site *m = &muted[(first + i) % MUTED];
        const kineto_site *there = kb_load_acquire(&m->site);
        if (there == site)
            return m;
        if (there)
            continue;
        return make ? m : NULL;
    }
    return NULL;
}

static bool is_wanted(const kineto_site *site)
{
    const kf_shed *shed = &kr_pool.control->shed;
    return !(kb_load_relaxed(&shed->mute) & KINETO_KIND_BIT(site->kind));
}

static bool mute(kineto_site *site, uint32_t id)
{
    if (!try_lock())
        return false;
    muted_site *m = kb_load_relaxed(&site->id) == id ? place_of(site, true) : NULL;
    if (m) {
        kb_store_relaxed(&m->id, id);
        kb_store_release(&m->site, (const kineto_site *)site);
        kb_store_relaxed(&site->flags, (uint8_t)(kb_load_relaxed(&site->flags) | KR_SITE_MUTED));
        kb_store_release(&site->id, 0u);
    }
    kb_lock_drop(&lock);
    return m != NULL;
}

static void unmute(kineto_site *site, uint32_t id)
{
    if (!try_lock())
        return;
    kb_store_release(&site->id, id);
    kb_store_relaxed(&site->flags, (uint8_t)(kb_load_relaxed(&site->flags) & ~KR_SITE_MUTED));
    kb_lock_drop(&lock);
}

uint32_t kr_shed_inspect(kr_cursor *c, kineto_site *site, uint32_t id)
{
    bool out = is_candidate(id) && !is_wanted(site) && mute(site, id);
    if (--c->inspect == 0) {
        c->tsc = c->ticks_clock != KB_TICKS_MONOTONIC_RAW;
        kr_functions_update(c);
    }
    return out ? KR_SITE_SHED : id;
}

uint32_t kr_shed_site_id(const kineto_site *site)
{
    const muted_site *m = place_of(site, false);
    return m ? kb_load_relaxed(&m->id) : 0;
}

uint32_t kr_shed_site(kineto_site *site)
{
    uint32_t id = kr_shed_site_id(site);
    if (id && !is_wanted(site))
        return KR_SITE_SHED;
    if (id)
        unmute(site, id);
    return id;
}

void kr_shed_count(kr_cursor *c)
{
    if (KINETO_LIKELY(c->shed_at != NULL)) {
        kb_store_relaxed(c->shed_at, *c->shed_at + 1);
        return;
    }
    uint64_t *at = kr_room(c, 3);
    if (!at)
        return;
    at[1] = kr_ticks(c);
    at[2] = 1;
    kr_commit(c, at, kf_header(KF_SHED, 3, 0, 0), 3);
    c->shed_at = at + 2;
}
