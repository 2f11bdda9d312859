#pragma once

#include <cstddef>
#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <span>
#include <string>
#include <string_view>

#include "image/in_quotes.h"
#include "image/read.h"

namespace hdfnet::app {

/// What a picture is read for. Depth keeps its numbers; a colour picture may be reduced to 8 bits
/// while it is decoded.
enum class Purpose { rgb, depth };

/// The bytes of one file, its name for messages, and what is found out on the way.
class Source {
 public:
  Source(std::span<const std::byte> bytes, std::string_view label, Purpose purpose, ReadInfo& info)
      : bytes_(bytes), label_(label), purpose_(purpose), info_(info) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  const unsigned char* data() const {
    return reinterpret_cast<const unsigned char*>(bytes_.data());
  }
  std::size_t size() const { return bytes_.size(); }
  Purpose purpose() const { return purpose_; }
  ReadInfo& info() const { return info_; }

  /// The bytes as characters, for headers that are text.
  std::string_view text() const { return {reinterpret_cast<const char*>(data()), size()}; }

  /// Throws ImageError "'label' <what>".
  [[noreturn]] void fail(const std::string& what) const { throw ImageError(sentence(what)); }

  /// Keeps the warning "'label' <what>".
  void warn(const std::string& what) const { info_.warnings.push_back(sentence(what)); }

  /// Records the declared size; throws ImageError when it is empty or above kMaxPixels. To be
  /// called before memory is taken for the pixels.
  void set_size(std::int64_t width, std::int64_t height) const;

 private:
  std::string sentence(const std::string& what) const { return in_quotes(label_) + " " + what; }

  std::span<const std::byte> bytes_;
  std::string_view label_;
  Purpose purpose_;
  ReadInfo& info_;
};

/// Numbers of 16 and 32 bits at `p`, in the named byte order.
inline std::uint32_t le16(const unsigned char* p) {
  return p[0] | static_cast<std::uint32_t>(p[1]) << 8;
}
inline std::uint32_t le32(const unsigned char* p) {
  return le16(p) | le16(p + 2) << 16;
}
inline std::uint32_t be16(const unsigned char* p) {
  return p[1] | static_cast<std::uint32_t>(p[0]) << 8;
}
inline std::uint32_t be32(const unsigned char* p) {
  return be16(p + 2) | be16(p) << 16;
}

/// Puts 16-bit (or wider) samples into this machine's byte order, in place.
void swap_bytes(unsigned char* data, std::size_t count, std::size_t width);

/// This machine stores the low byte first.
bool little_endian_host();

}  // namespace hdfnet::app
