/* Repair of objects: members that cannot be read are read in another way, or left out. */
#include "trace/repair/repair_impl.h"

/* The last string of an object that could also end elsewhere. */
typedef struct choice {
    bool set;
    bool damaged; /* it holds quotes */
    bool settled; /* other readings were tried */
    size_t key_at, value_at, key_out, key_out_end, end;
    kt_fix_mark member, value; /* before the key, before the value */
} choice;

typedef struct frame {
    kt_level level;
    bool lost;               /* a member was left out */
    size_t out_from;         /* behind the opening bracket */
    size_t key_at, value_at; /* of the member that is read; value_at 0: not that far */
    size_t key_out, key_out_end;
    kt_fix_mark member, value;
    choice choice;
} frame;

static bool keeps_parts(kt_level level) { return level != KT_LEVEL_INNER; }

static bool is_key(const kt_fix *f, const frame *fr, const char *name)
{
    size_t size = strlen(name);
    return !f->no_memory && fr->key_out_end == fr->key_out + size + 2 &&
           memcmp(f->out->data + fr->key_out + 1, name, size) == 0;
}

static void put_comma(kt_fix *f, const frame *fr)
{
    if (f->out->count > fr->out_from)
        kt_fix_put_z(f, ",");
}

/* ---- what members mean for their event ------------------------------------------------------- */

static kineto_string key_of(const kt_fix *f, const frame *fr)
{
    return (kineto_string){f->out->data + fr->key_out + 1, fr->key_out_end - fr->key_out - 2};
}

static kineto_string value_of(const kt_fix *f, const frame *fr)
{
    size_t from = fr->value.out_count;
    return (kineto_string){f->out->data + from, f->out->count - from};
}

static void note_meaning(kt_fix *f, const frame *fr)
{
    kt_fix_event *e = &f->event;
    kineto_string key = key_of(f, fr), value = value_of(f, fr);
    int known = kt_known(KT_LEVEL_EVENT, key);
    e->seen |= known >= 0 ? 1u << known : 0;
    if (is_key(f, fr, "ph"))
        e->phase = kt_fix_phase(value);
    else if (is_key(f, fr, "ts"))
        e->has_ts = true;
    else if (is_key(f, fr, "name"))
        e->has_name = value.data[0] == '"';
    else if (is_key(f, fr, "args"))
        e->has_args = true;
}

/* The last of several members with one key stays. */
static void note_duplicates(kt_fix *f, const frame *fr)
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

static bool is_replaced(const kt_fix *f, uint32_t index)
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

/* A member that readers could not take would cost the whole event. */
static void drop_misfit(kt_fix *f, frame *fr)
{
    size_t at = f->at;
    bool large = kt_fix_too_large(key_of(f, fr), value_of(f, fr), f->ts_shift);
    f->event.args_lost = f->event.args_lost || is_key(f, fr, "args");
    bool args_lost = f->event.args_lost;
    if (fr->choice.key_at == fr->key_at)
        fr->choice.set = false;
    kt_fix_restore(f, &fr->member);
    f->at = at;
    f->event.args_lost = args_lost;
    f->event.odd_time = f->event.odd_time || large;
    kt_fix_count(f, large ? KT_REPAIR_TIME_RANGE : KT_REPAIR_WRONG_TYPE, fr->key_at,
                 at - fr->key_at);
}

/* A time in quotes loses them. */
static void unquote_time(kt_fix *f, const frame *fr)
{
    kineto_string number = kt_fix_quoted_time(key_of(f, fr), value_of(f, fr));
    if (!number.size)
        return;
    kt_fix_count(f, KT_REPAIR_BAD_NUMBER, fr->value_at, f->at - fr->value_at);
    memmove(f->out->data + fr->value.out_count, number.data, number.size);
    f->out->count = fr->value.out_count + number.size;
}

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

/* A name that is a number is that number's text. */
static void quote_name(kt_fix *f, const frame *fr)
{
    if (!kt_fix_is_unquoted(key_of(f, fr), value_of(f, fr)))
        return;
    kt_fix_count(f, KT_REPAIR_BAD_NUMBER, fr->value_at, f->at - fr->value_at);
    put_quotes_around(f, fr->value.out_count);
}

/* 7.0 is a thread's number; what is none is its name. */
static void settle_place(kt_fix *f, const frame *fr)
{
    kineto_string whole, value = value_of(f, fr);
    if (!kt_fix_odd_place(key_of(f, fr), value, &whole))
        return;
    kt_fix_count(f, KT_REPAIR_BAD_NUMBER, fr->value_at, f->at - fr->value_at);
    if (whole.size) {
        f->out->count = fr->value.out_count + whole.size;
        return;
    }
    put_quotes_around(f, fr->value.out_count);
}

static void note_event_member(kt_fix *f, frame *fr)
{
    unquote_time(f, fr);
    settle_place(f, fr);
    quote_name(f, fr);
    if (f->no_memory)
        return;
    if (kt_fix_fits(key_of(f, fr), value_of(f, fr), f->ts_shift)) {
        note_meaning(f, fr);
        note_duplicates(f, fr);
    } else {
        drop_misfit(f, fr);
    }
}

/* Take replaced members out of the event's text; what was not noted goes along with the last. */
static void drop_duplicates(kt_fix *f, size_t out_from)
{
    size_t to = out_from;
    char *out = f->out->data;
    bool replaced[KT_FIX_MEMBERS];
    for (uint32_t i = 0; i < f->event.member_count; i++)
        replaced[i] = is_replaced(f, i); /* before anything moves */
    for (uint32_t i = 0; i < f->event.member_count; i++) {
        const kt_fix_member *m = &f->members[i];
        size_t end = i + 1 < f->event.member_count ? m->to : f->out->count;
        size_t from = replaced[i] ? m->to : m->from;
        from += to == out_from && from < end && out[from] == ',';
        memmove(out + to, out + from, end - from);
        to += end - from;
    }
    if (f->event.member_count)
        f->out->count = to;
}

static void end_event(kt_fix *f, const frame *fr)
{
    kt_fix_event *e = &f->event;
    drop_duplicates(f, fr->out_from);
    if (!e->has_name && e->phase != 'M') {
        put_comma(f, fr);
        kt_fix_put_z(f, "\"name\":\"\"");
    }
    if (e->args_lost && !e->has_args) {
        put_comma(f, fr);
        kt_fix_put_z(f, "\"args\":{\"arguments lost\":true}");
    }
}

static void end_object(kt_fix *f, const frame *fr)
{
    if (fr->level == KT_LEVEL_EVENT && !f->no_memory)
        end_event(f, fr);
    if (fr->level == KT_LEVEL_ARGS && fr->lost) {
        put_comma(f, fr);
        kt_fix_put_z(f, "\"arguments lost\":true");
    }
    kt_fix_put_z(f, "}");
    f->depth--;
}

/* ---- reading a member ------------------------------------------------------------------------ */

/* Is an earlier string damaged, with nothing certain since? */
static bool in_doubt(const frame *fr)
{
    return fr->choice.set && fr->choice.damaged && fr->choice.key_at != fr->key_at;
}

static kt_fixed read_key(kt_fix *f, frame *fr)
{
    kt_text_end end;
    put_comma(f, fr);
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
    return end.damaged && in_doubt(fr) ? KT_FIX_FAILED : KT_FIXED;
}

static void note_end(frame *fr, const kt_text_end *end)
{
    choice *ch = &fr->choice;
    if (end->sure == KT_SURE)
        ch->set = false;
    else if (!ch->set || !ch->damaged || ch->key_at == fr->key_at)
        *ch = (choice){.set = true,
                       .damaged = end->damaged,
                       .key_at = fr->key_at,
                       .value_at = fr->value_at,
                       .key_out = fr->key_out,
                       .key_out_end = fr->key_out_end,
                       .end = end->at,
                       .member = fr->member,
                       .value = fr->value};
}

/* An argument list that is cut is kept with what is whole in it. */
static bool kept(const kt_fix *f, const frame *fr, kt_fixed status)
{
    return status == KT_FIXED ||
           (status == KT_FIX_CUT && fr->level == KT_LEVEL_EVENT && f->depth == fr->member.depth &&
            is_key(f, fr, "args") && f->out->count > fr->value.out_count &&
            f->out->data[fr->value.out_count] == '{');
}

/* The value at `at`; `least`: only with an end from there on. */
static kt_fixed read_value(kt_fix *f, frame *fr, size_t least)
{
    kt_text_end end;
    choice *ch = &fr->choice;
    kt_fix_save(f, &fr->value);
    bool args = fr->level == KT_LEVEL_EVENT && is_key(f, fr, "args");
    kt_fixed status = kt_fix_value(f, least, args ? KT_LEVEL_ARGS : KT_LEVEL_INNER, &end);
    if (f->no_memory || !kept(f, fr, status))
        return status;
    if (end.damaged && in_doubt(fr)) {
        ch->settled = true; /* two that are damaged and nothing certain between them */
        return KT_FIX_FAILED;
    }
    if (end.at)
        note_end(fr, &end);
    if (fr->level == KT_LEVEL_EVENT)
        note_event_member(f, fr);
    return status;
}

/* ---- members without a reading --------------------------------------------------------------- */

static void return_to_choice(kt_fix *f, frame *fr)
{
    const choice *ch = &fr->choice;
    kt_fix_restore(f, &ch->value);
    fr->key_at = ch->key_at;
    fr->value_at = ch->value_at;
    fr->key_out = ch->key_out;
    fr->key_out_end = ch->key_out_end;
    fr->member = ch->member;
}

/* Read the last doubtful string in another way: all since then is undone. If there is no other way
 * and the first one needed no repair, it was right. */
static bool try_again(kt_fix *f, frame *fr)
{
    choice *ch = &fr->choice;
    if (!ch->set || ch->settled || !f->tries || f->at > ch->value_at + KT_REPAIR_REACH_BYTES)
        return false;
    f->tries--;
    bool damaged = ch->damaged;
    return_to_choice(f, fr);
    if (read_value(f, fr, ch->end + 1) == KT_FIXED && !f->no_memory) {
        ch->damaged = true;
        return true;
    }
    if (damaged)
        return false;
    return_to_choice(f, fr);
    (void)read_value(f, fr, 0);
    ch->settled = true;
    return true;
}

/* Leave out what begins at `from`, up to the next place that is certain. */
static kt_fixed leave_out(kt_fix *f, frame *fr, size_t from, size_t look_from)
{
    size_t to;
    bool found = kt_look_resume(f, look_from, &to);
    to = KB_MIN(to, f->size);
    bool ends = !found && to == f->size;
    kt_repair_kind kind = f->too_deep ? KT_REPAIR_TOO_DEEP : KT_REPAIR_AMBIGUOUS;
    kt_fix_count(f, ends ? KT_REPAIR_TRUNCATED : kind, from, to - from);
    f->at = to;
    f->too_deep = false;
    fr->choice.set = false;
    fr->lost = true;
    if (found)
        return KT_FIXED;
    f->event.args_lost = f->event.args_lost || fr->level == KT_LEVEL_EVENT;
    f->cut_short = !ends;
    return KT_FIX_CUT;
}

static kt_fixed member_failed(kt_fix *f, frame *fr)
{
    size_t reached = f->at;
    if (try_again(f, fr))
        return KT_FIXED;
    if (f->no_memory || !keeps_parts(fr->level))
        return KT_FIX_FAILED;
    bool args = fr->value_at && is_key(f, fr, "args");
    const choice *ch = &fr->choice;
    if (ch->set && ch->damaged) {
        return_to_choice(f, fr);
        args = args || is_key(f, fr, "args");
    }
    kt_fix_restore(f, &fr->member);
    f->at = KB_MAX(reached, f->at);
    f->event.args_lost = f->event.args_lost || (fr->level == KT_LEVEL_EVENT && args);
    return leave_out(f, fr, fr->key_at, KB_MAX(fr->value_at, fr->key_at));
}

/* The text ends inside a member, or another event begins. */
static kt_fixed member_cut(kt_fix *f, frame *fr)
{
    if (!keeps_parts(fr->level) || kept(f, fr, KT_FIX_CUT))
        return KT_FIX_CUT;
    kt_fix_restore(f, &fr->member);
    f->at = f->size;
    kt_fix_count(f, KT_REPAIR_TRUNCATED, fr->key_at, f->size - fr->key_at);
    fr->lost = true;
    f->event.args_lost = f->event.args_lost || fr->level == KT_LEVEL_EVENT;
    return KT_FIX_CUT;
}

static kt_fixed read_member(kt_fix *f, frame *fr)
{
    fr->key_at = f->at;
    fr->value_at = 0;
    if (kt_look_key(f, f->at, fr->level) == KT_SURE)
        fr->choice.set = false; /* no doubt about what came before */
    kt_fixed status = read_key(f, fr);
    if (status == KT_FIXED)
        status = read_value(f, fr, 0);
    if (f->no_memory)
        return KT_FIX_FAILED;
    return status == KT_FIX_FAILED ? member_failed(f, fr)
           : status == KT_FIX_CUT  ? member_cut(f, fr)
                                   : KT_FIXED;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* What is open ends here without its bracket. */
static kt_fixed missing_bracket(kt_fix *f)
{
    kt_fix_count(f, KT_REPAIR_UNBALANCED, f->at, 0);
    f->cut_short = true;
    return KT_FIX_CUT;
}

/* Another event, or what follows the events. */
static bool another_begins(kt_fix *f, const frame *fr, int c)
{
    return keeps_parts(fr->level) &&
           ((c == ']' && kt_look_array_end(f, f->at)) || (c == '{' && kt_look_event(f, f->at)));
}

static kt_fixed end_of_text(kt_fix *f, frame *fr)
{
    if (keeps_parts(fr->level)) {
        kt_fix_count(f, KT_REPAIR_TRUNCATED, f->size, 0);
        fr->lost = true;
        f->event.args_lost = true;
    }
    return KT_FIX_CUT;
}

/* Does a bracket close the object, or does that contradict what follows? */
static bool closes(kt_fix *f, const frame *fr)
{
    return !fr->choice.set || fr->choice.settled || kt_look_end(f, f->at, f->depth) != KT_NO;
}

static kt_fixed read_members(kt_fix *f, frame *fr)
{
    for (bool first = true, comma;; first = false) {
        size_t before = f->at;
        kt_fixed status;
        int c = kt_fix_next_item(f, first, &comma);
        kt_fix_save(f, &fr->member);
        if (c < 0)
            return end_of_text(f, fr);
        if (c == '}' && closes(f, fr))
            return KT_FIXED;
        if (another_begins(f, fr, c))
            return missing_bracket(f);
        if (c == ']' && keeps_parts(fr->level)) {
            kt_fix_count(f, KT_REPAIR_UNBALANCED, f->at++, 1);
            status = KT_FIXED;
        } else if (c == '}') {
            fr->key_at = f->at;
            fr->value_at = 0;
            status = member_failed(f, fr);
        } else {
            if (!first && !comma)
                kt_fix_count(f, KT_REPAIR_MISSING_COMMA, before, 0);
            status = read_member(f, fr);
        }
        if (status != KT_FIXED || f->no_memory)
            return status;
    }
}

kt_fixed kt_fix_object(kt_fix *f, kt_level level)
{
    frame fr = {.level = level};
    if (!kt_fix_push(f, '{', level))
        return KT_FIX_FAILED;
    kt_fix_put_z(f, "{");
    f->at++;
    fr.out_from = f->out->count;
    kt_fixed status = read_members(f, &fr);
    if (f->no_memory || status == KT_FIX_FAILED || (status == KT_FIX_CUT && !keeps_parts(level)))
        return status;
    f->at += status == KT_FIXED;
    end_object(f, &fr);
    return status;
}

kt_fixed kt_fix_member_alone(kt_fix *f, kt_level level)
{
    frame fr = {.level = level, .out_from = f->out->count};
    kt_fix_save(f, &fr.member);
    return read_member(f, &fr);
}
