/* Numbers as people read them. */
#include "base/base.h"

kb_text kb_duration(int64_t ns)
{
    static const struct {
        double ns;
        const char *unit;
    } units[] = {{86400e9, "days"}, {3600e9, "h"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
    kb_text text;
    double value = (double)ns;
    for (size_t i = 0; i < KB_COUNT(units); i++) {
        if (value >= units[i].ns || value <= -units[i].ns) {
            snprintf(text.s, sizeof text.s, "%.3f %s", value / units[i].ns, units[i].unit);
            return text;
        }
    }
    snprintf(text.s, sizeof text.s, "%lld ns", (long long)ns);
    return text;
}
