#include "image/exif.h"

#include <opencv2/core.hpp>
#include <optional>

#include "image/source.h"

namespace hdfnet::app {
namespace {

constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::size_t kEntrySize = 12;

/// Numbers out of an EXIF block, in the byte order that its header states.
class TiffBlock {
 public:
  TiffBlock(std::span<const unsigned char> bytes, bool big_endian)
      : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<std::uint32_t> u16(std::size_t offset) const {
    if (offset + 2 > bytes_.size()) return std::nullopt;
    return big_endian_ ? be16(&bytes_[offset]) : le16(&bytes_[offset]);
  }
  std::optional<std::uint32_t> u32(std::size_t offset) const {
    if (offset + 4 > bytes_.size()) return std::nullopt;
    return big_endian_ ? be32(&bytes_[offset]) : le32(&bytes_[offset]);
  }
  std::optional<std::uint32_t> u8(std::size_t offset) const {
    if (offset >= bytes_.size()) return std::nullopt;
    return bytes_[offset];
  }

 private:
  std::span<const unsigned char> bytes_;
  bool big_endian_;
};

std::optional<TiffBlock> open_block(std::span<const unsigned char> bytes) {
  constexpr std::size_t kPrefix = 6;  // "Exif\0\0"
  if (bytes.size() > kPrefix && bytes[0] == 'E' && bytes[1] == 'x') bytes = bytes.subspan(kPrefix);
  if (bytes.size() < 8) return std::nullopt;
  if (bytes[0] == 'I' && bytes[1] == 'I' && le16(&bytes[2]) == 42) return TiffBlock(bytes, false);
  if (bytes[0] == 'M' && bytes[1] == 'M' && be16(&bytes[2]) == 42) return TiffBlock(bytes, true);
  return std::nullopt;
}

/// The value of an entry that should be a SHORT; some editors write it as BYTE or LONG.
std::optional<std::uint32_t> entry_value(const TiffBlock& block, std::size_t entry) {
  switch (block.u16(entry + 2).value_or(0)) {
    case 1:
      return block.u8(entry + 8);
    case 3:
      return block.u16(entry + 8);
    case 4:
      return block.u32(entry + 8);
    default:
      return std::nullopt;
  }
}

}  // namespace

int exif_orientation(std::span<const unsigned char> exif) {
  const std::optional<TiffBlock> block = open_block(exif);
  if (!block) return 0;
  const std::optional<std::uint32_t> first_directory = block->u32(4);
  if (!first_directory) return 0;
  const std::size_t directory = *first_directory;
  const std::uint32_t count = block->u16(directory).value_or(0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t entry = directory + 2 + i * kEntrySize;
    const std::optional<std::uint32_t> tag = block->u16(entry);
    if (!tag) return 0;
    if (*tag != kOrientationTag) continue;
    const std::uint32_t value = entry_value(*block, entry).value_or(0);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
  }
  return 0;
}

cv::Mat apply_orientation(const cv::Mat& image, int orientation) {
  if (orientation <= 1) return image;
  // 5..8 are a transposition, followed by what 1..4 do.
  constexpr int kNoFlip = -2;
  constexpr int kFlip[] = {kNoFlip, kNoFlip, 1, -1, 0, kNoFlip, 1, -1, 0};
  cv::Mat upright = image;
  if (orientation >= 5) cv::transpose(image, upright);
  const int flip = kFlip[orientation];
  if (flip == kNoFlip) return upright;
  cv::Mat flipped;
  cv::flip(upright, flipped, flip);
  return flipped;
}

}  // namespace hdfnet::app
