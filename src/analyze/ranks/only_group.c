/* Reads "pg_config" of the header, as PyTorch writes it. */
#include "analyze/ranks/only_group.h"
#include "trace/bytes/json_value.h"
#include "trace/transform/merged_part.h"
#include "trace/trace.h"

static ka_only_group read_group(kineto_string group)
{
    kineto_string name = kt_member_of(group, "pg_name");
    if (name.size > 1 && name.data[0] == '"')
        name = (kineto_string){name.data + 1, name.size - 2};
    int64_t size = 0;
    (void)kt_value_whole(kt_member_of(group, "pg_size"), &size);
    return (ka_only_group){name, kt_member_of(group, "ranks"), size > 0 && size < UINT32_MAX ? (uint32_t)size : 0};
}

static bool is_world(const ka_only_group *g) { return kb_string_equal(g->name, kb_string("0")); }

ka_only_group ka_find_only_group(const kineto_trace *t)
{
    kt_items list = kt_items_of(kt_member_of(kt_header_member(t, "distributedInfo"), "pg_config"));
    kineto_string item;
    ka_only_group found = {0};
    while (kt_items_next(&list, &item)) {
        ka_only_group g = read_group(item);
        if (g.size < 2 || (found.size && kb_string_equal(g.members, found.members)))
            continue;
        if (found.size && !is_world(&found) && !is_world(&g))
            return (ka_only_group){0};
        if (!found.size || is_world(&found))
            found = g;
    }
    return found;
}
