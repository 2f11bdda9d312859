// Any bytes as a weights file: an Error(weights), or parameters.
//
// An archive is a zip whose records have check sums, which changed bytes hardly ever pass. So an
// input that starts with 'P' is taken as the pickle alone, and a sound archive is written around
// it.

#include <caffe2/serialize/inline_container.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "fuzzer.h"
#include "hdfnet/architecture.h"
#include "hdfnet/error.h"
#include "hdfnet/parameters.h"

namespace {

/// A file in memory.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", 0)) { HDFNET_REQUIRE(descriptor_ >= 0); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  std::size_t write(const void* data, std::size_t size) const {
    HDFNET_REQUIRE(::write(descriptor_, data, size) == static_cast<ssize_t>(size));
    return size;
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  const int descriptor_;
};

void write_archive(const MemoryFile& file, const std::uint8_t* pickle, std::size_t size) {
  caffe2::serialize::PyTorchStreamWriter writer(
      [&file](const void* data, std::size_t count) { return file.write(data, count); });
  writer.writeRecord("data.pkl", pickle, size);
  const std::string constants("\x80\x02).", 4);
  writer.writeRecord("constants.pkl", constants.data(), constants.size());
  const std::string numbers(64, '\1');
  for (const char* name : {"0", "1"}) writer.writeRecord(name, numbers.data(), numbers.size());
  writer.writeEndOfFile();
}

template <typename Step>
void may_refuse(const Step& step) {
  try {
    step();
  } catch (const hdfnet::Error& error) {
    HDFNET_REQUIRE(error.code() == hdfnet::ErrorCode::weights);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file;
  if (size > 1 && data[0] == 'P' && data[1] != 'K') {
    write_archive(file, data + 1, size - 1);
  } else {
    file.write(data, size);
  }
  hdfnet::Parameters parameters;
  may_refuse([&] { parameters = hdfnet::load_parameters(file.path()); });
  may_refuse([&] { hdfnet::dequantize(parameters); });
  may_refuse([&] { hdfnet::inspect(parameters); });
  return 0;
}
