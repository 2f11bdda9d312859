#include <gtest/gtest.h>

#include "manual/manual.h"
#include "manual/values.h"
#include "options/option_table.h"

namespace hdfnet::app {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

OptionSpec spec_with(const std::string& value) {
  OptionSpec spec;
  spec.value = value;
  return spec;
}

TEST(Manual, EveryOptionIsInThePageAndInEveryShell) {
  const std::string man = man_page(), bash = bash_completion(), zsh = zsh_completion(),
                    fish = fish_completion();
  for (const OptionSpec& spec : option_table()) {
    std::string roff = "\\-\\-";
    for (const char c : spec.name) roff += c == '-' ? std::string("\\-") : std::string(1, c);
    EXPECT_TRUE(has(man, "\n.B " + roff)) << spec.name;
    EXPECT_TRUE(has(bash, " --" + spec.name)) << spec.name;
    EXPECT_TRUE(has(zsh, "'--" + spec.name + "[")) << spec.name;
    EXPECT_TRUE(has(fish, " -l " + spec.name + " ")) << spec.name;
  }
}

TEST(Manual, ThePageHasDefaultsAndGroups) {
  const std::string man = man_page();
  EXPECT_TRUE(has(man, ".SS Depth\n"));
  EXPECT_TRUE(has(man, "\\-\\-upsample \\c\n.I bilinear|nearest\n"));
  EXPECT_TRUE(has(man, "(default: bilinear)"));
  EXPECT_TRUE(has(man, "(on the command line only)"));
}

TEST(Manual, HelpTextIsKeptFromBeingTakenAsRoff) {
  const std::string page = man_page_of_help("tool", "does it", ".start\n'quote\nback\\slash --x\n");
  EXPECT_TRUE(has(page, ".TH TOOL 1"));
  EXPECT_TRUE(has(page, "tool \\- does it"));
  EXPECT_TRUE(has(page, "\n\\&.start\n\\&'quote\nback\\eslash \\-\\-x\n"));
}

TEST(Manual, HintsForValues) {
  EXPECT_EQ(value_hint(spec_with("FILE")).kind, ValueHint::Kind::file);
  EXPECT_EQ(value_hint(spec_with("PATH")).kind, ValueHint::Kind::file);
  EXPECT_EQ(value_hint(spec_with("DIR")).kind, ValueHint::Kind::folder);
  EXPECT_EQ(value_hint(spec_with("N")).kind, ValueHint::Kind::none);
  EXPECT_EQ(value_hint(spec_with("KIND[,KIND...]")).kind, ValueHint::Kind::none);
  const ValueHint hint = value_hint(spec_with("auto|cpu|cuda:N|LOW:HIGH|16"));
  EXPECT_EQ(hint.kind, ValueHint::Kind::words);
  EXPECT_EQ(hint.words, (std::vector<std::string>{"auto", "cpu", "16"}));
}

}  // namespace
}  // namespace hdfnet::app
