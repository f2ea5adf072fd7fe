/* Watchers, which are notified of the stages of requests. Notes are queued by threads that hold the
 * controller's lock; one thread at a time delivers them, without that lock, so they arrive in
 * order. */
#include "ondemand/controller/controller_impl.h"

#define MAX_WAITING 256u /* beyond that, refusals are dropped */

const char *ko_stage_name(uint32_t stage)
{
    static const char *const names[] = {"accepted", "refused", "warm-up", "collect",
                                        "process",  "written", "failed",  "cancelled"};
    return stage < KB_COUNT(names) ? names[stage] : "unknown";
}

bool ko_notes_init(ko_notes *n)
{
    n->last = &n->first;
    if (pthread_mutex_init(&n->lock, NULL) != 0)
        return false;
    if (pthread_cond_init(&n->heard, NULL) == 0)
        return true;
    pthread_mutex_destroy(&n->lock);
    return false;
}

/* Truncated to the buffer; NULL becomes "". */
static const char *copy_note_text(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "");
    return to;
}

void ko_notes_put(ko_notes *n, const ko_stage_note *note)
{
    ko_note *item = malloc(sizeof *item);
    if (!item) {
        kb_log(KINETO_LOG_WARNING,
               "out of memory: watchers are not notified that request %llu is '%s'",
               (unsigned long long)note->ticket, ko_stage_name(note->stage));
        return;
    }
    item->next = NULL;
    item->note = *note;
    item->note.trace_id = copy_note_text(item->trace_id, sizeof item->trace_id, note->trace_id);
    item->note.group_id = copy_note_text(item->group_id, sizeof item->group_id, note->group_id);
    item->note.text = copy_note_text(item->text, sizeof item->text, note->text);
    item->note.path = copy_note_text(item->path, sizeof item->path, note->path);
    pthread_mutex_lock(&n->lock);
    bool room = n->count < MAX_WAITING || note->stage != KO_STAGE_REFUSED;
    if (room) {
        *n->last = item;
        n->last = &item->next;
        n->count++;
    }
    pthread_mutex_unlock(&n->lock);
    if (!room)
        free(item);
}

/* With the lock. NULL: the queue is empty. */
static ko_note *pop_note(ko_notes *n)
{
    ko_note *item = n->first;
    if (!item)
        return NULL;
    n->first = item->next;
    if (!n->first)
        n->last = &n->first;
    KB_ASSERT(n->count > 0);
    n->count--;
    return item;
}

/* Calls all watchers. The lock is held on entry and return, and released during each call. */
static void notify_watchers(ko_notes *n, const ko_stage_note *note)
{
    for (uint32_t i = 0; i < KO_MAX_WATCHERS; i++) {
        ko_watch *watch = n->watchers[i].watch;
        void *context = n->watchers[i].context;
        if (!watch)
            continue;
        pthread_mutex_unlock(&n->lock);
        watch(context, note);
        pthread_mutex_lock(&n->lock);
    }
}

void ko_notes_deliver(ko_notes *n)
{
    pthread_mutex_lock(&n->lock);
    if (n->delivering) { /* the thread that delivers will take our notes, too */
        pthread_mutex_unlock(&n->lock);
        return;
    }
    n->delivering = true;
    n->deliverer = pthread_self();
    for (ko_note *item; (item = pop_note(n)) != NULL;) {
        notify_watchers(n, &item->note);
        free(item);
        n->delivered++;
        pthread_cond_broadcast(&n->heard);
    }
    KB_ASSERT(n->delivering && !n->first && !n->count);
    n->delivering = false;
    pthread_cond_broadcast(&n->heard);
    pthread_mutex_unlock(&n->lock);
}

void ko_notes_forget(ko_notes *n)
{
    for (ko_note *item; (item = pop_note(n)) != NULL;)
        free(item);
}

void ko_notes_free(ko_notes *n)
{
    ko_notes_forget(n);
    pthread_cond_destroy(&n->heard);
    pthread_mutex_destroy(&n->lock);
}

bool ko_controller_watch(ko_controller *c, ko_watch *watch, void *context)
{
    ko_notes *n = &c->notes;
    bool found = false;
    pthread_mutex_lock(&n->lock);
    for (uint32_t i = 0; i < KO_MAX_WATCHERS && !found; i++) {
        found = !n->watchers[i].watch;
        if (found) {
            n->watchers[i].watch = watch;
            n->watchers[i].context = context;
        }
    }
    pthread_mutex_unlock(&n->lock);
    return found;
}

/* If a note is being delivered, waits until it is, unless the watcher itself calls this. */
void ko_controller_unwatch(ko_controller *c, ko_watch *watch, void *context)
{
    ko_notes *n = &c->notes;
    pthread_mutex_lock(&n->lock);
    for (uint32_t i = 0; i < KO_MAX_WATCHERS; i++)
        if (n->watchers[i].watch == watch && n->watchers[i].context == context)
            n->watchers[i].watch = NULL;
    /* Between notes the delivering thread keeps the lock: since we hold it, it is within one now.
     */
    uint64_t delivered = n->delivered;
    while (n->delivering && n->delivered == delivered &&
           !pthread_equal(n->deliverer, pthread_self()))
        pthread_cond_wait(&n->heard, &n->lock);
    pthread_mutex_unlock(&n->lock);
}
