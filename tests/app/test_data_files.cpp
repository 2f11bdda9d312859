#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "data_files.h"
#include "network.h"
#include "options/command_line.h"
#include "temporary_folder.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

/// HDFNET_HOME and the current folder are folders of the test's own.
class DataFiles : public testing::Test {
 protected:
  DataFiles() : before_(fs::current_path()) {
    fs::create_directories(folder / "here");
    fs::create_directories(folder / "home");
    fs::current_path(folder / "here");
    setenv("HDFNET_HOME", (folder / "home").c_str(), 1);
  }
  ~DataFiles() override {
    unsetenv("HDFNET_HOME");
    fs::current_path(before_);
  }

  test::TemporaryFolder folder;

 private:
  fs::path before_;
};

bool contains(const std::vector<fs::path>& folders, const fs::path& folder) {
  return std::find(folders.begin(), folders.end(), folder) != folders.end();
}

TEST_F(DataFiles, PlacesOfABuildTreeAndOfAnInstallation) {
  const std::vector<fs::path> folders = data_folders();
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  EXPECT_EQ(folders.front(), folder / "home");
  EXPECT_EQ(folders.back(), ".");
  EXPECT_TRUE(contains(folders, (program / ".").lexically_normal()));
  EXPECT_TRUE(contains(folders, (program / "../..").lexically_normal()));
  EXPECT_TRUE(contains(folders, (program / "../share/hdfnet").lexically_normal()));
  unsetenv("HDFNET_HOME");
  EXPECT_FALSE(contains(data_folders(), folder / "home"));
}

TEST_F(DataFiles, TheHomeComesBeforeTheCurrentFolder) {
  test::write_text(folder / "here/weights/only_here.pt", "");
  EXPECT_EQ(find_data_file("weights/only_here.pt"), "weights/only_here.pt");
  test::write_text(folder / "home/weights/only_here.pt", "");
  EXPECT_EQ(find_data_file("weights/only_here.pt"), folder / "home/weights/only_here.pt");
  EXPECT_EQ(find_data_file("weights/nowhere.pt"), "");
  const std::string places = places_of("weights/nowhere.pt");
  EXPECT_NE(places.find((folder / "home/weights/nowhere.pt").string()), std::string::npos);
  EXPECT_NE(places.find("share/hdfnet/weights/nowhere.pt"), std::string::npos);
}

TEST_F(DataFiles, WeightsThatAreGivenAreNotLookedFor) {
  EXPECT_EQ(find_weights("/nowhere/w.pt"), "/nowhere/w.pt");
  test::write_text(folder / "home/weights/hdfnet_vgg16.pt", "");
  EXPECT_EQ(find_weights(""), folder / "home/weights/hdfnet_vgg16.pt");
}

TEST_F(DataFiles, AHomeThatIsNoFolderIsAnError) {
  test::write_text(folder / "here/weights/hdfnet_vgg16.pt", "");
  test::write_text(folder / "here/configs/mine.yaml", "batch: 7\n");
  EXPECT_NO_THROW(find_weights(""));
  for (const char* home : {"nowhere", "here/weights/hdfnet_vgg16.pt"}) {
    setenv("HDFNET_HOME", (folder / home).c_str(), 1);
    const std::string wrong =
        "HDFNET_HOME is " + (folder / home).string() + ", which is not a folder";
    try {
      find_weights("");
      FAIL();
    } catch (const SetupError& error) {
      EXPECT_EQ(error.fault(), SetupError::Fault::weights);
      EXPECT_NE(std::string(error.what()).find(wrong), std::string::npos) << error.what();
    }
    try {
      find_config("mine");
      FAIL();
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(wrong), std::string::npos) << error.what();
    }
    EXPECT_EQ(find_weights("w.pt"), "w.pt") << "what is given is not looked for";
  }
  setenv("HDFNET_HOME", "", 1);
  EXPECT_NO_THROW(find_weights(""));
}

TEST_F(DataFiles, ABareConfigurationIsLookedFor) {
  test::write_text(folder / "home/configs/mine.yaml", "batch: 7\n");
  for (const char* name : {"mine", "mine.yaml"}) {
    const CommandLine line = parse_command_line({"--config", name});
    EXPECT_EQ(line.options.batch.value, 7) << name;
  }
  test::write_text(folder / "here/mine.yaml", "batch: 3\n");
  EXPECT_EQ(parse_command_line({"--config", "mine.yaml"}).options.batch.value, 3);
  EXPECT_EQ(find_config("sub/mine.yaml"), "sub/mine.yaml");
}

TEST_F(DataFiles, AConfigurationFoundNowhereListsThePlaces) {
  try {
    find_config("nowhere");
    FAIL();
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("The configuration nowhere cannot be opened"), std::string::npos) << text;
    EXPECT_NE(text.find((folder / "home/configs/nowhere.yaml").string()), std::string::npos);
  }
}

}  // namespace
}  // namespace hdfnet::app
