/* Scrubs one text: names of rows and places, paths, stacks, values, and texts in which only paths
 * and machines are replaced. Results are written to s->out and valid until the next call. */
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

static void append_out(kt_scrub *s, kineto_string text)
{
    kt_chars_add(s, &s->out, text.data, text.size);
}
static void append_out_z(kt_scrub *s, const char *text) { append_out(s, kb_string(text)); }

static kineto_string text_between(const char *from, const char *to)
{
    return (kineto_string){from, (size_t)(to - from)};
}

/* The text that was written so far; never NULL. */
static kineto_string scrubbed_text(const kt_scrub *s)
{
    return (kineto_string){s->out.data ? s->out.data : "", s->out.count};
}

/* Appends `prefix` and 48 bits of the keyed hash. The same text has the same hash wherever it
 * stands, so that relations stay visible; the prefix names its role. */
static void append_hash(kt_scrub *s, const char *prefix, kineto_string text)
{
    char hex[32];
    uint64_t hash = kb_siphash(s->key, text.data, text.size);
    snprintf(hex, sizeof hex, "%s%012llx", prefix, (unsigned long long)(hash >> 16));
    append_out_z(s, hex);
}

kineto_string kt_scrub_hash(kt_scrub *s, const char *prefix, kineto_string text)
{
    s->out.count = 0;
    append_hash(s, prefix, text);
    return scrubbed_text(s);
}

/* A NUL in the text would hide the rest from regexec: it is replaced by a space. */
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

/* The text after the last dot; empty if there is none, or if the dot comes first. */
static kineto_string path_extension(kineto_string component)
{
    for (size_t i = component.size; i > 1; i--)
        if (component.data[i - 1] == '.')
            return kb_string_skip(component, i);
    return (kineto_string){"", 0};
}

/* A text with separators and without spaces, or with spaces if it begins with a separator. */
static bool is_path_like(kineto_string text)
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

/* Do names of files and functions of public packages stay? */
static bool keeps_packages(const kt_scrub *s)
{
    return !kt_scrubs(s, KINETO_SCRUB_KNOWN | KINETO_SCRUB_PACKAGES);
}

static bool is_site_packages(kineto_string component)
{
    return kb_string_equal(component, kb_string("site-packages")) ||
           kb_string_equal(component, kb_string("dist-packages"));
}

/* Hashes each component together with the path before it: depth and common beginnings stay visible,
 * and "src" gets a different hash in every directory. Below directories of public packages names
 * stay. Returns true if the path is one of a public package. */
static bool append_path(kt_scrub *s, kineto_string path)
{
    const char *at = path.data, *end = path.data + path.size;
    bool at_root = true, is_public = false, any = false;
    if (keeps_packages(s) && kt_known_file(path)) {
        append_out(s, path);
        return true;
    }
    while (at < end) {
        const char *next = at;
        while (next < end && !is_separator(*next))
            next++;
        kineto_string component = text_between(at, next), extension = path_extension(component);
        bool dots = component.size <= 2 && component.size && component.data[0] == '.' &&
                    component.data[component.size - 1] == '.';
        is_public = is_public || (keeps_packages(s) && kt_known_package(component, at_root) && next < end);
        if (is_public || dots || !component.size) {
            append_out(s, component);
        } else {
            any = true;
            append_hash(s, "d_", text_between(path.data, next));
            if (next == end && extension.size && kt_known_extension(extension)) {
                append_out_z(s, ".");
                append_out(s, extension);
            }
        }
        at_root = is_site_packages(component);
        if (next < end)
            append_out(s, text_between(next, next + 1));
        at = next < end ? next + 1 : end;
    }
    s->done.paths += any;
    return is_public;
}

/* ---- Python ---------------------------------------------------------------------------------- */

/* "path(12): function": the position of the bracket; NULL: the text has another form. */
static const char *line_number_of_frame(kineto_string text)
{
    for (size_t i = text.size; i > 3; i--) {
        if (text.data[i - 1] != ':' || text.data[i - 2] != ')')
            continue;
        size_t at = i - 2;
        while (at > 0 && kb_is_digit(text.data[at - 1]))
            at--;
        if (at > 1 && at < i - 2 && text.data[at - 1] == '(')
            return text.data + at - 1;
    }
    return NULL;
}

/* Appends a line of Python; the caller decides which parts are replaced. False: it has another
 * form. */
static bool append_python_frame(kt_scrub *s, kineto_string frame, bool paths, bool functions)
{
    const char *bracket = line_number_of_frame(frame), *end = frame.data + frame.size;
    if (!bracket)
        return false;
    const char *colon = memchr(bracket, ':', (size_t)(end - bracket));
    const char *name = colon + 1;
    while (name < end && *name == ' ')
        name++;
    bool is_public = false;
    if (paths)
        is_public = append_path(s, text_between(frame.data, bracket));
    else
        append_out(s, text_between(frame.data, bracket));
    append_out(s, text_between(bracket, name));
    if (functions && !is_public)
        append_hash(s, "f_", text_between(name, end));
    else
        append_out(s, text_between(name, end));
    return true;
}

/* "nn.Module: Encoder_3": the number of the instance stays. False: another form. */
static bool append_module_name(kt_scrub *s, kineto_string name)
{
    static const char start[] = "nn.Module: ";
    if (!kb_string_starts_with(name, start))
        return false;
    kineto_string class = kb_string_skip(name, sizeof start - 1);
    size_t size = class.size;
    while (size && kb_is_digit(class.data[size - 1]))
        size--;
    bool numbered = size > 1 && size < class.size && class.data[size - 1] == '_';
    kineto_string bare = {class.data, numbered ? size - 1 : class.size};
    append_out_z(s, start);
    if (!kt_scrubs(s, KINETO_SCRUB_KNOWN) && kt_known_module(bare))
        append_out(s, bare);
    else
        append_hash(s, "m_", bare);
    append_out(s, kb_string_skip(class, bare.size));
    return true;
}

/* "Optimizer.step#Adam.step". False: another form. */
static bool append_optimizer_name(kt_scrub *s, kineto_string name)
{
    static const char *const forms[][2] = {{"Optimizer.step#", ".step"},
                                           {"Optimizer.zero_grad#", ".zero_grad"}};
    for (size_t i = 0; i < KB_COUNT(forms); i++) {
        size_t head = strlen(forms[i][0]), tail = strlen(forms[i][1]);
        if (!kb_string_starts_with(name, forms[i][0]) || name.size <= head + tail ||
            memcmp(name.data + name.size - tail, forms[i][1], tail) != 0)
            continue;
        kineto_string class = {name.data + head, name.size - head - tail};
        append_out_z(s, forms[i][0]);
        if (kt_known_optimizer(class))
            append_out(s, class);
        else
            append_hash(s, "m_", class);
        append_out_z(s, forms[i][1]);
        return true;
    }
    return false;
}

/* ---- C++ ------------------------------------------------------------------------------------- */

/* Also bytes above ASCII and control characters, so that they are hashed and not copied. */
static bool is_identifier_char(char c)
{
    return kb_is_letter(c) || c == '_' || c == '$' ||
           (unsigned char)c >= 0x80 || (unsigned char)c < 0x20;
}

static const char *end_of_identifier(const char *at, const char *end)
{
    while (at < end && (is_identifier_char(*at) || kb_is_digit(*at)))
        at++;
    return at;
}

/* The end of a::b::c, from the end of its first word. */
static const char *end_of_qualified_name(const char *at, const char *end)
{
    static const char anonymous[] = "(anonymous namespace)";
    while (end - at > 2 && at[0] == ':' && at[1] == ':') {
        const char *next = end_of_identifier(at + 2, end);
        if (kb_string_starts_with(text_between(at + 2, end), anonymous))
            next = at + 2 + sizeof anonymous - 1;
        if (next == at + 2)
            break;
        at = next;
    }
    return at;
}

/* Generated kernels have the operators that they fuse in their names: only the public beginning
 * stays. */
static bool append_fused_kernel(kt_scrub *s, kineto_string word)
{
    static const char *const heads[] = {"triton_poi_fused_", "triton_red_fused_",
                                        "triton_per_fused_", "triton_tem_fused_",
                                        "triton_for_fused_"};
    for (size_t i = 0; i < KB_COUNT(heads); i++) {
        if (!kb_string_starts_with(word, heads[i]))
            continue;
        append_out_z(s, heads[i]);
        append_hash(s, "k_", word);
        return true;
    }
    return false;
}

/* A number in a template, of at most 8 bytes with its suffix of C++. */
static bool is_template_number(kineto_string word)
{
    size_t size = word.size;
    while (size && strchr("fuUlL", word.data[size - 1]) && word.data[size - 1])
        size--;
    for (size_t i = 0; i < size; i++)
        if (!kb_is_digit(word.data[i]))
            return false;
    return size && word.size <= 8;
}

/* Appends one word and returns the position after it. *joined: the word is qualified by one that
 * was replaced, so it is replaced, too. */
static const char *append_kernel_word(kt_scrub *s, const char *at, const char *end, bool *joined)
{
    const char *next = end_of_identifier(at, end);
    kineto_string word = text_between(at, next);
    if (!*joined && next < end && *next == ':' && kt_known_namespace(word, text_between(at, end))) {
        next = end_of_qualified_name(next, end);
        append_out(s, text_between(at, next));
    } else if (is_template_number(word) || (kt_known_word(word) && word.size < 200)) {
        append_out(s, word);
    } else {
        *joined = true;
        if (!append_fused_kernel(s, word))
            append_hash(s, "k_", word);
    }
    return next;
}

/* Words of public libraries stay, other words are replaced one by one. */
static void append_kernel_name(kt_scrub *s, kineto_string name)
{
    const char *at = name.data, *end = name.data + name.size;
    bool joined = false;
    while (at < end) {
        if (is_identifier_char(*at) || kb_is_digit(*at)) {
            at = append_kernel_word(s, at, end, &joined);
            continue;
        }
        joined = joined && *at == ':';
        append_out(s, text_between(at, at + 1));
        at++;
    }
}

/* True for names in C++: templates, arguments, "::", or a single identifier. */
static bool is_cpp_like(kineto_string name)
{
    size_t words = 0;
    bool inside = false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        if (c == '<' || c == '(' || (c == ':' && i && name.data[i - 1] == ':'))
            return true;
        words += !inside && is_identifier_char(c);
        inside = is_identifier_char(c) || kb_is_digit(c);
    }
    return words == 1 && name.size && is_identifier_char(name.data[0]);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The prefix of a row's pseudonym by its kind (docs/how-to/sharing-traces.md). */
static const char *pseudonym_prefix(uint32_t kind)
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

/* "<built-in method f of T object at 0x7f00>": the address differs between ranks and is dropped. */
static bool append_builtin_name(kt_scrub *s, kineto_string name)
{
    static const char start[] = "<built-in ", place[] = " at 0x";
    if (!kb_string_starts_with(name, start))
        return false;
    const char *at = memmem(name.data, name.size, place, sizeof place - 1);
    append_out_z(s, start);
    append_hash(s, "f_", text_between(name.data, at ? at : name.data + name.size));
    append_out_z(s, ">");
    return true;
}

static void append_backward_name(kt_scrub *s, uint32_t kind, kineto_string name);

/* The first form that fits decides. With KINETO_SCRUB_KNOWN public names are replaced as well. */
static void append_row_name(kt_scrub *s, uint32_t kind, kineto_string name)
{
    bool all = kt_scrubs(s, KINETO_SCRUB_KNOWN);
    if (!name.size || kt_is_step_name(name) || (!all && kt_known_name(kind, name)))
        append_out(s, name);
    else if (append_module_name(s, name) || append_python_frame(s, name, true, true))
        return;
    else if (!all && kt_kind_is_device(kind) && is_cpp_like(name))
        append_kernel_name(s, name);
    else if (!all && kind == KINETO_KIND_CPU_OP && is_cpp_like(name) &&
             append_fused_kernel(s, name))
        return;
    else if (kb_string_starts_with(name, "autograd::engine::evaluate_function: "))
        append_backward_name(s, kind, name);
    else if (!all && append_optimizer_name(s, name))
        return;
    else if (append_builtin_name(s, name))
        return;
    else if (is_path_like(name))
        append_path(s, name);
    else
        append_hash(s, pseudonym_prefix(kind), name);
}

static void append_backward_name(kt_scrub *s, uint32_t kind, kineto_string name)
{
    static const char start[] = "autograd::engine::evaluate_function: ";
    kineto_string rest = kb_string_skip(name, sizeof start - 1);
    append_out_z(s, start);
    if (kb_string_starts_with(rest, start))
        append_hash(s, "o_", rest); /* bounds the recursion */
    else
        append_row_name(s, kind, rest);
}

kineto_string kt_scrub_name(kt_scrub *s, uint32_t kind, kineto_string name)
{
    if (!kt_scrubs(s, KINETO_SCRUB_NAMES))
        return kt_scrub_inside(s, name);
    s->out.count = 0;
    if (kt_scrub_kept(s, name))
        return name;
    append_row_name(s, kind, name);
    s->done.names += !kb_string_equal(scrubbed_text(s), name);
    return scrubbed_text(s);
}

/* ": state" and ": samples" at the end of a track's name say what is on it. */
static size_t find_track_purpose(kineto_string name)
{
    static const char *const endings[] = {": state", ": samples"};
    for (size_t i = 0; i < KB_COUNT(endings); i++) {
        size_t size = strlen(endings[i]);
        if (name.size > size && memcmp(name.data + name.size - size, endings[i], size) == 0)
            return name.size - size;
    }
    return name.size;
}

/* "thread 12 (python)": the number stays, and the name if it is public. */
static void append_plain_track_name(kt_scrub *s, kineto_string name)
{
    if (kt_known_place(name)) {
        append_out(s, name);
        return;
    }
    const char *open = memchr(name.data, '(', name.size);
    if (open && open > name.data && open[-1] == ' ' && name.data[name.size - 1] == ')') {
        kineto_string head = text_between(name.data, open - 1);
        kineto_string inside = text_between(open + 1, name.data + name.size - 1);
        if (kt_known_place(head)) {
            append_out(s, text_between(name.data, open + 1));
            if (kt_known_place(inside))
                append_out(s, inside);
            else
                append_hash(s, "t_", inside);
            append_out_z(s, ")");
            return;
        }
    }
    append_hash(s, "t_", name);
}

/* "thread 12 (python): state": the number stays, the purpose, and the name if it is public. */
static void append_track_name(kt_scrub *s, kineto_string name)
{
    size_t purpose = find_track_purpose(name);
    append_plain_track_name(s, (kineto_string){name.data, purpose});
    append_out(s, kb_string_skip(name, purpose));
}

kineto_string kt_scrub_place(kt_scrub *s, bool is_track, kineto_string name)
{
    if (!kt_scrubs(s, KINETO_SCRUB_NAMES))
        return kt_scrub_inside(s, name);
    s->out.count = 0;
    if (!name.size || kt_known_place(name) || kt_scrub_kept(s, name))
        return name;
    if (is_track)
        append_track_name(s, name);
    else
        append_hash(s, "p_", name);
    s->done.names++;
    return scrubbed_text(s);
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

/* Frames are separated by ';' or newlines, which stay, so that the depth of a stack is visible. */
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
        return scrubbed_text(s);
    const char *at = stack.data, *end = stack.data + stack.size;
    while (at < end) {
        const char *next = at;
        while (next < end && *next != ';' && *next != '\n')
            next++;
        kineto_string frame = text_between(at, next);
        if (frame.size && !append_python_frame(s, frame, paths, functions))
            append_hash(s, "f_", frame);
        if (next < end)
            append_out(s, text_between(next, next + 1));
        at = next < end ? next + 1 : end;
    }
    return scrubbed_text(s);
}

/* Values are either known, kept by the user, paths, or replaced as a whole. */
kineto_string kt_scrub_value(kt_scrub *s, kineto_string value, bool known, uint32_t what)
{
    if (!kt_scrubs(s, what))
        return kt_scrub_inside(s, value);
    if (kt_known_value(value, known) || kt_scrub_kept(s, value))
        return value;
    s->out.count = 0;
    s->done.texts++;
    if (is_path_like(value))
        append_path(s, value);
    else
        append_hash(s, "s_", value);
    return scrubbed_text(s);
}

/* ---- paths and machines in other texts ------------------------------------------------------- */

static bool is_token_boundary(char c) { return !c || strchr(" \t\r\n\"'()[]{}<>,;=|", c) != NULL; }

/* An address, or a text that contains a known host name. */
static bool is_machine_name(const kt_scrub *s, kineto_string token)
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

/* Stricter than is_path_like: "a/b" in a sentence is not a path. */
static bool is_path_token(kineto_string token)
{
    size_t separators = 0;
    for (size_t i = 0; i < token.size; i++)
        separators += is_separator(token.data[i]);
    return token.size > 1 && separators &&
           (is_separator(token.data[0]) || token.data[0] == '~' || separators > 1 ||
            kt_known_extension(path_extension(token)));
}

/* Replaces a token that is a machine or a path; other tokens stay. */
static void append_token(kt_scrub *s, kineto_string token)
{
    if (kt_scrubs(s, KINETO_SCRUB_HOSTS) && is_machine_name(s, token)) {
        s->done.hosts++;
        append_hash(s, "h_", token);
    } else if (kt_scrubs(s, KINETO_SCRUB_PATHS) &&
               (is_path_token(token) ||
                (kt_known_extension(path_extension(token)) && !kt_known_file(token)))) {
        append_path(s, token);
    } else {
        append_out(s, token);
    }
}

/* Tokens are separated by white space, quotes and brackets. */
kineto_string kt_scrub_inside(kt_scrub *s, kineto_string text)
{
    s->out.count = 0;
    if (!kt_scrubs(s, KINETO_SCRUB_HOSTS | KINETO_SCRUB_PATHS))
        return text;
    const char *at = text.data, *end = text.data + text.size;
    while (at < end) {
        const char *next = at;
        while (next < end && !is_token_boundary(*next))
            next++;
        if (next > at)
            append_token(s, text_between(at, next));
        if (next < end)
            append_out(s, text_between(next, next + 1));
        at = next < end ? next + 1 : end;
    }
    return scrubbed_text(s);
}
