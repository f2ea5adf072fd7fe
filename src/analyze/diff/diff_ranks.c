/* Are steps longer as a whole, whatever a few of them do to the mean? The rank test of Wilcoxon,
 * Mann and Whitney, exact, and the shift of Hodges and Lehmann. docs/reference/diff.md says why. */
#include "analyze/diff/diff.h"

#define LEVEL 0.005 /* one-sided: 5 steps a side can prove something, 4 cannot */

/* Orders of n and m steps with u pairs the wrong way round are the coefficient of q^u in
 * (1 - q^(m+1)) ... (1 - q^(m+n)) / ((1 - q) ... (1 - q^n)). */
uint32_t ka_wrong_pairs(uint32_t n, uint32_t m, double level)
{
    double orders[KA_MAX_BLOCKS * KA_MAX_BLOCKS + 1] = {1}, all = 1, seen = 0;
    uint32_t pairs = n * m, wrong = 0;
    for (uint32_t i = 1; i <= n; i++) {
        for (uint32_t u = pairs; u >= m + i; u--)
            orders[u] -= orders[u - m - i];
        for (uint32_t u = i; u <= pairs; u++)
            orders[u] += orders[u - i];
        all = all * (m + i) / i;
    }
    while (wrong < pairs && (seen += orders[wrong]) <= level * all * (1 + 1e-9))
        wrong++;
    return wrong;
}

double ka_count_orders(uint32_t n, uint32_t m)
{
    double all = 1;
    for (uint32_t i = 1; i <= n; i++)
        all = all * (m + i) / i;
    return all;
}

/* ka_wrong_pairs, cached by the numbers of steps. */
static uint32_t wrong_pairs(ka_chance *c, uint32_t n, uint32_t m)
{
    if (!c->wrong[n][m])
        c->wrong[n][m] = (uint16_t)(ka_wrong_pairs(n, m, LEVEL) + 1);
    return c->wrong[n][m] - 1u;
}

/* The median of all pairs of steps. */
static double median_shift(const double *before, uint32_t n, const double *after, uint32_t m,
                           bool in_percent)
{
    double room[KA_MAX_BLOCKS * KA_MAX_BLOCKS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < m; k++) {
            double off = after[k] - before[i];
            room[count++] = in_percent && off != 0 ? 100 * off / fabs(before[i]) : off;
        }
    double middle =
        (ka_select_kth(room, count, (count - 1) / 2) + ka_select_kth(room, count, count / 2)) / 2;
    return isnan(middle) ? 0 : middle;
}

/* Steps that are equal count as the wrong way round: at worst, less is proven than could be. */
ka_shift ka_shift_by_ranks(ka_chance *c, const double *before, uint32_t n, const double *after,
                           uint32_t m, bool falls)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < m; k++)
            wrong += falls ? after[k] >= before[i] : after[k] <= before[i];
    if (wrong >= wrong_pairs(c, n, m))
        return (ka_shift){0};
    return (ka_shift){.delta = median_shift(before, n, after, m, false),
                      .pct = median_shift(before, n, after, m, true)};
}
