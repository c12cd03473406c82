/* sampler.h - saves and loads a sampler's state. */
#ifndef KVC_CORE_ENGINE_SAMPLER_H
#define KVC_CORE_ENGINE_SAMPLER_H

#include "core/engine/archive.h"

/* Writes or reads the number of draws and the recent tokens. If the receiving sampler has a shorter penalty window, it
 * keeps only the newest tokens. If sampler is NULL, the data are skipped. */
void kvc_sampler_pass(struct kvc_archive *archive, struct kvc_sampler *sampler);

#endif
