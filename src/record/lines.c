/* Ledger lines with a plug-in's own texts. The dictionary only grows, so a line is written when its
 * count has doubled, and the remainder when the session ends: that makes few entries however often
 * the line is added, and most of the count is recorded if the program is killed. All under the
 * builder's lock, except at the end of a session, when no thread is inside the builder. */
#include "record/announce.h"

typedef KinetoPlugin_TraceBuilderHandle handle;

#define MAX_LINES   32u /* of a session */
#define REASON_SIZE 160u
#define DETAIL_SIZE 480u

typedef struct line {
    uint64_t written, pending;
    bool is_loss;
    char reason[REASON_SIZE], detail[DETAIL_SIZE];
} line;

struct kr_lines {
    uint32_t count;
    uint32_t pid; /* whose they are: a fork's child has copies of its parent's */
    line lines[MAX_LINES];
};

void kr_lines_free(kr_lines *lines)
{
    if (lines)
        kb_os_unmap(lines, sizeof *lines);
}

void kr_lines_reset(kr_builder *b)
{
    if (b->lines)
        b->lines->count = 0;
}

/* Copy as much as fits into `room` with a NUL, without cutting through a UTF-8 character. */
static void copy_line_text(char *to, size_t room, const char *text)
{
    size_t size = strnlen(text, room);
    if (size == room)
        for (size--; size && ((uint8_t)text[size] & 0xc0) == 0x80;)
            size--;
    memcpy(to, text, size);
    to[size] = 0;
}

static int write_ledger_line(const kr_builder *b, line *l)
{
    if (!kr_note(b->name, l->reason, l->pending, l->is_loss, l->detail, kb_ticks(kb_ticks_clock())))
        return kr_refuse(b, KF_REASON_DICTIONARY_FULL);
    l->written += l->pending;
    l->pending = 0;
    return 0;
}

void kr_lines_flush(kr_builder *b)
{
    kr_lines *lines = b->lines;
    if (!lines || lines->pid != kb_os_pid())
        return;
    for (uint32_t i = 0; i < lines->count; i++)
        if (lines->lines[i].pending)
            (void)write_ledger_line(b, &lines->lines[i]);
    lines->count = 0;
}

/* The line with this reason, added if it is new; NULL: there are MAX_LINES already. */
static line *find_ledger_line(kr_lines *lines, const char *reason, bool is_loss, const char *detail)
{
    char text[REASON_SIZE];
    copy_line_text(text, sizeof text, reason);
    for (uint32_t i = 0; i < lines->count; i++)
        if (lines->lines[i].is_loss == is_loss && strcmp(lines->lines[i].reason, text) == 0)
            return &lines->lines[i];
    KB_ASSERT(lines->count <= MAX_LINES && lines->pid == kb_os_pid());
    if (lines->count == MAX_LINES)
        return NULL;
    line *l = &lines->lines[lines->count++];
    *l = (line){.is_loss = is_loss};
    memcpy(l->reason, text, sizeof text);
    copy_line_text(l->detail, sizeof l->detail, detail ? detail : "");
    return l;
}

/* The lines of this process, mapped with the first one; NULL: out of memory. */
static kr_lines *get_ledger_lines(kr_builder *b)
{
    if (!b->lines)
        b->lines = kb_os_map(sizeof(kr_lines));
    uint32_t pid = kb_os_pid();
    if (b->lines && b->lines->pid != pid) {
        b->lines->count = 0;
        b->lines->pid = pid;
    }
    return b->lines;
}

static int add_ledger_count(kr_builder *b, const char *reason, uint64_t count, bool is_loss,
                            const char *detail)
{
    if (!reason || !*reason)
        return kr_refuse(b, KF_REASON_PLUGIN_ERROR);
    if (!count)
        return 0;
    if (!kr_lock_take(&b->lock))
        return 1;
    kr_lines *lines = get_ledger_lines(b);
    line *l = lines ? find_ledger_line(lines, reason, is_loss, detail) : NULL;
    int result = l ? 0 : kr_refuse(b, KF_REASON_PLUGIN_ERROR);
    if (l) {
        l->pending += count;
        if (l->pending >= l->written)
            result = write_ledger_line(b, l);
    }
    kb_lock_drop(&b->lock);
    return result;
}

int kr_add_ledger_line(handle *b, const char *reason, uint64_t count, int32_t is_loss,
                       const char *detail)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_PLUGIN_ERROR);
    if (!c)
        return 1;
    int result = add_ledger_count(b, reason, count, is_loss != 0, detail);
    kr_plugin_exit(c);
    return result;
}
