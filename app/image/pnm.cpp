// PBM, PGM and PPM by hand: cv::imdecode does not scale by the declared maximum.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "image/decoders.h"

namespace hdfnet::app {
namespace {

bool is_space(unsigned char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_digit(unsigned char c) {
  return c >= '0' && c <= '9';
}

/// Reads the tokens of the header, and of the pixels where those are text.
class Scanner {
 public:
  explicit Scanner(const Source& source) : source_(source) {}

  std::size_t position() const { return at_; }
  void skip(std::size_t count) { at_ += count; }

  std::uint32_t number() {
    skip_space_and_comments();
    if (at_ >= source_.size()) truncated();
    if (!is_digit(peek())) source_.fail("is a damaged PNM: a number is missing.");
    constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 32;
    std::uint64_t value = 0;
    while (at_ < source_.size() && is_digit(peek())) {
      value = std::min(value * 10 + (peek() - '0'), kTooLarge - 1);
      ++at_;
    }
    return static_cast<std::uint32_t>(value);
  }

  /// One digit of a text bitmap, which may stand without white space.
  bool bit() {
    skip_space_and_comments();
    if (at_ >= source_.size()) truncated();
    const unsigned char c = source_.data()[at_++];
    if (c != '0' && c != '1') source_.fail("is a damaged PBM: a pixel is neither 0 nor 1.");
    return c == '1';
  }

  const unsigned char* need(std::size_t count) {
    if (at_ > source_.size() || count > source_.size() - at_) truncated();
    at_ += count;
    return source_.data() + at_ - count;
  }

  bool another_picture_follows() {
    while (at_ < source_.size() && is_space(peek())) ++at_;
    return at_ + 2 < source_.size() && peek() == 'P' && is_digit(source_.data()[at_ + 1]);
  }

 private:
  [[noreturn]] void truncated() const {
    source_.fail("is a truncated PNM: its pixels end too early. Copy it again.");
  }

  unsigned char peek() const { return source_.data()[at_]; }

  void skip_space_and_comments() {
    while (at_ < source_.size()) {
      if (peek() == '#') {
        while (at_ < source_.size() && peek() != '\n' && peek() != '\r') ++at_;
      } else if (is_space(peek())) {
        ++at_;
      } else {
        return;
      }
    }
  }

  const Source& source_;
  std::size_t at_ = 2;  // behind the magic number
};

struct Header {
  char kind;  ///< '1'..'6'
  int width;
  int height;
  std::uint32_t most;

  bool bitmap() const { return kind == '1' || kind == '4'; }
  bool text() const { return kind <= '3'; }
  int channels() const { return kind == '3' || kind == '6' ? 3 : 1; }
};

Header read_header(const Source& source, Scanner& scanner) {
  const std::uint32_t width = scanner.number();
  const std::uint32_t height = scanner.number();
  source.set_size(width, height);
  Header header{static_cast<char>(source.data()[1]), static_cast<int>(width),
                static_cast<int>(height), 1};
  if (!header.bitmap()) header.most = scanner.number();
  if (header.most < 1 || header.most > 65535) {
    source.fail("is a PNM with the maximum " + std::to_string(header.most) +
                "; it must be 1..65535.");
  }
  return header;
}

std::uint32_t next_sample(const Header& header, Scanner& scanner) {
  if (header.text()) return scanner.number();
  if (header.most > 255) return be16(scanner.need(2));
  return *scanner.need(1);
}

/// Text takes at least a digit a sample: refuses a lie about the size before memory is taken.
void check_length(const Header& header, const Scanner& scanner) {
  const std::size_t columns = static_cast<std::size_t>(header.width) * header.channels();
  std::size_t row = columns * (!header.text() && header.most > 255 ? 2 : 1);
  if (header.kind == '4') row = (columns + 7) / 8;
  Scanner probe = scanner;
  probe.need(row * static_cast<std::size_t>(header.height));
}

cv::Mat read_bitmap(const Header& header, Scanner& scanner) {
  cv::Mat pixels(header.height, header.width, CV_8UC1);
  for (int y = 0; y < header.height; ++y) {
    const std::size_t stride = (static_cast<std::size_t>(header.width) + 7) / 8;
    const unsigned char* row = header.text() ? nullptr : scanner.need(stride);
    for (int x = 0; x < header.width; ++x) {
      const bool black = row ? (row[x / 8] >> (7 - x % 8) & 1) != 0 : scanner.bit();
      pixels.at<unsigned char>(y, x) = black ? 0 : 255;
    }
  }
  return pixels;
}

template <typename Sample>
cv::Mat read_samples(const Header& header, Scanner& scanner, const std::vector<Sample>& levels) {
  cv::Mat pixels(header.height, header.width,
                 CV_MAKETYPE(cv::DataType<Sample>::depth, header.channels()));
  for (int y = 0; y < header.height; ++y) {
    auto* row = pixels.ptr<Sample>(y);
    for (int i = 0; i < header.width * header.channels(); ++i) {
      row[i] = levels[std::min(next_sample(header, scanner), header.most)];
    }
  }
  return pixels;
}

/// Level for each stored value: round(value / maximum * 255), to even as Pillow does.
std::vector<unsigned char> levels8(std::uint32_t most) {
  std::vector<unsigned char> levels(most + 1);
  for (std::uint32_t value = 0; value <= most; ++value) {
    levels[value] = static_cast<unsigned char>(std::nearbyint(double(value) / most * 255));
  }
  return levels;
}

std::vector<std::uint16_t> levels16(std::uint32_t most) {
  std::vector<std::uint16_t> levels(most + 1);
  for (std::uint32_t value = 0; value <= most; ++value) {
    levels[value] = static_cast<std::uint16_t>(value);
  }
  return levels;
}

}  // namespace

cv::Mat decode_pnm(const Source& source) {
  Scanner scanner(source);
  const Header header = read_header(source, scanner);
  if (!header.text()) scanner.skip(1);  // one white space before binary pixels
  check_length(header, scanner);
  cv::Mat pixels;
  if (header.bitmap()) {
    pixels = read_bitmap(header, scanner);
  } else if (source.purpose() == Purpose::depth && header.most > 255) {
    pixels = read_samples(header, scanner, levels16(header.most));
  } else {
    pixels = read_samples(header, scanner, levels8(header.most));
  }
  if (scanner.another_picture_follows()) {
    source.warn("holds several pictures; the first one is used.");
  }
  return pixels;
}

}  // namespace hdfnet::app
