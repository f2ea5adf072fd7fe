// The task of read_peer.py with simdjson: the number of slices and their total time, by name.
//   peer_names FILE
#include <cmath>
#include <cstdio>
#include <simdjson.h>
#include <string_view>
#include <unordered_map>

using namespace simdjson;

namespace
{
struct total {
    uint64_t slices = 0;
    double us = 0;
};

void event(ondemand::object object, std::unordered_map<std::string_view, total> &names)
{
    std::string_view phase, name;
    double us = 0;
    for (auto field : object) {
        auto key = field.key().value();
        if (key == "ph")
            phase = field.value().get_string();
        else if (key == "name")
            name = field.value().get_string(); // stays in the parser's buffer
        else if (key == "dur")
            us = field.value().get_double();
    }
    if (phase != "X")
        return;
    total &t = names[name];
    t.slices++;
    t.us += us;
}
} // namespace

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    padded_string text = padded_string::load(argv[1]);
    ondemand::parser parser;
    ondemand::document document = parser.iterate(text);
    std::unordered_map<std::string_view, total> names;
    for (auto item : document["traceEvents"].get_array())
        event(item.get_object(), names);
    total all;
    for (const auto &entry : names) {
        all.slices += entry.second.slices;
        all.us += entry.second.us;
    }
    printf("{\"names\": %zu, \"slices\": %llu, \"total_us\": %lld}\n", names.size(),
           (unsigned long long)all.slices, std::llround(all.us));
    return 0;
}
