#include "image/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "image/in_quotes.h"
#include "image/read.h"

namespace hdfnet::app {
namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw ImageError(in_quotes(file.string()) + " " + what);
}

[[noreturn]] void fail_with_errno(const std::filesystem::path& file, int code) {
  if (code == ENOENT) fail(file, "does not exist.");
  if (code == EACCES) fail(file, "may not be read: permission denied.");
  fail(file, "cannot be read: " + std::generic_category().message(code) + ".");
}

std::size_t checked_size(const std::filesystem::path& file, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) fail(file, "is a folder, but an image file is needed here.");
  if (!S_ISREG(status.st_mode)) fail(file, "is not a regular file (a device, pipe or socket).");
  if (status.st_size == 0) fail(file, "is an empty file (0 bytes): copy or download it again.");
  if (status.st_size > kMaxFileBytes) {
    fail(file, "has " + std::to_string(status.st_size) + " bytes; at most " +
                   std::to_string(kMaxFileBytes) + " are read.");
  }
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

std::vector<std::byte> file_bytes(const std::filesystem::path& file) {
  // O_NONBLOCK: opening a pipe without a writer must not hang before it can be refused.
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) fail_with_errno(file, errno);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail_with_errno(file, errno);

  std::vector<std::byte> bytes(checked_size(file, status));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(descriptor.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno(file, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);  // shorter when the file was cut while it was read
  return bytes;
}

}  // namespace hdfnet::app
