// Files that are there whole or not at all.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "image/in_quotes.h"
#include "image/saliency_output.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, int code) {
  std::string what = std::generic_category().message(code) + ".";
  if (code == ENOSPC) what = "the disk is full.";
  if (code == EDQUOT) what = "the disk quota is used up.";
  if (code == EACCES || code == EPERM) what = "permission denied.";
  if (code == EROFS) what = "the file system is read-only.";
  if (code == EISDIR) what = "a folder of this name is in the way.";
  if (code == ENOTDIR) what = "a part of the path is a file, not a folder.";
  throw OutputError(in_quotes(file.string()) + " cannot be written: " + what);
}

/// Hidden, so that no scan of the folder takes it for a picture; short, so that it fits where the
/// real name fits; unique among processes and threads that write to the same folder.
fs::path temporary_beside(const fs::path& file) {
  static std::atomic<unsigned> counter{0};
  return file.parent_path() / (".hdfnet-" + std::to_string(::getpid()) + "-" +
                               std::to_string(counter.fetch_add(1)) + ".tmp");
}

void write_all(int fd, const fs::path& file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(file, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

/// A file without a name (Linux's O_TMPFILE), which vanishes with the process that writes it; -1
/// where the file system has no such files, as NFS, or where it could not be named later.
int open_nameless(const fs::path& folder, mode_t mode) {
  if (::access("/proc/self/fd", F_OK) != 0) return -1;
  const char* const name = folder.empty() ? "." : folder.c_str();
  return ::open(name, O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
}

/// A new file that has no name, or a temporary one, until it is complete; removed unless kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& final_name)
      : final_name_(final_name), name_(temporary_beside(final_name)) {
    constexpr mode_t kReadableByAll = 0666;  // less the umask
    fd_ = open_nameless(final_name.parent_path(), kReadableByAll);
    if (fd_ >= 0) return;
    fd_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                 kReadableByAll);
    if (fd_ < 0) fail(final_name_, errno);
    named_ = true;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (named_) ::unlink(name_.c_str());
  }

  void write(std::span<const std::byte> bytes) { write_all(fd_, final_name_, bytes); }

  void keep() {
    if (!named_) give_name();
    const int fd = fd_;
    fd_ = -1;
    // Network file systems report a full disk here.
    if (::close(fd) != 0 && errno != EINTR) fail(final_name_, errno);
    if (std::rename(name_.c_str(), final_name_.c_str()) != 0) fail(final_name_, errno);
    named_ = false;
  }

 private:
  /// The temporary name first: a link, unlike rename(), does not replace what is there.
  void give_name() {
    const std::string descriptor = "/proc/self/fd/" + std::to_string(fd_);
    if (::linkat(AT_FDCWD, descriptor.c_str(), AT_FDCWD, name_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      fail(final_name_, errno);
    }
    named_ = true;
  }

  fs::path final_name_;
  fs::path name_;
  int fd_ = -1;
  bool named_ = false;  ///< as name_
};

/// Devices and pipes are written to, never replaced.
void write_into(const fs::path& file, std::span<const std::byte> bytes) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) fail(file, errno);
  try {
    write_all(fd, file, bytes);
  } catch (...) {
    ::close(fd);
    throw;
  }
  if (::close(fd) != 0) fail(file, errno);
}

}  // namespace

void write_file(const fs::path& file, std::span<const std::byte> bytes) {
  if (file.has_parent_path()) {
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    if (error) fail(file, error.value());
  }
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) {
    write_into(file, bytes);
    return;
  }
  // Behind a link the file is replaced, not the link.
  const bool link = fs::is_symlink(fs::symlink_status(file, error));
  TemporaryFile temporary(link && fs::exists(status) ? fs::canonical(file) : file);
  temporary.write(bytes);
  temporary.keep();
}

}  // namespace hdfnet::app
