// Any text as a settings file: a UsageError that names the file, or settings that are printed as a
// file which gives the same settings again.

#include <string>

#include "fuzzer.h"
#include "options/config_file.h"

using namespace hdfnet::app;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Options options;
  try {
    apply_config({reinterpret_cast<const char*>(data), size}, "fuzz.yaml", options);
  } catch (const UsageError& error) {
    HDFNET_REQUIRE(std::string_view(error.what()).starts_with("fuzz.yaml"));
    return 0;
  }
  const std::string printed = print_config(options);
  Options again;
  apply_config(printed, "printed.yaml", again);
  HDFNET_REQUIRE(print_config(again) == printed);
  return 0;
}
