#include <gtest/gtest.h>

#include "text/printable.h"
#include "text/utf8.h"

namespace hdfnet::app {
namespace {

TEST(Utf8, TellsTextFromBytes) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("plain"));
  EXPECT_TRUE(is_utf8("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x90\xBF"));
  EXPECT_FALSE(is_utf8("\xFF"));
  EXPECT_FALSE(is_utf8("\xC3"));              // cut off
  EXPECT_FALSE(is_utf8("\xC0\xAF"));          // overlong
  EXPECT_FALSE(is_utf8("\xE0\x80\xAF"));      // overlong
  EXPECT_FALSE(is_utf8("\xED\xA0\x80"));      // surrogate
  EXPECT_FALSE(is_utf8("\xF4\x90\x80\x80"));  // past U+10FFFF
  EXPECT_FALSE(is_utf8("\x80"));
}

TEST(Utf8, ReplacesOnlyWhatIsNot) {
  EXPECT_EQ(to_utf8("a\xFF\xC3\xA4"), "a\xEF\xBF\xBD\xC3\xA4");
}

TEST(Printable, NeutralisesTerminalCommands) {
  EXPECT_EQ(printable("a\x1B[2J\n"), "a\\x1b[2J\\x0a");
  EXPECT_EQ(printable("\x7F\xFF"), "\\x7f\\xff");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m"),
            "\\xc2\\x9b1m");  // the one-character form of ESC [
  EXPECT_EQ(printable("\xC3\xA4 b"), "\xC3\xA4 b");
}

TEST(Printable, SentencesEndOnce) {
  EXPECT_EQ(sentence("found nothing"), "found nothing.");
  EXPECT_EQ(sentence("found nothing."), "found nothing.");
  EXPECT_EQ(sentence("really?"), "really?");
}

TEST(Printable, CountsInWords) {
  EXPECT_EQ(counted(1, "pair"), "1 pair");
  EXPECT_EQ(counted(0, "pair"), "0 pairs");
}

}  // namespace
}  // namespace hdfnet::app
