#pragma once

#include <string_view>

namespace hdfnet {

/// Arithmetic of the network. `automatic` is fp16 on CUDA and fp32 on the CPU.
enum class Precision { automatic, fp32, tf32, fp16, bf16 };
std::string_view name(Precision precision);

}  // namespace hdfnet
