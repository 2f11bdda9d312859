#include <gtest/gtest.h>

#include "options/command_line.h"
#include "options/option_table.h"
#include "temporary_folder.h"

namespace hdfnet::app {
namespace {

std::string complaint(const std::vector<std::string>& arguments) {
  try {
    parse_command_line(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(CommandLine, DefaultsWithoutArguments) {
  EXPECT_EQ(print_config(parse_command_line({}).options), print_config(Options{}));
}

TEST(CommandLine, TakesValuesAndFlags) {
  const Options options =
      parse_command_line({"--rgb", "-", "--depth=d d", "--recursive", "--depth-hole", "-1",
                          "--size", "256", "--save", "map,mask", "--batch", "4"})
          .options;
  EXPECT_EQ(options.rgb, "-");
  EXPECT_EQ(options.depth, "d d");
  EXPECT_TRUE(options.recursive);
  EXPECT_DOUBLE_EQ(options.depth_hole.value, -1);
  EXPECT_EQ(options.size, (InputSize{256, 256}));
  EXPECT_EQ(options.save, (std::vector<Save>{Save::map, Save::mask}));
  EXPECT_EQ(options.batch.value, 4);
}

TEST(CommandLine, BytesThatAreNotUtf8Pass) {
  EXPECT_EQ(parse_command_line({"--rgb", "\xFFz"}).options.rgb.native(), "\xFFz");
}

TEST(CommandLine, WinsOverTheFileAndTheFileOverTheDefaults) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "c.yaml", "batch: 8\nsize: 256\nrecursive: true\nquiet: true\n");
  const Options options = parse_command_line({"--batch", "2", "--config",
                                              (folder / "c.yaml").string(), "--quiet=false"})
                              .options;
  EXPECT_EQ(options.batch.value, 2);               // command line
  EXPECT_EQ(options.size, (InputSize{256, 256}));  // file
  EXPECT_TRUE(options.recursive);                  // file
  EXPECT_FALSE(options.quiet);                     // command line unsets the file's flag
  EXPECT_EQ(options.bit_depth, 8);                 // default
}

TEST(CommandLine, ErrorsOfTheFileNameFileAndLine) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "c.yaml", "rgb: a\nthredas: 4\n");
  const std::string message = complaint({"--config", (folder / "c.yaml").string()});
  EXPECT_NE(message.find("c.yaml:2: unknown key 'thredas'; did you mean 'threads'?"),
            std::string::npos)
      << message;
}

TEST(CommandLine, UnknownOptionsGetASuggestion) {
  EXPECT_NE(complaint({"--depht", "x"}).find("Unknown option '--depht'; did you mean '--depth'?"),
            std::string::npos);
  EXPECT_NE(complaint({"--bacth=3"}).find("did you mean '--batch'?"), std::string::npos);
  EXPECT_NE(complaint({"photo.jpg"}).find("Unexpected argument 'photo.jpg'"), std::string::npos);
}

TEST(CommandLine, BadValuesNameTheOption) {
  EXPECT_NE(complaint({"--batch", "none"}).find("--batch: 'none' is neither 'auto' nor"),
            std::string::npos);
  EXPECT_NE(complaint({"--bit-depth", "12"}).find("--bit-depth: '12' is not one of 8 or 16."),
            std::string::npos);
  EXPECT_NE(complaint({"--out", ""}).find("--out:"), std::string::npos);
  EXPECT_NE(complaint({"--weights", ""}).find("--weights: a path is needed"), std::string::npos);
  EXPECT_NE(complaint({"--repeat", "0"}).find("--repeat:"), std::string::npos);
  EXPECT_NE(complaint({"--rgb"}), "");
  EXPECT_NE(complaint({"--rgb", "a", "--rgb", "b"}), "");
}

TEST(CommandLine, HelpNamesEveryOptionOnce) {
  EXPECT_TRUE(parse_command_line({"--help"}).help);
  EXPECT_TRUE(parse_command_line({"-h", "--nonsense"}).help);
  const std::string help = help_text();
  for (const OptionSpec& spec : option_table()) {
    EXPECT_NE(help.find("  --" + spec.name), std::string::npos) << spec.name;
    EXPECT_NE(help.find(spec.group), std::string::npos) << spec.group;
  }
}

}  // namespace
}  // namespace hdfnet::app
