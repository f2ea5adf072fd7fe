/* Names that options take. All lists come from the libraries that know the names, so that a new table or
 * rule is completed and suggested without a change here. */
#include "cli/names.h"
#include "analyze/summary/summary.h"
#include "export/export.h"
#include "export/sql.h"

#include <ckineto/analyze.h>
#include <ckineto/export.h>
#include <ckineto/findings.h>

#include <dirent.h>
#include <limits.h>

/* ---- lists ----------------------------------------------------------------------------------- */

void kc_list_tables(kc_name_receiver *add, void *user)
{
    for (uint32_t i = 0; i < kineto_fact_table_count(); i++)
        add(kineto_fact_table_name(i), user);
}

void kc_list_rules(kc_name_receiver *add, void *user)
{
    kineto_finding_rule rule;
    for (uint32_t i = 0; kineto_finding_rule_get(i, &rule); i++)
        add(rule.id, user);
}

void kc_list_checks(kc_name_receiver *add, void *user)
{
    kineto_verify_rule rule;
    for (uint32_t i = 0; kineto_verify_rule_get(i, &rule); i++)
        add(rule.id, user);
}

void kc_list_formats(kc_name_receiver *add, void *user)
{
    kineto_export_format f = {.size = sizeof f};
    for (uint32_t i = 0; kineto_export_format_get(i, &f); i++)
        add(f.name, user);
}

/* Kineto's own names, not their aliases. */
void kc_list_kinds(kc_name_receiver *add, void *user)
{
    for (uint32_t i = 0; i < KINETO_KIND_COUNT; i++)
        add(kineto_kind_name(i), user);
}

void kc_list_metrics(kc_name_receiver *add, void *user)
{
    const char *name;
    for (uint32_t i = 0; (name = ka_metric_name(i)); i++)
        add(name, user);
    add("none", user);
}

void kc_list_sql_tables(kc_name_receiver *add, void *user)
{
    size_t count;
    const ke_sql_table *const *tables = ke_sql_schema(&count);
    for (size_t i = 0; i < count; i++)
        add(tables[i]->name, user);
}

void kc_list_sql_columns(kc_name_receiver *add, void *user)
{
    size_t count;
    const ke_sql_table *const *tables = ke_sql_schema(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < tables[i]->count; k++)
            add(tables[i]->columns[k].name, user);
}

/* ---- suggestions ----------------------------------------------------------------------------- */

#define MAX_WORD_BYTES 32u

/* The name that is most similar so far. */
typedef struct guess {
    const char *word, *best;
    size_t distance;
} guess;

/* Also the last part of a name with dots: "dataloader" is meant for "input.data_loader". The beginning of
 * a name counts as two mistakes. */
static void try_name(const char *name, void *user)
{
    guess *g = user;
    const char *dot = strrchr(name, '.');
    size_t size = strlen(g->word);
    size_t distance = kc_edit_distance(g->word, name);
    if (dot)
        distance = kb_min_u64(distance, kc_edit_distance(g->word, dot + 1));
    if (size > 2 && strncmp(name, g->word, size) == 0)
        distance = KB_MIN(distance, (size_t)2);
    if (distance < g->distance) {
        g->distance = distance;
        g->best = name;
    }
}

kb_text kc_did_you_mean(kc_name_list *list, const char *word)
{
    kb_text text = {""};
    size_t size = strlen(word);
    guess g = {word, NULL, KB_MIN(size / 3 + 1, (size_t)3) + 1};
    if (!size || size > MAX_WORD_BYTES)
        return text;
    list(try_name, &g);
    if (g.best)
        kb_snprintf(text.s, sizeof text.s, "; did you mean '%s'?", g.best);
    return text;
}

void kc_did_you_mean_file(const char *path, char *text, size_t text_size)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char directory[PATH_MAX] = "./", best[NAME_MAX + 1];
    size_t size = strlen(name);
    guess g = {name, NULL, KB_MIN(size / 3 + 1, (size_t)3) + 1};
    *text = '\0';
    if (slash)
        kb_snprintf(directory, sizeof directory, "%.*s", (int)(name - path), path);
    DIR *d = size && size <= MAX_WORD_BYTES ? opendir(directory) : NULL;
    for (struct dirent *entry; d && (entry = readdir(d));) {
        try_name(entry->d_name, &g);
        if (g.best == entry->d_name) /* valid until the next entry is read */
            g.best = memcpy(best, entry->d_name, strlen(entry->d_name) + 1);
    }
    if (d)
        (void)closedir(d);
    if (g.best)
        kb_snprintf(text, text_size, "; did you mean '%.*s%s'?", (int)(name - path), path, g.best);
}

/* ---- arguments of options -------------------------------------------------------------------- */

kc_name_list *kc_names_of_argument(const char *argument, bool *several)
{
    static const struct {
        const char *argument;
        kc_name_list *list;
    } known[] = {{"TABLE", kc_list_tables}, {"RULE", kc_list_rules},   {"CHECK", kc_list_checks},
                 {"FORMAT", kc_list_formats}, {"KIND", kc_list_kinds}, {"METRIC", kc_list_metrics}};
    *several = strstr(argument, "[,...]") != NULL;
    for (size_t i = 0; i < KB_COUNT(known); i++) {
        size_t size = strlen(known[i].argument);
        if (strncmp(argument, known[i].argument, size) == 0 && !kb_is_lower(argument[size]) &&
            strchr("[", argument[size]))
            return known[i].list;
    }
    return NULL;
}
