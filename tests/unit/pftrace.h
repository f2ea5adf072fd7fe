/* Reading Perfetto's format in tests: a small decoder that shares nothing with the writer. It
 * follows sequences (clock, default track, interned texts) and pairs begins with ends by track, in
 * the order of time and, within a moment, of the file, as Perfetto does. */
#ifndef CKINETO_TESTS_PFTRACE_H
#define CKINETO_TESTS_PFTRACE_H

#include "unit.h"

#include <stdbool.h>

#define PF_MOST      4096
#define PF_SEQUENCES 256
#define PF_TEXTS     512

typedef struct pf_bytes {
    const uint8_t *at, *end;
} pf_bytes;

typedef struct pf_field {
    uint32_t id, wire;
    uint64_t number;
    pf_bytes bytes;
} pf_field;

typedef struct pf_track {
    uint64_t uuid, parent;
    char name[128], unit[32], process_name[64], thread_name[64], label[64];
    int64_t pid, tid;
    bool counter;
} pf_track;

typedef struct pf_event {
    uint64_t track, type, sequence;
    int64_t ns, end_ns, integer;
    double real;
    bool is_real, ended;
    uint32_t depth;
    char name[128], category[64];
    char args[1024]; /* "key=value;" each, typed: i5 u5 d1.5 b1 s"x" [..] {..} */
    uint64_t flows[8], flow_ends[8];
    uint32_t flow_count, flow_end_count;
} pf_event;

typedef struct pf_sequence {
    uint64_t track, clock;
    int64_t ns;
    char *texts[3][PF_TEXTS]; /* categories, names, keys */
} pf_sequence;

typedef struct pf_file {
    pf_track tracks[PF_MOST];
    pf_event events[PF_MOST];
    uint32_t track_count, event_count, packets, interned;
    char metadata[16384]; /* "name=value\n" each */
    uint64_t primary_clock;
    pf_sequence sequences[PF_SEQUENCES];
} pf_file;

static inline uint64_t pf_varint(pf_bytes *b)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(b->at < b->end && shift < 70);
        v |= (uint64_t)(*b->at & 127) << shift;
        if (*b->at++ < 128)
            return v;
    }
}

static inline bool pf_next(pf_bytes *b, pf_field *f)
{
    if (b->at == b->end)
        return false;
    uint64_t key = pf_varint(b), size;
    memset(f, 0, sizeof *f);
    f->id = (uint32_t)(key >> 3);
    f->wire = key & 7;
    if (f->wire == 0) {
        f->number = pf_varint(b);
        return true;
    }
    assert_true(f->wire == 1 || f->wire == 2 || f->wire == 5);
    size = f->wire == 2 ? pf_varint(b) : f->wire == 1 ? 8 : 4;
    assert_true(size <= (uint64_t)(b->end - b->at));
    f->bytes = (pf_bytes){b->at, b->at + size};
    b->at += size;
    if (f->wire == 1)
        for (int i = 0; i < 8; i++)
            f->number |= (uint64_t)f->bytes.at[i] << 8 * i;
    return true;
}

static inline void pf_text(char *to, size_t size, pf_bytes b)
{
    size_t n = b.at ? (size_t)(b.end - b.at) : 0;
    n = n < size ? n : size - 1;
    if (n > 0)
        memcpy(to, b.at, n);
    to[n] = '\0';
}

static inline void pf_append(char *to, size_t size, const char *fmt, ...)
{
    va_list list;
    size_t used = strlen(to);
    va_start(list, fmt);
    vsnprintf(to + used, size - used, fmt, list);
    va_end(list);
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static inline void pf_read_process(pf_track *t, pf_bytes b)
{
    for (pf_field f; pf_next(&b, &f);) {
        if (f.id == 1)
            t->pid = (int64_t)f.number;
        if (f.id == 6)
            pf_text(t->process_name, sizeof t->process_name, f.bytes);
        if (f.id == 8)
            pf_text(t->label, sizeof t->label, f.bytes);
    }
}

static inline void pf_read_thread(pf_track *t, pf_bytes b)
{
    for (pf_field f; pf_next(&b, &f);) {
        if (f.id == 1)
            t->pid = (int64_t)f.number;
        if (f.id == 2)
            t->tid = (int64_t)f.number;
        if (f.id == 5)
            pf_text(t->thread_name, sizeof t->thread_name, f.bytes);
    }
}

static inline void pf_read_track(pf_file *file, pf_bytes b)
{
    assert_true(file->track_count < PF_MOST);
    pf_track *t = &file->tracks[file->track_count++];
    for (pf_field f; pf_next(&b, &f);) {
        if (f.id == 1)
            t->uuid = f.number;
        if (f.id == 5)
            t->parent = f.number;
        if (f.id == 2)
            pf_text(t->name, sizeof t->name, f.bytes);
        if (f.id == 3)
            pf_read_process(t, f.bytes);
        if (f.id == 4)
            pf_read_thread(t, f.bytes);
        if (f.id == 8) {
            t->counter = true;
            for (pf_field c; pf_next(&f.bytes, &c);)
                if (c.id == 6)
                    pf_text(t->unit, sizeof t->unit, c.bytes);
        }
    }
}

static inline const pf_track *pf_track_of(const pf_file *file, uint64_t uuid)
{
    const pf_track *found = NULL;
    for (uint32_t i = 0; i < file->track_count; i++)
        if (file->tracks[i].uuid == uuid) {
            assert_null(found); /* described once */
            found = &file->tracks[i];
        }
    return found;
}

static inline const pf_track *pf_track_named(const pf_file *file, const char *name)
{
    for (uint32_t i = 0; i < file->track_count; i++)
        if (strcmp(file->tracks[i].name, name) == 0)
            return &file->tracks[i];
    fail_msg("no track %s", name);
    return NULL;
}

/* ---- events ---------------------------------------------------------------------------------- */

static inline void pf_read_interned(pf_file *file, pf_sequence *s, pf_bytes b)
{
    for (pf_field f; pf_next(&b, &f);) {
        uint64_t iid = 0;
        char text[256] = "";
        assert_in_range(f.id, 1, 3);
        for (pf_field t; pf_next(&f.bytes, &t);) {
            if (t.id == 1)
                iid = t.number;
            if (t.id == 2)
                pf_text(text, sizeof text, t.bytes);
        }
        assert_in_range(iid, 1, PF_TEXTS - 1);
        assert_null(s->texts[f.id - 1][iid]); /* stated once */
        s->texts[f.id - 1][iid] = strdup(text);
        file->interned++;
    }
}

static inline const char *pf_interned(const pf_sequence *s, int which, uint64_t iid)
{
    assert_in_range(iid, 1, PF_TEXTS - 1);
    assert_non_null(s->texts[which][iid]);
    return s->texts[which][iid];
}

static inline void pf_read_value(const pf_sequence *s, char *to, size_t size, pf_bytes b)
{
    bool items = false;
    for (pf_field f; pf_next(&b, &f);) {
        char text[600];
        double d;
        memcpy(&d, &f.number, sizeof d);
        pf_text(text, sizeof text, f.bytes);
        switch (f.id) {
        case 1:
            pf_append(to, size, "%s=", pf_interned(s, 2, f.number));
            break;
        case 10:
            pf_append(to, size, "%s=", text);
            break;
        case 2:
            pf_append(to, size, "b%d", (int)f.number);
            break;
        case 3:
            pf_append(to, size, "u%llu", (unsigned long long)f.number);
            break;
        case 4:
            pf_append(to, size, "i%lld", (long long)f.number);
            break;
        case 5:
            pf_append(to, size, "d%.17g", d);
            break;
        case 6:
            pf_append(to, size, "s%s", text);
            break;
        case 11:
        case 12:
            pf_append(to, size, items ? "," : f.id == 11 ? "{" : "[");
            pf_read_value(s, to, size, f.bytes);
            items = true;
            break;
        default:
            fail_msg("unknown value %u", f.id);
        }
    }
    if (items)
        pf_append(to, size, strrchr(to, '{') > strrchr(to, '[') ? "}" : "]");
}

static inline void pf_read_event(pf_event *e, const pf_sequence *s, pf_bytes b)
{
    for (pf_field f; pf_next(&b, &f);) {
        if (f.id == 9)
            e->type = f.number;
        if (f.id == 10)
            snprintf(e->name, sizeof e->name, "%s", pf_interned(s, 1, f.number));
        if (f.id == 3)
            snprintf(e->category, sizeof e->category, "%s", pf_interned(s, 0, f.number));
        if (f.id == 11)
            e->track = f.number;
        if (f.id == 30)
            e->integer = (int64_t)f.number;
        if (f.id == 44) {
            e->is_real = true;
            memcpy(&e->real, &f.number, sizeof e->real);
        }
        if (f.id == 47 && e->flow_count < 8)
            e->flows[e->flow_count++] = f.number;
        if (f.id == 48 && e->flow_end_count < 8)
            e->flow_ends[e->flow_end_count++] = f.number;
        if (f.id == 4) {
            pf_read_value(s, e->args, sizeof e->args, f.bytes);
            pf_append(e->args, sizeof e->args, ";");
        }
    }
}

/* ---- packets --------------------------------------------------------------------------------- */

static inline void pf_read_defaults(pf_sequence *s, pf_bytes b)
{
    for (pf_field f; pf_next(&b, &f);) {
        if (f.id == 58)
            s->clock = f.number;
        if (f.id == 11)
            for (pf_field d; pf_next(&f.bytes, &d);)
                if (d.id == 11)
                    s->track = d.number;
    }
}

/* The sequence's own clock counts from 0 at the time of the other one. */
static inline void pf_read_clocks(pf_file *file, pf_sequence *s, pf_bytes b)
{
    for (pf_field f; pf_next(&b, &f);) {
        uint64_t id = 0, ns = 0;
        if (f.id == 2)
            file->primary_clock = f.number;
        if (f.id != 1)
            continue;
        for (pf_field c; pf_next(&f.bytes, &c);) {
            id = c.id == 1 ? c.number : id;
            ns = c.id == 2 ? c.number : ns;
        }
        if (id == 1)
            s->ns = (int64_t)ns;
        if (id == 64)
            assert_int_equal(ns, 0);
    }
}

static inline void pf_read_metadata(pf_file *file, pf_bytes b)
{
    for (pf_field f; pf_next(&b, &f);) {
        char name[300] = "", value[600] = "";
        assert_int_equal(f.id, 2);
        for (pf_field m; pf_next(&f.bytes, &m);)
            pf_text(m.id == 1 ? name : value, m.id == 1 ? sizeof name : sizeof value, m.bytes);
        pf_append(file->metadata, sizeof file->metadata, "%s=%s\n", name, value);
    }
}

static inline void pf_read_packet(pf_file *file, pf_bytes b)
{
    pf_event e = {.type = 0};
    pf_field event = {0};
    pf_sequence *s = NULL;
    uint64_t delta = 0;
    for (pf_bytes first = b; first.at < first.end;) {
        pf_field f;
        pf_next(&first, &f);
        if (f.id == 10) {
            assert_in_range(f.number, 1, PF_SEQUENCES - 1);
            s = &file->sequences[f.number];
            e.sequence = f.number;
        }
    }
    assert_non_null(s);
    file->packets++;
    for (pf_field f; pf_next(&b, &f);) {
        if (f.id == 8)
            delta = f.number;
        if (f.id == 12)
            pf_read_interned(file, s, f.bytes);
        if (f.id == 59)
            pf_read_defaults(s, f.bytes);
        if (f.id == 6)
            pf_read_clocks(file, s, f.bytes);
        if (f.id == 60)
            pf_read_track(file, f.bytes);
        if (f.id == 5)
            pf_read_metadata(file, f.bytes);
        if (f.id == 11)
            event = f;
    }
    if (!event.id)
        return;
    assert_int_equal(s->clock, 64);
    s->ns += (int64_t)delta;
    e.ns = s->ns;
    e.track = s->track;
    pf_read_event(&e, s, event.bytes);
    assert_true(file->event_count < PF_MOST);
    file->events[file->event_count++] = e;
}

/* Ends, by track: nothing may be left open, nothing ended that is not open. */
static inline void pf_pair(pf_file *file)
{
    for (uint32_t i = 0; i < file->event_count; i++) {
        pf_event *e = &file->events[i];
        for (uint32_t k = i; e->type == 2 && !e->ended; k--) {
            pf_event *begin = &file->events[k];
            if (k == 0 && (begin->type != 1 || begin->ended || begin->track != e->track))
                fail_msg("an end without a begin");
            if (begin->type != 1 || begin->ended || begin->track != e->track)
                continue;
            assert_true(begin->ns <= e->ns);
            begin->end_ns = e->ns;
            begin->ended = e->ended = true;
            for (uint32_t inner = k + 1; inner < i; inner++) /* all inside are closed by now */
                if (file->events[inner].track == e->track && file->events[inner].type == 1)
                    file->events[inner].depth++;
        }
    }
    for (uint32_t i = 0; i < file->event_count; i++)
        assert_true(file->events[i].type != 1 || file->events[i].ended);
}

static inline pf_file *pf_read(const void *data, size_t size)
{
    pf_file *file = calloc(1, sizeof *file);
    pf_bytes b = {data, (const uint8_t *)data + size};
    for (pf_field f; pf_next(&b, &f);) {
        assert_int_equal(f.id, 1);
        pf_read_packet(file, f.bytes);
    }
    pf_pair(file);
    return file;
}

static inline void pf_free(pf_file *file)
{
    for (size_t s = 0; s < PF_SEQUENCES; s++)
        for (size_t which = 0; which < 3; which++)
            for (size_t i = 0; i < PF_TEXTS; i++)
                free(file->sequences[s].texts[which][i]);
    free(file);
}

/* The n-th slice or instant of this name. */
static inline const pf_event *pf_find(const pf_file *file, const char *name, uint32_t n)
{
    for (uint32_t i = 0; i < file->event_count; i++)
        if (strcmp(file->events[i].name, name) == 0 && n-- == 0)
            return &file->events[i];
    fail_msg("no event %s", name);
    return NULL;
}

static inline uint32_t pf_count(const pf_file *file, uint64_t type)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < file->event_count; i++)
        count += file->events[i].type == type;
    return count;
}
#endif
