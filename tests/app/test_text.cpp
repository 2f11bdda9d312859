#include <gtest/gtest.h>

#include "text/memory_missing.h"
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

TEST(MemoryMissing, SaysWhatWasAskedForAndWhatIsFree) {
  const std::string told =
      "not enough memory on cuda:1 for a batch of 32: CUDA out of memory. Tried to allocate 200.00 "
      "MiB. GPU 1 has a total capacity of 139.80 GiB of which 149.56 MiB is free. Process 3526 has "
      "138.32 GiB memory in use. Including non-PyTorch memory, this process has 1.32 GiB memory in "
      "use. Of the allocated memory 740.44 MiB is allocated by PyTorch, and 3.56 MiB is reserved "
      "by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";
  EXPECT_EQ(memory_missing(told),
            "not enough memory on cuda:1 for a batch of 32: Tried to allocate 200.00 MiB; 149.56 "
            "MiB of 139.80 GiB are free");
}

TEST(MemoryMissing, OtherWordsStayAsFarAsTheyAreNotUnderstood) {
  EXPECT_EQ(memory_missing("CUDA error: out of memory"), "CUDA error: out of memory");
  EXPECT_EQ(memory_missing("CUDA out of memory. Buy more."), "CUDA out of memory. Buy more.");
  EXPECT_EQ(memory_missing("CUDA out of memory. Tried to allocate 2.00 GiB. It failed."),
            "Tried to allocate 2.00 GiB");
  EXPECT_EQ(memory_missing(""), "");
}

}  // namespace
}  // namespace hdfnet::app
