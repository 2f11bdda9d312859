#pragma once

#include <string>

namespace hdfnet::ops {

struct Card {
  std::string name;
  int major;  // of its compute capability
  int minor;
};

/// Whether kernels built for `architectures` run on a card of that compute capability.
/// `architectures` is what CMAKE_CUDA_ARCHITECTURES says, separated by commas: "75,80-real,90a".
/// Code for X.Y runs on X.Z with Z >= Y; what is compiled as PTX too (no -real) runs on every later
/// card, if the driver can compile it; with a letter it runs on X.Y alone.
enum class CardSupport { none, as_ptx, full, unknown };
CardSupport card_support(const std::string& architectures, const Card& card);

/// The sentence for a launch that found no kernel: what card, what was built, what to do.
std::string no_kernel_message(const std::string& op, const std::string& architectures,
                              const Card& card);

/// The sentence for tensors on CUDA in a library built without kernels for it.
std::string no_cuda_message(const std::string& op);

}  // namespace hdfnet::ops
