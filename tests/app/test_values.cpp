#include <gtest/gtest.h>

#include <cstring>

#include "options/nearest.h"
#include "options/option_table.h"
#include "options/values.h"
#include "require.h"

namespace hdfnet::app {
namespace {

template <class Value>
Value parsed(const std::string& text) {
  Value value{};
  parse_value(text, value);
  return value;
}

/// The message of the error that `text` gives, or nothing.
template <class Value>
std::string complaint(const std::string& text) {
  try {
    parsed<Value>(text);
  } catch (const ValueError& error) {
    return error.what();
  }
  return {};
}

TEST(Values, SizesAreOneSideOrTwo) {
  EXPECT_EQ(parsed<InputSize>("352"), (InputSize{352, 352}));
  EXPECT_EQ(parsed<InputSize>("640x480"), (InputSize{640, 480}));
  for (const char* bad :
       {"", "x", "31", "640x", "x480", "640x480x3", "8193", "-320", "320.5", "1e3"}) {
    EXPECT_NE(complaint<InputSize>(bad), "") << bad;
  }
}

TEST(Values, CountsAreAutoOrPositive) {
  EXPECT_EQ(parsed<AutoCount>("auto").value, std::nullopt);
  EXPECT_EQ(parsed<AutoCount>("16").value, 16);
  for (const char* bad : {"0", "-1", "many", "", "16 ", "99999999999"}) {
    EXPECT_NE(complaint<AutoCount>(bad), "") << bad;
  }
}

TEST(Values, SaveTakesListsWithoutRepeats) {
  EXPECT_EQ(parsed<std::vector<Save>>("map,overlay,map"),
            (std::vector<Save>{Save::map, Save::overlay}));
  EXPECT_NE(complaint<std::vector<Save>>(""), "");
  EXPECT_NE(complaint<std::vector<Save>>("map,"), "");
  EXPECT_NE(
      complaint<std::vector<Save>>("map,picture").find("'picture' is not one of map, overlay"),
      std::string::npos);
}

TEST(Values, ShardsCountFromZero) {
  EXPECT_EQ(parsed<ShardChoice>("3/4"), (ShardChoice{false, 3, 4}));
  EXPECT_TRUE(parsed<ShardChoice>("auto").automatic);
  for (const char* bad : {"4/4", "-1/4", "1", "1/0", "a/b", ""}) {
    EXPECT_NE(complaint<ShardChoice>(bad), "") << bad;
  }
}

TEST(Values, ThresholdsAreNumbersOrOtsu) {
  EXPECT_EQ(parsed<std::optional<Threshold>>("none"), std::nullopt);
  EXPECT_TRUE(test::require(parsed<std::optional<Threshold>>("otsu")).otsu);
  EXPECT_DOUBLE_EQ(test::require(parsed<std::optional<Threshold>>("0.25")).value, 0.25);
  EXPECT_NE(complaint<std::optional<Threshold>>("1.5"), "");
}

TEST(Values, EnumerationsNameTheirChoices) {
  EXPECT_EQ(parsed<Precision>("bf16"), Precision::bf16);
  EXPECT_EQ(complaint<Precision>("fp8"), "'fp8' is not one of auto, fp32, tf32, fp16 or bf16");
}

TEST(Values, DoublesReadBackToTheSameBits) {
  for (const double value : {0.1, 1.0 / 3, 1e-300, 65535.0, -2.5}) {
    EXPECT_EQ(parsed<double>(print_value(value)), value);
  }
  EXPECT_NE(complaint<double>("nan"), "");
  EXPECT_NE(complaint<double>("inf"), "");
}

TEST(OptionTable, EveryDefaultReadsBackToItself) {
  for (const OptionSpec& spec : option_table()) {
    const std::string text = spec.get(Options{});
    if (text.empty()) continue;
    Options options;
    ASSERT_NO_THROW(spec.set(options, text)) << spec.name;
    EXPECT_EQ(spec.get(options), text) << spec.name;
  }
}

TEST(OptionTable, NamesAreUniqueAndEveryOptionIsExplained) {
  for (const OptionSpec& spec : option_table()) {
    EXPECT_EQ(find_option(spec.name), &spec) << spec.name;
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    EXPECT_FALSE(spec.group.empty()) << spec.name;
    EXPECT_EQ(spec.value.empty(), spec.kind == OptionKind::flag) << spec.name;
  }
}

TEST(OptionTable, DevicesAreChecked) {
  Options options;
  const OptionSpec& device = *find_option("device");
  for (const char* good : {"auto", "cpu", "cuda", "cuda:0", "cuda:15", "all"}) {
    EXPECT_NO_THROW(device.set(options, good)) << good;
  }
  for (const char* bad : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0 ", ""}) {
    EXPECT_THROW(device.set(options, bad), ValueError) << bad;
  }
}

TEST(Nearest, FindsTheMisspeltWord) {
  const std::vector<std::string> names = option_names(false);
  EXPECT_EQ(nearest("depht-suffix", names), "depth-suffix");
  EXPECT_EQ(nearest("depth_suffix", names), "depth-suffix");
  EXPECT_EQ(nearest("Precison", names), "precision");
  EXPECT_EQ(nearest("skip-exsting", names), "skip-existing");
  EXPECT_EQ(nearest(std::string(100000, 'x'), names).empty(), false);
}

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
  EXPECT_EQ(edit_distance("same", "same"), 0u);
}

}  // namespace
}  // namespace hdfnet::app
