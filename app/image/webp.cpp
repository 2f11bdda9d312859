// WebP: OpenCV decodes the pixels; its container is read here, because OpenCV 4.6 ignores the
// orientation and refuses animations.

#include <algorithm>
#include <array>
#include <opencv2/core.hpp>
#include <optional>
#include <vector>

#include "image/decoders.h"
#include "image/exif.h"

namespace hdfnet::app {
namespace {

using Bytes = std::span<const unsigned char>;

std::uint32_t le24(const unsigned char* p) {
  return le16(p) | std::uint32_t{p[2]} << 16;
}

std::string_view chars(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Calls visit(name, content, whole) for each RIFF chunk in `bytes`; `whole` is the chunk with its
/// header. A chunk that is cut off ends the walk.
template <typename Visit>
void for_each_chunk(Bytes bytes, const Visit& visit) {
  constexpr std::size_t kHeader = 8;
  while (bytes.size() >= kHeader) {
    const std::size_t length = le32(bytes.data() + 4);
    if (length > bytes.size() - kHeader) return;
    const std::size_t whole = std::min(kHeader + length + length % 2, bytes.size());
    visit(chars(bytes.first(4)), bytes.subspan(kHeader, length), bytes.first(whole));
    bytes = bytes.subspan(whole);
  }
}

struct Frame {
  cv::Rect place;  ///< on the canvas
  Bytes chunks;    ///< ALPH and VP8/VP8L
};

struct Container {
  std::optional<cv::Size> canvas;
  std::optional<cv::Size> bitstream;
  std::optional<Frame> first_frame;
  int orientation = 0;
};

std::optional<cv::Size> lossy_size(Bytes content) {
  if (content.size() < 10) return std::nullopt;
  return cv::Size(static_cast<int>(le16(&content[6]) & 0x3FFF),
                  static_cast<int>(le16(&content[8]) & 0x3FFF));
}

std::optional<cv::Size> lossless_size(Bytes content) {
  if (content.size() < 5) return std::nullopt;
  const std::uint32_t bits = le32(&content[1]);
  return cv::Size(static_cast<int>(bits & 0x3FFF) + 1, static_cast<int>(bits >> 14 & 0x3FFF) + 1);
}

std::optional<Frame> parse_frame(Bytes content) {
  constexpr std::size_t kHeader = 16;
  if (content.size() < kHeader) return std::nullopt;
  const unsigned char* p = content.data();
  return Frame{cv::Rect(static_cast<int>(le24(p)) * 2, static_cast<int>(le24(p + 3)) * 2,
                        static_cast<int>(le24(p + 6)) + 1, static_cast<int>(le24(p + 9)) + 1),
               content.subspan(kHeader)};
}

Container parse(const Source& source) {
  Container found;
  const Bytes body = Bytes(source.data(), source.size()).subspan(12);
  for_each_chunk(body, [&](std::string_view name, Bytes content, Bytes) {
    if (name == "VP8X" && content.size() >= 10) {
      found.canvas = cv::Size(static_cast<int>(le24(&content[4])) + 1,
                              static_cast<int>(le24(&content[7])) + 1);
    } else if (name == "VP8 " && !found.bitstream) {
      found.bitstream = lossy_size(content);
    } else if (name == "VP8L" && !found.bitstream) {
      found.bitstream = lossless_size(content);
    } else if (name == "ANMF" && !found.first_frame) {
      found.first_frame = parse_frame(content);
    } else if (name == "EXIF" && found.orientation == 0) {
      found.orientation = exif_orientation(content);
    }
  });
  return found;
}

void append(std::vector<unsigned char>& out, Bytes bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void append_le(std::vector<unsigned char>& out, std::uint32_t value, int count) {
  for (int i = 0; i < count; ++i) out.push_back(static_cast<unsigned char>(value >> (8 * i)));
}

/// A still WebP file of one frame of an animation.
std::vector<unsigned char> still_file(const Frame& frame) {
  std::vector<unsigned char> chunks;
  bool alpha = false;
  for_each_chunk(frame.chunks, [&](std::string_view name, Bytes, Bytes whole) {
    if (name == "ALPH") alpha = true;
    if (name == "ALPH" || name == "VP8 " || name == "VP8L") append(chunks, whole);
  });
  std::vector<unsigned char> body{'W', 'E', 'B', 'P'};
  if (alpha) {
    constexpr std::array<unsigned char, 4> kExtended{'V', 'P', '8', 'X'};
    append(body, kExtended);
    append_le(body, 10, 4);
    append_le(body, 0x10, 4);  // the alpha flag
    append_le(body, static_cast<std::uint32_t>(frame.place.width - 1), 3);
    append_le(body, static_cast<std::uint32_t>(frame.place.height - 1), 3);
  }
  append(body, chunks);
  std::vector<unsigned char> file{'R', 'I', 'F', 'F'};
  append_le(file, static_cast<std::uint32_t>(body.size()), 4);
  append(file, body);
  return file;
}

/// The first picture of an animation, on its canvas (transparent black around it).
cv::Mat decode_first_frame(const Source& source, const Frame& frame, cv::Size canvas) {
  if ((frame.place & cv::Rect({0, 0}, canvas)) != frame.place) {
    source.fail("is a damaged animated WebP: its first picture lies outside the canvas.");
  }
  const std::vector<unsigned char> file = still_file(frame);
  cv::Mat picture = decode_with_opencv(source, std::as_bytes(std::span(file)));
  if (picture.size() != frame.place.size()) {
    source.fail("is a damaged animated WebP: its first picture has another size than declared.");
  }
  if (picture.size() == canvas) return picture;
  cv::Mat whole = cv::Mat::zeros(canvas, picture.type());
  picture.copyTo(whole(frame.place));
  return whole;
}

}  // namespace

cv::Mat decode_webp(const Source& source) {
  if (!opencv_supports(".webp")) {
    source.fail(
        "is a WebP picture, which this build cannot read (its OpenCV was made without WebP): "
        "convert it to PNG.");
  }
  constexpr std::size_t kShortest = 32;  // what OpenCV wants to see, else it complains on stderr
  if (source.size() < kShortest) source.fail("is a truncated WebP. Copy it again.");
  const Container container = parse(source);
  const std::optional<cv::Size> size = container.canvas ? container.canvas : container.bitstream;
  if (!size) source.fail("is a truncated WebP: its header is cut off. Copy it again.");
  source.set_size(size->width, size->height);
  if (container.bitstream) {
    source.set_size(container.bitstream->width, container.bitstream->height);
  }
  source.info().exif_orientation = container.orientation;
  if (!container.first_frame) return decode_with_opencv(source, source.bytes());
  source.warn("is an animated WebP; its first picture is used.");
  const cv::Rect& place = container.first_frame->place;
  source.set_size(place.width, place.height);
  source.set_size(size->width, size->height);
  return decode_first_frame(source, *container.first_frame, *size);
}

}  // namespace hdfnet::app
