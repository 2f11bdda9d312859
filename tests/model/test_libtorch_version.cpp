#include <gtest/gtest.h>
#include <torch/version.h>

#include "hdfnet/libtorch_version.h"

namespace hdfnet {
namespace {

TEST(LibTorchVersion, IsReadFromTheBuildSettings) {
  EXPECT_EQ(libtorch_version_in("Build settings: A=1, TORCH_VERSION=2.11.0, USE_CUDA=ON, "),
            "2.11.0");
  EXPECT_EQ(libtorch_version_in("TORCH_VERSION=2.6.0"), "2.6.0");
  EXPECT_EQ(libtorch_version_in("nothing of the kind"), "");
}

TEST(LibTorchVersion, TheLoadedOneIsKnownAndFits) {
  EXPECT_EQ(loaded_libtorch_version(), TORCH_VERSION);
  EXPECT_NO_THROW(check_libtorch());
}

TEST(LibTorchVersion, MajorAndMinorMustAgree) {
  EXPECT_EQ(libtorch_mismatch("2.11.0", "2.11.0"), "");
  EXPECT_EQ(libtorch_mismatch("2.11.0+cu130", "2.11.1"), "");
  EXPECT_EQ(libtorch_mismatch("2.11.0", ""), "");  // it does not say
  EXPECT_NE(libtorch_mismatch("2.11.0", "2.1.0"), "");
  EXPECT_EQ(libtorch_mismatch("2.11.0", "2.6.0"),
            "LibTorch 2.6.0 is loaded, but hdfnet was built with LibTorch 2.11.0, and the C++ "
            "interface differs between the two. Let the loader find 2.11 (see LD_LIBRARY_PATH, and "
            "ldd of the program), or build hdfnet with the LibTorch that you have.");
}

}  // namespace
}  // namespace hdfnet
