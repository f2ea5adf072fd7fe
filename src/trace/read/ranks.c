/* Separates the ranks in a file that another program merged. Such files name processes by
 * texts like "[TP00] 251", "[TP01-DP00] 251" (SGLang) or "rank 1: 251". The processes get
 * ranks, and the ids of each rank, which began at 1 in its own file, are shifted so that
 * they are unique in the trace. Called once, when all events are committed and devices are
 * known. */
#include "trace/read/read.h"

/* Dimensions of parallelism that a label may number, the most significant first. */
enum { RANK, PP, DP, EP, CP, TP, DIMENSIONS };
static const char *const dimension_names[DIMENSIONS] = {"rank", "pp", "dp", "ep", "cp", "tp"};

/* The label of a rank, as "[TP01-DP00]". */
typedef struct label {
    uint32_t text;          /* string id */
    int64_t of[DIMENSIONS]; /* number by dimension */
    uint32_t stated;        /* bits of the dimensions in the label */
    int32_t rank;           /* -1: not numbered yet */
} label;

typedef struct finding {
    kt_reader *r;
    KB_VEC(label) labels;
    kb_map by_text;     /* string id → index of label */
    uint32_t *label_of; /* by process: index of label + 1; 0: none */
} finding;

/* ---- texts ----------------------------------------------------------------------------------- */

/* Parses a dimension and its number, as in "TP01" and "rank 3". Returns its end; NULL:
 * something else. */
static const char *parse_label_part(const char *at, const char *end, label *l)
{
    const char *word = at;
    int64_t number = 0;
    while (at < end && kb_is_letter(*at))
        at++;
    kineto_string name = {word, (size_t)(at - word)};
    int dimension = 0;
    while (dimension < DIMENSIONS && !kb_string_is_ignoring_case(name, dimension_names[dimension]))
        dimension++;
    if (at < end && (*at == ' ' || *at == '_' || *at == '-' || *at == '='))
        at++;
    const char *digits = at;
    for (; at < end && kb_is_digit(*at) && at - digits < 9; at++)
        number = number * 10 + (*at - '0');
    if (dimension == DIMENSIONS || at == digits)
        return NULL;
    l->of[dimension] = number;
    l->stated |= 1u << dimension;
    return at;
}

/* Parses the parts of a label in brackets, separated by '-', '_', ',' or a space. Returns
 * the position after the bracket; NULL: something else. */
static const char *parse_bracket_label(const char *at, const char *end, label *l)
{
    while (at && at < end && *at != ']') {
        at = parse_label_part(at, end, l);
        if (at && at < end && (*at == '-' || *at == '_' || *at == ' ' || *at == ','))
            at++;
    }
    return at && at < end && l->stated ? at + 1 : NULL;
}

/* Parses the label at the beginning of a text. Returns its size, 0: none. */
static size_t parse_rank_label(kineto_string text, label *l)
{
    const char *end = text.data + text.size, *at;
    if (!text.size)
        return 0;
    at = text.data[0] == '[' ? parse_bracket_label(text.data + 1, end,
                                                   l) : parse_label_part(text.data, end, l);
    /* Without brackets only "rank" is clear: "ep 3" may be anything. */
    bool ambiguous = text.data[0] != '[' && !(l->stated & 1u << RANK);
    return at && !ambiguous ? (size_t)(at - text.data) : 0;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Finds the label of a process, if it has one. False: out of memory. */
static bool find_process_label(finding *f, uint32_t process)
{
    label l = {.rank = -1};
    kineto_string text = kt_process_text_of(f->r->b->trace, process);
    size_t size = text.data ? parse_rank_label(text, &l) : 0;
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

static int compare_rank_labels(const void *left, const void *right)
{
    const label *a = *(const label *const *)left, *b = *(const label *const *)right;
    for (int i = 0; i < DIMENSIONS; i++)
        if (a->of[i] != b->of[i])
            return a->of[i] < b->of[i] ? -1 : 1;
    return a->text < b->text ? -1 : a->text > b->text;
}

/* True if each label states another number in this dimension. */
static bool numbers_all_labels(label *const *sorted, size_t count, int dimension)
{
    kb_map seen = {0};
    bool unique = true;
    for (size_t i = 0; unique && i < count; i++) {
        bool created = false;
        unique = (sorted[i]->stated >> dimension & 1) &&
                 kb_map_insert(&seen, (uint64_t)sorted[i]->of[dimension], 0, &created) && created;
    }
    kb_map_free(&seen);
    return unique;
}

/* Numbers the labels: by their rank, or by tensor parallelism, if that is unique; else in
 * sorted order. False: out of memory. */
static bool number_rank_labels(finding *f)
{
    size_t count = f->labels.count;
    label **sorted = malloc(count * sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = &f->labels.data[i];
    if (!sorted)
        return false;
    qsort(sorted, count, sizeof *sorted, compare_rank_labels);
    int by = DIMENSIONS; /* none: in sorted order */
    if (numbers_all_labels(sorted, count, RANK))
        by = RANK;
    else if (numbers_all_labels(sorted, count, TP))
        by = TP;
    for (size_t i = 0; i < count; i++)
        sorted[i]->rank = (int32_t)(by < DIMENSIONS ? sorted[i]->of[by] : (int64_t)i);
    free(sorted);
    return true;
}

static void set_process_ranks(const finding *f)
{
    kineto_trace *t = f->r->b->trace;
    for (uint32_t i = 0; i < t->processes.count; i++)
        if (f->label_of[i])
            t->processes.data[i].rank = f->labels.data[f->label_of[i] - 1].rank;
}

/* Describes the first ranks in the ledger. */
static void add_ranks_to_ledger(const finding *f)
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
    kt_ledger_add(f->r->b, kb_string("reader"),
                  kb_string("ranks distinguished by the texts of pids"),
                  f->labels.count, false, kb_string(detail));
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* Ids from here on are hashes of texts, or markers; smaller ones are counted by the writer. */
#define LARGE_ID (UINT64_C(1) << 53)

/* Index of the label of a track's process; 0 also for processes without a label. */
static uint32_t rank_of_track(const finding *f, uint32_t track)
{
    uint32_t known = f->label_of[f->r->b->trace->tracks.data[track].process];
    return known ? known - 1 : 0;
}

/* The id of a rank in the whole trace: rank `part` gets ids from part * span on; hashes are
 * hashed again. */
static uint64_t shift_rank_id(uint64_t id, uint32_t part, uint64_t span)
{
    uint64_t key[] = {id, part};
    if (!part)
        return id;
    return id < LARGE_ID ? id + part * span : kb_hash(key, sizeof key) | LARGE_ID;
}

/* One more than the largest counted id: the distance between the ids of two ranks. */
static uint64_t measure_id_span(const finding *f)
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

/* Replaces the id in the args of a wait, which refers to the row that recorded the event. */
static void shift_wait_id(const finding *f, kt_block *block, uint32_t i, kineto_row row,
                          uint32_t part, uint64_t span)
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
    char *end = kb_json_format_uint(text + before, shift_rank_id(id, part, span));
    memcpy(end, value.data + value.size, args.size - before - value.size);
    end += args.size - before - value.size;
    if (kt_block_append_json(f->r->b, block, (kineto_string){text, (size_t)(end - text)}, &word)) {
        block->args[i] = word;
        block->flags[i] = (uint16_t)((block->flags[i] & ~0x300u) | KT_ARGS_JSON << 8);
    }
    free(text);
}

/* Moves the ids of all rows of labelled processes. */
static void shift_row_ids(const finding *f, uint64_t span)
{
    const kineto_trace *t = f->r->b->trace;
    for (size_t b = 0; b < t->blocks.count; b++) {
        kt_block *block = t->blocks.data[b];
        for (uint32_t i = 0; i < block->count; i++) {
            uint32_t part = rank_of_track(f, block->track[i]);
            uint64_t *ids[] = {&block->correlation_id[i], &block->external_id[i]};
            for (size_t k = 0; part && k < KB_COUNT(ids); k++)
                *ids[k] = *ids[k] ? shift_rank_id(*ids[k], part, span) : 0;
            if (part && (block->kind[i] == KINETO_KIND_CUDA_SYNC ||
                         block->kind[i] == KINETO_KIND_CUDA_EVENT))
                shift_wait_id(f, block, i, (kineto_row)(b * KT_BLOCK_ROWS + i), part, span);
        }
    }
}

/* Moves the ids of flow ends: by the track of their row, or if the row is not known yet, by
 * their own track. */
static void shift_flow_ids(const finding *f, uint64_t span)
{
    kt_reader *r = f->r;
    for (size_t i = 0; i < r->late.count; i++) {
        kt_flow_end *end = &r->ends.data[r->late.data[i].end];
        end->id = shift_rank_id(end->id, rank_of_track(f, r->late.data[i].track), span);
    }
    for (size_t i = 0; i < r->ends.count; i++) {
        kt_flow_end *end = &r->ends.data[i];
        if (end->row != KINETO_NO_ROW)
            end->id =
                shift_rank_id(end->id, rank_of_track(f, kt_row_track(r->b->trace, end->row)), span);
    }
}

void kt_read_ranks(kt_reader *r)
{
    const kineto_trace *t = r->b->trace;
    finding f = {.r = r, .label_of = calloc(t->processes.count + 1, sizeof(uint32_t))};
    bool ok = f.label_of != NULL;
    for (uint32_t i = 0; ok && i < t->processes.count; i++)
        ok = find_process_label(&f, i);
    if (ok && f.labels.count > 1)
        ok = number_rank_labels(&f);
    if (ok && f.labels.count > 1) {
        uint64_t span = measure_id_span(&f);
        set_process_ranks(&f);
        add_ranks_to_ledger(&f);
        shift_row_ids(&f, span);
        shift_flow_ids(&f, span);
    }
    if (!ok)
        r->b->status = KINETO_E_MEMORY;
    kb_map_free(&f.by_text);
    kb_vec_free(&f.labels);
    free(f.label_of);
}
