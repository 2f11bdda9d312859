#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "hdfnet/ops/library.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  hdfnet::ops::register_ops();
  at::manual_seed(20200823);
  // Comparisons on the GPU are with arithmetic of the tensors' own type.
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  return RUN_ALL_TESTS();
}
