#pragma once

#include <string>
#include <string_view>

namespace hdfnet::app {

/// 'text', as file names stand in messages.
inline std::string in_quotes(std::string_view text) {
  std::string result(1, '\'');
  result += text;
  result += '\'';
  return result;
}

}  // namespace hdfnet::app
