/* Names of function events: the text under which an event is grouped, the overload, and names that
 * are never shown; names and numbers of devices as PyTorch has them. */
#include "analyze/summary/summary.h"

#include "trace/model/steps.h"

bool ka_is_hidden_operator(kineto_string name)
{
    static const char *const dropped[] = {"profiler::_record_function_enter",
                                          "profiler::_record_function_enter_new",
                                          "profiler::_record_function_exit",
                                          "aten::is_leaf",
                                          "aten::output_nr",
                                          "aten::_version"};
    return kb_string_is_one_of(name, dropped, KB_COUNT(dropped));
}

kineto_string ka_engine_frame_name(kineto_string name)
{
    static const char frame[] = "autograd::engine::evaluate_function: ";
    size_t size = sizeof frame - 1;
    if (name.size < size || memcmp(name.data, frame, size) != 0)
        return (kineto_string){NULL, 0};
    return (kineto_string){name.data + size, name.size - size};
}

bool ka_summary_names_create(ka_summary_names *names, const kineto_trace *t)
{
    size_t bytes = ka_column_bytes(kineto_trace_string_count(t), sizeof *names->key);
    names->key = malloc(bytes);
    names->overload = malloc(bytes);
    if (!names->key || !names->overload || kb_intern_id(&names->texts, kb_string("")) != 0)
        return false;
    memset(names->key, 0xff, bytes);
    memset(names->overload, 0, bytes);
    return true;
}

void ka_summary_names_free(ka_summary_names *names)
{
    kb_intern_free(&names->texts);
    free(names->key);
    free(names->overload);
}

static bool is_word(char c) { return c == '_' || kb_is_letter_or_digit(c); }

/* The position after the identifier that begins at `at`. */
static size_t skip_identifier(kineto_string s, size_t at)
{
    KB_ASSERT(at <= s.size);
    while (at < s.size && is_word(s.data[at]))
        at++;
    return at;
}

/* Position of the dot in "aten::add.Tensor", an operator with its overload; 0: the name has another
 * form. */
static size_t find_overload_dot(kineto_string name)
{
    size_t space = skip_identifier(name, 0);
    if (space == 0 || name.size - space < 2 || memcmp(name.data + space, "::", 2) != 0)
        return 0;
    size_t dot = skip_identifier(name, space + 2);
    if (dot == space + 2 || dot + 1 >= name.size || name.data[dot] != '.')
        return 0;
    return skip_identifier(name, dot + 1) == name.size ? dot : 0;
}

bool ka_summary_names_add(ka_summary_names *names, const kineto_trace *t, uint32_t name,
                          uint32_t kind, const char *step_pattern)
{
    static const char step[] = "ProfilerStep#";
    if (names->key[name] != UINT32_MAX)
        return true;
    /* The first event with a name decides for all; KB_INTERN_NONE would look like "not seen". */
    kineto_string text = kineto_trace_string(t, name), overload = {"", 0};
    size_t dot = kind == KINETO_KIND_CPU_OP ? find_overload_dot(text) : 0;
    if (dot) {
        overload = (kineto_string){text.data + dot + 1, text.size - dot - 1};
        text.size = dot;
    } else if (step_pattern && kt_step_matches(text, step_pattern)) {
        text = kb_string(step_pattern);
    } else if (text.size >= sizeof step - 1 && memcmp(text.data, step, sizeof step - 1) == 0) {
        text = kb_string("ProfilerStep*");
    }
    names->key[name] = kb_intern_id(&names->texts, text);
    names->overload[name] = kb_intern_id(&names->texts, overload);
    return names->key[name] != KB_INTERN_NONE && names->overload[name] != KB_INTERN_NONE;
}

/* ---- the device ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    uint32_t type; /* kineto_device_type, c10::DeviceType in PyTorch */
} devices[] = {{"cuda", 1},         {"xpu", 12}, {"mtia", 19}, {"hpu", 15},
               {"privateuse1", 20}, {"npu", 20}, {"tpu", 20},  {"mlu", 20}};

/* True if the first word of "cuda_runtime", "NPU", "XPU 1" or "TPU:0" is this one, in any case. */
static bool starts_with_word(kineto_string text, const char *word)
{
    size_t size = strlen(word);
    return text.size >= size && strncasecmp(text.data, word, size) == 0 &&
           (text.size == size || strchr("_ :", text.data[size]));
}

const char *ka_device_name_of(kineto_string text, uint32_t *type)
{
    for (size_t i = 0; i < KB_COUNT(devices); i++)
        if (starts_with_word(text, devices[i].name)) {
            *type = devices[i].type;
            return devices[i].name;
        }
    return NULL;
}

const char *ka_device_type_name(uint32_t type)
{
    for (size_t i = 0; i < KB_COUNT(devices); i++)
        if (devices[i].type == type)
            return devices[i].name;
    return NULL;
}
