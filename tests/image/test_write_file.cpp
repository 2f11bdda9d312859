#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "image/saliency_output.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

namespace fs = std::filesystem;

std::size_t count_files(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

std::string error_of(const fs::path& file, const std::vector<std::byte>& bytes) {
  try {
    write_file(file, bytes);
  } catch (const OutputError& error) {
    return error.what();
  }
  return "";
}

TEST(WriteFile, MakesFoldersAndReplacesFiles) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "a" / "b c" / "caf\xE9.png";
  write_file(file, bytes_of("first"));
  write_file(file, bytes_of("second"));
  EXPECT_EQ(read_bytes(file), bytes_of("second"));
  EXPECT_EQ(count_files(file.parent_path()), 1U);
}

TEST(WriteFile, WritesToPipesAndDevicesAndBehindLinks) {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  write_file(pipe, bytes_of("through"));
  char read[16] = {};
  EXPECT_EQ(::read(reader, read, sizeof read), 7);
  EXPECT_STREQ(read, "through");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));

  fs::create_directory(folder.path() / "other");
  const fs::path target = folder.path() / "other/target", link = folder.path() / "link";
  write_file(target, bytes_of("old"));
  fs::create_symlink(target, link);
  write_file(link, bytes_of("new"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_bytes(target), bytes_of("new"));

  // A device of its own: were it replaced, the machine's would be unharmed.
  const fs::path full = folder.path() / "full";
  fs::create_symlink("/dev/full", full);
  EXPECT_NE(error_of(full, bytes_of("x")).find("the disk is full"), std::string::npos);
  EXPECT_TRUE(fs::is_character_file(full));
}

TEST(WriteFile, HonoursTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_file(folder.path() / "x.png", bytes_of("x"));
  ::umask(before);
  EXPECT_EQ(fs::status(folder.path() / "x.png").permissions(), fs::perms(0640));
}

TEST(WriteFile, LongestNamesWork) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / (std::string(251, 'n') + ".png");
  EXPECT_EQ(error_of(file, bytes_of("x")), "");
  EXPECT_NE(error_of(folder.path() / std::string(300, 'n'), bytes_of("x")), "");
  EXPECT_EQ(count_files(folder.path()), 1U);
}

TEST(WriteFile, AFolderInTheWayIsSaidAndNothingIsLeft) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "x.png" / "inside");
  const std::string error = error_of(folder.path() / "x.png", bytes_of("x"));
  EXPECT_NE(error.find("x.png' cannot be written: a folder of this name is in the way"),
            std::string::npos)
      << error;
  EXPECT_EQ(count_files(folder.path()), 1U);
}

TEST(WriteFile, AFileInThePathIsSaid) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  const std::string error = error_of(folder.path() / "file" / "x.png", bytes_of("x"));
  EXPECT_NE(error.find("is a file, not a folder"), std::string::npos) << error;
}

TEST(WriteFile, UnwritableFoldersAreSaid) {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0555));
  std::string error;
  {
    const WithoutPrivileges user;
    if (!user.is_one()) GTEST_SKIP() << "root may write everywhere";
    error = error_of(folder.path() / "x.png", bytes_of("x"));
  }
  fs::permissions(folder.path(), fs::perms::owner_all);
  EXPECT_NE(error.find("permission denied"), std::string::npos) << error;
}

/// What a killed process would leave behind: the file has its temporary name, complete, for the
/// moment between two system calls only.
TEST(WriteFile, AnUnfinishedFileHasNoName) {
  const TemporaryFolder folder;
  const int probe = ::open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (probe < 0) GTEST_SKIP() << "this file system has no files without a name";
  ::close(probe);
  const fs::path file = folder.path() / "x.png";
  const std::vector<std::byte> large(8 << 20);
  ::signal(SIGXFSZ, SIG_DFL);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit small{4 << 20, 4 << 20};
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setrlimit(RLIMIT_FSIZE, &small);
    write_file(file, large);  // a signal ends the process half way
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(count_files(folder.path()), 0U);
}

/// A file-size limit stands in for a full disk: write() fails half way.
TEST(WriteFile, AFailureHalfWayLeavesTheOldFileAndNoTemporary) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "x.png";
  write_file(file, bytes_of("old"));
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = error_of(file, std::vector<std::byte>(100000));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  EXPECT_NE(error.find("x.png' cannot be written"), std::string::npos) << error;
  EXPECT_EQ(read_bytes(file), bytes_of("old"));
  EXPECT_EQ(count_files(folder.path()), 1U);
}

}  // namespace
}  // namespace hdfnet::app::test
