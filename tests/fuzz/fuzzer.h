#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>

/// What libFuzzer, or replay.cpp, calls with each input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// What must hold whatever the input.
#define HDFNET_REQUIRE(condition)                                                     \
  do {                                                                                \
    if (!(condition)) {                                                               \
      std::cerr << __FILE__ << ":" << __LINE__ << ": not so: " << #condition << "\n"; \
      std::abort();                                                                   \
    }                                                                                 \
  } while (false)
