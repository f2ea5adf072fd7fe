/* One text → what may be shown of it. */
#include "trace/transform/scrub.h"

bool kt_chars_add(kt_scrub *s, kt_chars *to, const void *data, size_t size)
{
    if (!kb_vec_reserve(to, to->count + size)) {
        s->failed = true;
        return false;
    }
    if (size)
        memcpy(to->data + to->count, data, size);
    to->count += size;
    return true;
}

static void add(kt_scrub *s, kineto_string text) { kt_chars_add(s, &s->out, text.data, text.size); }
static void add_z(kt_scrub *s, const char *text) { add(s, kb_string(text)); }

static kineto_string span(const char *from, const char *to)
{
    return (kineto_string){from, (size_t)(to - from)};
}

static kineto_string result(const kt_scrub *s)
{
    return (kineto_string){s->out.data ? s->out.data : "", s->out.count};
}

/* The same text gives the same pseudonym wherever it stands, so that what belongs together does so
 * afterwards; the prefix says what it is there. */
static void add_hash(kt_scrub *s, const char *prefix, kineto_string text)
{
    char hex[32];
    uint64_t hash = kb_siphash(s->key, text.data, text.size);
    snprintf(hex, sizeof hex, "%s%012llx", prefix, (unsigned long long)(hash >> 16));
    add_z(s, hex);
}

kineto_string kt_scrub_hash(kt_scrub *s, const char *prefix, kineto_string text)
{
    s->out.count = 0;
    add_hash(s, prefix, text);
    return result(s);
}

bool kt_scrub_kept(kt_scrub *s, kineto_string text)
{
    if (!s->has_keep)
        return false;
    s->scratch.count = 0;
    if (!kt_chars_add(s, &s->scratch, text.data, text.size) || !kt_chars_add(s, &s->scratch, "", 1))
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (!s->scratch.data[i])
            s->scratch.data[i] = ' ';
    return regexec(&s->keep, s->scratch.data, 0, NULL, 0) == 0;
}

/* ---- paths ----------------------------------------------------------------------------------- */

static bool is_separator(char c) { return c == '/' || c == '\\'; }

static kineto_string extension_of(kineto_string component)
{
    for (size_t i = component.size; i > 1; i--)
        if (component.data[i - 1] == '.')
            return kb_string_behind(component, i);
    return (kineto_string){"", 0};
}

static bool looks_like_path(kineto_string text)
{
    size_t separators = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c < 0x20 || c == ' ')
            return text.size > 1 && is_separator(text.data[0]);
        separators += is_separator((char)c);
    }
    return separators > 0;
}

static bool is_site_packages(kineto_string component)
{
    return kb_string_equal(component, kb_string("site-packages")) ||
           kb_string_equal(component, kb_string("dist-packages"));
}

/* A component is hashed with what stands before it: depth and common beginnings stay to be seen,
 * and "src" is not the same everywhere. Files of public packages keep their names from there on. */
static bool add_path(kt_scrub *s, kineto_string path)
{
    const char *at = path.data, *end = path.data + path.size;
    bool at_root = true, is_public = false, any = false;
    if (!kt_scrubs(s, KINETO_SCRUB_KNOWN) && kt_known_file(path)) {
        add(s, path);
        return true;
    }
    while (at < end) {
        const char *next = at;
        while (next < end && !is_separator(*next))
            next++;
        kineto_string component = span(at, next), extension = extension_of(component);
        bool dots = component.size <= 2 && component.size && component.data[0] == '.' &&
                    component.data[component.size - 1] == '.';
        is_public = is_public || (!kt_scrubs(s, KINETO_SCRUB_KNOWN) &&
                                  kt_known_package(component, at_root) && next < end);
        if (is_public || dots || !component.size) {
            add(s, component);
        } else {
            any = true;
            add_hash(s, "d_", span(path.data, next));
            if (next == end && extension.size && kt_known_extension(extension)) {
                add_z(s, ".");
                add(s, extension);
            }
        }
        at_root = is_site_packages(component);
        if (next < end)
            add(s, span(next, next + 1));
        at = next < end ? next + 1 : end;
    }
    s->done.paths += any;
    return is_public;
}

/* ---- Python ---------------------------------------------------------------------------------- */

/* "path(12): function": where the bracket is; NULL if it is something else. */
static const char *line_of(kineto_string text)
{
    for (size_t i = text.size; i > 3; i--) {
        if (text.data[i - 1] != ':' || text.data[i - 2] != ')')
            continue;
        size_t at = i - 2;
        while (at > 0 && text.data[at - 1] >= '0' && text.data[at - 1] <= '9')
            at--;
        if (at > 1 && at < i - 2 && text.data[at - 1] == '(')
            return text.data + at - 1;
    }
    return NULL;
}

/* Which parts are to be replaced is the caller's to say. */
static bool add_frame(kt_scrub *s, kineto_string frame, bool paths, bool functions)
{
    const char *bracket = line_of(frame), *end = frame.data + frame.size;
    if (!bracket)
        return false;
    const char *colon = memchr(bracket, ':', (size_t)(end - bracket));
    const char *name = colon + 1;
    while (name < end && *name == ' ')
        name++;
    bool is_public = false;
    if (paths)
        is_public = add_path(s, span(frame.data, bracket));
    else
        add(s, span(frame.data, bracket));
    add(s, span(bracket, name));
    if (functions && !is_public)
        add_hash(s, "f_", span(name, end));
    else
        add(s, span(name, end));
    return true;
}

/* "nn.Module: Encoder_3": which of its kind it is stays. */
static bool add_module(kt_scrub *s, kineto_string name)
{
    static const char start[] = "nn.Module: ";
    if (!kb_string_begins(name, start))
        return false;
    kineto_string class = kb_string_behind(name, sizeof start - 1);
    size_t size = class.size;
    while (size && class.data[size - 1] >= '0' && class.data[size - 1] <= '9')
        size--;
    bool numbered = size > 1 && size < class.size && class.data[size - 1] == '_';
    kineto_string bare = {class.data, numbered ? size - 1 : class.size};
    add_z(s, start);
    if (!kt_scrubs(s, KINETO_SCRUB_KNOWN) && kt_known_module(bare))
        add(s, bare);
    else
        add_hash(s, "m_", bare);
    add(s, kb_string_behind(class, bare.size));
    return true;
}

/* "Optimizer.step#Adam.step" */
static bool add_optimizer(kt_scrub *s, kineto_string name)
{
    static const char *const forms[][2] = {{"Optimizer.step#", ".step"},
                                           {"Optimizer.zero_grad#", ".zero_grad"}};
    for (size_t i = 0; i < KB_COUNT(forms); i++) {
        size_t head = strlen(forms[i][0]), tail = strlen(forms[i][1]);
        if (!kb_string_begins(name, forms[i][0]) || name.size <= head + tail ||
            memcmp(name.data + name.size - tail, forms[i][1], tail) != 0)
            continue;
        kineto_string class = {name.data + head, name.size - head - tail};
        add_z(s, forms[i][0]);
        if (kt_known_optimizer(class))
            add(s, class);
        else
            add_hash(s, "m_", class);
        add_z(s, forms[i][1]);
        return true;
    }
    return false;
}

/* ---- C++ ------------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
           (unsigned char)c >= 0x80 || (unsigned char)c < 0x20;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *word_end(const char *at, const char *end)
{
    while (at < end && (is_letter(*at) || is_digit(*at)))
        at++;
    return at;
}

/* a::b::c from its second word on; returns what follows. */
static const char *chain_end(const char *at, const char *end)
{
    static const char anonymous[] = "(anonymous namespace)";
    while (end - at > 2 && at[0] == ':' && at[1] == ':') {
        const char *next = word_end(at + 2, end);
        if (kb_string_begins(span(at + 2, end), anonymous))
            next = at + 2 + sizeof anonymous - 1;
        if (next == at + 2)
            break;
        at = next;
    }
    return at;
}

/* Generated kernels have the operators that they fuse in their names. */
static bool add_fused(kt_scrub *s, kineto_string word)
{
    static const char *const heads[] = {"triton_poi_fused_", "triton_red_fused_",
                                        "triton_per_fused_", "triton_tem_fused_",
                                        "triton_for_fused_"};
    for (size_t i = 0; i < KB_COUNT(heads); i++) {
        if (!kb_string_begins(word, heads[i]))
            continue;
        add_z(s, heads[i]);
        add_hash(s, "k_", word);
        return true;
    }
    return false;
}

/* A number of a template: short, with what C++ may put behind it. */
static bool is_number(kineto_string word)
{
    size_t size = word.size;
    while (size && strchr("fuUlL", word.data[size - 1]) && word.data[size - 1])
        size--;
    for (size_t i = 0; i < size; i++)
        if (!is_digit(word.data[i]))
            return false;
    return size && word.size <= 8;
}

/* One word; returns what follows. *joined: it hangs by :: on one that was replaced. */
static const char *add_word(kt_scrub *s, const char *at, const char *end, bool *joined)
{
    const char *next = word_end(at, end);
    kineto_string word = span(at, next);
    if (!*joined && next < end && *next == ':' && kt_known_namespace(word, span(at, end))) {
        next = chain_end(next, end);
        add(s, span(at, next));
    } else if (is_number(word) || (kt_known_word(word) && word.size < 200)) {
        add(s, word);
    } else {
        *joined = true;
        if (!add_fused(s, word))
            add_hash(s, "k_", word);
    }
    return next;
}

/* Names of public libraries stay, words of others are replaced one by one. */
static void add_kernel(kt_scrub *s, kineto_string name)
{
    const char *at = name.data, *end = name.data + name.size;
    bool joined = false;
    while (at < end) {
        if (is_letter(*at) || is_digit(*at)) {
            at = add_word(s, at, end, &joined);
            continue;
        }
        joined = joined && *at == ':';
        add(s, span(at, at + 1));
        at++;
    }
}

static bool is_code(kineto_string name)
{
    size_t words = 0;
    bool inside = false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        if (c == '<' || c == '(' || (c == ':' && i && name.data[i - 1] == ':'))
            return true;
        words += !inside && is_letter(c);
        inside = is_letter(c) || is_digit(c);
    }
    return words == 1 && name.size && is_letter(name.data[0]);
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *prefix_of(uint32_t kind)
{
    switch (kind) {
    case KINETO_KIND_USER_ANNOTATION:
    case KINETO_KIND_GPU_USER_ANNOTATION:
        return "u_";
    case KINETO_KIND_PYTHON_FUNCTION:
        return "f_";
    case KINETO_KIND_COUNTER:
    case KINETO_KIND_GPU_PM_COUNTER:
        return "c_";
    default:
        return kt_kind_is_device(kind) ? "k_" : "o_";
    }
}

/* "<built-in method f of T object at 0x7f00>": where it is differs from rank to rank. */
static bool add_builtin(kt_scrub *s, kineto_string name)
{
    static const char start[] = "<built-in ", place[] = " at 0x";
    if (!kb_string_begins(name, start))
        return false;
    const char *at = memmem(name.data, name.size, place, sizeof place - 1);
    add_z(s, start);
    add_hash(s, "f_", span(name.data, at ? at : name.data + name.size));
    add_z(s, ">");
    return true;
}

static void add_backward(kt_scrub *s, uint32_t kind, kineto_string name);

static void add_name(kt_scrub *s, uint32_t kind, kineto_string name)
{
    bool all = kt_scrubs(s, KINETO_SCRUB_KNOWN);
    if (!name.size || kt_is_step(name) || (!all && kt_known_name(kind, name)))
        add(s, name);
    else if (add_module(s, name) || add_frame(s, name, true, true))
        return;
    else if (!all && kt_kind_is_device(kind) && is_code(name))
        add_kernel(s, name);
    else if (!all && kind == KINETO_KIND_CPU_OP && is_code(name) && add_fused(s, name))
        return;
    else if (kb_string_begins(name, "autograd::engine::evaluate_function: "))
        add_backward(s, kind, name);
    else if (!all && add_optimizer(s, name))
        return;
    else if (add_builtin(s, name))
        return;
    else if (looks_like_path(name))
        add_path(s, name);
    else
        add_hash(s, prefix_of(kind), name);
}

static void add_backward(kt_scrub *s, uint32_t kind, kineto_string name)
{
    static const char start[] = "autograd::engine::evaluate_function: ";
    kineto_string rest = kb_string_behind(name, sizeof start - 1);
    add_z(s, start);
    if (kb_string_begins(rest, start))
        add_hash(s, "o_", rest); /* no depth without end */
    else
        add_name(s, kind, rest);
}

kineto_string kt_scrub_name(kt_scrub *s, uint32_t kind, kineto_string name)
{
    if (!kt_scrubs(s, KINETO_SCRUB_NAMES))
        return kt_scrub_inside(s, name);
    s->out.count = 0;
    if (kt_scrub_kept(s, name))
        return name;
    add_name(s, kind, name);
    s->done.names += !kb_string_equal(result(s), name);
    return result(s);
}

/* "thread 12 (python)": the number, and the name if it is public. */
static void add_track(kt_scrub *s, kineto_string name)
{
    const char *open = memchr(name.data, '(', name.size);
    if (open && open > name.data && open[-1] == ' ' && name.data[name.size - 1] == ')') {
        kineto_string head = span(name.data, open - 1);
        kineto_string inside = span(open + 1, name.data + name.size - 1);
        if (kt_known_place(head)) {
            add(s, span(name.data, open + 1));
            if (kt_known_place(inside))
                add(s, inside);
            else
                add_hash(s, "t_", inside);
            add_z(s, ")");
            return;
        }
    }
    add_hash(s, "t_", name);
}

kineto_string kt_scrub_place(kt_scrub *s, bool is_track, kineto_string name)
{
    if (!kt_scrubs(s, KINETO_SCRUB_NAMES))
        return kt_scrub_inside(s, name);
    s->out.count = 0;
    if (!name.size || kt_known_place(name) || kt_scrub_kept(s, name))
        return name;
    if (is_track)
        add_track(s, name);
    else
        add_hash(s, "p_", name);
    s->done.names++;
    return result(s);
}

kineto_string kt_scrub_category(kt_scrub *s, kineto_string category)
{
    if (!kt_scrubs(s, KINETO_SCRUB_NAMES))
        return kt_scrub_inside(s, category);
    if (kt_known_category(category) || kt_scrub_kept(s, category))
        return category;
    s->done.names++;
    return kt_scrub_hash(s, "g_", category);
}

kineto_string kt_scrub_host(kt_scrub *s, kineto_string host)
{
    if (!host.size || !kt_scrubs(s, KINETO_SCRUB_HOSTS))
        return kt_scrub_inside(s, host);
    s->done.hosts++;
    return kt_scrub_hash(s, "h_", host);
}

/* ---- stacks, values -------------------------------------------------------------------------- */

kineto_string kt_scrub_stack(kt_scrub *s, kineto_string stack)
{
    bool all = kt_scrubs(s, KINETO_SCRUB_STACKS);
    bool paths = all || kt_scrubs(s, KINETO_SCRUB_PATHS);
    bool functions = all || kt_scrubs(s, KINETO_SCRUB_NAMES);
    s->out.count = 0;
    if (!paths && !functions)
        return kt_scrub_inside(s, stack);
    s->done.stacks++;
    if (all && kt_scrubs(s, KINETO_SCRUB_DROP_STACKS))
        return result(s);
    const char *at = stack.data, *end = stack.data + stack.size;
    while (at < end) {
        const char *next = at;
        while (next < end && *next != ';' && *next != '\n')
            next++;
        kineto_string frame = span(at, next);
        if (frame.size && !add_frame(s, frame, paths, functions))
            add_hash(s, "f_", frame);
        if (next < end)
            add(s, span(next, next + 1));
        at = next < end ? next + 1 : end;
    }
    return result(s);
}

kineto_string kt_scrub_value(kt_scrub *s, kineto_string value, bool known, uint32_t what)
{
    if (!kt_scrubs(s, what))
        return kt_scrub_inside(s, value);
    if (kt_known_value(value, known) || kt_scrub_kept(s, value))
        return value;
    s->out.count = 0;
    s->done.texts++;
    if (looks_like_path(value))
        add_path(s, value);
    else
        add_hash(s, "s_", value);
    return result(s);
}

/* ---- inside of other texts ------------------------------------------------------------------- */

static bool is_boundary(char c) { return !c || strchr(" \t\r\n\"'()[]{}<>,;=|", c) != NULL; }

static bool is_machine(const kt_scrub *s, kineto_string token)
{
    if (kt_is_ipv4(token))
        return true;
    for (size_t i = 0; i < s->hosts.count; i++) {
        kineto_string host = s->hosts.data[i];
        bool same = kb_string_equal(host, token);
        if (same || (host.size > 3 && memmem(token.data, token.size, host.data, host.size)))
            return true;
    }
    return false;
}

static bool is_path_token(kineto_string token)
{
    size_t separators = 0;
    for (size_t i = 0; i < token.size; i++)
        separators += is_separator(token.data[i]);
    return token.size > 1 && separators &&
           (is_separator(token.data[0]) || token.data[0] == '~' || separators > 1 ||
            kt_known_extension(extension_of(token)));
}

static void add_token(kt_scrub *s, kineto_string token)
{
    if (kt_scrubs(s, KINETO_SCRUB_HOSTS) && is_machine(s, token)) {
        s->done.hosts++;
        add_hash(s, "h_", token);
    } else if (kt_scrubs(s, KINETO_SCRUB_PATHS) &&
               (is_path_token(token) ||
                (kt_known_extension(extension_of(token)) && !kt_known_file(token)))) {
        add_path(s, token);
    } else {
        add(s, token);
    }
}

kineto_string kt_scrub_inside(kt_scrub *s, kineto_string text)
{
    s->out.count = 0;
    if (!kt_scrubs(s, KINETO_SCRUB_HOSTS | KINETO_SCRUB_PATHS))
        return text;
    const char *at = text.data, *end = text.data + text.size;
    while (at < end) {
        const char *next = at;
        while (next < end && !is_boundary(*next))
            next++;
        if (next > at)
            add_token(s, span(at, next));
        if (next < end)
            add(s, span(next, next + 1));
        at = next < end ? next + 1 : end;
    }
    return result(s);
}
