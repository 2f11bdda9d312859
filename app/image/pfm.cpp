// PFM: floats, rows from the bottom to the top.

#include <charconv>
#include <cmath>
#include <cstring>
#include <string>

#include "image/decoders.h"

namespace hdfnet::app {
namespace {

/// The next word of the header; `at` moves behind it and one white space.
std::string_view next_word(std::string_view text, std::size_t& at) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t start = std::min(text.find_first_not_of(kSpace, at), text.size());
  const std::size_t end = std::min(text.find_first_of(kSpace, start), text.size());
  at = std::min(end + 1, text.size());
  return text.substr(start, end - start);
}

template <typename Number>
Number parse(const Source& source, std::string_view word) {
  Number number{};
  const auto result = std::from_chars(word.data(), word.data() + word.size(), number);
  if (result.ec != std::errc() || result.ptr != word.data() + word.size()) {
    source.fail("is a damaged PFM: its header does not hold a number where one is needed.");
  }
  return number;
}

}  // namespace

cv::Mat decode_pfm(const Source& source) {
  const std::string_view text = source.text();
  std::size_t at = 2;  // behind the magic number
  const auto width = parse<std::int64_t>(source, next_word(text, at));
  const auto height = parse<std::int64_t>(source, next_word(text, at));
  const auto scale = parse<double>(source, next_word(text, at));
  source.set_size(width, height);
  const bool little_endian = std::signbit(scale);

  const int channels = text[1] == 'F' ? 3 : 1;
  const std::size_t row = static_cast<std::size_t>(width) * channels * sizeof(float);
  if (source.size() - at < row * static_cast<std::size_t>(height)) {
    source.fail("is a truncated PFM: its pixels end too early. Copy it again.");
  }
  cv::Mat pixels(static_cast<int>(height), static_cast<int>(width), CV_32FC(channels));
  for (int y = 0; y < pixels.rows; ++y) {
    unsigned char* target = pixels.ptr(pixels.rows - 1 - y);
    std::memcpy(target, source.data() + at + row * static_cast<std::size_t>(y), row);
    if (little_endian != little_endian_host()) {
      swap_bytes(target, row / sizeof(float), sizeof(float));
    }
  }
  return pixels;
}

}  // namespace hdfnet::app
