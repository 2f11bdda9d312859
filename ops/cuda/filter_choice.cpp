#include "cuda/filter_choice.h"

namespace hdfnet::ops::cuda {
namespace {

bool should_run_filter_ring(const FilterArguments& a, std::string* why) {
  return filter_ring_pays(a, why) && can_run_filter_ring(a, why);
}

struct Candidate {
  FilterKernel kernel;
  const char* name;
  bool (*fits)(const FilterArguments&, std::string*);
};

// Fastest first. The last one, which takes everything, is not among them.
constexpr Candidate kCandidates[] = {
    {FilterKernel::kDirect, "direct", &can_run_filter_direct},
    {FilterKernel::kRing, "ring", &should_run_filter_ring},
    {FilterKernel::kPlanes, "planes", &can_run_filter_planes},
    {FilterKernel::kDirectPixels, "direct pixels", &can_run_filter_direct_pixels},
    {FilterKernel::kPixels, "pixels", &can_run_filter_pixels},
};

}  // namespace

FilterKernel choose_filter(const FilterArguments& a, std::string* why) {
  if (why != nullptr) why->clear();
  for (const Candidate& candidate : kCandidates) {
    std::string reason;
    if (candidate.fits(a, why != nullptr ? &reason : nullptr)) return candidate.kernel;
    if (why == nullptr) continue;
    if (!why->empty()) *why += "; ";
    *why += std::string(candidate.name) + ": " + reason;
  }
  return FilterKernel::kStrided;
}

cudaError_t launch_filter(FilterKernel kernel, const FilterArguments& a, cudaStream_t stream) {
  switch (kernel) {
    case FilterKernel::kDirect:
      return launch_filter_direct(a, stream);
    case FilterKernel::kRing:
      return launch_filter_ring(a, stream);
    case FilterKernel::kPlanes:
      return launch_filter_planes(a, stream);
    case FilterKernel::kDirectPixels:
      return launch_filter_direct_pixels(a, stream);
    case FilterKernel::kPixels:
      return launch_filter_pixels(a, stream);
    default:
      return launch_filter_strided(a, stream);
  }
}

}  // namespace hdfnet::ops::cuda
