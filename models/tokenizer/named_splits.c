/* named_splits.c - the pre-tokenizers that a GGUF file's tokenizer.ggml.pre may name. Each pre-tokenizer has some
 * flags, and the patterns of its models' tokenizer.json, which are applied in turn. */
#include "models/tokenizer/parts.h"

#include <stdlib.h>
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define NOT_WORD "[^\\r\\n\\p{L}\\p{N}]?"
#define WORDS_AND(digits) CONTRACTIONS "|" NOT_WORD "\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL

#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CAMEL_OF(upper, lower, ending) NOT_WORD upper "*" lower "+" ending "|" NOT_WORD upper "+" lower "*" ending
#define CAMEL(ending) CAMEL_OF(UPPER, LOWER, ending)
/* Kimi's tokenizer intersects classes with "not Han", which pcre2 does not support. */
#define NOT_HAN(class) "(?:(?!\\p{Han})" class ")"

/* Cased letters of the Unicode version in use. */
#define CASED                                                                                                          \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}"   \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"     \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"       \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}"                  \
    "\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}"                  \
    "\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}" \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"                  \
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}" \
    "\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}" \
    "\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}" \
    "\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}"                  \
    "\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"                \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"        \
    "\\x{1e900}-\\x{1e943}"
#define EAST_ASIAN "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define DIGIT "\\p{N}"

const char kvc_gpt2_pattern[] = GPT2;

static const struct kvc_named_split named_splits[] = {
    {.names = "gpt-2 gpt2 default jais phi-2 trillion granite-docling jina-es jina-de jina-v2-es jina-v2-de",
     .patterns = {GPT2}},
    {.names = "mpt olmo", .patterns = {GPT2}, .compose = true},
    {.names = "starcoder refact smollm codeshell exaone minerva-7b granite", .patterns = {DIGIT, GPT2}},
    {.names = "command-r", .patterns = {DIGIT, GPT2}, .compose = true},
    {.names = "llama-bpe llama3 llama-v3 smaug-bpe falcon3",
     .patterns = {WORDS_AND("\\p{N}{1,3}")},
     .ignore_merges = true,
     .bos = true},
    {.names = "dbrx cl100k phi-4 olmo2 glm4 chatglm-bpe", .patterns = {WORDS_AND("\\p{N}{1,3}")}},
    {.names = "qwen2 deepseek-r1-qwen stablelm2 hunyuan", .patterns = {WORDS_AND("\\p{N}")}, .compose = true},
    {.names = "grok-2", .patterns = {WORDS_AND("\\p{N}")}},
    {.names = "qwen35",
     .patterns = {CONTRACTIONS "|" NOT_WORD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL},
     .compose = true},
    {.names = "gpt-4o o200k llama4 kanana2",
     .patterns = {CAMEL(CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL}},
    {.names = "tekken",
     .patterns = {CAMEL("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL},
     .ignore_merges = true,
     .bos = true},
    {.names = "deepseek-llm",
     .patterns = {"[\r\n]", "\\s?[" CASED "]+",
                  "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+", "\\s+$",
                  EAST_ASIAN, DIGIT}},
    {.names = "deepseek-coder", .patterns = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", EAST_ASIAN, DIGIT}},
    {.names = "deepseek-v3 hunyuan-dense",
     .patterns = {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
                  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                  "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
    {.names = "kimi-k2",
     .patterns = {"[\\p{Han}]+|" CAMEL_OF(NOT_HAN(UPPER), NOT_HAN(LOWER),
                                          CONTRACTIONS "?") "|\\p{N}{1,3}"
                                                            "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL}},
    {.names = "seed-coder",
     .patterns = {CONTRACTIONS "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+"
                               "|\\s+(?!\\S)|\\s+"}},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .patterns = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
                  "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = "minicpm5", .patterns = {"\\p{N}{1,3}", WORDS_AND("\\p{N}+")}, .ignore_merges = true},
};

const struct kvc_named_split *kvc_named_split_at(size_t i) {
    return i < sizeof named_splits / sizeof *named_splits ? &named_splits[i] : NULL;
}

const struct kvc_named_split *kvc_named_split(const char *name, size_t bytes) {
    const struct kvc_named_split *split;
    for (size_t i = 0; (split = kvc_named_split_at(i)) != NULL; i++) {
        const char *at = split->names;
        while (*at) {
            size_t length = strcspn(at, " ");
            if (length == bytes && !memcmp(at, name, bytes))
                return split;
            at += length + (at[length] == ' ');
        }
    }
    return NULL;
}

/* ---- the name of a pre-tokenizer ---- */

/* Compares a pattern of this file, which writes characters above U+007F as \x{...}, with one of tokenizer.json, which
 * contains them unescaped. */
static bool same_pattern(const char *ours, const char *theirs) {
    while (*ours) {
        char text[4] = {*ours};
        size_t bytes = 1;
        if (!strncmp(ours, "\\x{", 3)) {
            char *end;
            bytes = kvc_utf8_put((uint32_t)strtoul(ours + 3, &end, 16), text);
            ours = end; /* `ours` is now at the closing brace */
        }
        if (strncmp(theirs, text, bytes) != 0)
            return false;
        ours++;
        theirs += bytes;
    }
    return !*theirs;
}

static bool splits_by(const struct kvc_split_step *step, const char *pattern) {
    return step->kind == KVC_STEP_SPLIT && step->behavior == KVC_SPLIT_ISOLATED && !step->invert &&
           step->pattern.expression && same_pattern(pattern, step->pattern.expression);
}

static bool splits_so(const struct kvc_tokenizer *tokenizer, const struct kvc_named_split *split) {
    const bool composes = tokenizer->normalizer_count == 1 && tokenizer->normalizer->kind == KVC_NORMALIZE_NFC;
    size_t count = 0;
    while (count < KVC_SPLIT_PATTERNS && split->patterns[count])
        count++;
    if (tokenizer->splitter_count != count + 1 || (tokenizer->normalizer_count && !composes) ||
        split->compose != composes || split->ignore_merges != tokenizer->ignore_merges ||
        tokenizer->splitter[count].kind != KVC_STEP_BYTES)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!splits_by(&tokenizer->splitter[i], split->patterns[i]))
            return false;
    return true;
}

const char *kvc_split_name(const struct kvc_tokenizer *tokenizer, size_t *bytes) {
    const struct kvc_named_split *split;
    for (size_t i = 0; (split = kvc_named_split_at(i)) != NULL; i++) {
        if (splits_so(tokenizer, split)) {
            *bytes = strcspn(split->names, " ");
            return split->names;
        }
    }
    return NULL;
}
