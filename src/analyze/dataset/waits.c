/* Calls that cannot wait, by what they launched. */
#include "analyze/dataset/dataset.h"

/* Of a copy's name: does it say that neither side is pageable memory? */
static bool is_without_pageable(kineto_string name)
{
    static const char *const words[] = {"DtoD", "DeviceToDevice", "D2D", "PtoP", "Pinned"};
    if (kb_string_holds(name, "Pageable"))
        return false;
    for (size_t i = 0; i < KB_COUNT(words); i++)
        if (kb_string_holds(name, words[i]))
            return true;
    return false;
}

bool ka_never_waits(const ka_dataset *s, uint32_t slice)
{
    const ka_slice *call = &s->slices[slice];
    if (!call->work_count || !kb_string_holds(ka_name(s, call->name), "Async"))
        return false;
    for (uint32_t i = 0; i < call->work_count; i++) {
        const ka_work *w = &s->work[s->launched[call->first_work + i]];
        if (w->kind != KINETO_KIND_GPU_MEMSET &&
            (w->kind != KINETO_KIND_GPU_MEMCPY || !is_without_pageable(ka_name(s, w->name))))
            return false;
    }
    return true;
}
