/* named.c - chat templates by name, for models whose files have no template. The Jinja texts are written for this
 * project. They produce the same text as each family's published template for system, user and assistant messages. None
 * of them supports tools or documents. */
#include "models/chat/template.h"

/* Sets `first` to 1 if the conversation begins with a system message. */
#define SYSTEM_FIRST "{%- set first = 1 if messages[0].role == 'system' else 0 -%}\n"

/* For the loop over messages[first:]: raises an exception unless user and assistant alternate. */
#define TAKE_TURNS                                                                                                     \
    "{%- if message.role != ('assistant' if loop.index0 % 2 else 'user') -%}\n"                                        \
    "{{- raise_exception('a message is the ' ~ message.role ~ \"'s; after an opening system message user and \" ~\n"   \
    "                    'assistant must take turns') -}}\n"                                                           \
    "{%- endif -%}\n"

static const char llama2[] = SYSTEM_FIRST
    "{%- for message in messages[first:] -%}\n" TAKE_TURNS "{%- if message.role == 'assistant' -%}\n"
    "{{- ' ' ~ message.content.strip() ~ ' ' ~ eos_token -}}\n"
    "{%- else -%}\n"
    "{%- set system = '<<SYS>>\\n' ~ messages[0].content ~ '\\n<</SYS>>\\n\\n' if first and loop.first else '' -%}\n"
    "{{- bos_token ~ '[INST] ' ~ (system ~ message.content).strip() ~ ' [/INST]' -}}\n"
    "{%- endif -%}\n"
    "{%- endfor -%}\n";

#define LLAMA3_MESSAGE                                                                                                 \
    "{{- '<|start_header_id|>' ~ message.role ~ '<|end_header_id|>\\n\\n' ~ message.content.strip() -}}\n"             \
    "{{- '<|eot_id|>' -}}\n"
#define LLAMA3_ANSWER                                                                                                  \
    "{%- if add_generation_prompt -%}\n"                                                                               \
    "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}\n"                                                  \
    "{%- endif -%}\n"

static const char llama3[] = "{{- bos_token -}}\n"
                             "{%- for message in messages -%}\n" LLAMA3_MESSAGE "{%- endfor -%}\n" LLAMA3_ANSWER;

/* Without a date, the template writes the published template's fallback date, so that the text is the same every day.
 */
static const char llama31[] =
    SYSTEM_FIRST "{%- set today = strftime_now('%d %b %Y') if strftime_now is defined else '26 Jul 2024' -%}\n"
                 "{{- bos_token ~ '<|start_header_id|>system<|end_header_id|>\\n\\n' -}}\n"
                 "{{- 'Cutting Knowledge Date: December 2023\\nToday Date: ' ~ today ~ '\\n\\n' -}}\n"
                 "{{- (messages[0].content.strip() if first else '') ~ '<|eot_id|>' -}}\n"
                 "{%- for message in messages[first:] -%}\n" LLAMA3_MESSAGE "{%- endfor -%}\n" LLAMA3_ANSWER;

static const char mistral2[] = "{{- bos_token -}}\n" SYSTEM_FIRST "{%- for message in messages[first:] -%}\n" TAKE_TURNS
                               "{%- if message.role == 'assistant' -%}\n"
                               "{{- message.content ~ eos_token -}}\n"
                               "{%- else -%}\n"
                               "{%- set system = messages[0].content ~ '\\n\\n' if first and loop.first else '' -%}\n"
                               "{{- '[INST] ' ~ system ~ message.content ~ ' [/INST]' -}}\n"
                               "{%- endif -%}\n"
                               "{%- endfor -%}\n";

/* The system message becomes the beginning of the last user message. */
#define MISTRAL_LATE(open, answer)                                                                                     \
    "{{- bos_token -}}\n" SYSTEM_FIRST "{%- for message in messages[first:] -%}\n" TAKE_TURNS                          \
    "{%- if message.role == 'assistant' -%}\n"                                                                         \
    "{{- " answer " ~ eos_token -}}\n"                                                                                 \
    "{%- else -%}\n"                                                                                                   \
    "{%- set system = messages[0].content ~ '\\n\\n' if first and loop.last else '' -%}\n"                             \
    "{{- '" open "' ~ system ~ message.content ~ '[/INST]' -}}\n"                                                      \
    "{%- endif -%}\n"                                                                                                  \
    "{%- endfor -%}\n"

static const char mistral3[] = MISTRAL_LATE("[INST] ", "' ' ~ message.content.strip()");
static const char nemo[] = MISTRAL_LATE("[INST]", "message.content");

#define CHATML_ANSWER                                                                                                  \
    "{%- if add_generation_prompt -%}\n"                                                                               \
    "{{- '<|im_start|>assistant\\n' -}}\n"                                                                             \
    "{%- endif -%}\n"
#define CHATML                                                                                                         \
    "{%- for message in messages -%}\n"                                                                                \
    "{{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' -}}\n"                              \
    "{%- endfor -%}\n" CHATML_ANSWER
#define CHATML_SYSTEM(text)                                                                                            \
    "{%- if messages[0].role != 'system' -%}\n"                                                                        \
    "{{- '<|im_start|>system\\n" text "<|im_end|>\\n' -}}\n"                                                           \
    "{%- endif -%}\n"

static const char chatml[] = CHATML;
static const char qwen2[] = CHATML_SYSTEM("You are a helpful assistant.") CHATML;
static const char qwen25[] =
    CHATML_SYSTEM("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.") CHATML;

/* Keeps the thinking part only in answers that follow the last question. */
static const char qwen3[] =
    "{%- set last = namespace(question=messages|length - 1) -%}\n"
    "{%- for message in messages -%}\n"
    "{%- if message.role == 'user' and not (message.content.startswith('<tool_response>') and\n"
    "                                       message.content.endswith('</tool_response>')) -%}\n"
    "{%- set last.question = loop.index0 -%}\n"
    "{%- endif -%}\n"
    "{%- endfor -%}\n"
    "{%- for message in messages -%}\n"
    "{%- set thought, answer = '', message.content -%}\n"
    "{%- if message.role == 'assistant' and '</think>' in answer -%}\n"
    "{%- set thought = answer.split('</think>')[0].rstrip('\\n').split('<think>')[-1].strip('\\n') -%}\n"
    "{%- set answer = answer.split('</think>')[-1].lstrip('\\n') -%}\n"
    "{%- endif -%}\n"
    "{{- '<|im_start|>' ~ message.role ~ '\\n' -}}\n"
    "{%- if message.role == 'assistant' and loop.index0 > last.question and (loop.last or thought) -%}\n"
    "{{- '<think>\\n' ~ thought ~ '\\n</think>\\n\\n' ~ answer.lstrip('\\n') -}}\n"
    "{%- else -%}\n"
    "{{- answer -}}\n"
    "{%- endif -%}\n"
    "{{- '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n" CHATML_ANSWER
    "{%- if add_generation_prompt and enable_thinking is defined and not enable_thinking -%}\n"
    "{{- '<think>\\n\\n</think>\\n\\n' -}}\n"
    "{%- endif -%}\n";

/* The text that begins an answer follows every user message. Phi-3's first template had no system message; this
 * template writes it as the later ones do. */
static const char phi3[] = "{{- bos_token -}}\n"
                           "{%- for message in messages -%}\n"
                           "{%- if message.role in ['system', 'user'] -%}\n"
                           "{{- '<|' ~ message.role ~ '|>\\n' -}}\n"
                           "{%- endif -%}\n"
                           "{{- message.content ~ '<|end|>\\n' -}}\n"
                           "{{- '<|assistant|>\\n' if message.role == 'user' else '' -}}\n"
                           "{%- endfor -%}\n";

static const char phi35[] = "{%- for message in messages if message.role != 'system' or message.content -%}\n"
                            "{{- '<|' ~ message.role ~ '|>\\n' ~ message.content ~ '<|end|>\\n' -}}\n"
                            "{%- endfor -%}\n"
                            "{{- '<|assistant|>\\n' if add_generation_prompt else eos_token -}}\n";

static const char phi4[] = "{%- for message in messages -%}\n"
                           "{{- '<|im_start|>' ~ message.role ~ '<|im_sep|>' ~ message.content ~ '<|im_end|>' -}}\n"
                           "{%- endfor -%}\n"
                           "{{- '<|im_start|>assistant<|im_sep|>' if add_generation_prompt else '' -}}\n";

static const char phi4_mini[] = "{%- for message in messages -%}\n"
                                "{{- '<|' ~ message.role ~ '|>' ~ message.content ~ '<|end|>' -}}\n"
                                "{%- endfor -%}\n"
                                "{{- '<|assistant|>' if add_generation_prompt else eos_token -}}\n";

static const char vicuna[] =
    SYSTEM_FIRST "{%- set standard = 'A chat between a curious user and an artificial intelligence assistant. ' ~\n"
                 "    \"The assistant gives helpful, detailed, and polite answers to the user's questions.\" -%}\n"
                 "{{- bos_token ~ (messages[0].content if first else standard) ~ ' ' -}}\n"
                 "{%- for message in messages[first:] -%}\n" TAKE_TURNS "{%- if message.role == 'assistant' -%}\n"
                 "{{- 'ASSISTANT: ' ~ message.content ~ eos_token -}}\n"
                 "{%- else -%}\n"
                 "{{- 'USER: ' ~ message.content ~ ' ' -}}\n"
                 "{%- endif -%}\n"
                 "{%- endfor -%}\n"
                 "{{- 'ASSISTANT:' if add_generation_prompt else '' -}}\n";

const struct kvc_named_template kvc_named_templates[] = {
    {"llama2", "Llama 2: [INST] <<SYS>> ... [/INST]", "<s>", "</s>", llama2},
    {"llama3", "Llama 3", "<|begin_of_text|>", "<|eot_id|>", llama3},
    {"llama3.1", "Llama 3.1, 3.2 and 3.3, with the date their template falls back on", "<|begin_of_text|>",
     "<|eot_id|>", llama31},
    {"mistral-v0.2", "Mistral 7B v0.1 and v0.2", "<s>", "</s>", mistral2},
    {"mistral-v0.3", "Mistral 7B v0.3", "<s>", "</s>", mistral3},
    {"mistral-nemo", "Mistral Nemo", "<s>", "</s>", nemo},
    {"chatml", "ChatML without a system message of its own", "", "", chatml},
    {"qwen2", "Qwen2: ChatML, \"You are a helpful assistant.\"", "", "", qwen2},
    {"qwen2.5", "Qwen2.5: ChatML, \"You are Qwen, created by Alibaba Cloud. ...\"", "", "", qwen25},
    {"qwen3", "Qwen3: ChatML with thinking", "", "", qwen3},
    {"phi3", "Phi-3, first template: <|user|> ... <|end|> <|assistant|>", "<s>", "<|endoftext|>", phi3},
    {"phi3.5", "Phi-3.5 and later Phi-3", "<s>", "<|endoftext|>", phi35},
    {"phi4", "Phi-4: <|im_start|>user<|im_sep|> ...", "", "", phi4},
    {"phi4-mini", "Phi-4-mini: <|user|> ... <|end|>, no newlines", "", "<|endoftext|>", phi4_mini},
    {"vicuna", "Vicuna and LongChat: USER: ... ASSISTANT: ...", "<s>", "</s>", vicuna},
    {NULL, NULL, NULL, NULL, NULL},
};
