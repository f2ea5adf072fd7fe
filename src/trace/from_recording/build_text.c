/* Text that is put together while a trace is built: in state->text. */
#include "trace/from_recording/build.h"

char *kt_build_room(kt_build_state *s, size_t bytes)
{
    if (!kb_vec_reserve(&s->text, s->text.count + bytes)) {
        s->out_of_memory = true;
        return NULL;
    }
    return s->text.data + s->text.count;
}

void kt_build_advance(kt_build_state *s, const char *end)
{
    s->text.count = (size_t)(end - s->text.data);
}

void kt_build_put_text(kt_build_state *s, kineto_string text)
{
    char *at = kt_build_room(s, text.size);
    if (!at || !text.size)
        return;
    memcpy(at, text.data, text.size);
    s->text.count += text.size;
}

void kt_build_put(kt_build_state *s, const char *chars) { kt_build_put_text(s, kb_string(chars)); }

void kt_build_put_int(kt_build_state *s, int64_t number)
{
    char *at = kt_build_room(s, 24);
    if (at)
        kt_build_advance(s, kb_json_format_int(at, number));
}
