// What is said to those whose card has no kernel. The decisions are tested here; that CUDA's errors
// lead to them shows only on such a card.
#include "common/card_support.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include "hdfnet/ops/library.h"

namespace hdfnet::test {
namespace {

using ops::Card;
using ops::card_support;
using ops::CardSupport;

Card card(int major, int minor) {
  return {"NVIDIA Test", major, minor};
}

TEST(CardSupport, OfBinaryAndPtx) {
  EXPECT_EQ(card_support("75,80", card(7, 5)), CardSupport::full);
  EXPECT_EQ(card_support("75,80", card(8, 6)), CardSupport::full);
  EXPECT_EQ(card_support("75,86", card(8, 0)), CardSupport::as_ptx);
  EXPECT_EQ(card_support("75", card(9, 0)), CardSupport::as_ptx);
  EXPECT_EQ(card_support("80,90", card(7, 5)), CardSupport::none);
  EXPECT_EQ(card_support("100", card(10, 3)), CardSupport::full);
  EXPECT_EQ(card_support("100", card(12, 0)), CardSupport::as_ptx);
  EXPECT_EQ(card_support("", card(9, 0)), CardSupport::none);
}

TEST(CardSupport, OfOneKindOnly) {
  EXPECT_EQ(card_support("80-real", card(8, 9)), CardSupport::full);
  EXPECT_EQ(card_support("80-real", card(9, 0)), CardSupport::none);
  EXPECT_EQ(card_support("80-virtual", card(8, 0)), CardSupport::as_ptx);
  EXPECT_EQ(card_support("80-virtual,80-real", card(8, 0)), CardSupport::full);
  EXPECT_EQ(card_support("90a", card(9, 0)), CardSupport::full);
  EXPECT_EQ(card_support("90a", card(10, 0)), CardSupport::none);
}

TEST(CardSupport, OfWordsIsUnknown) {
  for (const char* word : {"native", "all", "all-major", "90,native", "999999"}) {
    EXPECT_EQ(card_support(word, card(9, 0)), CardSupport::unknown) << word;
  }
}

TEST(NoKernel, SaysWhatToDo) {
  EXPECT_EQ(ops::no_kernel_message("hdfnet::dynamic_filter", "80-real,90", card(8, 0)).find("PTX"),
            std::string::npos);
  EXPECT_EQ(ops::no_kernel_message("hdfnet::dynamic_filter", "80-real,90-real", card(12, 0)),
            "hdfnet::dynamic_filter: no kernel for NVIDIA Test (compute capability 12.0): "
            "libhdfnet_ops was built for 80-real,90-real. Build it for this card: "
            "cmake --preset release -DCMAKE_CUDA_ARCHITECTURES=120");
  EXPECT_EQ(ops::no_kernel_message("hdfnet::dynamic_filter", "75,90", card(12, 0)),
            "hdfnet::dynamic_filter: no kernel for NVIDIA Test (compute capability 12.0): "
            "libhdfnet_ops was built for 75,90, which holds code for it as PTX, but its driver "
            "cannot compile that. Update the NVIDIA driver, or build for this card: "
            "cmake --preset release -DCMAKE_CUDA_ARCHITECTURES=120");
  EXPECT_EQ(ops::no_kernel_message("hdfnet::dynamic_filter", "75,90", card(7, 0)),
            "hdfnet::dynamic_filter: no kernel for NVIDIA Test (compute capability 7.0): "
            "libhdfnet_ops was built for 75,90. The oldest card that is supported has 7.5; "
            "move the tensors to the CPU.");
}

TEST(NoKernel, BuildWithoutCudaRefusesItsTensors) {
  if (ops::built_with_cuda()) GTEST_SKIP() << "built with CUDA kernels";
  for (const char* name : {"hdfnet::dynamic_filter", "hdfnet::dynamic_filter_backward",
                           "hdfnet::generated_dynamic_filter"}) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
    torch::jit::Stack nothing;
    try {
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CUDA), &nothing);
      ADD_FAILURE() << name << " did not refuse";
    } catch (const c10::NotImplementedError& error) {
      EXPECT_EQ(error.what_without_backtrace(), ops::no_cuda_message(name));
    }
  }
}

}  // namespace
}  // namespace hdfnet::test
