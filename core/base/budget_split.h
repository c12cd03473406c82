/* budget_split.h - how RocketKV divides a compression between a prompt method and a select method
 * (docs/reference/methods/rocketkv.md). */
#ifndef KVC_CORE_BASE_BUDGET_SPLIT_H
#define KVC_CORE_BASE_BUDGET_SPLIT_H

#include <stdint.h>

/* The split for a prompt of S tokens and a budget of t: c = max(1, S/t), the exponent r, c2 = c^(1-r), and the entries
 * that the prompt method keeps. */
struct kvc_budget_split {
    double c, r, c2;
    uint64_t kept;
};
/* If `exponent` is negative, r follows the paper's formula; otherwise r equals `exponent` (0 to 1). The prompt method
 * keeps at least `least` entries, or all S entries if S is smaller. */
struct kvc_budget_split kvc_budget_split(uint64_t S, uint64_t t, uint64_t least, double exponent);

#endif
