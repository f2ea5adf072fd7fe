/* Packed arguments and texts: measuring, validating, walking. The layout is in format.h ("Packed
 * args"); record/encode.h is the writer. Everything is bounds-checked, since the words come from
 * other processes. */
#include "format/decode.h"

/* ---- texts ----------------------------------------------------------------------------------- */

/* Bytes of an entry of this type; empty when the id is not that of one. */
KB_INLINE kineto_string get_entry_bytes(const uint64_t *dictionary, uint32_t words, uint32_t id,
                                        kf_entry_type type)
{
    const kineto_string nothing = {"", 0};
    if (id == 0 || id >= words)
        return nothing;
    uint64_t header = kb_load_acquire(&dictionary[id]);
    uint32_t entry_words = kf_entry_header_words(header);
    uint64_t size = header >> 32;
    if ((header & 0xff) != type || entry_words == 0 || entry_words > words - id ||
        size > (uint64_t)(entry_words - 1) * 8)
        return nothing;
    return (kineto_string){(const char *)&dictionary[id + 1], (size_t)size};
}

kineto_string kf_dictionary_string(const uint64_t *dictionary, uint32_t words, uint32_t id)
{
    return get_entry_bytes(dictionary, words, id, KF_ENTRY_STRING);
}

kf_args kf_set_args(const uint64_t *dictionary, uint32_t words, uint32_t id)
{
    kineto_string bytes = get_entry_bytes(dictionary, words, id, KF_ENTRY_ARGS);
    uint32_t count = (uint32_t)(bytes.size / sizeof(uint64_t));
    return (kf_args){count ? dictionary + id + 1 : NULL, count, NULL};
}

/* Words of a text, 0 if it runs over the end. */
static uint32_t measure_text(const uint64_t *text, uint32_t words)
{
    if (words == 0)
        return 0;
    if (text[0] >> 32)
        return 1;
    uint64_t need = 1 + ((text[0] & UINT32_MAX) + 7) / 8;
    return need <= words ? (uint32_t)need : 0;
}

kineto_string kf_text(const kf_input *input, const uint64_t **words)
{
    const uint64_t *text = *words;
    uint32_t size = (uint32_t)text[0], id = (uint32_t)(text[0] >> 32);
    *words = text + 1;
    if (id)
        return kf_dictionary_string(input->dictionary, input->dictionary_words, id);
    *words += ((uint64_t)size + 7) / 8;
    return (kineto_string){(const char *)(text + 1), size};
}

kineto_string kf_entry_text(const uint8_t *payload, size_t size, size_t *at)
{
    uint32_t bytes;
    if (*at > size || size - *at < sizeof bytes)
        return (kineto_string){"", 0};
    memcpy(&bytes, payload + *at, sizeof bytes);
    if (size - *at - sizeof bytes < bytes) {
        *at = size;
        return (kineto_string){"", 0};
    }
    kineto_string text = {(const char *)payload + *at + sizeof bytes, bytes};
    *at += sizeof bytes + bytes;
    return text;
}

/* ---- values ----------------------------------------------------------------------------------
 * Words of a packed value that has at most `words`; 0: malformed or longer. */

static uint32_t measure_strings(const uint64_t *value, uint32_t words)
{
    uint32_t at = 1;
    for (uint64_t left = value[0]; left; left--) {
        uint32_t n = measure_text(value + at, words - at);
        if (n == 0)
            return 0;
        at += n;
    }
    return at;
}

static uint32_t measure_shapes(const uint64_t *value, uint32_t words)
{
    uint64_t count = value[0];
    if (count > (uint64_t)(words - 1) * 4)
        return 0;
    uint64_t need = 1 + (count + 3) / 4;
    for (uint64_t i = 0; i < count; i++)
        need += value[1 + i / 4] >> (i % 4 * 16) & 0xffff;
    return need <= words ? (uint32_t)need : 0;
}

uint32_t kf_value_words(uint32_t type, const uint64_t *value, uint32_t words)
{
    if (words == 0)
        return 0;
    switch (type) {
    case KINETO_ARG_INT:
    case KINETO_ARG_UINT:
    case KINETO_ARG_DOUBLE:
    case KINETO_ARG_BOOL:
        return 1;
    case KINETO_ARG_STRING:
    case KINETO_ARG_JSON:
        return measure_text(value, words);
    case KINETO_ARG_INTS:
        return value[0] <= words - 1 ? 1 + (uint32_t)value[0] : 0;
    case KINETO_ARG_STRINGS:
        return measure_strings(value, words);
    case KINETO_ARG_SHAPES:
        return measure_shapes(value, words);
    default:
        return 0;
    }
}

bool kf_site_args_valid(const kf_site *site, const uint64_t *words, uint32_t count)
{
    if (site->fixed_args || !site->known)
        return !site->known || count == site->arg_count;
    uint32_t at = 0;
    for (uint32_t i = 0; i < site->arg_count; i++) {
        uint32_t n = kf_value_words(site->arg_types[i], words + at, count - at);
        if (n == 0)
            return false;
        at += n;
    }
    return at == count;
}

/* Words of the value after a loose arg's word; there may be none. False: malformed. */
static bool measure_loose_value(uint64_t word, const uint64_t *value, uint32_t words, uint32_t *out)
{
    uint32_t type = kf_loose_type(word), size_1 = kf_loose_inline(word);
    if (size_1 == 0) {
        *out = kf_value_words(type, value, words);
        return *out != 0;
    }
    *out = type == KINETO_ARG_INTS ? size_1 - 1 : (size_1 + 6) / 8;
    return (type == KINETO_ARG_STRING || type == KINETO_ARG_JSON || type == KINETO_ARG_INTS) &&
           *out <= words;
}

bool kf_loose_args_valid(const uint64_t *words, uint32_t count)
{
    for (uint32_t at = 0, n; at < count; at += 1 + n)
        if (!measure_loose_value(words[at], words + at + 1, count - at - 1, &n))
            return false;
    return true;
}

/* ---- walking --------------------------------------------------------------------------------- */

void kf_args_begin(kf_args_iterator *it, const kf_args *args, const kf_input *input)
{
    *it = (kf_args_iterator){.args = *args,
                             .dictionary = input->dictionary,
                             .dictionary_words = input->dictionary_words};
}

/* Read the value of an arg whose name and type are set. False: malformed. */
static bool read_arg_value(kf_args_iterator *it, kf_arg *arg)
{
    const uint64_t *at = arg->value = it->args.words + it->position;
    arg->word_count = kf_value_words(arg->type, at, it->args.word_count - it->position);
    it->position += arg->word_count;
    KB_ASSERT(it->position <= it->args.word_count);
    arg->text = (kineto_string){"", 0};
    if (arg->word_count && arg->type == KINETO_ARG_INTS) {
        arg->ints = at + 1;
        arg->int_count = (uint32_t)at[0];
    }
    if (arg->word_count && (arg->type == KINETO_ARG_STRING || arg->type == KINETO_ARG_JSON)) {
        kf_input dictionary = {.dictionary = it->dictionary,
                               .dictionary_words = it->dictionary_words};
        arg->text = kf_text(&dictionary, &at);
    }
    return arg->word_count != 0;
}

static bool next_site_arg(kf_args_iterator *it, kf_arg *arg)
{
    const kf_site *site = it->args.site;
    if (it->index >= site->arg_count)
        return false;
    arg->name = site->arg_names[it->index];
    arg->type = site->arg_types[it->index];
    it->index++;
    return read_arg_value(it, arg);
}

static bool next_loose_arg(kf_args_iterator *it, kf_arg *arg)
{
    KB_ASSERT(it->position < it->args.word_count);
    uint64_t word = it->args.words[it->position++];
    uint32_t size_1 = kf_loose_inline(word), words;
    arg->name = kf_dictionary_string(it->dictionary, it->dictionary_words, (uint32_t)word);
    arg->type = kf_loose_type(word);
    if (size_1 == 0)
        return read_arg_value(it, arg);
    arg->value = it->args.words + it->position;
    if (!measure_loose_value(word, arg->value, it->args.word_count - it->position, &words))
        return false;
    arg->word_count = words;
    bool ints = arg->type == KINETO_ARG_INTS;
    arg->text = (kineto_string){(const char *)arg->value, ints ? 0 : size_1 - 1};
    arg->ints = arg->value;
    arg->int_count = ints ? words : 0;
    it->position += words;
    return true;
}

bool kf_args_next(kf_args_iterator *it, kf_arg *arg)
{
    if (!it->args.words || it->position >= it->args.word_count)
        return false;
    return it->args.site ? next_site_arg(it, arg) : next_loose_arg(it, arg);
}
