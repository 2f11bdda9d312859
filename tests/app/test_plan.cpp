#include <gtest/gtest.h>

#include <map>
#include <set>

#include "options/config_file.h"
#include "pictures.h"
#include "run/plan.h"
#include "run/shard.h"
#include "temporary_folder.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

class PlanTest : public testing::Test {
 protected:
  PlanTest() {
    options.rgb = folder / "rgb";
    options.depth = folder / "depth";
    options.out = folder / "out";
  }

  std::string complaint() const {
    try {
      make_plan(options, nullptr);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return {};
  }

  test::TemporaryFolder folder;
  Options options;
};

TEST_F(PlanTest, NamesOutputsByKind) {
  test::write_pair(folder.path(), "a", 1);
  options.save = {Save::map, Save::overlay, Save::cutout, Save::heatmap};
  options.threshold = Threshold{true, 0};
  const Plan plan = make_plan(options, nullptr);
  ASSERT_EQ(plan.jobs.size(), 1u);
  std::vector<fs::path> files;
  for (const Output& output : plan.jobs[0].outputs) files.push_back(output.file.filename());
  EXPECT_EQ(files, (std::vector<fs::path>{"a.png", "a_overlay.png", "a_cutout.png", "a_heatmap.png",
                                          "a_mask.png"}));
}

TEST_F(PlanTest, KeepsTheTreeOfSubFolders) {
  test::write_pair(folder.path(), "s1/0001", 1);
  test::write_pair(folder.path(), "s2/0001", 2);
  options.recursive = true;
  const Plan plan = make_plan(options, nullptr);
  ASSERT_EQ(plan.jobs.size(), 2u);
  EXPECT_EQ(plan.jobs[0].outputs[0].file, folder / "out/s1/0001.png");
  EXPECT_EQ(plan.jobs[1].outputs[0].file, folder / "out/s2/0001.png");
}

TEST_F(PlanTest, ASinglePairMayNameItsFile) {
  test::write_pair(folder.path(), "a", 1);
  options.out = folder / "deep/result.png";
  options.save = {Save::map, Save::heatmap};
  const Plan plan = make_plan(options, nullptr);
  EXPECT_EQ(plan.jobs[0].outputs[0].file, folder / "deep/result.png");
  EXPECT_EQ(plan.jobs[0].outputs[1].file, folder / "deep/result_heatmap.png");
}

TEST_F(PlanTest, AFileForSeveralPairsIsRefused) {
  test::write_pair(folder.path(), "a", 1);
  test::write_pair(folder.path(), "b", 1);
  options.out = folder / "result.png";
  EXPECT_NE(complaint().find("is one file, but there are 2 pairs"), std::string::npos);
}

TEST_F(PlanTest, OnlyPngIsWritten) {
  test::write_pair(folder.path(), "a", 1);
  options.out = folder / "result.JPG";
  EXPECT_NE(complaint().find("results are written as PNG only"), std::string::npos);
}

TEST_F(PlanTest, AnOutputOverAnInputIsRefused) {
  test::write_pair(folder.path(), "a", 1);
  options.out = folder / "depth/../depth";
  EXPECT_NE(complaint().find("would overwrite the input"), std::string::npos);
}

TEST_F(PlanTest, TwoResultsInOneFileAreRefused) {
  test::write_pair(folder.path(), "a", 1);
  test::write_pair(folder.path(), "a_overlay", 1);
  options.save = {Save::map, Save::overlay};
  EXPECT_NE(complaint().find("would both be written to"), std::string::npos);
}

TEST_F(PlanTest, InputMustBeGivenOnce) {
  options.dataset = folder.path();
  EXPECT_NE(complaint().find("--dataset stands for --rgb and --depth"), std::string::npos);
  options = Options{};
  EXPECT_NE(complaint().find("No input"), std::string::npos);
}

TEST_F(PlanTest, ShardsAreDisjointAndCoverEverything) {
  for (int i = 0; i < 40; ++i) test::write_pair(folder.path(), std::to_string(i), i, 8, 8);
  for (int i = 40; i < 60; ++i) {
    test::write_png(folder / ("rgb/" + std::to_string(i) + ".png"), test::rgb_picture(8, 8, i));
  }
  std::set<std::string> jobs, unpaired;
  std::size_t total = 0;
  for (int index = 0; index < 3; ++index) {
    options.shard = {false, index, 3};
    const Plan plan = make_plan(options, nullptr);
    for (const Job& job : plan.jobs) jobs.insert(job.name);
    for (const Job& job : plan.unpaired) unpaired.insert(job.name);
    total += plan.jobs.size() + plan.unpaired.size();
    EXPECT_GT(plan.jobs.size(), 0u);
  }
  EXPECT_EQ(jobs.size(), 40u);
  EXPECT_EQ(unpaired.size(), 20u);
  EXPECT_EQ(total, 60u);
}

TEST_F(PlanTest, DoneMeansEveryFileIsThereAndNotEmpty) {
  const Job job{"a", {}, {}, {{Save::map, folder / "a.png"}, {Save::mask, folder / "m.png"}}};
  EXPECT_FALSE(is_done(job));
  test::write_text(folder / "a.png", "x");
  EXPECT_FALSE(is_done(job));
  test::write_text(folder / "m.png", "");
  EXPECT_FALSE(is_done(job));
  test::write_text(folder / "m.png", "x");
  EXPECT_TRUE(is_done(job));
}

using Variables = std::map<std::string, std::string>;

Environment environment(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Shard from(const Variables& variables) {
  return resolve_shard({true, 0, 1}, environment(variables));
}

TEST(Shard, AutoReadsTheLaunchersVariables) {
  const Shard slurm =
      from({{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "1"}});
  EXPECT_EQ(slurm.index, 3u);
  EXPECT_EQ(slurm.count, 8u);
  EXPECT_EQ(slurm.local_rank, 1);
  EXPECT_EQ(from({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).count, 2u);
}

TEST(Shard, MpiInsideSlurmWins) {
  const Shard shard = from({{"SLURM_PROCID", "0"},
                            {"SLURM_STEP_NUM_TASKS", "1"},
                            {"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "6"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}});
  EXPECT_EQ(shard.index, 5u);
  EXPECT_EQ(shard.count, 6u);
  EXPECT_EQ(shard.local_rank, 2);
}

TEST(Shard, ABatchScriptWithoutSrunIsNoShard) {
  EXPECT_THROW(from({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}), UsageError);
}

TEST(Shard, NonsenseIsAnError) {
  EXPECT_THROW(from({}), UsageError);
  EXPECT_THROW(from({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}), UsageError);
  EXPECT_THROW(from({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}), UsageError);
  EXPECT_THROW(from({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}), UsageError);
}

TEST(Shard, ProcessesOfOneCommandLineHaveReportsOfTheirOwn) {
  const Variables second = {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}};
  Options options;
  options.manifest = "logs.d/m.jsonl";
  options.report = "page";
  const Options before = options;
  give_each_shard_its_reports(options, environment(second));
  EXPECT_EQ(options.manifest, before.manifest) << "the parts have been given one by one";
  options.shard.automatic = true;
  give_each_shard_its_reports(options, environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
  EXPECT_EQ(options.manifest, before.manifest) << "there is one process only";
  give_each_shard_its_reports(options, environment(second));
  EXPECT_EQ(options.manifest, "logs.d/m.1-of-3.jsonl");
  EXPECT_EQ(options.report, "page.1-of-3");
  EXPECT_EQ(options.trace, "");
}

}  // namespace
}  // namespace hdfnet::app
