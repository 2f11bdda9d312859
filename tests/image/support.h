#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <opencv2/core/mat.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hdfnet::app::test {

/// Committed files: tests/data/image.
std::filesystem::path data_folder();

/// Material that is no part of the project: $HDFNET_SHARED, or ../shared beside the source tree.
/// Empty when it is not there; the test then skips.
std::optional<std::filesystem::path> shared_folder();

/// Rows of a CSV file by the names in its first line.
using CsvRow = std::map<std::string, std::string>;
std::vector<CsvRow> read_csv(const std::filesystem::path& file);

std::vector<std::byte> read_bytes(const std::filesystem::path& file);
std::vector<std::byte> bytes_of(std::string_view text);
std::span<const std::byte> span_of(const std::vector<std::byte>& bytes);

/// A folder that is removed with its content at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Root may read and write everywhere; while one of these lives, the process is another user.
class WithoutPrivileges {
 public:
  WithoutPrivileges();
  WithoutPrivileges(const WithoutPrivileges&) = delete;
  WithoutPrivileges& operator=(const WithoutPrivileges&) = delete;
  ~WithoutPrivileges();
  bool is_one() const;  ///< false: still root, a container may forbid the change
};

/// The rule by which make_data.py and the tests make the same input (splitmix64's top bytes).
std::vector<unsigned char> ruled_bytes(std::uint64_t seed, std::size_t count);

/// zlib's CRC-32 of an image's rows.
std::uint32_t crc32(const cv::Mat& image);

/// Largest difference of two images of the same size and type.
double largest_difference(const cv::Mat& a, const cv::Mat& b);

/// The message of the ImageError that decoding as RGB (or depth) throws, or "" when it does not
/// throw.
std::string rgb_error(std::span<const std::byte> bytes, std::string_view label = "test file");
std::string depth_error(std::span<const std::byte> bytes, std::string_view label = "test file");

/// All sentences in one text.
std::string joined(const std::vector<std::string>& sentences);

}  // namespace hdfnet::app::test
