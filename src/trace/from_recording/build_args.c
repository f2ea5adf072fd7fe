/* Converts recorded arguments to arguments of a row, and writes JSON text into state->text.
 * Lists become JSON text. Relies on the decoder's checks of types and word counts; a key
 * appears once in a row, and the first one counts. */
#include "trace/from_recording/build.h"

/* The args of a row are at most 16 MiB (2 * MAX_TEXT); args beyond that are dropped and flagged. */
#define MAX_TEXT (1u << 23)

/* ---- text under construction, in state->text ------------------------------------------------- */

char *kt_build_reserve(kt_build_state *s, size_t bytes)
{
    if (!kb_vec_reserve(&s->text, s->text.count + bytes)) {
        s->out_of_memory = true;
        return NULL;
    }
    return s->text.data + s->text.count;
}

void kt_build_advance(kt_build_state *s, const char *end)
{
    KB_ASSERT(end >= s->text.data && (size_t)(end - s->text.data) <= s->text.capacity);
    s->text.count = (size_t)(end - s->text.data);
}

void kt_build_append_text(kt_build_state *s, kineto_string text)
{
    char *at = kt_build_reserve(s, text.size);
    if (!at || !text.size)
        return;
    memcpy(at, text.data, text.size);
    s->text.count += text.size;
}

void kt_build_append(kt_build_state *s,
                     const char *chars) { kt_build_append_text(s, kb_string(chars)); }

void kt_build_append_int(kt_build_state *s, int64_t number)
{
    char *at = kt_build_reserve(s, 24);
    if (at)
        kt_build_advance(s, kb_json_format_int(at, number));
}

/* ---- JSON text ------------------------------------------------------------------------------- */

/* Appends a text as JSON string; false: too long. */
static bool append_json_string(kt_build_state *s, kineto_string text)
{
    uint64_t replaced = 0;
    if (text.size > MAX_TEXT || s->text.count > MAX_TEXT)
        return false;
    char *at = kt_build_reserve(s, text.size * 6 + 2);
    if (at)
        kt_build_advance(s, kb_json_escape(at, text, &replaced));
    return true;
}

static void append_json_ints(kt_build_state *s, const uint64_t *words, size_t count)
{
    kt_build_append(s, "[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            kt_build_append(s, ",");
        kt_build_append_int(s, (int64_t)words[i]);
    }
    kt_build_append(s, "]");
}

/* Appends a list of strings; false: one was too long, and is null. */
static bool append_json_strings(kt_build_state *s, const uint64_t *value)
{
    const uint64_t *at = value + 1;
    bool complete = true;
    kt_build_append(s, "[");
    for (uint64_t i = 0; i < value[0] && complete; i++) {
        if (i)
            kt_build_append(s, ",");
        complete = append_json_string(s, kf_text(s->input, &at));
        if (!complete)
            kt_build_append_text(s, kb_string("null"));
    }
    kt_build_append(s, "]");
    return complete;
}

/* Appends a list of lists of sizes: the ranks of up to 4 lists are packed into one word. */
static void append_json_shapes(kt_build_state *s, const uint64_t *value)
{
    uint64_t count = value[0];
    const uint64_t *dims = value + 1 + (count + 3) / 4;
    kt_build_append(s, "[");
    for (uint64_t i = 0; i < count; i++) {
        uint32_t rank = value[1 + i / 4] >> (i % 4 * 16) & 0xffff;
        if (i)
            kt_build_append(s, ",");
        append_json_ints(s, dims, rank);
        dims += rank;
    }
    kt_build_append(s, "]");
}

static double word_as_double(uint64_t word)
{
    double d;
    memcpy(&d, &word, sizeof d);
    return d;
}

/* Replaces state->text by a list as JSON; false: too long. */
static bool write_json_list(kt_build_state *s, const kf_arg *arg)
{
    s->text.count = 0;
    if (arg->type == KINETO_ARG_STRINGS)
        return append_json_strings(s, arg->value);
    if (arg->type == KINETO_ARG_SHAPES)
        append_json_shapes(s, arg->value);
    else
        append_json_ints(s, arg->ints, arg->int_count);
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The first FEW_KEYS keys of a row are compared one by one; the index of each further key
 * is stored in key_places, so that a row with many keys takes linear time. An index of an
 * earlier row is recognised because `keys` holds another key there. */
#define FEW_KEYS 64u

bool kt_build_has_key(const kt_build_state *s, uint32_t key)
{
    for (size_t i = 0; i < KB_MIN(s->keys.count, (size_t)FEW_KEYS); i++)
        if (s->keys.data[i] == key)
            return true;
    uint32_t place = key < s->key_places.count ? s->key_places.data[key] : 0;
    return place >= FEW_KEYS && place < s->keys.count && s->keys.data[place] == key;
}

/* Stores the index of a key. */
static void store_key_index(kt_build_state *s, uint32_t key, size_t place)
{
    KB_ASSERT(place >= FEW_KEYS && place < s->keys.count && s->keys.data[place] == key);
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

void kt_build_add_key(kt_build_state *s, uint32_t key)
{
    KB_ASSERT(!kt_build_has_key(s, key));
    size_t place = s->keys.count;
    if (!kb_vec_push(&s->keys, key))
        s->out_of_memory = true;
    else if (place >= FEW_KEYS)
        store_key_index(s, key, place);
}

/* True if the row has the key already; else adds it. */
static bool test_and_add_key(kt_build_state *s, uint32_t key)
{
    if (kt_build_has_key(s, key))
        return true;
    kt_build_add_key(s, key);
    return false;
}

/* Stages a text within the limit of a row. A long text is one entry of the dictionary that
 * many rows may refer to, so it becomes a shared string of the trace; it counts for the
 * limit as if the row contained it. */
static void stage_limited_text(kt_build_state *s, uint32_t key, uint32_t type, kineto_string text,
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

/* Stages a string or JSON arg; invalid JSON is counted and becomes a string. */
static void stage_recorded_text(kt_build_state *s, uint32_t key, const kf_arg *arg, uint32_t *flags)
{
    uint32_t type = arg->type;
    if (type == KINETO_ARG_JSON && arg->text.size <= MAX_TEXT && !kb_json_valid(arg->text)) {
        s->bad_json[s->args_source]++;
        type = KINETO_ARG_STRING;
    }
    stage_limited_text(s, key, type, arg->text, flags);
}

/* Stages an arg of any type. */
static void stage_recorded_arg(kt_build_state *s, uint32_t key, const kf_arg *arg, uint32_t *flags)
{
    switch (arg->type) {
    case KINETO_ARG_INT:
        kt_args_put_int(s->b, key, (int64_t)arg->value[0]);
        return;
    case KINETO_ARG_UINT:
        kt_args_put_uint(s->b, key, arg->value[0]);
        return;
    case KINETO_ARG_DOUBLE:
        kt_args_put_double(s->b, key, word_as_double(arg->value[0]));
        return;
    case KINETO_ARG_BOOL:
        kt_args_put_bool(s->b, key, arg->value[0] != 0);
        return;
    case KINETO_ARG_STRING:
    case KINETO_ARG_JSON:
        stage_recorded_text(s, key, arg, flags);
        return;
    default:
        break;
    }
    if (write_json_list(s, arg)) {
        kineto_string text = {s->text.data, s->text.count};
        stage_limited_text(s, key, arg->type, text, flags);
    } else {
        s->long_args++;
        *flags |= KINETO_ACTIVITY_ARGS_LOST;
    }
}

/* String id of a site's name, or "name.overload" if options.overloads is set. */
static uint32_t intern_site_name(kt_build_state *s, const kf_site *site)
{
    if (!s->options.overloads || !site->overload.size)
        return kt_string(s->b, site->name);
    s->text.count = 0;
    kt_build_append_text(s, site->name);
    kt_build_append(s, ".");
    kt_build_append_text(s, site->overload);
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
    known->name = intern_site_name(s, site) + 1;
    known->collective = kt_build_is_collective(site->name);
    return known;
}

/* Stages args of one word each, the usual case, directly in packed form. */
static void stage_fixed_args(kt_build_state *s, const kf_args *args, const uint32_t *keys)
{
    enum { PACKED_BYTES = KT_ARG_HEAD + sizeof(uint64_t) };
    kt_builder *b = s->b;
    uint32_t count = KB_MIN(args->site->arg_count, args->word_count);
    if (!count) /* a damaged recording */
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
    KB_ASSERT(b->staged.count <= b->staged.capacity);
    b->staged_form = KT_ARGS_PACKED;
}

/* Stages the args of a site. `check`: other args of the row may have the same keys; the
 * first one counts. */
static void stage_site_args(kt_build_state *s, const kf_args *args, bool check, uint32_t *flags)
{
    const kt_build_site *site = kt_build_site_of(s, args->site);
    kf_args_iterator it;
    kf_arg arg;
    if (!site) {
        s->out_of_memory = true;
        return;
    }
    if (args->site->fixed_args && !check) {
        stage_fixed_args(s, args, site->keys);
        return;
    }
    kf_args_begin(&it, args, s->input);
    for (uint32_t i = 0; kf_args_next(&it, &arg); i++)
        if (site->keys[i] != KT_NONE && !(check && test_and_add_key(s, site->keys[i])))
            stage_recorded_arg(s, site->keys[i], &arg, flags);
}

void kt_build_stage_loose_args(kt_build_state *s, const kf_event *e, const kf_args *args,
                               uint32_t *flags)
{
    kf_args_iterator it;
    kf_arg arg;
    kf_args_begin(&it, args, s->input);
    while (kf_args_next(&it, &arg)) {
        uint32_t key = kt_string(s->b, arg.name);
        bool column = (key == s->key_correlation && e->correlation_id) ||
                      (key == s->key_external && e->external_id);
        if (!column && (!s->leave_out || !s->leave_out(s, key)) && !test_and_add_key(s, key))
            stage_recorded_arg(s, key, &arg, flags);
    }
}

void kt_build_stage_args(kt_build_state *s, const kf_event *e, uint32_t *flags)
{
    s->keys.count = s->shared_bytes = 0;
    s->args_source = e->source;
    if (e->set)
        kt_build_stage_set(s, e, flags);
    if (e->args.words && e->args.site)
        stage_site_args(s, &e->args, e->more_count > 0, flags);
    else if (e->args.words)
        kt_build_stage_loose_args(s, e, &e->args, flags);
    for (uint32_t i = 0; i < e->more_count; i++) {
        if (e->more_args[i].site)
            stage_site_args(s, &e->more_args[i], true, flags);
        else
            kt_build_stage_loose_args(s, e, &e->more_args[i], flags);
    }
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Appends the value of an arg as JSON. */
static void append_object_value(kt_build_state *s, const kf_arg *arg)
{
    char *out;
    switch (arg->type) {
    case KINETO_ARG_UINT:
        if ((out = kt_build_reserve(s, 24)) != NULL)
            kt_build_advance(s, kb_json_format_uint(out, arg->value[0]));
        return;
    case KINETO_ARG_DOUBLE:
        if ((out = kt_build_reserve(s, 40)) != NULL)
            kt_build_advance(s, kb_json_format_double(out, word_as_double(arg->value[0])));
        return;
    case KINETO_ARG_BOOL:
        kt_build_append_text(s, kb_string(arg->value[0] ? "true" : "false"));
        return;
    case KINETO_ARG_STRING:
    case KINETO_ARG_JSON:
        if (arg->type == KINETO_ARG_JSON && arg->text.size <= MAX_TEXT && kb_json_valid(arg->text))
            kt_build_append_text(s, arg->text);
        else if (!append_json_string(s, arg->text))
            kt_build_append_text(s, kb_string("null"));
        return;
    case KINETO_ARG_INTS:
        append_json_ints(s, arg->ints, arg->int_count);
        return;
    case KINETO_ARG_STRINGS:
        (void)append_json_strings(s, arg->value);
        return;
    case KINETO_ARG_SHAPES:
        append_json_shapes(s, arg->value);
        return;
    default:
        kt_build_append_int(s, (int64_t)arg->value[0]);
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
    (void)test_and_add_key(s, key_id);
    kt_build_append_text(s, kb_string("{\"id\":"));
    kt_build_append_int(s, (int64_t)(uint64_t)id);
    if (name.size) {
        (void)test_and_add_key(s, key_name);
        kt_build_append_text(s, kb_string(",\"name\":"));
        if (!append_json_string(s, name))
            kt_build_append_text(s, kb_string("\"\""));
    }
    kf_args_begin(&it, args, s->input);
    while (kf_args_next(&it, &arg) && s->text.count < MAX_TEXT) {
        if (arg.name.size > MAX_TEXT / 8 || test_and_add_key(s, kt_string(s->b, arg.name)))
            continue;
        kt_build_append(s, ",");
        (void)append_json_string(s, arg.name);
        kt_build_append(s, ":");
        append_object_value(s, &arg);
    }
    kt_build_append(s, "}");
    return (kineto_string){s->text.data, s->text.count};
}
