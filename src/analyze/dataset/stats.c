/* Descriptive statistics: mean, sample deviation, linear quantiles, median and median absolute
 * deviation, as numpy and pandas define them. */
#include "analyze/dataset/dataset.h"

#include <math.h>

/* Values often are in order already, which is checked first. */
static void sort_values(double *values, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (values[i - 1] > values[i]) {
            qsort(values, count, sizeof *values, kb_compare_doubles);
            return;
        }
}

double ka_quantile(const double *sorted, size_t count, double q)
{
    if (!count)
        return 0;
    double at = q * (double)(count - 1), below = floor(at);
    size_t i = (size_t)below;
    if (i + 1 >= count)
        return sorted[count - 1];
    return sorted[i] + (sorted[i + 1] - sorted[i]) * (at - below);
}

/* By halves: the error grows with the logarithm of the count only. */
static double sum_values(const double *values, size_t count)
{
    if (count > 64)
        return sum_values(values, count / 2) + sum_values(values + count / 2, count - count / 2);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

/* Of a sample, with n - 1; 0 for fewer than two values. */
static double sample_deviation(double *values, size_t count, double mean)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return count > 1 ? sqrt(sum / (double)(count - 1)) : 0;
}

ka_describe ka_describe_values(double *values, size_t count)
{
    if (!count)
        return (ka_describe){0};
    double mean = sum_values(values, count) / (double)count,
           std = sample_deviation(values, count, mean);
    sort_values(values, count);
    return (ka_describe){.count = count,
                         .mean = mean,
                         .std = std,
                         .min = values[0],
                         .p25 = ka_quantile(values, count, 0.25),
                         .p50 = ka_quantile(values, count, 0.5),
                         .p75 = ka_quantile(values, count, 0.75),
                         .max = values[count - 1]};
}

double ka_median(double *values, size_t count)
{
    sort_values(values, count);
    return ka_quantile(values, count, 0.5);
}

double ka_mad(double *values, size_t count, double median)
{
    for (size_t i = 0; i < count; i++)
        values[i] = fabs(values[i] - median);
    return ka_median(values, count);
}

void ka_tally_ns_add(ka_tally_ns *t, int64_t ns)
{
    double us = ka_us(ns), delta = us - t->mean;
    t->min_ns = t->count ? KB_MIN(t->min_ns, ns) : ns;
    t->max_ns = t->count ? KB_MAX(t->max_ns, ns) : ns;
    t->count++;
    t->sum_ns = ka_add_ns(t->sum_ns, ns);
    t->mean += delta / (double)t->count;
    t->m2 += delta * (us - t->mean);
}

static double std_of(const ka_tally_ns *t)
{
    return t->count > 1 ? sqrt(t->m2 / (double)(t->count - 1)) : 0;
}

void ka_put_tally(ka_table *t, const ka_tally_ns *tally)
{
    ka_put_int(t, (int64_t)tally->count);
    ka_put_ns(t, tally->sum_ns);
    ka_put_ns(t, tally->max_ns);
    ka_put_ns(t, tally->min_ns);
    ka_put_number(t, ka_us(tally->sum_ns) / (double)tally->count);
    ka_put_number(t, std_of(tally));
}
