/* The part of fmt that libkineto's headers use, for PyTorch before 2.8, which includes <fmt/format.h>
 * and does not ship it: format(text, values…) with "{}" for each value in turn. */
#ifndef CKINETO_COMPAT_FMT_H
#define CKINETO_COMPAT_FMT_H

#include <sstream>
#include <string>

namespace fmt {

inline void append_rest(std::ostringstream &out, const char *format) { out << format; }

template <typename Value, typename... Values>
void append_rest(std::ostringstream &out, const char *format, const Value &value,
                 const Values &...values)
{
  for (; *format; format++) {
    if (format[0] == '{' && format[1] == '}') {
      out << value;
      append_rest(out, format + 2, values...);
      return;
    }
    out << *format;
  }
}

template <typename... Values> std::string format(const char *format, const Values &...values)
{
  std::ostringstream out;
  append_rest(out, format, values...);
  return out.str();
}

}  // namespace fmt
#endif
