#include "image/sniff.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace hdfnet::app {
namespace {

using namespace std::string_view_literals;

struct Foreign {
  std::size_t offset;
  std::string_view magic;
  const char* what;  ///< completes "'file' ..."
};

// Files that turn up under image names. The most specific come first.
constexpr std::array kForeign = {
    Foreign{0, "version https://git-lfs"sv,
            "is a Git LFS pointer, not the picture itself: run 'git lfs pull' to get it."},
    Foreign{0, "%PDF"sv, "is a PDF document, not an image: export its page as PNG."},
    Foreign{
        0, "\x00\x05\x16\x07"sv,
        "is a macOS AppleDouble side-car file (resource fork), not the picture itself: the picture "
        "is the file without the leading '._'."},
    Foreign{0, "\x00\x05\x16\x00"sv, "is a macOS AppleSingle file, not an image."},
    Foreign{0,
            "\x00\x00\x00\x01"
            "Bud1"sv,
            "is a macOS folder file (.DS_Store), not an image."},
    Foreign{0, "\xD0\xCF\x11\xE0"sv,
            "is an OLE container (such as Thumbs.db or an old Office document), not an image."},
    Foreign{0, "GIF8"sv, "is a GIF, which is not supported: convert it to PNG."},
    Foreign{4, "ftypavif"sv, "is an AVIF picture, which is not supported: convert it to PNG."},
    Foreign{4, "ftyp"sv,
            "is a HEIC picture or a video (ISO media file), which is not supported: convert it to "
            "JPEG or PNG."},
    Foreign{4, "jP  "sv, "is a JPEG 2000 picture, which is not supported: convert it to PNG."},
    Foreign{0, "\xFF\x4F\xFF\x51"sv,
            "is a JPEG 2000 codestream, which is not supported: convert it to PNG."},
    Foreign{4, "JXL "sv, "is a JPEG XL picture, which is not supported: convert it to PNG."},
    Foreign{0, "8BPS"sv, "is a Photoshop document, which is not supported: export it as PNG."},
    Foreign{0, "PK\x03\x04"sv, "is a zip archive (perhaps .npz): unpack it first."},
    Foreign{0, "\x1F\x8B"sv, "is a gzip archive: unpack it first."},
    Foreign{0, "\x89HDF"sv,
            "is an HDF5 file (or MATLAB 7.3): export each map as PNG, TIFF or NPY."},
    Foreign{0, "MATLAB"sv, "is a MATLAB file: export each map as PNG, TIFF or NPY."},
    Foreign{0, "#?RADIANCE"sv, "is a Radiance HDR picture, which is not supported: convert it."},
    Foreign{0, "DDS "sv, "is a DDS texture, which is not supported: convert it to PNG."},
    Foreign{
        0, "\x89PNG"sv,
        "starts like a PNG but its signature is damaged, as by a transfer in text mode: copy it "
        "again in binary mode."},
};

struct Signature {
  std::string_view magic;
  ImageFormat format;
};

constexpr std::array kSignatures = {
    Signature{"\xFF\xD8\xFF"sv, ImageFormat::jpeg},
    Signature{"\x89PNG\r\n\x1A\n"sv, ImageFormat::png},
    Signature{"BM"sv, ImageFormat::bmp},
    Signature{"II*\0"sv, ImageFormat::tiff},
    Signature{"MM\0*"sv, ImageFormat::tiff},
    Signature{"II+\0"sv, ImageFormat::tiff},
    Signature{"MM\0+"sv, ImageFormat::tiff},
    Signature{"\x76\x2F\x31\x01"sv, ImageFormat::exr},
    Signature{"\x93NUMPY"sv, ImageFormat::npy},
};

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

ImageFormat netpbm_format(std::string_view text) {
  if (text.size() < 3 || text[0] != 'P' || !(is_space(text[2]) || text[2] == '#')) {
    return ImageFormat::unknown;
  }
  if (text[1] >= '1' && text[1] <= '6') return ImageFormat::pnm;
  if (text[1] == 'F' || text[1] == 'f') return ImageFormat::pfm;
  return ImageFormat::unknown;
}

ImageFormat known_format(std::string_view text) {
  for (const Signature& signature : kSignatures) {
    if (text.starts_with(signature.magic)) return signature.format;
  }
  if (text.starts_with("RIFF") && text.size() >= 12 && text.substr(8, 4) == "WEBP") {
    return ImageFormat::webp;
  }
  return netpbm_format(text);
}

/// The beginning in lower case, without byte-order mark and white space.
std::string readable_beginning(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  std::string beginning(text.substr(0, 512));
  std::transform(beginning.begin(), beginning.end(), beginning.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return beginning;
}

bool looks_like_text(std::string_view text) {
  const std::string_view beginning = text.substr(0, 512);
  return std::none_of(beginning.begin(), beginning.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 && !is_space(c); });
}

[[noreturn]] void refuse(const Source& source) {
  const std::string_view text = source.text();
  for (const Foreign& foreign : kForeign) {
    if (text.size() >= foreign.offset && text.substr(foreign.offset).starts_with(foreign.magic)) {
      source.fail(foreign.what);
    }
  }
  const std::string beginning = readable_beginning(text);
  if (beginning.starts_with("<!doctype html") || beginning.starts_with("<html")) {
    source.fail(
        "is an HTML page, not an image: a download probably saved an error page instead; "
        "download it again.");
  }
  if (beginning.find("<svg") != std::string::npos) {
    source.fail("is an SVG vector drawing, not an image of pixels: export it as PNG.");
  }
  if (text.find_first_not_of('\0') == std::string_view::npos) {
    source.fail("holds only zero bytes, as an interrupted copy leaves: copy it again.");
  }
  if (looks_like_text(text)) source.fail("is a text file, not an image.");
  source.fail("is no image in a known format; supported are " + supported_formats() + ".");
}

}  // namespace

ImageFormat sniff_format(const Source& source) {
  if (source.size() == 0) source.fail("is an empty file (0 bytes): copy or download it again.");
  constexpr std::size_t kShortest = 8;
  if (source.size() < kShortest) {
    source.fail("has only " + std::to_string(source.size()) +
                " bytes, too few for an image: copy or download it again.");
  }
  const ImageFormat format = known_format(source.text());
  if (format == ImageFormat::unknown) refuse(source);
  return format;
}

}  // namespace hdfnet::app
