#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "require.h"
#include "timing/module_report.h"
#include "timing/report_formats.h"

namespace hdfnet::app {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

TEST(Statistics, OfKnownValues) {
  const Statistics result = summarize({4, 1, 3, 2, 5});
  EXPECT_EQ(result.count, 5u);
  EXPECT_DOUBLE_EQ(result.mean, 3);
  EXPECT_DOUBLE_EQ(result.median, 3);
  EXPECT_DOUBLE_EQ(result.p95, 4.8);
  EXPECT_DOUBLE_EQ(result.p5, 1.2);
  EXPECT_NEAR(result.deviation, 1.5811388, 1e-6);
}

TEST(Statistics, OfFewValues) {
  EXPECT_EQ(summarize({}).mean, 0);
  EXPECT_EQ(summarize({}).relative_spread(), 0);
  EXPECT_DOUBLE_EQ(summarize({7}).p95, 7);
  EXPECT_DOUBLE_EQ(summarize({7}).deviation, 0);
  EXPECT_DOUBLE_EQ(summarize({1, 2}).median, 1.5);
}

TEST(Bound, NamesTheCeilingThatIsMetFirst) {
  const Ceilings ceilings{100e12, 1e12};  // 100 TFLOP/s, 1 TB/s
  // 1 TFLOP takes 10 ms at best, 1 GB takes 1 ms.
  EXPECT_EQ(find_bound(1e12, 1e9, 20, ceilings).first, Bound::compute);
  EXPECT_DOUBLE_EQ(find_bound(1e12, 1e9, 20, ceilings).second, 0.5);
  EXPECT_EQ(find_bound(1e9, 1e9, 2, ceilings).first, Bound::memory);
  EXPECT_EQ(find_bound(1e9, 1e9, 11, ceilings).first, Bound::latency);
  EXPECT_EQ(find_bound(0, 0, 1, ceilings).first, Bound::unknown);
  EXPECT_EQ(find_bound(1e9, 1e9, 1, std::nullopt).first, Bound::unknown);
}

StageClock::Clock::time_point at(const StageClock& clock, double ms) {
  return clock.origin() + std::chrono::duration_cast<StageClock::Clock::duration>(
                              std::chrono::duration<double, std::milli>(ms));
}

TEST(StageClock, KeepsEventsByLane) {
  StageClock clock(true);
  EXPECT_NEAR(clock.add("worker 1", Stage::decode, "b", at(clock, 2), at(clock, 5)), 3, 1e-6);
  clock.add("worker 0", Stage::decode, "a", at(clock, 0), at(clock, 1));
  clock.add("worker 0", Stage::encode, "a", at(clock, 1), at(clock, 3));
  const auto lanes = clock.lanes();
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0].name, "worker 0");
  EXPECT_EQ(lanes[0].events.size(), 2u);
  EXPECT_EQ(clock.durations(Stage::decode).size(), 2u);
  EXPECT_TRUE(clock.durations(Stage::network).empty());
}

TEST(StageClock, MeasuresWithoutKeeping) {
  StageClock clock(false);
  StageTimer timer(clock, "worker 0", Stage::decode, "a");
  std::this_thread::sleep_for(2ms);
  EXPECT_GE(timer.stop(), 2.0);
  EXPECT_TRUE(clock.lanes().empty());
}

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    measured.network.copy_in = {50, 9, 1, 1, 1};
    measured.network.network = {500, 9, 4, 4, 4};
    measured.network.copy_out = {50, 9, 1, 1, 1};
    measured.network.modules = {{"encoder1", {300, 9, 3, 3, 3}, 3e9, 3e6},
                                {"selfdc_16", {200, 9, 1, 1, 1}, 1e3, 1e3}};
    measured.warmup = 1;
    measured.batch = 2;
    measured.workers = 1;
    measured.ceilings = Ceilings{2e12, 1e11};
    measured.header = {{"device", "a \"fake\" device"}};
    for (int i = 0; i < 4; ++i) {
      clock.add("worker 0", Stage::decode, "p" + std::to_string(i), at(clock, 10 * i),
                at(clock, 10 * i + (i == 0 ? 8 : 0.5)));
    }
  }

  const ReportRow& row(const std::vector<ReportRow>& rows, const std::string& name) const {
    for (const ReportRow& each : rows) {
      if (each.name == name) return each;
    }
    throw std::runtime_error("no row " + name);
  }

  Measurement measured;
  StageClock clock{true};
};

TEST_F(ReportTest, KeepsTheColdPassAndTheWarmUpOutOfTheFigures) {
  const ModuleReport report = make_report(measured, clock);
  const ReportRow& encoder = row(report.modules, "encoder1");
  EXPECT_DOUBLE_EQ(test::require(encoder.cold), 300);
  EXPECT_EQ(encoder.warm.count, 3u);
  EXPECT_DOUBLE_EQ(encoder.warm.mean, 3);
  EXPECT_DOUBLE_EQ(encoder.share, 0.75);
  EXPECT_DOUBLE_EQ(encoder.flop_per_second(), 1e12);
  EXPECT_DOUBLE_EQ(encoder.bytes_per_second(), 1e9);
  EXPECT_EQ(encoder.bound, Bound::compute);
  EXPECT_DOUBLE_EQ(encoder.of_ceiling, 0.5);
  EXPECT_EQ(row(report.modules, "selfdc_16").bound, Bound::latency);
}

TEST_F(ReportTest, StageSharesArePerPair) {
  const ModuleReport report = make_report(measured, clock);
  const ReportRow& decode = row(report.stages, "decode");
  EXPECT_NEAR(test::require(decode.cold), 8, 1e-6);
  EXPECT_NEAR(decode.warm.mean, 0.5, 1e-6);
  // A pair: 0.5 ms decode, half of (1 + 4 + 1) ms in the batch of two.
  EXPECT_NEAR(decode.share, 0.5 / 3.5, 1e-6);
  EXPECT_NEAR(row(report.stages, "network").share, 2 / 3.5, 1e-6);
}

TEST_F(ReportTest, StagesOnTheDeviceAreThereWhereTheNetworkHasThem) {
  const auto names = [&] {
    std::vector<std::string> result;
    for (const ReportRow& stage : make_report(measured, clock).stages) result.push_back(stage.name);
    return result;
  };
  EXPECT_EQ(names(), (std::vector<std::string>{"decode", "pre-process", "copy to device", "network",
                                               "copy back", "post-process", "encode"}));
  measured.network.preprocess = {30, 9, 2, 2, 2};
  measured.network.postprocess = {20, 9, 1, 1, 1};
  EXPECT_EQ(names(),
            (std::vector<std::string>{"decode", "pre-process", "copy to device",
                                      "pre-process on device", "network", "post-process on device",
                                      "copy back", "post-process", "encode"}));
  const ModuleReport report = make_report(measured, clock);
  const ReportRow& before = row(report.stages, "pre-process on device");
  EXPECT_EQ(before.unit, "batch");
  EXPECT_DOUBLE_EQ(before.warm.mean, 2);
  // A pair: 0.5 ms decode, half of (1 + 2 + 4 + 1 + 1) ms in the batch of two.
  EXPECT_NEAR(before.share, 1 / 5.0, 1e-6);
}

TEST_F(ReportTest, WarnsOfSpread) {
  EXPECT_EQ(make_report(measured, clock).warnings.size(), 0u);
  measured.network.network = {500, 9, 4, 5, 4};
  const ModuleReport report = make_report(measured, clock);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("more than 2.5 %"), std::string::npos);
}

TEST_F(ReportTest, WarnsWhenFilesAreSlowerThanTheNetwork) {
  for (int i = 0; i < 30; ++i) {
    clock.add("worker 0", Stage::encode, "p", at(clock, 0), at(clock, 7));
  }
  const ModuleReport report = make_report(measured, clock);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("the device waits for the files"), std::string::npos);
  measured.workers = 8;  // together they keep up
  EXPECT_TRUE(make_report(measured, clock).warnings.empty());
}

TEST_F(ReportTest, WarnsWhenLatencyRules) {
  measured.network.modules[0].flop = 1;
  measured.network.modules[0].bytes = 1;
  const ModuleReport report = make_report(measured, clock);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("bound by latency"), std::string::npos);
}

TEST_F(ReportTest, AModuleFasterThanTheCeilingRaisesIt) {
  measured.ceilings = Ceilings{0.5e12, 1e11};
  const ModuleReport report = make_report(measured, clock);
  EXPECT_DOUBLE_EQ(test::require(report.ceilings).flop_per_second, 1e12);
  EXPECT_DOUBLE_EQ(row(report.modules, "encoder1").of_ceiling, 1);
}

TEST_F(ReportTest, TableShowsEveryColumn) {
  const std::string table = report_table(make_report(measured, clock));
  for (const char* part : {"module",
                           "calls",
                           "mean ms",
                           "median",
                           "p95",
                           "share",
                           "GFLOP",
                           "MB",
                           "TFLOP/s",
                           "GB/s",
                           "bound by",
                           "encoder1",
                           "75.0%",
                           "compute 50%",
                           "latency 0%",
                           "copy to device",
                           "cold ms",
                           "a \"fake\" device",
                           "passes of their own",
                           "2.000 TFLOP/s"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST_F(ReportTest, TableSaysWhenCeilingsAreUnknown) {
  measured.ceilings.reset();
  const std::string table = report_table(make_report(measured, clock));
  EXPECT_NE(table.find("Ceilings: not measured"), std::string::npos);
  EXPECT_EQ(table.find("compute"), std::string::npos);
}

TEST_F(ReportTest, JsonHoldsEverySample) {
  const json report = json::parse(report_json(make_report(measured, clock)));
  EXPECT_EQ(report["header"]["device"], "a \"fake\" device");
  const json& encoder = report["modules"][0];
  EXPECT_EQ(encoder["name"], "encoder1");
  EXPECT_EQ(encoder["samples_ms"], json({3, 3, 3}));
  EXPECT_EQ(encoder["cold_ms"], 300);
  EXPECT_EQ(encoder["bound_by"], "compute");
  EXPECT_EQ(encoder["flop"], 3e9);
  EXPECT_EQ(report["ceilings"]["bytes_per_second"], 1e11);
  EXPECT_EQ(report["stages"].size(), 7u);
}

TEST_F(ReportTest, CsvHasOneLineARow) {
  const std::string csv = report_csv(make_report(measured, clock));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 7 + 2);
  const std::string header = csv.substr(0, csv.find('\n'));
  const std::size_t columns = std::count(header.begin(), header.end(), ',');
  std::size_t begin = 0;
  while (begin < csv.size()) {
    const std::size_t end = csv.find('\n', begin);
    const std::string line = csv.substr(begin, end - begin);
    EXPECT_EQ(static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')), columns) << line;
    begin = end + 1;
  }
}

TEST_F(ReportTest, TraceIsChromesFormat) {
  const json trace = json::parse(chrome_trace(clock, measured.network, 40));
  std::vector<json> spans;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") spans.push_back(event);
  }
  ASSERT_EQ(spans.size(), 4u + 2u);
  EXPECT_EQ(spans[1]["name"], "decode");
  EXPECT_NEAR(spans[1]["ts"].get<double>(), 10e3, 1);
  EXPECT_EQ(spans[1]["args"]["of"], "p1");
  // Modules follow one another.
  EXPECT_EQ(spans[4]["name"], "encoder1");
  EXPECT_DOUBLE_EQ(spans[4]["ts"].get<double>(), 40e3);
  EXPECT_DOUBLE_EQ(spans[5]["ts"].get<double>(), 43e3);
  EXPECT_NE(spans[4]["pid"], spans[0]["pid"]);
}

}  // namespace
}  // namespace hdfnet::app
