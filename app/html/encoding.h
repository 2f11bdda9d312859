#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hdfnet::app {

/// Text for an HTML page, safe in elements and in quoted attributes; bytes that are not UTF-8
/// become U+FFFD.
std::string html_text(std::string_view text);

std::string base64(std::span<const unsigned char> bytes);

}  // namespace hdfnet::app
