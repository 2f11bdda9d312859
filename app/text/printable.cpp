#include "text/printable.h"

#include "text/utf8.h"

namespace hdfnet::app {
namespace {

std::string escaped(unsigned char byte) {
  constexpr const char* digits = "0123456789abcdef";
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // C1 controls (U+0080..U+009F) are commands to some terminals, too.
    const bool c1 = length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    const std::size_t step = length == 0 ? 1 : length;
    if (length == 0 || first < 0x20 || first == 0x7F || c1) {
      for (const char byte : text.substr(0, step))
        result += escaped(static_cast<unsigned char>(byte));
    } else {
      result += text.substr(0, step);
    }
    text.remove_prefix(step);
  }
  return result;
}

std::string sentence(std::string text) {
  if (text.empty() || std::string_view(".!?").find(text.back()) == std::string_view::npos)
    text += '.';
  return text;
}

std::string counted(std::size_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace hdfnet::app
