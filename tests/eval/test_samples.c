/* test_samples.c - samples of the standard tasks: the same for a seed, never longer than asked for, and their answers
 * are in the text as the task says, which slow plain code looks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "eval/prompt.h"
#include "tests/check.h"

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
    return 0;
}

static int close_model(void **state) {
    (void)state;
    eval_data_free(&data);
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

static size_t times(const char *text, const char *words) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        count++;
    return count;
}

static const char *format(char text[256], const char *pattern, ...) __attribute__((format(printf, 2, 3)));
static const char *format(char text[256], const char *pattern, ...) {
    va_list list;
    va_start(list, pattern);
    vsnprintf(text, 256, pattern, list);
    va_end(list);
    return text;
}

/* Words of the text, blanks between them: how often each comes, counted anew for each. */
static size_t comes(const char *text, const char *word) {
    const size_t bytes = strlen(word);
    size_t count = 0;
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, " \n");
        count += n == bytes && memcmp(at, word, n) == 0;
        at += n + (at[n] != '\0');
    }
    return count;
}

/* What a task says must be in its sample. */
static void check_niah(const struct eval_task *task, const struct eval_sample *sample) {
    const struct eval_niah *form = task->form;
    const char *kind = form->uuid_values ? "uuids" : "numbers";
    char text[256];
    assert_int_equal(sample->answer_count, form->values * form->queries);
    for (size_t i = 0; i < sample->answer_count; i++) {
        const char *at = strstr(sample->context, format(text, " is: %s.", sample->answers[i]));
        assert_non_null(at);
        assert_int_equal(times(sample->context, sample->answers[i]), 1);
        assert_int_equal(strlen(sample->answers[i]), form->uuid_values ? 36 : 7);
        const char *key = at; /* back to the key, which the question names */
        while (key > sample->context && key[-1] != ' ')
            key--;
        assert_non_null(strstr(sample->question, format(text, "%.*s", (int)(at - key), key)));
        assert_non_null(strstr(sample->opening, format(text, "%.*s", (int)(at - key), key)));
    }
    const size_t needles = times(sample->context, format(text, "One of the special magic %s for ", kind));
    if (form->hay == EVAL_NEEDLES)
        assert_true(needles > 3);
    else
        assert_int_equal(needles, (form->keys > form->queries ? form->keys : form->queries) * form->values);
}

static void check_vt(const struct eval_sample *sample) {
    char line[256], value[16] = "";
    assert_int_equal(sample->answer_count, 5);
    const char *at = strstr(sample->context, format(line, "VAR %s = ", sample->answers[0]));
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(line), "%15[0-9]", value), 1);
    assert_non_null(strstr(sample->question, value));
    for (size_t i = 1; i < 5; i++) { /* each after the one before */
        at = strstr(at, format(line, "\nVAR %s = VAR %s\n", sample->answers[i], sample->answers[i - 1]));
        assert_non_null(at);
    }
    assert_int_equal(times(sample->context, "\nVAR "), 10); /* the example's, too */
}

static void check_cwe(const struct eval_sample *sample) {
    const char *list = strrchr(sample->context, ':'); /* the example's answer ends with a colon and its words */
    assert_non_null(list);
    list = strstr(list, "\n\n");
    assert_non_null(list);
    assert_int_equal(sample->answer_count, 10);
    const size_t most = comes(list, sample->answers[0]);
    assert_true(most == 6 || most == 30);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(comes(list, sample->answers[i]), most);
    size_t others = 0;
    for (uint32_t w = 0; w < eval_words; w++) {
        bool common = false;
        for (size_t i = 0; i < 10; i++)
            common = common || strcmp(eval_word(w), sample->answers[i]) == 0;
        /* words of the instruction are in some of the lists */
        others += !common && comes(strstr(list + 2, "\n"), eval_word(w)) >= most;
    }
    assert_int_equal(others, 0);
}

static void check_fwe(const struct eval_sample *sample) {
    const char *text = strstr(sample->context, ". ");
    char word[64];
    size_t least = SIZE_MAX;
    assert_non_null(text);
    assert_int_equal(sample->answer_count, 3);
    for (size_t i = 0; i < 3; i++) {
        const size_t count = comes(text, sample->answers[i]);
        assert_true(count > 0 && count <= least);
        least = count;
    }
    for (const char *at = text + 2; sscanf(at, "%63s", word) == 1; at += strcspn(at, " "), at += *at == ' ') {
        bool asked = strcmp(word, "...") == 0;
        for (size_t i = 0; i < 3; i++)
            asked = asked || strcmp(word, sample->answers[i]) == 0;
        if (!asked)
            assert_true(comes(text, word) < least);
    }
}

static void check(const struct eval_task *task, const struct eval_sample *sample) {
    if (task->make == eval_make_niah)
        check_niah(task, sample);
    else if (task->make == eval_make_vt)
        check_vt(sample);
    else if (task->make == eval_make_cwe)
        check_cwe(sample);
    else if (task->make == eval_make_fwe)
        check_fwe(sample);
    else
        for (size_t i = 0; i < sample->answer_count; i++)
            assert_true(eval_score_any(sample, sample->context) > 0);
}

static void samples_are_right(void **state) {
    const struct eval_prompter prompters[] = {prompter_of(NULL), prompter_of("chatml")};
    const uint64_t lengths[] = {2200, 7000};
    (void)state;
    for (const struct eval_task *task = eval_tasks; task->name; task++) {
        for (size_t l = 0; l < 2 && !task->way; l++) {
            for (uint64_t i = 0; i < (task->file > EVAL_ESSAYS ? 2 : kvc_test_thinned() ? 1 : 4); i++) {
                const struct eval_request request = {task, &data, &prompters[i % 2], 5, i, lengths[l]};
                struct eval_sample sample, again;
                struct eval_prompt prompt, prompt_again;
                struct kvc_error error;
                if (eval_fit(&request, &sample, &prompt, &error) != KVC_OK)
                    fail_msg("%s: %s", task->name, error.text);
                assert_true(prompt.count + task->answer <= lengths[l]);
                /* Near to it: a line, or a document of these few, is the most that is missing. */
                if (prompt.count + task->answer + 250 < lengths[l])
                    fail_msg("%s: %zu of %llu tokens", task->name, prompt.count, (unsigned long long)lengths[l]);
                assert_true(prompt.context > 0 && prompt.context < prompt.count);
                check(task, &sample);
                FINE(eval_fit(&request, &again, &prompt_again, &error));
                assert_int_equal(prompt.count, prompt_again.count);
                assert_memory_equal(prompt.tokens, prompt_again.tokens, prompt.count * sizeof *prompt.tokens);
                assert_true(prompt.hash == prompt_again.hash);
                eval_sample_free(&sample);
                eval_sample_free(&again);
                eval_prompt_free(&prompt);
                eval_prompt_free(&prompt_again);
            }
        }
    }
}

/* The third of the frequent words stands out, whatever the size of the text. */
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

/* Another seed, sample, task or length is another text. */
static void samples_differ(void **state) {
    const struct eval_prompter prompter = prompter_of(NULL);
    const struct eval_task *task = eval_task_find("niah_single_1"), *other = eval_task_find("niah_multikey_2");
    const struct eval_request requests[] = {
        {task, &data, &prompter, 1, 0, 2000},  {task, &data, &prompter, 2, 0, 2000},
        {task, &data, &prompter, 1, 1, 2000},  {task, &data, &prompter, 1, 0, 2001},
        {other, &data, &prompter, 1, 0, 2000}, {task, &data, &prompter, 0, 1, 2000}};
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

/* Both ways to ask are the same tokens, and the cut is where the question begins. */
static void the_question_follows(void **state) {
    static const char *const templates[] = {NULL, "chatml", "llama3"};
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        const struct eval_prompter prompter = prompter_of(templates[t]);
        const struct eval_request request = {eval_task_find("vt"), &data, &prompter, 1, 0, 2500};
        struct eval_sample sample;
        struct eval_prompt prompt;
        struct kvc_error error;
        char *text, *rest;
        size_t bytes;
        FINE(eval_fit(&request, &sample, &prompt, &error));
        FINE(kvc_detokenize(model, prompt.tokens, prompt.context, false, &text, &bytes, &error));
        FINE(kvc_detokenize(model, prompt.tokens + prompt.context, prompt.count - prompt.context, false, &rest, &bytes,
                            &error));
        const char *asked = strstr(rest, sample.question);
        assert_true(asked && asked - rest <= 1); /* some tokenizers put a blank in front of a text */
        assert_non_null(strstr(asked, sample.opening));
        assert_int_equal(strlen(strstr(asked, sample.opening)), strlen(sample.opening));
        assert_null(strstr(text, sample.question));
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
        const struct eval_request request = {task, &data, &prompter, 1, 0, 64};
        struct eval_sample sample;
        struct eval_prompt prompt;
        unsigned least = 0;
        if (task->way)
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
        assert_true(prompt.count + task->answer <= least);
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
    assert_int_equal(first->document_count, 4); /* one is there twice */
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
    refused(eval_squad_read, "", "no JSON");
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
    refused(eval_squad_read, "{\"data\": \"\xff\"}", "no JSON");
    refused(eval_hotpotqa_read, "{}", "no array");
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
                                       cmocka_unit_test(frequencies_stand_apart),
                                       cmocka_unit_test(samples_differ),
                                       cmocka_unit_test(the_question_follows),
                                       cmocka_unit_test(short_lengths_are_refused),
                                       cmocka_unit_test(files_are_read),
                                       cmocka_unit_test(wrong_files_are_refused)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
