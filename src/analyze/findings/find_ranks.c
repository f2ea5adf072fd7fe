/* Rules that compare ranks, by what makes the run longer (analyze/ranks): communication.imbalance has those of ranks,
 * communication.slow_link those of groups. */
#include "analyze/findings/finding.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_set.h"

#define MAX_CAUSES 5u

/* Of a run to that of all steps that the finder sums over. */
static int64_t of_all_steps(const ka_finder *f, const ka_rank_view *v, int64_t ns)
{
    uint32_t steps = KB_MAX(v->causes.steps, 1u);
    return ns / (int64_t)steps * (int64_t)KB_MAX(f->step_count, 1u);
}

/* "rank 21 (host node005, GPU 5)", "group 3 (mesh_dp_shard), ranks 16-23 on node002", "the link between node001 and node002" */
static void name_with_host(const ka_rank_view *v, const ka_rank_cause *c, char *text, size_t size)
{
    if (c->group == KA_NONE) {
        kb_snprintf(text, size, "%s", ka_name_rank(&v->model, c->rank).s);
        return;
    }
    bool of_group = c->clock == KA_NONE;
    ka_link_text host = of_group ? ka_name_hosts(&v->model, c) : (ka_link_text){""};
    kb_snprintf(text, size, "%s%s%s%s%s", ka_describe_cause(v, c).s, of_group ? ", ranks " : "",
                of_group ? ka_list_link_ranks(&v->model, c).s : "", host.s[0] ? " on " : "", host.s);
}

static void say_cause(ka_finder *f, ka_found *x, const ka_rank_view *v, const ka_rank_cause *c)
{
    char place[400];
    name_with_host(v, c, place, sizeof place);
    kb_text saved = kb_duration(c->saved_ns), excess = kb_duration(c->excess_ns);
    switch (c->kind) {
    case KA_CAUSE_DEVICE:
        ka_say(f, x, "%s computes %s longer than ranks of its role, and others wait for it; the run would be %s shorter if it "
               "were as fast as they are", place, excess.s, saved.s);
        break;
    case KA_CAUSE_HOST:
        ka_say(f, x, "%s is %s late on the host, compared with ranks of its role, and others wait for it; the run would be %s "
               "shorter without", place, excess.s, saved.s);
        break;
    case KA_CAUSE_LINK:
        ka_say(f, x, "transfers of %s%s take %s longer than those of %s; the run would be %s shorter without", place,
               c->clock == KA_NONE ? "," : "", excess.s, c->clock == KA_NONE ? "groups of its kind" : "other links", saved.s);
        break;
    default:
        ka_say(f, x, "%s is %s slower in step %u than ranks of its role, and others wait for it; the run would be %s shorter "
               "without", place, excess.s, c->step, saved.s);
    }
}

static void advise_cause(ka_finder *f, ka_found *x, const ka_rank_cause *c)
{
    switch (c->kind) {
    case KA_CAUSE_DEVICE:
        ka_advise(f, x, "Compare it with a rank of its role (ckineto diff): longer kernels are a slower device (clocks, "
                        "temperature, another program on it), more kernels are more work: a larger shard or longer sequences");
        break;
    case KA_CAUSE_HOST:
        ka_advise(f, x, "See what its host does between the steps: its data loader, more work than others have, another program on "
                        "its processors, their clocks, placement of the process (numactl)");
        break;
    case KA_CAUSE_LINK:
        ka_advise(f, x, "Check the links between its ranks (nvidia-smi nvlink, ibstat, errors of the switch), and the order in "
                        "which ranks are placed on hosts");
        break;
    default:
        ka_advise(f, x, "Look at that step of the rank: garbage collection, a checkpoint, evaluation, throttling");
    }
}

/* "rank 21 (host node005, GPU 5) is late on the host" */
static void label_cause(ka_finder *f, ka_found *x, const ka_rank_view *v, const ka_rank_cause *c)
{
    char text[600];
    name_with_host(v, c, text, sizeof text - 170);
    if (c->rank != KA_NONE)
        kb_snprintf(text + strlen(text), sizeof text - strlen(text), " %s", ka_describe_fault(c).s);
    x->label = (kineto_string){kb_arena_copy(&f->out->arena, text, strlen(text)), strlen(text)};
    f->no_memory |= !x->label.data;
}

static void report_cause(ka_finder *f, const ka_rank_view *v, size_t index, double confidence)
{
    const ka_rank_cause *c = &v->causes.list.data[index];
    ka_found *x = ka_open_finding(f, of_all_steps(f, v, c->saved_ns), confidence, kb_string(ka_describe_cause(v, c).s));
    if (!x)
        return;
    x->rank_count = 1;
    x->count = 1;
    x->cause = index + 1;
    f->out->run_ns = v->causes.length_ns;
    f->out->run_steps = KB_MAX(v->causes.steps, 1u);
    x->whole_ns = of_all_steps(f, v, v->causes.length_ns); /* as saved_pct of rank_causes */
    label_cause(f, x, v, c);
    say_cause(f, x, v, c);
    advise_cause(f, x, c);
    if (c->rank == KA_NONE) {
        ka_show_span(f, x, 0, 0, c->excess_ns, "%s beyond what is usual of its kind", kb_duration(c->excess_ns).s);
        return;
    }
    x->rank = v->model.facts[c->rank]->rank;
    ka_show_span(f, x, 0, 0, c->excess_ns, "%s beyond the median of its role", kb_duration(c->excess_ns).s);
}

/* Of the causes that save most, those of ranks or those of links. */
static void report_causes(ka_finder *f, bool of_links)
{
    const ka_rank_view *v = f->facts->ranks ? ka_rank_set_view(f->facts->ranks) : NULL;
    if (!v || !v->is_compared) {
        ka_skip_rule(f, "%s", ka_explain_unmatched(v));
        return;
    }
    const char *refused = v->model.refused[0] ? v->model.refused : v->causes.refused;
    if (refused[0])
        ka_skip_rule(f, "%s", refused);
    double confidence = ka_cause_confidence(v);
    for (size_t i = 0; !refused[0] && i < v->causes.list.count && i < MAX_CAUSES; i++)
        if ((v->causes.list.data[i].kind == KA_CAUSE_LINK) == of_links)
            report_cause(f, v, i, confidence);
}

void ka_find_communication_imbalance(ka_finder *f) { report_causes(f, false); }
void ka_find_slow_link(ka_finder *f) { report_causes(f, true); }
