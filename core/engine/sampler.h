/* sampler.h - what saved sessions know of samplers. */
#ifndef KVC_CORE_ENGINE_SAMPLER_H
#define KVC_CORE_ENGINE_SAMPLER_H

#include "core/engine/archive.h"

/* How many draws there were, and the recent tokens. Reading into one whose penalty looks back on fewer takes the
 * newest; sampler NULL: they are passed over. */
void kvc_sampler_pass(struct kvc_archive *archive, struct kvc_sampler *sampler);

#endif
