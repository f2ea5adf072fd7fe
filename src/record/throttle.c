/* Site throttling: drops frequent short ranges to keep the cost of recording within its budget.
 *
 * Short, frequent ranges have the worst ratio of cost to benefit, so a budget that is exceeded
 * drops them first, site by site, and counts what it dropped. The collector decides how short is
 * short (kf_throttle in the control page); the program finds the sites.
 *
 * Sites are found in chunks that are full: such a chunk holds its ranges with both their times, so
 * that the hot path measures nothing. A throttled site has the id 0, like a site that was never
 * registered: the hot path then calls the general path, which asks kr_throttle_site. The id of a
 * site is written only while the site is in use, because otherwise its library may have been
 * unloaded; so a thread that found candidates inspects its next ranges and mutes the sites that it
 * meets. */
#include "record/function.h"

#define SITES      64u   /* sites counted per chunk */
#define CANDIDATES 256u  /* sites found too frequent and too short */
#define MUTED      1024u /* sites that were ever throttled */
#define FREQUENT   24u   /* ranges of a site in one chunk that make it frequent */
#define INSPECTED  2048u /* ranges to inspect after a chunk had candidates */

/* Guards everything static here against other writers. Only ever tried: work that is skipped
 * because another thread holds the lock comes up again with the next chunk or range. */
static kb_lock lock;

/* ---- candidates: frequent and short in a full chunk ------------------------------------------ */

/* Site ids, by id % CANDIDATES; readers take no lock. */
static uint32_t candidates[CANDIDATES];
static uint32_t candidates_epoch; /* kf_throttle.epoch that they belong to */

static bool is_throttle_candidate(uint32_t id)
{
    return kb_load_relaxed(&candidates[id % CANDIDATES]) == id;
}

typedef struct site_use {
    uint32_t id, count;
    uint64_t ticks; /* of all its ranges together */
} site_use;

/* State of the scan of one chunk; under the lock. */
static site_use uses[SITES];
static struct {
    uint64_t begun;
    uint32_t id; /* 0: reopened, its length is not that of a range in this chunk */
} open[KF_MAX_DEPTH];
static uint32_t top; /* one more than the deepest open range */

static void count_site_use(uint32_t id, uint64_t ticks)
{
    site_use *u = &uses[id % SITES];
    if (u->id != id && u->count)
        return; /* another site has the slot; a later chunk may give it to this one */
    u->id = id;
    u->count++;
    u->ticks += ticks;
}

static void scan_record(const uint64_t *record, uint32_t type, uint32_t words)
{
    if (type == KF_KEYFRAME) {
        top = 0;
    } else if (words > 1 && (type == KF_BEGIN || type == KF_REOPEN)) {
        uint32_t depth = kf_header_aux(record[0]) & 0xff;
        KB_ASSERT(depth < KF_MAX_DEPTH);
        open[depth].begun = record[1];
        open[depth].id = type == KF_BEGIN ? kf_header_id(record[0]) : 0;
        top = depth + 1;
    } else if (type == KF_END) {
        uint32_t depth = (uint32_t)(record[0] >> 6 & 1023);
        if (depth < top && open[depth].id)
            count_site_use(open[depth].id,
                           ((record[0] >> 16) - open[depth].begun) & KF_END_TICK_MASK);
        top = KB_MIN(top, depth);
    }
}

/* Fill `uses` from the records of the cursor's chunk. */
static void scan_full_chunk(const kr_cursor *c)
{
    KB_ASSERT(c->chunk != KR_NO_CHUNK && c->at >= c->base && c->at - c->base <= KF_CHUNK_WORDS);
    memset(uses, 0, sizeof uses);
    top = 0;
    for (const uint64_t *at = c->base; at < c->at;) {
        uint32_t words = kf_header_words(*at); /* read once: other processes can write here, too */
        if (words == 0 || words > (size_t)(c->at - at))
            return;
        scan_record(at, kf_header_type(*at), words);
        at += words;
    }
}

/* @return whether the scanned chunk had any candidate. */
static bool choose_candidates(uint32_t short_ticks)
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

/* Takes the lock if it is free, or was held by a thread of the parent when it forked this
 * process. */
static bool try_throttle_lock(void)
{
    uint64_t expected = 0, holder = kb_load_relaxed(&lock.owner), self = kr_identity();
    if (holder >> 32 != self >> 32)
        expected = holder;
    return kb_cas_acqrel(&lock.owner, &expected, self);
}

void kr_throttle_scan_chunk(kr_cursor *c)
{
    const kf_throttle *throttled = &kr_pool.control->throttled;
    uint32_t epoch = kb_load_relaxed(&throttled->epoch), limit = kb_load_relaxed(&throttled->short_ticks);
    if (c->is_second || c->inspect || !limit || !try_throttle_lock())
        return;
    if (candidates_epoch != epoch)
        memset(candidates, 0, sizeof candidates);
    candidates_epoch = epoch;
    scan_full_chunk(c);
    bool any = choose_candidates(limit);
    kb_lock_drop(&lock);
    if (!any)
        return;
    c->inspect = INSPECTED;
    c->tsc = 0; /* until then all ranges take the general path */
    kr_functions_update(c);
}

/* ---- muted sites: their id is 0, and kept here ----------------------------------------------- */

/* Open addressing by address. Entries are never removed, so that lookups need no lock: `id` is
 * written before `site` is published. */
typedef struct muted_site {
    const kineto_site *site; /* compared, never followed: its library may have been unloaded */
    uint32_t id;
} muted_site;
static muted_site muted[MUTED];

/* The entry of a site. Without one: the free entry for it if `or_free`, else NULL; NULL also when
 * the table is full. */
static muted_site *find_muted_site(const kineto_site *site, bool or_free)
{
    uint32_t first = (uint32_t)((uint64_t)(uintptr_t)site * UINT64_C(0x9e3779b97f4a7c15) >> 40);
    for (uint32_t i = 0; i < MUTED; i++) {
        muted_site *m = &muted[(first + i) % MUTED];
        const kineto_site *present = kb_load_acquire(&m->site);
        if (present == site)
            return m;
        if (!present)
            return or_free ? m : NULL;
    }
    return NULL;
}

static bool is_site_wanted(const kineto_site *site)
{
    const kf_throttle *throttled = &kr_pool.control->throttled;
    return !(kb_load_relaxed(&throttled->mute) & KINETO_KIND_BIT(site->kind));
}

/* Registered → muted. The flag and the table come before the id, so that a thread that reads id 0
 * finds the id here and does not register the site a second time. */
static bool mute_site(kineto_site *site, uint32_t id)
{
    KB_ASSERT(id != 0 && id < KR_SITE_THROTTLED);
    if (!try_throttle_lock())
        return false;
    muted_site *m = kb_load_relaxed(&site->id) == id ? find_muted_site(site, true) : NULL;
    if (m) {
        kb_store_relaxed(&m->id, id);
        kb_store_release(&m->site, (const kineto_site *)site);
        kb_store_relaxed(&site->flags, (uint8_t)(kb_load_relaxed(&site->flags) | KR_SITE_MUTED));
        kb_store_release(&site->id, 0u);
    }
    kb_lock_drop(&lock);
    return m != NULL;
}

/* Muted → registered, with the id that it had. */
static void unmute_site(kineto_site *site, uint32_t id)
{
    KB_ASSERT(id != 0 && id < KR_SITE_THROTTLED);
    if (!try_throttle_lock())
        return;
    kb_store_release(&site->id, id);
    kb_store_relaxed(&site->flags, (uint8_t)(kb_load_relaxed(&site->flags) & ~KR_SITE_MUTED));
    kb_lock_drop(&lock);
}

uint32_t kr_throttle_inspect(kr_cursor *c, kineto_site *site, uint32_t id)
{
    KB_ASSERT(c->inspect > 0);
    bool out = is_throttle_candidate(id) && !is_site_wanted(site) && mute_site(site, id);
    if (--c->inspect == 0) {
        c->tsc = c->ticks_clock != KB_TICKS_MONOTONIC_RAW;
        kr_functions_update(c);
    }
    return out ? KR_SITE_THROTTLED : id;
}

uint32_t kr_throttle_site_id(const kineto_site *site)
{
    const muted_site *m = find_muted_site(site, false);
    return m ? kb_load_relaxed(&m->id) : 0;
}

uint32_t kr_throttle_site(kineto_site *site)
{
    uint32_t id = kr_throttle_site_id(site);
    if (id && !is_site_wanted(site))
        return KR_SITE_THROTTLED;
    if (id)
        unmute_site(site, id);
    return id;
}

/* One record per chunk counts in place: its last word is overwritten while the chunk is the
 * cursor's. */
void kr_throttle_count(kr_cursor *c)
{
    if (KINETO_LIKELY(c->throttled_at != NULL)) {
        KB_ASSERT(c->throttled_at > c->base && c->throttled_at < c->at);
        kb_store_relaxed(c->throttled_at, *c->throttled_at + 1);
        return;
    }
    uint64_t *at = kr_room(c, 3);
    if (!at)
        return;
    at[1] = kr_ticks(c);
    at[2] = 1;
    kr_commit(c, at, kf_header(KF_THROTTLED, 3, 0, 0), 3);
    c->throttled_at = at + 2;
}
