#include "golden.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace hdfnet::golden {
namespace {

const std::string kFolder = HDFNET_TEST_DATA "/golden/";

uint32_t crc32(const std::string& text) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const unsigned char byte : text) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320U & (0U - (crc & 1U)));
  }
  return ~crc;
}

bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  std::istringstream stream(text);
  std::string number;
  while (std::getline(stream, number, 'x')) shape.push_back(std::stoll(number));
  return shape;
}

std::ifstream open(const std::string& name) {
  std::ifstream stream(kFolder + name, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot open " + kFolder + name);
  return stream;
}

}  // namespace

at::Tensor uniform(const std::string& name, int64_t count) {
  at::Tensor result = at::empty({count}, at::kDouble);
  double* out = result.mutable_data_ptr<double>();
  uint64_t state = uint64_t{crc32(name)} << 32;
  for (int64_t i = 0; i < count; ++i) {
    state += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    out[i] = static_cast<double>(z >> 11) * 0x1p-52 - 1.0;
  }
  return result;
}

at::Tensor parameter(const std::string& name, const std::vector<int64_t>& shape) {
  if (ends_with(name, "num_batches_tracked")) return at::zeros(shape, at::kLong);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  at::Tensor u = uniform(name, count);
  if (ends_with(name, "running_var")) {
    u = 1 + 0.5 * u.abs();
  } else if (ends_with(name, "running_mean") || ends_with(name, "bias")) {
    u = 0.1 * u;
  } else if (shape.size() == 4) {
    u = u * std::sqrt(4.0 / static_cast<double>(shape[1] * shape[2] * shape[3]));
  } else {
    u = 1 + 0.1 * u;
  }
  return u.to(at::kFloat).view(shape);
}

std::map<std::string, std::vector<int64_t>> shapes(const std::string& variant) {
  std::map<std::string, std::vector<int64_t>> result;
  std::ifstream keys = open("keys_" + variant + ".txt");
  std::string line;
  while (std::getline(keys, line)) {
    const size_t space = line.find(' ');
    result.emplace(line.substr(0, space), parse_shape(line.substr(space + 1)));
  }
  return result;
}

Parameters parameters(const std::string& variant) {
  Parameters result;
  for (const auto& [name, shape] : shapes(variant)) result.emplace(name, parameter(name, shape));
  if (variant != "res50") result.at("classifier.weight").mul_(8);
  return result;
}

std::pair<at::Tensor, at::Tensor> inputs(const std::string& tag) {
  const std::array<int64_t, 3> size = tag == "even"  ? std::array<int64_t, 3>{2, 96, 128}
                                      : tag == "odd" ? std::array<int64_t, 3>{1, 97, 131}
                                                     : std::array<int64_t, 3>{1, 320, 320};
  const auto [n, h, w] = size;
  return {uniform(tag + ".rgb", n * 3 * h * w).to(at::kFloat).view({n, 3, h, w}),
          (0.5 + 0.5 * uniform(tag + ".depth", n * h * w)).to(at::kFloat).view({n, 1, h, w})};
}

at::Tensor array(const std::string& name) {
  std::ifstream stream = open(name + ".npy");
  std::array<char, 10> preamble{};
  stream.read(preamble.data(), preamble.size());
  const auto length =
      static_cast<unsigned char>(preamble[8]) + 256U * static_cast<unsigned char>(preamble[9]);
  std::string header(length, ' ');
  stream.read(header.data(), length);
  if (std::memcmp(preamble.data(), "\x93NUMPY\x01", 7) != 0 ||
      header.find("'<f4'") == std::string::npos) {
    throw std::runtime_error(name + ".npy: a float32 array of format 1 was expected");
  }
  const size_t open_bracket = header.find('(');
  std::string shape_text = header.substr(open_bracket + 1, header.find(')') - open_bracket - 1);
  std::vector<int64_t> shape;
  std::istringstream numbers(shape_text);
  for (std::string number; std::getline(numbers, number, ',');) {
    if (number.find_first_of("0123456789") != std::string::npos)
      shape.push_back(std::stoll(number));
  }
  at::Tensor result = at::empty(shape, at::kFloat);
  stream.read(static_cast<char*>(result.mutable_data_ptr()),
              static_cast<std::streamsize>(result.nbytes()));
  if (!stream) throw std::runtime_error(name + ".npy is truncated");
  return result;
}

std::map<std::string, Moments> modules(const std::string& variant, const std::string& tag) {
  std::map<std::string, Moments> result;
  std::ifstream stream = open("modules.txt");
  std::string v;
  std::string t;
  std::string name;
  Moments moments{};
  while (stream >> v >> t >> name >> moments.mean >> moments.deviation) {
    if (v == variant && t == tag) result[name] = moments;
  }
  return result;
}

Parameters ddpm_parameters() {
  Parameters result;
  const std::string prefix = "selfdc_16.";
  for (const auto& [full_name, shape] : shapes("vgg16")) {
    if (full_name.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string name = full_name.substr(prefix.size());
    result.emplace(name, parameter(name, shape));
  }
  return result;
}

Loss original_loss(const std::string& variant, const std::string& tag, const std::string& column) {
  std::ifstream stream = open("original_loss.txt");
  std::string v;
  std::string t;
  std::string c;
  Loss loss{};
  while (stream >> v >> t >> c >> loss.largest >> loss.mean) {
    if (v == variant && t == tag && c == column) return loss;
  }
  throw std::runtime_error("no entry for " + variant + " " + tag + " " + column);
}

}  // namespace hdfnet::golden
