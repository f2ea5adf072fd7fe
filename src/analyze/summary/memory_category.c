/* Categories of memory as in PyTorch's memory profiler (parameter, gradient, activation …), as far
 * as a trace shows them: from the functions in which memory was allocated and released, and from
 * the program's own rules. docs/reference/memory.md has the table of decisions. */
#include "analyze/summary/summary.h"

#include <strings.h>

static const char *const category_names[KINETO_MEMORY_CATEGORY_COUNT] = {
#define KINETO_X(name, value, text) [value] = text,
    KINETO_MEMORY_CATEGORY_MAP(KINETO_X)
#undef KINETO_X
};

const char *kineto_memory_category_name(uint32_t category)
{
    return category_names[category < KINETO_MEMORY_CATEGORY_COUNT ? category
                                                                  : KINETO_MEMORY_UNKNOWN];
}

bool kineto_memory_category_parse(const char *text, uint32_t *category)
{
    for (uint32_t i = 0; text && category && i < KINETO_MEMORY_CATEGORY_COUNT; i++)
        if (strcasecmp(text, category_names[i]) == 0) {
            *category = i;
            return true;
        }
    return false;
}

/* ---- classified events ----------------------------------------------------------------------- */

/* Bits of ka_memory_classifier.place: the phase in two bits, above them a rule's category plus 1.
 * The backward phase has the larger number, since it wins over the forward one. */
enum { PHASE_NONE = 0, PHASE_FORWARD = 1, PHASE_BACKWARD = 2, PHASE_BITS = 3 };
#define RULE_SHIFT 2
/* Memory was allocated or released in the event or in one that it called. */
#define PLACE_WANTED 0x80u

/* Finds the name ids that the program's rules are for; the last rule for a name wins. False: out of
 * memory. */
static bool resolve_rules(ka_memory_classifier *p)
{
    const kb_intern *names = &p->e->names.texts;
    if (!p->rule_count)
        return true;
    p->rule_of_name = calloc(KB_MAX(names->strings.count, 1u), sizeof *p->rule_of_name);
    for (uint32_t id = 0; p->rule_of_name && id < names->strings.count; id++)
        for (size_t i = 0; i < p->rule_count; i++)
            if (kb_string_equal(kb_intern_get(names, id), kb_string(p->rules[i].name)))
                p->rule_of_name[id] = p->rules[i].category + 1;
    return p->rule_of_name != NULL;
}

bool ka_memory_classifier_create(ka_memory_classifier *p, const kineto_function_events *e,
                                 const kineto_memory_timeline_options *options)
{
    *p = (ka_memory_classifier){.e = e, .rules = options->rules, .rule_count = options->rule_count};
    p->place = calloc(KB_MAX(e->count, 1u), sizeof *p->place);
    p->outermost = malloc(KB_MAX(e->count, 1u) * sizeof *p->outermost);
    p->ruled = malloc(KB_MAX(e->count, 1u) * sizeof *p->ruled);
    if (p->place && p->outermost && p->ruled && resolve_rules(p))
        return true;
    ka_memory_classifier_free(p);
    return false;
}

void ka_memory_classifier_free(ka_memory_classifier *p)
{
    free(p->place);
    free(p->outermost);
    free(p->ruled);
    free(p->rule_of_name);
    *p = (ka_memory_classifier){.e = NULL};
}

void ka_memory_classifier_add(ka_memory_classifier *p, uint32_t event)
{
    for (; event != KINETO_NO_EVENT && !p->place[event]; event = p->e->parent[event])
        p->place[event] = PLACE_WANTED;
}

/* The phase of the event itself, without its callers. Frames of the engine belong to the backward
 * pass. */
static uint32_t find_own_phase(const ka_memory_classifier *p, uint32_t i)
{
    static const char engine[] = "autograd::engine::";
    const kineto_function_events *e = p->e;
    kineto_string name = kineto_trace_string(e->trace, e->name[i]);
    kineto_arg arg;
    int64_t number;
    if (e->kind[i] != KINETO_KIND_CPU_OP)
        return PHASE_NONE;
    if (name.size >= sizeof engine - 1 && memcmp(name.data, engine, sizeof engine - 1) == 0)
        return PHASE_BACKWARD;
    if (kineto_args_find(e->trace, e->row[i], "Fwd thread id", &arg) &&
        kt_arg_whole(&arg, &number) && number > 0)
        return PHASE_BACKWARD;
    if (kineto_args_find(e->trace, e->row[i], "Sequence number", &arg) &&
        kt_arg_whole(&arg, &number) && number >= 0)
        return PHASE_FORWARD;
    return PHASE_NONE;
}

/* Joins an event's place with that of its caller: the backward phase wins, and the innermost
 * rule. */
static uint32_t join_phases(uint32_t own, uint32_t outer)
{
    uint32_t phase = KB_MAX(own & PHASE_BITS, outer & PHASE_BITS);
    uint32_t rule = own >> RULE_SHIFT ? own >> RULE_SHIFT : outer >> RULE_SHIFT;
    return phase | rule << RULE_SHIFT;
}

/* Callers precede their callees, so that one pass hands places down. */
void ka_memory_classifier_run(ka_memory_classifier *p)
{
    const kineto_function_events *e = p->e;
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t caller = e->parent[i];
        bool called = caller != KINETO_NO_EVENT && caller < i;
        if (!p->place[i])
            continue;
        uint32_t rule = p->rule_of_name ? p->rule_of_name[e->names.key[e->name[i]]] : 0;
        uint32_t own = find_own_phase(p, i) | rule << RULE_SHIFT;
        KB_ASSERT(!called || p->place[caller] & PLACE_WANTED);
        p->place[i] = (uint8_t)(join_phases(own, called ? p->place[caller] & ~PLACE_WANTED : 0) |
                                PLACE_WANTED);
        p->outermost[i] = called ? p->outermost[caller] : KINETO_NO_EVENT;
        if (p->outermost[i] == KINETO_NO_EVENT && e->kind[i] == KINETO_KIND_CPU_OP)
            p->outermost[i] = i;
        p->ruled[i] = rule ? i : called ? p->ruled[caller] : KINETO_NO_EVENT;
    }
}

/* True if memory was released within the event whose rule applied to its allocation. */
static bool was_released_inside(const ka_memory_classifier *p, uint32_t came, uint32_t went)
{
    const kineto_function_events *e = p->e;
    uint32_t ruled = p->ruled[came];
    return went != KINETO_NO_EVENT && went >= ruled && e->track[went] == e->track[ruled] &&
           e->start_ns[ruled] <= e->start_ns[went] && e->end_ns[went] <= e->end_ns[ruled];
}

/* The category of a rule. Rules for lasting memory do not apply to memory that was released before
 * the function that allocated it ended: that is temporary. */
static uint8_t apply_rule(const ka_memory_classifier *p, uint32_t rule, uint32_t came,
                          uint32_t went)
{
    bool stays = rule == KINETO_MEMORY_PARAMETER || rule == KINETO_MEMORY_OPTIMIZER_STATE ||
                 rule == KINETO_MEMORY_INPUT;
    return stays && was_released_inside(p, came, went) ? KINETO_MEMORY_TEMPORARY : (uint8_t)rule;
}

uint8_t ka_memory_classify(const ka_memory_classifier *p, uint32_t came, uint32_t went)
{
    if (came == KINETO_NO_EVENT)
        return KINETO_MEMORY_UNKNOWN;
    KB_ASSERT(p->place[came] & PLACE_WANTED);
    uint32_t place = p->place[came] & ~PLACE_WANTED, rule = place >> RULE_SHIFT;
    bool operator_went = went != KINETO_NO_EVENT && p->outermost[went] != KINETO_NO_EVENT;
    if (operator_went && p->outermost[went] == p->outermost[came])
        return KINETO_MEMORY_TEMPORARY;
    if (rule)
        return apply_rule(p, rule - 1, came, went);
    if ((place & PHASE_BITS) == PHASE_FORWARD)
        return KINETO_MEMORY_ACTIVATION;
    if ((place & PHASE_BITS) != PHASE_BACKWARD)
        return KINETO_MEMORY_UNKNOWN;
    bool backward_went = went != KINETO_NO_EVENT && (p->place[went] & PHASE_BITS) == PHASE_BACKWARD;
    return backward_went ? KINETO_MEMORY_AUTOGRAD_DETAIL : KINETO_MEMORY_GRADIENT;
}
