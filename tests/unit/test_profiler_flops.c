/* FLOPs: every formula against numbers worked out by hand, inputs that do not say it, functions of
 * users, and convolutions that only what is around them tells of. */
#include "analyze/summary/flops.h"
#include "building.h"

/* One call as a trace has it; what is counted, or UNUSABLE, or UNKNOWN. */
typedef struct call {
    const char *op, *dims, *concrete;
    uint64_t expected;
} call;
#define UNUSABLE (UINT64_MAX - 1)
#define UNKNOWN  (UINT64_MAX - 2)

static kineto_row add_call(kt_builder *b, const call *c, int64_t start_ns, int64_t end_ns)
{
    kt_row row = {.start_ns = start_ns, .end_ns = end_ns, .kind = KINETO_KIND_CPU_OP};
    row.track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    row.name = kt_string(b, kb_string(c->op));
    if (c->dims)
        kt_args_put_json(b, kt_string(b, kb_string("Input Dims")), KINETO_ARG_SHAPES,
                         kb_string(c->dims));
    if (c->concrete)
        kt_args_put_json(b, kt_string(b, kb_string("Concrete Inputs")), KINETO_ARG_STRINGS,
                         kb_string(c->concrete));
    return kt_append(b, &row);
}

static void check_calls(const call *calls, size_t count)
{
    kt_builder *b = builder();
    for (size_t i = 0; i < count; i++)
        add_call(b, &calls[i], (int64_t)(10 * i), (int64_t)(10 * i + 5));
    kineto_trace *t = finish(b);
    for (size_t i = 0; i < count; i++) {
        uint64_t flops = 1;
        ka_flops_result answer = ka_flops_row(t, (kineto_row)i, &flops);
        uint64_t expected = calls[i].expected;
        ka_flops_result right = expected == UNKNOWN    ? KA_FLOPS_UNKNOWN
                                : expected == UNUSABLE ? KA_FLOPS_UNUSABLE
                                                       : KA_FLOPS_COUNTED;
        if (answer != right || flops != (right == KA_FLOPS_COUNTED ? expected : 0))
            fail_msg("%zu: %s %s %s: %llu (answer %d), not %llu", i, calls[i].op,
                     calls[i].dims ? calls[i].dims : "-",
                     calls[i].concrete ? calls[i].concrete : "-", (unsigned long long)flops, answer,
                     (unsigned long long)expected);
        assert_int_equal(ka_flops(t, (kineto_row)i, &flops), right == KA_FLOPS_COUNTED);
    }
    kineto_trace_release(t);
}

static void products_of_matrices_are_two_m_n_k(void **state)
{
    (void)state;
    static const call calls[] = {
        {"aten::mm", "[[16,32],[32,8]]", "[\"\",\"\"]", 8192},    /* 2*16*32*8 */
        {"aten::mm", "[ [\"16\" ,\t32] ,\n[32,8] ]", NULL, 8192}, /* the same, spelled otherwise */
        {"aten::mm", "[[1,1],[1,1]]", NULL, 2},                   /* 2*1*1*1 */
        {"aten::mm", "[[0,32],[32,8]]", NULL, 0},                 /* no rows */
        {"aten::mm", "[[16,0],[0,8]]", NULL, 0},                  /* nothing to add up */
        {"aten::_int_mm", "[[2,3],[3,4]]", NULL, 48},             /* 2*2*3*4 */
        {"aten::addmm", "[[16],[4,8],[8,16],[],[]]", "[\"\",\"\",\"\",\"1\",\"1\"]",
         1024},                                               /* 2*4*8*16 */
        {"aten::addmm", "[[4,16],[4,8],[8,16]]", NULL, 1024}, /* the sum is left out */
        {"aten::addmm_", "[[2,2],[2,5],[5,2]]", NULL, 40},    /* 2*2*5*2 */
        {"aten::_addmm_activation", "[[16],[4,8],[8,16]]", NULL, 1024},
        {"aten::bmm", "[[10,3,4],[10,4,5]]", NULL, 1200}, /* 2*10*3*4*5 */
        {"aten::baddbmm", "[[10,3,5],[10,3,4],[10,4,5],[],[]]", NULL, 1200},
        {"aten::baddbmm_", "[[1,3,5],[10,3,4],[10,4,5]]", NULL, 1200},
        {"aten::addbmm", "[[3,5],[10,3,4],[10,4,5]]", NULL, 1200}, /* as bmm, summed */
        {"aten::mv", "[[6,7],[7]]", NULL, 84},                     /* 2*6*7 */
        {"aten::addmv", "[[6],[6,7],[7],[],[]]", NULL, 84},
        {"aten::dot", "[[100],[100]]", NULL, 200}, /* 2*100 */
        {"aten::vdot", "[[3],[3]]", NULL, 6},
        {"aten::mm.out", "[[16,32],[32,8],[16,8]]", NULL, 8192}, /* an overload */
    };
    check_calls(calls, KB_COUNT(calls));
}

static void matmul_has_vectors_and_batches_that_broadcast(void **state)
{
    (void)state;
    static const call calls[] = {
        {"aten::matmul", "[[9],[9]]", NULL, 18},         /* 2*9 */
        {"aten::matmul", "[[5,9],[9]]", NULL, 90},       /* 2*5*9 */
        {"aten::matmul", "[[9],[9,4]]", NULL, 72},       /* 2*9*4 */
        {"aten::matmul", "[[5,9],[9,4]]", NULL, 360},    /* 2*5*9*4 */
        {"aten::matmul", "[[7,5,9],[9,4]]", NULL, 2520}, /* 7 of these */
        {"aten::matmul", "[[5,9],[7,9,4]]", NULL, 2520},
        {"aten::matmul", "[[7,5,9],[7,9,4]]", NULL, 2520},
        {"aten::matmul", "[[2,1,5,9],[7,9,4]]", NULL, 5040}, /* batch 2x7 */
        {"aten::matmul", "[[2,1,5,9],[1,7,9,4]]", NULL, 5040},
        {"aten::matmul", "[[9],[7,9,4]]", NULL, 504},                /* 7 * 2*9*4 */
        {"aten::matmul", "[[7,5,9],[9]]", NULL, 630},                /* 7 * 2*5*9 */
        {"aten::matmul", "[[1024,96,50],[50,15]]", NULL, 147456000}, /* 1024 * 2*96*50*15 */
        {"aten::matmul", "[[0,5,9],[9,4]]", NULL, 0},
        {"aten::linear", "[[4,8],[16,8],[16]]", NULL, 1024}, /* 2*4*8*16 */
        {"aten::linear", "[[2,3,8],[16,8],[]]", NULL, 1536}, /* 2*6*8*16 */
        {"aten::linear", "[[8],[16,8]]", NULL, 256},         /* 2*8*16 */
        {"aten::linear", "[[4,8],[8]]", NULL, 64},           /* 2*4*8*1 */
    };
    check_calls(calls, KB_COUNT(calls));
}

static void sums_count_what_they_broadcast_to(void **state)
{
    (void)state;
    static const call calls[] = {
        {"aten::add", "[[16,8],[],[]]", "[\"\",\"\",\"1\"]", 128}, /* 16*8 */
        {"aten::add", "[[8],[16,1],[]]", NULL, 128},               /* [16,8], not 8 */
        {"aten::add", "[[],[]]", NULL, 1},
        {"aten::add_", "[[16,8],[16,8],[]]", NULL, 128},
        {"aten::sub", "[[3,1,5],[4,1]]", NULL, 60},                /* [3,4,5] */
        {"aten::mul", "[[128,2862],[],[128,2862]]", NULL, 366336}, /* the third is the output */
        {"aten::mul", "[[1,7],[5,1]]", NULL, 35},
        {"aten::mul", "[[0],[1]]", NULL, 0},
        {"aten::mul_", "[[4096],[4096]]", NULL, 4096},
        {"aten::div", "[[2,2],[2]]", NULL, 4},
        {"aten::div_", "[[45310188],[]]", NULL, 45310188},
        {"aten::rsub", "[[6],[]]", NULL, 6},
        {"aten::add.Tensor", "[[8],[16,1],[]]", NULL, 128},
        {"aten::add", "[[3],[4]]", NULL, UNUSABLE},           /* do not broadcast */
        {"aten::add", "[[[1,2],[3,2]],[2]]", NULL, UNUSABLE}, /* a list of tensors */
    };
    check_calls(calls, KB_COUNT(calls));
}

#define PLAIN "[\"\",\"\",\"\",\"[1, 1]\",\"[0, 0]\",\"[1, 1]\",\"1\"]"

static void convolutions_follow_stride_padding_dilation_and_groups(void **state)
{
    (void)state;
    static const call calls[] = {
        /* ResNet's first: 112 x 112 out of 224 (224+6-6-1)/2+1; 2 * 32*112*112 * 64*3*7*7 */
        {"aten::conv2d", "[[32,3,224,224],[64,3,7,7],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[2, 2]\",\"[3, 3]\",\"[1, 1]\",\"1\"]", 7552892928},
        /* 3x3 out of 5x5: 2 * 9 * 1*1*3*3 */
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]", PLAIN, 162},
        /* without a batch */
        {"aten::conv2d", "[[1,5,5],[1,1,3,3],[],[],[],[],[]]", PLAIN, 162},
        /* nothing is stated but the tensors: stride 1, no padding */
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[1]]", "[\"\",\"\",\"\"]", 162},
        /* dilation 2: a kernel as wide as 5, 1x1 out; 2 * 9 */
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"[0, 0]\",\"[2, 2]\",\"1\"]", 18},
        /* 4 groups of 2 channels: 8 outputs of 2*3*3; 3x3 out; 2 * 9 * 8*2*9 */
        {"aten::conv2d", "[[1,8,5,5],[8,2,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"[0, 0]\",\"[1, 1]\",\"4\"]", 2592},
        /* different in height and width: (8-3)/2+1 = 3, 9+2-2+1 = 10; 2 * 30 * 2*1*3*2 */
        {"aten::conv2d", "[[1,1,8,9],[2,1,3,2],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[2, 1]\",\"[0, 1]\",\"[1, 1]\",\"1\"]", 720},
        /* one number stands for both */
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"1\",\"[1]\",\"1\",\"1\"]", 450}, /* 5x5 out: 2*25*9 */
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"same\",\"[1, 1]\",\"1\"]", 450},
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"valid\",\"[1, 1]\",\"1\"]", 162},
        /* 10-3+1 = 8 out: 2 * 2*8 * 6*4*3 */
        {"aten::conv1d", "[[2,4,10],[6,4,3],[6],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1]\",\"[0]\",\"[1]\",\"1\"]", 2304},
        /* 3x3x3 out: 2 * 27 * 2*1*8 */
        {"aten::conv3d", "[[1,1,4,4,4],[2,1,2,2,2],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1, 1]\",\"[0, 0, 0]\",\"[1, 1, 1]\",\"1\"]", 864},
        {"aten::convolution", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"[0, 0]\",\"[1, 1]\",\"False\",\"[0, 0]\",\"1\"]", 162},
        /* transposed, weight [in, out, k, k]: every input element takes a kernel: 2 * 25 * 2*3*9 */
        {"aten::convolution", "[[1,2,5,5],[2,3,3,3],[],[],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"[0, 0]\",\"[1, 1]\",\"True\",\"[0, 0]\",\"1\"]", 2700},
        {"aten::_convolution", "[[1,2,5,5],[2,3,3,3],[],[],[],[],[],[],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"[0, 0]\",\"[1, 1]\",\"True\",\"[0, 0]\",\"1\",\"False\","
         "\"False\",\"True\",\"True\"]",
         2700},
        {"aten::conv_transpose2d", "[[1,2,5,5],[2,3,3,3]]", NULL, 2700},
        {"aten::conv_transpose1d", "[[4,2,5],[2,3,3]]", NULL, 720}, /* 2 * 4*5 * 2*3*3 */
        /* padding before stride: (5+2-3)/2+1 = 3; 2 * 9 * 9 */
        {"aten::mkldnn_convolution", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"[2, 2]\",\"[1, 1]\",\"1\"]", 162},
        {"aten::cudnn_convolution", "[[1,1,5,5],[1,1,3,3],[],[],[],[]]",
         "[\"\",\"\",\"[1, 1]\",\"[2, 2]\",\"[1, 1]\",\"1\"]", 162},
        {"aten::_slow_conv2d_forward", "[[1,1,5,5],[1,1,3,3],[],[],[],[]]",
         "[\"\",\"\",\"[3, 3]\",\"\",\"[2, 2]\",\"[1, 1]\"]", 162},
        {"aten::conv2d", "[[0,1,5,5],[1,1,3,3],[],[],[],[],[]]", PLAIN, 0},
    };
    check_calls(calls, KB_COUNT(calls));
}

#define BACK(transposed, mask)                                                                     \
    "[\"\",\"\",\"\",\"[2]\",\"[2, 2]\",\"[0, 0]\",\"[1, 1]\",\"" transposed                       \
    "\",\"[0, 0]\",\"1\",\"" mask "\"]"

static void gradients_of_convolutions_count_what_the_mask_asks_for(void **state)
{
    (void)state;
    /* Forward: 4x4 out; 2 * 2*16 * 4*3*9 = 6912. */
    static const char dims[] = "[[2,4,4,4],[2,3,9,9],[4,3,3,3],[],[],[],[],[],[],[],[]]";
    /* Transposed forward: 9x9 in, [in 3, out 4]: 2 * 2*81 * 3*4*9 = 34992. */
    static const char transposed[] = "[[2,4,19,19],[2,3,9,9],[3,4,3,3],[],[],[],[],[],[],[],[]]";
    const call calls[] = {
        {"aten::convolution_backward", dims, BACK("False", "[True, True, True]"), 13824},
        {"aten::convolution_backward", dims, BACK("False", "[False, True, True]"), 6912},
        {"aten::convolution_backward", dims, BACK("False", "[True, False, False]"), 6912},
        {"aten::convolution_backward", dims, BACK("False", "[False, False, True]"), 0},
        {"aten::convolution_backward", dims, BACK("False", "[1, 1, 0]"), 13824},
        {"aten::convolution_backward", transposed, BACK("True", "[True, True, True]"), 69984},
        {"aten::convolution_backward", dims, BACK("False", ""), UNUSABLE},
        {"aten::convolution_backward", dims, BACK("", "[True, True, True]"), UNUSABLE},
        {"aten::convolution_backward", dims, NULL, UNUSABLE},
        {"aten::cudnn_convolution_backward_input", "[[],[2,4,4,4],[4,3,3,3],[],[],[],[]]", NULL,
         6912},
        {"aten::cudnn_convolution_backward_weight", "[[],[2,4,4,4],[2,3,9,9],[],[],[],[]]",
         "[\"[4, 3, 3, 3]\",\"\",\"\",\"[0, 0]\",\"[2, 2]\",\"[1, 1]\",\"1\"]", 6912},
        {"aten::cudnn_convolution_backward_weight", "[[],[2,4,4,4],[2,3,9,9],[],[],[],[]]", NULL,
         UNUSABLE},
    };
    check_calls(calls, KB_COUNT(calls));
}

static void attention_is_two_products_and_five_backwards(void **state)
{
    (void)state;
    static const call calls[] = {
        /* 2*3 heads, 5 x 7 scores, width 8, values 4: 2 * 6*35 * (8+4) */
        {"aten::scaled_dot_product_attention", "[[2,3,5,8],[2,3,7,8],[2,3,7,4],[],[],[]]", NULL,
         5040},
        {"aten::_scaled_dot_product_attention_math", "[[2,3,5,8],[2,3,7,8],[2,3,7,4]]", NULL, 5040},
        {"aten::_scaled_dot_product_flash_attention", "[[2,3,5,8],[2,3,7,8],[2,3,7,8]]", NULL,
         6720},
        {"aten::_scaled_dot_product_efficient_attention", "[[2,3,5,8],[2,3,7,8],[2,3,7,4],[]]",
         NULL, 5040},
        {"aten::_scaled_dot_product_flash_attention_for_cpu", "[[2,3,5,8],[2,3,7,8],[2,3,7,4]]",
         NULL, 5040},
        {"aten::scaled_dot_product_attention", "[[5,8],[7,8],[7,4]]", NULL, 840}, /* 2*35*12 */
        {"aten::scaled_dot_product_attention", "[[3,5,8],[3,7,8],[3,7,4]]", NULL, 2520},
        /* 8 heads share 2: 2 * 8*35 * 12 */
        {"aten::scaled_dot_product_attention", "[[1,8,5,8],[1,2,7,8],[1,2,7,4]]", NULL, 6720},
        /* 2*6*35 * (3*8 + 2*4) */
        {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
         "[[2,3,5,4],[2,3,5,8],[2,3,7,8],[2,3,7,4],[2,3,5,4]]", NULL, 13440},
        {"aten::_scaled_dot_product_efficient_attention_backward",
         "[[2,3,5,4],[2,3,5,8],[2,3,7,8],[2,3,7,4],[],[2,3,5,4]]", NULL, 13440},
        /* [batch, length, heads, width] */
        {"aten::_flash_attention_forward", "[[2,5,3,8],[2,7,3,8],[2,7,3,4],[],[]]", NULL, 5040},
        /* sequences of several lengths */
        {"aten::_flash_attention_forward", "[[2,5,3,8],[2,7,3,8],[2,7,3,4],[3],[3]]", NULL,
         UNUSABLE},
        {"aten::_efficient_attention_backward",
         "[[2,5,3,4],[2,5,3,8],[2,7,3,8],[2,7,3,4],[],[2,5,3,4],[]]", NULL, 13440},
        {"aten::scaled_dot_product_attention", "[[2,3,5,8],[2,3,7,9],[2,3,7,4]]", NULL, UNUSABLE},
        {"aten::scaled_dot_product_attention", "[[2,3,5,8],[2,3,7,8],[2,3,6,4]]", NULL, UNUSABLE},
        {"aten::scaled_dot_product_attention", "[[1,8,5,8],[1,3,7,8],[1,3,7,4]]", NULL, UNUSABLE},
    };
    check_calls(calls, KB_COUNT(calls));
}

static void inputs_that_do_not_say_it_are_unusable(void **state)
{
    (void)state;
    static const call calls[] = {
        {"aten::relu", "[[16,8]]", NULL, UNKNOWN},
        {"mm", "[[16,32],[32,8]]", NULL, UNKNOWN},
        {"", "[[16,32],[32,8]]", NULL, UNKNOWN},
        {"aten::", "[[1]]", NULL, UNKNOWN},
        {"aten::mm", NULL, NULL, UNUSABLE},
        {"aten::mm", "[]", NULL, UNUSABLE},
        {"aten::mm", "[[16,32]]", NULL, UNUSABLE},
        {"aten::mm", "[[16,32],[31,8]]", NULL, UNUSABLE},
        {"aten::mm", "[[16,32],[32]]", NULL, UNUSABLE},
        {"aten::mm", "[[-16,32],[32,8]]", NULL, UNUSABLE},
        {"aten::mm", "[[16,-1],[-1,8]]", NULL, UNUSABLE},
        {"aten::mm", "[[16.5,32],[32,8]]", NULL, UNUSABLE},
        {"aten::mm", "[[1e400,32],[32,8]]", NULL, UNUSABLE},
        {"aten::mm", "[[99999999999999999999,32],[32,8]]", NULL, UNUSABLE},
        {"aten::mm", "[[\"x16\",32],[32,8]]", NULL, UNUSABLE},
        {"aten::mm", "[null,[32,8]]", NULL, UNUSABLE},
        {"aten::mm", "{\"a\":1}", NULL, UNUSABLE},
        {"aten::mm", "7", NULL, UNUSABLE},
        {"aten::matmul", "[[],[3]]", NULL, UNUSABLE},
        {"aten::linear", "[[4,8],[16,9]]", NULL, UNUSABLE},
        {"aten::linear", "[[4,8],[2,16,8]]", NULL, UNUSABLE},
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]", NULL, UNUSABLE},
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[0, 0]\",\"[0, 0]\",\"[1, 1]\",\"1\"]", UNUSABLE},     /* stride 0 */
        {"aten::conv2d", "[[1,1,2,2],[1,1,3,3],[],[],[],[],[]]", PLAIN, UNUSABLE}, /* too small */
        {"aten::conv2d", "[[1,3,5,5],[1,2,3,3],[],[],[],[],[]]", PLAIN, UNUSABLE}, /* 3 in twos */
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1, 1]\",\"[0, 0]\",\"[1, 1]\",\"1\"]", UNUSABLE},
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1\",\"[0, 0]\",\"[1, 1]\",\"1\"]", UNUSABLE},
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, x]\",\"[0, 0]\",\"[1, 1]\",\"1\"]", UNUSABLE},
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"[9223372036854775807, 0]\",\"[1, 1]\",\"1\"]", UNUSABLE},
        {"aten::conv2d", "[[1,1,5,5],[1,1,3,3],[],[],[],[],[]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"[0, 0]\",\"[9223372036854775807, 1]\",\"1\"]", UNUSABLE},
        {"aten::conv2d", "[[5,5],[1,1]]", NULL, UNUSABLE},
        {"aten::conv2d", "[[1,0,5,5],[1,0,3,3],[],[],[],[],[]]", PLAIN, UNUSABLE},
        {"aten::convolution_backward", "[[1],[2]]", NULL, UNUSABLE},
        {"aten::scaled_dot_product_attention", "[[5],[7],[7]]", NULL, UNUSABLE},
    };
    check_calls(calls, KB_COUNT(calls));
}

static void too_much_stops_at_the_top(void **state)
{
    (void)state;
    static const call calls[] = {
        {"aten::mm", "[[4294967296,4294967296],[4294967296,2]]", NULL, UINT64_MAX},
        {"aten::mul", "[[9223372036854775807,3]]", NULL, UNUSABLE},
        {"aten::mul", "[[9223372036854775807,3],[]]", NULL, UINT64_MAX},
        {"aten::mul", "[[9223372036854775807,3,0],[]]", NULL, 0},
        {"aten::bmm", "[[9223372036854775807,9,9],[9223372036854775807,9,0]]", NULL, 0},
        {"aten::linear", "[[9223372036854775807,9],[9223372036854775807,9]]", NULL, UINT64_MAX},
        {"aten::scaled_dot_product_attention",
         "[[9223372036854775807,9,9],[9223372036854775807,9,9],[9223372036854775807,9,9]]", NULL,
         UINT64_MAX},
        {"aten::conv_transpose1d", "[[9223372036854775807,2,9223372036854775807],[2,3,3]]", NULL,
         UINT64_MAX},
    };
    check_calls(calls, KB_COUNT(calls));
}

static void very_many_inputs_and_sizes_are_no_danger(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    char *dims = malloc(MANY * 16), *at = dims;
    at += sprintf(at, "[[2,3],[3,4]");
    for (int i = 0; i < MANY; i++)
        at += sprintf(at, ",[%d,1]", i);
    strcpy(at, "]");
    call calls[] = {{"aten::mm", dims, dims, 48}, {"aten::mm", dims, NULL, 48}};
    check_calls(calls, 2);
    at = dims + sprintf(dims, "[[1");
    for (int i = 0; i < MANY; i++)
        at += sprintf(at, ",1");
    strcpy(at, "],[1,1]]");
    calls[0] = (call){"aten::mul", dims, NULL, UNUSABLE};
    check_calls(calls, 1);
    free(dims);
}

/* ---- users ----------------------------------------------------------------------------------- */

static kineto_flops_inputs seen;
static kineto_flops_input seen_first;
static bool seen_strides;

static bool count_rows_twice(const kineto_flops_inputs *in, uint64_t *flops, void *user)
{
    seen = *in;
    if (in->count) {
        seen_first = in->data[0];
        seen_strides = in->data[0].strides && in->data[0].strides[0] == 3;
    }
    assert_int_equal(kineto_flops_unregister("mine::op"), KINETO_E_STATE);
    assert_int_equal(kineto_flops_register("mine::op", count_rows_twice, NULL), KINETO_E_STATE);
    *flops = in->count && in->data[0].rank ? *(uint64_t *)user * (uint64_t)in->data[0].dims[0] : 7;
    return in->count > 0;
}

static void users_add_operators_and_take_them_back(void **state)
{
    (void)state;
    uint64_t factor = 2, flops;
    int64_t dims[] = {5, 3};
    kineto_flops_input input = {.dims = dims, .rank = 2};
    kineto_flops_inputs in = {sizeof in, 1, &input};
    assert_int_equal(kineto_flops_count("mine::op", &in, &flops), KINETO_E_NOT_FOUND);
    assert_int_equal(kineto_flops_register("mine::op", count_rows_twice, &factor), KINETO_OK);
    assert_int_equal(kineto_flops_count("mine::op", &in, &flops), KINETO_OK);
    assert_int_equal(flops, 10);
    assert_int_equal(kineto_flops_count("mine::op.Tensor", &in, &flops), KINETO_OK);
    in.count = 0;
    assert_int_equal(kineto_flops_count("mine::op", &in, &flops), KINETO_E_ARGUMENT);
    assert_int_equal(flops, 0);
    in.count = 1;
    uint64_t other = 100; /* the last word counts */
    assert_int_equal(kineto_flops_register("mine::op", count_rows_twice, &other), KINETO_OK);
    assert_int_equal(kineto_flops_count("mine::op", &in, &flops), KINETO_OK);
    assert_int_equal(flops, 500);
    assert_int_equal(kineto_flops_unregister("mine::op"), KINETO_OK);
    assert_int_equal(kineto_flops_unregister("mine::op"), KINETO_E_NOT_FOUND);
    assert_int_equal(kineto_flops_count("mine::op", &in, &flops), KINETO_E_NOT_FOUND);
}

static void users_replace_the_tables_formulas(void **state)
{
    (void)state;
    uint64_t factor = 1, flops;
    kt_builder *b = builder();
    kt_row row = {.name = kt_string(b, kb_string("aten::mm")), .kind = KINETO_KIND_CPU_OP};
    row.track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    kt_args_verbatim(b, kb_string("{\"Concrete Inputs\":[\"a\\\"\\u0041\",\"\"],\"Input type\":["
                                  "\"float\",\"double\"],\"Input Strides\":[[3,1],[5]],"
                                  "\"Input Dims\":[[2,3],[3,4]]}"));
    kt_append(b, &row);
    kineto_trace *t = finish(b);
    assert_int_equal(kineto_flops_register("aten::mm", count_rows_twice, &factor), KINETO_OK);
    assert_int_equal(ka_flops_row(t, 0, &flops), KA_FLOPS_COUNTED);
    assert_int_equal(flops, 2);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen_first.rank, 2);
    assert_true(seen_strides);
    assert_true(kb_string_equal(seen_first.dtype, kb_string("float")));
    assert_int_equal(seen_first.concrete.size, 3); /* a"A, by now gone */
    assert_int_equal(kineto_flops_unregister("aten::mm"), KINETO_OK);
    assert_int_equal(ka_flops_row(t, 0, &flops), KA_FLOPS_COUNTED);
    assert_int_equal(flops, 48);
    kineto_trace_release(t);
}

static bool as_matrices(const kineto_flops_inputs *in, uint64_t *flops, void *user)
{
    (void)user;
    return kineto_flops_count("aten::mm", in, flops) == KINETO_OK;
}

static void a_function_may_ask_for_other_operators(void **state)
{
    (void)state;
    uint64_t flops;
    int64_t a[] = {2, 3}, b[] = {3, 4};
    kineto_flops_input input[] = {{.dims = a, .rank = 2}, {.dims = b, .rank = 2}};
    kineto_flops_inputs in = {sizeof in, 2, input};
    kineto_flops_register("mine::mm", as_matrices, NULL);
    assert_int_equal(kineto_flops_count("mine::mm", &in, &flops), KINETO_OK);
    assert_int_equal(flops, 48);
    kineto_flops_unregister("mine::mm");
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    uint64_t flops = 5;
    kineto_flops_inputs in = {sizeof in, 0, NULL};
    assert_int_equal(kineto_flops_register(NULL, as_matrices, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_flops_register("", as_matrices, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_flops_register("mine::op", NULL, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_flops_unregister(NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_flops_count(NULL, &in, &flops), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_flops_count("aten::mm", NULL, &flops), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_flops_count("aten::mm", &in, NULL), KINETO_E_ARGUMENT);
    in.count = 2;
    assert_int_equal(kineto_flops_count("aten::mm", &in, &flops), KINETO_E_ARGUMENT);
    in = (kineto_flops_inputs){.size = 4};
    assert_int_equal(kineto_flops_count("aten::mm", &in, &flops), KINETO_E_ARGUMENT);
    assert_int_equal(flops, 0);
}

static int stop;
static void *ask_on(void *calls)
{
    uint64_t flops;
    int64_t dims[] = {5, 3};
    kineto_flops_input input = {.dims = dims, .rank = 2};
    kineto_flops_inputs in = {sizeof in, 1, &input};
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        kineto_flops_count("mine::op", &in, &flops);
        __atomic_add_fetch((uint64_t *)calls, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static bool use_context(const kineto_flops_inputs *in, uint64_t *flops, void *user)
{
    (void)in;
    *flops = *(uint64_t *)user;
    return *flops == 42;
}

static void what_was_taken_back_is_not_called_any_more(void **state)
{
    (void)state;
    pthread_t threads[3];
    uint64_t calls = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, ask_on, &calls);
    for (int i = 0; i < 2000; i++) {
        uint64_t *context = malloc(sizeof *context);
        *context = 42;
        kineto_flops_register("mine::op", use_context, context);
        if (i % 16 == 0)
            usleep(10);
        kineto_flops_unregister("mine::op");
        *context = 0;
        free(context);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_true(calls > 0);
}

/* ---- all rows of a trace --------------------------------------------------------------------- */

typedef struct columns {
    uint64_t *flops; /* by row */
    uint64_t count, unusable;
} columns;

/* As analyses have them: each row by itself, then by what is around it. */
static columns columns_of(const kineto_trace *t)
{
    columns c = {.count = kineto_trace_count(t)};
    c.flops = calloc((size_t)c.count + 1, sizeof *c.flops);
    uint64_t *unusable = calloc((size_t)c.count / 64 + 1, sizeof *unusable);
    for (kineto_row row = 0; row < c.count; row++)
        if (ka_flops_row(t, row, &c.flops[row]) == KA_FLOPS_UNUSABLE)
            unusable[row / 64] |= UINT64_C(1) << row % 64;
    assert_true(ka_flops_around(t, c.flops, unusable));
    for (uint64_t word = 0; word < c.count / 64 + 1; word++)
        c.unusable += (uint64_t)__builtin_popcountll(unusable[word]);
    free(unusable);
    return c;
}

/* A row of a trace without values: where it is, and its sequence number; 0: it has none. */
typedef struct old_row {
    const char *op, *dims;
    int64_t start_ns, end_ns;
    uint64_t sequence, expected;
} old_row;

static kineto_trace *old_trace(const old_row *rows, size_t count)
{
    kt_builder *b = builder();
    uint32_t track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    for (size_t i = 0; i < count; i++) {
        kt_row row = {.start_ns = rows[i].start_ns,
                      .end_ns = rows[i].end_ns,
                      .kind = KINETO_KIND_CPU_OP,
                      .track = track,
                      .name = kt_string(b, kb_string(rows[i].op))};
        kt_args_put_json(b, kt_string(b, kb_string("Input Dims")), KINETO_ARG_SHAPES,
                         kb_string(rows[i].dims));
        if (rows[i].sequence)
            kt_args_put_uint(b, kt_string(b, kb_string("Sequence number")), rows[i].sequence);
        (void)kt_append(b, &row);
    }
    return finish(b);
}

/* 2 * 2 (batch) * 4 * 4 (places of the output) * 8 * 3 * 3 * 3 (weight) */
#define ONE_CONV 13824
static void convolutions_without_values_are_recognised_by_what_is_around_them(void **state)
{
    (void)state;
    static const char *const forward = "[[2,3,8,8],[8,3,3,3],[],[],[],[],[],[],[]]";
    const old_row rows[] = {
        {"aten::conv2d", forward, 0, 9, 7, ONE_CONV},
        {"aten::convolution", forward, 1, 8, 7, 0}, /* it may be a transposed one */
        {"aten::cudnn_convolution", forward, 2, 7, 7, ONE_CONV},
        {"aten::cudnn_convolution", forward, 10, 19, 8, 0}, /* it has no backward */
        {"aten::cudnn_convolution", "[[2,3,9,9],[8,3,3,3],[],[],[]]", 20, 29, 7,
         0},                                                /* another one's number */
        {"aten::cudnn_convolution", forward, 30, 39, 9, 0}, /* two backwards disagree */
        {"CudnnConvolutionBackward", "[[2,8,4,4]]", 40, 59, 7, 0},
        {"aten::cudnn_convolution_backward", "[[2,3,8,8],[2,8,4,4],[8,3,3,3],[]]", 41, 58, 0, 0},
        {"aten::cudnn_convolution_backward_input", "[[],[2,8,4,4],[8,3,3,3],[]]", 42, 45, 0,
         ONE_CONV},
        {"aten::cudnn_convolution_backward_weight", "[[],[2,8,4,4],[2,3,8,8],[]]", 46, 50, 0,
         ONE_CONV},
        {"CudnnConvolutionBackward", "[[2,8,4,4]]", 60, 69, 9, 0},
        {"aten::cudnn_convolution_backward", "[[2,3,8,8],[2,8,4,4],[8,3,3,3],[]]", 61, 68, 0, 0},
        {"CudnnConvolutionBackward", "[[2,8,6,6]]", 70, 79, 9, 0},
        {"aten::cudnn_convolution_backward", "[[2,3,8,8],[2,8,6,6],[8,3,3,3],[]]", 71, 78, 0, 0},
        {"aten::cudnn_convolution_backward_weight", "[[],[2,8,4,4],[2,3,8,8],[]]", 80, 89, 0, 0}};
    kineto_trace *t = old_trace(rows, KB_COUNT(rows));
    columns c = columns_of(t);
    for (size_t i = 0; i < KB_COUNT(rows); i++)
        if (c.flops[i] != rows[i].expected)
            fail_msg("%zu: %llu", i, (unsigned long long)c.flops[i]);
    assert_int_equal(c.unusable, 8);
    free(c.flops);
    kineto_trace_release(t);
}

static void empty_traces_have_no_flops(void **state)
{
    (void)state;
    kineto_trace *t = finish(builder());
    columns c = columns_of(t);
    uint64_t flops;
    assert_int_equal(c.count + c.unusable, 0);
    free(c.flops);
    assert_false(ka_flops(t, 0, &flops));
    assert_false(ka_flops(t, KINETO_NO_ROW, &flops));
    kineto_trace_release(t);
}

static void a_trace_of_pytorch_has_the_flops_of_its_products(void **state)
{
    (void)state;
    kineto_trace *t;
    assert_int_equal(
        kineto_trace_open(CKINETO_SOURCE_DIR "/tests/data/torch-2.15.0/flops.json.gz", &t, NULL),
        KINETO_OK);
    columns c = columns_of(t);
    uint64_t mm = 0, add = 0;
    for (kineto_row row = 0; row < c.count; row++) {
        kineto_activity a;
        kineto_trace_get(t, row, &a);
        if (kb_string_equal(a.name, kb_string("aten::mm")))
            mm = c.flops[row];
        else if (kb_string_equal(a.name, kb_string("aten::add")))
            add = c.flops[row];
    }
    assert_int_equal(mm, 8192); /* [16,32] x [32,8] */
    assert_int_equal(add, 128); /* [16,8] + a number */
    assert_int_equal(c.unusable, 0);
    free(c.flops);
    kineto_trace_release(t);
}

static void the_table_is_in_order_and_every_name_is_found(void **state)
{
    (void)state;
    size_t count;
    const ka_flops_rule *rules = ka_flops_rules(&count);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || strcmp(rules[i - 1].name, rules[i].name) < 0);
        assert_ptr_equal(ka_flops_rule_find(kb_string(rules[i].name)), &rules[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_matrices_are_two_m_n_k),
        cmocka_unit_test(matmul_has_vectors_and_batches_that_broadcast),
        cmocka_unit_test(sums_count_what_they_broadcast_to),
        cmocka_unit_test(convolutions_follow_stride_padding_dilation_and_groups),
        cmocka_unit_test(gradients_of_convolutions_count_what_the_mask_asks_for),
        cmocka_unit_test(attention_is_two_products_and_five_backwards),
        cmocka_unit_test(inputs_that_do_not_say_it_are_unusable),
        cmocka_unit_test(too_much_stops_at_the_top),
        cmocka_unit_test(very_many_inputs_and_sizes_are_no_danger),
        cmocka_unit_test(users_add_operators_and_take_them_back),
        cmocka_unit_test(users_replace_the_tables_formulas),
        cmocka_unit_test(a_function_may_ask_for_other_operators),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(what_was_taken_back_is_not_called_any_more),
        cmocka_unit_test(convolutions_without_values_are_recognised_by_what_is_around_them),
        cmocka_unit_test(empty_traces_have_no_flops),
        cmocka_unit_test(a_trace_of_pytorch_has_the_flops_of_its_products),
        cmocka_unit_test(the_table_is_in_order_and_every_name_is_found),
    };
    return RUN_TESTS(tests);
}
