/* Recognises files of other formats by their magic numbers, so that the error
 * message can name the format and the remedy. Called once per file, with its first bytes,
 * before any parsing. */
#include "trace/bytes/not_a_trace.h"

static bool head_begins_with(kineto_string head, const char *bytes, size_t size)
{
    return head.size >= size && memcmp(head.data, bytes, size) == 0;
}

bool kt_is_utf16_or_utf32(kineto_string head)
{
    static const char little[] = "\xff\xfe", big[] = "\xfe\xff";
    if (head_begins_with(head, little, 2) || head_begins_with(head, big, 2))
        return true;
    return head.size >= 4 && (head.data[0] == 0) != (head.data[1] == 0) &&
           (head.data[2] == 0 || head.data[3] == 0);
}

#define EXPECTED "expected an object: a Chrome trace begins with { or [, and this is "

/* A format: the bytes that its files begin with, and a text that is in their first bytes (NULL: any).
 * The first row that fits counts. */
typedef struct foreign_format {
    const char *begin;
    size_t bytes;
    const char *contains;
    const char *problem;
} foreign_format;

static const foreign_format formats[] = {
    /* ---- other profilers ---- */
    {"2ELIFREP", 8, NULL, EXPECTED
     "a perf.data file of a machine with the other byte order; there, run 'perf script > FILE.txt', "
     "which ckineto reads"},
    {"PERFFILE", 8, NULL, EXPECTED
     "a perf.data file of before 2010; run 'perf script -i FILE > FILE.txt', which ckineto reads"},
    {"# To display the perf.data header", 33, NULL, EXPECTED
     "the text of perf report, which has sums and no times; ckineto reads perf.data itself"},
    {"QDSTRM", 6, NULL, EXPECTED
     "a raw file of Nsight Systems; import it with Nsight Systems, then run 'nsys export --type sqlite', whose "
     "file ckineto reads"},
    {"NVR\0", 4, NULL, EXPECTED
     "a report of Nsight Compute, which has counters of kernels and no times; 'ncu --import FILE' prints "
     "it"},
    {"tlZ\x04", 4, NULL, EXPECTED "a capture of Tracy; 'tracy-csvexport -u FILE' prints its zones"},
    {"tZst", 4, NULL, EXPECTED "a capture of Tracy; 'tracy-csvexport -u FILE' prints its zones"},
    {"tr\xfdP", 4, NULL, EXPECTED "a capture of Tracy; 'tracy-csvexport -u FILE' prints its zones"},
    {"FLR\0", 4, NULL, EXPECTED
     "a recording of Java Flight Recorder; 'jfr print FILE' prints it"},
    {"Ftrace!", 7, NULL, EXPECTED
     "a part of uftrace's data; name its directory, which ckineto reads"},
    {"\x17\x08\x44tracing", 10, NULL, EXPECTED
     "a recording of trace-cmd; 'trace-cmd report FILE' prints it, ui.perfetto.dev opens that text"},
    {"\xc1\x1f\xfc\xc1", 4, NULL, EXPECTED
     "a stream of a CTF trace (LTTng); 'babeltrace2 DIRECTORY' prints it"},
    {"/* CTF", 6, NULL, EXPECTED
     "the description of a CTF trace (LTTng); 'babeltrace2 DIRECTORY' prints it"},
    {"v 1", 3, "\nX ", EXPECTED "a recording of heaptrack; 'heaptrack_print FILE' prints it"},
    {"# callgrind format", 18, NULL, EXPECTED
     "a profile of callgrind, which has sums and no times; 'callgrind_annotate FILE' prints it"},
    {"version: 1\ncreator: callgrind", 29, NULL, EXPECTED
     "a profile of callgrind, which has sums and no times; 'callgrind_annotate FILE' prints it"},
    {"gmon", 4, NULL, EXPECTED
     "a profile of gprof, which has sums and no times; 'gprof PROGRAM FILE' prints it"},
    {"memray\0", 7, NULL, EXPECTED "a recording of memray; 'memray flamegraph FILE' shows it"},
    {"\"Kind\",\"Agent_Id\"", 17, NULL, EXPECTED
     "a table of rocprofv3; record with '--output-format rocpd' or 'json', which ckineto reads"},
    {"\"Domain\",\"Function\"", 19, NULL, EXPECTED
     "a table of rocprofv3; record with '--output-format rocpd' or 'json', which ckineto reads"},
    {"\"Index\",\"KernelName\"", 20, NULL, EXPECTED
     "a table of rocprof; record with '--sys-trace', which writes a .json that ckineto reads"},
    {"Index,KernelName", 16, NULL, EXPECTED
     "a table of rocprof; record with '--sys-trace', which writes a .json that ckineto reads"},
    {"\n\x04\x08", 3, NULL, EXPECTED
     "a profile of pprof, which has sums and no times; 'go tool pprof -top FILE' prints it"},
    {"\n", 1, NULL, EXPECTED
     "binary, and neither a Perfetto trace nor a profile of XLA"},
    {"\x93""CKF\r\n", 6, NULL,
     "a facts file, which has no events: name the trace that it was made of; 'ckineto analyze', 'diff', 'info' and "
     "'verify' take facts"},
    /* ---- other compression ---- */
    {"\xfd"
     "7zXZ", 5, NULL, EXPECTED "compressed with xz; decompress it with 'xz -d'"},
    {"BZh", 3, NULL, EXPECTED "compressed with bzip2; decompress it with 'bzip2 -d'"},
    {"\x04\x22\x4d\x18", 4, NULL, EXPECTED "compressed with lz4; decompress it with 'lz4 -d'"},
    {"PK\x03\x04", 4, NULL, EXPECTED "a zip archive; unpack it with 'unzip'"},
    /* ---- other files ---- */
    {"\x89PNG", 4, NULL, EXPECTED "a picture (PNG)"},
    {"\x7f"
     "ELF", 4, NULL, EXPECTED "a program or library; 'ckineto record -- PROGRAM' records a program"},
    {"\x80\x02", 2, NULL, EXPECTED "a Python pickle"},
    {"\x80\x04", 2, NULL, EXPECTED "a Python pickle"},
    {"\x80\x05", 2, NULL, EXPECTED "a Python pickle"},
    {"\x89HDF", 4, NULL, EXPECTED "an HDF5 file"},
    {"PAR1", 4, NULL, EXPECTED "a Parquet file"},
    {"ARROW1", 6, NULL, EXPECTED "an Arrow file"},
    {"<", 1, NULL, EXPECTED "a page or XML"},
};
#undef EXPECTED

const char *kt_foreign_format_problem(kineto_string head)
{
    if (kt_is_utf16_or_utf32(head))
        return "the text is UTF-16 or UTF-32, and a trace is UTF-8; convert it with "
               "'iconv -f UTF-16 -t UTF-8'";
    for (size_t i = 0; i < KB_COUNT(formats); i++)
        if (head_begins_with(head, formats[i].begin, formats[i].bytes) &&
            (!formats[i].contains || kb_string_contains(head, formats[i].contains)))
            return formats[i].problem;
    return NULL;
}

/* Tools whose files cannot be told by their first bytes, and tools that write directories. */
static const struct {
    const char *ending, *remedy;
} endings[] = {
    {".nsys-rep", "a report of Nsight Systems; run 'nsys export --type sqlite FILE', whose file ckineto reads"},
    {".qdrep", "a report of Nsight Systems; run 'nsys export --type sqlite FILE', whose file ckineto reads"},
    {".ncu-rep", "a report of Nsight Compute, which has counters of kernels and no times; 'ncu --import "
                 "FILE' prints it"},
    {".vtune", "a result of VTune; 'vtune -report hotspots -r DIRECTORY' prints it"},
    {".ckfacts", "facts of traces, without events: 'ckineto analyze', 'diff', 'info' and 'verify' take them; other "
                 "verbs need the traces"},
    {".ckrun", "facts of traces, without events: 'ckineto analyze', 'diff', 'info' and 'verify' take them; other "
               "verbs need the traces"},
    {".otf2", "a trace of Score-P (OTF2); 'otf2-print FILE' prints it"},
    {".etl", "a recording of Event Tracing for Windows; 'tracerpt FILE' converts it to text"},
};

const char *kt_foreign_name_problem(kineto_string name)
{
    for (size_t i = 0; i < KB_COUNT(endings); i++)
        if (kb_string_ends_with(name, endings[i].ending))
            return endings[i].remedy;
    return NULL;
}

const char *kt_foreign_entry_problem(kineto_string name)
{
    if (kb_string_is(name, "default.opts"))
        return "data of uftrace without its file info, which uftrace writes at the end of a recording";
    if (kb_string_is(name, "perf.data"))
        return "perf.data, which ckineto reads if it is named";
    if (kb_string_is(name, "uftrace.data"))
        return "uftrace.data, which ckineto reads if it is named";
    return kt_foreign_name_problem(name);
}
