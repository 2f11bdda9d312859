#include <gtest/gtest.h>

#include <sstream>

#include "run/console.h"
#include "run/progress.h"
#include "run/summary.h"

namespace hdfnet::app {
namespace {

using namespace std::chrono_literals;

TEST(Console, QuietKeepsWarningsAndErrors) {
  std::ostringstream stream;
  Console console(stream, false, true);
  console.info("i");
  console.info_once("o");
  console.warning("w");
  console.error("e");
  EXPECT_EQ(stream.str(), "warning: w\nerror: e\n");
}

TEST(Console, OnlyLineBreaksPass) {
  std::ostringstream stream;
  Console console(stream, false, false);
  console.error("no weights:\n  a\x1B[2Jb");
  EXPECT_EQ(stream.str(), "error: no weights:\n  a\\x1b[2Jb\n");
}

TEST(Console, SaysTheSameThingOnce) {
  std::ostringstream stream;
  Console console(stream, false, false);
  for (int i = 0; i < 3; ++i) console.info_once("scaled");
  EXPECT_EQ(stream.str(), "scaled\n");
}

TEST(Console, MessagesPassAboveTheStatusLine) {
  std::ostringstream stream;
  Console console(stream, true, false);
  console.status("3/9");
  console.info("hello");
  console.status("");
  EXPECT_EQ(stream.str(), "\r\033[K3/9\r\033[Khello\n3/9\r\033[K");
}

TEST(Console, NoStatusLineWithoutATerminal) {
  std::ostringstream stream;
  Console console(stream, false, false);
  console.status("3/9");
  EXPECT_EQ(stream.str(), "");
}

TEST(Progress, ShowsRateTimeLeftAndFailures) {
  std::ostringstream stream;
  Console console(stream, true, false);
  const auto before = Progress::Clock::now();
  Progress progress(console, 100);
  for (int i = 0; i < 20; ++i) progress.advance(i == 3, before);
  const std::string line = progress.line(before + 10s);
  EXPECT_NE(line.find("20/100  2.00 pairs/s  0:40 left  1 failed"), std::string::npos) << line;
}

TEST(Progress, PlainLinesComeSeldom) {
  std::ostringstream stream;
  Console console(stream, false, false);
  Progress progress(console, 1000);
  const auto begin = Progress::Clock::now();
  for (int i = 1; i < 1000; ++i) progress.advance(false, begin + i * 50ms);  // 50 s
  const std::string text = stream.str();
  EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 5);
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Progress, ClockTexts) {
  EXPECT_EQ(clock_text(0.4), "0:00");
  EXPECT_EQ(clock_text(65), "1:05");
  EXPECT_EQ(clock_text(7387), "2:03:07");
}

Result with(Status status, const std::string& error = "") {
  Result result;
  result.status = status;
  result.error = error;
  return result;
}

TEST(Summary, ListsFailuresThenTotals) {
  std::ostringstream stream;
  Console console(stream, false, false);
  Summary summary;
  summary.add({"a", {}, {}, {}}, with(Status::written));
  summary.add({"b", {}, {}, {}}, with(Status::failed, "b.jpg is cut off."));
  summary.add({"c", {}, {}, {}}, with(Status::skipped));
  summary.add({"d", {}, {}, {}}, with(Status::unpaired, "no depth."));
  summary.print(console, summary.totals(2));
  EXPECT_EQ(
      stream.str(),
      "error: b: b.jpg is cut off.\n"
      "1 written, 1 skipped (already there), 1 failed, 1 without depth in 0:02 (0.50 pairs/s)\n");
  EXPECT_FALSE(summary.all_good(true));
}

TEST(Summary, UnpairedCountsUnlessAllowed) {
  Summary summary;
  summary.add({"d", {}, {}, {}}, with(Status::unpaired));
  EXPECT_FALSE(summary.all_good(false));
  EXPECT_TRUE(summary.all_good(true));
}

}  // namespace
}  // namespace hdfnet::app
