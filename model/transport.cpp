#include "transport.h"

#include <ATen/ATen.h>

#include "layout.h"

namespace hdfnet {

DenseLayer::DenseLayer(const Parameters& parameters, const std::string& name,
                       const Backend& backend)
    : fuse_(basic_conv(parameters, name + ".fuse", backend)) {
  const Affine down = read_affine(parameters, name + ".down");
  if (joins_pointwise(down, backend)) {
    joined_down_.emplace(down, ConvolutionOptions(), backend);
  } else {
    down_ = {down, {}, backend};
  }
  for (int64_t i = 0; i < kDenseConvolutions; ++i) {
    const std::string step = name + ".denseblock." + std::to_string(i);
    dense_.push_back(basic_conv(parameters, step, backend));
    if (backend.transport_in_place) {
      joined_dense_.push_back(joined_basic_conv(parameters, step, backend));
    }
  }
}

at::Tensor DenseLayer::forward(const at::Tensor& x, ModuleCost* cost) const {
  // The newest map is appended after the older ones; p, the first, stays last.
  std::vector<at::Tensor> maps = {joined_down_ ? (*joined_down_)({x}, cost) : down_(x, cost)};
  at::Tensor newest;
  for (size_t i = 0; i < dense_.size(); ++i) {
    // Small maps are faster concatenated.
    const bool in_place = i < joined_dense_.size() && joined_dense_[i].is_wide(maps);
    newest = in_place           ? joined_dense_[i](maps, cost)
             : maps.size() == 1 ? dense_[i](maps.front(), cost)
                                : dense_[i](at::cat(maps, 1), cost);
    maps.insert(maps.end() - 1, newest);
  }
  return fuse_(at::cat({x, newest}, 1), cost);
}

DenseTransport::DenseTransport(const Parameters& parameters, const std::string& name,
                               const Backend& backend)
    : fuse_down_(basic_conv(parameters, name + ".fuse_down_mul", backend)),
      residual_(parameters, name + ".res_main", backend),
      fuse_main_(basic_conv(parameters, name + ".fuse_main", backend)) {}

at::Tensor DenseTransport::forward(const at::Tensor& rgb, const at::Tensor& depth,
                                   ModuleCost* cost) const {
  const at::Tensor fused = fuse_down_(rgb + depth, cost);
  return fuse_main_(residual_.forward(fused, cost).add_(fused), cost);
}

}  // namespace hdfnet
