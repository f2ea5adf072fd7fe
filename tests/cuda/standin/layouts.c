/* Layouts of records, and names of callbacks: tables that the build writes from real headers, or
 * frozen.def. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct spec {
    const char *name;
    uint32_t size;
    const char *fields;
} spec;

#define VERSION(number)
#define CALLBACK(domain, id, name)
#define LAYOUT(name, size, fields) {name, size, fields},
static const spec specs[] = {
#include SI_LAYOUTS
};
#undef LAYOUT
#undef VERSION
#define LAYOUT(name, size, fields)
#define VERSION(number) number
static const uint32_t headers_version =
#undef CALLBACK
#define CALLBACK(domain, id, name)
#include SI_LAYOUTS
    ;
#undef VERSION
#define VERSION(number)
#undef CALLBACK

typedef struct callback {
    uint32_t domain, id;
    const char *name;
} callback;
#define CALLBACK(domain, id, name) {domain, id, name},
static const callback callbacks[] = {
#include SI_LAYOUTS
};

static si_layout layouts[SI_COUNT(specs)];
static callback added[4096];
static size_t added_count;

static void parse_fields(si_layout *layout, const char *text)
{
    char size[8];
    int used;
    while (layout->field_count < SI_COUNT(layout->fields)) {
        si_field *f = &layout->fields[layout->field_count];
        if (sscanf(text, "%47s %hu %7s %n", f->name, &f->offset, size, &used) != 3)
            return;
        f->is_text = size[0] == 't';
        f->size = (uint16_t)atoi(size + f->is_text);
        layout->field_count++;
        text += used;
    }
}

void si_layouts_init(void)
{
    for (size_t i = 0; i < SI_COUNT(specs); i++) {
        snprintf(layouts[i].name, sizeof layouts[i].name, "%s", specs[i].name);
        layouts[i].size = specs[i].size;
        parse_fields(&layouts[i], specs[i].fields);
    }
}

uint32_t si_layouts_version(void) { return headers_version; }

const si_layout *si_layout_of(const char *name)
{
    for (size_t i = 0; i < SI_COUNT(layouts); i++)
        if (strcmp(layouts[i].name, name) == 0)
            return &layouts[i];
    return NULL;
}

/* Since which version of CUPTI a kind is laid out how; the last that is not above counts. */
static const struct since {
    uint32_t kind, version;
    const char *layout;
} sinces[] = {
    {1, 0, "Memcpy3"},
    {1, 14, "Memcpy4"},
    {1, 17, "Memcpy5"},
    {1, 26, "Memcpy6"},
    {1, 130400, "Memcpy7"},
    {2, 0, "Memset2"},
    {2, 14, "Memset3"},
    {2, 17, "Memset4"},
    {2, 130400, "Memset5"},
    {3, 0, "Kernel5"},
    {3, 15, "Kernel6"},
    {3, 17, "Kernel7"},
    {3, 18, "Kernel8"},
    {3, 19, "Kernel9"},
    {3, 130000, "Kernel10"},
    {3, 130100, "Kernel11"},
    {3, 130300, "Kernel12"},
    {3, 130400, "Kernel13"},
    {4, 0, "API"},
    {5, 0, "API"},
    {17, 0, "Overhead"},
    {17, 21, "Overhead2"},
    {17, 22, "Overhead3"},
    {22, 0, "MemcpyPtoP2"},
    {22, 14, "MemcpyPtoP3"},
    {22, 17, "MemcpyPtoP4"},
    {36, 0, "CudaEvent"},
    {36, 26, "CudaEvent2"},
    {36, 130500, "CudaEvent3"},
    {37, 0, "Stream"},
    {38, 0, "Synchronization"},
    {38, 26, "Synchronization2"},
    {39, 0, "ExternalCorrelation"},
    {48, 0, "API"},
    {49, 0, "Memory2"},
    {49, 17, "Memory3"},
    {49, 24, "Memory4"},
    {50, 0, "MemoryPool"},
    {50, 17, "MemoryPool2"},
    {50, 130000, "MemoryPool3"},
    {51, 0, "GraphTrace"},
    {51, 21, "GraphTrace2"},
};

const si_layout *si_layout_for(uint32_t kind, uint32_t version)
{
    const char *name = NULL;
    uint32_t same = kind == 10 ? 3 : kind; /* concurrent kernels are laid out as kernels */
    for (size_t i = 0; i < SI_COUNT(sinces); i++)
        if (sinces[i].kind == same && sinces[i].version <= version &&
            si_layout_of(sinces[i].layout))
            name = sinces[i].layout;
    return name ? si_layout_of(name) : NULL;
}

const si_field *si_field_of(const si_layout *layout, const char *name)
{
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (strcmp(layout->fields[i].name, name) == 0)
            return &layout->fields[i];
    return NULL;
}

void si_set(uint8_t *record, const si_layout *layout, const char *field, uint64_t value)
{
    const si_field *f = si_field_of(layout, field);
    if (f)
        memcpy(record + f->offset, &value, f->size < 8 ? f->size : 8);
}

uint64_t si_get(const void *record, const si_layout *layout, const char *field)
{
    uint64_t value = 0;
    const si_field *f = si_field_of(layout, field);
    if (f)
        memcpy(&value, (const uint8_t *)record + f->offset, f->size < 8 ? f->size : 8);
    return value;
}

/* ---- callbacks ------------------------------------------------------------------------------ */

void si_callback_add(uint32_t domain, uint32_t id, const char *name)
{
    if (added_count < SI_COUNT(added))
        added[added_count++] = (callback){domain, id, name};
}

static const char *name_in(const callback *list, size_t count, uint32_t domain, uint32_t id)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].domain == domain && list[i].id == id)
            return list[i].name;
    return NULL;
}

const char *si_callback_name(uint32_t domain, uint32_t id)
{
    const char *name = name_in(added, added_count, domain, id);
    return name ? name : name_in(callbacks, SI_COUNT(callbacks), domain, id);
}

/* Without "_v7000": "cudaLaunchKernel" is meant by "cudaLaunchKernel_v7000", not by the _ptsz one.
 */
static bool is_called(const char *full, const char *name)
{
    size_t size = strlen(name);
    if (strncmp(full, name, size) != 0)
        return false;
    const char *rest = full + size;
    return *rest == 0 ||
           (rest[0] == '_' && rest[1] == 'v' && strspn(rest + 2, "0123456789") == strlen(rest + 2));
}

uint32_t si_callback_id(uint32_t domain, const char *name)
{
    for (size_t i = 0; i < SI_COUNT(callbacks); i++)
        if (callbacks[i].domain == domain && is_called(callbacks[i].name, name))
            return callbacks[i].id;
    return 0;
}
