/* What analyses look at with HTA's definitions, as CSV: a line for each range, in the order of the
 * file. show_scope TRACE */
#include "analyze/dataset/dataset.h"

#include <stdio.h>

typedef struct line {
    int64_t start_ns, end_ns;
    kineto_row row, partner;
    int64_t stream;
    int32_t step;
    uint32_t name;
} line;

static int compare(const void *left, const void *right)
{
    const line *a = left, *b = right;
    return a->row < b->row ? -1 : a->row > b->row;
}

static void print_line(const ka_dataset *s, const line *l)
{
    kineto_string name = ka_name(s, l->name);
    printf("%lld,%lld,%lld,%lld,%lld,%lld,", (long long)l->row,
           (long long)((l->start_ns - s->series_origin_ns) / 1000),
           (long long)((l->end_ns - l->start_ns) / 1000), (long long)l->stream,
           l->step < 0 ? -1LL : (long long)s->steps[l->step].number,
           l->partner == KINETO_NO_ROW ? -1LL : (long long)l->partner);
    for (size_t i = 0; i < name.size; i++)
        printf("%02x", (unsigned char)name.data[i]);
    printf("\n");
}

static void print(const ka_dataset *s)
{
    size_t count = (size_t)s->work_count + s->slice_count, at = 0;
    line *lines = calloc(count + 1, sizeof *lines);
    for (uint32_t i = 0; lines && i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        lines[at++] = (line){w->start_ns,
                             w->end_ns,
                             w->row,
                             w->call == KA_NONE ? KINETO_NO_ROW : s->slices[w->call].row,
                             s->streams[w->stream].id,
                             w->step,
                             w->name};
    }
    for (uint32_t i = 0; lines && i < s->slice_count; i++) {
        const ka_slice *c = &s->slices[i];
        lines[at++] = (line){c->start_ns, c->end_ns, c->row, KINETO_NO_ROW, -1, c->step, c->name};
    }
    if (at)
        qsort(lines, at, sizeof *lines, compare);
    puts("row,ts,dur,stream,iteration,call,name");
    for (size_t i = 0; i < at; i++)
        print_line(s, &lines[i]);
    free(lines);
}

static kineto_status show(const char *path, kineto_error *err)
{
    kineto_analysis_options options = {.size = sizeof options,
                                      .definitions = KINETO_DEFINITIONS_HTA,
                                      .steps = KINETO_STEPS_DROP_LAST};
    kineto_trace *trace = NULL;
    ka_rules *rules = NULL;
    ka_dataset dataset = {0};
    kineto_status status = kineto_trace_open(path, &trace, err);
    if (!status)
        status = ka_rules_create(NULL, &rules, err);
    if (!status)
        status = ka_dataset_create(trace, &options, rules, &dataset, err);
    if (!status)
        print(&dataset);
    ka_dataset_free(&dataset);
    ka_rules_free(rules);
    kineto_trace_release(trace);
    return status;
}

int main(int argc, char **argv)
{
    kineto_error err = {0};
    if (argc == 2 && show(argv[1], &err) == KINETO_OK)
        return 0;
    fprintf(stderr, "show_scope TRACE: %s\n", err.message);
    return 1;
}
