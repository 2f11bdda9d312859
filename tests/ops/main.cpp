#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "hdfnet/ops/library.h"

namespace {

/// Each test draws the same numbers, whichever ran before it.
class SameNumbers : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { at::manual_seed(20200823); }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new SameNumbers);
  hdfnet::ops::register_ops();
  // Comparisons on the GPU are with arithmetic of the tensors' own type.
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  return RUN_ALL_TESTS();
}
