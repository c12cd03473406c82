/* lacache.c - keeps each token in a few neighbouring layers only, so that the kept tokens form a ladder. Evicts entries
 * whenever a list is full (docs/reference/methods/lacache.md). */
#include "policies/policies.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head: the ladder's mean size"),
    {"span", KVC_OPTION_INT, "16", 1, 1 << 20, NULL, "layers that keep the same token"},
    {"overlap", KVC_OPTION_INT, "0", 0, 1 << 20, NULL, "layers of the span shared with the next rung; less than span"},
    KVC_SINKS_OPTION("128"),
    KVC_POSITIONS_OPTION,
    KVC_OPTIONS_END};

/* Of every `block` neighbouring entries, each layer keeps `stay` and evicts `gone`. The kept indices shift from layer
 * to layer. */
struct ladder {
    uint64_t layers, sinks, block, stay, gone;
};

/* Computes the ladder. Requires span < layers. */
static struct ladder make_ladder(const struct kvc_values *values, uint64_t layers) {
    const uint64_t span = (uint64_t)kvc_value_int(values, "span");
    const uint64_t rung = span - (uint64_t)kvc_value_int(values, "overlap"), stay = kvc_divide_up(span, rung);
    struct ladder ladder = {.layers = layers, .sinks = (uint64_t)kvc_value_int(values, "sinks")};
    ladder.block = 1 + kvc_divide_up(layers - span, rung);
    ladder.stay = kvc_min_u64(stay, ladder.block);
    ladder.gone = ladder.block - ladder.stay;
    return ladder;
}

/* Returns the smallest budget: the sinks, one entry per layer, and space for one block. */
static uint64_t least_budget(const struct ladder *ladder) {
    const uint64_t least = ladder->sinks + ladder->layers + ladder->stay, more = ladder->gone / 2;
    return least > more + 1 ? least - more : 1;
}

static enum kvc_status lacache_check(const struct kvc_values *values, struct kvc_error *error) {
    const int64_t span = kvc_value_int(values, "span"), overlap = kvc_value_int(values, "overlap");
    if (overlap >= span)
        return kvc_fail(error, KVC_USAGE, "policy: overlap=%lld: must be from 0 to %lld, span - 1", (long long)overlap,
                        (long long)span - 1);
    const enum kvc_status status = kvc_check_one_budget(values, error);
    return status == KVC_OK ? kvc_check_above(values, "sinks", error) : status;
}

static enum kvc_status check_model(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error) {
    const uint64_t span = (uint64_t)kvc_value_int(values, "span");
    uint64_t layers = 0;
    for (uint32_t l = 0; l < geometry->layers; l++)
        layers += acts[l];
    if (layers == 0)
        return KVC_OK;
    if (span >= layers)
        return kvc_fail(error, KVC_USAGE, "policy lacache: span=%llu: must be below %llu, the layers it acts on",
                        (unsigned long long)span, (unsigned long long)layers);
    const struct ladder ladder = make_ladder(values, layers);
    if (ladder.gone == 0)
        return kvc_fail(error, KVC_USAGE,
                        "policy lacache: overlap=%lld: too large for span=%llu and %llu layers, which would all keep "
                        "everything",
                        (long long)kvc_value_int(values, "overlap"), (unsigned long long)span,
                        (unsigned long long)layers);
    const uint64_t least = least_budget(&ladder);
    if (!kvc_value_is_share(values, "budget") && (uint64_t)kvc_value_int(values, "budget") < least)
        return kvc_fail(error, KVC_USAGE,
                        "policy lacache: budget=%lld: too small for span, overlap, sinks and %llu layers: must be "
                        "from %llu to %.0f",
                        (long long)kvc_value_int(values, "budget"), (unsigned long long)layers,
                        (unsigned long long)least, KVC_BUDGET_MOST);
    return KVC_OK;
}

/* `now` is the index at which the next thinning of a list begins; 0 stands for the first index after the sinks. The
 * planned step changes `now` to `then`. */
struct cursor {
    uint64_t now, then;
};

/* Returns the size of the state: one cursor for each list, [layers, H]. */
static size_t state_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    (void)values;
    return (size_t)geometry->layers * geometry->heads * sizeof(struct cursor);
}

static bool state_fits(const struct kvc_values *values, const struct kvc_geometry *geometry, const void *state) {
    const struct cursor *cursor = state;
    bool fits = true;
    (void)values;
    for (size_t i = 0; i < (size_t)geometry->layers * geometry->heads; i++)
        fits = fits && cursor[i].now <= INT32_MAX && cursor[i].then <= INT32_MAX;
    return fits;
}

/* Returns a bound for the mean over the layers; a single layer may hold more. */
static uint64_t lacache_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_budget(values, prompt, (uint64_t)kvc_value_int(values, "sinks")) + (steps ? 1 : 0);
}

/* Thins the list [n] and returns its new length. The first `first` entries are kept. The next blocks * block entries
 * form `blocks` blocks, and each block keeps `stay` entries, at shift, shift + step and so on. All entries after the
 * blocks are kept. If list is NULL, only computes the length. */
static uint64_t thin(uint32_t *list, uint64_t n, uint64_t first, uint64_t blocks, uint64_t block, uint64_t shift,
                     uint64_t stay, uint64_t step) {
    const uint64_t end = kvc_min_u64(first + blocks * block, n);
    uint64_t left = kvc_min_u64(first, n);
    if (!list) {
        for (uint64_t k = 0; k < stay; k++)
            left += end > first + shift + k * step ? kvc_divide_up(end - first - shift - k * step, block) : 0;
        return left + n - end;
    }
    for (uint64_t j = 0; j < blocks; j++)
        for (uint64_t k = 0; k < stay; k++) {
            const uint64_t i = first + j * block + shift + k * step;
            if (i < end)
                list[left++] = list[i];
        }
    for (uint64_t i = end; i < n; i++)
        list[left++] = list[i];
    return left;
}

/* Writes the indices 0 to n - 1 to list [n], thins them to at most `most`, advances the cursor, and returns the new
 * length. Requires n > most. If list is NULL, only computes the length and the cursor. */
static uint64_t compact(const struct ladder *ladder, uint64_t most, uint64_t layer, uint64_t n, uint64_t *cursor,
                        uint32_t *list) {
    const uint64_t stay = ladder->stay, gone = ladder->gone, need = n - most;
    const uint64_t capacity = most > *cursor + ladder->layers ? (most - *cursor - ladder->layers) / stay : 0;
    for (uint64_t r = 0; list && r < n; r++)
        list[r] = (uint32_t)r;
    if (need <= capacity * gone) {
        const uint64_t blocks = kvc_divide_up(need, gone);
        n = thin(list, n, *cursor, blocks, ladder->block, layer % (gone + 1), stay, 1);
        *cursor += blocks * stay;
        return n;
    }
    n = thin(list, n, *cursor, capacity, ladder->block, layer % (gone + 1), stay, 1);
    const uint64_t rest = need - capacity * gone, within = (most - ladder->sinks - ladder->layers) / stay * gone;
    const uint64_t times = kvc_divide_up(rest, within), block = ladder->block + (times - 1) * (ladder->block - 1);
    const uint64_t blocks = kvc_divide_up(rest, block - stay);
    n = thin(list, n, ladder->sinks, blocks, block, layer % (block - stay + 1), stay, times);
    *cursor = ladder->sinks + blocks * stay;
    return n;
}

/* Returns the size of a list after `steps` decode steps: the list grows until it is thinned, and then grows again. If
 * another method left different numbers of entries in the lists, they are thinned at different steps. The result is
 * then the largest size, which a list has just before it is thinned. */
static double lacache_entries(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt,
                              uint64_t steps) {
    const struct ladder ladder = make_ladder(values, context->actings);
    const uint64_t most = kvc_budget(values, prompt, least_budget(&ladder) - 1) + ladder.gone / 2;
    uint64_t n = (uint64_t)(context->from + 0.5), cursor = ladder.sinks, left = steps;
    if (context->uneven)
        return fmin(context->from + (double)steps, (double)most);
    if (!context->prompts && left > 0) { /* a step appends an entry before it evicts */
        n++;
        left--;
    }
    struct {
        uint64_t n, cursor, left;
    } seen = {.cursor = UINT64_MAX};
    for (uint64_t thinnings = 1, remembered = 1;; thinnings++) {
        if (n > most)
            n = compact(&ladder, most, context->acting, n, &cursor, NULL);
        if (n == seen.n && cursor == seen.cursor && seen.left > left)
            left %= seen.left - left;
        if (left == 0)
            return (double)n;
        if (thinnings == remembered) {
            seen.n = n, seen.cursor = cursor, seen.left = left;
            remembered *= 2;
        }
        const uint64_t capacity = n > most ? 1 : most + 1 - n, some = kvc_min_u64(capacity, left);
        n += some;
        left -= some;
    }
}

static uint64_t most_of(const struct kvc_stage_info *info, const struct kvc_values *values,
                        const struct ladder *ladder) {
    return kvc_budget(values, info->held, least_budget(ladder) - 1) + ladder->gone / 2;
}

/* Plans which entries of each list are kept. The plan can be made before the decode step, because the step adds exactly
 * one entry to each list. */
static enum kvc_status plan(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const struct ladder ladder = make_ladder(values, info->actings);
    const uint64_t most = most_of(info, values, &ladder);
    struct cursor *cursor = (struct cursor *)kvc_stage_state(stage) + (size_t)info->layer * info->heads;
    if (info->entries <= most)
        return KVC_OK;
    uint32_t *list = malloc(info->entries * sizeof *list);
    enum kvc_status status =
        list ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "no memory for %llu indices", (unsigned long long)info->entries);
    for (uint32_t h = 0; h < info->kv_heads && status == KVC_OK; h++) {
        size_t held;
        status = kvc_stage_read_positions(stage, h, NULL, 0, &held, error);
        uint64_t n = held + (info->step > 0);
        cursor[h].then = kvc_max_u64(cursor[h].now, ladder.sinks);
        if (n > most)
            n = compact(&ladder, most, info->acting, n, &cursor[h].then, list);
        else
            for (uint32_t r = 0; r < n; r++)
                list[r] = r;
        if (status == KVC_OK)
            status = kvc_stage_plan(stage, h, list, (uint32_t)n, error);
    }
    free(list);
    return status;
}

static enum kvc_status lacache_decode(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const struct ladder ladder = make_ladder(values, info->actings);
    struct cursor *cursor = (struct cursor *)kvc_stage_state(stage) + (size_t)info->layer * info->heads;
    if (info->entries <= most_of(info, values, &ladder))
        return KVC_OK;
    for (uint32_t h = 0; h < info->kv_heads; h++)
        cursor[h].now = cursor[h].then;
    return kvc_stage_keep_planned(stage, error);
}

static enum kvc_status evict_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const enum kvc_status status = plan(stage, values, error);
    return status == KVC_OK ? lacache_decode(stage, values, error) : status;
}

const struct kvc_policy_class kvc_policy_lacache = {
    .name = "lacache",
    .summary = "keeps spans of tokens that shift from layer to layer, like a ladder",
    .paper = "LaCache, arXiv:2507.14204",
    .idea = "Each token is kept in only a few neighbouring layers. Which layers these are shifts with the token's "
            "position, like the rungs of a ladder. Together the layers remember a longer past than one budget could. "
            "Whenever the cache is full, its next part is thinned in this way. When the whole cache has been thinned, "
            "thinning begins again, so the oldest part becomes ever sparser.",
    .formula =
        "L = the layers it acts on, l = a layer's number among them; wb = 1 + ceil((L - span) / (span - overlap)), wa "
        "= min(ceil(span / (span - overlap)), wb), red = wb - wa, C = B + floor(red / 2); a cursor starts at `sinks`. "
        "When a list holds n > C entries: need = n - C, left = C - cursor - L (at least 0), can = floor(left / wa) "
        "red.\n\nIf need <= can: m = ceil(need / red) blocks of wb indices from the cursor on keep wa each, those from "
        "l mod (red + 1) on; the cursor advances by m wa.\n\nOtherwise the same with m = floor(left / wa), and then, "
        "from the sinks on, with rest = need - can and times = ceil(rest / (floor((C - sinks - L) / wa) red)): m2 = "
        "ceil(rest / (wb2 - wa)) blocks of wb2 = wb + (times - 1)(wb - 1) indices, of which each keeps the indices l "
        "mod (wb2 - wa + 1) + times k, k < wa; everything beyond the last block is kept. The cursor is then sinks + m2 "
        "wa. A share of the prompt is at least the smallest budget allowed: C >= sinks + L + wa",
    .memory = "B entries on average over the layers, at most B + floor((wb - wa) / 2) (one more within a decode step); "
              "with positions=cache d more float32 per entry and KV head",
    .traffic = "about B entries per generated token",
    .differences = "Keys keep their original positions, unless positions=cache. L and l count the layers that the "
                   "method acts on. Thinning uses each head's own entries.",
    .second_turn = "The thinning continues from where it ended. Its result is the same whether entries came from a "
                   "prompt or from decode steps.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .trial = "span=2,sinks=4",
    .check = lacache_check,
    .check_model = check_model,
    .state_bytes = state_bytes,
    .state_fits = state_fits,
    .cache_positions = kvc_positions_in_cache,
    .forecast = &(const struct kvc_forecast){.bound = lacache_bound, .entries = lacache_entries},
    .prompt = evict_prompt,
    .plan = plan,
    .decode = lacache_decode};
