/* Rules for names of kernels. With --classify [RULES]: names from stdin, one a line, to classes. */
#include "unit.h"

#include "analyze/classes/classes_rules.h"
#include "analyze/compat/compat.h"

/* ---- the table of names: of real traces, and of libraries ------------------------------------ */

typedef struct name_row {
    const char *expected; /* type family precision tensor library */
    const char *name;
} name_row;

static const name_row names[] = {
#include "kernel_names.def"
};

static ka_rules *make(const char *path)
{
    ka_rules *rules;
    kineto_error err = {.code = KINETO_OK};
    if (ka_rules_create(path, &rules, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return rules;
}

static ka_class kernel(const ka_rules *rules, const char *name)
{
    return ka_classify(rules, KINETO_KIND_CONCURRENT_KERNEL, kb_string(name));
}

static void print_class(ka_class c, const char *between, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s%s%s%s%s%s%s", ka_type_name(c.type), between,
             ka_family_name(c.family), between, ka_precision_name(c.precision), between,
             ka_tensor_name(c.tensor), between, ka_library_name(c.library));
}

static void names_have_their_class(void **state)
{
    ka_rules *rules = make(NULL);
    char text[200];
    unsigned wrong = 0;
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        print_class(kernel(rules, names[i].name), " ", text, sizeof text);
        if (strcmp(text, names[i].expected) == 0)
            continue;
        print_error("%s\n  is      %s\n  but was %s\n", names[i].name, names[i].expected, text);
        wrong++;
    }
    ka_rules_free(rules);
    assert_int_equal(wrong, 0);
    (void)state;
}

/* Profilers of some versions do not demangle. */
static void mangled_names_have_the_class_of_demangled_ones(void **state)
{
    static const char *const pairs[][2] = {
        {"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_"
         "7MeanOpsIffffEEjfLi4ELi4EEEEEvT1_",
         "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
         "at::native::MeanOps<float"
         ", float, float, float>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float>)"},
        {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_"
         "addIN3c108BFloat16EEEEviT0_",
         "void at::native::vectorized_elementwise_kernel<4, "
         "at::native::CUDAFunctor_add<c10::BFloat16>"
         " >(int)"},
        {"_ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_"
         "traitsILi64ELi128ELi128ELi4ELb0ELb0EN7"
         "cutlass6half_tEEEEvNS_16Flash_fwd_paramsE",
         "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, "
         "false, "
         "cutlass::half_t> >(pytorch_flash::Flash_fwd_params)"},
        {"_Z37ncclDevKernel_AllReduce_Sum_f16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
         "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"},
        {"_ZN4vllm26cross_device_reduce_1stageI6__halfLi4EEEvPNS_8RankDataENS_11RankSignalsE",
         "void vllm::cross_device_reduce_1stage<__half, 4>(vllm::RankData*, vllm::RankSignals)"},
    };
    ka_rules *rules = make(NULL);
    for (size_t i = 0; i < KB_COUNT(pairs); i++) {
        ka_class mangled = kernel(rules, pairs[i][0]), plain = kernel(rules, pairs[i][1]);
        assert_memory_equal(&mangled, &plain, sizeof plain);
        assert_int_not_equal(plain.family, KA_FAMILY_UNKNOWN);
    }
    ka_rules_free(rules);
    (void)state;
}

/* Template arguments of a kernel name what it is given, not where it is from. */
static void words_of_libraries_in_template_arguments_are_not_the_kernel(void **state)
{
    static const char *const words[] = {
        "type_specialized_broadcast_kernel_launcher<0>::apply", "ncclKernel_AllReduce", "all_gather",
        "AllReduceFunctor", "reduce_scatter_plan", "all_to_all_index", "a2a_kernel", "nvshmem_ptr",
        "gloo::Buffer", "deep_ep::internode", "symmetric_memory::Handle", "kernel_barrier",
        "cross_device_reduce", "p2p_send", "multimem_ptr", "quickreduce", "userbuffers"};
    ka_rules *rules = make(NULL);
    for (size_t i = 0; i < KB_COUNT(words); i++) {
        char name[300];
        snprintf(name, sizeof name,
                 "void at::native::elementwise_kernel_manual_unroll<128, 4, at::native::%s"
                 "<float> >(int, at::native::%s)", words[i], words[i]);
        ka_class c = kernel(rules, name);
        if (c.type != KA_TYPE_COMPUTATION || c.library != KA_LIBRARY_ATEN)
            fail_msg("%s: %s of %s", name, ka_type_name(c.type), ka_library_name(c.library));
        snprintf(name, sizeof name,
                 "_ZN2at6native27unrolled_elementwise_kernelINS0_%zu%sILi4EEEEEviT_", strlen(words[i]),
                 words[i]);
        assert_int_equal(kernel(rules, name).type, KA_TYPE_COMPUTATION);
    }
    ka_rules_free(rules);
    (void)state;
}

static void own_names_are_found_and_their_words(void **state)
{
    static const char *const pairs[][2] = {
        {"void a::b<c::d<int>, e>(f::g)", "a::b"},
        {"void at::native::(anonymous namespace)::cat<int>(int)",
         "at::native::(anonymous namespace)::cat"},
        {"std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(P)",
         "internal::gemvx::kernel"},
        {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"},
        {"_ZN4vllm26cross_device_reduce_1stageI6__halfLi4EEEvP", "4vllm26cross_device_reduce_1stage"},
        {"_Z5sgemmPf", "5sgemm"}, {"_Z", "_Z"}, {"_Z9999999999999999999a", "9999999999999999999a"},
        {"void ", "void "}, {"(", "("}, {"<", "<"}, {"", ""}};
    for (size_t i = 0; i < KB_COUNT(pairs); i++) {
        kineto_string own = ka_own_name(kb_string(pairs[i][0]));
        if (!kb_string_equal(own, kb_string(pairs[i][1])))
            fail_msg("%s: '%.*s'", pairs[i][0], (int)own.size, own.data);
    }
    kineto_string words = kb_string("NCCLAllReduce_f32");
    static const size_t edges[] = {0, 4, 7, 13, 14, 15, 17};
    for (size_t at = 0, next = 0; at <= words.size; at++) {
        bool is = next < KB_COUNT(edges) && edges[next] == at;
        if (ka_word_edge(words, at) != is)
            fail_msg("at %zu", at);
        next += is;
    }
    (void)state;
}

static void the_kind_comes_before_the_name(void **state)
{
    ka_rules *rules = make(NULL);
    kineto_string nccl = kb_string("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    ka_class c = ka_classify(rules, KINETO_KIND_GPU_MEMCPY, nccl);
    assert_int_equal(c.type, KA_TYPE_MEMORY);
    assert_int_equal(c.family, KA_FAMILY_MEMCPY);
    c = ka_classify(rules, KINETO_KIND_GPU_MEMSET, kb_string("Memset (Device)"));
    assert_int_equal(c.family, KA_FAMILY_MEMSET);
    c = ka_classify(rules, KINETO_KIND_CUDA_SYNC, nccl);
    assert_int_equal(c.type, KA_TYPE_OTHER);
    c = ka_classify(rules, KINETO_KIND_COLLECTIVE_COMM, kb_string("x"));
    assert_int_equal(c.type, KA_TYPE_COMMUNICATION);
    c = ka_classify(rules, KINETO_KIND_RUNTIME, nccl);
    assert_int_equal(c.type, KA_TYPE_OTHER);
    assert_int_equal(c.family, KA_FAMILY_UNKNOWN);
    ka_rules_free(rules);
    (void)state;
}

static void an_unknown_kernel_computes_and_other_work_does_not(void **state)
{
    ka_rules *rules = make(NULL);
    assert_int_equal(kernel(rules, "zzz").type, KA_TYPE_COMPUTATION);
    assert_int_equal(kernel(rules, "").type, KA_TYPE_COMPUTATION);
    ka_class c = ka_classify(rules, KINETO_KIND_OWN_FIRST, kb_string("zzz"));
    assert_int_equal(c.type, KA_TYPE_OTHER);
    c = ka_classify(rules, KINETO_KIND_OWN_FIRST + 3, kb_string("volta_sgemm_128x64_nn"));
    assert_int_equal(c.type, KA_TYPE_COMPUTATION);
    assert_int_equal(c.family, KA_FAMILY_GEMM);
    ka_rules_free(rules);
    (void)state;
}

static void hta_types_follow_its_patterns_and_their_quirks(void **state)
{
    static const struct {
        const char *name;
        ka_type type;
    } rows[] = {
        {"ncclKernel_AllReduce", KA_TYPE_COMMUNICATION},
        {"void x::ncclKernel_y", KA_TYPE_COMMUNICATION},
        {"void x::ncclDevKernel_y", KA_TYPE_COMPUTATION},
        {"hipMemcpyAsync", KA_TYPE_COMMUNICATION}, /* as everything of HIP */
        {"hccl_x", KA_TYPE_COMMUNICATION},
        {"rcclKernel", KA_TYPE_COMPUTATION},
        {"Memcpy DtoH (Device -> Pageable)", KA_TYPE_MEMORY},
        {"Memset (Device)", KA_TYPE_MEMORY},
        {"dma_request", KA_TYPE_MEMORY},
        {"x dma", KA_TYPE_OTHER},
        {"void adma_kernel<float>", KA_TYPE_OTHER},
        {"x\ndma", KA_TYPE_COMPUTATION}, /* .* ends with the line */
        {"x\nncclKernel", KA_TYPE_COMPUTATION},
        {"myMemcpyKernel", KA_TYPE_OTHER},
        {"Event Sync", KA_TYPE_OTHER},
        {"void SyncBatchNorm<float>", KA_TYPE_OTHER},
        {"Stream Wait Event", KA_TYPE_OTHER},
        {"cudaLaunchKernel", KA_TYPE_OTHER},
        {"cudaXyzLaunchKernelExC", KA_TYPE_OTHER},
        {"x cudaLaunchKernel", KA_TYPE_COMPUTATION},
        {"cuda", KA_TYPE_COMPUTATION},
        {"runFunction - x", KA_TYPE_OTHER},
        {"job_exe", KA_TYPE_OTHER},
        {"packet", KA_TYPE_OTHER},
        {"pe_exe", KA_TYPE_OTHER},
        {"cpum_exe_subgraph", KA_TYPE_OTHER},
        {"collective_subgraph_execution", KA_TYPE_OTHER},
        {"event_wait", KA_TYPE_COMPUTATION},
        {"volta_sgemm_32x128_nn", KA_TYPE_COMPUTATION},
        {"", KA_TYPE_COMPUTATION},
    };
    for (size_t i = 0; i < KB_COUNT(rows); i++)
        if (ka_type_hta(kb_string(rows[i].name)) != rows[i].type)
            fail_msg("'%s' is not %s", rows[i].name, ka_type_name(rows[i].type));
    assert_int_equal(ka_type_hta((kineto_string){NULL, 0}), KA_TYPE_COMPUTATION);
    (void)state;
}

/* ---- rules of the user ----------------------------------------------------------------------- */

static char path[600];

static const char *rules_file(const char *text, size_t size)
{
    char directory[500];
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/rules", directory);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    fclose(f);
    return path;
}

static void remove_rules_file(void)
{
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

static ka_rules *user_rules(const char *text)
{
    ka_rules *rules = make(rules_file(text, strlen(text)));
    remove_rules_file();
    return rules;
}

static void rules_of_the_user_come_first_attribute_by_attribute(void **state)
{
    ka_rules *rules = user_rules("# ours\n\n"
                                 "family=attention : volta_sgemm\r\n"
                                 "  type=communication  library=oneccl : my_ring*_step  \n"
                                 "family=collective type=other : spin");
    ka_class c = kernel(rules, "volta_sgemm_128x64_nn");
    assert_int_equal(c.family, KA_FAMILY_ATTENTION);
    assert_int_equal(c.type, KA_TYPE_COMPUTATION);
    assert_int_equal(c.precision, KA_PRECISION_FP32);
    assert_int_equal(c.library, KA_LIBRARY_CUBLAS);
    c = kernel(rules, "my_ring_3_step");
    assert_int_equal(c.type, KA_TYPE_COMMUNICATION);
    assert_int_equal(c.library, KA_LIBRARY_ONECCL);
    c = kernel(rules, "a spinner");
    assert_int_equal(c.type, KA_TYPE_OTHER);
    assert_int_equal(c.family, KA_FAMILY_COLLECTIVE);
    ka_rules_free(rules);
    (void)state;
}

static bool is_loss(const ka_rules *rules, const char *name)
{
    return kernel(rules, name).family == KA_FAMILY_LOSS;
}

static void patterns_are_parts_with_stars_anchors_and_any_case(void **state)
{
    ka_rules *rules = user_rules("family=loss : ^qq_start | qq_end$ | ^qq_all$ | ^qqa*qqb*qqc$ | "
                                 "~QqAnyCase | qq\\*star | \\^qqhat | qqd$*qqe | ^q | qqback\\\\ | "
                                 "qqmoney\\$ | ~^QQ*Z$ | *qqpart | @qqown | @qqopen*");
    static const char *const good[] = {"qq_startling",    "a qq_end",    "qq_all",     "qqaqqbqqc",
                                       "qqa-qqb-qqb-qqc", "x QQANYCASE", "x qq*star",  "x ^qqhat",
                                       "x qqd$ x qqe",    "quick",       "x qqback\\", "x qqmoney$",
                                       "Qq -- z",         "xqqpart",       "void a::qqown<int>(int)",
                                       "a_qqopened<b>",   "b2qqstep_qqown_"};
    static const char *const bad[] = {"x qq_start", "x qq_end x", "x qq_all",   "x qqaqqbqqc",
                                      "x qqstar",   "x qqhat",    "x qqe qqd$", "x qqback",
                                      "x qqmoney",  "x qqqz",    "xqqAnyCase", "void a::b<qqown>(qqown)",
                                 "a_qqowned",  "a_xqqopen", "_ZN1a1bI5qqownEv"};
    for (size_t i = 0; i < KB_COUNT(good); i++)
        if (!is_loss(rules, good[i]))
            fail_msg("'%s' should match", good[i]);
    for (size_t i = 0; i < KB_COUNT(bad); i++)
        if (is_loss(rules, bad[i]))
            fail_msg("'%s' should not match", bad[i]);
    ka_rules_free(rules);
    (void)state;
}

/* The plainest way to say what a pattern means. */
static bool slowly(const char *pattern, const char *name)
{
    if (*pattern == '*')
        return slowly(pattern + 1, name) || (*name && slowly(pattern, name + 1));
    if (!*pattern || !*name)
        return !*pattern && !*name;
    return *pattern == *name && slowly(pattern + 1, name + 1);
}

static void random_text(uint64_t *random, char *text, size_t most, const char *letters)
{
    size_t size = next_random(random) % most + 1;
    for (size_t i = 0; i < size; i++)
        text[i] = letters[next_random(random) % strlen(letters)];
    text[size] = '\0';
}

static void patterns_match_what_a_slow_look_says(void **state)
{
    uint64_t random = 7;
    for (int round = 0; round < 150; round++) {
        char pattern[16], all[20], line[100], name[40];
        random_text(&random, pattern, 12, "1122*");
        bool from_start = next_random(&random) % 3 == 0, to_end = next_random(&random) % 3 == 0;
        if (strspn(pattern, "*") == strlen(pattern))
            continue;
        snprintf(all, sizeof all, "%s%s%s", from_start ? "" : "*", pattern, to_end ? "" : "*");
        snprintf(line, sizeof line, "family=loss : %s%s%s", from_start ? "^" : "*", pattern,
                 to_end ? "$" : "");
        ka_rules *rules = user_rules(line);
        for (int i = 0; i < 300; i++) {
            random_text(&random, name, 24, "12");
            if (is_loss(rules, name) != slowly(all, name))
                fail_msg("%s and '%s'", line, name);
        }
        ka_rules_free(rules);
    }
    (void)state;
}

static void check_error(const char *file, size_t size, kineto_status status, const char *words)
{
    ka_rules *rules;
    kineto_error err = {.code = KINETO_OK};
    assert_int_equal(ka_rules_create(rules_file(file, size), &rules, &err), status);
    assert_null(rules);
    if (!strstr(err.message, words))
        fail_msg("'%s' is not in: %s", words, err.message);
    assert_int_equal(ka_rules_create(path, &rules, NULL), status);
    remove_rules_file();
}

static void a_bad_line_is_named_with_its_file(void **state)
{
    static const char *const rows[][2] = {
        {"# x\nfamliy=gemm : x", "/rules:2: unknown attribute 'famliy=gemm'"},
        {"family=gem : x\n", "/rules:1: unknown value 'family=gem'; known are: unknown gemm"},
        {"family=gemm x\n", "/rules:1: no ' : ' in 'family=gemm x'"},
        {"\n\nfamily=gemm : x |  | y", "/rules:3: no text in the pattern ''"},
        {"family=gemm : ^$", "no text in the pattern '^$'"},
        {"family=gemm : *", "it would match every name"},
        {"family : x", "unknown value 'family'; known are"},
        {"tensor= : x", "unknown value 'tensor='; known are: unknown no yes"},
    };
    for (size_t i = 0; i < KB_COUNT(rows); i++)
        check_error(rows[i][0], strlen(rows[i][0]), KINETO_E_FORMAT, rows[i][1]);
    (void)state;
}

static void too_much_is_refused(void **state)
{
    size_t size = 2u << 20;
    char *text = malloc(size);
    memset(text, '#', size);
    check_error(text, size, KINETO_E_LIMIT, "1 MiB");
    size_t used = 0;
    for (int i = 0; i < 5000; i++)
        used += (size_t)snprintf(text + used, size - used, "family=gemm : x%d\n", i);
    check_error(text, used, KINETO_E_LIMIT, "/rules:4097: more than 4096 patterns");
    /* A file that leaves too little room for the built-in ones. */
    used = (size_t)(strstr(text, "x4000\n") + 6 - text);
    check_error(text, used, KINETO_E_LIMIT, "/rules: 4001 patterns and those that are built in");
    free(text);
    (void)state;
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    ka_rules *rules;
    kineto_error err = {.code = KINETO_OK};
    assert_int_not_equal(ka_rules_create("/nowhere/rules", &rules, &err), KINETO_OK);
    assert_non_null(strstr(err.message, "/nowhere/rules"));
    assert_int_not_equal(ka_rules_create("/", &rules, &err), KINETO_OK);
    assert_null(rules);
    ka_rules_free(NULL);
    (void)state;
}

/* ---- unusual names --------------------------------------------------------------- */

static void every_prefix_of_a_name_has_a_class(void **state)
{
    ka_rules *rules = make(NULL);
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        size_t size = strlen(names[i].name);
        for (size_t n = 0; n <= size; n++) {
            char *exact = malloc(n ? n : 1); /* so that a byte too far is found */
            memcpy(exact, names[i].name + (size - n), n);
            ka_class c =
                ka_classify(rules, KINETO_KIND_CONCURRENT_KERNEL, (kineto_string){exact, n});
            assert_true(c.type < KA_TYPE_COUNT && c.family < KA_FAMILY_COUNT);
            ka_type_hta((kineto_string){exact, n});
            free(exact);
        }
    }
    ka_rules_free(rules);
    (void)state;
}

static void long_names_and_any_bytes_are_fine(void **state)
{
    static const char *const parts[] = {
        "gemm", "ncclKernel", "at::native",         "float*",          "deep_ep",
        "dma",  "Cijk_",      "multi_tensor_apply", "\xff\x01\xfe\x80"};
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    size_t size = 64u << 10;
#else
    size_t size = 4u << 20;
#endif
    char *name = malloc(size);
    ka_rules *rules = make(NULL);
    uint64_t random = 3;
    for (size_t p = 0; p < KB_COUNT(parts); p++) {
        for (size_t i = 0; i < size; i++)
            name[i] = parts[p][i % strlen(parts[p])];
        ka_classify(rules, KINETO_KIND_CONCURRENT_KERNEL, (kineto_string){name, size});
        ka_type_hta((kineto_string){name, size});
    }
    for (size_t i = 0; i < size; i++)
        name[i] = (char)next_random(&random);
    ka_classify(rules, KINETO_KIND_CONCURRENT_KERNEL, (kineto_string){name, size});
    ka_classify(rules, KINETO_KIND_CONCURRENT_KERNEL, (kineto_string){NULL, 0});
    ka_rules_free(rules);
    free(name);
    (void)state;
}

static void every_number_has_a_word_and_no_two_have_the_same(void **state)
{
    for (uint32_t i = 0; i < KA_FAMILY_COUNT; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(ka_family_name(i), ka_family_name(j));
    for (uint32_t i = 0; i < KA_LIBRARY_COUNT; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(ka_library_name(i), ka_library_name(j));
    assert_string_equal(ka_type_name(KA_TYPE_MEMORY), "memory");
    assert_string_equal(ka_precision_name(KA_PRECISION_TF32), "tf32");
    assert_string_equal(ka_tensor_name(KA_TENSOR_YES), "yes");
    assert_string_equal(ka_type_name(KA_TYPE_COUNT), "unknown");
    assert_string_equal(ka_library_name(UINT32_MAX), "unknown");
    (void)state;
}

static void expect_word(const char *page, const char *word)
{
    char quoted[60];
    snprintf(quoted, sizeof quoted, "`%s`", word);
    if (!strstr(page, quoted))
        fail_msg("docs/reference/kernel-rules.md does not have %s", quoted);
}

static void the_page_about_rules_has_every_word(void **state)
{
    static char page[65536];
    assert_true(read_whole(CKINETO_SOURCE_DIR "/docs/reference/kernel-rules.md", page, sizeof page) > 0);
    for (uint32_t i = 0; i < KA_TYPE_COUNT; i++)
        expect_word(page, ka_type_name(i));
    for (uint32_t i = 0; i < KA_FAMILY_COUNT; i++)
        expect_word(page, ka_family_name(i));
    for (uint32_t i = 0; i < KA_PRECISION_COUNT; i++)
        expect_word(page, ka_precision_name(i));
    for (uint32_t i = 0; i < KA_LIBRARY_COUNT; i++)
        expect_word(page, ka_library_name(i));
    (void)state;
}

static int classify_input(const char *rules_path)
{
    char *line = NULL, text[200];
    size_t room = 0;
    ssize_t size;
    ka_rules *rules;
    kineto_error err = {.code = KINETO_OK};
    if (ka_rules_create(rules_path, &rules, &err) != KINETO_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    while ((size = getline(&line, &room, stdin)) > 0) {
        kineto_string name = {line, (size_t)size - (line[size - 1] == '\n')};
        print_class(ka_classify(rules, KINETO_KIND_CONCURRENT_KERNEL, name), "\t", text,
                    sizeof text);
        printf("%s\t%s\n", text, ka_type_name(ka_type_hta(name)));
    }
    free(line);
    ka_rules_free(rules);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--classify") == 0)
        return classify_input(argc > 2 ? argv[2] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_their_class),
        cmocka_unit_test(mangled_names_have_the_class_of_demangled_ones),
        cmocka_unit_test(words_of_libraries_in_template_arguments_are_not_the_kernel),
        cmocka_unit_test(own_names_are_found_and_their_words),
        cmocka_unit_test(the_kind_comes_before_the_name),
        cmocka_unit_test(an_unknown_kernel_computes_and_other_work_does_not),
        cmocka_unit_test(hta_types_follow_its_patterns_and_their_quirks),
        cmocka_unit_test(rules_of_the_user_come_first_attribute_by_attribute),
        cmocka_unit_test(patterns_are_parts_with_stars_anchors_and_any_case),
        cmocka_unit_test(patterns_match_what_a_slow_look_says),
        cmocka_unit_test(a_bad_line_is_named_with_its_file),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
        cmocka_unit_test(every_prefix_of_a_name_has_a_class),
        cmocka_unit_test(long_names_and_any_bytes_are_fine),
        cmocka_unit_test(every_number_has_a_word_and_no_two_have_the_same),
        cmocka_unit_test(the_page_about_rules_has_every_word),
    };
    return RUN_TESTS(tests);
}
