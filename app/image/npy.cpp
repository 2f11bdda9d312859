// NumPy's .npy: one array of two dimensions, or of three with 1, 3 or 4 channels last.

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "image/decoders.h"

namespace hdfnet::app {
namespace {

struct Header {
  std::string type;  ///< e.g. "<f4"
  bool column_major = false;
  std::vector<std::int64_t> shape;
  std::size_t data = 0;  ///< where it begins
};

[[noreturn]] void fail_as_damaged(const Source& source) {
  source.fail("is a damaged NumPy file: its header cannot be read.");
}

/// What stands behind 'key': in the header's dictionary.
std::string_view value_of(const Source& source, std::string_view dictionary, std::string_view key) {
  const std::size_t at = dictionary.find(key);
  if (at == std::string_view::npos) fail_as_damaged(source);
  std::string_view value = dictionary.substr(at + key.size());
  value.remove_prefix(std::min(value.find_first_not_of(" :"), value.size()));
  return value;
}

std::vector<std::int64_t> parse_shape(const Source& source, std::string_view text) {
  const std::size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos) fail_as_damaged(source);
  text = text.substr(1, end - 1);
  std::vector<std::int64_t> shape;
  while (true) {
    text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
    if (text.empty()) return shape;
    std::int64_t number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) fail_as_damaged(source);
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
    shape.push_back(number);
  }
}

Header parse_header(const Source& source) {
  if (source.size() < 12) fail_as_damaged(source);
  const bool first_version = source.data()[6] == 1;
  const std::size_t start = first_version ? 10 : 12;
  const std::size_t length = first_version ? le16(source.data() + 8) : le32(source.data() + 8);
  if (length > source.size() - start) fail_as_damaged(source);
  const std::string_view dictionary = source.text().substr(start, length);
  Header header;
  header.data = start + length;
  const std::string_view type = value_of(source, dictionary, "'descr'");
  const std::size_t type_end = type.find('\'', 1);
  if (!type.starts_with('\'') || type_end == std::string_view::npos) {
    source.fail("is a NumPy file of records: save the depth as a plain array of numbers.");
  }
  header.type = type.substr(1, type_end - 1);
  header.column_major = value_of(source, dictionary, "'fortran_order'").starts_with("True");
  header.shape = parse_shape(source, value_of(source, dictionary, "'shape'"));
  return header;
}

struct Geometry {
  int rows;
  int columns;
  int channels;
};

Geometry geometry(const Source& source, const Header& header) {
  std::vector<std::int64_t> shape = header.shape;
  while (shape.size() > 2 && shape.front() == 1) shape.erase(shape.begin());
  if (shape.size() == 2) shape.push_back(1);
  const bool picture = shape.size() == 3 && (shape[2] == 1 || shape[2] == 3 || shape[2] == 4);
  if (!picture || (header.column_major && shape[2] != 1)) {
    source.fail("is a NumPy array of " + std::to_string(header.shape.size()) +
                " dimensions that is no picture: height x width is needed.");
  }
  source.set_size(shape[1], shape[0]);
  return {static_cast<int>(shape[0]), static_cast<int>(shape[1]), static_cast<int>(shape[2])};
}

/// Mat depth of a type like "<f4". Integers without a Mat type (uint32, 64 bits) are refused.
int storage_depth(const Source& source, const std::string& type) {
  static const std::map<std::string, int> kDepths = {
      {"b1", CV_8U},  {"u1", CV_8U},  {"i1", CV_8S},  {"u2", CV_16U}, {"i2", CV_16S},
      {"i4", CV_32S}, {"f2", CV_16F}, {"f4", CV_32F}, {"f8", CV_64F}};
  const auto found = kDepths.find(type.size() == 3 ? type.substr(1) : type);
  if (found == kDepths.end()) {
    source.fail("is a NumPy array of type '" + type +
                "', which is not supported: save it as float32 or uint16.");
  }
  return found->second;
}

}  // namespace

cv::Mat decode_npy(const Source& source) {
  const Header header = parse_header(source);
  Geometry size = geometry(source, header);
  const int depth = storage_depth(source, header.type);
  if (header.column_major) std::swap(size.rows, size.columns);
  const int type = CV_MAKETYPE(depth, size.channels);
  const std::size_t bytes = static_cast<std::size_t>(size.rows) *
                            static_cast<std::size_t>(size.columns) * CV_ELEM_SIZE(type);
  if (source.size() - header.data < bytes) {
    source.fail("is a truncated NumPy file: its numbers end too early. Copy it again.");
  }
  cv::Mat stored(size.rows, size.columns, type);
  std::memcpy(stored.data, source.data() + header.data, bytes);
  if ((header.type[0] == '>') == little_endian_host()) {
    swap_bytes(stored.data, bytes / stored.elemSize1(), stored.elemSize1());
  }
  if (header.column_major) cv::transpose(stored, stored);
  if (depth == CV_8S) stored.convertTo(stored, CV_16S);
  if (depth == CV_16F || depth == CV_64F) stored.convertTo(stored, CV_32F);
  return stored;
}

}  // namespace hdfnet::app
