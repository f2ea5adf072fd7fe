/* Repair of any text: no crash, nothing read out of bounds, it ends, and what comes out is strict.
 */
#include "recording.h"
#include "trace/repair/repair.h"

static void check(bool right)
{
    if (!right)
        abort();
}

/* The whole text, from after a bracket on. */
static void repair_elements(kineto_string text)
{
    kt_repairs repairs = {.base = 0};
    kt_repaired result = {.comma_due = false};
    kt_bytes out = {NULL, 0, 0};
    for (size_t at = 0;; at = result.next) {
        out.count = 0;
        if (kt_repair_element(text, at, result.comma_due, true, &out, &repairs, &result, NULL) !=
            KINETO_OK)
            break;
        check(result.next <= text.size && (result.piece == KT_PIECE_EVENT) == (out.count > 0));
        if (result.piece == KT_PIECE_END)
            break;
        check(result.next > at && result.piece != KT_PIECE_MORE);
    }
    kb_vec_free(&out);
    kt_repairs_free(&repairs);
}

/* What is decided with a part of the text stays with all of it. */
static void repair_part(kineto_string text)
{
    kt_repairs repairs = {.base = 0};
    kt_repaired part, whole;
    kt_bytes out = {NULL, 0, 0}, more = {NULL, 0, 0};
    kineto_string half = {text.data, text.size / 2};
    (void)kt_repair_element(half, 0, false, false, &out, &repairs, &part, NULL);
    (void)kt_repair_element(text, 0, false, true, &more, &repairs, &whole, NULL);
    check(part.piece == KT_PIECE_MORE ||
          (part.piece == whole.piece && part.next == whole.next && out.count == more.count));
    kb_vec_free(&out);
    kb_vec_free(&more);
    kt_repairs_free(&repairs);
}

/* *data is NULL if there is nothing to be had. */
static void repair_text(kineto_string text, const char *problem, kt_repairs *repairs, char **data,
                        size_t *size)
{
    kt_repair_events events;
    kb_sink *sink;
    *data = NULL;
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL) != KINETO_OK)
        return;
    kineto_status status = kt_repair_document(text, problem, true, sink, repairs, &events, NULL);
    check(status == KINETO_OK || status == KINETO_E_FORMAT || status == KINETO_E_MEMORY);
    if (status == KINETO_OK && kb_sink_take(sink, data, size, NULL) != KINETO_OK)
        *data = NULL;
    kb_sink_abort(sink);
}

/* What is lost is said, and what was repaired is sound. */
static void repair_document(kineto_string text, const char *problem)
{
    kt_repairs repairs = {.base = 0}, again = {.base = 0};
    char *data, *second = NULL;
    size_t size = 0, second_size = 0;
    repair_text(text, problem, &repairs, &data, &size);
    if (data) {
        check(kb_json_valid((kineto_string){data, size}));
        check((!problem && !kt_repairs_have_loss(&repairs)) ||
              memmem(data, size, "\"ckineto\"", sizeof "\"ckineto\"" - 1));
        repair_text((kineto_string){data, size}, NULL, &again, &second, &second_size);
    }
    if (second)
        check(!again.total && second_size == size && memcmp(second, data, size) == 0);
    free(data);
    free(second);
    kt_repairs_free(&repairs);
    kt_repairs_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); /* its end is watched */
    if (!copy)
        return 0;
    if (size)
        memcpy(copy, data, size);
    char *exact = realloc(copy, size ? size : 1);
    kineto_string text = {exact ? exact : copy, size};
    repair_elements(text);
    repair_part(text);
    repair_document(text, NULL);
    repair_document(text, "the file is damaged");
    free(exact ? exact : copy);
    return 0;
}
