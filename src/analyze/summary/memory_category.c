/* What memory is for, as far as a trace tells: from the functions in which it came and went, and
 * from the program's own rules. */
#include "analyze/summary/summary.h"

#include <strings.h>

static const char *const texts[KINETO_MEMORY_CATEGORY_COUNT] = {
#define KINETO_X(name, value, text) [value] = text,
    KINETO_MEMORY_CATEGORY_MAP(KINETO_X)
#undef KINETO_X
};

const char *kineto_memory_category_name(uint32_t category)
{
    return texts[category < KINETO_MEMORY_CATEGORY_COUNT ? category : KINETO_MEMORY_UNKNOWN];
}

bool kineto_memory_category_parse(const char *text, uint32_t *category)
{
    for (uint32_t i = 0; text && i < KINETO_MEMORY_CATEGORY_COUNT; i++)
        if (strcasecmp(text, texts[i]) == 0) {
            *category = i;
            return true;
        }
    return false;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* What an event's place says: the phase in two bits, a rule's category and one more above. */
enum { PHASE_NONE = 0, PHASE_FORWARD = 1, PHASE_BACKWARD = 2, PHASE_BITS = 3 };
#define RULE_SHIFT 2
#define WANTED     0x80u /* some memory came or went there */

static bool take_rules(ka_memory_classifier *p)
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
    if (p->place && p->outermost && p->ruled && take_rules(p))
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
        p->place[event] = WANTED;
}

/* Of the event alone. The engine's frames are of the backward pass, whatever they call. */
static uint32_t own_phase(const ka_memory_classifier *p, uint32_t i)
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

/* What its callers say holds for it too: the backward pass before all, the innermost rule. */
static uint32_t joined(uint32_t own, uint32_t outer)
{
    uint32_t phase = KB_MAX(own & PHASE_BITS, outer & PHASE_BITS);
    uint32_t rule = own >> RULE_SHIFT ? own >> RULE_SHIFT : outer >> RULE_SHIFT;
    return phase | rule << RULE_SHIFT;
}

/* Callers stand before what they call. */
void ka_memory_classifier_run(ka_memory_classifier *p)
{
    const kineto_function_events *e = p->e;
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t caller = e->parent[i];
        bool called = caller != KINETO_NO_EVENT && caller < i;
        if (!p->place[i])
            continue;
        uint32_t rule = p->rule_of_name ? p->rule_of_name[e->names.key[e->name[i]]] : 0;
        uint32_t own = own_phase(p, i) | rule << RULE_SHIFT;
        p->place[i] = (uint8_t)(joined(own, called ? p->place[caller] & ~WANTED : 0) | WANTED);
        p->outermost[i] = called ? p->outermost[caller] : KINETO_NO_EVENT;
        if (p->outermost[i] == KINETO_NO_EVENT && e->kind[i] == KINETO_KIND_CPU_OP)
            p->outermost[i] = i;
        p->ruled[i] = rule ? i : called ? p->ruled[caller] : KINETO_NO_EVENT;
    }
}

/* Did it go in the very event whose rule it came under, or in what that called? */
static bool stayed_inside(const ka_memory_classifier *p, uint32_t came, uint32_t went)
{
    const kineto_function_events *e = p->e;
    uint32_t ruled = p->ruled[came];
    return went != KINETO_NO_EVENT && went >= ruled && e->track[went] == e->track[ruled] &&
           e->start_ns[ruled] <= e->start_ns[went] && e->end_ns[went] <= e->end_ns[ruled];
}

/* What is to stay, but has gone before the function that made it ended, was not what is meant. */
static uint8_t by_rule(const ka_memory_classifier *p, uint32_t rule, uint32_t came, uint32_t went)
{
    bool stays = rule == KINETO_MEMORY_PARAMETER || rule == KINETO_MEMORY_OPTIMIZER_STATE ||
                 rule == KINETO_MEMORY_INPUT;
    return stays && stayed_inside(p, came, went) ? KINETO_MEMORY_TEMPORARY : (uint8_t)rule;
}

uint8_t ka_memory_classify(const ka_memory_classifier *p, uint32_t came, uint32_t went)
{
    if (came == KINETO_NO_EVENT)
        return KINETO_MEMORY_UNKNOWN;
    uint32_t place = p->place[came] & ~WANTED, rule = place >> RULE_SHIFT;
    bool operator_went = went != KINETO_NO_EVENT && p->outermost[went] != KINETO_NO_EVENT;
    if (operator_went && p->outermost[went] == p->outermost[came])
        return KINETO_MEMORY_TEMPORARY;
    if (rule)
        return by_rule(p, rule - 1, came, went);
    if ((place & PHASE_BITS) == PHASE_FORWARD)
        return KINETO_MEMORY_ACTIVATION;
    if ((place & PHASE_BITS) != PHASE_BACKWARD)
        return KINETO_MEMORY_UNKNOWN;
    bool backward_went = went != KINETO_NO_EVENT && (p->place[went] & PHASE_BITS) == PHASE_BACKWARD;
    return backward_went ? KINETO_MEMORY_AUTOGRAD_DETAIL : KINETO_MEMORY_GRADIENT;
}
