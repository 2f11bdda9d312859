#include <gtest/gtest.h>

#include <random>

#include "options/config_file.h"
#include "require.h"
#include "temporary_folder.h"

namespace hdfnet::app {
namespace {

Options applied(const std::string& yaml) {
  Options options;
  apply_config(yaml, "run.yaml", options);
  return options;
}

std::string complaint(const std::string& yaml) {
  try {
    applied(yaml);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(ConfigFile, SetsWhatItNames) {
  const Options options = applied(
      "# a comment\n"
      "rgb: /data/My pictures/RGB\n"
      "recursive: true\n"
      "batch: 16\n"
      "size: 640x480\n"
      "save: [map, overlay]\n"
      "depth-hole: none\n"
      "threshold: 0.5\n"
      "depth-range: 400:5000\n");
  EXPECT_EQ(options.rgb, "/data/My pictures/RGB");
  EXPECT_TRUE(options.recursive);
  EXPECT_EQ(options.batch.value, 16);
  EXPECT_EQ(options.size, (InputSize{640, 480}));
  EXPECT_EQ(options.save, (std::vector<Save>{Save::map, Save::overlay}));
  EXPECT_EQ(options.depth_hole.kind, DepthHole::Kind::none);
  EXPECT_DOUBLE_EQ(test::require(options.threshold).value, 0.5);
  EXPECT_DOUBLE_EQ(options.depth_range.high, 5000);
  EXPECT_EQ(options.out, "saliency");  // not named: the default
}

TEST(ConfigFile, SaveMayBeOneText) {
  EXPECT_EQ(applied("save: map,cutout").save, (std::vector<Save>{Save::map, Save::cutout}));
}

TEST(ConfigFile, EmptyFilesAndEmptyValuesChangeNothing) {
  EXPECT_EQ(print_config(applied("")), print_config(Options{}));
  EXPECT_EQ(print_config(applied("# nothing\n")), print_config(Options{}));
  EXPECT_EQ(print_config(applied("weights:\n")), print_config(Options{}));
}

TEST(ConfigFile, UnknownKeysAreNamedWithLineAndTheNearestKey) {
  const std::string message = complaint("rgb: a\n\ndepht-suffix: _Depth\n");
  EXPECT_NE(message.find("run.yaml:3: unknown key 'depht-suffix'; did you mean 'depth-suffix'?"),
            std::string::npos)
      << message;
}

TEST(ConfigFile, WrongTypesAreNamedWithLineAndKey) {
  EXPECT_NE(complaint("rgb: a\nrecursive: maybe\n")
                .find("run.yaml:2: recursive: 'maybe' is neither true nor false."),
            std::string::npos);
  EXPECT_NE(complaint("batch: [1, 2]\n").find("run.yaml:1: batch: expected one value"),
            std::string::npos);
  EXPECT_NE(complaint("batch: lots\n").find("run.yaml:1: batch: 'lots' is neither"),
            std::string::npos);
  EXPECT_NE(complaint("rgb:\n  deep: 1\n").find("rgb: expected one value (PATH), found a mapping"),
            std::string::npos);
  EXPECT_NE(complaint("save: [map, [overlay]]\n").find("run.yaml:1: save:"), std::string::npos);
  EXPECT_NE(complaint("precision: fp8\n").find("is not one of auto, fp32"), std::string::npos);
}

TEST(ConfigFile, BrokenYamlIsNamedWithItsLine) {
  EXPECT_NE(complaint("rgb: a\nsave: [map\n").find("run.yaml:"), std::string::npos);
  EXPECT_NE(complaint("rgb: a\nsave: [map\n").find("not valid YAML"), std::string::npos);
  EXPECT_NE(complaint("just words\n").find("expected lines of the form 'key: value'"),
            std::string::npos);
  EXPECT_NE(complaint("- rgb\n").find("found a list"), std::string::npos);
}

TEST(ConfigFile, AKeySetTwiceIsAnError) {
  EXPECT_NE(complaint("batch: 1\nrgb: a\nbatch: 2\n")
                .find("run.yaml:3: 'batch' was set before, in line 1"),
            std::string::npos);
}

TEST(ConfigFile, CommandLineOptionsAreRefused) {
  EXPECT_NE(complaint("config: other.yaml\n").find("can only be given on the command line"),
            std::string::npos);
}

TEST(ConfigFile, FilesThatCannotBeReadAreErrors) {
  const test::TemporaryFolder folder;
  Options options;
  EXPECT_THROW(apply_config_file(folder / "absent.yaml", options), UsageError);
  EXPECT_THROW(apply_config_file(folder.path(), options), UsageError);
  test::write_text(folder / "large.yaml", std::string((1 << 20) + 1, '#'));
  EXPECT_THROW(apply_config_file(folder / "large.yaml", options), UsageError);
}

TEST(ConfigFile, DamagedFilesGiveAnErrorOrSettingsNeverACrash) {
  const std::string whole = print_config(Options{});
  std::mt19937 random(7);
  const std::string interesting = ":-[]{}&*!|>'\"%@`#,?\n\t \xFF\\";
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole.substr(0, random() % (whole.size() + 1));
    for (int edit = 0; edit < 4 && !damaged.empty(); ++edit) {
      damaged[random() % damaged.size()] = interesting[random() % interesting.size()];
    }
    try {
      applied(damaged);
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()).rfind("run.yaml:", 0), 0u) << error.what();
    }
  }
}

TEST(ConfigFile, PrintedSettingsReadBackToTheSame) {
  Options options;
  options.rgb = "with space/\xC3\xA4 \"quoted\": #1";
  options.depth = "line\nbreak\ttab\\";
  options.weights = "/models/not utf-8 \xFF\xFE.pt";
  options.dataset = "null";
  options.out = "true";
  options.rgb_suffix = "~";
  options.depth_suffix = "- x";
  options.depth_glob = "*.png";
  options.depth_range = {DepthRange::Kind::fixed, 0.1, 1.0 / 3};
  options.depth_hole = {DepthHole::Kind::none, 0};
  options.save = {Save::mask, Save::heatmap};
  options.threshold = Threshold{true, 0};
  options.size = {640, 480};
  options.batch.value = 7;
  options.recursive = options.depth_invert = options.fail_fast = true;
  options.upsample = Upsample::nearest;
  options.rounding = Rounding::truncate;
  const std::string text = print_config(options);
  const Options back = applied(text);
  EXPECT_EQ(print_config(back), text);
  EXPECT_EQ(back.rgb, options.rgb);
  EXPECT_EQ(back.depth, options.depth);
  EXPECT_EQ(back.weights, options.weights);
  EXPECT_EQ(back.dataset, options.dataset);
  EXPECT_EQ(back.out, options.out);
  EXPECT_EQ(back.rgb_suffix, options.rgb_suffix);
  EXPECT_EQ(back.depth_suffix, options.depth_suffix);
  EXPECT_EQ(back.depth_glob, options.depth_glob);
  EXPECT_EQ(back.depth_range.high, options.depth_range.high);
  EXPECT_EQ(back.save, options.save);
}

TEST(ConfigFile, ShippedFilesAreValid) {
  const std::filesystem::path configs = HDFNET_CONFIGS;
  Options defaults, reference, fast;
  apply_config_file(configs / "default.yaml", defaults);
  apply_config_file(configs / "reference.yaml", reference);
  apply_config_file(configs / "fast.yaml", fast);
  EXPECT_EQ(print_config(defaults), print_config(Options{}));
  EXPECT_EQ(reference.precision, Precision::fp32);
  EXPECT_EQ(reference.upsample, Upsample::nearest);
  EXPECT_EQ(reference.rounding, Rounding::truncate);
  EXPECT_EQ(reference.size, (InputSize{320, 320}));
  EXPECT_EQ(reference.bit_depth, 8);
}

TEST(ConfigFile, TheDefaultFileIsWhatPrintConfigPrints) {
  EXPECT_EQ(test::read_text(std::filesystem::path(HDFNET_CONFIGS) / "default.yaml"),
            print_config(Options{}))
      << "write it anew: hdfnet-infer --print-config > configs/default.yaml";
}

}  // namespace
}  // namespace hdfnet::app
