/* Cache of decompressed chunks of texts that are no longer at their addresses. Two levels:
 * chunks, shared by all threads of the process (at most KT_CHUNK_CACHE_BYTES, least recently
 * used ones go first), and for each thread copies of the parts that it read last, which
 * readers of arguments hold as strings.
 *
 * Lock: shared.mutex protects the slots. A chunk is loaded outside the lock, while its slot
 * is marked as loading, and other threads that want it wait on `changed`. Chunks are
 * reference counted, immutable, and freed by the last holder. A fork resets the slots in
 * the child (reset_cache_in_child). */
#include "trace/bytes/input.h"
#include "trace/trace.h"

/* ---- chunks ---------------------------------------------------------------------------------- */

/* The text of one chunk of an input. Each slot and each thread that uses it holds a reference. */
typedef struct chunk {
    uint32_t references;
    uint64_t input; /* its number */
    size_t index, size;
    char text[];
} chunk;

static void release_chunk(chunk *c)
{
    if (c && kb_add_acqrel(&c->references, UINT32_MAX) == 1)
        free(c);
}

static bool is_chunk(const chunk *c, const kt_input *in, size_t index)
{
    return c && c->input == in->number && c->index == index;
}

/* Decompresses a chunk; the caller gets the only reference. NULL: it is lost, or out of memory. */
static chunk *load_chunk(kt_input *in, size_t index)
{
    size_t at = index * in->index.chunk_bytes;
    if (at >= in->ready_bytes)
        return NULL;
    size_t size = KB_MIN(in->index.chunk_bytes, in->ready_bytes - at);
    chunk *c = malloc(sizeof *c + size);
    if (!c)
        return NULL;
    *c = (chunk){1, in->number, index, size};
    if (kt_seek_index_load(&in->index, index, c->text, size))
        return c;
    free(c);
    return NULL;
}

/* ---- chunks that all threads share ----------------------------------------------------------- */

enum { SLOTS = KT_CHUNK_CACHE_BYTES / KT_PACKED_CHUNK_BYTES };
_Static_assert(SLOTS >= 2 * KT_CHUNK_CACHE_BYTES / KT_SEEK_POINT_BYTES, "slots suffice for large chunks");

/* States of a slot: free (no chunk, not loading), loading (no chunk yet; only the loading
 * thread changes it), filled (a chunk, not loading). */
typedef struct slot {
    chunk *chunk;
    bool loading;
    uint64_t input;
    size_t index;
    uint64_t used; /* value of shared.clock at the last use */
} slot;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    slot slots[SLOTS];
    size_t bytes; /* of all chunks */
    uint64_t clock;
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* With the mutex held: the slot that holds or loads the chunk; NULL: none. */
static slot *find_chunk_slot(const kt_input *in, size_t index)
{
    for (slot *s = shared.slots; s < shared.slots + SLOTS; s++)
        if ((s->chunk || s->loading) && s->input == in->number && s->index == index)
            return s;
    return NULL;
}

/* With the mutex held: makes a slot free. Threads that still use its chunk keep their
 * references. */
static void empty_slot(slot *s)
{
    KB_ASSERT(!s->loading && (!s->chunk || shared.bytes >= s->chunk->size));
    if (s->chunk)
        shared.bytes -= s->chunk->size;
    release_chunk(s->chunk);
    *s = (slot){.chunk = NULL};
}

/* With the mutex held: the least recently used filled slot, or with free_too a free one.
 * NULL: none. */
static slot *find_oldest_slot(bool free_too)
{
    slot *found = NULL;
    for (slot *s = shared.slots; s < shared.slots + SLOTS; s++) {
        bool may = s->chunk || (free_too && !s->loading);
        if (may && (!found || s->used < found->used))
            found = s;
    }
    return found;
}

/* With the mutex held, which is released while the chunk is loaded: loads a chunk into slot
 * s. If s is NULL, all slots are loading, and the chunk is loaded for this thread only.
 * Returns a reference; NULL: lost. */
static chunk *load_chunk_into_slot(kt_input *in, size_t index, slot *s)
{
    if (s) {
        empty_slot(s);
        *s = (slot){.loading = true, .input = in->number, .index = index};
    }
    pthread_mutex_unlock(&shared.mutex);
    chunk *c = load_chunk(in, index);
    pthread_mutex_lock(&shared.mutex);
    if (!s)
        return c;
    KB_ASSERT(s->loading && !s->chunk); /* no other thread touches a slot that is loading */
    s->loading = false;
    pthread_cond_broadcast(&shared.changed);
    if (!c)
        return NULL;
    KB_ASSERT(c->size <= KT_CHUNK_CACHE_BYTES); /* else no filled slot would be left to empty */
    while (shared.bytes + c->size > KT_CHUNK_CACHE_BYTES)
        empty_slot(find_oldest_slot(false));
    s->chunk = c;
    s->used = ++shared.clock;
    shared.bytes += c->size;
    kb_add_relaxed(&c->references, 1);
    return c;
}

/* A reference to a chunk, from the cache or loaded; NULL: it is lost, or out of memory. */
static chunk *acquire_chunk(kt_input *in, size_t index)
{
    pthread_mutex_lock(&shared.mutex);
    slot *s;
    while ((s = find_chunk_slot(in, index)) != NULL && s->loading)
        pthread_cond_wait(&shared.changed, &shared.mutex);
    chunk *c;
    if (s) {
        c = s->chunk;
        s->used = ++shared.clock;
        kb_add_relaxed(&c->references, 1);
    } else {
        c = load_chunk_into_slot(in, index, find_oldest_slot(true));
    }
    pthread_mutex_unlock(&shared.mutex);
    return c;
}

/* ---- copies of one thread -------------------------------------------------------------------- */

/* Zeros after each copy, for parsers that read ahead; copies over LARGE give their room back when a
 * small one follows. */
enum { ZEROS = 64, LARGE = 1 << 20 };

/* A copy of one part of a text. input 0: it holds none. */
typedef struct text_view {
    uint64_t input, place; /* offset << 24 | bytes, as in a block */
    uint64_t used;
    char *text;
    size_t room;
} text_view;

/* The state of one thread: the chunk that it read last, and its copies. */
typedef struct thread_cache {
    chunk *last;
    uint64_t clock;
    text_view views[KT_ARGS_TEXT_VIEWS];
} thread_cache;

static pthread_key_t key;
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_thread_cache(void *p)
{
    thread_cache *r = p;
    release_chunk(r->last);
    for (size_t i = 0; i < KT_ARGS_TEXT_VIEWS; i++)
        free(r->views[i].text);
    free(r);
}

/* In the child of a fork only this thread exists. If another thread held the mutex, the
 * slots may be in the middle of a change: all are dropped. Chunks that were being loaded
 * will never arrive. */
static void reset_cache_in_child(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    bool sound = pthread_mutex_trylock(&shared.mutex) == 0;
    for (slot *s = shared.slots; s < shared.slots + SLOTS; s++)
        if (!sound || s->loading)
            *s = (slot){.chunk = NULL};
    if (!sound)
        shared.bytes = 0;
    shared.mutex = mutex;
    shared.changed = changed;
}

static void init_thread_key(void)
{
    has_key = pthread_key_create(&key, free_thread_cache) == 0;
    (void)pthread_atfork(NULL, NULL, reset_cache_in_child);
}

/* The state of this thread; NULL: it has none and create is false, or out of memory. */
static thread_cache *cache_of_thread(bool create)
{
    pthread_once(&once, init_thread_key);
    thread_cache *r = has_key ? pthread_getspecific(key) : NULL;
    if (r || !has_key || !create)
        return r;
    r = calloc(1, sizeof *r);
    if (r && pthread_setspecific(key, r) == 0)
        return r;
    free(r);
    return NULL;
}

/* Room for `bytes` in a copy; its old text is lost. False: out of memory. */
static bool reserve_view(text_view *v, size_t bytes)
{
    if (bytes <= v->room && (v->room <= LARGE || bytes > LARGE))
        return true;
    size_t room = KB_MAX(bytes, (size_t)1024);
    free(v->text);
    v->text = malloc(room);
    v->room = v->text ? room : 0;
    return v->text != NULL;
}

/* Copies a part of the text, which may span chunks. False: a chunk is lost. */
static bool copy_input_text(thread_cache *r, kt_input *in, size_t offset, char *to, size_t bytes)
{
    while (bytes) {
        size_t index = offset / in->index.chunk_bytes, from = offset % in->index.chunk_bytes;
        if (!is_chunk(r->last, in, index)) {
            release_chunk(r->last);
            r->last = acquire_chunk(in, index);
        }
        if (!r->last || from >= r->last->size)
            return false;
        size_t part = KB_MIN(bytes, r->last->size - from);
        memcpy(to, r->last->text + from, part);
        to += part;
        offset += part;
        bytes -= part;
    }
    return true;
}

/* The view that holds the part, else the least recently used one. */
static text_view *choose_view(thread_cache *r, uint64_t input, uint64_t place)
{
    text_view *old = &r->views[0];
    for (text_view *v = r->views; v < r->views + KT_ARGS_TEXT_VIEWS; v++) {
        if (v->place == place && v->input == input)
            return v;
        old = v->used < old->used ? v : old;
    }
    return old;
}

kineto_string kt_chunk_cache_read(kt_input *in, uint64_t offset, size_t bytes)
{
    static const char nothing[ZEROS];
    thread_cache *r = cache_of_thread(true);
    if (!r || bytes >> 24)
        return (kineto_string){nothing, 0};
    uint64_t place = offset << 24 | bytes;
    text_view *v = choose_view(r, in->number, place);
    v->used = ++r->clock;
    if (v->place == place && v->input == in->number)
        return (kineto_string){v->text, bytes};
    v->input = 0;
    if (!reserve_view(v, bytes + ZEROS) || !copy_input_text(r, in, offset, v->text, bytes))
        return (kineto_string){nothing, 0};
    memset(v->text + bytes, 0, ZEROS);
    v->input = in->number;
    v->place = place;
    return (kineto_string){v->text, bytes};
}

void kt_chunk_cache_drop(kt_input *in)
{
    thread_cache *r = cache_of_thread(false);
    if (r && r->last && r->last->input == in->number) {
        release_chunk(r->last);
        r->last = NULL;
    }
    pthread_mutex_lock(&shared.mutex);
    for (slot *s = shared.slots; s < shared.slots + SLOTS; s++)
        if (s->chunk && s->input == in->number)
            empty_slot(s);
    pthread_mutex_unlock(&shared.mutex);
}
