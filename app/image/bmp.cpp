// BMP by hand: cv::imdecode ignores the masks of 16- and 32-bit bit fields.

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "image/decoders.h"

namespace hdfnet::app {
namespace {

enum Compression : std::uint32_t {
  kPlain = 0,
  kRle8 = 1,
  kRle4 = 2,
  kFields = 3,
  kAlphaFields = 6
};

struct Header {
  std::size_t pixels = 0;  ///< where they begin
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool top_down = false;
  std::uint32_t bits = 0;
  std::uint32_t compression = kPlain;
  std::array<std::uint32_t, 3> masks{};  ///< red, green, blue
  std::array<cv::Vec3b, 256> palette{};  ///< R,G,B; black beyond its end
};

void need(const Source& source, std::size_t end) {
  if (end > source.size()) {
    source.fail("is a truncated BMP: it ends after " + std::to_string(source.size()) +
                " bytes, at least " + std::to_string(end) + " are needed. Copy it again.");
  }
}

void read_masks(const Source& source, std::size_t at, Header& header) {
  if (header.compression == kFields || header.compression == kAlphaFields) {
    need(source, at + 12);
    for (std::size_t i = 0; i < 3; ++i) header.masks[i] = le32(source.data() + at + 4 * i);
  } else if (header.bits == 16) {
    header.masks = {0x7C00, 0x03E0, 0x001F};
  } else {
    header.masks = {0xFF0000, 0xFF00, 0xFF};
  }
}

void read_palette(const Source& source, std::size_t at, std::size_t count, std::size_t entry_size,
                  Header& header) {
  if (header.bits > 8) return;
  const std::size_t most = std::size_t{1} << header.bits;
  count = count == 0 ? most : std::min(count, most);
  // Some writers leave the palette short and let the pixels begin where it should go on.
  if (header.pixels > at) count = std::min(count, (header.pixels - at) / entry_size);
  need(source, at + count * entry_size);
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned char* entry = source.data() + at + i * entry_size;
    header.palette[i] = {entry[2], entry[1], entry[0]};
  }
}

constexpr std::size_t kFileHeader = 14;

/// The short header of OS/2 1.x.
void read_core_header(const Source& source, Header& header) {
  const unsigned char* data = source.data() + kFileHeader;
  header.width = le16(data + 4);
  header.height = le16(data + 6);
  header.bits = le16(data + 10);
  read_masks(source, 0, header);
  read_palette(source, kFileHeader + 12, 0, 3, header);
}

void read_info_header(const Source& source, std::size_t size, Header& header) {
  need(source, kFileHeader + size);
  const unsigned char* data = source.data() + kFileHeader;
  header.width = static_cast<std::int32_t>(le32(data + 4));
  header.height = static_cast<std::int32_t>(le32(data + 8));
  header.top_down = header.height < 0;
  header.height = std::abs(header.height);
  header.bits = le16(data + 14);
  header.compression = le32(data + 16);
  // The masks follow the 40 bytes of the oldest header; later ones contain them at the same place.
  read_masks(source, kFileHeader + 40, header);
  std::size_t palette = kFileHeader + size;
  if (size == 40 && header.compression == kFields) palette += 12;
  if (size == 40 && header.compression == kAlphaFields) palette += 16;
  read_palette(source, palette, le32(data + 32), 4, header);
}

void check_kind(const Source& source, const Header& header) {
  const std::uint32_t bits = header.bits;
  const bool known =
      (header.compression == kPlain &&
       (bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32)) ||
      (header.compression == kRle8 && bits == 8) || (header.compression == kRle4 && bits == 4) ||
      ((header.compression == kFields || header.compression == kAlphaFields) &&
       (bits == 16 || bits == 32));
  if (!known) {
    source.fail("is a BMP of an unsupported kind (" + std::to_string(bits) + " bits, compression " +
                std::to_string(header.compression) + "): convert it to PNG.");
  }
}

Header read_header(const Source& source) {
  need(source, kFileHeader + 12);
  Header header;
  header.pixels = le32(source.data() + 10);
  const std::size_t size = le32(source.data() + kFileHeader);
  header.bits = 0;
  if (size == 12) {
    read_core_header(source, header);
  } else if (size >= 40 && size <= 256) {
    read_info_header(source, size, header);
  } else {
    source.fail("is a BMP with an unknown header of " + std::to_string(size) + " bytes.");
  }
  check_kind(source, header);
  source.set_size(header.width, header.height);
  return header;
}

/// A field of a pixel as 0..255, cut off as Pillow does for 5 and 6 bits.
class Field {
 public:
  explicit Field(std::uint32_t mask)
      : mask_(mask), shift_(mask ? std::countr_zero(mask) : 0), most_(mask >> shift_) {}
  unsigned char operator()(std::uint32_t pixel) const {
    if (most_ == 0) return 0;
    return static_cast<unsigned char>(std::uint64_t{(pixel & mask_) >> shift_} * 255 / most_);
  }

 private:
  std::uint32_t mask_;
  int shift_;
  std::uint32_t most_;
};

void unpack_indexes(const unsigned char* stored, std::uint32_t bits,
                    std::span<unsigned char> indexes) {
  const std::uint32_t per_byte = 8 / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  for (std::size_t x = 0; x < indexes.size(); ++x) {
    const std::uint32_t shift = 8 - bits * (1 + static_cast<std::uint32_t>(x % per_byte));
    indexes[x] = static_cast<unsigned char>(stored[x / per_byte] >> shift & mask);
  }
}

void unpack_row(const Header& header, const unsigned char* stored, std::span<cv::Vec3b> row) {
  if (header.bits <= 8) {
    std::vector<unsigned char> indexes(row.size());
    unpack_indexes(stored, header.bits, indexes);
    std::ranges::transform(indexes, row.begin(),
                           [&](unsigned char i) { return header.palette[i]; });
    return;
  }
  const Field red(header.masks[0]), green(header.masks[1]), blue(header.masks[2]);
  const std::size_t width = header.bits / 8;
  for (std::size_t x = 0; x < row.size(); ++x) {
    const unsigned char* p = stored + x * width;
    const std::uint32_t pixel = width == 2   ? le16(p)
                                : width == 3 ? le16(p) | std::uint32_t{p[2]} << 16
                                             : le32(p);
    row[x] = {red(pixel), green(pixel), blue(pixel)};
  }
}

void read_plain(const Source& source, const Header& header, cv::Mat& pixels) {
  const auto width = static_cast<std::size_t>(pixels.cols);
  const auto height = static_cast<std::size_t>(pixels.rows);
  const std::size_t stride = (width * header.bits + 31) / 32 * 4;
  // The last row's padding may be missing.
  need(source, header.pixels + stride * (height - 1) + (width * header.bits + 7) / 8);
  for (std::size_t y = 0; y < height; ++y) {
    const int target = static_cast<int>(header.top_down ? y : height - 1 - y);
    unpack_row(header, source.data() + header.pixels + y * stride,
               std::span(pixels.ptr<cv::Vec3b>(target), width));
  }
}

/// Run-length coded indexes, 8 or 4 bits each. Pixels that the code leaps over keep index 0.
class RunLengthDecoder {
 public:
  RunLengthDecoder(const Source& source, const Header& header, cv::Mat& pixels)
      : source_(source), header_(header), pixels_(pixels), at_(header.pixels) {
    pixels_.setTo(header.palette[0]);
  }

  void run() {
    while (true) {
      const unsigned count = next();
      const unsigned value = next();
      if (count > 0) {
        for (unsigned i = 0; i < count; ++i) put(nibble_or_byte(value, i));
      } else if (value == 0) {
        x_ = 0;
        y_ = std::min(y_ + 1, pixels_.rows);
      } else if (value == 1) {
        return;
      } else if (value == 2) {
        x_ = std::min(x_ + static_cast<int>(next()), pixels_.cols);
        y_ = std::min(y_ + static_cast<int>(next()), pixels_.rows);
      } else {
        literal(value);
      }
      if (y_ >= pixels_.rows && at_ >= source_.size()) return;  // the end code is often missing
    }
  }

 private:
  unsigned next() {
    need(source_, at_ + 1);
    return source_.data()[at_++];
  }

  unsigned nibble_or_byte(unsigned value, unsigned i) const {
    if (header_.bits == 8) return value;
    return i % 2 == 0 ? value >> 4 : value & 15;
  }

  void literal(unsigned count) {
    const std::size_t start = at_;
    unsigned value = 0;
    for (unsigned i = 0; i < count; ++i) {
      if (header_.bits == 8 || i % 2 == 0) value = next();
      put(nibble_or_byte(value, i));
    }
    if ((at_ - start) % 2 != 0) next();  // padded to 16 bits
  }

  void put(unsigned index) {
    if (y_ < pixels_.rows && x_ < pixels_.cols) {
      const int row = header_.top_down ? y_ : pixels_.rows - 1 - y_;
      pixels_.at<cv::Vec3b>(row, x_) = header_.palette[index];
    }
    x_ = std::min(x_ + 1, pixels_.cols);
  }

  const Source& source_;
  const Header& header_;
  cv::Mat& pixels_;
  std::size_t at_;
  int x_ = 0;
  int y_ = 0;
};

}  // namespace

cv::Mat decode_bmp(const Source& source) {
  const Header header = read_header(source);
  const bool plain = header.compression != kRle8 && header.compression != kRle4;
  if (plain) {  // before memory is taken
    need(source,
         header.pixels + static_cast<std::size_t>(header.width * header.height) * header.bits / 8);
  }
  cv::Mat pixels(static_cast<int>(header.height), static_cast<int>(header.width), CV_8UC3);
  if (plain) {
    read_plain(source, header, pixels);
  } else {
    RunLengthDecoder(source, header, pixels).run();
  }
  return pixels;
}

}  // namespace hdfnet::app
