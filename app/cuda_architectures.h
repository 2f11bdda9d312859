#pragma once

#include <string>
#include <string_view>

namespace hdfnet::app {

/// The architectures that this build's CUDA kernels were compiled for, as CMake spells them, with
/// commas ("75,80,90"); empty without CUDA kernels.
std::string_view built_cuda_architectures();

/// "75, 80, 90"; "none" for none.
std::string with_commas(std::string_view architectures);

/// Whether kernels compiled for `architectures` run on a card of that compute capability (90 for
/// 9.0). "80" is machine code for 8.x from 8.0 up, and intermediate code that the driver compiles
/// for anything newer; "80-real" is the former alone, "80-virtual" the latter alone; "90a" is for
/// 9.0 and nothing else. "native", "all" and "all-major" name no card, so they are believed.
bool kernels_run_on(std::string_view architectures, int capability);

/// Why they do not, as a sentence that names card, device, what was built and what to do; empty
/// when they do, or when the capability is not known (0).
std::string missing_kernels(std::string_view architectures, int capability,
                            const std::string& device, const std::string& card);

}  // namespace hdfnet::app
