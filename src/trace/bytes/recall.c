/* Parts of texts that are no longer at their addresses: chunks that were loaded again, shared by
 * all threads, and copies of the parts that a thread looked at last. */
#include "trace/bytes/input.h"
#include "trace/trace.h"

/* ---- chunks ---------------------------------------------------------------------------------- */

typedef struct chunk {
    uint32_t references;
    uint64_t input; /* its number */
    size_t index, size;
    char text[];
} chunk;

static void release(chunk *c)
{
    if (c && kb_add_acqrel(&c->references, UINT32_MAX) == 1)
        free(c);
}

static bool is_chunk(const chunk *c, const kt_input *in, size_t index)
{
    return c && c->input == in->number && c->index == index;
}

static chunk *load(kt_input *in, size_t index)
{
    size_t at = index * in->keep.chunk_bytes;
    if (at >= in->ready_bytes)
        return NULL;
    size_t size = KB_MIN(in->keep.chunk_bytes, in->ready_bytes - at);
    chunk *c = malloc(sizeof *c + size);
    if (!c)
        return NULL;
    *c = (chunk){1, in->number, index, size};
    if (kt_keep_load(&in->keep, index, c->text, size))
        return c;
    free(c);
    return NULL;
}

/* ---- those that all threads share ------------------------------------------------------------- */

enum { SLOTS = KT_RECALL_BYTES / KT_PACK_BYTES };
_Static_assert(SLOTS >= 2 * KT_RECALL_BYTES / KT_POINT_BYTES, "large chunks fit, too");

/* A slot of a chunk that is being loaded has no chunk yet. */
typedef struct slot {
    chunk *chunk;
    bool loading;
    uint64_t input;
    size_t index;
    uint64_t used; /* when */
} slot;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    slot slots[SLOTS];
    size_t bytes; /* of all chunks */
    uint64_t clock;
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static slot *find(const kt_input *in, size_t index)
{
    for (slot *s = shared.slots; s < shared.slots + SLOTS; s++)
        if ((s->chunk || s->loading) && s->input == in->number && s->index == index)
            return s;
    return NULL;
}

/* The chunk's memory goes when nobody has it any more. */
static void empty(slot *s)
{
    if (s->chunk)
        shared.bytes -= s->chunk->size;
    release(s->chunk);
    *s = (slot){.chunk = NULL};
}

static slot *oldest(bool free_too)
{
    slot *found = NULL;
    for (slot *s = shared.slots; s < shared.slots + SLOTS; s++) {
        bool may = s->chunk || (free_too && !s->loading);
        if (may && (!found || s->used < found->used))
            found = s;
    }
    return found;
}

/* Load it into a slot; others who want it wait for that. NULL slot: all are being loaded. */
static chunk *load_shared(kt_input *in, size_t index, slot *s)
{
    if (s) {
        empty(s);
        *s = (slot){.loading = true, .input = in->number, .index = index};
    }
    pthread_mutex_unlock(&shared.mutex);
    chunk *c = load(in, index);
    pthread_mutex_lock(&shared.mutex);
    if (!s)
        return c;
    s->loading = false;
    pthread_cond_broadcast(&shared.changed);
    if (!c)
        return NULL;
    while (shared.bytes + c->size > KT_RECALL_BYTES)
        empty(oldest(false));
    s->chunk = c;
    s->used = ++shared.clock;
    shared.bytes += c->size;
    kb_add_relaxed(&c->references, 1);
    return c;
}

static chunk *get(kt_input *in, size_t index)
{
    pthread_mutex_lock(&shared.mutex);
    slot *s;
    while ((s = find(in, index)) != NULL && s->loading)
        pthread_cond_wait(&shared.changed, &shared.mutex);
    chunk *c;
    if (s) {
        c = s->chunk;
        s->used = ++shared.clock;
        kb_add_relaxed(&c->references, 1);
    } else {
        c = load_shared(in, index, oldest(true));
    }
    pthread_mutex_unlock(&shared.mutex);
    return c;
}

/* ---- of a thread ------------------------------------------------------------------------------ */

enum { ZEROS = 64, LARGE = 1 << 20 };

typedef struct view {
    uint64_t input, place; /* offset << 24 | bytes, as in a block */
    uint64_t used;
    char *text;
    size_t room;
} view;

typedef struct recall {
    chunk *last;
    uint64_t clock;
    view views[KT_TEXT_VIEWS];
} recall;

static pthread_key_t key;
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void recall_free(void *p)
{
    recall *r = p;
    release(r->last);
    for (size_t i = 0; i < KT_TEXT_VIEWS; i++)
        free(r->views[i].text);
    free(r);
}

/* Other threads did not come along: who held the lock left the slots as they are in the middle of a
 * change, and what it loaded does not come any more. */
static void in_child(void)
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

static void prepare(void)
{
    has_key = pthread_key_create(&key, recall_free) == 0;
    (void)pthread_atfork(NULL, NULL, in_child);
}

static recall *of_thread(bool create)
{
    pthread_once(&once, prepare);
    recall *r = has_key ? pthread_getspecific(key) : NULL;
    if (r || !has_key || !create)
        return r;
    r = calloc(1, sizeof *r);
    if (r && pthread_setspecific(key, r) == 0)
        return r;
    free(r);
    return NULL;
}

static bool make_room(view *v, size_t bytes)
{
    if (bytes <= v->room && (v->room <= LARGE || bytes > LARGE))
        return true;
    size_t room = KB_MAX(bytes, (size_t)1024);
    free(v->text);
    v->text = malloc(room);
    v->room = v->text ? room : 0;
    return v->text != NULL;
}

static bool copy(recall *r, kt_input *in, size_t offset, char *to, size_t bytes)
{
    while (bytes) {
        size_t index = offset / in->keep.chunk_bytes, from = offset % in->keep.chunk_bytes;
        if (!is_chunk(r->last, in, index)) {
            release(r->last);
            r->last = get(in, index);
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

/* The view of it, or the one that was not looked at for longest. */
static view *choose(recall *r, uint64_t input, uint64_t place)
{
    view *old = &r->views[0];
    for (view *v = r->views; v < r->views + KT_TEXT_VIEWS; v++) {
        if (v->place == place && v->input == input)
            return v;
        old = v->used < old->used ? v : old;
    }
    return old;
}

kineto_string kt_recall(kt_input *in, uint64_t offset, size_t bytes)
{
    static const char nothing[ZEROS];
    recall *r = of_thread(true);
    if (!r || bytes >> 24)
        return (kineto_string){nothing, 0};
    uint64_t place = offset << 24 | bytes;
    view *v = choose(r, in->number, place);
    v->used = ++r->clock;
    if (v->place == place && v->input == in->number)
        return (kineto_string){v->text, bytes};
    v->input = 0;
    if (!make_room(v, bytes + ZEROS) || !copy(r, in, offset, v->text, bytes))
        return (kineto_string){nothing, 0};
    memset(v->text + bytes, 0, ZEROS);
    v->input = in->number;
    v->place = place;
    return (kineto_string){v->text, bytes};
}

void kt_recall_forget(kt_input *in)
{
    recall *r = of_thread(false);
    if (r && r->last && r->last->input == in->number) {
        release(r->last);
        r->last = NULL;
    }
    pthread_mutex_lock(&shared.mutex);
    for (slot *s = shared.slots; s < shared.slots + SLOTS; s++)
        if (s->chunk && s->input == in->number)
            empty(s);
    pthread_mutex_unlock(&shared.mutex);
}
