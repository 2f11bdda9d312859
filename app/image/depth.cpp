#include "image/depth.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <opencv2/core.hpp>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "image/hole_filling.h"
#include "image/in_quotes.h"
#include "image/pil.h"

namespace hdfnet::app {
namespace {

constexpr double kNoSurface = 1e10;  // what renderers write for "no surface" starts here
constexpr double kSentinel16 = 65535;
constexpr double kLargestTable = 32768;

bool parse_number(std::string_view text, double& number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() &&
         std::isfinite(number);
}

/// "1234" or "0.5", without zeros at the end.
std::string text_of(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", number);
  return text;
}

/// Calls visit(y, row) for every row, whatever the type of its values.
template <typename Sample, typename Visit>
void for_each_typed_row(const cv::Mat& values, const Visit& visit) {
  for (int y = 0; y < values.rows; ++y) {
    visit(y, std::span(values.ptr<Sample>(y), static_cast<std::size_t>(values.cols)));
  }
}

template <typename Visit>
void for_each_row(const cv::Mat& values, const Visit& visit) {
  switch (values.depth()) {
    case CV_8U:
      return for_each_typed_row<unsigned char>(values, visit);
    case CV_16U:
      return for_each_typed_row<std::uint16_t>(values, visit);
    case CV_16S:
      return for_each_typed_row<std::int16_t>(values, visit);
    case CV_32S:
      return for_each_typed_row<std::int32_t>(values, visit);
    case CV_32F:
      return for_each_typed_row<float>(values, visit);
    default:
      throw std::invalid_argument("depth_to_8bit: a depth map of this type is not known");
  }
}

/// One conversion, step by step: which pixels are valid, their range, levels, holes.
class Converter {
 public:
  Converter(const RawDepth& raw, const DepthPolicy& policy, std::string_view label)
      : values_(raw.values), mask_(raw.valid), policy_(policy), label_(label) {
    result_.warnings = raw.info.warnings;
  }

  DepthResult convert() {
    holes_have_value_ =
        policy_.hole.kind == DepthHole::Kind::value && !(used_as_is() && policy_.hole.value == 0);
    find_valid();
    find_extremes();
    if (values_.depth() == CV_16U && scales_by_extremes()) judge_sentinel();
    warn_about_content();
    set_levels();
    return std::move(result_);
  }

 private:
  using Kind = DepthRange::Kind;

  bool used_as_is() const {
    return policy_.range.kind == Kind::none ||
           (policy_.range.kind == Kind::automatic && values_.depth() == CV_8U);
  }
  bool scales_by_extremes() const { return !used_as_is() && policy_.range.kind != Kind::fixed; }

  void warn(const std::string& what) { result_.warnings.push_back(in_quotes(label_) + " " + what); }

  bool is_valid(double value) const {
    // NaN fails the first comparison.
    return value >= 0 && value < kNoSurface && value != std::numeric_limits<std::int32_t>::max() &&
           !(holes_have_value_ && value == policy_.hole.value);
  }

  void find_valid() {
    valid_ = mask_.empty() ? cv::Mat(values_.size(), CV_8UC1, cv::Scalar(255)) : mask_.clone();
    const bool every_value = !holes_have_value_ && values_.depth() <= CV_16U;
    if (every_value) return;
    for_each_row(values_, [this](int y, auto row) {
      unsigned char* const valid = valid_.ptr(y);
      if constexpr (std::is_unsigned_v<typename decltype(row)::value_type>) {
        mark_hole_value(row, valid);
      } else {
        for (std::size_t x = 0; x < row.size(); ++x) {
          if (!is_valid(row[x])) valid[x] = 0;
        }
      }
    });
  }

  /// Unsigned numbers of 8 and 16 bits are valid but for the one that marks holes. Without
  /// branches, so that the compiler takes many at once.
  template <typename Sample>
  void mark_hole_value(std::span<const Sample> row, unsigned char* valid) const {
    const double wanted = policy_.hole.value;
    const bool possible = wanted >= 0 && wanted <= std::numeric_limits<Sample>::max();
    const auto hole = static_cast<Sample>(possible ? wanted : 0);
    if (!possible || static_cast<double>(hole) != wanted) return;
    for (std::size_t x = 0; x < row.size(); ++x) {
      valid[x] = static_cast<unsigned char>(row[x] == hole ? 0 : valid[x]);
    }
  }

  void find_extremes() {
    least_ = std::numeric_limits<double>::infinity();
    most_ = -least_;
    count_ = 0;
    for_each_row(values_, [this](int y, auto row) { take_extremes(row, valid_.ptr(y)); });
    result_.valid_fraction = static_cast<double>(count_) / static_cast<double>(values_.total());
  }

  /// In the values' own type, and without branches, so that the compiler takes many at once.
  template <typename Sample>
  void take_extremes(std::span<const Sample> row, const unsigned char* valid) {
    using Limits = std::numeric_limits<Sample>;
    Sample least = Limits::max(), most = Limits::lowest();
    int count = 0;
    for (std::size_t x = 0; x < row.size(); ++x) {
      const bool counts = valid[x] != 0;
      least = std::min(least, counts ? row[x] : Limits::max());
      most = std::max(most, counts ? row[x] : Limits::lowest());
      count += counts ? 1 : 0;
    }
    if (count == 0) return;
    least_ = std::min(least_, static_cast<double>(least));
    most_ = std::max(most_, static_cast<double>(most));
    count_ += static_cast<std::size_t>(count);
  }

  /// 65535 marks holes in some data sets. It does here when it stands far above everything else and
  /// no other value marks holes; beside holes of the usual kind it may as well be a clipped far
  /// wall.
  void judge_sentinel() {
    if (most_ != kSentinel16) return;
    double next = -1;
    std::size_t sentinels = 0;
    for_each_row(values_, [&](int y, auto row) {
      const unsigned char* const valid = valid_.ptr(y);
      for (std::size_t x = 0; x < row.size(); ++x) {
        if (valid[x] == 0) continue;
        if (row[x] == kSentinel16) {
          ++sentinels;
        } else {
          next = std::max(next, static_cast<double>(row[x]));
        }
      }
    });
    constexpr double kFarBelow = 0.9 * kSentinel16;
    if (next < 0 || next > kFarBelow) return;
    if (count_ < values_.total()) {
      warn("holds 65535 in " + std::to_string(sentinels) + " pixels, far above the next value " +
           text_of(next) +
           ", and has holes besides; it is taken as a distance. If it marks holes, "
           "give --depth-hole 65535.");
      return;
    }
    warn("marks " + std::to_string(sentinels) + " pixels with 65535, far above the next value " +
         text_of(next) + "; they are treated as holes.");
    valid_.setTo(0, values_ == kSentinel16);
    find_extremes();
  }

  void warn_about_content() {
    if (count_ == 0) {
      warn("has no valid depth at all; a flat map is used, so colour alone decides.");
    } else if (least_ == most_) {
      warn("is flat (every valid value is " + text_of(least_) + "), so colour alone decides.");
    } else if (values_.depth() == CV_8U && used_as_is() && most_ <= 1) {
      warn(
          "holds only the values 0 and 1, which is nearly black as 8-bit depth: is it a mask, or "
          "metres rounded to integers? --depth-range minmax stretches it.");
    }
    constexpr double kNearlyEmpty = 0.05;
    if (count_ > 0 && result_.valid_fraction < kNearlyEmpty) {
      warn("is nearly empty: only " + text_of(100 * result_.valid_fraction) +
           " % of its pixels hold depth; the rest is filled from them.");
    }
  }

  /// The range that becomes 0..255.
  void choose_range() {
    result_.low = least_;
    result_.high = most_;
    if (policy_.range.kind == Kind::fixed) {
      result_.low = policy_.range.low;
      result_.high = policy_.range.high;
    } else if (used_as_is()) {
      result_.low = 0;
      result_.high = full_scale();
    }
    result_.scaled = !used_as_is();
  }

  double full_scale() const {
    switch (values_.depth()) {
      case CV_8U:
        return 255;
      case CV_16U:
        return kSentinel16;
      case CV_32F:
        return 1;
      default:
        throw ImageError(in_quotes(label_) +
                         " holds signed integers, which have no full range to use with "
                         "--depth-range none: give auto, minmax or LO:HI.");
    }
  }

  void set_levels() {
    choose_range();
    const bool flat_range = !used_as_is() && policy_.range.kind != Kind::fixed && least_ == most_;
    if (count_ == 0 || flat_range) {
      result_.scaled = false;
      result_.low = result_.high = count_ == 0 ? 0 : least_;
      result_.depth8 = cv::Mat(values_.size(), CV_8UC1, cv::Scalar(kFlatDepthLevel));
      return;
    }
    result_.depth8 = values_.depth() == CV_8U && used_as_is() ? values_.clone() : scaled();
    if (policy_.invert) cv::bitwise_not(result_.depth8, result_.depth8);
    if (count_ < values_.total()) fill_holes(result_.depth8, valid_);
  }

  unsigned char level_of(double value) const {
    const double level = 255 * (value - result_.low) / (result_.high - result_.low);
    return static_cast<unsigned char>(cvRound(std::clamp(level, 0.0, 255.0)));
  }

  /// Holes are filled later.
  cv::Mat scaled() const {
    const bool tabled = values_.depth() == CV_16U && most_ - least_ < kLargestTable;
    return tabled ? scaled_by_table() : scaled_one_by_one();
  }

  cv::Mat scaled_one_by_one() const {
    cv::Mat levels(values_.size(), CV_8UC1);
    for_each_row(values_, [&](int y, auto row) {
      const unsigned char* const valid = valid_.ptr(y);
      unsigned char* const level = levels.ptr(y);
      for (std::size_t x = 0; x < row.size(); ++x) {
        if (valid[x] != 0) level[x] = level_of(static_cast<double>(row[x]));
      }
    });
    return levels;
  }

  /// Each value's level is computed once: far fewer values than pixels occur.
  cv::Mat scaled_by_table() const {
    const int least = static_cast<int>(least_), last = static_cast<int>(most_) - least;
    std::vector<unsigned char> table(static_cast<std::size_t>(last) + 1);
    for (int i = 0; i <= last; ++i) table[static_cast<std::size_t>(i)] = level_of(least + i);
    cv::Mat levels(values_.size(), CV_8UC1);
    for (int y = 0; y < values_.rows; ++y) {
      const auto* const row = values_.ptr<std::uint16_t>(y);
      unsigned char* const level = levels.ptr(y);
      // Holes may hold values beside the table.
      for (int x = 0; x < values_.cols; ++x) {
        level[x] = table[static_cast<std::size_t>(std::clamp(row[x] - least, 0, last))];
      }
    }
    return levels;
  }

  const cv::Mat& values_;
  const cv::Mat& mask_;
  const DepthPolicy& policy_;
  std::string_view label_;
  DepthResult result_;
  bool holes_have_value_ = false;
  cv::Mat valid_;  ///< 0 or 255 for each pixel
  double least_ = 0;
  double most_ = 0;
  std::size_t count_ = 0;
};

std::string text_of(cv::Size size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

/// True when the depth would be stretched by more than 2 % to fit the picture.
bool aspect_differs(cv::Size a, cv::Size b) {
  const double ratio =
      static_cast<double>(a.width) * b.height / (static_cast<double>(a.height) * b.width);
  // Sizes are whole numbers: a small map may be off by half a pixel without any fault.
  const double whole_pixel = 0.5 / std::min({a.width, a.height, b.width, b.height});
  return std::max(ratio, 1 / ratio) > 1.02 + whole_pixel;
}

/// Refuses or warns when the depth's shape does not fit the picture's.
void check_aspect(const RawDepth& raw, std::string_view label, cv::Size rgb_size,
                  const ReadInfo& rgb_info, DepthResult& result) {
  const cv::Size size = result.depth8.size();
  if (!aspect_differs(size, rgb_size)) return;
  const std::string sizes =
      in_quotes(label) + " is " + text_of(size) + ", but its RGB is " + text_of(rgb_size);
  if (rgb_info.turned() != raw.info.turned()) {
    const std::string turned = rgb_info.turned() ? "the RGB" : "the depth";
    throw ImageError(sizes + " after EXIF turned only " + turned +
                     " by 90 degrees: save both pictures upright, or give both the same EXIF "
                     "orientation.");
  }
  const bool transposed = !aspect_differs(cv::Size(size.height, size.width), rgb_size);
  result.warnings.push_back(sizes +
                            (transposed ? ": the depth seems to be turned by 90 degrees, and"
                                        : ": the aspect ratios differ by more than 2 %, so") +
                            " it is stretched to fit.");
}

}  // namespace

DepthRange parse_depth_range(std::string_view text) {
  if (text == "auto") return {DepthRange::Kind::automatic, 0, 0};
  if (text == "none") return {DepthRange::Kind::none, 0, 0};
  if (text == "minmax") return {DepthRange::Kind::minmax, 0, 0};
  DepthRange range{DepthRange::Kind::fixed, 0, 0};
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || !parse_number(text.substr(0, colon), range.low) ||
      !parse_number(text.substr(colon + 1), range.high)) {
    throw std::invalid_argument(in_quotes(text) +
                                " is no depth range: auto, none, minmax or LO:HI is needed, for "
                                "example 500:6000");
  }
  if (range.low >= range.high) {
    throw std::invalid_argument("the depth range '" + std::string(text) +
                                "' is empty: LO must be below HI (to reverse near and far, use "
                                "--depth-invert)");
  }
  return range;
}

DepthHole parse_depth_hole(std::string_view text) {
  if (text == "none") return {DepthHole::Kind::none, 0};
  DepthHole hole;
  if (!parse_number(text, hole.value)) {
    throw std::invalid_argument(in_quotes(text) + " is no hole value: none or a number is needed");
  }
  return hole;
}

DepthResult depth_to_8bit(const RawDepth& raw, const DepthPolicy& policy, std::string_view label) {
  return Converter(raw, policy, label).convert();
}

DepthResult depth_for_rgb(const RawDepth& raw, const DepthPolicy& policy, std::string_view label,
                          cv::Size rgb_size, const ReadInfo& rgb_info) {
  DepthResult result = depth_to_8bit(raw, policy, label);
  check_aspect(raw, label, rgb_size, rgb_info, result);
  result.depth8 = pil_resize_bilinear(result.depth8, rgb_size);
  return result;
}

}  // namespace hdfnet::app
