#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "image/depth.h"
#include "image/saliency_output.h"

namespace hdfnet::app {

/// A value that an option cannot take. The message says what was found and what is possible;
/// whoever knows where the value stands (command line, file and line) puts that in front.
class ValueError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Precision { automatic, fp32, tf32, fp16, bf16 };
enum class Ddpm { fused, reference };
enum class Save { map, overlay, cutout, heatmap, mask };

/// Size of the network's input.
struct InputSize {
  int width = 320;
  int height = 320;
  bool operator==(const InputSize&) const = default;
};

/// A count, or `auto`.
struct AutoCount {
  std::optional<int> value;
  bool operator==(const AutoCount&) const = default;
};

/// One of `count` equal parts of the work, `automatic` when the launcher's variables say which.
struct ShardChoice {
  bool automatic = false;
  int index = 0;
  int count = 1;
  bool operator==(const ShardChoice&) const = default;
};

/// Reading: the text of an option to its value. Throws ValueError.
void parse_value(const std::string& text, bool& value);
void parse_value(const std::string& text, int& value);
void parse_value(const std::string& text, double& value);
void parse_value(const std::string& text, std::string& value);
void parse_value(const std::string& text, std::filesystem::path& value);
void parse_value(const std::string& text, Precision& value);
void parse_value(const std::string& text, Ddpm& value);
void parse_value(const std::string& text, Upsample& value);
void parse_value(const std::string& text, Rounding& value);
void parse_value(const std::string& text, std::vector<Save>& value);
void parse_value(const std::string& text, InputSize& value);
void parse_value(const std::string& text, AutoCount& value);
void parse_value(const std::string& text, std::optional<Threshold>& value);
void parse_value(const std::string& text, DepthRange& value);
void parse_value(const std::string& text, DepthHole& value);
void parse_value(const std::string& text, ShardChoice& value);

/// Writing: a text that parse_value() reads back to the same value; empty when there is none.
std::string print_value(bool value);
std::string print_value(int value);
std::string print_value(double value);
std::string print_value(const std::string& value);
std::string print_value(const std::filesystem::path& value);
std::string print_value(Precision value);
std::string print_value(Ddpm value);
std::string print_value(Upsample value);
std::string print_value(Rounding value);
std::string print_value(Save value);
std::string print_value(const std::vector<Save>& value);
std::string print_value(const InputSize& value);
std::string print_value(const AutoCount& value);
std::string print_value(const std::optional<Threshold>& value);
std::string print_value(const DepthRange& value);
std::string print_value(const DepthHole& value);
std::string print_value(const ShardChoice& value);

/// The choices of an enumeration, "a, b or c".
std::string listing(const std::vector<std::string>& choices);

}  // namespace hdfnet::app
