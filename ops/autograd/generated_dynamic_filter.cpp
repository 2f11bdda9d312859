#include <torch/csrc/autograd/custom_function.h>

#include "hdfnet/ops/generated_dynamic_filter.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

class GeneratedFilterFunction : public torch::autograd::Function<GeneratedFilterFunction> {
 public:
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& y,
                          const Variable& weight, const std::optional<at::Tensor>& bias,
                          at::IntArrayRef dilations, bool concat_input) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, y, weight, bias.value_or(Variable())});
    context->saved_data["dilations"] = dilations;
    context->saved_data["concat_input"] = concat_input;
    return generated_dynamic_filter(x, y, weight, bias, dilations, concat_input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto dilations = context->saved_data["dilations"].toIntVector();
    const std::optional<at::Tensor> bias =
        saved[3].defined() ? std::optional<at::Tensor>(saved[3]) : std::nullopt;
    const auto [grad_x, grad_y, grad_weight, grad_bias] = generated_dynamic_filter_backward(
        gradients[0], saved[0], saved[1], saved[2], bias, dilations,
        context->saved_data["concat_input"].toBool(),
        {context->needs_input_grad(0), context->needs_input_grad(1), context->needs_input_grad(2),
         saved[3].defined() && context->needs_input_grad(3)});
    return {grad_x, grad_y, grad_weight, grad_bias, Variable(), Variable()};
  }
};

at::Tensor generated_dynamic_filter_autograd(const at::Tensor& x, const at::Tensor& y,
                                             const at::Tensor& weight,
                                             const std::optional<at::Tensor>& bias,
                                             at::IntArrayRef dilations, bool concat_input) {
  return GeneratedFilterFunction::apply(x, y, weight, bias, dilations, concat_input);
}

// As for dynamic_filter: differentiable once, and an attempt at more says so.
class GeneratedFilterBackwardFunction
    : public torch::autograd::Function<GeneratedFilterBackwardFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Variable& grad, const Variable& x,
                               const Variable& y, const Variable& weight,
                               const std::optional<at::Tensor>& bias, at::IntArrayRef dilations,
                               bool concat_input, std::array<bool, 4> needs) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [grad_x, grad_y, grad_weight, grad_bias] =
        generated_dynamic_filter_backward(grad, x, y, weight, bias, dilations, concat_input, needs);
    variable_list wanted;  // a Function's outputs must be defined
    for (const at::Tensor& gradient : {grad_x, grad_y, grad_weight, grad_bias}) {
      if (gradient.defined()) wanted.push_back(gradient);
    }
    return wanted;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(false,
                "hdfnet::generated_dynamic_filter can be differentiated once; expected no "
                "gradient of its gradients to be asked for (create_graph=False), but got one");
  }
};

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>
generated_dynamic_filter_backward_autograd(const at::Tensor& grad, const at::Tensor& x,
                                           const at::Tensor& y, const at::Tensor& weight,
                                           const std::optional<at::Tensor>& bias,
                                           at::IntArrayRef dilations, bool concat_input,
                                           std::array<bool, 4> needs) {
  const variable_list gradients = GeneratedFilterBackwardFunction::apply(
      grad, x, y, weight, bias, dilations, concat_input, needs);
  auto next = gradients.begin();
  const auto take = [&](bool wanted) { return wanted ? *next++ : at::Tensor(); };
  const at::Tensor grad_x = take(needs[0]);
  const at::Tensor grad_y = take(needs[1]);
  const at::Tensor grad_weight = take(needs[2]);
  return {grad_x, grad_y, grad_weight, take(needs[3] && bias.has_value() && bias->defined())};
}

}  // namespace

void register_autograd_generated_dynamic_filter(Registration& registration) {
  registration.under(c10::DispatchKey::Autograd)
      .impl("generated_dynamic_filter", &generated_dynamic_filter_autograd);
  registration.under(c10::DispatchKey::Autograd)
      .impl("generated_dynamic_filter_backward", &generated_dynamic_filter_backward_autograd);
}

}  // namespace hdfnet::ops
