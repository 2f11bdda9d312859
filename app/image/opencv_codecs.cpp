// What is left to OpenCV's own decoders: the pixels of WebP, and OpenEXR.

#include <cstdlib>
#include <limits>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <set>
#include <string>
#include <vector>

#include "image/decoders.h"

namespace hdfnet::app {
namespace {

/// The parts of an OpenEXR header that are checked before OpenCV sees the file.
struct ExrHeader {
  std::set<std::string> channels;
  std::size_t channel_list = 0;  ///< where its value begins in the file
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// Walks through the header's bytes; stops with ImageError where they end too early.
class ExrParser {
 public:
  explicit ExrParser(const Source& source) : source_(source) {}

  ExrHeader parse() {
    constexpr std::size_t kMagicAndVersion = 8;
    const std::uint32_t flags = le32(need(kMagicAndVersion) + 4) >> 8;
    constexpr std::uint32_t kDeepData = 0x8, kMultiPart = 0x10;
    if (flags & (kDeepData | kMultiPart)) {
      source_.fail("is an OpenEXR file with several parts or deep data: export one plain layer.");
    }
    ExrHeader header;
    for (std::string name = string(); !name.empty(); name = string()) {
      string();  // the attribute's type
      const std::size_t size = le32(need(4));
      const unsigned char* value = need(size);
      if (name == "channels") {
        header.channels = channel_names({value, size});
        header.channel_list = at_ - size;
      }
      if (name == "dataWindow" && size >= 16) read_window(value, header);
    }
    return header;
  }

 private:
  const unsigned char* need(std::size_t count) {
    if (count > source_.size() - at_) source_.fail("is a truncated OpenEXR file. Copy it again.");
    at_ += count;
    return source_.data() + at_ - count;
  }

  std::string string() {
    std::string text;
    for (char c = static_cast<char>(*need(1)); c != '\0'; c = static_cast<char>(*need(1)))
      text += c;
    return text;
  }

  static std::set<std::string> channel_names(std::span<const unsigned char> list) {
    constexpr std::size_t kRestOfEntry = 16;
    std::set<std::string> names;
    while (!list.empty() && list[0] != '\0') {
      std::size_t end = 0;
      while (end < list.size() && list[end] != '\0') ++end;
      names.emplace(reinterpret_cast<const char*>(list.data()), end);
      list = list.subspan(std::min(list.size(), end + 1 + kRestOfEntry));
    }
    return names;
  }

  static void read_window(const unsigned char* value, ExrHeader& header) {
    const auto corner = [&](int i) {
      return std::int64_t{static_cast<std::int32_t>(le32(value + 4 * i))};
    };
    header.width = corner(2) - corner(0) + 1;
    header.height = corner(3) - corner(1) + 1;
  }

  const Source& source_;
  std::size_t at_ = 0;
};

/// A lone channel of one letter, whatever it is.
bool is_single_letter(const ExrHeader& header) {
  return header.channels.size() == 1 && header.channels.begin()->size() == 1;
}

/// OpenCV picks channels by name and returns zeros, or nothing, for names that it does not know.
void check_channels(const Source& source, const ExrHeader& header) {
  static const std::set<std::set<std::string>> kColours = {{"R", "G", "B"}, {"R", "G", "B", "A"}};
  if (is_single_letter(header) || kColours.contains(header.channels)) return;
  std::string names;
  for (const std::string& channel : header.channels) {
    names += (names.empty() ? "" : ", ") + in_quotes(channel);
  }
  source.fail("is an OpenEXR file with the channels " + names +
              ": export the depth as a single channel named Z or Y.");
}

/// The file with its lone channel renamed to Y, the only name under which OpenCV reads one. The
/// name is stored once, in front of the pixels, and keeps its length.
std::vector<std::byte> with_channel_y(const Source& source, const ExrHeader& header) {
  std::vector<std::byte> bytes(source.bytes().begin(), source.bytes().end());
  bytes[header.channel_list] = std::byte{'Y'};
  return bytes;
}

cv::Mat bgr_to_rgb(const cv::Mat& image) {
  if (image.channels() < 3) return image;
  cv::Mat swapped;
  cv::cvtColor(image, swapped, image.channels() == 4 ? cv::COLOR_BGRA2RGBA : cv::COLOR_BGR2RGB);
  return swapped;
}

}  // namespace

bool opencv_supports(const char* extension) {
  return cv::haveImageWriter(std::string("picture") + extension);
}

cv::Mat decode_with_opencv(const Source& source, std::span<const std::byte> bytes) {
  if (bytes.size() > std::numeric_limits<int>::max()) source.fail("has more than 2 GiB.");
  const cv::Mat encoded(1, static_cast<int>(bytes.size()), CV_8UC1,
                        const_cast<std::byte*>(bytes.data()));
  cv::Mat image;
  try {
    image = cv::imdecode(encoded, cv::IMREAD_UNCHANGED);
  } catch (const cv::Exception& error) {
    source.fail("cannot be decoded by OpenCV: " + error.err + ".");
  }
  if (image.empty()) source.fail("cannot be decoded: it is damaged or truncated. Copy it again.");
  return bgr_to_rgb(image);
}

cv::Mat decode_exr(const Source& source) {
  if (!opencv_supports(".exr")) {
    source.fail(
        "is an OpenEXR file, which this build cannot read (its OpenCV was made without OpenEXR): "
        "convert it to TIFF, PFM or 16-bit PNG.");
  }
  const ExrHeader header = ExrParser(source).parse();
  source.set_size(header.width, header.height);
  check_channels(source, header);
  if (is_single_letter(header)) return decode_with_opencv(source, with_channel_y(source, header));
  return decode_with_opencv(source, source.bytes());
}

void enable_openexr() {
  constexpr int kKeepTheUsersChoice = 0;
  ::setenv("OPENCV_IO_ENABLE_OPENEXR", "1", kKeepTheUsersChoice);
}

}  // namespace hdfnet::app
