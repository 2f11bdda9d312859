// What hdfnet-bench compare finds between two reports.

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "compare.h"
#include "report.h"

namespace hdfnet::bench {
namespace {

std::string module_report(const std::string& device, double encoder_ms, const char* last) {
  std::ostringstream text;
  text << R"({"header": {"device": ")" << device << R"(", "precision": "fp16"},)"
       << R"("stages": [{"name": "decode", "median_ms": 2, "p5_ms": 1, "p95_ms": 3}],)"
       << R"("modules": [{"name": "encoder1", "median_ms": )" << encoder_ms << R"(, "p5_ms": )"
       << encoder_ms * 0.9 << R"(, "p95_ms": )" << encoder_ms * 1.1 << R"(}, {"name": ")" << last
       << R"(", "median_ms": 5, "p5_ms": 5, "p95_ms": 5}]})";
  return text.str();
}

TEST(Compare, SaysWhatChangedBetweenModuleReports) {
  const Comparison result = compare(parse_timed_report(module_report("H200", 4, "trans1"), "A"),
                                    parse_timed_report(module_report("H100", 2, "trans2"), "B"));
  ASSERT_EQ(result.settings.size(), 1U);
  EXPECT_EQ(result.settings[0].name, "device");
  EXPECT_EQ(result.settings[0].first, "H200");
  EXPECT_EQ(result.settings[0].second, "H100");
  ASSERT_EQ(result.rows.size(), 4U);
  EXPECT_EQ(result.rows[0].name, "stage decode");
  EXPECT_EQ(result.rows[0].change, Change::same);
  EXPECT_EQ(result.rows[1].name, "encoder1");
  EXPECT_EQ(result.rows[1].change, Change::faster);
  EXPECT_DOUBLE_EQ(result.rows[1].ratio(), 2);
  EXPECT_EQ(result.rows[2].name, "trans1");
  EXPECT_EQ(result.rows[2].change, Change::gone);
  EXPECT_EQ(result.rows[3].name, "trans2");
  EXPECT_EQ(result.rows[3].change, Change::added);
}

TEST(Compare, RangesThatOverlapAreTheSame) {
  const auto change = [](double first, double second) {
    return compare(parse_timed_report(module_report("x", first, "m"), "A"),
                   parse_timed_report(module_report("x", second, "m"), "B"))
        .rows[1]
        .change;
  };
  EXPECT_EQ(change(10, 11.9), Change::same);    // 9..11 and 10.7..13.1
  EXPECT_EQ(change(10, 12.5), Change::slower);  // 9..11 and 11.25..13.75
  EXPECT_EQ(change(12.5, 10), Change::faster);
}

TEST(Compare, ReadsWhatTheBenchesWrite) {
  const auto document = [](double us) {
    Row row;
    row["op"] = "dynamic_filter";
    row["K"] = 3;
    row["type"] = "fp16";
    row["us"] = us;
    row["p5"] = us - 1;
    row["p95"] = us + 1;
    row["GB/s"] = 4000 / us;
    row["peak MB"] = Row();
    row["right"] = true;
    std::ostringstream out;
    write_report(out, Format::kJson, Row{{"device", "x"}, {"repeats", 10}}, {row});
    return out.str();
  };
  const Comparison result =
      compare(parse_timed_report(document(30), "A"), parse_timed_report(document(60), "B"));
  EXPECT_TRUE(result.settings.empty());
  ASSERT_EQ(result.rows.size(), 1U);
  EXPECT_EQ(result.rows[0].name, "dynamic_filter K=3 fp16");
  EXPECT_DOUBLE_EQ(result.rows[0].first.median, 0.03);
  EXPECT_EQ(result.rows[0].change, Change::slower);
}

TEST(Compare, OtherFilesAreRefusedByName) {
  for (const char* text : {"", "[]", "7", "{}", R"({"rows": [{"op": "x"}]})",
                           R"({"modules": [], "stages": 3, "header": {}})", "{\"rows\": [{"}) {
    try {
      parse_timed_report(text, "old.json");
      FAIL() << text;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("old.json: expected the JSON of hdfnet-infer", 0),
                0U)
          << error.what();
    }
  }
}

TEST(Report, FormatsAreNamed) {
  EXPECT_EQ(parse_format("md"), Format::kMarkdown);
  EXPECT_THROW(parse_format("xml"), std::runtime_error);
  EXPECT_THROW(write_report_to("/nowhere/at/all", Format::kTable, {}, {}), std::runtime_error);
  EXPECT_THROW(write_report_to("/dev/full", Format::kJson, Row{{"a", 1}}, {}), std::runtime_error);
}

}  // namespace
}  // namespace hdfnet::bench
