/* kernels.cu - the shared kernels, compiled for NVIDIA devices, and CUDA's own shapes. */
#include "backends/kernels/shared.h"
#include "core/base/canon.h"

#include "backends/kernels/portable.h"
#include "backends/kernels/widen.h"
#include "backends/kernels/lists.h"
#include "backends/kernels/parts.h"

#include "backends/kernels/check.h"
#include "backends/kernels/rows.h"
#include "backends/kernels/linear.h"
#include "backends/kernels/cache.h"
#include "backends/kernels/attention.h"
#include "backends/kernels/scores.h"
#include "backends/kernels/keep.h"
#include "backends/kernels/pages.h"
#include "backends/kernels/select.h"

#include "backends/cuda/kernels/async.h"
#include "backends/cuda/kernels/few.h"
#include "backends/cuda/kernels/many.h"
#include "backends/cuda/kernels/read.h"
