/* A program that only carries call sites: needs the recording library and libc. */
#include <ckineto/record.h>

#include <stdio.h>

int main(void)
{
    KINETO_SITE(site, KINETO_KIND_CPU_OP, "consumer");
    kineto_range range = kineto_range_begin(&site);
    kineto_range_end(range);
    puts(kineto_kind_name(KINETO_KIND_CPU_OP));
    return 0;
}
