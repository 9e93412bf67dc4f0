/* The inner loops of `regrets.pyx`: rows of levels, in groups of four floats; what is beyond the last level is 0, or not used. */

#ifndef REGRETS_H
#define REGRETS_H

#include <stdint.h>
#include <string.h>

typedef float Four __attribute__((vector_size(16)));
typedef int32_t FourBits __attribute__((vector_size(16)));

static inline Four four(const float *at)
{
    Four value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline void put_four(float *at, Four value) { memcpy(at, &value, sizeof value); }

static inline Four positive(Four value) { return (Four)((FourBits)value & (value > 0)); }

static inline float sum_of(Four value) { return (value[0] + value[1]) + (value[2] + value[3]); }

/* The regrets of a message after prices at both ends, and where it then goes: added to the loads of both. */
static inline void choose_levels(float *regret, int64_t levels, const float *left, const float *right, float *left_load,
                                 float *right_load)
{
    int64_t k, width = (levels + 3) / 4 * 4;
    Four sums = {0}, paid = {0};
    FourBits open = {-1, -1, -1, -1};
    float total, value = 0;
    for (k = levels; k < width; k++) open[k % 4] = 0;
    for (k = 0; k < width; k += 4) {
        Four r = four(regret + k);
        sums += r;
        paid += r * (four(left + k) + four(right + k));
    }
    total = sum_of(sums);
    if (total > 0) {
        value = sum_of(paid) / total;
    } else {
        for (k = 0; k < levels; k++) value += left[k] + right[k];
        value /= levels;
    }
    sums = (Four){0};
    for (k = 0; k < width; k += 4) {
        Four r = positive(four(regret + k) + value - (four(left + k) + four(right + k)));
        if (k + 4 == width) r = (Four)((FourBits)r & open);
        put_four(regret + k, r);
        sums += r;
    }
    total = sum_of(sums);
    for (k = 0; k < width; k += 4) {
        Four share = {0};
        if (total > 0) share = four(regret + k) / total;
        else for (int64_t j = 0; j < 4 && k + j < levels; j++) share[j] = 1.0f / levels;
        put_four(left_load + k, four(left_load + k) + share);
        put_four(right_load + k, four(right_load + k) + share);
    }
}

/* The regrets of all levels after the loads of the processes, and the prices that follow; added to their mean, so many times. */
static inline void choose_processes(int64_t processes, int64_t width, const float *restrict load, float *restrict regret,
                                    float *restrict price, float *restrict mean, float times, float *restrict total,
                                    float *restrict value, const float *restrict weight)
{
    int64_t v, k;
    memset(value, 0, width * sizeof *value);
    for (v = 0; v < processes; v++)
        for (k = 0; k < width; k++) value[k] += load[v * width + k] * regret[v * width + k];
    for (k = 0; k < width; k++) {
        value[k] /= total[k];
        total[k] = 0;
    }
    for (v = 0; v < processes; v++)
        for (k = 0; k < width; k++) {
            float r = regret[v * width + k] + load[v * width + k] - value[k];
            r = r > 0 ? r : 0;
            regret[v * width + k] = r;
            total[k] += r;
        }
    for (k = 0; k < width; k++) {
        if (!(total[k] > 0)) {  /* all loads are the same */
            for (v = 0; v < processes; v++) regret[v * width + k] = 1;
            total[k] = processes;
        }
        value[k] = weight[k] / total[k];
    }
    for (v = 0; v < processes; v++)
        for (k = 0; k < width; k++) {
            float p = regret[v * width + k] * value[k];
            price[v * width + k] = p;
            mean[v * width + k] += times * p;
        }
}

#endif
