/* The code in the memory of a process: which file is mapped where, as the kernel reports it while
 * the process runs. Unmapping is not reported, so a mapping stays until another one replaces it. */
#include "trace/unwind/unwind.h"

#define MAX_MAPPINGS 65536u

static void free_mapping(ku_mapping *m) { free(m->path); }

/* Cut or remove the mappings that overlap a range. */
static void clear_range(ku_address_space *space, uint64_t start, uint64_t end)
{
    size_t kept = 0;
    for (size_t i = 0; i < space->mappings.count; i++) {
        ku_mapping m = space->mappings.data[i];
        bool overlaps = m.start < end && m.end > start;
        if (overlaps && m.start < start) {
            m.end = start;
        } else if (overlaps && m.end > end) {
            m.file_offset += end - m.start;
            m.start = end;
        } else if (overlaps) {
            free_mapping(&m);
            continue;
        }
        space->mappings.data[kept++] = m;
    }
    space->mappings.count = kept;
}

bool ku_space_add(ku_address_space *space, uint64_t start, uint64_t bytes, uint64_t file_offset,
                  const char *path)
{
    if (bytes == 0 || bytes > UINT64_MAX - start)
        return true;
    clear_range(space, start, start + bytes);
    ku_mapping m = {.start = start, .end = start + bytes, .file_offset = file_offset};
    if (space->mappings.count >= MAX_MAPPINGS)
        return true;
    m.path = strdup(path);
    if (!m.path || !kb_vec_push(&space->mappings, m)) {
        free(m.path);
        return false;
    }
    size_t at = space->mappings.count - 1;
    for (; at > 0 && space->mappings.data[at - 1].start > start; at--)
        space->mappings.data[at] = space->mappings.data[at - 1];
    space->mappings.data[at] = m;
    return true;
}

bool ku_space_copy(ku_address_space *to, const ku_address_space *from)
{
    for (size_t i = 0; i < from->mappings.count; i++) {
        ku_mapping m = from->mappings.data[i];
        m.path = strdup(m.path);
        m.is_noted = false;
        if (!m.path || !kb_vec_push(&to->mappings, m)) {
            free(m.path);
            return false;
        }
    }
    return true;
}

ku_mapping *ku_space_find(const ku_address_space *space, uint64_t address)
{
    size_t at = 0;
    KB_LOWER_BOUND(at, space->mappings.count, space->mappings.data[at].end <= address);
    if (at == space->mappings.count || space->mappings.data[at].start > address)
        return NULL;
    return &space->mappings.data[at];
}

void ku_space_free(ku_address_space *space)
{
    for (size_t i = 0; i < space->mappings.count; i++)
        free_mapping(&space->mappings.data[i]);
    kb_vec_free(&space->mappings);
}
