/* Binary payloads with layouts, and counters. */
#include "unit/unit.h"

#include "emitter.h"
#include "helpers/recording.h"
#include "watch.h"

int InitializeInjectionNvtx2(cn_export_table get);
int InitializeInjectionNvtxExtension(cn_extension *extension);

static emitter me;

static int begin(void **state)
{
    (void)state;
    if (!emitter_init(&me, InitializeInjectionNvtx2))
        return -1;
    return emitter_extensions(&me, InitializeInjectionNvtxExtension) ? 0 : -1;
}

#define AT(type, member) .offset = offsetof(type, member)

/* ---- layouts ----------------------------------------------------------------------------------- */

typedef struct everything {
    int8_t i8;
    uint16_t u16;
    int32_t i32;
    uint64_t u64;
    float f32;
    double f64;
    uint16_t half, brain;
    char text[8];
    int32_t list[3];
    double reals[2];
    unsigned char bytes[3];
    uint64_t handle;
} everything;

static const cn_entry everything_entries[] = {
    {.type = CN_TYPE_INT8, .name = "i8", AT(everything, i8)},
    {.type = CN_TYPE_UINT16, .name = "u16", AT(everything, u16)},
    {.type = CN_TYPE_INT32, .name = "i32"}, /* where it lies follows */
    {.type = CN_TYPE_UINT64, .name = "u64", AT(everything, u64)},
    {.type = CN_TYPE_FLOAT, .name = "f32", AT(everything, f32)},
    {.type = CN_TYPE_DOUBLE, .name = "f64"},
    {.type = CN_TYPE_FLOAT16, .name = "half", AT(everything, half)},
    {.type = CN_TYPE_BF16, .name = "brain", AT(everything, brain)},
    {.type = CN_TYPE_CSTRING, .name = "text", .detail = 8, AT(everything, text)},
    {.flags = 1 << 4, .type = CN_TYPE_INT32, .name = "list", .detail = 3, AT(everything, list)},
    {.flags = 1 << 4, .type = CN_TYPE_DOUBLE, .name = "reals", .detail = 2, AT(everything, reals)},
    {.flags = 1 << 4, .type = CN_TYPE_BYTE, .name = "bytes", .detail = 3, AT(everything, bytes)},
    {.type = CN_TYPE_NVTX_REGISTERED_STRING_HANDLE, .name = "handle", AT(everything, handle)},
};

static void every_type_of_entry_becomes_an_argument_of_its_type(void **state)
{
    (void)state;
    uint64_t id =
        schema_of(&me, "S", CN_SCHEMA_STATIC, everything_entries, COUNT_OF(everything_entries));
    assert_true(id >= CN_SCHEMA_DYNAMIC_FIRST);
    everything value = {.i8 = -3,
                        .u16 = 65535,
                        .i32 = -70000,
                        .u64 = UINT64_MAX,
                        .f32 = 0.5f,
                        .f64 = 0.1,
                        .half = 0xc500,
                        .brain = 0x4000,
                        .text = "12345678",
                        .list = {1, -2, 3},
                        .reals = {0.1, 1e300},
                        .bytes = {0xde, 0xad, 0x01},
                        .handle = (uint64_t)(uintptr_t)string_register(&me, NULL, "named")};
    memcpy(value.text, "12345678", 8); /* without an end */
    cn_payload payload = {id, sizeof value, &value};
    kineto_session *session = watch();
    mark_with(&me, "event", &payload, 1);
    kineto_trace *trace = finish(session);
    kineto_row row = find_only(trace, "event").row;
    assert_int_equal(arg_of(trace, row, "S.i8").i, -3);
    assert_int_equal(arg_of(trace, row, "S.u16").u, 65535);
    assert_int_equal(arg_of(trace, row, "S.i32").i, -70000);
    assert_true(arg_of(trace, row, "S.u64").u == UINT64_MAX);
    assert_true(arg_of(trace, row, "S.f32").d == 0.5);
    assert_true(arg_of(trace, row, "S.f64").d == 0.1);
    assert_true(arg_of(trace, row, "S.half").d == -5.0);
    assert_true(arg_of(trace, row, "S.brain").d == 2.0);
    assert_text(arg_of(trace, row, "S.text").text, "12345678");
    assert_text(arg_of(trace, row, "S.list").text, "[1,-2,3]");
    assert_text(arg_of(trace, row, "S.reals").text, "[0.1,1e+300]");
    assert_text(arg_of(trace, row, "S.bytes").text, "dead01");
    assert_text(arg_of(trace, row, "S.handle").text, "named");
    assert_nothing_lost(trace);
    kineto_trace_release(trace);
}

typedef struct point {
    int16_t x;
    double y;
} point;
typedef struct nested {
    uint8_t which;
    point one;
    point two[2];
    int32_t colour, flags;
    union {
        int64_t i;
        double d;
    } any;
} nested;

static uint64_t enum_of(const cn_enum_entry *entries, size_t count)
{
    cn_enum_attributes a = {.field_mask = 1u << CN_ENUM_FIELD_ENTRIES |
                                          1u << CN_ENUM_FIELD_ENTRY_COUNT |
                                          1u << CN_ENUM_FIELD_SIZE,
                            .entries = entries,
                            .entry_count = count,
                            .size_of_enum = 4};
    return CALL(&me, payload, PayloadEnumRegister, uint64_t,
                (cn_handle, const cn_enum_attributes *), (NULL, &a));
}

static uint64_t nested_schema(void)
{
    static const cn_entry of_point[] = {
        {.type = CN_TYPE_INT16, .name = "x", AT(point, x)},
        {.type = CN_TYPE_DOUBLE, .name = "y", AT(point, y)},
    };
    static const cn_entry of_union[] = {{.type = CN_TYPE_INT64, .name = "i"},
                                        {.type = CN_TYPE_DOUBLE, .name = "d"}};
    static const cn_enum_entry colours[] = {{"red", 1, 0}, {"green", 2, 0}};
    static const cn_enum_entry flags[] = {{"read", 1, 1}, {"write", 2, 1}};
    uint64_t p = schema_of(&me, "point", CN_SCHEMA_STATIC, of_point, 2);
    uint64_t u = schema_of(&me, "any", CN_SCHEMA_UNION, of_union, 2);
    const cn_entry entries[] = {
        {.type = CN_TYPE_UINT8, .name = "which", AT(nested, which)},
        {.type = p, .name = "one", AT(nested, one)},
        {.flags = 1 << 4, .type = p, .name = "two", .detail = 2, AT(nested, two)},
        {.type = enum_of(colours, 2), .name = "colour", AT(nested, colour)},
        {.type = enum_of(flags, 2), .name = "flags", AT(nested, flags)},
        {.type = u, .name = "any", .detail = 0, AT(nested, any)},
    };
    return schema_of(&me, "N", CN_SCHEMA_STATIC, entries, COUNT_OF(entries));
}

static void layouts_of_layouts_unions_and_enumerations_are_followed(void **state)
{
    (void)state;
    nested value = {.which = 1, .one = {7, 1.5}, .two = {{1, 2}, {3, 4}}, .colour = 2, .flags = 3};
    value.any.d = 2.5;
    cn_payload payload = {nested_schema(), sizeof value, &value};
    kineto_session *session = watch();
    mark_with(&me, "event", &payload, 1);
    value.which = 9; /* no member */
    value.colour = 77;
    value.flags = 6;
    mark_with(&me, "odd", &payload, 1);
    kineto_trace *trace = finish(session);
    kineto_row row = find_only(trace, "event").row, odd = find_only(trace, "odd").row;
    assert_int_equal(arg_of(trace, row, "N.one.x").i, 7);
    assert_true(arg_of(trace, row, "N.one.y").d == 1.5);
    assert_text(arg_of(trace, row, "N.two").text, "[{\"x\":1,\"y\":2},{\"x\":3,\"y\":4}]");
    assert_text(arg_of(trace, row, "N.colour").text, "green");
    assert_text(arg_of(trace, row, "N.flags").text, "read|write");
    assert_text(arg_of(trace, row, "N.any").text, "{\"d\":2.5}");
    assert_text(arg_of(trace, odd, "N.any").text, "null");
    assert_text(arg_of(trace, odd, "N.colour").text, "77");
    assert_text(arg_of(trace, odd, "N.flags").text, "write|4");
    kineto_trace_release(trace);
}

static void lengths_that_the_data_says_are_followed(void **state)
{
    (void)state;
    static const cn_entry entries[] = {
        {.type = CN_TYPE_UINT32, .name = "n"},
        {.flags = 3 << 4, .type = CN_TYPE_INT16, .name = "list", .detail = 0},
        {.flags = 2 << 4, .type = CN_TYPE_CSTRING, .name = "text"},
        {.type = CN_TYPE_UINT8, .name = "last"},
    };
    uint64_t id = schema_of(&me, "D", CN_SCHEMA_DYNAMIC, entries, COUNT_OF(entries));
    char data[] = {3, 0, 0, 0, 1, 0, 2, 0, 3, 0, 'h', 'i', 0, 42};
    cn_payload payload = {id, sizeof data, data};
    kineto_session *session = watch();
    mark_with(&me, "event", &payload, 1);
    data[0] = 127; /* more than there is */
    mark_with(&me, "too long", &payload, 1);
    kineto_trace *trace = finish(session);
    kineto_row row = find_only(trace, "event").row;
    assert_text(arg_of(trace, row, "D.list").text, "[1,2,3]");
    assert_text(arg_of(trace, row, "D.text").text, "hi");
    assert_int_equal(arg_of(trace, row, "D.last").u, 42);
    find_only(trace, "too long");
    assert_int_equal(counted("payloads shorter than their layout"), 1);
    kineto_trace_release(trace);
}

static void pointers_are_followed_into_payloads_of_the_event_only(void **state)
{
    (void)state;
    struct {
        const char *text;
        const int32_t *list;
        uint64_t count;
    } value;
    static const cn_entry entries[] = {
        {.type = CN_TYPE_CSTRING, .name = "text"},
        {.flags = CN_ENTRY_POINTER | 3 << 4,
         .type = CN_TYPE_INT32,
         .name = "list",
         .detail = 0,
         .offset = 8},
        {.type = CN_TYPE_UINT64, .name = "count", .offset = 16},
        {.flags = CN_ENTRY_POINTER | 3 << 4,
         .type = CN_TYPE_INT32,
         .name = "ints",
         .detail = 2,
         .offset = 8},
    };
    uint64_t id = schema_of(&me, "P", CN_SCHEMA_STATIC, entries, COUNT_OF(entries));
    struct {
        int32_t list[2];
        char text[4];
    } blob = {{5, 6}, "abc"};
    value.text = blob.text;
    value.list = blob.list;
    value.count = 2;
    cn_payload payloads[] = {{id, sizeof value, &value},
                             {CN_SCHEMA_REFERENCED, sizeof blob, &blob}};
    kineto_session *session = watch();
    mark_with(&me, "both", payloads, 2);
    value.text = (const char *)8; /* inaccessible */
    mark_with(&me, "wild", payloads, 2);
    kineto_trace *trace = finish(session);
    kineto_row both = find_only(trace, "both").row, wild = find_only(trace, "wild").row;
    assert_text(arg_of(trace, both, "P.text").text, "abc");
    assert_text(arg_of(trace, both, "P.ints").text, "[5,6]");
    assert_text(arg_of(trace, wild, "P.text").text, "");
    assert_int_equal(counted("pointers of payloads that lead elsewhere"), 1);
    kineto_arg arg;
    assert_false(kineto_args_find(trace, both, "P.list", &arg)); /* its length comes too late */
    kineto_trace_release(trace);
}

static void payloads_of_predefined_types_need_no_layout(void **state)
{
    (void)state;
    int32_t number = -9;
    cn_payload payloads[] = {{CN_TYPE_INT32, sizeof number, &number},
                             {CN_TYPE_CSTRING, SIZE_MAX, "a text"},
                             {CN_SCHEMA_RAW, 3, "\x01\x02\xff"}};
    kineto_session *session = watch();
    mark_with(&me, "number", payloads, 1);
    mark_with(&me, "text", payloads + 1, 1);
    mark_with(&me, "raw", payloads + 2, 1);
    kineto_trace *trace = finish(session);
    assert_int_equal(arg_of(trace, find_only(trace, "number").row, "payload").i, -9);
    assert_text(arg_of(trace, find_only(trace, "text").row, "payload").text, "a text");
    assert_text(arg_of(trace, find_only(trace, "raw").row, "payload").text, "0102ff");
    kineto_trace_release(trace);
}

static void what_is_not_understood_is_counted_and_the_event_is_there(void **state)
{
    (void)state;
    kineto_session *session = watch();
    static const cn_entry entries[] = {
        {.type = CN_TYPE_INT32, .name = "good"},
        {.type = 33, .name = "128 bits"},
        {.type = CN_TYPE_INT32, .name = "where?"},
        {.type = CN_TYPE_INT32, .name = "there", .offset = 24},
    };
    uint64_t id = schema_of(&me, "O", CN_SCHEMA_STATIC, entries, COUNT_OF(entries));
    assert_int_equal(schema_of(&me, "internal", CN_SCHEMA_UNION_SELECTED, entries, 1), 0);
    assert_int_equal(schema_register(&me, NULL, NULL), 0);
    int32_t value[7] = {1, 0, 0, 0, 0, 0, 7};
    cn_payload payloads[] = {{id, sizeof value, value},
                             {id, 3, value},
                             {UINT64_C(0xabcdef) << 32, 4, value},
                             {id, sizeof value, NULL}};
    for (uint32_t i = 0; i < 4; i++)
        mark_with(&me, "event", &payloads[i], 1);
    mark_with(&me, "no list", NULL, 3);
    kineto_trace *trace = finish(session);
    kineto_row row = find_nth(trace, "event", 0).row;
    assert_int_equal(arg_of(trace, row, "O.good").i, 1);
    assert_int_equal(arg_of(trace, row, "O.there").i, 7);
    assert_int_equal(count_named(trace, "event"), 4);
    assert_int_equal(count_named(trace, "no list"), 1);
    assert_int_equal(counted("entries of payload layouts that were not understood"), 2);
    assert_int_equal(counted("payload layouts that were not understood"), 2);
    assert_int_equal(counted("payloads of unknown layout"), 1);
    assert_int_equal(counted("payloads shorter than their layout"), 2);
    kineto_trace_release(trace);
}

static void an_entry_may_be_the_message_and_a_pop_may_add_arguments(void **state)
{
    (void)state;
    static const cn_entry entries[] = {
        {.flags = CN_ENTRY_EVENT_MESSAGE, .type = CN_TYPE_CSTRING, .name = "m", .detail = 8},
        {.type = CN_TYPE_INT32, .name = "n", .offset = 8},
    };
    uint64_t id = schema_of(&me, "M", CN_SCHEMA_STATIC, entries, 2);
    struct {
        char text[8];
        int32_t n;
    } value = {"hello", 5};
    int64_t result = 77;
    cn_payload payload = {id, sizeof value, &value},
               after = {CN_TYPE_INT64, sizeof result, &result};
    kineto_session *session = watch();
    CALL(&me, payload, RangePushPayload, int, (cn_handle, const cn_payload *, size_t),
         (NULL, &payload, 1));
    CALL(&me, payload, RangePopPayload, int, (cn_handle, const cn_payload *, size_t),
         (NULL, &after, 1));
    memcpy(value.text, "started", 8);
    uint64_t range = CALL(&me, payload, RangeStartPayload, uint64_t,
                          (cn_handle, const cn_payload *, size_t), (NULL, &payload, 1));
    CALL(&me, payload, RangeEndPayload, void, (cn_handle, uint64_t, const cn_payload *, size_t),
         (NULL, range, &after, 1));
    CALL(&me, payload, MarkPayload, void, (cn_handle, const cn_payload *, size_t),
         (NULL, &after, 1));
    CALL(&me, payload, EventSubmit, void, (cn_handle, const cn_payload *, size_t),
         (NULL, &after, 1));
    kineto_trace *trace = finish(session);
    kineto_row row = find_only(trace, "hello").row;
    assert_int_equal(arg_of(trace, row, "M.n").i, 5);
    assert_int_equal(arg_of(trace, row, "payload").i, 77);
    assert_int_equal(arg_of(trace, find_only(trace, "started").row, "M.n").i, 5);
    assert_int_equal(arg_of(trace, find_only(trace, "").row, "payload").i, 77);
    assert_int_equal(counted("payloads at the end of process ranges"), 1);
    assert_int_equal(counted("deferred events"), 1);
    kineto_trace_release(trace);
}

static void numbers_of_layouts_belong_to_their_domain_and_may_come_again(void **state)
{
    (void)state;
    static const cn_entry as_int[] = {{.type = CN_TYPE_INT32, .name = "v"}};
    static const cn_entry as_float[] = {{.type = CN_TYPE_FLOAT, .name = "v"}};
    cn_handle a = domain_create(&me, "schemas A"), b = domain_create(&me, "schemas B");
    cn_schema_attributes s = {.field_mask = SCHEMA_MASK(1),
                              .name = "S",
                              .type = CN_SCHEMA_STATIC,
                              .entries = as_int,
                              .entry_count = 1,
                              .schema_id = CN_SCHEMA_STATIC_FIRST + 5};
    assert_int_equal(schema_register(&me, a, &s), s.schema_id);
    assert_int_equal(schema_register(&me, a, &s), s.schema_id);
    s.entries = as_float;
    assert_int_equal(schema_register(&me, b, &s), s.schema_id);
    int32_t bits = 0x40000000;
    cn_payload payload = {s.schema_id, 4, &bits};
    cn_attributes event = message("event");
    event.payload_type = CN_PAYLOAD_EXTENDED;
    event.reserved = 1;
    event.payload.u64 = (uint64_t)(uintptr_t)&payload;
    kineto_session *session = watch();
    domain_mark(&me, a, &event);
    domain_mark(&me, b, &event);
    kineto_trace *trace = finish(session);
    kineto_row row = find_nth(trace, "event", 0).row;
    assert_int_equal(arg_of(trace, row, "S.v").i, 0x40000000);
    assert_true(arg_of(trace, row + 1, "S.v").d == 2.0);
    kineto_trace_release(trace);
}

static void events_have_64_arguments_at_most_and_the_rest_is_counted(void **state)
{
    (void)state;
    cn_entry entries[60];
    memset(entries, 0, sizeof entries);
    for (int i = 0; i < 60; i++)
        entries[i] = (cn_entry){.type = CN_TYPE_UINT8};
    uint64_t id = schema_of(&me, "W", CN_SCHEMA_STATIC, entries, 60);
    uint8_t bytes[60];
    for (int i = 0; i < 60; i++)
        bytes[i] = (uint8_t)i;
    cn_payload payloads[] = {{id, 60, bytes}, {id, 60, bytes}};
    kineto_session *session = watch();
    mark_with(&me, "wide", payloads, 2);
    kineto_trace *trace = finish(session);
    kineto_row row = find_only(trace, "wide").row;
    assert_int_equal(arg_of(trace, row, "W.59").u, 59);
    assert_int_equal(counted("arguments left out"), 1);
    kineto_trace_release(trace);
}

/* ---- any layout, any bytes --------------------------------------------------------------------- */

static cn_entry random_entry(uint64_t *seed, uint64_t nested_id)
{
    static const uint64_t types[] = {1,  5,  8,  10, 12, 17, 19, 20, 21, 23, 24, 26,  27,  32,
                                     33, 42, 50, 68, 73, 75, 76, 77, 78, 80, 99, 100, 1023};
    uint64_t r = next_random(seed);
    cn_entry e = {.type = types[r % COUNT_OF(types)], .name = r & 1 << 8 ? "f" : NULL};
    if ((r >> 9 & 7) == 0)
        e.type = nested_id;
    e.flags = (r >> 12 & 3) == 0 ? next_random(seed) & 0xfff : (r >> 14 & 3) << 4;
    if (r >> 20 & 1)
        e.detail = next_random(seed) >> (r >> 24 & 63);
    if (r >> 21 & 1)
        e.offset = next_random(seed) >> (r >> 32 & 63);
    return e;
}

static uint64_t random_schema(uint64_t *seed, uint64_t nested_id)
{
    cn_entry entries[70];
    size_t count = next_random(seed) % (next_random(seed) % 8 ? 9 : 70);
    for (size_t i = 0; i < count; i++)
        entries[i] = random_entry(seed, nested_id);
    cn_schema_attributes a = {.field_mask = next_random(seed) | SCHEMA_MASK(0),
                              .name = next_random(seed) & 1 ? "R" : NULL,
                              .type = 1 + next_random(seed) % 3,
                              .entries = entries,
                              .entry_count = count,
                              .static_size = next_random(seed) % 200,
                              .pack_align = next_random(seed) % 9};
    a.field_mask &= ~(UINT64_C(1) << CN_FIELD_SCHEMA_ID);
    return schema_register(&me, NULL, &a);
}

static void no_layout_makes_anything_be_read_outside_of_a_payload(void **state)
{
    (void)state;
    enum { SCHEMAS = 400, EVENTS = 6 };
    const char *given = getenv("NVTX_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 20260722, id = 0;
    kineto_session *session = watch();
    for (int i = 0; i < SCHEMAS; i++) {
        id = random_schema(&seed, id);
        for (int k = 0; k < EVENTS; k++) {
            size_t size = next_random(&seed) % (k & 1 ? 600 : 40);
            char *exact = malloc(size ? size : 1);
            for (size_t b = 0; b < size; b++)
                exact[b] = (char)(next_random(&seed) >> (k & 2 ? 0 : 62));
            cn_payload payloads[] = {{id, size, exact}, {CN_SCHEMA_REFERENCED, size / 2, exact}};
            if (size >= 8) /* an address that leads near the end */
                memcpy(exact, &(char *){exact + size - 1}, sizeof exact);
            mark_with(&me, "random", payloads, 1 + (k & 1));
            free(exact);
        }
    }
    kineto_trace *trace = finish(session);
    assert_int_equal(kineto_trace_count(trace), SCHEMAS * EVENTS);
    verify(trace);
    kineto_trace_release(trace);
}

/* ---- counters ---------------------------------------------------------------------------------- */

static uint64_t counter_of(uint64_t schema, const char *name, const char *unit, uint64_t id)
{
    cn_counter_semantics semantics = {.header = {sizeof semantics, CN_SEMANTICS_COUNTER, 2, NULL},
                                      .unit = unit};
    cn_counter_attributes a = {.struct_size = sizeof a,
                               .schema_id = schema,
                               .name = name,
                               .semantics = unit ? &semantics.header : NULL,
                               .counter_id = id};
    return CALL(&me, counters, CounterRegister, uint64_t,
                (cn_handle, const cn_counter_attributes *), (NULL, &a));
}

static void counters_are_sampled_by_value_and_by_reference(void **state)
{
    (void)state;
    uint64_t queue = counter_of(CN_TYPE_INT64, "queue", "jobs", 0);
    uint64_t load = counter_of(CN_TYPE_DOUBLE, "load", NULL, CN_SCHEMA_STATIC_FIRST + 1);
    assert_int_equal(load, CN_SCHEMA_STATIC_FIRST + 1);
    kineto_session *session = watch();
    CALL(&me, counters, CounterSampleInt64, void, (cn_handle, uint64_t, int64_t),
         (NULL, queue, -4));
    CALL(&me, counters, CounterSampleFloat64, void, (cn_handle, uint64_t, double),
         (NULL, load, 0.75));
    int64_t five = 5;
    CALL(&me, counters, CounterSample, void, (cn_handle, uint64_t, const void *, size_t),
         (NULL, queue, &five, sizeof five));
    CALL(&me, counters, CounterSampleNoValue, void, (cn_handle, uint64_t, uint8_t),
         (NULL, queue, 2));
    CALL(&me, counters, CounterSampleNoValue, void, (cn_handle, uint64_t, uint8_t),
         (NULL, queue, 0));
    CALL(&me, counters, CounterSampleInt64, void, (cn_handle, uint64_t, int64_t), (NULL, 99, 1));
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "queue"), 3);
    kineto_activity first = find_nth(trace, "queue", 0);
    assert_int_equal(first.form, KINETO_FORM_COUNTER);
    assert_int_equal(arg_of(trace, first.row, "value [jobs]").i, -4);
    assert_int_equal(arg_of(trace, find_nth(trace, "queue", 1).row, "value [jobs]").i, 5);
    assert_int_equal(arg_of(trace, find_nth(trace, "queue", 2).row, "value [jobs]").i, 0);
    assert_true(arg_of(trace, find_only(trace, "load").row, "value").d == 0.75);
    assert_int_equal(counted("samples of counters that are not known"), 1);
    kineto_trace_release(trace);
}

static void what_is_not_a_number_is_not_a_counter(void **state)
{
    (void)state;
    uint64_t refused = counted("payload layouts that were not understood"), handle = 1;
    uint64_t id = counter_of(CN_TYPE_NVTX_REGISTERED_STRING_HANDLE, "texts", NULL, 0);
    assert_int_equal(counted("payload layouts that were not understood"), refused + 1);
    kineto_session *session = watch();
    CALL(&me, counters, CounterSample, void, (cn_handle, uint64_t, const void *, size_t),
         (NULL, id, &handle, sizeof handle));
    kineto_trace *trace = finish(session);
    assert_int_equal(kineto_trace_count(trace), 0);
    kineto_trace_release(trace);
}

static void groups_of_counters_and_batches_are_series(void **state)
{
    (void)state;
    static const cn_entry entries[] = {
        {.type = CN_TYPE_UINT32, .name = "used"},
        {.type = CN_TYPE_DOUBLE, .name = "share", .offset = 8},
    };
    uint64_t id = counter_of(schema_of(&me, NULL, CN_SCHEMA_STATIC, entries, 2), "memory", NULL, 0);
    struct {
        uint32_t used;
        double share;
    } samples[] = {{1, 0.25}, {2, 0.5}, {3, 0.75}};
    cn_counter_batch batch = {
        .counter_id = id, .counters = samples, .counters_size = sizeof samples - 1};
    kineto_session *session = watch();
    CALL(&me, counters, CounterSample, void, (cn_handle, uint64_t, const void *, size_t),
         (NULL, id, samples, sizeof samples[0]));
    CALL(&me, counters, CounterSample, void, (cn_handle, uint64_t, const void *, size_t),
         (NULL, id, samples, 3));
    CALL(&me, counters, CounterBatchSubmit, void, (cn_handle, const cn_counter_batch *),
         (NULL, &batch));
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "memory"), 3); /* the last of the batch is cut off */
    kineto_row last = find_nth(trace, "memory", 2).row;
    assert_int_equal(arg_of(trace, last, "used").u, 2);
    assert_true(arg_of(trace, last, "share").d == 0.5);
    assert_int_equal(counted("counter samples of batches"), 2);
    assert_int_equal(counted("payloads shorter than their layout"), 1);
    kineto_trace_release(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_entry_becomes_an_argument_of_its_type),
        cmocka_unit_test(layouts_of_layouts_unions_and_enumerations_are_followed),
        cmocka_unit_test(lengths_that_the_data_says_are_followed),
        cmocka_unit_test(pointers_are_followed_into_payloads_of_the_event_only),
        cmocka_unit_test(payloads_of_predefined_types_need_no_layout),
        cmocka_unit_test(what_is_not_understood_is_counted_and_the_event_is_there),
        cmocka_unit_test(an_entry_may_be_the_message_and_a_pop_may_add_arguments),
        cmocka_unit_test(numbers_of_layouts_belong_to_their_domain_and_may_come_again),
        cmocka_unit_test(events_have_64_arguments_at_most_and_the_rest_is_counted),
        cmocka_unit_test(no_layout_makes_anything_be_read_outside_of_a_payload),
        cmocka_unit_test(counters_are_sampled_by_value_and_by_reference),
        cmocka_unit_test(what_is_not_a_number_is_not_a_counter),
        cmocka_unit_test(groups_of_counters_and_batches_are_series),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
