#pragma once

#include <cuda_runtime_api.h>

namespace hdfnet::ops::cuda {

/// Raises c10::Error unless `error` is cudaSuccess. Where the library holds no kernel for the
/// current card the message names the card, what was built and what to do.
void check_launch(const char* op, cudaError_t error);

}  // namespace hdfnet::ops::cuda
