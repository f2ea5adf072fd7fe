/* The processes and threads of a watched program, and their entries in the recording's dictionary,
 * which are written when a record needs them. A process that has ckineto's library in it writes an
 * entry of its own; both have the same identity, so that a trace shows one process. */
#include "cpu/watched.h"
#include "session/process_image.h"

/* ---- the lists ------------------------------------------------------------------------------- */

ku_thread *ku_watched_find_thread(const ku_watched *w, uint32_t tid)
{
    const uint64_t *slot = kb_map_find(&w->threads, tid);
    KB_ASSERT(!slot || *slot <= w->thread_list.count);
    return slot && *slot ? w->thread_list.data[*slot - 1] : NULL;
}

static ku_process *find_process(const ku_watched *w, uint32_t pid)
{
    const uint64_t *slot = kb_map_find(&w->processes, pid);
    KB_ASSERT(!slot || *slot <= w->process_list.count);
    return slot && *slot ? w->process_list.data[*slot - 1] : NULL;
}

/* Let the map lead to the last element of a list. */
static bool map_last(kb_map *map, uint32_t key, size_t count)
{
    uint64_t *slot = kb_map_insert(map, key, 0, NULL);
    if (slot)
        *slot = count;
    return slot != NULL;
}

ku_process *ku_watched_process(ku_watched *w, uint32_t pid)
{
    ku_process *p = find_process(w, pid);
    if (p)
        return p;
    p = calloc(1, sizeof *p);
    if (!p || !kb_vec_push(&w->process_list, p) ||
        !map_last(&w->processes, pid, w->process_list.count)) {
        w->no_memory++;
        free(p);
        return NULL;
    }
    p->pid = p->space.pid = pid;
    return p;
}

ku_thread *ku_watched_thread(ku_watched *w, uint32_t pid, uint32_t tid)
{
    ku_thread *t = ku_watched_find_thread(w, tid);
    if (t)
        return t;
    ku_process *p = ku_watched_process(w, pid);
    t = calloc(1, sizeof *t);
    if (!p || !t || !kb_vec_push(&w->thread_list, t) ||
        !map_last(&w->threads, tid, w->thread_list.count)) {
        w->no_memory++;
        free(t);
        return NULL;
    }
    t->pid = pid;
    t->tid = tid;
    p->thread_count++;
    return t;
}

static void free_thread(ku_thread *t)
{
    free(t->frames_before);
    free(t);
}

/* The last element of a list takes the place of the one that goes. */
static void forget_process(ku_watched *w, ku_process *p)
{
    uint64_t *slot = kb_map_find(&w->processes, p->pid);
    ku_process *last = w->process_list.data[--w->process_list.count];
    w->process_list.data[*slot - 1] = last;
    *kb_map_find(&w->processes, last->pid) = *slot;
    *slot = 0;
    w->without_timers += !p->has_timers;
    ku_space_free(&p->space);
    free(p);
}

void ku_watched_forget_thread(ku_watched *w, ku_thread *t)
{
    uint64_t *slot = kb_map_find(&w->threads, t->tid);
    ku_thread *last = w->thread_list.data[--w->thread_list.count];
    ku_process *p = find_process(w, t->pid);
    w->thread_list.data[*slot - 1] = last;
    *kb_map_find(&w->threads, last->tid) = *slot;
    *slot = 0;
    if (p && --p->thread_count == 0)
        forget_process(w, p);
    free_thread(t);
}

void ku_watched_copy_process(ku_watched *w, uint32_t pid, uint32_t parent_pid)
{
    const ku_process *parent = find_process(w, parent_pid);
    ku_process *p = ku_watched_process(w, pid);
    if (!p)
        return;
    p->parent_pid = parent_pid;
    if (!parent)
        return;
    memcpy(p->name, parent->name, sizeof p->name);
    ku_space_free(&p->space);
    p->space = (ku_address_space){.pid = pid};
    w->no_memory += !ku_space_copy(&p->space, &parent->space);
}

void ku_watched_exec(ku_watched *w, uint32_t pid, const char *name, uint64_t ticks)
{
    ku_process *p = ku_watched_process(w, pid);
    if (!p)
        return;
    ku_space_free(&p->space);
    p->space = (ku_address_space){.pid = pid};
    p->entry = 0;
    p->exec_ticks = ticks;
    p->has_timers = false;
    snprintf(p->name, sizeof p->name, "%s", name);
}

/* ---- files ----------------------------------------------------------------------------------- */

#define MAX_FILES 4096u

void ku_watched_note_file(ku_watched *w, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash && w->files.strings.count < MAX_FILES)
        (void)kb_intern_id(&w->files, kb_string(slash + 1));
}

bool ku_watched_has_file(const ku_watched *w, const char *beginning)
{
    size_t size = strlen(beginning);
    for (uint32_t i = 0; i < w->files.strings.count; i++) {
        kineto_string name = kb_intern_get(&w->files, i);
        if (name.size >= size && memcmp(name.data, beginning, size) == 0)
            return true;
    }
    return false;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* The last entry that a process wrote itself. It is used for one that has ended, whose identity
 * cannot be read any more. */
static uint32_t find_own_entry(const kf_pool *pool, uint32_t pid, uint64_t since_ticks)
{
    uint32_t found = 0;
    uint32_t used =
        kb_min_u32(kb_load_acquire(&pool->control->dictionary_used), pool->dictionary_words);
    for (uint32_t at = 1, words; at < used; at += words) {
        uint64_t header = kb_load_acquire(&pool->dictionary[at]);
        kf_process_entry e;
        words = kf_entry_header_words(header);
        if (words == 0 || words > used - at)
            break;
        if (kf_entry_header_type(header) != KF_ENTRY_PROCESS || words <= sizeof e / 8)
            continue;
        memcpy(&e, pool->dictionary + at + 1, sizeof e);
        if (e.pid == pid && e.ticks >= since_ticks)
            found = at;
    }
    return found;
}

static uint32_t write_process_entry(ku_watched *w, const ku_process *p)
{
    char command[1024];
    kf_process_entry entry = {.pid = p->pid,
                              .ppid = p->parent_pid ? p->parent_pid : kb_os_parent(p->pid),
                              .start_time = kb_os_start_time(p->pid),
                              .exec_id = ks_process_exec_id(p->pid),
                              .ticks = kb_ticks(w->pool->control->ticks_clock)};
    if (!entry.exec_id) {
        uint32_t own = find_own_entry(w->pool, p->pid, p->exec_ticks);
        if (own)
            return own;
    }
    uint32_t name = (uint32_t)strnlen(p->name, sizeof p->name);
    uint32_t size = (uint32_t)kb_os_command_line(p->pid, command, sizeof command);
    kf_part parts[] = {{&entry, sizeof entry},
                       {&name, sizeof name},
                       {p->name, name},
                       {&size, sizeof size},
                       {command, size}};
    return kf_dictionary_add(w->pool, KF_ENTRY_WATCHED_PROCESS, parts, KB_COUNT(parts));
}

static void write_thread_name(ku_watched *w, ku_thread *t)
{
    kf_thread_entry entry = {t->pid, t->tid};
    uint32_t size = (uint32_t)strnlen(t->name, sizeof t->name);
    kf_part parts[] = {{&entry, sizeof entry}, {&size, sizeof size}, {t->name, size}};
    if (kf_dictionary_has_room(w->pool))
        (void)kf_dictionary_add(w->pool, KF_ENTRY_THREAD_NAME, parts, KB_COUNT(parts));
    t->name[0] = '\0';
}

uint32_t ku_watched_entries(ku_watched *w, ku_thread *t)
{
    ku_process *p = ku_watched_process(w, t->pid);
    if (p && !p->entry)
        p->entry = write_process_entry(w, p);
    if (t->name[0])
        write_thread_name(w, t);
    return p ? p->entry : 0;
}

void ku_watched_note_mapping(ku_watched *w, uint32_t process_entry, ku_mapping *m)
{
    kf_module_entry entry = {.process = process_entry,
                             .start = m->start,
                             .end = m->end,
                             .file_offset = m->file_offset};
    uint32_t path = (uint32_t)strlen(m->path);
    kineto_string id = m->image ? ku_image_build_id(m->image) : (kineto_string){"", 0};
    uint32_t id_bytes = (uint32_t)id.size;
    kf_part parts[] = {{&entry, sizeof entry},
                       {&path, sizeof path},
                       {m->path, path},
                       {&id_bytes, sizeof id_bytes},
                       {id.data, id.size}};
    m->is_noted = true;
    if (kf_dictionary_has_room(w->pool))
        (void)kf_dictionary_add(w->pool, KF_ENTRY_MODULE, parts, KB_COUNT(parts));
}

void ku_watched_free(ku_watched *w)
{
    for (size_t i = 0; i < w->thread_list.count; i++)
        free_thread(w->thread_list.data[i]);
    for (size_t i = 0; i < w->process_list.count; i++) {
        ku_space_free(&w->process_list.data[i]->space);
        free(w->process_list.data[i]);
    }
    kb_vec_free(&w->thread_list);
    kb_vec_free(&w->process_list);
    kb_map_free(&w->threads);
    kb_map_free(&w->processes);
    kb_intern_free(&w->files);
}
