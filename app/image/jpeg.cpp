// JPEG by libjpeg(-turbo) itself: cv::imdecode fills damaged parts with grey and says so only on
// stderr.

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <opencv2/core.hpp>
#include <string>

// libjpeg's headers use size_t and FILE without declaring them; jerror.h needs jpeglib.h.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "image/channels.h"
#include "image/decoders.h"
#include "image/exif.h"

namespace hdfnet::app {
namespace {

/// libjpeg's error state with what we add to it; `base` must come first.
struct ErrorState {
  jpeg_error_mgr base;
  jmp_buf jump;
  char fatal[JMSG_LENGTH_MAX];
  char damage[JMSG_LENGTH_MAX];  ///< pixels are missing or wrong
  char oddity[JMSG_LENGTH_MAX];  ///< something off that costs no pixel
  bool premature_end;            ///< the data end before the end marker
};

ErrorState& state_of(j_common_ptr info) {
  return *reinterpret_cast<ErrorState*>(info->err);
}

[[noreturn]] void on_error(j_common_ptr info) {
  ErrorState& state = state_of(info);
  state.base.format_message(info, state.fatal);
  std::longjmp(state.jump, 1);
}

/// Warnings after which pixels differ from those that were stored.
bool costs_pixels(int code) {
  switch (code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // trace output
  ErrorState& state = state_of(info);
  ++state.base.num_warnings;
  if (state.base.msg_code == JWRN_JPEG_EOF) {
    state.premature_end = true;
    return;
  }
  if (costs_pixels(state.base.msg_code)) {
    // Nothing that follows can be right; a small file cannot make us fill a large picture with
    // grey.
    state.base.format_message(info, state.damage);
    std::longjmp(state.jump, 1);
  }
  if (state.oddity[0] == '\0') state.base.format_message(info, state.oddity);
}

void discard_output(j_common_ptr) {}

/// A progressive file of few bytes can ask for thousands of passes over a large picture.
void limit_scans(j_common_ptr info) {
  constexpr int kMaxScans = 500;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    std::snprintf(state_of(info).fatal, JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
    std::longjmp(state_of(info).jump, 1);
  }
}

/// One decompression. libjpeg leaves by longjmp, so each step that may fail is a function without
/// objects that need destruction.
class Decompressor {
 public:
  explicit Decompressor(const Source& source) : source_(source) {
    info_.err = jpeg_std_error(&error_.base);
    error_.base.error_exit = on_error;
    error_.base.emit_message = on_message;
    error_.base.output_message = discard_output;
    progress_.progress_monitor = limit_scans;
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  ~Decompressor() { jpeg_destroy_decompress(&info_); }

  void read_header() {
    if (!try_read_header()) fail();
    if (error_.premature_end) source_.fail("is a truncated JPEG: its header is cut off.");
  }
  int width() const { return static_cast<int>(info_.image_width); }
  int height() const { return static_cast<int>(info_.image_height); }
  bool inks() const { return info_.num_components == 4; }
  bool adobe() const { return info_.saw_Adobe_marker != 0; }
  int channels() const { return info_.out_color_components; }

  /// Chooses grey, R,G,B or CMYK and starts.
  void start() {
    if (!try_start()) fail();
  }

  void read_rows(cv::Mat& pixels) {
    if (!try_read_rows(pixels)) fail();
    refuse_damage();
    if (error_.premature_end) source_.warn("lacks the end marker of a JPEG; the picture is whole.");
    if (error_.oddity[0] != '\0')
      source_.warn("is an odd JPEG (" + std::string(error_.oddity) + ").");
  }

  int orientation() const {
    for (jpeg_saved_marker_ptr marker = info_.marker_list; marker; marker = marker->next) {
      const std::span<const unsigned char> data(marker->data, marker->data_length);
      if (data.size() > 6 && std::memcmp(data.data(), "Exif\0", 5) == 0)
        return exif_orientation(data);
    }
    return 0;
  }

 private:
  bool try_read_header() {
    if (setjmp(error_.jump)) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, source_.data(), static_cast<unsigned long>(source_.size()));
    jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool try_start() {
    if (setjmp(error_.jump)) return false;
    info_.out_color_space = inks() ? JCS_CMYK : info_.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&info_);
    return true;
  }

  bool try_read_rows(cv::Mat& pixels) {
    if (setjmp(error_.jump)) return false;
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels.ptr(static_cast<int>(info_.output_scanline));
      jpeg_read_scanlines(&info_, &row, 1);
    }
    // A file with several scans may lack the later ones, which looks like a coarser picture.
    multiple_scans_ = jpeg_has_multiple_scans(&info_) != 0;
    jpeg_finish_decompress(&info_);
    return true;
  }

  [[noreturn]] void fail() const {
    refuse_damage();
    source_.fail("cannot be decoded as JPEG: " + std::string(error_.fatal) +
                 ". The file is damaged or of an unusual kind.");
  }

  void refuse_damage() const {
    const bool damaged = error_.damage[0] != '\0';
    if (error_.premature_end && (damaged || multiple_scans_)) {
      source_.fail("is a truncated JPEG: its data end before the picture does. Copy it again.");
    }
    if (damaged) {
      source_.fail("is a corrupt JPEG (" + std::string(error_.damage) +
                   "): part of the picture would be wrong. Copy it again.");
    }
  }

  const Source& source_;
  ErrorState error_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
  bool multiple_scans_ = false;
};

}  // namespace

cv::Mat decode_jpeg(const Source& source) {
  Decompressor jpeg(source);
  jpeg.read_header();
  source.set_size(jpeg.width(), jpeg.height());
  source.info().exif_orientation = jpeg.orientation();
  jpeg.start();
  cv::Mat pixels(jpeg.height(), jpeg.width(), CV_8UC(jpeg.channels()));
  jpeg.read_rows(pixels);
  if (!jpeg.inks()) return pixels;
  if (jpeg.adobe()) {
    cv::bitwise_not(pixels, pixels);  // Adobe stores 255 - ink
  } else {
    source.warn("is a CMYK JPEG without Adobe's marker; its samples are taken as not inverted.");
  }
  return cmyk_to_rgb(pixels);
}

}  // namespace hdfnet::app
