/* Units of counters: they stand in brackets at the end of a series' key, "power [W]". */
#include "export/export.h"

void ke_split_unit(kineto_string key, kineto_string *series, kineto_string *unit)
{
    size_t size = key.size, open = size;
    *series = key;
    *unit = (kineto_string){"", 0};
    if (size < 3 || key.data[size - 1] != ']')
        return;
    while (open > 0 && key.data[open - 1] != '[')
        open--;
    if (open == 0 || open + 1 == size)
        return;
    *unit = (kineto_string){key.data + open, size - open - 1};
    series->size = open - 1;
    while (series->size > 0 && key.data[series->size - 1] == ' ')
        series->size--;
}
