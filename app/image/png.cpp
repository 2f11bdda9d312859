// PNG by libpng itself: cv::imdecode hides why a file cannot be read and whether rows are missing.

#include <png.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "image/decoders.h"
#include "image/exif.h"

namespace hdfnet::app {
namespace {

constexpr std::size_t kSignatureSize = 8;
constexpr std::size_t kChunkOverhead = 12;  // length, name and check sum

/// What the chunks say before anything is decoded.
struct Overview {
  bool has_pixels = false;  ///< an IDAT chunk that is not empty
  bool animated = false;
  int orientation = 0;
};

/// Calls visit(name, content) for each chunk up to the end of the file; the last may be cut off.
template <typename Visit>
void for_each_chunk(const Source& source, const Visit& visit) {
  std::size_t offset = kSignatureSize;
  while (offset + 8 <= source.size()) {
    const std::size_t length = be32(source.data() + offset);
    const std::size_t available = source.size() - offset - 8;
    visit(source.text().substr(offset + 4, 4),
          std::span(source.data() + offset + 8, std::min(length, available)));
    offset += length + kChunkOverhead;
  }
}

Overview look_over(const Source& source) {
  Overview found;
  for_each_chunk(source, [&](std::string_view name, std::span<const unsigned char> content) {
    if (name == "IDAT" && !content.empty()) found.has_pixels = true;
    if (name == "acTL") found.animated = true;
    if (name == "eXIf" && found.orientation == 0) found.orientation = exif_orientation(content);
    if (name == "CgBI") {
      source.fail(
          "is a PNG in Apple's private CgBI form, out of an iOS application: restore it with "
          "'pngcrush -revert-iphone-optimizations' or export it again.");
    }
  });
  return found;
}

void check_header(const Source& source) {
  constexpr std::size_t kHeaderEnd = kSignatureSize + 8 + 13;
  if (source.size() < kHeaderEnd || source.text().substr(12, 4) != "IHDR") {
    source.fail("is a damaged PNG: its header (IHDR) is missing.");
  }
  source.set_size(be32(source.data() + 16), be32(source.data() + 20));
}

/// One reading by libpng. It leaves by longjmp, so each step that may fail is a function without
/// objects that need destruction.
class Reader {
 public:
  explicit Reader(const Source& source) : source_(source) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      source_.fail("cannot be read: not enough memory for libpng.");
    }
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  cv::Mat read() {
    if (!try_start()) fail();
    cv::Mat pixels(height_, width_, CV_MAKETYPE(bits_ == 16 ? CV_16U : CV_8U, channels_));
    std::vector<png_bytep> rows(static_cast<std::size_t>(height_));
    for (int y = 0; y < height_; ++y) rows[static_cast<std::size_t>(y)] = pixels.ptr(y);
    if (!try_read_rows(rows.data())) fail();
    if (!try_read_end()) {
      source_.warn("is damaged behind its pixels (" + message_ + "); the picture itself is whole.");
    }
    return pixels;
  }

 private:
  static void on_error(png_structp png, png_const_charp message) {
    static_cast<Reader*>(png_get_error_ptr(png))->keep(message);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}

  static void on_read(png_structp png, png_bytep target, std::size_t count) {
    if (!static_cast<Reader*>(png_get_io_ptr(png))->take(target, count)) {
      png_error(png, "the file ends too early");
    }
  }

  void keep(const char* message) noexcept {
    try {
      message_ = message;
    } catch (...) {
      message_.clear();  // no memory for the reason: fail without it
    }
  }

  bool take(png_bytep target, std::size_t count) {
    if (count > source_.size() - offset_) return false;
    std::memcpy(target, source_.data() + offset_, count);
    offset_ += count;
    return true;
  }

  bool try_start() {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_read_fn(png_, this, on_read);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // the size is checked already
    png_read_info(png_, info_);
    png_set_expand(png_);  // palettes, 1, 2 and 4 bits, tRNS
    if (source_.purpose() == Purpose::rgb) png_set_strip_16(png_);
    if (little_endian_host()) png_set_swap(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    width_ = static_cast<int>(png_get_image_width(png_, info_));
    height_ = static_cast<int>(png_get_image_height(png_, info_));
    bits_ = png_get_bit_depth(png_, info_);
    channels_ = png_get_channels(png_, info_);
    return true;
  }

  bool try_read_rows(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_read_image(png_, rows);
    return true;
  }

  bool try_read_end() {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_read_end(png_, nullptr);
    return true;
  }

  [[noreturn]] void fail() const {
    source_.fail("is a damaged or truncated PNG (" + message_ + "). Copy it again.");
  }

  const Source& source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::size_t offset_ = 0;
  std::string message_;
  int width_ = 0;
  int height_ = 0;
  int bits_ = 0;
  int channels_ = 0;
};

}  // namespace

cv::Mat decode_png(const Source& source) {
  const Overview overview = look_over(source);
  check_header(source);
  if (!overview.has_pixels) source.fail("is a PNG without pixel data (IDAT).");
  if (overview.animated) source.warn("is an animated PNG; its first picture is used.");
  source.info().exif_orientation = overview.orientation;
  return Reader(source).read();
}

}  // namespace hdfnet::app
