/* predictor.h - reads the file of a model's predictor. */
#ifndef KVC_MODELS_PREDICTOR_H
#define KVC_MODELS_PREDICTOR_H

#include "core/engine/predictor.h"

/* A kvc_predictor_reader for a safetensors file, or a folder that has model.safetensors. */
kvc_predictor_reader kvc_predictor_read;

#endif
