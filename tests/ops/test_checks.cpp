// Each wrong argument is refused with a sentence that has the expected and the actual value.
#include "hdfnet/ops/dynamic_filter.h"
#include "support.h"

namespace hdfnet::test {
namespace {

template <typename Function>
void expect_error(const Function& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "expected an error with: " << part;
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find(part), std::string::npos)
        << "expected: " << part << "\ngot: " << error.what_without_backtrace();
  }
}

TEST(DynamicFilterChecks, NameExpectedAndActual) {
  const at::Tensor x = at::rand({2, 4, 5, 6});
  const at::Tensor kernels = at::rand({2, 2, 4, 9, 5, 6});
  const auto call = [](const at::Tensor& a, const at::Tensor& b, std::vector<int64_t> dilations) {
    return [=] { ops::dynamic_filter(a, b, dilations); };
  };
  EXPECT_NO_THROW(call(x, kernels, {1, 2})());
  expect_error(call(x[0], kernels, {1, 2}),
               "hdfnet::dynamic_filter: expected x of 4 dimensions (N, C, H, W), but got 3");
  expect_error(call(x, kernels[0], {1, 2}),
               "expected kernels of 6 dimensions (N, B, C, K*K, H, W), but got 5");
  expect_error(call(x, kernels.to(at::kHalf), {1, 2}),
               "expected kernels of type Float as x has, but got Half");
  expect_error(call(x.to(at::kInt), kernels.to(at::kInt), {1, 2}),
               "expected x of type Float, Double, Half or BFloat16, but got Int");
  expect_error(call(x, kernels, {}), "expected at least one dilation, but got none");
  expect_error(call(x, kernels, {1, 0}), "expected dilations >= 1, but got 0 in [1, 0]");
  expect_error(
      call(x, kernels, {1, 2, 3}),
      "expected size 3 of kernels at dimension 1 (one branch for each dilation), but got 2");
  expect_error(call(x.narrow(0, 0, 1), kernels, {1, 2}),
               "expected size 1 of kernels at dimension 0 (the batch of x), but got 2");
  expect_error(call(x.narrow(1, 0, 3), kernels, {1, 2}),
               "expected size 3 of kernels at dimension 2 (the channels of x), but got 4");
  expect_error(call(x.narrow(2, 0, 3), kernels, {1, 2}),
               "expected size 3 of kernels at dimension 4 (the height of x), but got 5");
  expect_error(call(x.narrow(3, 0, 3), kernels, {1, 2}),
               "expected size 3 of kernels at dimension 5 (the width of x), but got 6");
  expect_error(call(x, kernels.narrow(3, 0, 4), {1, 2}),
               "to be the square of an odd number (1, 9, 25, 49, ...), but got 4");
  expect_error(call(x, kernels.narrow(3, 0, 8), {1, 2}), "but got 8");
  expect_error(call(x, kernels, {1, int64_t{1} << 40}), "expected dilations <= ");
}

TEST(DynamicFilterChecks, DevicesMustAgree) {
  const at::Tensor x = at::rand({2, 4, 5, 6});
  const at::Tensor kernels = at::empty({2, 1, 4, 9, 5, 6}, at::device(at::kMeta));
  expect_error([&] { ops::dynamic_filter(x, kernels, {1}); },
               "expected kernels on cpu where x is, but got meta");
}

}  // namespace
}  // namespace hdfnet::test
