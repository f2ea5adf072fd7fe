/* What /proc says of processes that are there already: threads, their names, children, and the code in
 * memory. What changes meanwhile is reported by events (events.h). */
#include "cpu/attach.h"

#include <dirent.h>
#include <stdio.h>

#define MAX_DEPTH 64u /* of processes that started each other */

typedef struct tree_visit {
    ku_thread_visitor *visit;
    void *context;
    size_t count;
} tree_visit;

static void visit_process(tree_visit *v, uint32_t pid, uint32_t depth);

/* The processes that a thread has started. */
static void visit_children(tree_visit *v, uint32_t pid, uint32_t tid, uint32_t depth)
{
    char path[64];
    unsigned child;
    snprintf(path, sizeof path, "/proc/%u/task/%u/children", pid, tid);
    FILE *file = fopen(path, "re");
    while (file && depth < MAX_DEPTH && fscanf(file, "%u", &child) == 1)
        visit_process(v, child, depth + 1);
    if (file)
        fclose(file);
}

static void visit_process(tree_visit *v, uint32_t pid, uint32_t depth)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *tasks = pid == kb_os_pid() ? NULL : opendir(path); /* not the recorder itself */
    for (struct dirent *entry; tasks && (entry = readdir(tasks)) != NULL;) {
        uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (!tid)
            continue;
        v->visit(v->context, pid, tid);
        v->count++;
        visit_children(v, pid, tid, depth);
    }
    if (tasks)
        closedir(tasks);
}

size_t ku_attach_visit_threads(uint32_t pid, ku_thread_visitor *visit, void *context)
{
    tree_visit v = {visit, context, 0};
    visit_process(&v, pid, 0);
    return v.count;
}

/* A line is "START-END PERMISSIONS OFFSET DEVICE INODE PATH". */
void ku_attach_add_mapping(ku_watched *w, ku_process *p, char *line)
{
    unsigned long long start, end, offset;
    char permissions[8];
    int path_at = 0;
    if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %n", &start, &end, permissions, &offset,
               &path_at) < 4 || !path_at || permissions[2] != 'x')
        return;
    line[strcspn(line, "\n")] = '\0';
    ku_watched_note_file(w, line + path_at);
    (void)ku_space_add(&p->space, start, end - start, offset, line + path_at);
}

void ku_attach_read_process(ku_watched *w, ku_process *p)
{
    char path[32], line[4096 + 128];
    (void)kb_os_process_name(p->pid, p->name, sizeof p->name);
    snprintf(path, sizeof path, "/proc/%u/maps", p->pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        ku_attach_add_mapping(w, p, line);
    if (file)
        fclose(file);
}
