// TIFF by libtiff itself: OpenCV 4.6 cannot read half floats and unsigned 32-bit integers, returns
// nothing for float data unless asked in a special way, and darkens colours by their alpha.

#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "image/channels.h"
#include "image/decoders.h"

namespace hdfnet::app {
namespace {

/// libtiff's last error on this thread. Its handlers are global, so other users of the library in
/// the same process must not be disturbed: the handler only writes while one of our files is open.
thread_local std::string* current_error = nullptr;

void on_tiff_error(const char*, const char* format, va_list arguments) {
  if (!current_error || !current_error->empty()) return;
  char text[256];
  std::vsnprintf(text, sizeof text, format, arguments);
  *current_error = text;
}

void install_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    TIFFSetErrorHandler(on_tiff_error);
    TIFFSetWarningHandler(nullptr);
  });
}

/// The file in memory, as libtiff's read, seek, size and map functions see it.
struct Memory {
  const Source& source;
  std::uint64_t offset = 0;
};

tmsize_t read_memory(thandle_t handle, void* target, tmsize_t count) {
  auto& memory = *static_cast<Memory*>(handle);
  if (memory.offset >= memory.source.size() || count <= 0) return 0;
  const std::size_t left = memory.source.size() - static_cast<std::size_t>(memory.offset);
  const std::size_t taken = std::min(left, static_cast<std::size_t>(count));
  std::memcpy(target, memory.source.data() + memory.offset, taken);
  memory.offset += taken;
  return static_cast<tmsize_t>(taken);
}

tmsize_t write_memory(thandle_t, void*, tmsize_t) {
  return 0;
}

toff_t seek_memory(thandle_t handle, toff_t offset, int whence) {
  auto& memory = *static_cast<Memory*>(handle);
  if (whence == SEEK_CUR) offset += memory.offset;
  if (whence == SEEK_END) offset += memory.source.size();
  memory.offset = offset;
  return offset;
}

int close_memory(thandle_t) {
  return 0;
}
toff_t size_of_memory(thandle_t handle) {
  return static_cast<Memory*>(handle)->source.size();
}

struct Layout {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint16_t bits = 1;
  std::uint16_t samples = 1;
  std::uint16_t sample_format = SAMPLEFORMAT_UINT;
  std::uint16_t photometric = PHOTOMETRIC_MINISBLACK;
  std::uint16_t compression = COMPRESSION_NONE;
  bool planes_apart = false;
  std::uint16_t alpha_kind = EXTRASAMPLE_UNSPECIFIED;  ///< of the first extra sample
  std::uint16_t extra_samples = 0;

  int colours() const { return samples - extra_samples; }
};

class TiffFile {
 public:
  explicit TiffFile(const Source& source) : source_(source), memory_{source} {
    install_handlers();
    current_error = &error_;
    tiff_ = TIFFClientOpen("memory", "rm", &memory_, read_memory, write_memory, seek_memory,
                           close_memory, size_of_memory, nullptr, nullptr);
    if (!tiff_) {
      current_error = nullptr;
      fail_as_damaged();
    }
  }
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;
  ~TiffFile() {
    TIFFClose(tiff_);
    current_error = nullptr;
  }

  TIFF* get() const { return tiff_; }
  bool has_more_pages() const { return TIFFLastDirectory(tiff_) == 0; }

  Layout layout() const {
    Layout layout;
    TIFFGetField(tiff_, TIFFTAG_IMAGEWIDTH, &layout.width);
    TIFFGetField(tiff_, TIFFTAG_IMAGELENGTH, &layout.height);
    TIFFGetFieldDefaulted(tiff_, TIFFTAG_BITSPERSAMPLE, &layout.bits);
    TIFFGetFieldDefaulted(tiff_, TIFFTAG_SAMPLESPERPIXEL, &layout.samples);
    TIFFGetFieldDefaulted(tiff_, TIFFTAG_SAMPLEFORMAT, &layout.sample_format);
    TIFFGetField(tiff_, TIFFTAG_PHOTOMETRIC, &layout.photometric);
    TIFFGetFieldDefaulted(tiff_, TIFFTAG_COMPRESSION, &layout.compression);
    std::uint16_t planar = PLANARCONFIG_CONTIG;
    TIFFGetFieldDefaulted(tiff_, TIFFTAG_PLANARCONFIG, &planar);
    layout.planes_apart = planar == PLANARCONFIG_SEPARATE;
    std::uint16_t* kinds = nullptr;
    TIFFGetFieldDefaulted(tiff_, TIFFTAG_EXTRASAMPLES, &layout.extra_samples, &kinds);
    if (layout.extra_samples > 0 && kinds) layout.alpha_kind = kinds[0];
    return layout;
  }

  int orientation() const {
    std::uint16_t orientation = 0;
    if (!TIFFGetField(tiff_, TIFFTAG_ORIENTATION, &orientation)) return 0;
    return orientation >= 1 && orientation <= 8 ? orientation : 0;
  }

  [[noreturn]] void fail_as_damaged() const {
    source_.fail("is a damaged or truncated TIFF" +
                 (error_.empty() ? std::string() : " (" + error_ + ")") + ".");
  }

 private:
  const Source& source_;
  Memory memory_;
  std::string error_;
  TIFF* tiff_ = nullptr;
};

[[noreturn]] void fail_as_unsupported(const Source& source, const std::string& what) {
  source.fail("is a TIFF with " + what + ", which is not supported: convert it.");
}

/// The Mat depth that holds one stored sample. Half floats and uint32 travel in Mats of their
/// width.
int storage_depth(const Source& source, const Layout& layout) {
  const bool real = layout.sample_format == SAMPLEFORMAT_IEEEFP;
  const bool sign = layout.sample_format == SAMPLEFORMAT_INT;
  const bool plain =
      layout.sample_format == SAMPLEFORMAT_UINT || layout.sample_format == SAMPLEFORMAT_VOID;
  switch (layout.bits) {
    case 1:
    case 2:
    case 4:
      if (plain) return CV_8U;
      break;
    case 8:
      if (plain || sign) return sign ? CV_8S : CV_8U;
      break;
    case 16:
      if (real) return CV_16F;
      if (plain || sign) return sign ? CV_16S : CV_16U;
      break;
    case 32:
      if (real) return CV_32F;
      if (plain || sign) return CV_32S;
      break;
    case 64:
      if (real) return CV_64F;
      break;
    default:
      break;
  }
  fail_as_unsupported(source, std::to_string(layout.bits) + "-bit samples of kind " +
                                  std::to_string(layout.sample_format));
}

/// Spreads samples of 1, 2 or 4 bits over bytes; their values stay what they are.
void unpack_bits(const unsigned char* packed, int bits, std::span<unsigned char> values) {
  const std::size_t per_byte = static_cast<std::size_t>(8 / bits);
  const int mask = (1 << bits) - 1;
  for (std::size_t x = 0; x < values.size(); ++x) {
    const int shift = 8 - bits * (1 + static_cast<int>(x % per_byte));
    values[x] = static_cast<unsigned char>(packed[x / per_byte] >> shift & mask);
  }
}

/// A strip or tile: a rectangle of the picture.
struct Block {
  std::uint32_t width;
  std::uint32_t height;
};

/// Copies blocks of decoded samples into the Mat that holds the whole picture.
class BlockCopier {
 public:
  BlockCopier(const Layout& layout, cv::Mat& samples) : layout_(layout), samples_(samples) {}

  /// `plane` is the sample that the block holds when the planes are stored apart.
  void copy(const unsigned char* data, Block block, std::uint32_t left, std::uint32_t top,
            std::uint32_t plane) {
    const std::size_t per_pixel = layout_.planes_apart ? 1 : layout_.samples;
    const std::size_t stride = (std::size_t{block.width} * per_pixel * layout_.bits + 7) / 8;
    const std::uint32_t rows = std::min(block.height, layout_.height - top);
    const std::size_t columns = std::min(block.width, layout_.width - left);
    std::vector<unsigned char> unpacked;
    for (std::uint32_t y = 0; y < rows; ++y) {
      const unsigned char* row = data + y * stride;
      if (layout_.bits < 8) {
        unpacked.resize(columns * per_pixel);
        unpack_bits(row, layout_.bits, unpacked);
        row = unpacked.data();
      }
      copy_row(row, columns, samples_.ptr(static_cast<int>(top + y), static_cast<int>(left)),
               plane);
    }
  }

 private:
  void copy_row(const unsigned char* row, std::size_t columns, unsigned char* target,
                std::uint32_t plane) {
    const std::size_t one = samples_.elemSize1();
    if (!layout_.planes_apart) {
      std::memcpy(target, row, columns * samples_.elemSize());
      return;
    }
    for (std::size_t x = 0; x < columns; ++x) {
      std::memcpy(target + x * samples_.elemSize() + plane * one, row + x * one, one);
    }
  }

  const Layout& layout_;
  cv::Mat& samples_;
};

void read_strips(const TiffFile& file, const Layout& layout, cv::Mat& samples) {
  std::uint32_t rows_per_strip = 0;
  TIFFGetFieldDefaulted(file.get(), TIFFTAG_ROWSPERSTRIP, &rows_per_strip);
  rows_per_strip = std::clamp<std::uint32_t>(rows_per_strip, 1, layout.height);
  const tmsize_t size = TIFFStripSize(file.get());
  if (size <= 0) file.fail_as_damaged();
  const auto data = std::make_unique_for_overwrite<unsigned char[]>(static_cast<std::size_t>(size));
  BlockCopier copier(layout, samples);
  const std::uint32_t planes = layout.planes_apart ? layout.samples : 1;
  for (std::uint32_t plane = 0; plane < planes; ++plane) {
    for (std::uint32_t top = 0; top < layout.height; top += rows_per_strip) {
      const std::uint32_t strip =
          TIFFComputeStrip(file.get(), top, static_cast<std::uint16_t>(plane));
      const std::uint32_t rows = std::min(rows_per_strip, layout.height - top);
      const tmsize_t wanted = TIFFVStripSize(file.get(), rows);
      if (TIFFReadEncodedStrip(file.get(), strip, data.get(), size) < wanted) {
        file.fail_as_damaged();
      }
      copier.copy(data.get(), {layout.width, rows_per_strip}, 0, top, plane);
    }
  }
}

void read_tiles(const Source& source, const TiffFile& file, const Layout& layout,
                cv::Mat& samples) {
  Block tile{0, 0};
  TIFFGetField(file.get(), TIFFTAG_TILEWIDTH, &tile.width);
  TIFFGetField(file.get(), TIFFTAG_TILELENGTH, &tile.height);
  const tmsize_t size = TIFFTileSize(file.get());
  if (size <= 0 || tile.width == 0 || tile.height == 0) file.fail_as_damaged();
  if (std::int64_t{tile.width} * tile.height > kMaxPixels) {
    fail_as_unsupported(source, "tiles above the size limit");
  }
  const auto data = std::make_unique_for_overwrite<unsigned char[]>(static_cast<std::size_t>(size));
  BlockCopier copier(layout, samples);
  const std::uint32_t planes = layout.planes_apart ? layout.samples : 1;
  for (std::uint32_t plane = 0; plane < planes; ++plane) {
    for (std::uint32_t top = 0; top < layout.height; top += tile.height) {
      for (std::uint32_t left = 0; left < layout.width; left += tile.width) {
        const std::uint32_t index =
            TIFFComputeTile(file.get(), left, top, 0, static_cast<std::uint16_t>(plane));
        if (TIFFReadEncodedTile(file.get(), index, data.get(), size) < size) {
          file.fail_as_damaged();
        }
        copier.copy(data.get(), tile, left, top, plane);
      }
    }
  }
}

/// libtiff reads a strip or tile of no bytes as success without pixels; such a file is cut off.
void refuse_missing_blocks(const Source& source, const TiffFile& file) {
  const std::uint32_t count =
      TIFFIsTiled(file.get()) ? TIFFNumberOfTiles(file.get()) : TIFFNumberOfStrips(file.get());
  for (std::uint32_t block = 0; block < count; ++block) {
    if (TIFFGetStrileByteCount(file.get(), block) == 0) {
      source.fail("is a damaged or truncated TIFF: some of its strips or tiles are missing.");
    }
  }
}

cv::Mat read_samples(const Source& source, const TiffFile& file, const Layout& layout) {
  constexpr int kMostSamples = 16;
  if (layout.samples < 1 || layout.samples > kMostSamples) {
    fail_as_unsupported(source, std::to_string(layout.samples) + " samples a pixel");
  }
  const int type = CV_MAKETYPE(storage_depth(source, layout), layout.samples);
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
  refuse_missing_blocks(source, file);
  if (std::uint64_t{layout.width} * layout.height * CV_ELEM_SIZE(type) > kMostBytes) {
    fail_as_unsupported(source, "more than 4 GiB of samples");
  }
  cv::Mat samples(static_cast<int>(layout.height), static_cast<int>(layout.width), type);
  if (TIFFIsTiled(file.get())) {
    read_tiles(source, file, layout, samples);
  } else {
    read_strips(file, layout, samples);
  }
  return samples;
}

/// uint32 came in as CV_32S: values above its range move the whole map to float.
cv::Mat unsigned_to_known(const cv::Mat& bits32) {
  double least = 0;
  cv::minMaxIdx(bits32.reshape(1), &least, nullptr);
  if (least >= 0) return bits32;
  cv::Mat real;
  bits32.convertTo(real, CV_64F);
  constexpr double kTwoTo32 = 4294967296.0;
  cv::Mat flat = real.reshape(1);
  cv::add(flat, kTwoTo32, flat, flat < 0);
  real.convertTo(real, CV_32F);
  return real;
}

/// Half, double, int8 and uint32 become types that the rest of the program knows.
cv::Mat widen(const cv::Mat& samples, const Layout& layout) {
  cv::Mat known = samples;
  if (samples.depth() == CV_16F || samples.depth() == CV_64F) samples.convertTo(known, CV_32F);
  if (samples.depth() == CV_8S) samples.convertTo(known, CV_16S);
  if (samples.depth() == CV_32S && layout.sample_format != SAMPLEFORMAT_INT) {
    known = unsigned_to_known(samples);
  }
  return known;
}

cv::Mat first_channels(const cv::Mat& image, int count) {
  if (image.channels() == count) return image;
  cv::Mat kept(image.size(), CV_MAKETYPE(image.depth(), count));
  std::vector<int> from_to;
  for (int c = 0; c < count; ++c) from_to.insert(from_to.end(), {c, c});
  cv::mixChannels(&image, 1, &kept, 1, from_to.data(), from_to.size() / 2);
  return kept;
}

cv::Mat through_palette(const Source& source, const TiffFile& file, const Layout& layout,
                        const cv::Mat& indexes) {
  std::uint16_t *red = nullptr, *green = nullptr, *blue = nullptr;
  if (layout.bits > 8 || !TIFFGetField(file.get(), TIFFTAG_COLORMAP, &red, &green, &blue)) {
    fail_as_unsupported(source, "a palette of " + std::to_string(layout.bits) + " bits");
  }
  const std::size_t entries = std::size_t{1} << layout.bits;
  cv::Mat colours(indexes.size(), CV_8UC3);
  for (int y = 0; y < indexes.rows; ++y) {
    for (int x = 0; x < indexes.cols; ++x) {
      const std::size_t i = std::min<std::size_t>(indexes.ptr(y, x)[0], entries - 1);
      colours.at<cv::Vec3b>(y, x) = {static_cast<unsigned char>(red[i] >> 8),
                                     static_cast<unsigned char>(green[i] >> 8),
                                     static_cast<unsigned char>(blue[i] >> 8)};
    }
  }
  return colours;
}

/// Grey with an optional alpha; fewer than 8 bits are spread over 0..255.
cv::Mat as_grey(const Layout& layout, const cv::Mat& samples) {
  const bool alpha = layout.alpha_kind != EXTRASAMPLE_UNSPECIFIED && layout.samples == 2;
  cv::Mat grey = first_channels(samples, alpha ? 2 : 1);
  if (layout.bits < 8) grey.convertTo(grey, CV_8U, 255.0 / ((1 << layout.bits) - 1));
  if (layout.photometric == PHOTOMETRIC_MINISWHITE && grey.depth() == CV_8U) {
    cv::Mat inverted = ~grey;
    if (alpha) {
      cv::mixChannels({grey}, {inverted}, {1, 1});
    }
    return inverted;
  }
  return grey;
}

/// Colours that were stored multiplied by their alpha are divided by it, as Pillow does.
void divide_by_alpha(cv::Mat& rgba) {
  for (int y = 0; y < rgba.rows; ++y) {
    for (int x = 0; x < rgba.cols; ++x) {
      auto& pixel = rgba.at<cv::Vec4b>(y, x);
      const int alpha = pixel[3];
      if (alpha == 0 || alpha == 255) continue;
      for (int c = 0; c < 3; ++c) {
        pixel[c] = static_cast<unsigned char>(std::min(255, 255 * pixel[c] / alpha));
      }
    }
  }
}

cv::Mat as_rgb(const Source& source, const Layout& layout, const cv::Mat& samples) {
  if (layout.samples < 3) fail_as_unsupported(source, "fewer than three colour samples");
  const bool alpha = layout.alpha_kind != EXTRASAMPLE_UNSPECIFIED && layout.samples >= 4;
  cv::Mat colours = first_channels(samples, alpha ? 4 : 3);
  if (layout.bits < 8) colours.convertTo(colours, CV_8U, 255.0 / ((1 << layout.bits) - 1));
  if (alpha && layout.alpha_kind == EXTRASAMPLE_ASSOCALPHA && colours.depth() == CV_8U) {
    divide_by_alpha(colours);
  }
  return colours;
}

cv::Mat as_inks(const Source& source, const Layout& layout, const cv::Mat& samples) {
  if (layout.samples < 4) fail_as_unsupported(source, "fewer than four inks");
  cv::Mat inks = first_channels(samples, 4);
  if (inks.depth() == CV_16U) inks.convertTo(inks, CV_8U, 1.0 / 257);
  if (inks.depth() != CV_8U) fail_as_unsupported(source, "inks that are not 8- or 16-bit");
  return cmyk_to_rgb(inks);
}

/// Subsampled YCbCr, CIE L*a*b* and the like: libtiff's own conversion to 8-bit R,G,B.
cv::Mat by_libtiff(const Source& source, const TiffFile& file, const Layout& layout) {
  char reason[1024] = "";
  if (!TIFFRGBAImageOK(file.get(), reason)) fail_as_unsupported(source, reason);
  cv::Mat rgba(static_cast<int>(layout.height), static_cast<int>(layout.width), CV_8UC4);
  // Top-left of the stored picture, so that the orientation is applied once, by us.
  if (!TIFFReadRGBAImageOriented(file.get(), layout.width, layout.height,
                                 reinterpret_cast<std::uint32_t*>(rgba.data),
                                 std::max(file.orientation(), 1), 1)) {
    file.fail_as_damaged();
  }
  if (!little_endian_host()) swap_bytes(rgba.data, rgba.total(), 4);
  return first_channels(rgba, 3);
}

cv::Mat read_picture(const Source& source, const TiffFile& file, Layout layout) {
  if (layout.photometric == PHOTOMETRIC_YCBCR && layout.compression == COMPRESSION_JPEG &&
      !layout.planes_apart) {
    // Here libtiff's JPEG decoder converts while it decodes.
    TIFFSetField(file.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    layout.photometric = PHOTOMETRIC_RGB;
  }
  switch (layout.photometric) {
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_MINISWHITE:
      return as_grey(layout, widen(read_samples(source, file, layout), layout));
    case PHOTOMETRIC_RGB:
      return as_rgb(source, layout, widen(read_samples(source, file, layout), layout));
    case PHOTOMETRIC_PALETTE:
      return through_palette(source, file, layout, read_samples(source, file, layout));
    case PHOTOMETRIC_SEPARATED:
      return as_inks(source, layout, widen(read_samples(source, file, layout), layout));
    default:
      return by_libtiff(source, file, layout);
  }
}

}  // namespace

bool tiff_supported() {
  return true;
}

cv::Mat decode_tiff(const Source& source) {
  const TiffFile file(source);
  const Layout layout = file.layout();
  source.set_size(layout.width, layout.height);
  source.info().exif_orientation = file.orientation();
  if (file.has_more_pages()) source.warn("is a TIFF of several pages; the first one is used.");
  return read_picture(source, file, layout);
}

}  // namespace hdfnet::app
