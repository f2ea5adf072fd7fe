/* Reads "pg_config" of the header ("distributedInfo"), as PyTorch writes it: a list of objects with "pg_name",
 * "pg_desc", "pg_size" and "ranks". Texts are those of the trace, without copies. */
#include "analyze/ranks/only_group.h"
#include "trace/bytes/json_value.h"
#include "trace/transform/merged_part.h"
#include "trace/trace.h"

static kineto_string read_quoted(kineto_string group, const char *key)
{
    kineto_string text = kt_member_of(group, key);
    return text.size > 1 && text.data[0] == '"' ? (kineto_string){text.data + 1, text.size - 2} : text;
}

static ka_only_group read_group(kineto_string group)
{
    int64_t size = 0;
    (void)kt_value_whole(kt_member_of(group, "pg_size"), &size);
    return (ka_only_group){read_quoted(group, "pg_name"), read_quoted(group, "pg_desc"), kt_member_of(group, "ranks"),
                           size > 0 && size < UINT32_MAX ? (uint32_t)size : 0};
}

/* PyTorch names the group of all ranks, which each job has, "0". */
static bool is_world(const ka_only_group *g) { return kb_string_equal(g->name, kb_string("0")); }

/* Of the groups with more than one rank: the only one with members of its own, or the one that is not the world. Two
 * others leave it open, and nothing is returned. */
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

uint32_t ka_list_header_groups(const kineto_trace *t, ka_only_group *out, uint32_t room)
{
    kt_items list = kt_items_of(kt_member_of(kt_header_member(t, "distributedInfo"), "pg_config"));
    kineto_string item;
    uint32_t count = 0;
    while (count < room && kt_items_next(&list, &item)) {
        out[count] = read_group(item);
        count += out[count].size > 1;
    }
    return count;
}
