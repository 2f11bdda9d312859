#pragma once

#include <optional>
#include <stdexcept>

namespace hdfnet::app::test {

/// The value; an exception, which fails the test, when there is none.
template <class Value>
Value require(std::optional<Value> value) {
  if (!value) throw std::runtime_error("a value was expected, there is none");
  return *value;
}

}  // namespace hdfnet::app::test
