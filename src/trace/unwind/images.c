/* The unwinder's tables of program files, each read once: for an address, the entry of .eh_frame that
 * describes the function. */
#include "trace/unwind/unwind.h"
#include "trace/from_recording/symbols.h"

struct ku_image {
    char *path;
    kt_elf *elf; /* its segments; NULL: it could not be read */
    kt_frames frames;
    kt_frame_index functions;
    uint32_t number;
};

static kb_cfi_bounds bounds_of(const ku_image *image)
{
    const uint8_t *bytes = (const uint8_t *)image->frames.bytes;
    return (kb_cfi_bounds){bytes, bytes + image->frames.size};
}

/* A program in a container has files of its own: those are below /proc/PID/root. */
static kineto_status open_file(const char *path, uint32_t pid, kt_elf **elf, kt_frames *frames)
{
    char below_root[4096 + 64];
    kineto_error err;
    if (kt_elf_open_frames(path, elf, frames, &err) == KINETO_OK)
        return KINETO_OK;
    snprintf(below_root, sizeof below_root, "/proc/%u/root%s", pid, path);
    return kt_elf_open_frames(below_root, elf, frames, &err);
}

static void open_image(ku_image *image, uint32_t pid)
{
    kineto_error err;
    kineto_status status = strcmp(image->path, "[vdso]") == 0
                               ? kt_elf_open_vdso(&image->elf, &image->frames, &err)
                               : open_file(image->path, pid, &image->elf, &image->frames);
    if (status == KINETO_OK && image->frames.bytes)
        kt_frames_index(&image->frames, &image->functions);
}

ku_image *ku_image_get(ku_images *all, const char *path, uint32_t pid)
{
    if (path[0] != '/' && strcmp(path, "[vdso]") != 0)
        return NULL;
    uint64_t *place = kb_map_insert(&all->of_path, kb_hash(path, strlen(path)), 0, NULL);
    if (!place || *place)
        return place && strcmp(all->list.data[*place - 1]->path, path) == 0
                   ? all->list.data[*place - 1]
                   : NULL;
    ku_image *image = calloc(1, sizeof *image);
    char *own_path = image ? strdup(path) : NULL;
    if (!own_path || !kb_vec_push(&all->list, image)) {
        free(own_path);
        free(image);
        return NULL;
    }
    *place = all->list.count;
    image->path = own_path;
    image->number = (uint32_t)all->list.count;
    open_image(image, pid);
    return image;
}

uint32_t ku_image_number(const ku_image *image) { return image->number; }

bool ku_image_address(const ku_image *image, uint64_t file_offset, uint64_t *address)
{
    return image->elf && kt_elf_address(image->elf, file_offset, address);
}

bool ku_image_row(const ku_image *image, uint64_t address, kb_cfi_row *row, const uint8_t **entry,
                  kb_cfi_bounds *bounds)
{
    const kt_frame_function *f = kt_frames_find(&image->functions, address);
    if (!f)
        return false;
    *bounds = bounds_of(image);
    *entry = bounds->begin + f->entry;
    return kb_cfi_row_at(*entry, *bounds, f->start, address, row);
}

kineto_string ku_image_build_id(const ku_image *image)
{
    return image->elf ? kt_elf_build_id(image->elf) : (kineto_string){"", 0};
}

void ku_images_free(ku_images *all)
{
    for (size_t i = 0; i < all->list.count; i++) {
        ku_image *image = all->list.data[i];
        kt_elf_close(image->elf);
        free(image->frames.bytes);
        kb_vec_free(&image->functions);
        free(image->path);
        free(image);
    }
    kb_vec_free(&all->list);
    kb_map_free(&all->of_path);
}
