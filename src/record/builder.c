/* The builder through which plug-ins deliver events. An event becomes a DEVICE record in the pool
 * at once, so that it survives a crash of the program; everything given is copied. What is not an
 * event (devices, clocks, counters, header) is in announce.c.
 *
 * Every call of the builder is between kr_builder_enter, which marks the thread as inside
 * (quiesce.c) and refuses calls after the session, and kr_plugin_exit. Events that are built in
 * steps (addEvent, setLast…, addLast…) wait in a kr_pending of the calling thread until the next
 * event. */
#include "record/announce.h"

typedef KinetoPlugin_TraceBuilderHandle handle;

#define KR_DEVICE_WORDS 6u
#define KR_LONGEST_TEXT (1u << 20) /* bytes to search for a name's NUL */

int kr_refuse(const kr_builder *b, kf_reason reason)
{
    kr_count(b->source, reason, 1);
    return 1;
}

static KB_COLD void refuse_late_call(kr_builder *b, kf_reason reason)
{
    kr_count(kb_load_relaxed(&b->source), reason, 1); /* the slot may change its owner meanwhile */
    if (!kb_exchange_acqrel(&b->late, 1u))
        kb_log(KINETO_LOG_WARNING, "plug-in '%s' calls the builder after the end of its session",
               b->name);
}

kr_cursor *kr_builder_enter(kr_builder *b, kf_reason when_late)
{
    kr_cursor *c = b ? kr_plugin_enter() : NULL;
    if (!c || KINETO_LIKELY(kb_load_acquire(&b->open)))
        return c;
    refuse_late_call(b, when_late);
    kr_plugin_exit(c);
    return NULL;
}

/* ---- writing one event ----------------------------------------------------------------------- */

/* Layout: KF_DEVICE in format.h. False: no room (counted). */
static bool write_device_record(kr_cursor *c, const kr_builder *b, const kr_pending *p)
{
    uint32_t words = KR_DEVICE_WORDS + (p->external_id ? 1 : 0) + (p->set ? 1 : 0) + p->loose_words;
    uint64_t *at = kr_room(c, words);
    if (!at)
        return false;
    KB_ASSERT(p->loose_words <= KR_LOOSE_WORDS && words <= KF_MAX_RECORD_WORDS);
    uint64_t *out = at + KR_DEVICE_WORDS;
    uint32_t props = (p->external_id ? KF_DEVICE_EXTERNAL : 0) | (p->set ? KF_DEVICE_SET : 0) |
                     (p->loose_words ? KF_DEVICE_LOOSE : 0);
    at[1] = (uint64_t)p->start;
    at[2] = (uint64_t)p->end;
    at[3] = p->correlation_id;
    at[4] = kf_pair((uint32_t)p->device, (uint32_t)p->resource);
    at[5] = kf_device_word(p->flow_id, p->flow_type, p->flow_start, b->source, p->spelling);
    if (p->external_id)
        *out++ = p->external_id;
    if (p->set)
        *out++ = p->set;
    for (uint32_t i = 0; i < p->loose_words; i++)
        out[i] = p->loose[i];
    kr_commit(c, at,
              kf_header(KF_DEVICE, words, kf_device_aux(p->kind, p->clock, props), p->name_id),
              words);
    return true;
}

static int write_pending_event(const kr_builder *b, const kr_pending *p)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return 1;
    c->source = b->source; /* an event without room is this plug-in's loss */
    bool written = write_device_record(c, b, p);
    c->source = KF_SOURCE_API;
    kr_leave(c);
    if (written)
        kr_count(b->source, KF_REASON_DELIVERED, 1);
    return !written;
}

uint8_t kr_builder_kind(const kr_builder *b, uint32_t index)
{
    if (KINETO_LIKELY(index < KR_MAX_TYPES && b->kind_of[index]))
        return (uint8_t)(b->kind_of[index] - 1);
    bool known = index < KR_MAX_TYPES && b->known[index];
    kr_count(b->source, known ? KF_REASON_WRONG_KIND : KF_REASON_BAD_EVENT, 1);
    return 0xff;
}

/* Throttled kinds are dropped here while their source goes on delivering. */
static bool is_kind_throttled(uint8_t kind)
{
    const kf_pool *pool = kr_pool_get();
    return pool && (kb_load_relaxed(&pool->control->throttled.kinds) & KINETO_KIND_BIT(kind));
}

/* Check an event and copy its members to *p, all others are reset. False: refused (counted). */
static bool accept_event(const kr_builder *b, const KinetoPlugin_ProfileEvent *e, kr_pending *p)
{
    if (!e || !KINETO_PLUGIN_HAS(e, KinetoPlugin_ProfileEvent, resourceId)) {
        kr_count(b->source, KF_REASON_BAD_EVENT, 1);
        return false;
    }
    uint32_t index = kr_type_index(b->revision, e->eventType);
    p->kind = kr_builder_kind(b, index);
    if (p->kind == 0xff)
        return false;
    if (KINETO_UNLIKELY(is_kind_throttled(p->kind))) {
        kr_count(b->source, KF_REASON_THROTTLED, 1);
        return false;
    }
    p->spelling = b->spelling_of[index];
    p->clock = KINETO_PLUGIN_CLOCK_UTC;
    p->start = e->startTimeUtcNs;
    p->end = e->endTimeUtcNs;
    p->correlation_id = (uint64_t)e->eventId;
    p->external_id = 0;
    p->device = e->deviceId;
    p->resource = e->resourceId;
    p->flow_type = p->flow_id = p->set = 0;
    p->flow_start = false;
    p->loose_words = p->loose_count = 0;
    return true;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* String id; 0: the dictionary, which all sources share, is full: counted for this source. */
static uint32_t intern_for_source(const kr_builder *b, const char *text, size_t bytes)
{
    uint32_t id = kr_intern_quiet(text, bytes);
    if (!id)
        kr_count(b->source, KF_REASON_DICTIONARY_FULL, 1);
    return id;
}

static bool is_metadata_valid(const KinetoPlugin_Metadata *m)
{
    bool by_pointer = m->valueType >= KINETO_PLUGIN_VALUE_STRING;
    return m->pKey && m->valueType >= KINETO_PLUGIN_VALUE_INT &&
           m->valueType <= KINETO_PLUGIN_VALUE_JSON && (!by_pointer || m->pointer || !m->count);
}

/* The value of a loose arg, packed as in format.h. NULL: it does not fit. */
static uint64_t *write_loose_value(uint64_t *at, const uint64_t *limit,
                                   const KinetoPlugin_Metadata *m)
{
    switch (m->valueType) {
    case KINETO_PLUGIN_VALUE_STRING:
    case KINETO_PLUGIN_VALUE_JSON:
        return kr_text_write(at, limit, m->pointer ? m->pointer : "", m->count, KF_MAX_STRING);
    case KINETO_PLUGIN_VALUE_INTS: /* longer than a record can be */
        return NULL;
    case KINETO_PLUGIN_VALUE_STRINGS:
        return kr_strings_write(at, limit, m->pointer, m->count);
    default:
        if (at >= limit)
            return NULL;
        *at = m->u;
        return at + 1;
    }
}

/* Is this a type whose size can go into the word of its key ("Loose args" in format.h)? */
static bool has_inline_size(int32_t type)
{
    return type == KINETO_PLUGIN_VALUE_STRING || type == KINETO_PLUGIN_VALUE_JSON ||
           type == KINETO_PLUGIN_VALUE_INTS;
}

/* String id of a key. Events of a source resemble each other: the n-th key is mostly the same as in
 * the event before, so that its id is tried first. */
static uint32_t intern_key(const kr_builder *b, kr_pending *p, const char *key)
{
    uint32_t n = p->loose_count;
    if (n < KR_KEY_HINTS && kr_string_is(p->key_hints[n], key))
        return p->key_hints[n];
    uint32_t id = intern_for_source(b, key, strnlen(key, KR_LONGEST_TEXT));
    if (n < KR_KEY_HINTS)
        p->key_hints[n] = id;
    return id;
}

static uint64_t *write_short_text(uint64_t *at, const uint64_t *limit, const void *text,
                                  uint32_t bytes)
{
    size_t words = ((size_t)bytes + 7) / 8;
    if (!kr_fits(at, limit, words))
        return NULL;
    if (bytes >= 8 && bytes <= 16) { /* two overlapping words */
        at[words - 1] = 0;
        memcpy(at, text, 8);
        memcpy((char *)at + bytes - 8, (const char *)text + bytes - 8, 8);
    } else if (words) {
        at[words - 1] = 0;
        memcpy(at, text, bytes);
    }
    return at + words;
}

static uint64_t *write_sized_value(uint64_t *at, const uint64_t *limit,
                                   const KinetoPlugin_Metadata *m)
{
    const int64_t *items = m->pointer;
    if (m->valueType != KINETO_PLUGIN_VALUE_INTS)
        return write_short_text(at, limit, m->pointer, m->count);
    if (!kr_fits(at, limit, m->count))
        return NULL;
    for (uint32_t i = 0; i < m->count; i++)
        at[i] = (uint64_t)items[i];
    return at + m->count;
}

bool kr_loose_add(const kr_builder *b, kr_pending *p, const KinetoPlugin_Metadata *m)
{
    if (!is_metadata_valid(m)) {
        kr_count(b->source, KF_REASON_BAD_EVENT, 1);
        return false;
    }
    KB_ASSERT(p->loose_words <= KR_LOOSE_WORDS);
    uint64_t *at = p->loose + p->loose_words, *limit = p->loose + KR_LOOSE_WORDS;
    bool inside = has_inline_size(m->valueType) && m->count <= KF_MAX_STRING;
    uint64_t *end = NULL;
    if (at < limit)
        end = inside ? write_sized_value(at + 1, limit, m) : write_loose_value(at + 1, limit, m);
    uint32_t key = end ? intern_key(b, p, m->pKey) : 0;
    if (!key) {
        kr_count(b->source, KF_REASON_TRUNCATED_TEXT, 1);
        return false;
    }
    *at = kf_loose_word(key, (uint32_t)m->valueType, inside ? m->count + 1 : 0);
    p->loose_words += (uint32_t)(end - at);
    p->loose_count++;
    return true;
}

static int add_all_loose(const kr_builder *b, kr_pending *p, const KinetoPlugin_Metadata *list,
                         size_t count)
{
    int result = 0;
    for (size_t i = 0; i < count && list; i++)
        result |= !kr_loose_add(b, p, &list[i]);
    return result;
}

/* ---- the event under construction ------------------------------------------------------------ */

static uint64_t pending_owner(const kr_cursor *c) { return kf_pair(c->tid, c->pid); }

/* The thread's own pending event; NULL: it has none yet. */
static kr_pending *find_pending(const kr_builder *b, uint64_t owner)
{
    for (kr_pending *p = kb_load_acquire(&b->pending); p; p = p->next)
        if (kb_load_relaxed(&p->owner) == owner)
            return p;
    return NULL;
}

/* A free one, or a new one at the head of the list; NULL: out of memory. Elements are never removed
 * while the builder has callers, so that the list is read without a lock. */
static kr_pending *claim_pending(kr_builder *b, uint64_t owner)
{
    for (kr_pending *p = kb_load_acquire(&b->pending); p; p = p->next) {
        uint64_t unowned = 0;
        if (kb_cas_acqrel(&p->owner, &unowned, owner))
            return p;
    }
    kr_pending *p = kb_os_map(sizeof *p);
    if (!p)
        return NULL;
    p->owner = owner;
    p->next = kb_load_acquire(&b->pending);
    while (!kb_cas_acqrel(&b->pending, &p->next, p))
        ;
    return p;
}

static void flush_pending(const kr_builder *b, kr_pending *p)
{
    if (p->filled && !p->dropped)
        (void)write_pending_event(b, p);
    p->filled = false;
}

/* Names mostly have the same address as before, and comparing a name costs less than looking it up:
 * ids are cached by address, in pairs of which the older one is replaced.
 * @return the index of the first of the pair for this address. */
static size_t name_hint_index(const char *name)
{
    uint64_t hash = (uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32) % KR_NAME_HINTS & ~(size_t)1;
}

static void set_pending_name(const kr_builder *b, kr_pending *p, const char *name, size_t bytes)
{
    kr_name_hint *pair = &p->name_hints[name_hint_index(name)];
    for (int i = 0; name && i < 2; i++)
        if (pair[i].data == name && pair[i].bytes == bytes &&
            kr_bytes_are(pair[i].id, name, bytes)) {
            p->name_id = pair[i].id;
            return;
        }
    p->name_id = name ? intern_for_source(b, name, bytes) : 0;
    pair[1] = pair[0];
    pair[0] = (kr_name_hint){name, bytes, p->name_id};
}

static int set_pending_flow(const kr_builder *b, kr_pending *p, int32_t type, uint32_t id,
                            bool start)
{
    if (type < 0 || type >= KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_COUNT)
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    p->flow_type = (uint32_t)type;
    p->flow_id = id;
    p->flow_start = start;
    return 0;
}

/* ---- whole events ---------------------------------------------------------------------------- */

/* The dictionary id of the activity's metadata set, 0 if it has none, goes to p->set. False: no
 * such set was registered. */
static bool resolve_metadata_set(const kr_builder *b, kr_pending *p, const KinetoPlugin_Activity *a)
{
    if (!KINETO_PLUGIN_HAS(a, KinetoPlugin_Activity, metadataSet) || !a->metadataSet)
        return true;
    p->set = kr_set_id(b, a->metadataSet);
    return p->set != 0;
}

static int write_activity(kr_builder *b, kr_pending *p, const KinetoPlugin_Activity *a)
{
    if (!accept_event(b, &a->event, p))
        return 1;
    if (!resolve_metadata_set(b, p, a))
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    p->clock = (uint8_t)a->clock;
    p->external_id = a->externalId;
    (void)set_pending_flow(b, p, a->flowType, a->flowId, a->flowIsStart != 0);
    set_pending_name(b, p, a->pName, a->nameSize);
    (void)add_all_loose(b, p, a->pMetadata, a->metadataCount);
    return write_pending_event(b, p);
}

/* The thread's pending event is written first, so that events are recorded in the order in which
 * they were given; then its memory is used for this one. */
static int emit_activity(handle *b, const KinetoPlugin_Activity *a)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_LATE);
    if (!c)
        return 1;
    int result = 1;
    kr_pending *p = find_pending(b, pending_owner(c));
    if (!p)
        p = claim_pending(b, pending_owner(c));
    if (!a || !KINETO_PLUGIN_HAS(a, KinetoPlugin_Activity, pMetadata) || a->clock < 0 ||
        a->clock > KR_LAST_CLOCK) {
        (void)kr_refuse(b, KF_REASON_BAD_EVENT);
    } else if (!p) {
        (void)kr_refuse(b, KF_REASON_NO_ROOM);
    } else {
        kb_store_relaxed(&b->live, 1u);
        flush_pending(b, p);
        result = write_activity(b, p, a);
    }
    kr_plugin_exit(c);
    return result;
}

/* ---- events in steps ------------------------------------------------------------------------- */

static int add_pending_event(handle *b, const KinetoPlugin_ProfileEvent *e)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_LATE);
    if (!c)
        return 1;
    int result = 1;
    kr_pending *p = find_pending(b, pending_owner(c));
    if (!p)
        p = claim_pending(b, pending_owner(c));
    if (p) {
        flush_pending(b, p);
        p->name_id = 0;
        p->dropped = !accept_event(b, e, p);
        p->filled = true;
        result = p->dropped;
    } else {
        (void)kr_refuse(b, KF_REASON_NO_ROOM);
    }
    kr_plugin_exit(c);
    return result;
}

/* The arguments of a setLast… or addLast… call, and the function that applies them to the pending
 * event. It returns 0 when done. */
typedef struct kr_change {
    const void *a, *b;
    uint64_t n;
} kr_change;
typedef int (*kr_changer)(const kr_builder *b, kr_pending *p, const kr_change *change);

static int change_last_event(kr_builder *b, kr_changer change, const kr_change *what)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_PLUGIN_ERROR);
    if (!c)
        return 1;
    kr_pending *p = find_pending(b, pending_owner(c));
    int result;
    if (!p || !p->filled || !what->a)
        result = kr_refuse(b, KF_REASON_BAD_EVENT);
    else
        result = p->dropped ? 0 : change(b, p, what);
    kr_plugin_exit(c);
    return result;
}

static int change_name(const kr_builder *b, kr_pending *p, const kr_change *change)
{
    set_pending_name(b, p, change->a, strnlen(change->a, KR_LONGEST_TEXT));
    return p->name_id == 0;
}

static int change_flow(const kr_builder *b, kr_pending *p, const kr_change *change)
{
    const KinetoPlugin_ProfileEventFlow *flow = change->a;
    if (!KINETO_PLUGIN_HAS(flow, KinetoPlugin_ProfileEventFlow, isStartPoint))
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    return set_pending_flow(b, p, flow->flowType, flow->flowId, flow->isStartPoint);
}

/* JSON text of an integer in its canonical spelling: writing the number back gives the same
 * text. */
static bool parse_plain_integer(const char *s, int64_t *out)
{
    const char *digits = s + (*s == '-');
    int64_t value = 0;
    int n = 0;
    while (kb_is_digit(digits[n]) && n < 18) /* more may not fit into 64 bits */
        value = value * 10 + (digits[n++] - '0');
    if (n == 0 || digits[n] || (*digits == '0' && (n > 1 || digits != s)))
        return false;
    *out = digits == s ? value : -value;
    return true;
}

static int change_metadata(const kr_builder *b, kr_pending *p, const kr_change *change)
{
    const char *value = change->b;
    if (!value)
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    KinetoPlugin_Metadata m = {.pKey = change->a, .valueType = KINETO_PLUGIN_VALUE_JSON};
    if (parse_plain_integer(value, &m.i)) {
        m.valueType = KINETO_PLUGIN_VALUE_INT;
    } else {
        m.pointer = value;
        m.count = (uint32_t)strnlen(value, KR_LONGEST_TEXT);
    }
    return !kr_loose_add(b, p, &m);
}

static int change_values(const kr_builder *b, kr_pending *p, const kr_change *change)
{
    return add_all_loose(b, p, change->a, change->n);
}

static int change_ids(const kr_builder *b, kr_pending *p, const kr_change *change)
{
    (void)b;
    p->correlation_id = *(const uint64_t *)change->a;
    p->external_id = change->n;
    return 0;
}

static int set_last_name(handle *b, const char *name)
{
    return change_last_event(b, change_name, &(kr_change){name, NULL, 0});
}
static int set_last_flow(handle *b, const KinetoPlugin_ProfileEventFlow *flow)
{
    return change_last_event(b, change_flow, &(kr_change){flow, NULL, 0});
}
static int add_last_metadata(handle *b, const char *key, const char *value)
{
    return change_last_event(b, change_metadata, &(kr_change){key, value, 0});
}
static int add_last_values(handle *b, const KinetoPlugin_Metadata *list, size_t count)
{
    return count ? change_last_event(b, change_values, &(kr_change){list, NULL, count}) : 0;
}
static int set_last_ids(handle *b, uint64_t correlation_id, uint64_t external_id)
{
    return change_last_event(b, change_ids, &(kr_change){&correlation_id, NULL, external_id});
}

/* ---- life ------------------------------------------------------------------------------------ */

void kr_builder_init(kr_builder *b, const char *name, uint32_t source, kr_revision revision)
{
    /* Not by one memset: threads of the slot's previous owner may still call, and must find the
     * builder closed. */
    kb_store_release(&b->open, 0u);
    kb_store_relaxed(&b->source, source);
    b->revision = revision;
    memset(b->kind_of, 0, sizeof b->kind_of);
    memset(b->sets, 0, sizeof b->sets);
    memset(b->announced, 0, sizeof b->announced);
    if (b->table.unpaddedStructSize)
        return;
    b->name = name; /* of this slot */
    b->table = (KinetoPlugin_TraceBuilder){
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addLedgerLine),
        .pTraceBuilderHandle = b,
        .addEvent = add_pending_event,
        .setLastEventName = set_last_name,
        .setLastEventFlow = set_last_flow,
        .addLastEventMetadata = add_last_metadata,
        .emit = emit_activity,
        .setLastEventIds = set_last_ids,
        .addLastEventValues = add_last_values};
    kr_announce_init(&b->table);
}

void kr_builder_open(kr_builder *b)
{
    KB_ASSERT(!b->open && b->table.unpaddedStructSize);
    kr_quiesce_init();
    kb_store_relaxed(&b->live, 0u);
    kb_store_relaxed(&b->late, 0u);
    kr_lines_reset(b);
    kb_store_release(&b->open, 1u);
}

/* Only what threads of this process own: a fork's child has copies of its parent's pending
 * events. */
static void flush_all_pending(const kr_builder *b)
{
    uint32_t pid = kb_os_pid();
    for (kr_pending *p = kb_load_acquire(&b->pending); p; p = p->next) {
        if (kb_load_acquire(&p->owner) >> 32 != pid)
            continue;
        flush_pending(b, p);
        kb_store_release(&p->owner, 0u);
    }
}

bool kr_builder_close(kr_builder *b)
{
    kb_store_release(&b->open, 0u);
    bool left = kr_wait_quiescent(KR_PLUGIN_TIMEOUT_MS);
    if (left) {
        flush_all_pending(b);
        kr_lines_flush(b);
    }
    return left;
}

void kr_builder_thread_exit(kr_builder *b)
{
    kr_pending *p = find_pending(b, kr_identity());
    if (!p || !kb_load_acquire(&b->open)) /* kr_builder_close has flushed it, or will */
        return;
    flush_pending(b, p);
    kb_store_release(&p->owner, 0u);
}

void kr_builder_free(kr_builder *b)
{
    kr_pending *next, *first = kb_exchange_acqrel(&b->pending, NULL);
    kr_value_sets *sets = kb_exchange_acqrel(&b->value_sets, NULL);
    kr_lines *lines = kb_exchange_acqrel(&b->lines, NULL);
    bool any = first || sets || lines;
    /* Exiting threads may still read it: leak it rather than free it under them. */
    if (!any || !kr_wait_quiescent(KR_PLUGIN_TIMEOUT_MS))
        return;
    kr_value_sets_free(sets);
    kr_lines_free(lines);
    for (kr_pending *p = first; p; p = next) {
        next = p->next;
        kb_os_unmap(p, sizeof *p);
    }
}
