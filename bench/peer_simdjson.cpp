// simdjson as a peer of our reader: a program that reads the usual fields of every event.
//   peer_simdjson ondemand|dom FILE
// On demand takes ph, name, cat, ts, dur, pid, tid, and correlation and stream of the arguments,
// and keeps nothing; DOM builds its tree and counts.
#include "read/input.h"

#include <cstring>
#include <simdjson.h>

using namespace simdjson;

namespace
{
struct totals {
    uint64_t events = 0, slices = 0, check = 0;
};

uint64_t text_check(std::string_view text)
{
    return text.size() + (text.empty() ? 0 : (unsigned char)text[0]);
}

// A process or thread is a number or a string.
uint64_t place(ondemand::value value)
{
    ondemand::json_type type;
    if (value.type().get(type))
        return 0;
    if (type == ondemand::json_type::string)
        return text_check(value.get_string().value());
    return (uint64_t)value.get_int64().value();
}

uint64_t moment(ondemand::value value) { return (uint64_t)(value.get_double().value() * 1000); }

uint64_t arguments(ondemand::object args)
{
    uint64_t sum = 0;
    for (auto field : args) {
        auto key = field.key().value();
        if (key == "correlation" || key == "stream")
            sum += place(field.value());
    }
    return sum;
}

void event(ondemand::object object, totals &t)
{
    t.events++;
    for (auto field : object) {
        auto key = field.key().value();
        if (key == "ph") {
            std::string_view phase = field.value().get_string();
            t.slices += phase == "X";
        } else if (key == "name" || key == "cat") {
            t.check += text_check(field.value().get_string());
        } else if (key == "ts" || key == "dur") {
            t.check += moment(field.value());
        } else if (key == "pid" || key == "tid") {
            t.check += place(field.value());
        } else if (key == "args") {
            t.check += arguments(field.value());
        }
    }
}

void on_demand(const read_input &in, totals &t)
{
    ondemand::parser parser;
    ondemand::document document =
        parser.iterate(padded_string_view(in.text, in.size, in.size + READ_PADDING));
    ondemand::array events;
    if (document.type() == ondemand::json_type::array)
        events = document.get_array();
    else
        events = document["traceEvents"].get_array();
    for (auto item : events)
        event(item.get_object(), t);
}

void dom_tree(const read_input &in, totals &t)
{
    dom::parser parser;
    dom::element document = parser.parse(in.text, in.size, false);
    dom::array events;
    if (document.is_array())
        events = document;
    else
        events = document["traceEvents"];
    for (dom::element item : events) {
        t.events++;
        t.slices += std::string_view(item["ph"]) == "X";
    }
}
} // namespace

int main(int argc, char **argv)
{
    bool tree = argc == 3 && !std::strcmp(argv[1], "dom");
    if (argc != 3 || (!tree && std::strcmp(argv[1], "ondemand"))) {
        std::fprintf(stderr, "usage: peer_simdjson ondemand|dom FILE (simdjson %d.%d.%d for %s)\n",
                     SIMDJSON_VERSION_MAJOR, SIMDJSON_VERSION_MINOR, SIMDJSON_VERSION_REVISION,
                     get_active_implementation()->name().c_str());
        return 2;
    }
    read_result result = {};
    read_input input;
    totals t;
    read_begin(&result);
    try {
        if (!read_input_open(argv[2], &input))
            return 1;
        if (tree)
            dom_tree(input, t);
        else
            on_demand(input, t);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "peer_simdjson: %s: %s\n", argv[2], e.what());
        return 1;
    }
    result.events = t.events;
    result.slices = t.slices;
    result.check = t.check;
    read_end(&result);
    return 0;
}
