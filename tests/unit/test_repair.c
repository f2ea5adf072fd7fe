/* Broken elements come back as strict JSON, every change is named with its place, and whole
 * neighbours are not touched. */
#include "trace/repair/repair.h"
#include "unit.h"

/* ---- running it ------------------------------------------------------------------------------ */

typedef struct run {
    kt_bytes out; /* events, a line each */
    kt_repairs repairs;
    kt_repaired last;
    char listed[2048]; /* kind@offset+bytes … */
} run;

static void list_repairs(run *r)
{
    char *at = r->listed, *end = r->listed + sizeof r->listed;
    *at = '\0';
    for (size_t i = 0; i < r->repairs.list.count && end - at > 80; i++) {
        const kt_repair *one = &r->repairs.list.data[i];
        at += snprintf(at, (size_t)(end - at), "%s%s@%llu+%llu", i ? " " : "",
                       kt_repair_name((kt_repair_kind)one->kind), (unsigned long long)one->offset,
                       (unsigned long long)one->bytes);
    }
}

/* All elements of an array, from after its bracket on. */
static void run_elements(run *r, kineto_string text, size_t at)
{
    bool comma_due = false;
    *r = (run){.last = {0}};
    do {
        size_t before = r->out.count;
        assert_int_equal(
            kt_repair_element(text, at, comma_due, true, &r->out, &r->repairs, &r->last, NULL),
            KINETO_OK);
        assert_int_equal(r->last.piece == KT_PIECE_EVENT, r->out.count > before);
        assert_true(r->last.next > at || r->last.piece == KT_PIECE_END);
        assert_true(r->last.next <= text.size);
        if (r->last.piece == KT_PIECE_EVENT)
            assert_true(kb_vec_push(&r->out, '\n'));
        at = r->last.next;
        comma_due = r->last.comma_due;
    } while (r->last.piece != KT_PIECE_END);
    assert_true(kb_vec_push(&r->out, '\0'));
    list_repairs(r);
}

static void free_run(run *r)
{
    kb_vec_free(&r->out);
    kt_repairs_free(&r->repairs);
}

static void check_bytes(kineto_string text, const char *events, const char *repairs)
{
    run r;
    run_elements(&r, text, 0);
    assert_string_equal(r.out.data, events);
    assert_string_equal(r.listed, repairs);
    free_run(&r);
}

static void check(const char *text, const char *events, const char *repairs)
{
    check_bytes(kb_string(text), events, repairs);
}

#define HEAD "{\"ph\":\"X\",\"name\":\"n\",\"ts\":1" /* 27 bytes */
#define ARGS HEAD ",\"args\":{"                      /* 36 bytes */

/* ---- strings --------------------------------------------------------------------------------- */

static void test_a_backslash_that_escapes_nothing_is_kept_as_one(void **state)
{
    (void)state;
    check("{\"ph\":\"X\",\"name\":\"C:\\Users\\x\\q\\u12\",\"ts\":1}]",
          "{\"ph\":\"X\",\"name\":\"C:\\\\Users\\\\x\\\\q\\\\u12\",\"ts\":1}\n",
          "bad_escape@20+1 bad_escape@26+1 bad_escape@28+1 bad_escape@30+1");
    /* A path that ends in a backslash: it cannot have escaped the closing quote. */
    check(ARGS "\"cwd\":\"C:\\dir\\\",\"stream\":7}}]",
          ARGS "\"cwd\":\"C:\\\\dir\\\\\",\"stream\":7}}\n", "bad_escape@45+1 bad_escape@49+1");
}

static void test_control_characters_in_strings_are_escaped(void **state)
{
    (void)state;
    check(ARGS "\"Call stack\":\"a\n\tb\001c\"}}]", ARGS "\"Call stack\":\"a\\n\\tb\\u0001c\"}}\n",
          "control_char@51+2 control_char@54+1");
}

static void test_quotes_inside_strings_are_escaped_where_the_structure_is_certain(void **state)
{
    (void)state;
    check("{\"ph\":\"X\",\"name\":\"say \"hi\", you\",\"ts\":1}]",
          "{\"ph\":\"X\",\"name\":\"say \\\"hi\\\", you\",\"ts\":1}\n",
          "raw_quote@22+1 raw_quote@25+1");
    check("{\"ph\":\"X\",\"name\":\"a\"b\",\"cat\":\"c\"d\",\"ts\":1}]",
          "{\"ph\":\"X\",\"name\":\"a\\\"b\",\"cat\":\"c\\\"d\",\"ts\":1}\n",
          "raw_quote@19+1 raw_quote@31+1");
    check(ARGS "\"k\":\"a \"b\" c\",\"j\":\"y\"}}]", ARGS "\"k\":\"a \\\"b\\\" c\",\"j\":\"y\"}}\n",
          "raw_quote@43+1 raw_quote@45+1");
}

static void test_json_that_was_put_into_a_string_is_one_unit(void **state)
{
    (void)state;
    check(ARGS "\"cfg\":\"{\"a\": \"b\", \"c\": 1}\",\"x\":2}}]",
          ARGS "\"cfg\":\"{\\\"a\\\": \\\"b\\\", \\\"c\\\": 1}\",\"x\":2}}\n",
          "raw_quote@44+1 raw_quote@46+1 raw_quote@49+1 raw_quote@51+1 raw_quote@54+1 "
          "raw_quote@56+1");
    check(ARGS "\"cfg\":\"v={\"a\": \"b\", \"c\": 1}\",\"x\":2}}]",
          ARGS "\"cfg\":\"v={\\\"a\\\": \\\"b\\\", \\\"c\\\": 1}\",\"x\":2}}\n",
          "raw_quote@46+1 raw_quote@48+1 raw_quote@51+1 raw_quote@53+1 raw_quote@56+1 "
          "raw_quote@58+1");
}

static void test_of_two_readings_none_is_taken(void **state)
{
    (void)state;
    /* Two strings with quotes, and nothing that is known between them. */
    check(ARGS "\"a\":1,\"k\":\"a\"b\",\"j\":\"c\"d\",\"stream\":7}}]",
          ARGS "\"a\":1,\"stream\":7,\"arguments lost\":true}}\n", "ambiguous@42+19");
    /* A quote is missing, or the name has all that. */
    check("{\"ph\":\"X\",\"name\":\"abc, \"ts\":1,\"cat\":\"x\",\"pid\":2}]",
          "{\"ph\":\"X\",\"ts\":1,\"cat\":\"x\",\"pid\":2,\"name\":\"\"}\n", "ambiguous@10+11");
    /* Items of a list: one quote more could be any of several. */
    check(ARGS "\"l\":[\"a\"b\",\"c\"],\"stream\":7}}]",
          ARGS "\"stream\":7,\"arguments lost\":true}}\n", "ambiguous@36+15");
}

static void test_bytes_that_are_no_utf8_stay(void **state)
{
    (void)state;
    check("{\"ph\":\"X\",\"name\":\"a\xff\xfe"
          "b\xc3\xa9\",\"ts\":1,}]",
          "{\"ph\":\"X\",\"name\":\"a\xff\xfe"
          "b\xc3\xa9\",\"ts\":1}\n",
          "invalid_utf8@19+2 trailing_comma@32+1");
}

static void test_single_quotes_and_bare_keys_are_read(void **state)
{
    (void)state;
    check("{'ph': 'X', 'name': 'it\\'s \"x\"', 'ts': 5}]",
          "{\"ph\":\"X\",\"name\":\"it's \\\"x\\\"\",\"ts\":5}\n",
          "single_quotes@1+4 single_quotes@7+3 single_quotes@12+6 single_quotes@20+11 "
          "single_quotes@33+4");
    check("{ph:\"X\",name:\"a\",ts:5}]", "{\"ph\":\"X\",\"name\":\"a\",\"ts\":5}\n",
          "bare_key@1+2 bare_key@8+4 bare_key@17+2");
}

/* ---- numbers and words ----------------------------------------------------------------------- */

static void test_numbers_that_json_does_not_know_become_their_names(void **state)
{
    (void)state;
    check(ARGS "\"a\":NaN,\"b\":-Infinity,\"c\":inf,\"d\":-nan(ind)}}]",
          ARGS "\"a\":\"nan\",\"b\":\"-inf\",\"c\":\"inf\",\"d\":\"nan\"}}\n",
          "nan_inf@40+3 nan_inf@48+9 nan_inf@62+3 nan_inf@70+9");
}

static void test_malformed_numbers_are_put_right_or_kept_as_strings(void **state)
{
    (void)state;
    check(ARGS "\"a\":-5.-10,\"b\":+.5,\"c\":007,\"d\":0x1F,\"e\":5.,\"f\":1.e3,\"g\":1-2}}]",
          ARGS "\"a\":-5.010,\"b\":0.5,\"c\":7,\"d\":\"0x1F\",\"e\":5,\"f\":1e3,\"g\":\"1-2\"}}\n",
          "bad_number@40+6 bad_number@51+3 bad_number@59+3 bad_number@67+4 bad_number@76+2 "
          "bad_number@83+4 bad_number@92+3");
}

static void test_numbers_of_threads_are_whole_or_names(void **state)
{
    (void)state;
    check(HEAD ",\"pid\":7.0,\"tid\":-12.000}]", HEAD ",\"pid\":7,\"tid\":-12}\n",
          "bad_number@34+3 bad_number@44+7");
    check(HEAD ",\"pid\":1.50,\"tid\":18446744073709551615}]",
          HEAD ",\"pid\":\"1.50\",\"tid\":\"18446744073709551615\"}\n",
          "bad_number@34+4 bad_number@45+20");
    check(HEAD ",\"pid\":1e3,\"tid\":5.0e1}]", HEAD ",\"pid\":\"1e3\",\"tid\":\"5.0e1\"}\n",
          "bad_number@34+3 bad_number@44+5");
}

static void test_words_of_other_languages_are_put_right_or_kept_as_strings(void **state)
{
    (void)state;
    check(ARGS "\"a\":True,\"b\":None,\"c\":float32,\"d\":,\"e\":}}]",
          ARGS "\"a\":true,\"b\":null,\"c\":\"float32\",\"d\":null,\"e\":null}}\n",
          "bad_literal@40+4 bad_literal@49+4 bad_literal@58+7 no_value@70+0 no_value@75+0");
}

static void test_members_that_readers_could_not_take_are_left_out(void **state)
{
    (void)state;
    check(HEAD ",\"cat\":null,\"pid\":[1],\"tid\":2,\"dur\":\"5.5\",\"args\":7}]",
          HEAD ",\"tid\":2,\"dur\":5.5,\"args\":{\"arguments lost\":true}}\n",
          "wrong_type@28+10 wrong_type@39+9 bad_number@63+5 wrong_type@69+8");
}

/* ---- between values -------------------------------------------------------------------------- */

static void test_commas_too_many_and_too_few(void **state)
{
    (void)state;
    check(HEAD ",,\"dur\":2,\"args\":{\"a\":[1,2,],},},,]",
          HEAD ",\"dur\":2,\"args\":{\"a\":[1,2]}}\n",
          "trailing_comma@28+1 trailing_comma@53+1 trailing_comma@55+1 trailing_comma@57+1 "
          "trailing_comma@60+1 trailing_comma@60+1");
    check(HEAD " \"dur\":2 \"args\":{\"a\":[1 2]}}" HEAD "}]",
          HEAD ",\"dur\":2,\"args\":{\"a\":[1,2]}}\n" HEAD "}\n",
          "missing_comma@27+0 missing_comma@35+0 missing_comma@50+0 missing_comma@55+0");
}

static void test_comments_are_skipped(void **state)
{
    (void)state;
    check("// of mine\n" HEAD "/* one */,\"dur\":2}]", HEAD ",\"dur\":2}\n",
          "comment@0+10 comment@38+9");
}

static void test_of_members_given_twice_the_last_counts(void **state)
{
    (void)state;
    check(HEAD ",\"pid\":1,\"ts\":7,\"name\":\"m\",\"pid\":2,}]",
          "{\"ph\":\"X\",\"ts\":7,\"name\":\"m\",\"pid\":2}\n",
          "duplicate_key@36+4 duplicate_key@43+6 duplicate_key@54+5 trailing_comma@61+1");
}

static void test_brackets_too_many_and_too_few(void **state)
{
    (void)state;
    check(
        ARGS
        "\"a\":1},{\"ph\":\"X\",\"name\":\"m\",\"ts\":2}},{\"ph\":\"X\",\"name\":\"o\",\"ts\":3}]",
        ARGS "\"a\":1}}\n{\"ph\":\"X\",\"name\":\"m\",\"ts\":2}\n{\"ph\":\"X\",\"name\":\"o\","
             "\"ts\":3}\n",
        "unbalanced@43+0 unbalanced@71+1");
    check(ARGS "\"a\":[1,2},\"dur\":5}," HEAD "}]",
          HEAD ",\"args\":{\"arguments lost\":true},\"dur\":5}\n" HEAD "}\n", "ambiguous@36+8");
}

static void test_garbage_between_events_is_skipped(void **state)
{
    (void)state;
    check(HEAD "} [W] a log line {x}\n," HEAD "},7,\"s\",null,[1]," HEAD "}]",
          HEAD "}\n" HEAD "}\n" HEAD "}\n", "garbage@29+20 garbage@78+15");
}

static void test_what_nests_too_deep_is_left_out(void **state)
{
    char text[1024] = ARGS "\"a\":1,\"d\":", *at = text + strlen(text);
    (void)state;
    memset(at, '[', 200);
    memset(at + 200, ']', 200);
    strcpy(at + 400, ",\"stream\":7}}]");
    check(text, ARGS "\"a\":1,\"stream\":7,\"arguments lost\":true}}\n", "too_deep@42+404");
}

/* ---- the end --------------------------------------------------------------------------------- */

static void test_a_cut_event_keeps_what_is_whole(void **state)
{
    (void)state;
    check(ARGS "\"a\":1,\"b\":\"x", ARGS "\"a\":1,\"arguments lost\":true}}\n",
          "truncated@42+6 unbalanced@48+0");
    check(ARGS "\"a\":1,\"b\":[1,2", ARGS "\"a\":1,\"arguments lost\":true}}\n",
          "truncated@42+8 unbalanced@50+0");
    check(HEAD ",\"dur\":12", HEAD ",\"args\":{\"arguments lost\":true}}\n",
          "truncated@28+8 unbalanced@36+0"); /* 12, or the begin of 123 */
    check(ARGS "\"a\":1}", ARGS "\"a\":1}}\n", "truncated@42+0 unbalanced@42+0");
}

static void test_a_cut_event_without_its_time_is_lost_and_counted(void **state)
{
    (void)state;
    check(HEAD "},{\"ph\":\"X\",\"name\":\"n\",\"ts\":1", HEAD "}\n",
          "lost_event@29+27 unbalanced@56+0");
    check(HEAD "},{\"ph\":\"X\",\"name\":\"n\",\"ts\":NaN}]", HEAD "}\n", "lost_event@29+30");
}

static void test_a_byte_that_is_not_utf8_is_not_a_phase(void **state)
{
    (void)state;
    check(HEAD "},{\"ph\":\"\xff\",\"name\":\"n\",\"ts\":1}]", HEAD "}\n", "lost_event@29+28");
}

static void test_the_end_of_the_array_is_found(void **state)
{
    run r;
    (void)state;
    run_elements(&r, kb_string(HEAD "}\n ], \"x\": 1}"), 0);
    assert_int_equal(r.last.next, 30);
    assert_false(r.last.truncated);
    assert_int_equal(r.repairs.total, 0);
    free_run(&r);
    run_elements(&r, kb_string(HEAD "},\n \"traceName\": 1}"), 0);
    assert_int_equal(r.last.next, 31);
    assert_string_equal(r.listed, "unbalanced@31+0");
    free_run(&r);
    run_elements(&r, kb_string(HEAD "}}\n"), 0);
    assert_int_equal(r.last.next, 28);
    assert_string_equal(r.listed, "unbalanced@28+0");
    free_run(&r);
    run_elements(&r, kb_string(HEAD "}"), 0);
    assert_true(r.last.truncated);
    free_run(&r);
}

static void test_a_document_that_follows_is_found(void **state)
{
    kt_repairs repairs = {.base = 1000};
    size_t next;
    (void)state;
    assert_true(
        kt_repair_next_document(kb_string("} xx {\"schemaVersion\": 1"), 1, &repairs, &next));
    assert_int_equal(next, 5);
    assert_true(kt_repair_next_document(kb_string("]\n[{\"ph\": 1"), 1, &repairs, &next));
    assert_int_equal(next, 2);
    assert_false(kt_repair_next_document(kb_string("}\n\n"), 1, &repairs, &next));
    assert_int_equal(repairs.kinds[KT_REPAIR_NEW_DOCUMENT].count, 2);
    assert_int_equal(repairs.kinds[KT_REPAIR_TRAILING].first_offset, 1002);
    kt_repairs_free(&repairs);
}

/* ---- the header ------------------------------------------------------------------------------ */

static void check_member(const char *text, size_t at, kt_piece piece, size_t next,
                         const char *member)
{
    run r = {.last = {0}};
    assert_int_equal(
        kt_repair_member(kb_string(text), at, at > 1, true, &r.out, &r.repairs, &r.last, NULL),
        KINETO_OK);
    assert_int_equal(r.last.piece, piece);
    assert_int_equal(r.last.next, next);
    assert_int_equal(r.out.count, strlen(member));
    assert_memory_equal(r.out.data ? r.out.data : "", member, r.out.count);
    free_run(&r);
}

static void test_members_of_the_header_are_repaired_one_by_one(void **state)
{
    const char *text = "{\"x\": \"a\"b\", \"schemaVersion\": 1, \"traceEvents\": [";
    (void)state;
    check_member(text, 1, KT_PIECE_EVENT, 11, "\"x\":\"a\\\"b\"");
    check_member(text, 11, KT_PIECE_EVENT, 31, "\"schemaVersion\":1");
    check_member(text, 31, KT_PIECE_EVENT, 48, "\"traceEvents\":");
    check_member("{\"x\": 1 oops, \"schemaVersion\": 1}", 1, KT_PIECE_EVENT, 7, "\"x\":1");
    check_member("{\"x\": 1 oops, \"schemaVersion\": 1}", 7, KT_PIECE_NOTHING, 12, "");
    check_member("{\"x\": 1}", 7, KT_PIECE_END, 7, "");
    check_member("{\"x\": 1", 1, KT_PIECE_NOTHING, 7, "");
}

/* ---- whole texts ----------------------------------------------------------------------------- */

/* A line of the ledger that the output has. */
#define LINE(reason, count, loss, offset)                                                          \
    "{\"source\":\"repair\",\"reason\":\"repaired: " reason "\",\"count\":" count                  \
    ",\"loss\":" loss ",\"detail\":\"first at offset " offset " of the text that was repaired\"}"
#define CUT(offset)                                                                                \
    LINE("the text ends early: an unknown number of events is missing", "1", "true", offset)
#define BRACKETS(count, offset)                                                                    \
    LINE("brackets that do not match: corrected", count, "false", offset)
/* Lines of what was lost are looked at where they are what is tested. */
static void leave_out_ledger(char *data, const char *expected)
{
    char *ledger = strstr(data, ",\n\"ckineto\"");
    if (ledger && !strstr(expected, "\"ckineto\""))
        memcpy(ledger, "}\n", 3);
}

static void check_damaged(const char *text, const char *problem, const char *expected,
                          const char *repairs)
{
    kt_repair_events events;
    run r = {.last = {0}};
    kb_sink *sink;
    char *data;
    size_t size;
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL), KINETO_OK);
    assert_int_equal(
        kt_repair_document(kb_string(text), problem, true, sink, &r.repairs, &events, NULL),
        KINETO_OK);
    assert_int_equal(kb_sink_take(sink, &data, &size, NULL), KINETO_OK);
    list_repairs(&r);
    assert_true(kb_json_valid((kineto_string){data, size}));
    leave_out_ledger(data, expected);
    assert_string_equal(data, expected);
    assert_string_equal(r.listed, repairs);
    free(data);
    kb_sink_abort(sink);
    free_run(&r);
}

static void check_document(const char *text, const char *expected, const char *repairs)
{
    check_damaged(text, NULL, expected, repairs);
}

static void test_a_sound_text_passes_with_each_event_as_it_stood(void **state)
{
    (void)state;
    check_document(
        "{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\", \"name\": \"a\", \"ts\": "
        "1},\n" HEAD "}], \"traceName\": \"x\"}",
        "{\n\"schemaVersion\": 1,\n\"traceEvents\": [\n{\"ph\": \"X\", \"name\": \"a\", "
        "\"ts\": 1},\n" HEAD "}\n],\n\"traceName\": \"x\"}\n",
        "");
    check_document("[" HEAD "}]", "{\n\"traceEvents\": [\n" HEAD "}\n]}\n", "");
    check_document("[]", "{\n\"traceEvents\": [\n]}\n", "");
}

static void test_a_broken_text_keeps_all_that_can_be_kept(void **state)
{
    (void)state;
    check_document("{\"n\": \"a\"b\", \"traceEvents\": [" HEAD "}, " HEAD ",}, \"x\",\n"
                   "{\"ph\":\"X\",\"name\":\"\xff\",\"ts\":1}, \"traceName\": \"x\\q\"",
                   "{\n\"n\":\"a\\\"b\",\n\"traceEvents\": [\n" HEAD "},\n" HEAD
                   "},\n{\"ph\":\"X\",\"name\":\"\xef\xbf\xbd\",\"ts\":1}\n],\n"
                   "\"traceName\":\"x\\\\q\"}\n",
                   "raw_quote@8+1 trailing_comma@86+1 garbage@90+5 invalid_utf8@113+1 "
                   "unbalanced@125+0 bad_escape@140+1 unbalanced@143+0 truncated@143+0");
}

static void test_documents_that_follow_add_their_events(void **state)
{
    (void)state;
    check_document("{\"a\": 1, \"traceEvents\": [" HEAD "}]}\n{\"a\": 2, \"traceEvents\": [" HEAD
                   "}], \"b\": 3}",
                   "{\n\"a\": 1,\n\"traceEvents\": [\n" HEAD "},\n" HEAD "}\n],\n\"b\": 3}\n",
                   "new_document@56+0 duplicate_header@57+1");
    check_document("{\"baseTimeNanoseconds\": 1, \"traceEvents\": [" HEAD
                   "}]}{\"traceEvents\": [" HEAD "}], \"baseTimeNanoseconds\": 2}",
                   "{\n\"baseTimeNanoseconds\": 1,\n\"traceEvents\": [\n" HEAD "}\n]}\n",
                   "new_document@73+0 other_base@73+73");
    check_document(
        "{\"a\": 1, \"traceEvents\": [" HEAD "}]}\n{\"a\": 1, \"traceEvents\": [" HEAD "}]}",
        "{\n\"a\": 1,\n\"traceEvents\": [\n" HEAD "},\n" HEAD "}\n]}\n", "new_document@56+0");
    check_document(HEAD "}\n" HEAD "}\n", "{\n\"traceEvents\": [\n" HEAD "},\n" HEAD "}\n]}\n",
                   "unbalanced@0+0 missing_comma@29+0 unbalanced@58+0");
}

#define KEPT "{\n\"traceEvents\": [\n" HEAD "}\n],\n\"ckineto\": "

static void test_what_was_lost_is_said_in_the_ledger_of_the_output(void **state)
{
    (void)state;
    check_document(
        "{\"traceEvents\": [" HEAD "}, {\"ph\":",
        KEPT "{\"ledger\": [\n" BRACKETS("2", "53") ",\n" CUT("53") ",\n" LINE(
            "an event that has no \\\"ph\\\" or no \\\"ts\\\" left", "1", "true", "47") "\n]}}\n",
        "lost_event@47+6 unbalanced@53+0 unbalanced@53+0 truncated@53+0");
    check_damaged("[" HEAD "}]", "half of it",
                  KEPT "{\"ledger\": [\n{\"source\":\"repair\",\"reason\":\"the compressed data is "
                       "damaged\",\"count\":1,\"loss\":true,\"detail\":\"half of it\"}\n]}}\n",
                  "");
}

static void test_a_text_that_ends_between_two_events_is_not_whole(void **state)
{
    (void)state;
    check_document("{\"traceEvents\": [" HEAD "},",
                   KEPT "{\"ledger\": [\n" BRACKETS("2", "46") ",\n" CUT("46") "\n]}}\n",
                   "unbalanced@46+0 unbalanced@46+0 truncated@46+0");
    check_document("{\"traceEvents\": [" HEAD "}]",
                   KEPT "{\"ledger\": [\n" BRACKETS("1", "46") ",\n" CUT("46") "\n]}}\n",
                   "unbalanced@46+0 truncated@46+0");
    /* Writers of a list of events may leave it open. */
    check_document("[" HEAD "},", "{\n\"traceEvents\": [\n" HEAD "}\n]}\n", "unbalanced@30+0");
}

/* A header with a ledger, and how it comes out. */
static void check_ledger(const char *own, const char *before, const char *after)
{
    char text[400], expected[1000], listed[100];
    snprintf(text, sizeof text, "{\"ckineto\": %s, \"traceEvents\": [" HEAD "}]", own);
    size_t end = strlen(text);
    snprintf(listed, sizeof listed, "unbalanced@%zu+0 truncated@%zu+0", end, end);
    snprintf(expected, sizeof expected, KEPT "%s\n" BRACKETS("1", "%zu") ",\n" CUT("%zu") "%s}\n",
             before, end, end, after);
    check_document(text, expected, listed);
}

static void test_a_ledger_that_is_there_gains_lines(void **state)
{
    (void)state;
    check_ledger("{\"ledger\": [{\"count\": 1}], \"x\": 1}", "{\"ledger\": [{\"count\": 1},",
                 "], \"x\": 1}");
    check_ledger("{\"ledger\": [\n1\n]}", "{\"ledger\": [\n1,", "\n]}");
    check_ledger("{\"ledger\": [ ]}", "{\"ledger\": [", " ]}");
    check_ledger("{\"x\": [1]}", "{\"x\": [1],\n\"ledger\": [", "\n]}");
    check_ledger("{ }", "{ \"ledger\": [", "\n]}");
    check_ledger("{\"ledger\": 7, \"x\": 1}", "{\"ledger\": [", "\n], \"x\": 1}");
    check_ledger("\"mine\"", "{\"ledger\": [", "\n]}");
}

static void test_a_ledger_of_a_whole_trace_stays_as_it_is(void **state)
{
    (void)state;
    check_document("{\"traceEvents\": [" HEAD "}], \"ckineto\": {\"ledger\": [ 1 ]}, \"a\": 1}",
                   KEPT "{\"ledger\": [ 1 ]},\n\"a\": 1}\n", "");
    check_document("{\"traceEvents\": [" HEAD "}], \"ckineto\": {\"ledger\": [ 1 ]}, \"a\": 1,}",
                   KEPT "{\"ledger\": [ 1 ]},\n\"a\": 1}\n", "trailing_comma@84+1");
}

static void test_what_is_not_a_trace_is_refused(void **state)
{
    static const char *const none[] = {"",          "   ",    "hello",         "{\"name\": \"x\"}",
                                       "{\"a\":1}", "[1, 2]", "<html></html>", "\x1f\x8b\x08"};
    (void)state;
    for (size_t i = 0; i < KB_COUNT(none); i++) {
        kt_repairs repairs = {.base = 0};
        kt_repair_events events;
        kb_sink *sink;
        assert_int_equal(kb_sink_open_discard(&sink, NULL), KINETO_OK);
        assert_int_equal(
            kt_repair_document(kb_string(none[i]), NULL, true, sink, &repairs, &events, NULL),
            KINETO_E_FORMAT);
        kb_sink_abort(sink);
        kt_repairs_free(&repairs);
    }
}

/* ---- counting -------------------------------------------------------------------------------- */

static void test_the_list_is_bounded_and_the_counts_are_not(void **state)
{
    size_t many = 3 * KT_REPAIR_LIST_MAX, at = 0;
    char *text = malloc(2 * many + 64);
    run r;
    (void)state;
    assert_non_null(text);
    at += (size_t)sprintf(text, "%s,\"x\":[", HEAD);
    for (size_t i = 0; i < many; i++)
        at += (size_t)sprintf(text + at, "0,");
    for (size_t i = 0; i < many; i++)
        text[at - 2 * many + 2 * i] = i % 2 ? '1' : ',';
    at += (size_t)sprintf(text + at, "]}]");
    run_elements(&r, (kineto_string){text, at}, 0);
    assert_int_equal(r.repairs.list.count, KT_REPAIR_LIST_MAX);
    assert_true(r.repairs.kinds[KT_REPAIR_TRAILING_COMMA].count > KT_REPAIR_LIST_MAX);
    assert_int_equal(r.repairs.total, r.repairs.kinds[KT_REPAIR_TRAILING_COMMA].count);
    free_run(&r);
    free(text);
}

static void test_lists_of_two_parts_are_one_list(void **state)
{
    kt_repairs a = {.base = 0}, b = {.base = 100};
    (void)state;
    assert_true(kt_repairs_add(&a, KT_REPAIR_GARBAGE, 5, 2));
    assert_true(kt_repairs_add(&b, KT_REPAIR_GARBAGE, 5, 3));
    assert_true(kt_repairs_add(&b, KT_REPAIR_COMMENT, 6, 1));
    assert_true(kt_repairs_append(&a, &b));
    assert_int_equal(a.total, 3);
    assert_int_equal(a.kinds[KT_REPAIR_GARBAGE].bytes, 5);
    assert_int_equal(a.kinds[KT_REPAIR_GARBAGE].first_offset, 5);
    assert_int_equal(a.kinds[KT_REPAIR_COMMENT].first_offset, 106);
    assert_int_equal(a.list.data[2].offset, 106);
    kt_repairs_free(&a);
    kt_repairs_free(&b);
}

/* ---- any damage ------------------------------------------------------------------------------ */

static const char *const whole[] = {
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":2,\"ts\":10.5,"
    "\"dur\":3,"
    "\"args\":{\"External id\":7,\"Input Dims\":[[2,3],[],[3,4]],\"k\":\"v\",\"Call "
    "stack\":\"a;b\"}}",
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"ts\":0,\"pid\":1,\"tid\":2,\"args\":{\"name\":"
    "\"main\"}}",
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"void k<1, "
    "{2}>(float*)\",\"pid\":0,\"tid\":7,\"ts\":11,"
    "\"dur\":2,\"args\":{\"queued\":0,\"device\":0,\"x\":\"\\\"q\\\"\",\"grid\":[1,1,1],\"o\":{"
    "\"p\":[1,"
    "\"r\"]}}}",
    "{\"ph\":\"s\",\"id\":4,\"pid\":1,\"tid\":2,\"ts\":12,\"cat\":\"ac2g\",\"name\":\"ac2g\"}",
    "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window "
    "End\",\"pid\":\"\",\"tid\":\"\",\"ts\":99}"};

typedef struct damaged {
    char text[4096];
    size_t size, victim; /* which of `whole` */
} damaged;

/* Every way that text breaks. */
static size_t damage(char *event, size_t size, uint64_t *seed)
{
    static const char *const wrong[] = {"\"",  "\\",    "\n",   "\x01",  "\xff",   ",",
                                        ",,",  "}",     "]",    "{",     "[",      ":",
                                        "NaN", "-5.-1", "True", "//x\n", "'",      "\\u",
                                        "}{",  "\"x\"", "/*",   "0",     "\"a\":", "log line"};
    size_t at = next_random(seed) % size, n = 1 + next_random(seed) % 12;
    const char *text = wrong[next_random(seed) % KB_COUNT(wrong)];
    n = KB_MIN(n, size - at);
    switch (next_random(seed) % 4) {
    case 0: /* taken out */
        memmove(event + at, event + at + n, size - at - n);
        return size - n;
    case 1: /* the rest was never written */
        return at;
    case 2: /* overwritten */
        memcpy(event + at, text, KB_MIN(strlen(text), size - at));
        return size;
    default: /* put in */
        memmove(event + at + strlen(text), event + at, size - at);
        memcpy(event + at, text, strlen(text));
        return size + strlen(text);
    }
}

static void make_damaged(damaged *d, uint64_t *seed)
{
    d->size = 0;
    d->victim = next_random(seed) % KB_COUNT(whole);
    for (size_t i = 0; i < KB_COUNT(whole); i++) {
        char *at = d->text + d->size;
        size_t size = strlen(whole[i]);
        memcpy(at, whole[i], size);
        for (uint64_t k = next_random(seed) % 3; i == d->victim && k < 3 && size; k++)
            size = damage(at, size, seed);
        d->size += size;
        const char *between = i + 1 < KB_COUNT(whole) ? ",\n  " : "\n]}";
        memcpy(d->text + d->size, between, strlen(between));
        d->size += strlen(between);
    }
}

/* Is each line valid, bytes that are no UTF-8 aside? */
static void check_lines(const kt_bytes *out)
{
    char copy[8192];
    size_t size = KB_MIN(out->count, sizeof copy);
    for (size_t i = 0; i < size; i++)
        copy[i] = (unsigned char)out->data[i] < 0x80 ? out->data[i] : '?';
    for (char *at = copy, *end; (end = memchr(at, '\n', (size_t)(copy + size - at)));
         at = end + 1) {
        if (!kb_json_valid((kineto_string){at, (size_t)(end - at)}))
            fail_msg("not valid: %.*s", (int)(end - at), at);
    }
}

static void check_neighbours(const damaged *d, const run *r)
{
    for (size_t i = 0; i < KB_COUNT(whole); i++)
        if (i != d->victim && !strstr(r->out.data, whole[i]))
            fail_msg("lost: %s\nof %.*s\ngot %s\nby %s", whole[i], (int)d->size, d->text,
                     r->out.data, r->listed);
}

static void test_any_damage_costs_at_most_the_event_that_has_it(void **state)
{
    uint64_t seed = 4;
    (void)state;
    for (int i = 0; i < FEWER(20000, 4000); i++) {
        damaged d;
        run r;
        make_damaged(&d, &seed);
        run_elements(&r, (kineto_string){d.text, d.size}, 0);
        check_lines(&r.out);
        check_neighbours(&d, &r);
        for (size_t k = 1; k < r.repairs.list.count; k++)
            assert_true(r.repairs.list.data[k].offset >= r.repairs.list.data[k - 1].offset);
        free_run(&r);
    }
}

static void assert_same(const kt_repaired *a, const kt_repaired *b)
{
    assert_int_equal(a->piece, b->piece);
    assert_int_equal(a->next, b->next);
    assert_int_equal(a->comma_due, b->comma_due);
    assert_int_equal(a->truncated, b->truncated);
}

static void test_what_is_decided_early_stays_with_more_text(void **state)
{
    uint64_t seed = 5;
    (void)state;
    for (int i = 0; i < FEWER(20000, 4000); i++) {
        damaged d;
        run a = {.last = {0}}, b = {.last = {0}};
        make_damaged(&d, &seed);
        size_t part = next_random(&seed) % d.size;
        kt_repair_element((kineto_string){d.text, part}, 0, false, false, &a.out, &a.repairs,
                          &a.last, NULL);
        kt_repair_element((kineto_string){d.text, d.size}, 0, false, true, &b.out, &b.repairs,
                          &b.last, NULL);
        if (a.last.piece == KT_PIECE_MORE) {
            assert_int_equal(a.out.count + a.repairs.total, 0);
        } else {
            assert_same(&a.last, &b.last);
            assert_int_equal(a.out.count, b.out.count);
            assert_memory_equal(a.out.data ? a.out.data : "", b.out.data ? b.out.data : "",
                                a.out.count);
            assert_int_equal(a.repairs.total, b.repairs.total);
        }
        free_run(&a);
        free_run(&b);
    }
}

static void test_valid_events_pass_unchanged(void **state)
{
    (void)state;
    for (size_t i = 0; i < KB_COUNT(whole); i++) {
        char text[1024], expected[1024];
        snprintf(text, sizeof text, "%s]", whole[i]);
        snprintf(expected, sizeof expected, "%s\n", whole[i]);
        check(text, expected, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_backslash_that_escapes_nothing_is_kept_as_one),
        cmocka_unit_test(test_control_characters_in_strings_are_escaped),
        cmocka_unit_test(test_quotes_inside_strings_are_escaped_where_the_structure_is_certain),
        cmocka_unit_test(test_json_that_was_put_into_a_string_is_one_unit),
        cmocka_unit_test(test_of_two_readings_none_is_taken),
        cmocka_unit_test(test_bytes_that_are_no_utf8_stay),
        cmocka_unit_test(test_single_quotes_and_bare_keys_are_read),
        cmocka_unit_test(test_numbers_that_json_does_not_know_become_their_names),
        cmocka_unit_test(test_malformed_numbers_are_put_right_or_kept_as_strings),
        cmocka_unit_test(test_numbers_of_threads_are_whole_or_names),
        cmocka_unit_test(test_words_of_other_languages_are_put_right_or_kept_as_strings),
        cmocka_unit_test(test_members_that_readers_could_not_take_are_left_out),
        cmocka_unit_test(test_commas_too_many_and_too_few),
        cmocka_unit_test(test_comments_are_skipped),
        cmocka_unit_test(test_of_members_given_twice_the_last_counts),
        cmocka_unit_test(test_brackets_too_many_and_too_few),
        cmocka_unit_test(test_garbage_between_events_is_skipped),
        cmocka_unit_test(test_what_nests_too_deep_is_left_out),
        cmocka_unit_test(test_a_cut_event_keeps_what_is_whole),
        cmocka_unit_test(test_a_cut_event_without_its_time_is_lost_and_counted),
        cmocka_unit_test(test_a_byte_that_is_not_utf8_is_not_a_phase),
        cmocka_unit_test(test_the_end_of_the_array_is_found),
        cmocka_unit_test(test_a_document_that_follows_is_found),
        cmocka_unit_test(test_members_of_the_header_are_repaired_one_by_one),
        cmocka_unit_test(test_a_sound_text_passes_with_each_event_as_it_stood),
        cmocka_unit_test(test_a_broken_text_keeps_all_that_can_be_kept),
        cmocka_unit_test(test_documents_that_follow_add_their_events),
        cmocka_unit_test(test_what_was_lost_is_said_in_the_ledger_of_the_output),
        cmocka_unit_test(test_a_text_that_ends_between_two_events_is_not_whole),
        cmocka_unit_test(test_a_ledger_that_is_there_gains_lines),
        cmocka_unit_test(test_a_ledger_of_a_whole_trace_stays_as_it_is),
        cmocka_unit_test(test_what_is_not_a_trace_is_refused),
        cmocka_unit_test(test_the_list_is_bounded_and_the_counts_are_not),
        cmocka_unit_test(test_lists_of_two_parts_are_one_list),
        cmocka_unit_test(test_valid_events_pass_unchanged),
        cmocka_unit_test(test_any_damage_costs_at_most_the_event_that_has_it),
        cmocka_unit_test(test_what_is_decided_early_stays_with_more_text),
    };
    return RUN_TESTS(tests);
}
