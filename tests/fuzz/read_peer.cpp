// What simdjson makes of a text, compared with what was read in strict mode.
//
// Where the two may differ, nothing is demanded:
//   numbers beyond 64 bits or a double    simdjson refuses them, JSON has no limit
//   halves of surrogate pairs             simdjson refuses some of them, JSON's grammar does not
//   deeper than 100 levels                the limits are 128 and 1024
//   keys with \u escapes                  our members and columns go by plain keys
//   a second "traceEvents"                refused: which one counts?
//   times near the end of what 64 bits of nanoseconds hold
extern "C" {
#include "base/base.h"
}
#include "read.h"

#include <cmath>
#include <cstdio>
#include <simdjson.h>
#include <string>
#include <string_view>
#include <vector>

namespace
{

using namespace simdjson;
constexpr double most_us = 9.0e15;

enum class verdict { accept, refuse, either };

struct row {
    char phase;
    std::string_view name;
    dom::element ts, dur, pid;
    bool has_dur, has_pid;
};

struct document {
    verdict wanted = verdict::accept;
    std::string why;
    bool has_base = false, has_own = false;
    int64_t base = 0;
    std::vector<row> rows;

    void refuse(const char *reason)
    {
        if (wanted == verdict::accept) {
            wanted = verdict::refuse;
            why = reason;
        }
    }
    void doubt() { wanted = verdict::either; }
};

std::string complaint;

const char *complain(const std::string &what)
{
    complaint = what;
    return complaint.c_str();
}

// ---- what is expected of an event

bool is_number(dom::element e) { return e.is_int64() || e.is_uint64() || e.is_double(); }

double value_of(dom::element e)
{
    return e.is_int64() ? double(int64_t(e)) : e.is_uint64() ? double(uint64_t(e)) : double(e);
}

void judge_time(document &d, dom::element e)
{
    if (!is_number(e))
        d.refuse("a time that is not a number");
    else if (!(std::fabs(value_of(e)) < most_us))
        d.doubt();
}

void judge_place(document &d, dom::element e)
{
    if (e.is_string()) {
        if (e.get_string_length().value() > 100)
            d.doubt();
    } else if (!e.is_int64()) {
        d.refuse("a place that is neither an integer nor a text");
    }
}

struct members {
    bool ph = false, name = false, ts = false;
    row made = {};
};

void take_phase(document &d, members &m, dom::element e)
{
    m.ph = true;
    m.made.phase = 0;
    if (!e.is_string())
        d.refuse("a phase that is not a text");
    else if (e.get_string_length().value() == 1)
        m.made.phase = e.get_c_str().value()[0];
}

void take_member(document &d, members &m, std::string_view key, dom::element e)
{
    if (key == "ph") {
        take_phase(d, m, e);
    } else if (key == "name") {
        m.name = e.is_string();
        if (m.name)
            m.made.name = e.get_string().value();
        else if (!e.is_null())
            d.refuse("a name that is not a text");
    } else if (key == "id" || key == "bind_id") {
        if (!is_number(e) && !e.is_string() && !e.is_null())
            d.refuse("an id that is neither a number nor a text");
    } else if (key == "id2") {
        if (!e.is_object())
            d.refuse("an id2 that is not an object");
    } else if (key == "cat") {
        if (!e.is_string())
            d.refuse("a category that is not a text");
    } else if (key == "ts") {
        m.ts = true;
        m.made.ts = e;
        judge_time(d, e);
    } else if (key == "dur") {
        m.made.has_dur = true;
        m.made.dur = e;
        judge_time(d, e);
    } else if (key == "pid" || key == "tid") {
        judge_place(d, e);
        if (key == "pid") {
            m.made.has_pid = true;
            m.made.pid = e;
        }
    } else if (key == "args") {
        if (!e.is_object())
            d.refuse("args that are no object");
    }
}

bool is_one_of(char phase, const char *phases) { return phase && std::strchr(phases, phase); }

void take_event(document &d, dom::element e)
{
    members m;
    dom::object object;
    if (e.get(object)) {
        d.refuse("an element that is not an object");
        return;
    }
    for (auto member : object)
        take_member(d, m, member.key, member.value);
    if (object.size() == 0) // some writers end their list with one
        return;
    char phase = m.made.phase;
    if (!m.ph || !phase)
        d.refuse("no phase");
    bool is_row = is_one_of(phase, "XBbSnTiIC");
    if ((is_row || phase == 'M') && !m.name)
        d.refuse("no name");
    if ((is_row || is_one_of(phase, "EeFstf")) && !m.ts)
        d.refuse("no time");
    if (is_row && !((phase | 32) == 'i' && m.made.name == "Record Window End"))
        d.rows.push_back(m.made);
}

void take_events(document &d, dom::element e)
{
    dom::array array;
    if (e.get(array)) {
        d.refuse("traceEvents is not an array");
        return;
    }
    for (dom::element event : array)
        take_event(d, event);
}

void take_base(document &d, dom::element e)
{
    if (d.has_base || !e.is_int64())
        d.doubt();
    else
        d.base = int64_t(e);
    d.has_base = true;
}

void take_root(document &d, dom::element root)
{
    dom::object object;
    int lists = 0;
    if (root.is_array()) {
        take_events(d, root);
        return;
    }
    if (root.get(object)) {
        d.refuse("neither object nor array");
        return;
    }
    for (auto member : object) {
        if (member.key == "traceEvents") {
            lists++;
            take_events(d, member.value);
        }
        if (member.key == "baseTimeNanoseconds")
            take_base(d, member.value);
        d.has_own |= member.key == "ckineto";
    }
    if (lists == 0)
        d.refuse("no traceEvents");
    if (lists > 1)
        d.doubt();
}

// ---- texts that the two may see with other eyes

int depth_of(std::string_view text)
{
    int depth = 0, most = 0;
    bool inside = false;
    for (size_t i = 0; i < text.size(); i++) {
        char c = text[i];
        if (inside && c == '\\')
            i++;
        else if (c == '"')
            inside = !inside;
        else if (!inside && (c == '{' || c == '['))
            most = std::max(most, ++depth);
        else if (!inside && (c == '}' || c == ']'))
            depth--;
    }
    return most;
}

bool has_escape(std::string_view text, const char *start)
{
    for (size_t at = 0; (at = text.find("\\u", at)) != text.npos; at += 2) {
        std::string digits(text.substr(at + 2, std::strlen(start)));
        for (char &c : digits)
            c = char(std::tolower((unsigned char)c));
        if (digits == start)
            return true;
    }
    return false;
}

// ---- comparing

std::string words(const char *what, size_t row, std::string_view theirs, std::string_view ours)
{
    return std::string(what) + " of row " + std::to_string(row) + ": simdjson sees " +
           std::string(theirs) + ", we " + std::string(ours);
}

// In ns; doubles know some of the digits only.
bool same_time(dom::element us, int64_t ns)
{
    if (us.is_int64())
        return int64_t(us) * 1000 == ns;
    double wanted = double(us) * 1000;
    return std::fabs(wanted - double(ns)) <= 1 + std::fabs(wanted) * 5e-16;
}

const char *compare_row(const document &d, const row &r, const kineto_trace *trace, kineto_row i)
{
    kineto_activity a;
    int64_t start;
    kineto_trace_get(trace, i, &a);
    std::string_view name(a.name.size ? a.name.data : "", a.name.size);
    if (name != r.name)
        return complain(words("name", i, r.name, name));
    if (__builtin_sub_overflow(a.start_ns, d.base, &start) || std::fabs(double(d.base)) > 4e18)
        return nullptr;
    if (!same_time(r.ts, start))
        return complain(words("time", i, minify(r.ts), std::to_string(start)));
    if (r.phase != 'X' || !r.has_dur)
        return nullptr;
    int64_t length = a.end_ns - a.start_ns;
    if (value_of(r.dur) < 0 ? length != 0 : !same_time(r.dur, length))
        return complain(words("length", i, minify(r.dur), std::to_string(length)));
    return nullptr;
}

const char *compare_pid(const row &r, const kineto_trace *trace, kineto_row i)
{
    kineto_activity a;
    kineto_track track;
    kineto_process process;
    kineto_trace_get(trace, i, &a);
    kineto_trace_track(trace, a.track, &track);
    kineto_trace_process(trace, track.process, &process);
    if (r.has_pid && r.pid.is_int64() && int64_t(r.pid) != process.pid)
        return complain(words("pid", i, minify(r.pid), std::to_string(process.pid)));
    return nullptr;
}

const char *compare(const document &d, const kineto_trace *trace)
{
    if (d.rows.size() != kineto_trace_count(trace))
        return complain("simdjson sees " + std::to_string(d.rows.size()) + " activities, we " +
                        std::to_string(kineto_trace_count(trace)));
    for (size_t i = 0; i < d.rows.size(); i++) {
        const char *problem = compare_row(d, d.rows[i], trace, kineto_row(i));
        if (!problem && !d.has_own)
            problem = compare_pid(d.rows[i], trace, kineto_row(i));
        if (problem)
            return problem;
    }
    return nullptr;
}

const char *evaluate_document(document &d, std::string_view text, error_code error)
{
    bool valid = error == SUCCESS;
    if (error == NUMBER_ERROR || error == STRING_ERROR) {
        valid = kb_json_valid({text.data(), text.size()});
        d.doubt();
    }
    if (valid && (depth_of(text) > 100 || has_escape(text, "00")))
        d.doubt();
    if (!valid)
        d.wanted = verdict::refuse, d.why = error_message(error);
    return nullptr;
}

} // namespace

const char *fuzz_peer(const char *data, size_t size, const kineto_trace *trace, const char *message)
{
    static dom::parser parser;
    std::string_view text(data, size);
    document d;
    dom::element root;
    if (text.substr(0, 3) == "\xef\xbb\xbf")
        text.remove_prefix(3);
    if (depth_of(text) > 1000)
        return nullptr;
    padded_string padded(text);
    error_code error = parser.parse(padded).get(root);
    if (error == CAPACITY || error == MEMALLOC)
        return nullptr;
    if (!error)
        take_root(d, root);
    evaluate_document(d, text, error);
    if (d.wanted == verdict::accept && !trace)
        return complain(std::string("simdjson reads what we refuse: ") + message);
    if (d.wanted == verdict::refuse && trace)
        return complain("we read what should be refused: " + d.why);
    return d.wanted == verdict::accept ? compare(d, trace) : nullptr;
}
