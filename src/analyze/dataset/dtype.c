/* Types of tensors' elements, in every spelling that traces have. */
#include "analyze/dataset/dataset.h"

#include "trace/bytes/json_value.h"

#define TYPE(text, bytes, precision)                                                               \
    {                                                                                              \
        {text, sizeof(text) - 1}, { bytes, KA_PRECISION_##precision }                              \
    }
/* In small letters, without what `plain` leaves out. */
static const struct {
    kineto_string name;
    ka_dtype type;
} types[] = {
    /* of C++, as inputs have them */
    TYPE("float", 4, FP32),
    TYPE("bfloat16", 2, BF16),
    TYPE("half", 2, FP16),
    TYPE("double", 8, FP64),
    TYPE("long int", 8, UNKNOWN),
    TYPE("int", 4, UNKNOWN),
    TYPE("bool", 1, UNKNOWN),
    TYPE("unsigned char", 1, UNKNOWN),
    TYPE("signed char", 1, UNKNOWN),
    TYPE("short int", 2, UNKNOWN),
    TYPE("unsigned short", 2, UNKNOWN),
    TYPE("unsigned int", 4, UNKNOWN),
    TYPE("unsigned long", 8, UNKNOWN),
    TYPE("complex<half>", 4, FP16),
    TYPE("complex<float>", 8, FP32),
    TYPE("complex<double>", 16, FP64),
    /* of PyTorch, as collectives have them */
    TYPE("byte", 1, UNKNOWN),
    TYPE("char", 1, UNKNOWN),
    TYPE("short", 2, UNKNOWN),
    TYPE("long", 8, UNKNOWN),
    TYPE("complexhalf", 4, FP16),
    TYPE("complexfloat", 8, FP32),
    TYPE("complexdouble", 16, FP64),
    TYPE("float8_e4m3fn", 1, FP8),
    TYPE("float8_e5m2", 1, FP8),
    TYPE("float8_e4m3fnuz", 1, FP8),
    TYPE("float8_e5m2fnuz", 1, FP8),
    TYPE("float8_e8m0fnu", 1, FP8),
    TYPE("float4_e2m1fn_x2", 1, FP4),
    TYPE("qint8", 1, UNKNOWN),
    TYPE("quint8", 1, UNKNOWN),
    TYPE("qint32", 4, UNKNOWN),
    TYPE("quint4x2", 1, UNKNOWN),
    TYPE("quint2x4", 1, UNKNOWN),
    TYPE("bits1x8", 1, UNKNOWN),
    TYPE("bits2x4", 1, UNKNOWN),
    TYPE("bits4x2", 1, UNKNOWN),
    TYPE("bits8", 1, UNKNOWN),
    TYPE("bits16", 2, UNKNOWN),
    /* of Python */
    TYPE("uint8", 1, UNKNOWN),
    TYPE("uint16", 2, UNKNOWN),
    TYPE("uint32", 4, UNKNOWN),
    TYPE("uint64", 8, UNKNOWN),
    TYPE("int8", 1, UNKNOWN),
    TYPE("int16", 2, UNKNOWN),
    TYPE("int32", 4, UNKNOWN),
    TYPE("int64", 8, UNKNOWN),
    TYPE("float16", 2, FP16),
    TYPE("float32", 4, FP32),
    TYPE("float64", 8, FP64),
    TYPE("complex32", 4, FP16),
    TYPE("complex64", 8, FP32),
    TYPE("complex128", 16, FP64),
};

static size_t left_out(kineto_string at)
{
    if (at.data[0] == '"')
        return 1;
    if (kb_string_starts_with(at, "c10::"))
        return 5;
    return kb_string_starts_with(at, "torch.") ? 6 : 0;
}

/* Compares with all known names after quotes and namespaces are removed. */
ka_dtype ka_dtype_of(kineto_string raw)
{
    char text[32], unescaped[128];
    kineto_string name = {text, 0};
    kineto_string spelling = kt_value_text(raw, raw.size <= sizeof unescaped ? unescaped : NULL);
    while (spelling.size && name.size < sizeof text) {
        size_t skip = left_out(spelling);
        if (!skip)
            text[name.size++] = kb_lower(spelling.data[0]);
        skip += !skip;
        spelling = (kineto_string){spelling.data + skip, spelling.size - skip};
    }
    for (size_t i = 0; i < KB_COUNT(types); i++)
        if (kb_string_equal(name, types[i].name))
            return types[i].type;
    return (ka_dtype){0, KA_PRECISION_UNKNOWN};
}
