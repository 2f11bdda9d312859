#include "support.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <opencv2/core.hpp>
#include <stdexcept>

#include "image/read.h"

namespace hdfnet::app::test {

namespace fs = std::filesystem;

fs::path data_folder() {
  return HDFNET_TEST_DATA;
}

std::optional<fs::path> shared_folder() {
  const char* chosen = std::getenv("HDFNET_SHARED");
  fs::path folder = chosen ? chosen : HDFNET_SHARED_DEFAULT;
  if (!fs::is_directory(folder / "data")) return std::nullopt;
  return folder;
}

namespace {

/// One record, which may contain quoted commas and doubled quotes.
std::vector<std::string> split_record(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else if (line[i] != '\r') {
      fields.back() += line[i];
    }
  }
  return fields;
}

}  // namespace

std::vector<CsvRow> read_csv(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  const std::vector<std::string> names = split_record(line);
  std::vector<CsvRow> rows;
  while (std::getline(stream, line)) {
    const std::vector<std::string> fields = split_record(line);
    CsvRow row;
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = fields.at(i);
    rows.push_back(std::move(row));
  }
  if (rows.empty()) throw std::runtime_error("no rows in " + file.string());
  return rows;
}

std::vector<std::byte> read_bytes(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot open " + file.string());
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return bytes_of(text);
}

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::span<const std::byte> span_of(const std::vector<std::byte>& bytes) {
  return bytes;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "hdfnet-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

WithoutPrivileges::WithoutPrivileges() {
  constexpr uid_t nobody = 65534;
  if (::geteuid() != 0) return;
  const int refused = ::seteuid(nobody);  // a container may forbid it: then is_one() says so
  static_cast<void>(refused);
}

WithoutPrivileges::~WithoutPrivileges() {
  if (::geteuid() != ::getuid() && ::seteuid(::getuid()) != 0) std::abort();
}

bool WithoutPrivileges::is_one() const {
  return ::geteuid() != 0;
}

std::vector<unsigned char> ruled_bytes(std::uint64_t seed, std::size_t count) {
  std::vector<unsigned char> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t z = (seed << 32) + (i + 1) * 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    z ^= z >> 31;
    bytes[i] = static_cast<unsigned char>(z >> 56);
  }
  return bytes;
}

std::uint32_t crc32(const cv::Mat& image) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (int y = 0; y < image.rows; ++y) {
    const unsigned char* row = image.ptr(y);
    for (std::size_t i = 0; i < static_cast<std::size_t>(image.cols) * image.elemSize(); ++i) {
      crc ^= row[i];
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
  }
  return ~crc;
}

double largest_difference(const cv::Mat& a, const cv::Mat& b) {
  return cv::norm(a, b, cv::NORM_INF);
}

std::string rgb_error(std::span<const std::byte> bytes, std::string_view label) {
  try {
    ReadInfo info;
    decode_rgb(bytes, label, info);
  } catch (const ImageError& error) {
    return error.what();
  }
  return "";
}

std::string depth_error(std::span<const std::byte> bytes, std::string_view label) {
  try {
    decode_depth_raw(bytes, label);
  } catch (const ImageError& error) {
    return error.what();
  }
  return "";
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += sentence + "\n";
  return text;
}

}  // namespace hdfnet::app::test
