/* Which ranks of a job an answer is of, and which files are damaged, as the member "coverage" of JSON documents;
 * docs/reference/json.md describes it. */
#include "analyze/overview/coverage.h"
#include "export/export.h"

/* Whole ranges are written number by number: programs need no parser for them. */
static void put_missing(kb_json *j, const ka_coverage *c)
{
    kb_json_key_z(j, "missing");
    kb_json_array_begin(j);
    for (int64_t rank = ka_coverage_missing(c) ? ka_coverage_next_missing(c, 0) : -1; rank >= 0;
         rank = ka_coverage_next_missing(c, rank + 1))
        kb_json_int(j, rank);
    kb_json_array_end(j);
}

static void put_bad_files(kb_json *j, const ka_coverage *c)
{
    kb_json_key_z(j, "files");
    kb_json_array_begin(j);
    for (size_t i = 0; i < c->bad_files.count; i++) {
        const ka_bad_file *f = &c->bad_files.data[i];
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", kb_string(f->name));
        kb_json_put_string(j, "problem", kb_string(f->problem));
        kb_json_put_string(j, "reason", kb_string(f->reason));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

void ke_put_coverage(kb_json *j, const ka_coverage *c)
{
    char text[400];
    if (!c || (c->traces.count < 2 && !c->bad_files.count && c->rank_count < 2))
        return;
    ka_coverage_describe(c, text, sizeof text);
    kb_json_key_z(j, "coverage");
    kb_json_object_begin(j);
    kb_json_put_string(j, "sentence", kb_string(text));
    kb_json_put_uint(j, "ranks", c->ranks.count);
    if (c->world_size)
        kb_json_put_uint(j, "world_size", c->world_size);
    put_missing(j, c);
    put_bad_files(j, c);
    kb_json_object_end(j);
}
