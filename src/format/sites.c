/* The dictionary from the reader's side: sites and metadata sets by id, parsed when an event refers
 * to them, and the table entries (processes, devices, …) one after the other. Untrusted like the
 * chunks: a malformed entry is counted and replaced by kf_site_unknown. */
#include "format/decode.h"

const kf_site kf_site_unknown = {.name = {"?", 1}, .kind = KINETO_KIND_USER_ANNOTATION};

kineto_status kf_sites_init(kf_sites *sites, const kf_input *input, kineto_error *err)
{
    *sites = (kf_sites){.input = input};
    sites->slots = calloc((size_t)input->dictionary_words + 1, sizeof *sites->slots);
    sites->sets = calloc((size_t)input->dictionary_words + 1, sizeof *sites->sets);
    return sites->slots && sites->sets ? KINETO_OK : kb_fail_memory(err, "table of sites");
}

void kf_sites_free(kf_sites *sites)
{
    free(sites->slots);
    free(sites->sets);
    kb_vec_free(&sites->list);
    kb_arena_free(&sites->arena);
}

/* Header of the entry at id if it lies inside the dictionary, else 0. */
static uint64_t read_entry_header(const kf_input *input, uint32_t id)
{
    if (id == 0 || id >= input->dictionary_words)
        return 0;
    uint64_t header = kb_load_acquire(&input->dictionary[id]);
    uint64_t words = kf_entry_header_words(header), size = kf_entry_header_size(header);
    bool fits = words > 0 && words <= input->dictionary_words - id && size <= (words - 1) * 8;
    return fits ? header : 0;
}

static bool are_types_fixed(const uint8_t *types, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (types[i] < KINETO_ARG_INT || types[i] > KINETO_ARG_BOOL)
            return false;
    return true;
}

static bool are_types_known(const uint8_t *types, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (types[i] == 0 || types[i] >= KINETO_ARG_TYPE_COUNT)
            return false;
    return true;
}

/* NULL: the entry is malformed, or out of memory. The site is allocated without the names of args
 * that it does not have. */
static const kf_site *parse_site_entry(kf_sites *sites, const uint8_t *payload, size_t size)
{
    kf_site_entry e;
    if (size < sizeof e)
        return NULL;
    memcpy(&e, payload, sizeof e);
    const uint8_t *types = payload + sizeof e;
    if (e.arg_count > KINETO_SITE_MAX_ARGS || size - sizeof e < e.arg_count ||
        !kf_kind_possible(e.kind) || !are_types_known(types, e.arg_count))
        return NULL;
    size_t bytes = offsetof(kf_site, arg_names) + (size_t)e.arg_count * sizeof(kineto_string);
    kf_site *site = kb_arena_alloc(&sites->arena, bytes, _Alignof(kf_site));
    if (!site)
        return NULL;
    memset(site, 0, bytes);
    site->index = (uint32_t)sites->list.count + 1;
    site->kind = e.kind;
    site->scope = e.scope;
    site->arg_count = e.arg_count;
    site->known = true;
    site->fixed_args = are_types_fixed(types, e.arg_count);
    memcpy(site->arg_types, types, e.arg_count);
    size_t at = sizeof e + e.arg_count;
    KB_ASSERT(at <= size);
    site->name = kf_entry_text(payload, size, &at);
    for (uint32_t i = 0; i < e.arg_count; i++)
        site->arg_names[i] = kf_entry_text(payload, size, &at);
    site->overload = kf_entry_text(payload, size, &at);
    return site;
}

KB_COLD const kf_site *kf_site_load(kf_sites *sites, uint32_t id)
{
    if (id == UINT32_MAX) /* writers use it when the dictionary is full */
        return &kf_site_unknown;
    uint64_t header = read_entry_header(sites->input, id);
    const kf_site *site = NULL;
    if ((header & 0xff) == KF_ENTRY_SITE) {
        const uint8_t *payload = (const uint8_t *)&sites->input->dictionary[id + 1];
        site = parse_site_entry(sites, payload, (size_t)(header >> 32));
    }
    if (!site) {
        sites->bad_entries++;
        site = &kf_site_unknown;
    }
    if (id < sites->input->dictionary_words && kb_vec_push(&sites->list, site))
        sites->slots[id] = (uint32_t)sites->list.count;
    return site;
}

/* ---- sets of args ---------------------------------------------------------------------------- */

KB_COLD uint32_t kf_set_load(kf_sites *sites, uint32_t id)
{
    const kf_input *in = sites->input;
    if (id >= in->dictionary_words) {
        sites->bad_entries++;
        return 0;
    }
    if (!sites->sets[id]) {
        kf_args set = kf_set_args(in->dictionary, in->dictionary_words, id);
        bool sound = set.word_count && kf_loose_args_valid(set.words, set.word_count);
        sites->sets[id] = sound ? 1 : 2;
        sites->bad_entries += !sound;
    }
    return sites->sets[id] == 1 ? id : 0;
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* All types after SITE, but not sets (ARGS), which are parsed when an event refers to them. */
static bool is_table_entry(uint32_t type)
{
    return type >= KF_ENTRY_PROCESS && type < KF_ENTRY_TYPE_COUNT && type != KF_ENTRY_ARGS;
}

kineto_status kf_dictionary_walk(const kf_input *input, const kf_visitor *visitor,
                                 uint64_t *bad_entries)
{
    for (uint32_t at = 1; at < input->dictionary_words;) {
        uint64_t raw = kb_load_acquire(&input->dictionary[at]),
                 header = read_entry_header(input, at);
        if (raw == 0)
            break;
        uint32_t words = kf_entry_header_words(raw), type = kf_entry_header_type(raw);
        if (!header || type >= KF_ENTRY_TYPE_COUNT)
            ++*bad_entries;
        if (words == 0 || words > input->dictionary_words - at)
            break;
        if (header && is_table_entry(type) && visitor->entry) {
            const uint8_t *payload = (const uint8_t *)&input->dictionary[at + 1];
            kineto_status status = visitor->entry(visitor->context, at, (kf_entry_type)type,
                                                  payload, (size_t)(header >> 32));
            if (status)
                return status;
        }
        at += words;
    }
    return KINETO_OK;
}
