/* Shader modules, compute pipelines, and names that the program gives them. A pipeline is called by its
 * own name, else by that of its shader module, else by the shader's entry point; "main" says nothing, so
 * that the hash of the shader's code follows it.
 *
 * A module may be destroyed when its pipelines have been created, so that a pipeline keeps what it needs. */
#include "vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME_BYTES 1024u

/* ---- shader modules -------------------------------------------------------------------------- */

VKAPI_ATTR VkResult VKAPI_CALL vl_CreateShaderModule(VkDevice handle,
                                                     const VkShaderModuleCreateInfo *info,
                                                     const VkAllocationCallbacks *allocator,
                                                     VkShaderModule *module)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "vkCreateShaderModule");
    kineto_range range = kineto_range_begin(&site);
    vl_device *device = vl_device_of(handle);
    VkResult result = device->CreateShaderModule(handle, info, allocator, module);
    vl_shader *shader = result == VK_SUCCESS ? calloc(1, sizeof *shader) : NULL;
    bool ok;

    kineto_range_end(range);
    if (!shader)
        return result;
    vl_shader_parse(shader, info->pCode, info->codeSize);
    free(vl_map_put(&device->shaders, VL_KEY(*module), shader, &ok));
    if (!ok)
        free(shader);
    return result;
}

VKAPI_ATTR void VKAPI_CALL vl_DestroyShaderModule(VkDevice handle, VkShaderModule module,
                                                  const VkAllocationCallbacks *allocator)
{
    vl_device *device = vl_device_of(handle);

    free(vl_map_remove(&device->shaders, VL_KEY(module)));
    device->DestroyShaderModule(handle, module, allocator);
}

/* ---- pipelines ------------------------------------------------------------------------------- */

/* A module may have several entry points; the pipeline uses one. */
static const vl_entry *find_entry(const vl_shader *shader, const char *name)
{
    for (uint32_t i = 0; i < shader->entry_count; i++)
        if (strcmp(shader->entries[i].name, name) == 0)
            return &shader->entries[i];
    return NULL;
}

/* The value that the pipeline has for a word of the size. */
static uint32_t specialize_word(const vl_size_word *word, const VkSpecializationInfo *spec)
{
    uint32_t value = word->value;

    for (uint32_t i = 0; word->is_spec && spec && i < spec->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &spec->pMapEntries[i];
        if (entry->constantID == word->spec_id && entry->size == sizeof value &&
            entry->offset + sizeof value <= spec->dataSize)
            memcpy(&value, (const char *)spec->pData + entry->offset, sizeof value);
    }
    return value;
}

/* The name of a pipeline to which the program has given none. */
static const char *make_pipeline_name(const vl_shader *shader, const char *entry)
{
    char text[MAX_NAME_BYTES];

    if (shader->label)
        return shader->label;
    if (strcmp(entry, "main") == 0)
        snprintf(text, sizeof text, "main (shader %08x)", shader->hash);
    else
        snprintf(text, sizeof text, "%s", entry);
    return vl_intern_text(text, strlen(text));
}

/* The code of a stage without a shader module, which may be given right with the pipeline. */
static const VkShaderModuleCreateInfo *find_inline_code(const VkPipelineShaderStageCreateInfo *stage)
{
    const VkBaseInStructure *next = stage->pNext;

    while (next && next->sType != VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO)
        next = next->pNext;
    return (const VkShaderModuleCreateInfo *)next;
}

/* The size of a work group is that of the entry point, with the pipeline's constants. */
static void describe_pipeline(vl_pipeline *pipeline, const vl_shader *shader,
                              const VkPipelineShaderStageCreateInfo *stage)
{
    const vl_entry *entry = find_entry(shader, stage->pName);

    pipeline->name = make_pipeline_name(shader, stage->pName);
    pipeline->has_block = entry && entry->has_size;
    for (uint32_t k = 0; k < 3 && pipeline->has_block; k++)
        pipeline->block[k] = specialize_word(&entry->size[k], stage->pSpecializationInfo);
}

/* A handle that the driver uses again replaces the old pipeline's entry. */
static void add_pipeline(vl_device *device, VkPipeline handle,
                         const VkPipelineShaderStageCreateInfo *stage)
{
    vl_pipeline *pipeline = calloc(1, sizeof *pipeline);
    const VkShaderModuleCreateInfo *code = stage->module ? NULL : find_inline_code(stage);
    vl_shader own = {.entry_count = 0};
    bool ok;

    if (!pipeline)
        return;
    pipeline->name = "compute shader";
    if (code)
        vl_shader_parse(&own, code->pCode, code->codeSize);
    const vl_shader *shader =
        stage->module ? vl_map_get(&device->shaders, VL_KEY(stage->module)) : code ? &own : NULL;
    if (shader)
        describe_pipeline(pipeline, shader, stage);
    free(vl_map_put(&device->pipelines, VL_KEY(handle), pipeline, &ok));
    if (!ok)
        free(pipeline);
}

VKAPI_ATTR VkResult VKAPI_CALL vl_CreateComputePipelines(VkDevice handle, VkPipelineCache cache,
                                                         uint32_t count,
                                                         const VkComputePipelineCreateInfo *infos,
                                                         const VkAllocationCallbacks *allocator,
                                                         VkPipeline *pipelines)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "vkCreateComputePipelines");
    kineto_range range = kineto_range_begin(&site);
    vl_device *device = vl_device_of(handle);
    VkResult result =
        device->CreateComputePipelines(handle, cache, count, infos, allocator, pipelines);

    kineto_range_end(range);
    for (uint32_t i = 0; i < count; i++)
        if (result >= VK_SUCCESS && pipelines[i])
            add_pipeline(device, pipelines[i], &infos[i].stage);
    return result;
}

VKAPI_ATTR void VKAPI_CALL vl_DestroyPipeline(VkDevice handle, VkPipeline pipeline,
                                              const VkAllocationCallbacks *allocator)
{
    vl_device *device = vl_device_of(handle);

    free(vl_map_remove(&device->pipelines, VL_KEY(pipeline)));
    device->DestroyPipeline(handle, pipeline, allocator);
}

/* Valid until the pipeline is destroyed, which is not while it is bound. */
const vl_pipeline *vl_pipeline_of(vl_device *device, VkPipeline handle)
{
    return vl_map_get(&device->pipelines, VL_KEY(handle));
}

/* ---- names of the program -------------------------------------------------------------------- */

VKAPI_ATTR VkResult VKAPI_CALL
vl_SetDebugUtilsObjectNameEXT(VkDevice handle, const VkDebugUtilsObjectNameInfoEXT *info)
{
    vl_device *device = vl_device_of(handle);
    const char *text = info->pObjectName;

    if (text && *text && info->objectType == VK_OBJECT_TYPE_PIPELINE) {
        vl_pipeline *pipeline = vl_map_get(&device->pipelines, info->objectHandle);
        if (pipeline)
            pipeline->name = vl_intern_text(text, strnlen(text, MAX_NAME_BYTES));
    } else if (text && *text && info->objectType == VK_OBJECT_TYPE_SHADER_MODULE) {
        vl_shader *shader = vl_map_get(&device->shaders, info->objectHandle);
        if (shader)
            shader->label = vl_intern_text(text, strnlen(text, MAX_NAME_BYTES));
    }
    return device->SetDebugUtilsObjectNameEXT(handle, info);
}
