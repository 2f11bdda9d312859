#include <gtest/gtest.h>

#include "cuda_architectures.h"

namespace hdfnet::app {
namespace {

TEST(CudaArchitectures, MachineCodeRunsWithinAMajorVersion) {
  EXPECT_TRUE(kernels_run_on("80-real", 80));
  EXPECT_TRUE(kernels_run_on("80-real", 86));
  EXPECT_FALSE(kernels_run_on("80-real", 75));
  EXPECT_FALSE(kernels_run_on("80-real", 90));
  EXPECT_FALSE(kernels_run_on("86-real", 80));
}

TEST(CudaArchitectures, IntermediateCodeRunsOnAnythingNewer) {
  for (const char* built : {"80", "80-virtual"}) {
    EXPECT_TRUE(kernels_run_on(built, 80)) << built;
    EXPECT_TRUE(kernels_run_on(built, 120)) << built;
    EXPECT_FALSE(kernels_run_on(built, 75)) << built;
  }
}

TEST(CudaArchitectures, AnyEntryOfTheListWillDo) {
  EXPECT_TRUE(kernels_run_on("75-real,90-real", 90));
  EXPECT_TRUE(kernels_run_on("75-real;90-real", 75));
  EXPECT_FALSE(kernels_run_on("75-real,90-real", 80));
  EXPECT_FALSE(kernels_run_on("", 80));
  EXPECT_TRUE(kernels_run_on("90a", 90));
  EXPECT_FALSE(kernels_run_on("90a", 100));
  EXPECT_TRUE(kernels_run_on("native", 61));
  EXPECT_TRUE(kernels_run_on("all-major", 61));
}

TEST(CudaArchitectures, TheErrorSaysWhatWasFoundWhatIsBuiltAndWhatToDo) {
  EXPECT_EQ(missing_kernels("80,90", 75, "cuda:1", "Tesla T4"),
            "device cuda:1 (Tesla T4) has compute capability 7.5, and this build has kernels for "
            "80, 90: build it with -DCMAKE_CUDA_ARCHITECTURES=75 added, or choose the device cpu.");
  EXPECT_EQ(missing_kernels("80,90", 120, "cuda:0", "GeForce"), "");
  EXPECT_EQ(missing_kernels("80", 0, "cuda:0", "not known"), "");
}

TEST(CudaArchitectures, ListingForPeople) {
  EXPECT_EQ(with_commas("75,80"), "75, 80");
  EXPECT_EQ(with_commas(""), "none");
}

}  // namespace
}  // namespace hdfnet::app
