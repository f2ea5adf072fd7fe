/* Numbers of processes and threads for scrubbing (KINETO_SCRUB_IDS): they get new ones from 1 on, in the order of the
 * trace, and so do the same numbers in names and in args. A thread that has the number of its process keeps that
 * relation. */
#include "trace/transform/scrub.h"

/* 0 is the idle process or unknown, and small numbers are ranks, devices and lanes. */
#define MIN_NUMBER 2

static void add_number(kt_scrub *s, int64_t number)
{
    bool created;
    if (number < MIN_NUMBER)
        return;
    if (!kb_map_insert(&s->numbers, (uint64_t)number, s->numbers.count + 1, &created))
        s->failed = true;
}

/* The number in "thread 42 (name): state": rows about a thread are on tracks that have only its name. */
static int64_t read_thread_name(kineto_string name)
{
    static const char word[] = "thread ";
    int64_t number = 0;
    if (!kb_string_starts_with(name, word))
        return 0;
    for (size_t at = sizeof word - 1; at < name.size && kb_is_digit(name.data[at]) && number < INT32_MAX; at++)
        number = 10 * number + (name.data[at] - '0');
    return number;
}

void kt_scrub_number_places(kt_scrub *s)
{
    for (uint32_t i = 0; i < kineto_trace_process_count(s->from); i++) {
        const kt_process_row *p = &s->from->processes.data[i];
        if (!p->is_device && !kt_process_text_of(s->from, i).data) {
            add_number(s, p->pid);
            add_number(s, p->ppid);
        }
    }
    for (uint32_t i = 0; i < kineto_trace_track_count(s->from); i++) {
        const kt_track_row *k = &s->from->tracks.data[i];
        if (k->type == KINETO_TRACK_THREAD && !s->from->processes.data[k->process].is_device &&
            !kt_track_text_of(s->from, i).data)
            add_number(s, k->id);
        add_number(s, read_thread_name(kineto_trace_string(s->from, k->name)));
    }
}

int64_t kt_scrub_number(const kt_scrub *s, int64_t number)
{
    const uint64_t *found = number < MIN_NUMBER ? NULL : kb_map_find(&s->numbers, (uint64_t)number);
    return found ? (int64_t)*found : number;
}

/* Appends the digits at `at` as the new number. @return the position after them. */
static size_t append_number(kt_scrub *s, kineto_string text, size_t at)
{
    char digits[24];
    uint64_t number = 0;
    size_t end = at;
    while (end < text.size && kb_is_digit(text.data[end]) && number < UINT64_C(1) << 56)
        number = 10 * number + (uint64_t)(text.data[end++] - '0');
    int64_t changed = kt_scrub_number(s, (int64_t)number);
    int size = snprintf(digits, sizeof digits, "%lld", (long long)changed);
    if (changed == (int64_t)number)
        kt_chars_add(s, &s->numbered, text.data + at, end - at);
    else
        kt_chars_add(s, &s->numbered, digits, (size_t)size);
    return end;
}

kineto_string kt_scrub_numbers_in(kt_scrub *s, kineto_string text)
{
    if (!s->numbers.count)
        return text;
    s->numbered.count = 0;
    for (size_t at = 0; at < text.size && !s->failed;) {
        if (kb_is_digit(text.data[at]))
            at = append_number(s, text, at);
        else
            kt_chars_add(s, &s->numbered, text.data + at++, 1);
    }
    return (kineto_string){s->numbered.data ? s->numbered.data : "", s->numbered.count};
}
