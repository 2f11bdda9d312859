// Declared sizes are checked before memory is taken, whatever the format.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "image/read.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

using namespace std::string_literals;

std::string be(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}
std::string le(std::uint32_t value, int bytes = 4) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string png(std::uint32_t width, std::uint32_t height) {
  return "\x89PNG\r\n\x1A\n"s + be(13) + "IHDR" + be(width) + be(height) + "\x08\x02\0\0\0"s +
         be(0) + be(4) + "IDAT" + "abcd" + be(0);
}
std::string jpeg(std::uint32_t width, std::uint32_t height) {
  const auto be16 = [](std::uint32_t v) { return be(v).substr(2); };
  return "\xFF\xD8\xFF\xC0"s + be16(17) + "\x08" + be16(height) + be16(width) +
         "\x03\x01\x11\0\x02\x11\0\x03\x11\0"s + "\xFF\xDA"s + be16(12) +
         "\x03\x01\0\x02\0\x03\0\0\x3F\0"s + "data";
}
std::string bmp(std::uint32_t width, std::uint32_t height, std::uint32_t compression = 0,
                std::uint32_t bits = 24) {
  return "BM"s + le(60) + le(0) + le(54) + le(40) + le(width) + le(height) + le(1, 2) +
         le(bits, 2) + le(compression) + le(0) + le(0) + le(0) + le(0) + le(0) + "data";
}
std::string tiff(std::uint32_t width, std::uint32_t height) {
  const auto entry = [](std::uint32_t tag, std::uint32_t value) {
    return le(tag, 2) + le(4, 2) + le(1) + le(value);
  };
  return "II*\0"s + le(8) + le(7, 2) + entry(256, width) + entry(257, height) + entry(258, 8) +
         entry(262, 1) + entry(273, 8) + entry(278, height) + entry(279, 4) + le(0);
}
std::string webp(std::uint32_t width, std::uint32_t height) {
  return "RIFF"s + le(34) + "WEBPVP8X" + le(10) + le(0) + le(width - 1, 3) + le(height - 1, 3) +
         "VP8 " + le(8) + "somedata";
}
std::string pnm(std::uint32_t width, std::uint32_t height) {
  return "P6 " + std::to_string(width) + " " + std::to_string(height) + " 255\ndata";
}
std::string pfm(std::uint32_t width, std::uint32_t height) {
  return "Pf\n" + std::to_string(width) + " " + std::to_string(height) + "\n-1\ndata";
}
std::string npy(std::uint32_t width, std::uint32_t height) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                             std::to_string(height) + ", " + std::to_string(width) + "), }\n";
  return "\x93NUMPY\x01\0"s + le(static_cast<std::uint32_t>(header.size()), 2) + header + "data";
}
std::string exr(std::uint32_t width, std::uint32_t height) {
  return "\x76\x2F\x31\x01\x02\0\0\0"s + "dataWindow\0box2i\0"s + le(16) + le(0) + le(0) +
         le(width - 1) + le(height - 1) + "\0"s;
}

struct Format {
  const char* name;
  std::string (*make)(std::uint32_t, std::uint32_t);
};
const Format kFormats[] = {{"PNG", png},
                           {"JPEG", jpeg},
                           {"BMP", [](std::uint32_t w, std::uint32_t h) { return bmp(w, h); }},
                           {"TIFF", tiff},
                           {"WebP", webp},
                           {"PNM", pnm},
                           {"PFM", pfm},
                           {"NPY", npy},
                           {"OpenEXR", exr}};

bool in_this_build(const std::string& format) {
  return format == "PNM" || supported_formats().find(format) != std::string::npos;
}

/// Largest resident size so far, in MiB.
long peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

TEST(Limits, HugeDeclaredSizesAreRefusedByTheHeaderAlone) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    if (!in_this_build(format.name)) continue;
    // JPEG's and WebP's sizes end at 65535 and 2^24.
    const std::vector<std::byte> bytes = bytes_of(format.make(65000, 65000));
    const long before = peak_memory();
    for (const std::string& error : {rgb_error(bytes, "bomb"), depth_error(bytes, "bomb")}) {
      EXPECT_NE(error.find("'bomb' declares a size of 65000 x 65000"), std::string::npos) << error;
      EXPECT_NE(error.find("2^28"), std::string::npos) << error;
    }
    EXPECT_LT(peak_memory() - before, 64);
  }
}

TEST(Limits, JustAboveTheLimitIsRefusedAndJustBelowIsNot) {
  const std::string above = rgb_error(bytes_of(png(16384, 16385)));
  EXPECT_NE(above.find("the limit is"), std::string::npos) << above;
  const std::string below = rgb_error(bytes_of(pnm(16384, 16384)));
  EXPECT_NE(below.find("truncated"), std::string::npos) << below;
}

TEST(Limits, EmptyAndNegativeSizesAreRefused) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    if (std::string(format.name) == "WebP") continue;  // cannot say 0
    if (!in_this_build(format.name)) continue;
    EXPECT_NE(rgb_error(bytes_of(format.make(0, 5))), "");
    EXPECT_NE(rgb_error(bytes_of(format.make(5, 0))), "");
    EXPECT_NE(depth_error(bytes_of(format.make(0, 0))), "");
  }
  EXPECT_NE(rgb_error(bytes_of(bmp(0xFFFFFFFB, 5))).find("size of -5 x 5"), std::string::npos);
  EXPECT_NE(rgb_error(bytes_of(bmp(5, 0x80000000))), "");
}

TEST(Limits, LargeSizesWithFewBytesTakeNoMemory) {
  const long before = peak_memory();
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    EXPECT_NE(rgb_error(bytes_of(format.make(12000, 12000))), "");
  }
  EXPECT_LT(peak_memory() - before, 200);
}

TEST(Limits, RunLengthCodesCannotLeaveThePicture) {
  // Leaps of 255 x 255, then pixels, far outside of a 4 x 4 picture.
  std::string code;
  for (int i = 0; i < 1000; ++i) code += "\0\x02\xFF\xFF\x05\x01"s;
  const std::string file =
      bmp(4, 4, 1, 8).substr(0, 54) + std::string(1024, 'p') + code + "\0\x01"s;
  EXPECT_EQ(rgb_error(bytes_of(file)), "");
}

TEST(Limits, UnknownBmpKindsAreNamed) {
  const std::string error = rgb_error(bytes_of(bmp(4, 4, 4, 0)), "camera.bmp");
  EXPECT_NE(error.find("'camera.bmp' is a BMP of an unsupported kind"), std::string::npos) << error;
}

}  // namespace
}  // namespace hdfnet::app::test
