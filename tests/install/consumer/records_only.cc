// The same from C++17.
#include <ckineto/record.h>

#include <cstdio>

int main()
{
    KINETO_SITE(site, KINETO_KIND_CPU_OP, "consumer");
    kineto_range range = kineto_range_begin(&site);
    kineto_range_end(range);
    std::puts(kineto_kind_name(KINETO_KIND_CPU_OP));
}
