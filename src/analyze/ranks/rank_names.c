/* Names ranks, groups, hosts, links and causes in texts for tables, headlines and notes. Ranks are listed
 * as ranges, as many as fit into a text; long names of traces are cut. Texts are returned by value, so
 * that no function allocates memory. */
#include "analyze/ranks/rank_names.h"

/* Ranges that are named; further ranks are counted. */
#define MAX_RANGES 4u

typedef struct rank_list {
    kb_text text;
    size_t used;
    int64_t first, last; /* the range that is open; last < first: none */
    uint32_t ranges, count, more;
} rank_list;

static rank_list open_list(void) { return (rank_list){.first = 0, .last = -1}; }

/* Appends a number; what does not fit is cut. */
static void say(rank_list *l, const char *before, int64_t number)
{
    int written = kb_snprintf(l->text.s + l->used, sizeof l->text.s - l->used, "%s%lld", before, (long long)number);
    l->used = KB_MIN(l->used + (size_t)KB_MAX(written, 0), sizeof l->text.s - 1);
}

/* Writes the open range. After four of them, or half of the text, ranks are only counted, so that their number fits. */
static void end_range(rank_list *l)
{
    if (l->last < l->first)
        return;
    if (l->ranges >= MAX_RANGES || l->used > sizeof l->text.s / 2) {
        l->more += (uint32_t)(l->last - l->first + 1);
        return;
    }
    say(l, l->ranges++ ? ", " : "", l->first);
    if (l->last > l->first)
        say(l, l->last == l->first + 1 ? ", " : "-", l->last);
}

/* In ascending order; a rank with several traces comes several times. */
static void add_rank(rank_list *l, int64_t rank)
{
    if (l->count && rank == l->last)
        return;
    l->count++;
    if (rank != l->last + 1 || l->last < l->first) {
        end_range(l);
        l->first = rank;
    }
    l->last = rank;
}

/* Writes the last range and how many are not named. */
static void close_list(rank_list *l)
{
    end_range(l);
    if (l->more) {
        say(l, " and ", l->more);
        kb_snprintf(l->text.s + l->used, sizeof l->text.s - l->used, " more");
    }
}

/* Are members absent from collectives that are compared all the same? */
static bool lacks_members(const ka_rank_model *m)
{
    for (size_t i = 0; i < m->instances.count; i++)
        if (ka_is_joined(&m->instances.data[i]) && m->instances.data[i].flags & KA_INSTANCE_PART)
            return true;
    return false;
}

bool ka_say_absent(const ka_rank_view *v, char *text, size_t size)
{
    rank_list l = open_list();
    if (!lacks_members(&v->model))
        return false;
    for (size_t i = 0; i < v->damage.count; i++)
        if (v->damage.data[i].kind == KA_DAMAGE_MISSING)
            add_rank(&l, v->damage.data[i].rank);
    close_list(&l);
    if (l.count)
        kb_snprintf(text, size, "rank%s %s %s missing: %s may have come last, so that waits are lower bounds", l.count > 1 ? "s" : "",
                    l.text.s, l.count > 1 ? "are" : "is", l.count > 1 ? "they" : "it");
    else
        kb_snprintf(text, size, "some ranks lack collectives (rank_damage): they may have come last, so that waits are lower bounds");
    return true;
}

/* Does the trace of the rank have collectives of the group, or of any that is of the same process group? */
static bool has_group(const ka_rank_model *m, uint32_t rank, uint32_t group, bool of_process_group)
{
    const ka_rank_group *g = &m->groups.data[group];
    for (uint32_t i = m->global_base[rank]; i < m->global_base[rank + 1]; i++) {
        const ka_rank_group *own = &m->groups.data[m->global[i]];
        if (m->global[i] == group ||
            (of_process_group && kb_string_equal(own->name, g->name) && kb_string_equal(own->description, g->description)))
            return true;
    }
    return false;
}

bool ka_is_rank_of_link(const ka_rank_model *m, const ka_rank_cause *c, uint32_t rank)
{
    if (c->clock != KA_NONE)
        return m->clock_of[rank] == c->clock || m->clock_of[rank] == c->other;
    return has_group(m, rank, c->group, c->place == KA_PLACE_PROCESS_GROUP);
}

kb_text ka_list_members(const ka_rank_model *m, uint32_t group, bool of_process_group)
{
    rank_list l = open_list();
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (has_group(m, r, group, of_process_group))
            add_rank(&l, m->facts[r]->rank);
    close_list(&l);
    return l.text;
}

kineto_string ka_host_of_rank(const ka_rank_model *m, uint32_t rank)
{
    return kb_intern_get(&m->facts[rank]->texts, m->facts[rank]->host);
}

ka_rank_name ka_name_rank(const ka_rank_model *m, uint32_t rank)
{
    ka_rank_name name;
    kb_text place = {""}, device = {""};
    kineto_string host = ka_host_of_rank(m, rank);
    if (host.size)
        kb_snprintf(place.s, sizeof place.s, "host %.*s", (int)KB_MIN(host.size, (size_t)50), host.data);
    if (m->facts[rank]->device >= 0)
        kb_snprintf(device.s, sizeof device.s, "%sGPU %lld", *place.s ? ", " : "", (long long)m->facts[rank]->device);
    bool is_known = *place.s || *device.s;
    kb_snprintf(name.s, sizeof name.s, "rank %d%s%s%s%s", m->facts[rank]->rank, is_known ? " (" : "", place.s, device.s,
                is_known ? ")" : "");
    return name;
}

/* The host that all ranks of the group have; empty: there are several, or it is not known. */
static kineto_string host_of_group(const ka_rank_model *m, uint32_t group, bool of_process_group)
{
    kineto_string host = {"", 0};
    bool is_first = true;
    for (uint32_t r = 0; r < m->rank_count; r++) {
        if (!has_group(m, r, group, of_process_group))
            continue;
        if (!is_first && !kb_string_equal(host, ka_host_of_rank(m, r)))
            return (kineto_string){"", 0};
        host = ka_host_of_rank(m, r);
        is_first = false;
    }
    return host;
}

#define MAX_NAME 60u
static int cut_size(kineto_string text) { return (int)KB_MIN(text.size, (size_t)MAX_NAME); }

ka_link_text ka_name_group(const ka_rank_model *m, uint32_t group)
{
    ka_link_text text;
    const ka_rank_group *g = &m->groups.data[group];
    if (!g->name.size && !g->description.size)
        kb_snprintf(text.s, sizeof text.s, "a group without a name");
    else if (!g->description.size)
        kb_snprintf(text.s, sizeof text.s, "group %.*s", cut_size(g->name), g->name.data);
    else
        kb_snprintf(text.s, sizeof text.s, "group %.*s%s(%.*s)", cut_size(g->name), g->name.data, g->name.size ? " " : "",
                    cut_size(g->description), g->description.data);
    return text;
}

/* "a host without a name (ranks 0-7)" */
static ka_link_text describe_unnamed_host(const ka_rank_model *m, uint32_t clock)
{
    ka_link_text text;
    rank_list l = open_list();
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (m->clock_of[r] == clock)
            add_rank(&l, m->facts[r]->rank);
    close_list(&l);
    kb_snprintf(text.s, sizeof text.s, "a host without a name (rank%s %s)", l.count > 1 ? "s" : "", l.text.s);
    return text;
}

/* "node005" */
static ka_link_text host_of_clock(const ka_rank_model *m, uint32_t clock)
{
    ka_link_text text;
    kineto_string host = m->clocks.data[clock].host;
    if (!host.size)
        return describe_unnamed_host(m, clock);
    kb_snprintf(text.s, sizeof text.s, "%.*s", cut_size(host), host.data);
    return text;
}

ka_link_text ka_name_clock(const ka_rank_model *m, uint32_t clock)
{
    ka_link_text text, host = host_of_clock(m, clock);
    kb_snprintf(text.s, sizeof text.s, "%s%.150s", m->clocks.data[clock].host.size ? "host " : "", host.s);
    return text;
}

ka_link_text ka_name_link(const ka_rank_model *m, const ka_rank_cause *c)
{
    ka_link_text text;
    if (c->other != KA_NONE)
        kb_snprintf(text.s, sizeof text.s, "the link between %.60s and %.60s", host_of_clock(m, c->clock).s, host_of_clock(m, c->other).s);
    else if (c->clock != KA_NONE)
        kb_snprintf(text.s, sizeof text.s, "the network links of %.120s", host_of_clock(m, c->clock).s);
    else
        kb_snprintf(text.s, sizeof text.s, "%.130s%s", ka_name_group(m, c->group).s,
                    c->place == KA_PLACE_HOST_SET ? " and others of its hosts" : "");
    return text;
}

kb_text ka_list_link_ranks(const ka_rank_model *m, const ka_rank_cause *c)
{
    if (c->clock == KA_NONE)
        return ka_list_members(m, c->group, c->place == KA_PLACE_PROCESS_GROUP);
    return (kb_text){""};
}

ka_link_text ka_name_hosts(const ka_rank_model *m, const ka_rank_cause *c)
{
    ka_link_text text;
    kineto_string host = c->rank != KA_NONE   ? ka_host_of_rank(m, c->rank)
                         : c->clock == KA_NONE ? host_of_group(m, c->group, c->place == KA_PLACE_PROCESS_GROUP)
                                               : m->clocks.data[c->clock].host;
    kineto_string other = c->other == KA_NONE ? (kineto_string){"", 0} : m->clocks.data[c->other].host;
    kb_snprintf(text.s, sizeof text.s, "%.*s%s%.*s", (int)KB_MIN(host.size, (size_t)60), host.data, other.size ? ", " : "",
                (int)KB_MIN(other.size, (size_t)60), other.data);
    return text;
}

/* "mesh_dp_shard", "group 5 (ranks 0, 8)", "a group without a name (ranks 0-15)" */
static ka_link_text name_kind_of(const ka_rank_model *m, uint32_t group)
{
    ka_link_text text;
    const ka_rank_group *g = &m->groups.data[group];
    if (ka_is_described(g))
        kb_snprintf(text.s, sizeof text.s, "%.*s", cut_size(g->description), g->description.data);
    else
        kb_snprintf(text.s, sizeof text.s, "%s%.*s (ranks %s)", g->name.size ? "group " : "a group without a name", cut_size(g->name),
                    g->name.data, ka_list_members(m, group, false).s);
    return text;
}

#define MAX_LONE 3u
/* Names MAX_LONE kinds, those with most transfers. Times are of a step where the number of
 * steps is known, else of the run. */
bool ka_say_lone_links(const ka_rank_view *v, char *text, size_t size)
{
    const ka_rank_causes *c = &v->causes;
    size_t count = KB_MIN(c->lone.count, (size_t)MAX_LONE);
    char names[200] = "", times[80] = "";
    *text = '\0';
    if (!count || c->list.count || !v->is_compared || c->refused[0] || v->model.refused[0])
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t named = strlen(names), timed = strlen(times);
        const char *between = !i ? "" : i + 1 < count ? ", " : " and ";
        kb_snprintf(names + named, sizeof names - named, "%s%.60s", between, name_kind_of(&v->model, c->lone.data[i].group).s);
        kb_snprintf(times + timed, sizeof times - timed, "%s%s", between,
                    kb_duration(c->lone.data[i].transfer_ns / (int64_t)KB_MAX(c->steps, 1u)).s);
    }
    kb_snprintf(text, size, "links of %s cannot be evaluated from this run alone: their transfers take %s%s; compare with a good run: "
                "'ckineto diff GOOD THIS'", names, times, c->steps ? " a step" : "");
    return true;
}

const char *ka_cause_kind_name(ka_cause_kind kind)
{
    static const char *const kinds[] = {"device", "host", "link", "step"};
    return kinds[kind];
}

ka_link_text ka_describe_fault(const ka_rank_cause *c)
{
    static const char *const faults[] = {[KA_CAUSE_DEVICE] = "computes longer than the ranks of its role",
                                         [KA_CAUSE_HOST] = "is late on the host",
                                         [KA_CAUSE_LINK] = "has longer transfers than groups of its kind"};
    ka_link_text text;
    if (c->kind == KA_CAUSE_STEP)
        kb_snprintf(text.s, sizeof text.s, "is slow in step %u", c->step);
    else
        kb_snprintf(text.s, sizeof text.s, "%s", faults[c->kind]);
    return text;
}

ka_link_text ka_describe_cause(const ka_rank_view *v, const ka_rank_cause *c)
{
    ka_link_text text;
    if (c->group != KA_NONE)
        return ka_name_link(&v->model, c);
    kb_snprintf(text.s, sizeof text.s, "rank %d %s", v->model.facts[c->rank]->rank, ka_describe_fault(c).s);
    return text;
}

double ka_cause_confidence(const ka_rank_view *v) { return v->is_by_order ? 0.6 : 0.9; }

const char *ka_explain_unmatched(const ka_rank_view *v)
{
    for (uint32_t r = 0; v && r < v->model.rank_count; r++)
        switch (v->model.facts[r]->unmatched) {
        case KA_UNMATCHED_GROUP:
            return "collectives do not name their process group, and several groups may be theirs";
        case KA_UNMATCHED_PEER:
            return "messages do not name their peer: record with record_shapes=True";
        default:
            break;
        }
    return "the ranks have no collectives of the same steps in common: they are not of one run, or their collectives were "
           "not recorded";
}
