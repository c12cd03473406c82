/* stage_predict.c - scores that small networks predict from hidden states (core/engine/predictor.h), for stage
 * functions. */
#include "core/engine/predictor.h"
#include "core/stage/stage.h"

enum kvc_status kvc_stage_predict(struct kvc_stage *stage, uint32_t column, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    struct kvc_span scores = {NULL, 0};
    uint32_t at = 0;
    enum kvc_status status = kvc_stage_columns(stage, column, 1, &at, error);
    if (status == KVC_OK && (!stage->use || !stage->use->predictor))
        status = kvc_fail(error, KVC_USAGE, "policy: scores cannot be predicted: the class names no predictor");
    if (status == KVC_OK && (stage->queries == 0 || stage->q.buffer != runner->q.buffer))
        status = kvc_fail(error, KVC_USAGE,
                          "policy: scores can be predicted only after the attention of rows: in the functions attended "
                          "and observe_step");
    if (status == KVC_OK)
        status = kvc_predictor_scores(runner, stage->use->predictor, stage->layer, stage->first, stage->queries,
                                      &scores, error);
    if (status != KVC_OK)
        return status;
    kvc_runner_keep(runner, &kvc_stage_lists(stage)->lists, at, scores, stage->queries, 1);
    return KVC_OK;
}
