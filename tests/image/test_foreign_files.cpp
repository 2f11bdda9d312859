// Files that are no pictures: each is told what it is.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "image/read.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

using namespace std::string_literals;

struct Case {
  std::string content;
  const char* says;
};

TEST(ForeignFiles, AreToldWhatTheyAre) {
  const Case cases[] = {
      {"", "is an empty file"},
      {"x", "has only 1 bytes"},
      {"\xEF\xBB\xBF  <!DOCTYPE html><html>", "is an HTML page"},
      {"<HTML><body>404</body>", "is an HTML page"},
      {"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"},
      {"%PDF-1.7\n", "is a PDF document"},
      {"<?xml version=\"1.0\"?>\n<svg width=\"1\">", "is an SVG"},
      {"\0\x05\x16\x07\0\x02\0\0Mac OS X"s, "AppleDouble"},
      {"GIF89a..........", "is a GIF"},
      {"\0\0\0\x18"s + "ftypheic....", "HEIC"},
      {"\0\0\0\x18"s + "ftypavif....", "AVIF"},
      {"\0\0\0\x0C"s + "jP  \r\n\x87\n", "JPEG 2000"},
      {"8BPS\0\1......"s, "Photoshop"},
      {"PK\x03\x04.......", "zip archive"},
      {"\x1F\x8B\x08.......", "gzip archive"},
      {"\x89HDF\r\n\x1A\n", "HDF5"},
      {"\x89PNG\n\x1A\n.....", "damaged, as by a transfer in text mode"},
      {std::string(4096, '\0'), "holds only zero bytes"},
      {"just some words\nand lines\n", "is a text file"},
      {"\x01\x02\x03\x04\x05\x06\x07\x08\x09", "no image in a known format"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.says);
    for (const std::string& error : {rgb_error(bytes_of(c.content), "a b/x.jpg"),
                                     depth_error(bytes_of(c.content), "a b/x.jpg")}) {
      EXPECT_TRUE(error.starts_with("'a b/x.jpg' ")) << error;
      EXPECT_NE(error.find(c.says), std::string::npos) << error;
    }
  }
}

TEST(ForeignFiles, PipesAreRefusedWithoutWaiting) {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder.path() / "pipe.png";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ReadInfo info;
  EXPECT_THROW(read_rgb(pipe, info), ImageError);
}

TEST(ForeignFiles, UnreadableFilesSaySo) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "secret.png";
  std::ofstream(file) << "x";
  std::filesystem::permissions(file, std::filesystem::perms::none);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  const WithoutPrivileges user;
  if (!user.is_one()) GTEST_SKIP() << "root may read everything";
  try {
    read_depth_raw(file);
    FAIL();
  } catch (const ImageError& error) {
    EXPECT_NE(std::string(error.what()).find("permission denied"), std::string::npos);
  }
}

TEST(ForeignFiles, EmptyFilesOnDiskSaySo) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "empty.png";
  std::ofstream(file).flush();
  try {
    read_depth_raw(file);
    FAIL();
  } catch (const ImageError& error) {
    EXPECT_EQ(error.what(),
              "'" + file.string() + "' is an empty file (0 bytes): copy or download it again.");
  }
}

}  // namespace
}  // namespace hdfnet::app::test
