/* test_samples.c - samples of the standard tasks: equal for equal seeds, never longer than requested, and with their
 * answers in the text as the task defines, which slow, simple code checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "eval/needle_text.h"
#include "eval/prompt.h"
#include "tests/check.h"
#include "tests/eval/check_samples.h"

static struct kvc_engine *engine;
static struct kvc_model *model;
static struct eval_data data;

static const char essays[] =
    "First things come first.  \n\tThen, he said \"stop!\" Nothing happened (or so it seemed.) "
    "Was it over? It was not over; it went on and on and on, as such things do. The end came "
    "late. It was a quiet one.";
static const char squad[] =
    "{\"data\": [{\"paragraphs\": ["
    "{\"context\": \"The fox is red.\", \"qas\": [{\"question\": \"Which colour has the fox?\", \"is_impossible\": "
    "false, "
    "\"answers\": [{\"text\": \"red\"}, {\"text\": \"Red\"}]}, {\"question\": \"Why?\", \"is_impossible\": true, "
    "\"answers\": []}]}, {\"context\": \"The owl is gray.\", \"qas\": []}]}, "
    "{\"paragraphs\": [{\"context\": \"A bee hums.\", \"qas\": [{\"question\": \"What does a bee do?\", \"answers\": "
    "[{\"text\": \"hums\"}]}]}, {\"context\": \"A cow moos.\", \"qas\": []}, {\"context\": \"A bee hums.\", \"qas\": "
    "[]}]}]}";
static const char hotpotqa[] = "[{\"question\": \"Who is older?\", \"answer\": \"Ann\", \"context\": [[\"Ann\", [\"Ann "
                               "is 9.\", \" She sings.\"]], "
                               "[\"Bob\", [\"Bob is 8.\"]]]}, {\"question\": \"Where?\", \"answer\": \"Rome\", "
                               "\"context\": [[\"Italy\", [\"Rome is "
                               "there.\"]]]}]";

/* Loads the words of the bundled model. */
static void open_words(void) {
    static const struct cli_command command = {.name = "eval"};
    const char *source = getenv("top_srcdir");
    char path[4096];
    data.words = calloc(1, sizeof *data.words);
    assert_non_null(data.words);
    snprintf(path, sizeof path, "%s/data/demo/words.json", source ? source : ".");
    assert_int_equal(needle_words_open(&command, path, data.words), KVC_OK);
}

static struct eval_data many; /* like SQuAD, with 30 questions: ten articles of three documents */

static void make_many(void) {
    struct eval_text text = {0};
    struct kvc_error error;
    eval_add(&text, "{\"data\": [");
    for (unsigned a = 0; a < 10; a++) {
        eval_add(&text, "%s{\"paragraphs\": [", a ? ", " : "");
        for (unsigned p = 0; p < 3; p++)
            eval_add(&text,
                     "%s{\"context\": \"In house %u%u lives an animal that is called %s.\", \"qas\": [{\"question\": "
                     "\"Who lives in house %u%u?\", \"answers\": [{\"text\": \"%s\"}]}]}",
                     p ? ", " : "", a, p, eval_word(3 * a + p), a, p, eval_word(3 * a + p));
        eval_add(&text, "]}");
    }
    eval_add(&text, "]}");
    char *json = eval_text_take(&text);
    assert_non_null(json);
    FINE(eval_squad_read("squad", json, strlen(json), &many.questions[EVAL_SQUAD], &error));
    free(json);
}

static int open_model(void **state) {
    struct kvc_engine_options options = {.backend = "ref"};
    struct kvc_error error;
    char path[] = "/tmp/kvcull-test-XXXXXX";
    const int descriptor = mkstemp(path);
    (void)state;
    assert_true(descriptor >= 0);
    close(descriptor);
    FINE(kvc_make_model("tiny", KVC_F32, 1, path, &error));
    FINE(kvc_engine_open(&options, &engine, &error));
    FINE(kvc_model_open(engine, path, &model, &error));
    unlink(path);
    FINE(eval_essays_read("essays", essays, strlen(essays), &data.essays, &error));
    FINE(eval_squad_read("squad", squad, strlen(squad), &data.questions[EVAL_SQUAD], &error));
    FINE(eval_hotpotqa_read("hotpotqa", hotpotqa, strlen(hotpotqa), &data.questions[EVAL_HOTPOTQA], &error));
    make_many();
    open_words();
    return 0;
}

static int close_model(void **state) {
    (void)state;
    eval_data_free(&data);
    eval_data_free(&many);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return 0;
}

static struct eval_prompter prompter_of(const char *template_name) {
    struct eval_prompter prompter = {.model = model, .raw = template_name == NULL};
    struct kvc_error error;
    kvc_chat_defaults(&prompter.chat);
    prompter.chat.template_name = template_name;
    FINE(eval_prompter_open(&prompter, &error));
    return prompter;
}

/* Returns the number of tokens of all turns together or of the longest request, answers included. */
static uint64_t whole(const struct eval_task *task, uint64_t length, const struct eval_prompt *prompt) {
    const uint64_t answer = eval_task_answer(task, length);
    uint64_t tokens = prompt->count + answer;
    for (size_t i = 0; i < prompt->later_count; i++) {
        const uint64_t later = prompt->later[i].count;
        if (task->manner == EVAL_TURNS)
            tokens += later + answer;
        else if (tokens < prompt->context + later + answer)
            tokens = prompt->context + later + answer;
    }
    return tokens;
}

static void same_prompts(const struct eval_prompt *a, const struct eval_prompt *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->tokens, b->tokens, a->count * sizeof *a->tokens);
    assert_true(a->hash == b->hash);
    assert_int_equal(a->later_count, b->later_count);
    for (size_t i = 0; i < a->later_count; i++) {
        assert_int_equal(a->later[i].count, b->later[i].count);
        assert_memory_equal(a->later[i].tokens, b->later[i].tokens, a->later[i].count * sizeof *a->tokens);
        assert_true(a->later[i].hash == b->later[i].hash);
    }
}

static void sample_is_right(const struct eval_request *request) {
    const struct eval_task *task = request->task;
    const double depth = (double)(request->index % 11) / 10;
    struct eval_sample sample, again;
    struct eval_prompt prompt, prompt_again;
    struct kvc_error error;
    if (eval_fit(request, &sample, &prompt, &error) != KVC_OK)
        fail_msg("%s: %s", task->name, error.text);
    const uint64_t tokens = whole(task, request->length, &prompt);
    assert_true(tokens <= request->length);
    /* Close to the length: at most a line, or one of these few documents, is missing. */
    if (tokens + 250 < request->length)
        fail_msg("%s: %zu of %llu tokens", task->name, prompt.count, (unsigned long long)request->length);
    assert_true(prompt.context > 0 && prompt.context < prompt.count);
    assert_int_equal(prompt.later_count + 1, sample.count);
    check(task, &sample, depth);
    FINE(eval_fit(request, &again, &prompt_again, &error));
    same_prompts(&prompt, &prompt_again);
    eval_sample_free(&sample);
    eval_sample_free(&again);
    eval_prompt_free(&prompt);
    eval_prompt_free(&prompt_again);
}

static void samples_are_right(void **state) {
    const struct eval_prompter prompters[] = {prompter_of(NULL), prompter_of("chatml")};
    uint64_t lengths[] = {2200, 7000};
    (void)state;
    for (const struct eval_task *task = eval_tasks; task->name; task++) {
        lengths[0] = task->make == eval_make_chains ? 3600 : 2200; /* chains have long lines */
        const bool shared = task->make == eval_make_shared_qa;
        const bool thin = kvc_test_thinned() && !task->depths;
        for (size_t l = 0; l < 2 && task->make; l++) {
            for (uint64_t i = 0; i < (task->file > EVAL_ESSAYS ? 2 : thin ? 1 : 4); i++) {
                const struct eval_request request = {
                    task, shared ? &many : &data, &prompters[i % 2], 5, task->depths ? 3 * i : i, lengths[l], 0};
                if (task->depths && task->file == EVAL_SQUAD) /* there are only two questions */
                    continue;
                sample_is_right(&request);
            }
        }
    }
}

/* The document with the answer is the one at the intended depth. */
static void documents_are_at_depths(void **state) {
    const struct eval_prompter prompter = prompter_of(NULL);
    (void)state;
    for (uint64_t i = 0; i < 22; i++) {
        const struct eval_request request = {eval_task_find("litm_qa"), &many, &prompter, 7, i, 900, 0};
        struct eval_sample sample;
        struct eval_prompt prompt;
        struct kvc_error error;
        char house[64];
        unsigned place = 0;
        FINE(eval_fit(&request, &sample, &prompt, &error));
        const size_t documents = times(sample.context, "Document ");
        assert_int_equal(sscanf(strstr(sample.asked[0].question, "house"), "house %8[0-9]", house), 1);
        char line[256];
        const char *at = strstr(sample.context, format(line, "In house %s ", house));
        assert_non_null(at);
        while (strncmp(at, "Document ", 9))
            at--;
        assert_int_equal(sscanf(at, "Document %u", &place), 1);
        assert_int_equal(place, 1 + (unsigned)((double)(i % 11) / 10 * (double)(documents - 1) + 0.5));
        assert_int_equal(sample.asked[0].span_count, times(sample.context, line));
        eval_sample_free(&sample);
        eval_prompt_free(&prompt);
    }
}

/* A request has the tokens of a prompt with this question only; a turn ends with the question and the opening of the
 * answer. */
static void later_questions_are_whole(void **state) {
    static const char *const names[] = {"scb_mf", "scb_mf_requests", "scb_niah", "scb_niah_requests"};
    static const char *const templates[] = {NULL, "chatml", "llama3"};
    (void)state;
    for (size_t i = 0; i < 12; i++) {
        const struct eval_prompter prompter = prompter_of(templates[i / 4]);
        const struct eval_request request = {eval_task_find(names[i % 4]), &data, &prompter, 1, 1, 2500, 0};
        struct eval_sample sample;
        struct eval_prompt prompt, alone;
        struct kvc_error error;
        FINE(eval_fit(&request, &sample, &prompt, &error));
        for (size_t q = 1; q < sample.count; q++) {
            const struct eval_part *later = &prompt.later[q - 1];
            char *text;
            size_t bytes;
            FINE(kvc_detokenize(model, later->tokens, later->count, true, &text, &bytes, &error));
            const char *asked = strstr(text, sample.asked[q].question);
            assert_non_null(asked);
            assert_string_equal(text + bytes - strlen(sample.asked[q].opening), sample.asked[q].opening);
            free(text);
            if (request.task->manner == EVAL_TURNS)
                continue;
            struct eval_sample one = {sample.context, &sample.asked[q], 1};
            FINE(eval_prompt_make(&prompter, &one, EVAL_TURNS, &alone, &error));
            assert_int_equal(alone.count, prompt.context + later->count);
            assert_memory_equal(alone.tokens, prompt.tokens, prompt.context * sizeof *alone.tokens);
            assert_memory_equal(alone.tokens + prompt.context, later->tokens, later->count * sizeof *alone.tokens);
            assert_true(eval_hash_tokens(0, alone.tokens, alone.count) == later->hash);
            eval_prompt_free(&alone);
        }
        eval_sample_free(&sample);
        eval_prompt_free(&prompt);
    }
}

/* The third of the frequent words is clearly more frequent than others, whatever the size of the text. */
static void frequencies_stand_apart(void **state) {
    const struct eval_task *task = eval_task_find("fwe");
    (void)state;
    for (uint64_t size = task->least; size < 140; size++) {
        struct eval_maker maker = {.task = task, .data = &data, .size = size, .length = 2000, .random = size};
        struct eval_sample sample = {0};
        struct kvc_error error;
        FINE(task->make(&maker, &sample, &error));
        check_fwe(&sample);
        eval_sample_free(&sample);
    }
}

/* Another seed, sample, task or length gives another text. */
static void samples_differ(void **state) {
    const struct eval_prompter prompter = prompter_of(NULL);
    const struct eval_task *task = eval_task_find("niah_single_1"), *other = eval_task_find("niah_multikey_2");
    const struct eval_request requests[] = {
        {task, &data, &prompter, 1, 0, 2000, 0},  {task, &data, &prompter, 2, 0, 2000, 0},
        {task, &data, &prompter, 1, 1, 2000, 0},  {task, &data, &prompter, 1, 0, 2001, 0},
        {other, &data, &prompter, 1, 0, 2000, 0}, {task, &data, &prompter, 0, 1, 2000, 0}};
    uint64_t hashes[6];
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        struct eval_sample sample;
        struct eval_prompt prompt;
        struct kvc_error error;
        FINE(eval_fit(&requests[i], &sample, &prompt, &error));
        hashes[i] = prompt.hash;
        for (size_t j = 0; j < i; j++)
            assert_true(hashes[i] != hashes[j]);
        eval_sample_free(&sample);
        eval_prompt_free(&prompt);
    }
}

/* Both ways of asking give the same tokens, and the cut is where the question begins. */
static void the_question_follows(void **state) {
    static const char *const templates[] = {NULL, "chatml", "llama3"};
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        const struct eval_prompter prompter = prompter_of(templates[t]);
        const struct eval_request request = {eval_task_find("vt"), &data, &prompter, 1, 0, 2500, 0};
        struct eval_sample sample;
        struct eval_prompt prompt;
        struct kvc_error error;
        char *text, *rest;
        size_t bytes;
        FINE(eval_fit(&request, &sample, &prompt, &error));
        FINE(kvc_detokenize(model, prompt.tokens, prompt.context, false, &text, &bytes, &error));
        FINE(kvc_detokenize(model, prompt.tokens + prompt.context, prompt.count - prompt.context, false, &rest, &bytes,
                            &error));
        const char *asked = strstr(rest, sample.asked[0].question);
        assert_true(asked && asked - rest <= 1); /* some tokenizers put a space before a text */
        assert_non_null(strstr(asked, sample.asked[0].opening));
        assert_int_equal(strlen(strstr(asked, sample.asked[0].opening)), strlen(sample.asked[0].opening));
        assert_null(strstr(text, sample.asked[0].question));
        assert_non_null(strstr(text, sample.context));
        free(text);
        free(rest);
        eval_sample_free(&sample);
        eval_prompt_free(&prompt);
    }
}

static void short_lengths_are_refused(void **state) {
    const struct eval_prompter prompter = prompter_of(NULL);
    struct kvc_error error;
    (void)state;
    for (const struct eval_task *task = eval_tasks; task->name; task++) {
        const struct eval_data *from = task->make == eval_make_shared_qa ? &many : &data;
        const struct eval_request request = {task, from, &prompter, 1, 0, 64, 0};
        struct eval_sample sample;
        struct eval_prompt prompt;
        unsigned least = 0;
        if (!task->make)
            continue;
        assert_int_equal(eval_fits(&request, &error), KVC_USAGE);
        assert_non_null(strstr(error.text, "--length 64"));
        assert_int_equal(sscanf(strstr(error.text, "at least"), "at least %u", &least), 1);
        assert_int_equal(eval_fit(&request, &sample, &prompt, &error), KVC_USAGE);
        eval_sample_free(&sample);
        eval_prompt_free(&prompt);
        struct eval_request enough = request;
        enough.length = least;
        assert_int_equal(eval_fits(&enough, &error), KVC_OK);
        assert_int_equal(eval_fit(&enough, &sample, &prompt, &error), KVC_OK);
        assert_true(whole(task, least, &prompt) <= least);
        eval_sample_free(&sample);
        eval_prompt_free(&prompt);
    }
}

/* ---- the user's files ---- */

static void files_are_read(void **state) {
    const struct eval_questions *first = &data.questions[EVAL_SQUAD], *second = &data.questions[EVAL_HOTPOTQA];
    (void)state;
    assert_int_equal(data.essays.count, 41);
    assert_memory_equal(data.essays.text, "First things come first. Then, he said", 38);
    assert_int_equal(first->count, 2);
    assert_int_equal(first->document_count, 4); /* one of them occurs twice */
    assert_string_equal(first->documents[0], "A bee hums.");
    assert_string_equal(first->questions[0].text, "Which colour has the fox?");
    assert_int_equal(first->questions[0].answer_count, 2);
    assert_int_equal(first->questions[0].near_count, 1);
    assert_string_equal(first->documents[first->questions[0].documents[0]], "The fox is red.");
    assert_string_equal(first->documents[first->questions[0].documents[1]], "The owl is gray.");
    assert_int_equal(second->count, 2);
    assert_int_equal(second->document_count, 3);
    assert_int_equal(second->questions[0].document_count, 2);
    assert_string_equal(second->documents[second->questions[0].documents[0]], "Ann\nAnn is 9. She sings.");
}

typedef enum kvc_status reader_fn(const char *, const char *, size_t, struct eval_questions *, struct kvc_error *);

static void refused(reader_fn *reader, const char *text, const char *why) {
    struct eval_data bad = {0};
    struct kvc_error error;
    assert_int_equal(reader("bad.json", text, strlen(text), &bad.questions[EVAL_SQUAD], &error), KVC_INPUT);
    if (!strstr(error.text, why) || !strstr(error.text, "bad.json"))
        fail_msg("'%s' of %s", error.text, text);
    eval_data_free(&bad);
}

static void wrong_files_are_refused(void **state) {
    static const char *const no_essays[] = {"",        " \n\t ",      "{\"text\": 5}", "{", "{\"text\": \"\"}",
                                            "a\xe9 b", "\xff\xfe\x41"};
    (void)state;
    refused(eval_squad_read, "", "not JSON");
    refused(eval_squad_read, "{\"data\": [", "line 1");
    refused(eval_squad_read, "[]", "\"data\"");
    refused(eval_squad_read, "{\"data\": {}}", "\"data\"");
    refused(eval_squad_read, "{\"data\": []}", "no question");
    refused(eval_squad_read, "{\"data\": [5]}", "data[0]");
    refused(eval_squad_read, "{\"data\": [{\"paragraphs\": [{\"qas\": []}]}]}", "data[0].paragraphs[0]");
    refused(eval_squad_read, "{\"data\": [{\"paragraphs\": [{\"context\": \"x\", \"qas\": [{}]}]}]}", "qas[0]");
    refused(
        eval_squad_read,
        "{\"data\": [{\"paragraphs\": [{\"context\": \"x\", \"qas\": [{\"question\": \"x\", \"answers\": [{}]}]}]}]}",
        "an answer");
    refused(eval_squad_read, "{\"data\": \"\xff\"}", "not JSON");
    refused(eval_hotpotqa_read, "{}", "not an array");
    refused(eval_hotpotqa_read, "[]", "no question");
    refused(eval_hotpotqa_read, "[{}]", "[0]");
    refused(eval_hotpotqa_read, "[{\"question\": \"x\", \"answer\": \"x\", \"context\": []}]", "[0]");
    refused(eval_hotpotqa_read, "[{\"question\": \"x\", \"answer\": \"\", \"context\": [[\"a\", []]]}]",
            "empty answer");
    refused(eval_hotpotqa_read, "[{\"question\": \"x\", \"answer\": \"x\", \"context\": [[\"a\", [5]]]}]",
            "context[0]");
    refused(eval_hotpotqa_read, "[{\"question\": \"x\", \"answer\": \"x\", \"context\": [\"a\"]}]", "context[0]");
    for (size_t i = 0; i < sizeof no_essays / sizeof *no_essays; i++) {
        struct eval_data bad = {0};
        struct kvc_error error;
        assert_int_equal(eval_essays_read("bad.txt", no_essays[i], strlen(no_essays[i]), &bad.essays, &error),
                         KVC_INPUT);
        assert_non_null(strstr(error.text, "--essays bad.txt"));
        eval_data_free(&bad);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(samples_are_right),
                                       cmocka_unit_test(documents_are_at_depths),
                                       cmocka_unit_test(later_questions_are_whole),
                                       cmocka_unit_test(frequencies_stand_apart),
                                       cmocka_unit_test(samples_differ),
                                       cmocka_unit_test(the_question_follows),
                                       cmocka_unit_test(short_lengths_are_refused),
                                       cmocka_unit_test(files_are_read),
                                       cmocka_unit_test(wrong_files_are_refused)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
