// Grey maps as PNG by libpng itself: cv::imencode tries all filters on each row, which takes more
// than half of its time.

#include <png.h>
#include <zlib.h>

#include <csetjmp>
#include <cstddef>
#include <exception>
#include <opencv2/core.hpp>
#include <utility>
#include <vector>

#include "image/encoders.h"
#include "image/saliency_output.h"

namespace hdfnet::app {
namespace {

/// One writing by libpng. It leaves by longjmp, so the step that may fail is a function without
/// objects that need destruction.
class Writer {
 public:
  Writer() {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, on_error, on_warning);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) {
      png_destroy_write_struct(&png_, nullptr);
      fail();
    }
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { png_destroy_write_struct(&png_, &info_); }

  std::vector<std::byte> write(const cv::Mat& grey, int compression) {
    if (!try_write(grey, compression)) fail();
    return std::move(bytes_);
  }

 private:
  [[noreturn]] static void fail() { throw OutputError("the picture cannot be encoded as PNG"); }

  static void on_error(png_structp png, png_const_charp) { png_longjmp(png, 1); }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_write(png_structp png, png_bytep data, std::size_t count) {
    if (!static_cast<Writer*>(png_get_io_ptr(png))->take(data, count)) png_error(png, "no memory");
  }
  static void on_flush(png_structp) {}

  bool take(png_bytep data, std::size_t count) noexcept {
    try {
      const auto* const bytes = reinterpret_cast<const std::byte*>(data);
      bytes_.insert(bytes_.end(), bytes, bytes + count);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  bool try_write(const cv::Mat& grey, int compression) {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_write_fn(png_, this, on_write, on_flush);
    png_set_compression_level(png_, compression);
    // Maps are smooth or flat: the row above and run lengths serve them best for their time.
    png_set_compression_strategy(png_, Z_RLE);
    png_set_filter(png_, PNG_FILTER_TYPE_BASE, PNG_FILTER_UP);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(grey.cols),
                 static_cast<png_uint_32>(grey.rows), 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    for (int y = 0; y < grey.rows; ++y) png_write_row(png_, grey.ptr(y));
    png_write_end(png_, info_);
    return true;
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<std::byte> bytes_;
};

}  // namespace

std::vector<std::byte> encode_grey_png(const cv::Mat& grey, int compression) {
  return Writer().write(grey, compression);
}

}  // namespace hdfnet::app
