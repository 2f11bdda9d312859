#include <torch/csrc/autograd/custom_function.h>

#include "hdfnet/ops/dynamic_filter.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

class DynamicFilterFunction : public torch::autograd::Function<DynamicFilterFunction> {
 public:
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& kernels,
                          at::IntArrayRef dilations, bool concat_input) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, kernels});
    context->saved_data["dilations"] = dilations;
    context->saved_data["concat_input"] = concat_input;
    return dynamic_filter(x, kernels, dilations, concat_input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto dilations = context->saved_data["dilations"].toIntVector();
    const auto [grad_x, grad_kernels] = dynamic_filter_backward(
        gradients[0], saved[0], saved[1], dilations, context->saved_data["concat_input"].toBool(),
        {context->needs_input_grad(0), context->needs_input_grad(1)});
    return {grad_x, grad_kernels, Variable(), Variable()};
  }
};

at::Tensor dynamic_filter_autograd(const at::Tensor& x, const at::Tensor& kernels,
                                   at::IntArrayRef dilations, bool concat_input) {
  return DynamicFilterFunction::apply(x, kernels, dilations, concat_input);
}

// The gradients are not differentiable themselves; said when someone asks, not when they are made.
class DynamicFilterBackwardFunction
    : public torch::autograd::Function<DynamicFilterBackwardFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Variable& grad, const Variable& x,
                               const Variable& kernels, at::IntArrayRef dilations,
                               bool concat_input, std::array<bool, 2> needs) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [grad_x, grad_kernels] =
        dynamic_filter_backward(grad, x, kernels, dilations, concat_input, needs);
    variable_list wanted;  // a Function's outputs must be defined
    for (const at::Tensor& gradient : {grad_x, grad_kernels}) {
      if (gradient.defined()) wanted.push_back(gradient);
    }
    return wanted;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(false,
                "hdfnet::dynamic_filter can be differentiated once; expected no gradient of "
                "its gradients to be asked for (create_graph=False), but got one");
  }
};

std::tuple<at::Tensor, at::Tensor> dynamic_filter_backward_autograd(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& kernels,
    at::IntArrayRef dilations, bool concat_input, std::array<bool, 2> needs) {
  const variable_list gradients =
      DynamicFilterBackwardFunction::apply(grad, x, kernels, dilations, concat_input, needs);
  auto next = gradients.begin();
  const auto take = [&](bool wanted) { return wanted ? *next++ : at::Tensor(); };
  const at::Tensor grad_x = take(needs[0]);
  return {grad_x, take(needs[1])};
}

}  // namespace

void register_autograd_dynamic_filter(Registration& registration) {
  registration.under(c10::DispatchKey::Autograd).impl("dynamic_filter", &dynamic_filter_autograd);
  registration.under(c10::DispatchKey::Autograd)
      .impl("dynamic_filter_backward", &dynamic_filter_backward_autograd);
}

}  // namespace hdfnet::ops
