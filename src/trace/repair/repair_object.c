/* Repair of objects. Members that cannot be read are tried in another way: the end of the last
 * doubtful string moves on, and everything after it is read again. Members without any certain
 * reading are dropped, up to the next place that is certain. */
#include "trace/repair/repair_impl.h"

/* The last string of an object that could also end elsewhere, and the states to return to. */
typedef struct doubtful_string {
    bool set;     /* there is one */
    bool damaged; /* it holds quotes of its own */
    bool settled; /* no further readings are tried */
    size_t key_at, value_at, key_out, key_out_end, end;
    kt_fix_mark member, value; /* before the key, before the value */
} doubtful_string;

typedef struct object_frame {
    kt_level level;
    bool lost;       /* a member was dropped */
    size_t out_from; /* output offset after the opening bracket */
    /* Of the member that is being read; value_at 0: not reached yet. */
    size_t key_at, value_at;
    size_t key_out, key_out_end;
    kt_fix_mark member, value;
    doubtful_string doubt;
} object_frame;

/* Headers, events and args are kept without the members that are lost; other objects only as a
 * whole. */
static bool keeps_partial_object(kt_level level) { return level != KT_LEVEL_INNER; }

/* True if the key that was written last has this name. */
static bool frame_key_is(const kt_fix *f, const object_frame *fr, const char *name)
{
    size_t size = strlen(name);
    return !f->no_memory && fr->key_out_end == fr->key_out + size + 2 &&
           memcmp(f->out->data + fr->key_out + 1, name, size) == 0;
}

static void put_member_comma(kt_fix *f, const object_frame *fr)
{
    if (f->out->count > fr->out_from)
        kt_fix_put_z(f, ",");
}

/* ---- members of an event --------------------------------------------------------------------- */

static kineto_string written_key(const kt_fix *f, const object_frame *fr)
{
    return (kineto_string){f->out->data + fr->key_out + 1, fr->key_out_end - fr->key_out - 2};
}

static kineto_string written_value(const kt_fix *f, const object_frame *fr)
{
    size_t from = fr->value.out_count;
    return (kineto_string){f->out->data + from, f->out->count - from};
}

/* Records what the member means for its event: phase, time, name, args. */
static void note_event_meaning(kt_fix *f, const object_frame *fr)
{
    kt_fix_event *e = &f->event;
    kineto_string key = written_key(f, fr), value = written_value(f, fr);
    int known = kt_known_member(KT_LEVEL_EVENT, key);
    e->seen |= known >= 0 ? 1u << known : 0;
    if (frame_key_is(f, fr, "ph"))
        e->phase = kt_fix_phase(value);
    else if (frame_key_is(f, fr, "ts"))
        e->has_ts = true;
    else if (frame_key_is(f, fr, "name"))
        e->has_name = value.data[0] == '"';
    else if (frame_key_is(f, fr, "args"))
        e->has_args = true;
}

/* Counts a key that the event has already; the last one will stay (drop_duplicate_members). */
static void note_duplicate_keys(kt_fix *f, const object_frame *fr)
{
    size_t size = fr->key_out_end - fr->key_out;
    const char *out = f->out->data;
    for (uint32_t i = 0; i < f->event.member_count; i++) {
        const kt_fix_member *m = &f->members[i];
        if (m->key_end - m->key != size || memcmp(out + m->key, out + fr->key_out, size) != 0)
            continue;
        kt_fix_count(f, KT_REPAIR_DUPLICATE_KEY, fr->key_at, size);
        break;
    }
    if (f->event.member_count < KT_FIX_MEMBERS)
        f->members[f->event.member_count++] =
            (kt_fix_member){fr->member.out_count, fr->key_out, fr->key_out_end, f->out->count};
}

/* True if a later member has the same key. */
static bool is_replaced_member(const kt_fix *f, uint32_t index)
{
    const kt_fix_member *m = &f->members[index];
    const char *out = f->out->data;
    for (uint32_t i = index + 1; i < f->event.member_count; i++) {
        const kt_fix_member *later = &f->members[i];
        if (later->key_end - later->key == m->key_end - m->key &&
            memcmp(out + m->key, out + later->key, m->key_end - m->key) == 0)
            return true;
    }
    return false;
}

/* Drops a member that readers could not accept: it would cost the whole event. */
static void drop_misfit_value(kt_fix *f, object_frame *fr)
{
    size_t at = f->at;
    bool large = kt_fix_too_large(written_key(f, fr), written_value(f, fr), f->ts_shift);
    f->event.args_lost = f->event.args_lost || frame_key_is(f, fr, "args");
    bool args_lost = f->event.args_lost;
    if (fr->doubt.key_at == fr->key_at)
        fr->doubt.set = false;
    kt_fix_restore(f, &fr->member);
    f->at = at;
    f->event.args_lost = args_lost;
    f->event.odd_time = f->event.odd_time || large;
    kt_fix_count(f, large ? KT_REPAIR_TIME_RANGE : KT_REPAIR_WRONG_TYPE, fr->key_at,
                 at - fr->key_at);
}

/* Removes the quotes of a time. */
static void unquote_time(kt_fix *f, const object_frame *fr)
{
    kineto_string number = kt_fix_quoted_time(written_key(f, fr), written_value(f, fr));
    if (!number.size)
        return;
    kt_fix_count(f, KT_REPAIR_BAD_NUMBER, fr->value_at, f->at - fr->value_at);
    memmove(f->out->data + fr->value.out_count, number.data, number.size);
    f->out->count = fr->value.out_count + number.size;
}

/* Turns the output from `from` on into a string; its text needs no escapes. */
static void put_quotes_around(kt_fix *f, size_t from)
{
    size_t size = f->out->count - from;
    kt_fix_put_z(f, "\"\"");
    if (f->no_memory)
        return;
    char *text = f->out->data + from;
    memmove(text + 1, text, size);
    text[0] = '"';
}

/* Turns a number where a name belongs into its text. */
static void quote_name(kt_fix *f, const object_frame *fr)
{
    if (!kt_fix_is_unquoted(written_key(f, fr), written_value(f, fr)))
        return;
    kt_fix_count(f, KT_REPAIR_BAD_NUMBER, fr->value_at, f->at - fr->value_at);
    put_quotes_around(f, fr->value.out_count);
}

/* Turns 7.0 into the number 7 of a thread; a number that is not whole becomes a name. */
static void repair_place_value(kt_fix *f, const object_frame *fr)
{
    kineto_string whole, value = written_value(f, fr);
    if (!kt_fix_odd_place(written_key(f, fr), value, &whole))
        return;
    kt_fix_count(f, KT_REPAIR_BAD_NUMBER, fr->value_at, f->at - fr->value_at);
    if (whole.size) {
        f->out->count = fr->value.out_count + whole.size;
        return;
    }
    put_quotes_around(f, fr->value.out_count);
}

/* Corrects and checks a member of the event that was just written. */
static void accept_event_member(kt_fix *f, object_frame *fr)
{
    unquote_time(f, fr);
    repair_place_value(f, fr);
    quote_name(f, fr);
    if (f->no_memory)
        return;
    if (kt_fix_fits(written_key(f, fr), written_value(f, fr), f->ts_shift)) {
        note_event_meaning(f, fr);
        note_duplicate_keys(f, fr);
    } else {
        drop_misfit_value(f, fr);
    }
}

/* Removes replaced members from the output. Members beyond KT_FIX_MEMBERS were not recorded; they
 * move with the last recorded one. */
static void drop_duplicate_members(kt_fix *f, size_t out_from)
{
    size_t to = out_from;
    char *out = f->out->data;
    bool replaced[KT_FIX_MEMBERS];
    for (uint32_t i = 0; i < f->event.member_count; i++)
        replaced[i] = is_replaced_member(f, i); /* before anything moves */
    for (uint32_t i = 0; i < f->event.member_count; i++) {
        const kt_fix_member *m = &f->members[i];
        size_t end = i + 1 < f->event.member_count ? m->to : f->out->count;
        size_t from = replaced[i] ? m->to : m->from;
        from += to == out_from && from < end && out[from] == ',';
        KB_ASSERT(from <= end && to <= from);
        memmove(out + to, out + from, end - from);
        to += end - from;
    }
    if (f->event.member_count)
        f->out->count = to;
}

/* Adds what readers need: a name, and the mark of lost args. */
static void complete_event(kt_fix *f, const object_frame *fr)
{
    kt_fix_event *e = &f->event;
    drop_duplicate_members(f, fr->out_from);
    if (!e->has_name && e->phase != 'M') {
        put_member_comma(f, fr);
        kt_fix_put_z(f, "\"name\":\"\"");
    }
    if (e->args_lost && !e->has_args) {
        put_member_comma(f, fr);
        kt_fix_put_z(f, "\"args\":{\"arguments lost\":true}");
    }
}

static void close_object(kt_fix *f, const object_frame *fr)
{
    if (fr->level == KT_LEVEL_EVENT && !f->no_memory)
        complete_event(f, fr);
    if (fr->level == KT_LEVEL_ARGS && fr->lost) {
        put_member_comma(f, fr);
        kt_fix_put_z(f, "\"arguments lost\":true");
    }
    kt_fix_put_z(f, "}");
    f->depth--;
}

/* ---- reading one member ---------------------------------------------------------------------- */

/* True if an earlier string is damaged and no member since was certain. */
static bool has_damaged_string(const object_frame *fr)
{
    return fr->doubt.set && fr->doubt.damaged && fr->doubt.key_at != fr->key_at;
}

static kt_fixed read_member_key(kt_fix *f, object_frame *fr)
{
    kt_text_end end;
    put_member_comma(f, fr);
    fr->key_out = f->out->count;
    kt_fixed status = kt_fix_key(f, &end);
    if (status != KT_FIXED)
        return status;
    fr->key_out_end = f->out->count;
    kt_fix_space(f);
    int c = kt_fix_byte(f, f->at);
    if (c != ':')
        return c < 0 ? KT_FIX_CUT : KT_FIX_FAILED;
    f->at++;
    kt_fix_put_z(f, ":");
    kt_fix_space(f);
    fr->value_at = f->at;
    return end.damaged && has_damaged_string(fr) ? KT_FIX_FAILED : KT_FIXED;
}

/* Remembers the string that was read as the doubtful one, unless its end is certain, or an earlier
 * damaged one has to be tried first. */
static void note_string_end(object_frame *fr, const kt_text_end *end)
{
    doubtful_string *ch = &fr->doubt;
    if (end->certainty == KT_CERTAIN)
        ch->set = false;
    else if (!ch->set || !ch->damaged || ch->key_at == fr->key_at)
        *ch = (doubtful_string){.set = true,
                                .damaged = end->damaged,
                                .key_at = fr->key_at,
                                .value_at = fr->value_at,
                                .key_out = fr->key_out,
                                .key_out_end = fr->key_out_end,
                                .end = end->at,
                                .member = fr->member,
                                .value = fr->value};
}

/* True if the member is kept: it was read, or it is an args object that is cut, with its complete
 * members. */
static bool is_kept_partially(const kt_fix *f, const object_frame *fr, kt_fixed status)
{
    return status == KT_FIXED ||
           (status == KT_FIX_CUT && fr->level == KT_LEVEL_EVENT && f->depth == fr->member.depth &&
            frame_key_is(f, fr, "args") && f->out->count > fr->value.out_count &&
            f->out->data[fr->value.out_count] == '{');
}

/* Reads the value at f->at; `min_end`: the earliest position at which a string may end. */
static kt_fixed read_member_value(kt_fix *f, object_frame *fr, size_t min_end)
{
    kt_text_end end;
    doubtful_string *ch = &fr->doubt;
    kt_fix_save(f, &fr->value);
    bool args = fr->level == KT_LEVEL_EVENT && frame_key_is(f, fr, "args");
    kt_fixed status = kt_fix_value(f, min_end, args ? KT_LEVEL_ARGS : KT_LEVEL_INNER, &end);
    if (f->no_memory || !is_kept_partially(f, fr, status))
        return status;
    if (end.damaged && has_damaged_string(fr)) {
        /* Two damaged strings and nothing certain between them: ambiguous. */
        ch->settled = true;
        return KT_FIX_FAILED;
    }
    if (end.at)
        note_string_end(fr, &end);
    if (fr->level == KT_LEVEL_EVENT)
        accept_event_member(f, fr);
    return status;
}

/* ---- members that cannot be read ------------------------------------------------------------- */

static void return_to_choice(kt_fix *f, object_frame *fr)
{
    const doubtful_string *ch = &fr->doubt;
    kt_fix_restore(f, &ch->value);
    fr->key_at = ch->key_at;
    fr->value_at = ch->value_at;
    fr->key_out = ch->key_out;
    fr->key_out_end = ch->key_out_end;
    fr->member = ch->member;
}

/* Reads the last doubtful string with a later end; everything since then is undone. If there is no
 * other reading and the first one needed no repair, the first one is used and settled. False:
 * nothing was found. */
static bool try_other_reading(kt_fix *f, object_frame *fr)
{
    doubtful_string *ch = &fr->doubt;
    if (!ch->set || ch->settled || !f->tries || f->at > ch->value_at + KT_REPAIR_REACH_BYTES)
        return false;
    f->tries--;
    bool damaged = ch->damaged;
    return_to_choice(f, fr);
    if (read_member_value(f, fr, ch->end + 1) == KT_FIXED && !f->no_memory) {
        ch->damaged = true;
        return true;
    }
    if (damaged)
        return false;
    return_to_choice(f, fr);
    (void)read_member_value(f, fr, 0);
    ch->settled = true;
    return true;
}

/* Drops the text from `from` to the next certain place. KT_FIX_CUT: there is none, so the element
 * ends. */
static kt_fixed drop_to_resume(kt_fix *f, object_frame *fr, size_t from, size_t search_from)
{
    size_t to;
    bool found = kt_peek_resume(f, search_from, &to);
    to = KB_MIN(to, f->size);
    bool ends = !found && to == f->size;
    kt_repair_kind kind = f->too_deep ? KT_REPAIR_TOO_DEEP : KT_REPAIR_AMBIGUOUS;
    kt_fix_count(f, ends ? KT_REPAIR_TRUNCATED : kind, from, to - from);
    f->at = to;
    f->too_deep = false;
    fr->doubt.set = false;
    fr->lost = true;
    if (found)
        return KT_FIXED;
    f->event.args_lost = f->event.args_lost || fr->level == KT_LEVEL_EVENT;
    f->cut_short = !ends;
    return KT_FIX_CUT;
}

/* A member failed: tries other readings, then drops it. */
static kt_fixed recover_member(kt_fix *f, object_frame *fr)
{
    size_t reached = f->at;
    if (try_other_reading(f, fr))
        return KT_FIXED;
    if (f->no_memory || !keeps_partial_object(fr->level))
        return KT_FIX_FAILED;
    bool args = fr->value_at && frame_key_is(f, fr, "args");
    const doubtful_string *ch = &fr->doubt;
    if (ch->set && ch->damaged) {
        return_to_choice(f, fr);
        args = args || frame_key_is(f, fr, "args");
    }
    kt_fix_restore(f, &fr->member);
    f->at = KB_MAX(reached, f->at);
    f->event.args_lost = f->event.args_lost || (fr->level == KT_LEVEL_EVENT && args);
    return drop_to_resume(f, fr, fr->key_at, KB_MAX(fr->value_at, fr->key_at));
}

/* The text ends inside a member, or another event begins there. */
static kt_fixed end_cut_member(kt_fix *f, object_frame *fr)
{
    if (!keeps_partial_object(fr->level) || is_kept_partially(f, fr, KT_FIX_CUT))
        return KT_FIX_CUT;
    kt_fix_restore(f, &fr->member);
    f->at = f->size;
    kt_fix_count(f, KT_REPAIR_TRUNCATED, fr->key_at, f->size - fr->key_at);
    fr->lost = true;
    f->event.args_lost = f->event.args_lost || fr->level == KT_LEVEL_EVENT;
    return KT_FIX_CUT;
}

static kt_fixed read_object_member(kt_fix *f, object_frame *fr)
{
    fr->key_at = f->at;
    fr->value_at = 0;
    if (kt_peek_key(f, f->at, fr->level) == KT_CERTAIN)
        fr->doubt.set = false; /* everything before is certain */
    kt_fixed status = read_member_key(f, fr);
    if (status == KT_FIXED)
        status = read_member_value(f, fr, 0);
    if (f->no_memory)
        return KT_FIX_FAILED;
    return status == KT_FIX_FAILED ? recover_member(f, fr)
           : status == KT_FIX_CUT  ? end_cut_member(f, fr)
                                   : KT_FIXED;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* The open object ends here without its bracket. */
static kt_fixed end_without_bracket(kt_fix *f)
{
    kt_fix_count(f, KT_REPAIR_UNBALANCED, f->at, 0);
    f->cut_short = true;
    return KT_FIX_CUT;
}

/* True if another event begins, or the array of events ends. */
static bool is_next_element(kt_fix *f, const object_frame *fr, int c)
{
    return keeps_partial_object(fr->level) &&
           ((c == ']' && kt_peek_array_end(f, f->at)) || (c == '{' && kt_peek_event(f, f->at)));
}

static kt_fixed end_at_text_end(kt_fix *f, object_frame *fr)
{
    if (keeps_partial_object(fr->level)) {
        kt_fix_count(f, KT_REPAIR_TRUNCATED, f->size, 0);
        fr->lost = true;
        f->event.args_lost = true;
    }
    return KT_FIX_CUT;
}

/* True if a bracket closes the object; false if that contradicts the text after it. */
static bool bracket_closes(kt_fix *f, const object_frame *fr)
{
    return !fr->doubt.set || fr->doubt.settled ||
           kt_peek_value_end(f, f->at, f->depth) != KT_IMPOSSIBLE;
}

/* Reads members up to the closing bracket, which stays unread. Each iteration consumes at least one
 * byte or ends. */
static kt_fixed read_object_members(kt_fix *f, object_frame *fr)
{
    for (bool first = true, comma;; first = false) {
        size_t before = f->at;
        kt_fixed status;
        int c = kt_fix_next_item(f, first, &comma);
        KB_ASSERT(f->depth > 0 && f->at >= before);
        kt_fix_save(f, &fr->member);
        if (c < 0)
            return end_at_text_end(f, fr);
        if (c == '}' && bracket_closes(f, fr))
            return KT_FIXED;
        if (is_next_element(f, fr, c))
            return end_without_bracket(f);
        if (c == ']' && keeps_partial_object(fr->level)) {
            kt_fix_count(f, KT_REPAIR_UNBALANCED, f->at++, 1);
            status = KT_FIXED;
        } else if (c == '}') {
            fr->key_at = f->at;
            fr->value_at = 0;
            status = recover_member(f, fr);
        } else {
            if (!first && !comma)
                kt_fix_count(f, KT_REPAIR_MISSING_COMMA, before, 0);
            status = read_object_member(f, fr);
        }
        if (status != KT_FIXED || f->no_memory)
            return status;
    }
}

/* The level and depth of the caller are restored by the closing bracket, or by the caller's
 * kt_fix_restore. */
kt_fixed kt_fix_object(kt_fix *f, kt_level level)
{
    object_frame fr = {.level = level};
    if (!kt_fix_push(f, '{', level))
        return KT_FIX_FAILED;
    kt_fix_put_z(f, "{");
    f->at++;
    fr.out_from = f->out->count;
    kt_fixed status = read_object_members(f, &fr);
    if (f->no_memory || status == KT_FIX_FAILED ||
        (status == KT_FIX_CUT && !keeps_partial_object(level)))
        return status;
    KB_ASSERT(f->depth > 0);
    f->at += status == KT_FIXED;
    close_object(f, &fr);
    return status;
}

kt_fixed kt_fix_member_alone(kt_fix *f, kt_level level)
{
    object_frame fr = {.level = level, .out_from = f->out->count};
    kt_fix_save(f, &fr.member);
    return read_object_member(f, &fr);
}
