/* Several ranks in one file that another program merged: it knows processes by texts like "[TP00] 251",
 * "[TP01-DP00] 251" (SGLang) or "rank 1: 251". Their processes get ranks, and the ids of each rank,
 * which began at 1 in its own file, become different from those of the others. */
#include "trace/read/read.h"

/* What a label may number, the most significant first. */
enum { RANK, PP, DP, EP, CP, TP, DIMENSIONS };
static const char *const dimension_names[DIMENSIONS] = {"rank", "pp", "dp", "ep", "cp", "tp"};

typedef struct label {
    uint32_t text; /* string id */
    int64_t of[DIMENSIONS];
    uint32_t stated; /* bits of dimensions */
    int32_t rank;
} label;

typedef struct finding {
    kt_reader *r;
    KB_VEC(label) labels;
    kb_map by_text;
    uint32_t *label_of; /* by process: index + 1; 0: none */
} finding;

/* ---- texts ------------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return kb_lower(c) >= 'a' && kb_lower(c) <= 'z'; }

/* A word and its number, as in "TP01" and "rank 3"; what follows it, or NULL: it is no such thing. */
static const char *parse_part(const char *at, const char *end, label *l)
{
    const char *word = at;
    int64_t number = 0;
    while (at < end && is_letter(*at))
        at++;
    kineto_string name = {word, (size_t)(at - word)};
    int dimension = 0;
    while (dimension < DIMENSIONS && !kb_string_is_word(name, dimension_names[dimension]))
        dimension++;
    if (at < end && (*at == ' ' || *at == '_' || *at == '-' || *at == '='))
        at++;
    const char *digits = at;
    for (; at < end && is_digit(*at) && at - digits < 9; at++)
        number = number * 10 + (*at - '0');
    if (dimension == DIMENSIONS || at == digits)
        return NULL;
    l->of[dimension] = number;
    l->stated |= 1u << dimension;
    return at;
}

/* Parts with '-', '_' or a space between, between brackets. */
static const char *parse_brackets(const char *at, const char *end, label *l)
{
    while (at && at < end && *at != ']') {
        at = parse_part(at, end, l);
        if (at && at < end && (*at == '-' || *at == '_' || *at == ' ' || *at == ','))
            at++;
    }
    return at && at < end && l->stated ? at + 1 : NULL;
}

/* The label in front of a text; its bytes, 0: there is none. */
static size_t parse_label(kineto_string text, label *l)
{
    const char *end = text.data + text.size, *at;
    if (!text.size)
        return 0;
    at = text.data[0] == '[' ? parse_brackets(text.data + 1, end, l) : parse_part(text.data, end, l);
    bool alone = text.data[0] != '[' && !(l->stated & 1u << RANK); /* "ep 3" may be anything */
    return at && !alone ? (size_t)(at - text.data) : 0;
}

/* ---- ranks ------------------------------------------------------------------------------------- */

static bool add_process(finding *f, uint32_t process)
{
    label l = {.rank = -1};
    kineto_string text = kt_process_text_of(f->r->b->trace, process);
    size_t size = text.data ? parse_label(text, &l) : 0;
    bool created;
    if (!size)
        return true;
    l.text = kt_string(f->r->b, (kineto_string){text.data, size});
    uint64_t *index = kb_map_insert(&f->by_text, l.text, f->labels.count, &created);
    if (!index || (created && !kb_vec_push(&f->labels, l)))
        return false;
    f->label_of[process] = (uint32_t)*index + 1;
    return true;
}

static int compare_labels(const void *left, const void *right)
{
    const label *a = *(const label *const *)left, *b = *(const label *const *)right;
    for (int i = 0; i < DIMENSIONS; i++)
        if (a->of[i] != b->of[i])
            return a->of[i] < b->of[i] ? -1 : 1;
    return a->text < b->text ? -1 : a->text > b->text;
}

/* Does each label have another number of this dimension? `sorted` is in the order of all dimensions. */
static bool is_rank(label *const *sorted, size_t count, int dimension)
{
    kb_map seen = {0};
    bool is = true;
    for (size_t i = 0; is && i < count; i++) {
        bool created = false;
        is = (sorted[i]->stated >> dimension & 1) &&
             kb_map_insert(&seen, (uint64_t)sorted[i]->of[dimension], 0, &created) && created;
    }
    kb_map_free(&seen);
    return is;
}

/* The number of the rank, or of tensor parallelism, where that differs; else their order. */
static bool number_ranks(finding *f)
{
    size_t count = f->labels.count;
    label **sorted = malloc(count * sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = &f->labels.data[i];
    if (!sorted)
        return false;
    qsort(sorted, count, sizeof *sorted, compare_labels);
    int by = is_rank(sorted, count, RANK) ? RANK : is_rank(sorted, count, TP) ? TP : DIMENSIONS;
    for (size_t i = 0; i < count; i++)
        sorted[i]->rank = (int32_t)(by < DIMENSIONS ? sorted[i]->of[by] : (int64_t)i);
    free(sorted);
    return true;
}

static void set_ranks(const finding *f)
{
    kineto_trace *t = f->r->b->trace;
    for (uint32_t i = 0; i < t->processes.count; i++)
        if (f->label_of[i])
            t->processes.data[i].rank = f->labels.data[f->label_of[i] - 1].rank;
}

static void state_ranks(const finding *f)
{
    enum { SHOWN = 4 };
    char detail[SHOWN * 64] = "";
    size_t size = 0;
    for (size_t i = 0; i < f->labels.count && i < SHOWN; i++) {
        kineto_string text = kb_intern_get(&f->r->b->trace->strings, f->labels.data[i].text);
        size += (size_t)kb_snprintf(detail + size, sizeof detail - size, "%s%.*s is rank %d",
                                    i ? ", " : "", (int)KB_MIN(text.size, (size_t)32), text.data,
                                    f->labels.data[i].rank);
    }
    if (f->labels.count > SHOWN)
        kb_snprintf(detail + size, sizeof detail - size, ", ...");
    kt_ledger_add(f->r->b, kb_string("reader"), kb_string("ranks distinguished by the texts of pids"),
                  f->labels.count, false, kb_string(detail));
}

/* ---- ids --------------------------------------------------------------------------------------- */

/* Ids above are hashes of texts, or marks. */
#define LARGE_ID (UINT64_C(1) << 53)

static uint32_t rank_of_track(const finding *f, uint32_t track)
{
    uint32_t known = f->label_of[f->r->b->trace->tracks.data[track].process];
    return known ? known - 1 : 0;
}

static uint64_t moved_id(uint64_t id, uint32_t part, uint64_t span)
{
    uint64_t key[] = {id, part};
    if (!part)
        return id;
    return id < LARGE_ID ? id + part * span : kb_hash(key, sizeof key) | LARGE_ID;
}

static uint64_t count_ids(const finding *f)
{
    const kineto_trace *t = f->r->b->trace;
    uint64_t most = 0;
    for (size_t b = 0; b < t->blocks.count; b++)
        for (uint32_t i = 0; i < t->blocks.data[b]->count; i++) {
            uint64_t correlation = t->blocks.data[b]->correlation_id[i];
            uint64_t external = t->blocks.data[b]->external_id[i];
            most = KB_MAX(most, correlation < LARGE_ID ? correlation : 0);
            most = KB_MAX(most, external < LARGE_ID ? external : 0);
        }
    for (size_t i = 0; i < f->r->ends.count; i++)
        most = KB_MAX(most, f->r->ends.data[i].id < LARGE_ID ? f->r->ends.data[i].id : 0);
    return most + 1;
}

/* A wait names the record of its event by that row's id, in its args. */
static void move_wait(const finding *f, kt_block *block, uint32_t i, kineto_row row, uint32_t part,
                      uint64_t span)
{
    static const char key[] = "wait_on_cuda_event_record_corr_id";
    kineto_string args = kt_args_text(f->r->b->trace, row), value = kt_member_of(args, key);
    uint64_t id, word;
    if (!value.size || !kt_json_uint(value, &id) || !id)
        return;
    size_t before = (size_t)(value.data - args.data);
    char *text = malloc(args.size + 32);
    f->r->b->status = text ? f->r->b->status : KINETO_E_MEMORY;
    if (!text)
        return;
    memcpy(text, args.data, before);
    char *end = kb_json_format_uint(text + before, moved_id(id, part, span));
    memcpy(end, value.data + value.size, args.size - before - value.size);
    end += args.size - before - value.size;
    if (kt_heap_put(f->r->b, block, (kineto_string){text, (size_t)(end - text)}, &word)) {
        block->args[i] = word;
        block->flags[i] = (uint16_t)((block->flags[i] & ~0x300u) | KT_ARGS_JSON << 8);
    }
    free(text);
}

static void move_rows(const finding *f, uint64_t span)
{
    const kineto_trace *t = f->r->b->trace;
    for (size_t b = 0; b < t->blocks.count; b++) {
        kt_block *block = t->blocks.data[b];
        for (uint32_t i = 0; i < block->count; i++) {
            uint32_t part = rank_of_track(f, block->track[i]);
            uint64_t *ids[] = {&block->correlation_id[i], &block->external_id[i]};
            for (size_t k = 0; part && k < KB_COUNT(ids); k++)
                *ids[k] = *ids[k] ? moved_id(*ids[k], part, span) : 0;
            if (part && (block->kind[i] == KINETO_KIND_CUDA_SYNC ||
                         block->kind[i] == KINETO_KIND_CUDA_EVENT))
                move_wait(f, block, i, (kineto_row)(b * KT_BLOCK_ROWS + i), part, span);
        }
    }
}

/* Ends of flows that have no row yet have a track. */
static void move_flows(const finding *f, uint64_t span)
{
    kt_reader *r = f->r;
    for (size_t i = 0; i < r->late.count; i++) {
        kt_flow_end *end = &r->ends.data[r->late.data[i].end];
        end->id = moved_id(end->id, rank_of_track(f, r->late.data[i].track), span);
    }
    for (size_t i = 0; i < r->ends.count; i++) {
        kt_flow_end *end = &r->ends.data[i];
        if (end->row != KINETO_NO_ROW)
            end->id =
                moved_id(end->id, rank_of_track(f, kt_row_track(r->b->trace, end->row)), span);
    }
}

void kt_read_ranks(kt_reader *r)
{
    const kineto_trace *t = r->b->trace;
    finding f = {.r = r, .label_of = calloc(t->processes.count + 1, sizeof(uint32_t))};
    bool ok = f.label_of != NULL;
    for (uint32_t i = 0; ok && i < t->processes.count; i++)
        ok = add_process(&f, i);
    if (ok && f.labels.count > 1)
        ok = number_ranks(&f);
    if (ok && f.labels.count > 1) {
        uint64_t span = count_ids(&f);
        set_ranks(&f);
        state_ranks(&f);
        move_rows(&f, span);
        move_flows(&f, span);
    }
    if (!ok)
        r->b->status = KINETO_E_MEMORY;
    kb_map_free(&f.by_text);
    kb_vec_free(&f.labels);
    free(f.label_of);
}
