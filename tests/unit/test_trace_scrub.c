/* Pseudonyms: nothing of a secret is anywhere in the new trace, what is public and what belongs
 * together stays, and no text can hurt. */
#include "trace/transform/scrub.h"

#include "building.h"

#define SECRET "zebra"

static kineto_row named(kt_builder *b, uint32_t kind, kineto_string name)
{
    kt_row row = {.start_ns = 1, .end_ns = 5, .kind = kind, .name = kt_string(b, name)};
    row.track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    return kt_append(b, &row);
}

static kineto_trace *scrub(const kineto_trace *t, kineto_scrub how)
{
    kineto_trace *out;
    kineto_error err = {.message = ""};
    how.size = sizeof how;
    how.what = how.what ? how.what : KINETO_SCRUB_USUAL;
    how.salt = how.salt ? how.salt : "salt";
    how.salt_bytes = how.salt_bytes ? how.salt_bytes : 4;
    if (kineto_trace_scrub(t, &how, &out, NULL, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return out;
}

/* One name through it; the caller frees. */
static char *name_after(uint32_t kind, const char *name, kineto_scrub how)
{
    kt_builder *b = builder();
    named(b, kind, kb_string(name));
    kineto_trace *t = finish(b), *after = scrub(t, how);
    kineto_activity a;
    kineto_trace_get(after, 0, &a);
    char *text = strndup(a.name.data, a.name.size);
    kineto_trace_release(after);
    kineto_trace_release(t);
    return text;
}

static bool has_secret(kineto_string text)
{
    return memmem(text.data, text.size, SECRET, strlen(SECRET)) != NULL;
}

/* All that a writer could get hold of. */
static void assert_no_secret(const kineto_trace *t)
{
    for (uint32_t id = 0; id < kineto_trace_string_count(t); id++)
        if (has_secret(kineto_trace_string(t, id)))
            fail_msg("a string is '%.*s'", (int)kineto_trace_string(t, id).size,
                     kineto_trace_string(t, id).data);
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        kineto_args_iterator it;
        kineto_arg arg;
        assert_false(has_secret(kt_args_text(t, row)));
        kineto_args_begin(t, row, &it);
        while (kineto_args_next(&it, &arg)) {
            assert_false(has_secret(arg.key));
            if (arg.type >= KINETO_ARG_STRING)
                assert_false(has_secret(arg.text));
        }
    }
}

static void put_args(kt_builder *b)
{
    kt_args_put_string(b, kt_string(b, kb_string("dtype")), kb_string("Float"));
    kt_args_put_string(b, kt_string(b, kb_string("dtype ")), kb_string("Float"));
    kt_args_put_string(b, kt_string(b, kb_string("a " SECRET)), kb_string("its " SECRET));
    kt_args_put_int(b, kt_string(b, kb_string(SECRET " int")), -5);
    kt_args_put_string(b, kt_string(b, kb_string("for")), kb_string("NVIDIA " SECRET));
    kt_args_put_uint(b, kt_string(b, kb_string("trace_id")), 123456789);
    kt_args_put_double(b, kt_string(b, kb_string("bytes")), 1.5);
    kt_args_put_bool(b, kt_string(b, kb_string("Is asynchronized op")), true);
    kt_args_put_json(
        b, kt_string(b, kb_string("nested")), KINETO_ARG_JSON,
        kb_string("{\"\\u007aebra\":[1,{\"x\":\"\\u007a\\u0065bra\",\"zebra\":null}]}"));
    kt_args_put_json(b, kt_string(b, kb_string("list")), KINETO_ARG_STRINGS,
                     kb_string("[\"zebra one\",\"cuda\"]"));
    kt_args_put_string(b, kt_string(b, kb_string("Call stack")),
                       kb_string("/h/zebra/a.py(1): zebra;zebra;\nx.py(2): f"));
}

static kineto_trace *planted(void)
{
    kt_builder *b = builder();
    uint32_t host = kt_process(b, false, 7, 0), device = kt_process(b, true, 0, 0);
    uint32_t text = kt_process_text(b, kb_string("rows of " SECRET));
    kineto_process p = {.rank = 1,
                        .name = kb_string(SECRET ".exe"),
                        .label = kb_string(SECRET),
                        .host = kb_string(SECRET ".example.com")};
    kineto_process d = {.rank = -1,
                        .properties_json = kb_string(
                            "{\"name\":\"Tesla V100\",\"serial zebra\":{\"deep\":[\"zebra\"]}}")};
    kt_process_set(b, host, &p);
    kt_process_set(b, device, &d);
    uint32_t thread = kt_track(b, host, KINETO_TRACK_THREAD, 3);
    uint32_t row_text = kt_track_text(b, text, kb_string("row " SECRET));
    kt_track_set(b, thread, kb_string("thread 3 (" SECRET ")"), 0);
    kt_own_kind(b, kb_string(SECRET "_op"), KINETO_KIND_CPU_OP);
    put_args(b);
    kt_row row = {.start_ns = 1,
                  .end_ns = 2,
                  .track = thread,
                  .kind = KINETO_KIND_CPU_OP,
                  .category = kt_string(b, kb_string(SECRET "_op")),
                  .name = kt_string(b, kb_string("aten::mm"))};
    kt_append(b, &row);
    kt_args_verbatim(
        b, kb_string("{\"zebra\":\"zebra\",\"correlation\":12,\"z\\u0065bra\":\"\\\"zebra\"}"));
    row = (kt_row){.start_ns = 3,
                   .end_ns = 9,
                   .track = row_text,
                   .kind = KINETO_KIND_USER_ANNOTATION,
                   .form = KINETO_FORM_ASYNC,
                   .async_id = kb_hash(SECRET, strlen(SECRET)),
                   .name = kt_string(b, kb_string("in " SECRET))};
    kineto_row last = kt_append(b, &row);
    kt_flow(b, KINETO_FLOW_USER, kb_hash(SECRET, strlen(SECRET)), 0, true);
    kt_flow(b, KINETO_FLOW_USER, kb_hash(SECRET, strlen(SECRET)), last, false);
    kt_metadata(b, kb_string(SECRET), kb_string("{\"zebra\":1}"));
    kt_metadata(b, kb_string("INFO"), kb_string("[\"log of zebra\"]"));
    kt_ledger_add(b, kb_string(SECRET " plug-in"), kb_string("said " SECRET), 3, true,
                  kb_string("could not open /" SECRET));
    return finish(b);
}

static void no_byte_of_a_secret_is_left(void **state)
{
    (void)state;
    kineto_trace *t = planted();
    static const uint32_t all[] = {KINETO_SCRUB_USUAL, KINETO_SCRUB_ALL,
                                   KINETO_SCRUB_ALL & ~KINETO_SCRUB_DROP_STACKS};
    for (size_t i = 0; i < KB_COUNT(all); i++) {
        kineto_trace *after = scrub(t, (kineto_scrub){.what = all[i]});
        assert_no_secret(after);
        assert_int_equal(kineto_trace_count(after), kineto_trace_count(t));
        assert_int_equal(kineto_trace_flow_count(after), kineto_trace_flow_count(t));
        assert_int_equal(kineto_trace_lost(after), kineto_trace_lost(t));
        kineto_activity a;
        kineto_flow f;
        kineto_trace_get(after, 1, &a);
        kineto_trace_flow(after, 0, &f);
        assert_true(a.async_id != kb_hash(SECRET, strlen(SECRET)));
        assert_true(f.id != kb_hash(SECRET, strlen(SECRET)));
        kineto_trace_release(after);
    }
    kineto_trace_release(t);
}

static void arguments_keep_their_types_and_public_words(void **state)
{
    (void)state;
    kineto_trace *t = planted(), *after = scrub(t, (kineto_scrub){0});
    kineto_arg arg;
    assert_true(kineto_args_find(after, 0, "dtype", &arg));
    assert_true(kb_string_equal(arg.text, kb_string("Float")));
    assert_true(kineto_args_find(after, 0, "bytes", &arg));
    assert_true(arg.type == KINETO_ARG_DOUBLE && arg.d == 1.5);
    assert_true(kineto_args_find(after, 0, "Is asynchronized op", &arg));
    assert_true(arg.type == KINETO_ARG_BOOL && arg.u == 1);
    assert_true(kineto_args_find(after, 0, "trace_id", &arg));
    assert_true(arg.u != 123456789);
    kineto_args_iterator it;
    size_t count = 0;
    kineto_args_begin(after, 0, &it);
    while (kineto_args_next(&it, &arg))
        count++;
    assert_int_equal(count, 11);
    kineto_trace_release(after);
    kineto_trace_release(t);
}

/* `@` stands for twelve hexadecimal digits. */
static bool looks_like(const char *text, const char *form)
{
    for (; *form; form++) {
        size_t size = *form == '@' ? strspn(text, "0123456789abcdef") : *text == *form;
        if (size != (*form == '@' ? 12u : 1u))
            return false;
        text += size;
    }
    return !*text;
}

static void names_keep_their_form(void **state)
{
    (void)state;
    static const struct {
        uint32_t kind;
        const char *before, *after;
    } rows[] = {
        {KINETO_KIND_USER_ANNOTATION, "ProfilerStep#12", "ProfilerStep#12"},
        {KINETO_KIND_USER_ANNOTATION, "ProfilerStep#12 of x", "u_@"},
        {KINETO_KIND_USER_ANNOTATION, "aten::mm", "u_@"},
        {KINETO_KIND_USER_ANNOTATION, "nccl:all_reduce", "nccl:all_reduce"},
        {KINETO_KIND_USER_ANNOTATION, "nccl:zebra", "u_@"},
        {KINETO_KIND_USER_ANNOTATION, "Optimizer.step#Adam.step", "Optimizer.step#Adam.step"},
        {KINETO_KIND_USER_ANNOTATION, "Optimizer.step#Zebra.step", "Optimizer.step#m_@.step"},
        {KINETO_KIND_USER_ANNOTATION, "cudaZebra", "u_@"},
        {KINETO_KIND_CPU_OP, "aten::add_.Tensor", "aten::add_.Tensor"},
        {KINETO_KIND_CPU_OP, "aten::add for zebra", "o_@"},
        {KINETO_KIND_CPU_OP, "AddmmBackward0", "AddmmBackward0"},
        {KINETO_KIND_CPU_OP, "ZebraBackward", "o_@"},
        {KINETO_KIND_CPU_OP, "autograd::engine::evaluate_function: MulBackward0",
         "autograd::engine::evaluate_function: MulBackward0"},
        {KINETO_KIND_CPU_OP, "autograd::engine::evaluate_function: ZebraBackward",
         "autograd::engine::evaluate_function: o_@"},
        {KINETO_KIND_RUNTIME, "cudaLaunchKernel", "cudaLaunchKernel"},
        {KINETO_KIND_RUNTIME, "cuda zebra", "o_@"},
        {KINETO_KIND_PYTHON_FUNCTION, "a/b/c.py(7): run", "d_@/d_@/d_@.py(7): f_@"},
        {KINETO_KIND_PYTHON_FUNCTION, "torch/nn/functional.py(7): relu",
         "torch/nn/functional.py(7): relu"},
        {KINETO_KIND_PYTHON_FUNCTION, "/x/site-packages/torch/a.py(7): f",
         "/d_@/d_@/torch/a.py(7): f"},
        {KINETO_KIND_PYTHON_FUNCTION, "/x/torch/a.py(7): f", "/d_@/d_@/d_@.py(7): f_@"},
        {KINETO_KIND_PYTHON_FUNCTION, "C:\\x\\a.py(7): f", "d_@\\d_@\\d_@.py(7): f_@"},
        {KINETO_KIND_PYTHON_FUNCTION, "../a.zebra(7): f", "../d_@(7): f_@"},
        {KINETO_KIND_PYTHON_FUNCTION, "nn.Module: Linear_3", "nn.Module: Linear_3"},
        {KINETO_KIND_PYTHON_FUNCTION, "nn.Module: Zebra_3", "nn.Module: m_@_3"},
        {KINETO_KIND_PYTHON_FUNCTION, "<built-in function zebra>", "<built-in f_@>"},
        {KINETO_KIND_CONCURRENT_KERNEL, "void at::native::(anonymous namespace)::k<float, 4>(int)",
         "void at::native::(anonymous namespace)::k<float, 4>(int)"},
        {KINETO_KIND_CONCURRENT_KERNEL, "void zebra::k<at::Half, zebra::T<int> >(int*)",
         "void k_@::k_@<at::Half, k_@::k_@<int> >(int*)"},
        {KINETO_KIND_CONCURRENT_KERNEL, "zebra_at::native", "k_@::k_@"},
        {KINETO_KIND_CONCURRENT_KERNEL, "void internal::gemvx::kernel<int, float>(float)",
         "void internal::gemvx::kernel<int, float>(float)"},
        {KINETO_KIND_CONCURRENT_KERNEL, "void internal::zebra<float>", "void k_@::k_@<float>"},
        {KINETO_KIND_CONCURRENT_KERNEL, "triton_poi_fused_zebra_0", "triton_poi_fused_k_@"},
        {KINETO_KIND_CONCURRENT_KERNEL, "zebra kernel 12", "k_@"},
        {KINETO_KIND_CONCURRENT_KERNEL, "volta_sgemm_64x64_nn", "volta_sgemm_64x64_nn"},
        {KINETO_KIND_GPU_MEMCPY, "Memcpy HtoD (Pageable -> Device)",
         "Memcpy HtoD (Pageable -> Device)"},
        {KINETO_KIND_COUNTER, "requests of zebra", "c_@"},
        {KINETO_KIND_CPU_OP, "", ""},
    };
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        char *after = name_after(rows[i].kind, rows[i].before, (kineto_scrub){0});
        if (!looks_like(after, rows[i].after))
            fail_msg("'%s' became '%s', not like '%s'", rows[i].before, after, rows[i].after);
        free(after);
    }
}

static void annotations_of_host_and_device_have_the_same_pseudonym(void **state)
{
    (void)state;
    char *host = name_after(KINETO_KIND_USER_ANNOTATION, "phase", (kineto_scrub){0});
    char *device = name_after(KINETO_KIND_GPU_USER_ANNOTATION, "phase", (kineto_scrub){0});
    char *salted = name_after(KINETO_KIND_USER_ANNOTATION, "phase",
                              (kineto_scrub){.salt = "other", .salt_bytes = 5});
    assert_string_equal(host, device);
    assert_string_not_equal(host, salted);
    free(host);
    free(device);
    free(salted);
}

static void what_is_not_asked_for_stays_but_for_paths_and_machines(void **state)
{
    (void)state;
    char *text = name_after(KINETO_KIND_USER_ANNOTATION, "load /home/ann/x.py on 10.1.2.3 (fast)",
                            (kineto_scrub){.what = KINETO_SCRUB_PATHS});
    assert_true(looks_like(text, "load /d_@/d_@/d_@.py on 10.1.2.3 (fast)"));
    free(text);
    text = name_after(KINETO_KIND_USER_ANNOTATION, "load /home/ann/x.py on 10.1.2.3 (fast)",
                      (kineto_scrub){.what = KINETO_SCRUB_HOSTS});
    assert_true(looks_like(text, "load /home/ann/x.py on h_@ (fast)"));
    free(text);
    text = name_after(KINETO_KIND_USER_ANNOTATION, "12 GB/s of 1.2.3",
                      (kineto_scrub){.what = KINETO_SCRUB_PATHS | KINETO_SCRUB_HOSTS});
    assert_string_equal(text, "12 GB/s of 1.2.3");
    free(text);
    text = name_after(KINETO_KIND_USER_ANNOTATION, "my phase", (kineto_scrub){.keep = "^my"});
    assert_string_equal(text, "my phase");
    free(text);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    kineto_trace *t = planted(), *out;
    kineto_error err = {.message = ""};
    kineto_scrub rows[] = {{.what = KINETO_SCRUB_NAMES},
                           {.what = KINETO_SCRUB_NAMES, .salt = "x"},
                           {.what = 0, .salt = "x", .salt_bytes = 1},
                           {.what = 1u << 30, .salt = "x", .salt_bytes = 1},
                           {.what = 1, .salt = "x", .salt_bytes = 1, .keep = "*("}};
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        rows[i].size = sizeof rows[i];
        assert_int_equal(kineto_trace_scrub(t, &rows[i], &out, NULL, &err), KINETO_E_ARGUMENT);
        assert_null(out);
    }
    assert_int_equal(kineto_trace_scrub(t, &(kineto_scrub){0}, &out, NULL, NULL),
                     KINETO_E_ARGUMENT);
    kineto_trace_release(t);
}

/* Pieces of what forms are made of, in any order. */
static size_t random_text(uint64_t *seed, char *out, size_t room)
{
    static const char *const pieces[] = {"zebra",
                                         "::",
                                         "(",
                                         ")",
                                         "<",
                                         ">",
                                         ":",
                                         "/",
                                         "\\",
                                         ".py",
                                         "(12): ",
                                         "at",
                                         "void ",
                                         " ",
                                         ";",
                                         "nn.Module: ",
                                         "autograd::engine::evaluate_function: ",
                                         "Optimizer.step#",
                                         ".step",
                                         "_",
                                         "9",
                                         "10.0.0.1",
                                         "{",
                                         "\"",
                                         "\\u",
                                         "\n",
                                         "\xc3\xa9",
                                         "\xff",
                                         "triton_poi_fused_",
                                         "<built-in ",
                                         "(anonymous namespace)",
                                         "thread 1 (",
                                         "ProfilerStep#",
                                         "aten::",
                                         "Backward0",
                                         "torch/",
                                         "site-packages/",
                                         "nccl:",
                                         "cuda",
                                         "##",
                                         ".",
                                         ".."};
    size_t size = 0, count = next_random(seed) % 12;
    while (count-- > 0) {
        const char *piece = pieces[next_random(seed) % KB_COUNT(pieces)];
        size_t bytes = strlen(piece);
        if (size + bytes + 1 > room)
            break;
        memcpy(out + size, piece, bytes);
        size += bytes;
        if (next_random(seed) % 16 == 0)
            out[size++] = '\0';
    }
    return size;
}

static void texts_of_any_form_are_survived(void **state)
{
    (void)state;
    char text[1024];
    uint64_t seed = 7;
    for (uint32_t round = 0; round < 60; round++) {
        kt_builder *b = builder();
        for (uint32_t i = 0; i < 200; i++) {
            size_t size = random_text(&seed, text, sizeof text);
            kt_args_put_string(b, kt_string(b, (kineto_string){text, size}),
                               (kineto_string){text, size});
            kt_args_put_string(b, kt_string(b, kb_string("Call stack")),
                               (kineto_string){text, size});
            named(b, i % KINETO_KIND_COUNT, (kineto_string){text, size});
        }
        kineto_trace *t = finish(b);
        kineto_trace *after =
            scrub(t, (kineto_scrub){.what = round % 2 ? (uint32_t)(1 + next_random(&seed) % 511)
                                                      : KINETO_SCRUB_ALL,
                                    .keep = round % 7 ? NULL : "^no"});
        assert_int_equal(kineto_trace_count(after), 200);
        kineto_trace_release(after);
        kineto_trace_release(t);
    }
}

static void no_place_in_a_form_lets_a_secret_through(void **state)
{
    (void)state;
    char text[1024];
    uint64_t seed = 11;
    kt_builder *b = builder();
    uint32_t rows = 0;
    while (rows < 4000) {
        size_t size = random_text(&seed, text, sizeof text);
        kineto_string s = {text, size};
        /* Below what is public, everything is; and capital letters make it generated code. */
        if (memmem(text, size, "torch/", 6) || memmem(text, size, "aten::", 6) ||
            memmem(text, size, "at::", 4) || memmem(text, size, "site-packages/", 14))
            continue;
        kt_args_put_string(b, kt_string(b, s), s);
        kt_args_put_string(b, kt_string(b, kb_string("Call stack")), s);
        kt_args_put_string(b, kt_string(b, kb_string("kernel")), s);
        named(b, rows++ % KINETO_KIND_COUNT, s);
    }
    kineto_trace *t = finish(b), *after = scrub(t, (kineto_scrub){0});
    assert_no_secret(after);
    kineto_trace_release(after);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_byte_of_a_secret_is_left),
        cmocka_unit_test(arguments_keep_their_types_and_public_words),
        cmocka_unit_test(names_keep_their_form),
        cmocka_unit_test(annotations_of_host_and_device_have_the_same_pseudonym),
        cmocka_unit_test(what_is_not_asked_for_stays_but_for_paths_and_machines),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(texts_of_any_form_are_survived),
        cmocka_unit_test(no_place_in_a_form_lets_a_secret_through),
    };
    return RUN_TESTS(tests);
}
