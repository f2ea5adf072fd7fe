/* Recorded arguments → arguments of a row. Lists become JSON text. */
#include "trace/from_recording/build.h"

/* A row's args are at most 16 MiB; what would make more is left out and flagged. */
#define MAX_TEXT (1u << 23)

/* ---- JSON text ------------------------------------------------------------------------------- */

static bool text_quoted(kt_build_state *s, kineto_string text)
{
    uint64_t replaced = 0;
    if (text.size > MAX_TEXT || s->text.count > MAX_TEXT)
        return false;
    char *at = kt_build_room(s, text.size * 6 + 2);
    if (at)
        kt_build_advance(s, kb_json_escape(at, text, &replaced));
    return true;
}

static void text_ints(kt_build_state *s, const uint64_t *words, size_t count)
{
    kt_build_put(s, "[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            kt_build_put(s, ",");
        kt_build_put_int(s, (int64_t)words[i]);
    }
    kt_build_put(s, "]");
}

static bool text_strings(kt_build_state *s, const uint64_t *value)
{
    const uint64_t *at = value + 1;
    bool complete = true;
    kt_build_put(s, "[");
    for (uint64_t i = 0; i < value[0] && complete; i++) {
        if (i)
            kt_build_put(s, ",");
        complete = text_quoted(s, kf_text(s->input, &at));
        if (!complete)
            kt_build_put_text(s, kb_string("null"));
    }
    kt_build_put(s, "]");
    return complete;
}

static void text_shapes(kt_build_state *s, const uint64_t *value)
{
    uint64_t count = value[0];
    const uint64_t *dims = value + 1 + (count + 3) / 4;
    kt_build_put(s, "[");
    for (uint64_t i = 0; i < count; i++) {
        uint32_t rank = value[1 + i / 4] >> (i % 4 * 16) & 0xffff;
        if (i)
            kt_build_put(s, ",");
        text_ints(s, dims, rank);
        dims += rank;
    }
    kt_build_put(s, "]");
}

static double as_double(uint64_t word)
{
    double d;
    memcpy(&d, &word, sizeof d);
    return d;
}

/* A list as JSON text; false: too long. */
static bool text_list(kt_build_state *s, const kf_arg *arg)
{
    s->text.count = 0;
    if (arg->type == KINETO_ARG_STRINGS)
        return text_strings(s, arg->value);
    if (arg->type == KINETO_ARG_SHAPES)
        text_shapes(s, arg->value);
    else
        text_ints(s, arg->ints, arg->int_count);
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* So many keys of a row are looked through; where the others stand is kept by key, so that a row
 * with many takes no longer than they are many. What stands there is another row's unless `keys`
 * agrees. */
#define FEW_KEYS 64u

bool kt_build_has_key(const kt_build_state *s, uint32_t key)
{
    for (size_t i = 0; i < KB_MIN(s->keys.count, (size_t)FEW_KEYS); i++)
        if (s->keys.data[i] == key)
            return true;
    uint32_t place = key < s->key_places.count ? s->key_places.data[key] : 0;
    return place >= FEW_KEYS && place < s->keys.count && s->keys.data[place] == key;
}

static void keep_place(kt_build_state *s, uint32_t key, size_t place)
{
    size_t known = s->key_places.count, need = (size_t)key + 1;
    if (!kb_vec_reserve(&s->key_places, need)) {
        s->out_of_memory = true;
        return;
    }
    if (need > known) {
        memset(s->key_places.data + known, 0, (need - known) * sizeof *s->key_places.data);
        s->key_places.count = need;
    }
    s->key_places.data[key] = (uint32_t)place;
}

void kt_build_key_add(kt_build_state *s, uint32_t key)
{
    size_t place = s->keys.count;
    if (!kb_vec_push(&s->keys, key))
        s->out_of_memory = true;
    else if (place >= FEW_KEYS)
        keep_place(s, key, place);
}

static bool seen(kt_build_state *s, uint32_t key)
{
    if (kt_build_has_key(s, key))
        return true;
    kt_build_key_add(s, key);
    return false;
}

/* A long text is one entry of the dictionary, however many rows have it: so it is in the trace,
 * too. It counts as what the row would be without that. */
static void put_checked(kt_build_state *s, uint32_t key, uint32_t type, kineto_string text,
                        uint32_t *flags)
{
    size_t row_bytes = s->b->staged.count + s->shared_bytes;
    if (text.size > MAX_TEXT || row_bytes + text.size > 2 * MAX_TEXT) {
        s->long_args++;
        *flags |= KINETO_ACTIVITY_ARGS_LOST;
    } else if (text.size > KF_MAX_STRING) {
        kt_args_put_shared(s->b, key, (kineto_arg_type)type, kt_string(s->b, text));
        s->shared_bytes += text.size;
    } else if (type == KINETO_ARG_STRING) {
        kt_args_put_string(s->b, key, text);
    } else {
        kt_args_put_json(s->b, key, (kineto_arg_type)type, text);
    }
}

static void put_text(kt_build_state *s, uint32_t key, const kf_arg *arg, uint32_t *flags)
{
    uint32_t type = arg->type;
    if (type == KINETO_ARG_JSON && arg->text.size <= MAX_TEXT && !kb_json_valid(arg->text)) {
        s->bad_json[s->args_source]++;
        type = KINETO_ARG_STRING;
    }
    put_checked(s, key, type, arg->text, flags);
}

static void put_arg(kt_build_state *s, uint32_t key, const kf_arg *arg, uint32_t *flags)
{
    switch (arg->type) {
    case KINETO_ARG_INT:
        kt_args_put_int(s->b, key, (int64_t)arg->value[0]);
        return;
    case KINETO_ARG_UINT:
        kt_args_put_uint(s->b, key, arg->value[0]);
        return;
    case KINETO_ARG_DOUBLE:
        kt_args_put_double(s->b, key, as_double(arg->value[0]));
        return;
    case KINETO_ARG_BOOL:
        kt_args_put_bool(s->b, key, arg->value[0] != 0);
        return;
    case KINETO_ARG_STRING:
    case KINETO_ARG_JSON:
        put_text(s, key, arg, flags);
        return;
    default:
        break;
    }
    if (text_list(s, arg)) {
        kineto_string text = {s->text.data, s->text.count};
        put_checked(s, key, arg->type, text, flags);
    } else {
        s->long_args++;
        *flags |= KINETO_ACTIVITY_ARGS_LOST;
    }
}

/* "name.overload" of an operator, if that is wanted. */
static uint32_t site_name(kt_build_state *s, const kf_site *site)
{
    if (!s->options.overloads || !site->overload.size)
        return kt_string(s->b, site->name);
    s->text.count = 0;
    kt_build_put_text(s, site->name);
    kt_build_put(s, ".");
    kt_build_put_text(s, site->overload);
    return kt_string(s->b, (kineto_string){s->text.data, s->text.count});
}

const kt_build_site *kt_build_new_site(kt_build_state *s, const kf_site *site)
{
    while (s->sites.count <= site->index)
        if (!kb_vec_push(&s->sites, (kt_build_site){0}))
            return NULL;
    kt_build_site *known = &s->sites.data[site->index];
    size_t bytes = ((size_t)site->arg_count + 1) * sizeof *known->keys;
    known->keys = kb_arena_alloc(&s->arena, bytes, sizeof *known->keys);
    if (!known->keys)
        return NULL;
    for (uint32_t i = 0; i < site->arg_count; i++) {
        known->keys[i] = kt_string(s->b, site->arg_names[i]);
        for (uint32_t k = 0; k < i; k++)
            if (known->keys[k] == known->keys[i])
                known->keys[i] = KT_NONE;
    }
    known->name = site_name(s, site) + 1;
    known->collective = kt_build_is_collective(site->name);
    return known;
}

/* Single words, one after the other: the common case, packed in place. */
static void put_fixed_args(kt_build_state *s, const kf_args *args, const uint32_t *keys)
{
    enum { PACKED_BYTES = KT_ARG_HEAD + sizeof(uint64_t) };
    kt_builder *b = s->b;
    uint32_t count = KB_MIN(args->site->arg_count, args->word_count);
    if (!count) /* of a damaged recording */
        return;
    if (!kb_vec_reserve(&b->staged, b->staged.count + count * (size_t)PACKED_BYTES)) {
        s->out_of_memory = true;
        return;
    }
    uint8_t *at = b->staged.data + b->staged.count;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t type = args->site->arg_types[i];
        uint64_t word = type == KINETO_ARG_BOOL ? args->words[i] != 0 : args->words[i];
        if (keys[i] == KT_NONE)
            continue;
        memcpy(at, &keys[i], sizeof keys[i]);
        at[4] = type;
        memcpy(at + KT_ARG_HEAD, &word, sizeof word);
        at += PACKED_BYTES;
    }
    b->staged.count = (size_t)(at - b->staged.data);
    b->staged_form = KT_ARGS_PACKED;
}

/* `check`: other args of the row may have the same keys; the first one stays. */
static void put_site_args(kt_build_state *s, const kf_args *args, bool check, uint32_t *flags)
{
    const kt_build_site *site = kt_build_site_of(s, args->site);
    kf_args_iterator it;
    kf_arg arg;
    if (!site) {
        s->out_of_memory = true;
        return;
    }
    if (args->site->fixed_args && !check) {
        put_fixed_args(s, args, site->keys);
        return;
    }
    kf_args_begin(&it, args, s->input);
    for (uint32_t i = 0; kf_args_next(&it, &arg); i++)
        if (site->keys[i] != KT_NONE && !(check && seen(s, site->keys[i])))
            put_arg(s, site->keys[i], &arg, flags);
}

void kt_build_put_loose(kt_build_state *s, const kf_event *e, const kf_args *args, uint32_t *flags)
{
    kf_args_iterator it;
    kf_arg arg;
    kf_args_begin(&it, args, s->input);
    while (kf_args_next(&it, &arg)) {
        uint32_t key = kt_string(s->b, arg.name);
        bool column = (key == s->key_correlation && e->correlation_id) ||
                      (key == s->key_external && e->external_id);
        if (!column && (!s->leave_out || !s->leave_out(s, key)) && !seen(s, key))
            put_arg(s, key, &arg, flags);
    }
}

void kt_build_put_args(kt_build_state *s, const kf_event *e, uint32_t *flags)
{
    s->keys.count = s->shared_bytes = 0;
    s->args_source = e->source;
    if (e->set)
        kt_build_put_set(s, e, flags);
    if (e->args.words && e->args.site)
        put_site_args(s, &e->args, e->more_count > 0, flags);
    else if (e->args.words)
        kt_build_put_loose(s, e, &e->args, flags);
    for (uint32_t i = 0; i < e->more_count; i++) {
        if (e->more_args[i].site)
            put_site_args(s, &e->more_args[i], true, flags);
        else
            kt_build_put_loose(s, e, &e->more_args[i], flags);
    }
}

/* ---- objects --------------------------------------------------------------------------------- */

static void object_value(kt_build_state *s, const kf_arg *arg)
{
    char *out;
    switch (arg->type) {
    case KINETO_ARG_UINT:
        if ((out = kt_build_room(s, 24)) != NULL)
            kt_build_advance(s, kb_json_format_uint(out, arg->value[0]));
        return;
    case KINETO_ARG_DOUBLE:
        if ((out = kt_build_room(s, 40)) != NULL)
            kt_build_advance(s, kb_json_format_double(out, as_double(arg->value[0])));
        return;
    case KINETO_ARG_BOOL:
        kt_build_put_text(s, kb_string(arg->value[0] ? "true" : "false"));
        return;
    case KINETO_ARG_STRING:
    case KINETO_ARG_JSON:
        if (arg->type == KINETO_ARG_JSON && arg->text.size <= MAX_TEXT && kb_json_valid(arg->text))
            kt_build_put_text(s, arg->text);
        else if (!text_quoted(s, arg->text))
            kt_build_put_text(s, kb_string("null"));
        return;
    case KINETO_ARG_INTS:
        text_ints(s, arg->ints, arg->int_count);
        return;
    case KINETO_ARG_STRINGS:
        (void)text_strings(s, arg->value);
        return;
    case KINETO_ARG_SHAPES:
        text_shapes(s, arg->value);
        return;
    default:
        kt_build_put_int(s, (int64_t)arg->value[0]);
    }
}

kineto_string kt_build_object(kt_build_state *s, int64_t id, kineto_string name,
                              const kf_args *args)
{
    kf_args_iterator it;
    kf_arg arg;
    uint32_t key_id = kt_string(s->b, kb_string("id")),
             key_name = kt_string(s->b, kb_string("name"));
    s->text.count = s->keys.count = 0;
    (void)seen(s, key_id);
    kt_build_put_text(s, kb_string("{\"id\":"));
    kt_build_put_int(s, (int64_t)(uint64_t)id);
    if (name.size) {
        (void)seen(s, key_name);
        kt_build_put_text(s, kb_string(",\"name\":"));
        if (!text_quoted(s, name))
            kt_build_put_text(s, kb_string("\"\""));
    }
    kf_args_begin(&it, args, s->input);
    while (kf_args_next(&it, &arg) && s->text.count < MAX_TEXT) {
        if (arg.name.size > MAX_TEXT / 8 || seen(s, kt_string(s->b, arg.name)))
            continue;
        kt_build_put(s, ",");
        (void)text_quoted(s, arg.name);
        kt_build_put(s, ":");
        object_value(s, &arg);
    }
    kt_build_put(s, "}");
    return (kineto_string){s->text.data, s->text.count};
}
