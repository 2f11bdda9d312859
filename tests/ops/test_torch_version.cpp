// What is said where the LibTorch that runs is not the one that the library was compiled for.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include "common/torch_version.h"
#include "hdfnet/register_ops.h"

namespace hdfnet::test {
namespace {

using ops::torch_version_fault;

TEST(TorchVersion, OfThisProcessIsTheOneCompiledFor) {
  EXPECT_EQ(ops::torch_compiled_for(), TORCH_VERSION);
  const ops::RunningTorch running = ops::torch_running();
  EXPECT_EQ(running.version, TORCH_VERSION);
  EXPECT_NE(running.file.find("libtorch_cpu.so"), std::string::npos) << running.file;
  EXPECT_EQ(torch_version_fault(ops::torch_compiled_for(), running), "");
}

TEST(TorchVersion, PatchAndBuildMayDiffer) {
  EXPECT_EQ(torch_version_fault("2.11.0", {"2.11.1", ""}), "");
  EXPECT_EQ(torch_version_fault("2.11.0", {"2.11.0a0+git1234", ""}), "");
  EXPECT_EQ(torch_version_fault("2.11.0", {"", ""}), "");
}

TEST(TorchVersion, MajorAndMinorMayNot) {
  EXPECT_EQ(torch_version_fault("2.11.0", {"2.1.0", "/lib/libtorch_cpu.so"}),
            "libhdfnet_ops was compiled for LibTorch 2.11.0, but this process runs LibTorch 2.1.0 "
            "(/lib/libtorch_cpu.so), so the operators were not registered. Use a LibTorch 2.11, or "
            "build libhdfnet_ops against the one that runs: "
            "cmake --preset release -DCMAKE_PREFIX_PATH=FOLDER_OF_THAT_LIBTORCH");
  EXPECT_NE(torch_version_fault("2.11.0", {"3.11.0", ""}), "");
  EXPECT_NE(torch_version_fault("2.1.0", {"2.11.0", ""}), "");
}

TEST(RegisterOps, MayBeCalledAgain) {
  EXPECT_NO_THROW(register_ops());
  EXPECT_NO_THROW(register_ops());
  EXPECT_TRUE(c10::Dispatcher::singleton()
                  .findSchema({"hdfnet::generated_dynamic_filter", ""})
                  .has_value());
}

}  // namespace
}  // namespace hdfnet::test
