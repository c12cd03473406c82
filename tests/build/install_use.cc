// install_use.cc - what tests/build/test_install.sh builds with C++ compilers against the installed library: an engine,
// a model, a prompt, and greedy tokens from a bounded cache, in the C++11 that C++20 still takes.
#include <kvcull/check.h>
#include <kvcull/policy.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace {

const std::size_t answer_tokens = 6;

kvc_error failure;

void expect(kvc_status status) {
    if (status != KVC_OK)
        throw std::runtime_error(failure.text);
}

int count_rows(void *user, std::uint64_t, const float *) {
    ++*static_cast<std::size_t *>(user);
    return 0;
}

std::int32_t highest(const std::vector<float> &logits) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < logits.size(); i++)
        if (logits[i] > logits[best])
            best = i;
    return static_cast<std::int32_t>(best);
}

void answer(const char *path, const char *text) {
    kvc_engine *engine = nullptr;
    kvc_model *model = nullptr;
    kvc_session *session = nullptr;
    expect(kvc_engine_open(nullptr, &engine, &failure));
    if (std::strcmp(kvc_policy(engine, 0)->name, "full") != 0 || kvc_verify_operation(0) == nullptr)
        throw std::runtime_error("the functions of kvcull/policy.h or kvcull/check.h do not answer");
    expect(kvc_model_open(engine, path, &model, &failure));

    kvc_session_options options;
    kvc_session_defaults(&options);
    options.policy = "snapkv:budget=40";
    expect(kvc_session_open(model, &options, &session, &failure));

    std::int32_t *tokens = nullptr;
    std::size_t count = 0, rows = 0;
    expect(kvc_tokenize(model, text, std::strlen(text), KVC_TOKENIZE_BOS, &tokens, &count, &failure));
    std::vector<float> logits(kvc_model_info(model)->vocab);
    kvc_prompt_options prompt = {};
    prompt.row = count_rows;
    prompt.user = &rows;
    expect(kvc_session_prompt(session, tokens, count, &prompt, logits.data(), &failure));
    std::free(tokens);
    if (rows != count)
        throw std::runtime_error("not every row of the prompt was shown");

    std::vector<std::int32_t> chosen;
    while (chosen.size() < answer_tokens) {
        chosen.push_back(highest(logits));
        expect(kvc_decode(&session, &chosen.back(), 1, logits.data(), nullptr, &failure));
    }
    char *words = nullptr;
    std::size_t bytes = 0;
    expect(kvc_detokenize(model, chosen.data(), chosen.size(), false, &words, &bytes, &failure));
    std::printf("%s\n", words);
    std::free(words);
    kvc_session_close(session);
    kvc_model_close(model);
    kvc_engine_close(engine);
}

} // namespace

int main(int count, char **arguments) {
    try {
        if (count != 3)
            throw std::runtime_error("usage: install_use MODEL TEXT");
        answer(arguments[1], arguments[2]);
    } catch (const std::runtime_error &error) {
        std::fprintf(stderr, "install_use: %s\n", error.what());
        return 1;
    }
    return 0;
}
