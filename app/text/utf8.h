#pragma once

#include <string>
#include <string_view>

namespace hdfnet::app {

/// Length of the well-formed character at the start of `bytes` (not empty), 0 when there is none.
std::size_t utf8_length(std::string_view bytes);

/// True when the bytes are well-formed UTF-8 (no overlong forms, no surrogates).
bool is_utf8(std::string_view bytes);

/// The same text with U+FFFD in place of every byte that is not UTF-8, for formats that are
/// Unicode.
std::string to_utf8(std::string_view bytes);

}  // namespace hdfnet::app
