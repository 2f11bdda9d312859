// Reads the tensors of a TorchScript archive without compiling or running any of its code.
//
// The archive is a zip with data.pkl, whose pickle describes the module tree, and one record a
// tensor. torch::jit::load would compile the archive's code and run its __setstate__ methods. Here
// every module becomes a plain holder of its attribute dictionary instead, so the pickle can build
// nothing but modules, containers, numbers, strings and tensors.

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/serialization/import_read.h>

#include <array>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "hdfnet/error.h"
#include "hdfnet/libtorch_version.h"
#include "hdfnet/parameters.h"
#include "pickle_check.h"

namespace hdfnet {
namespace {

namespace fs = std::filesystem;
using caffe2::serialize::PyTorchStreamReader;

constexpr std::string_view kConvert =
    " Convert the PyTorch checkpoint it was made from: "
    ".venv/bin/python weights/export.py --checkpoint FILE.pth --out FILE.pt";

[[noreturn]] void fail(const fs::path& file, std::string_view what) {
  throw Error(ErrorCode::weights, "weights file " + file.string() + ": " + std::string(what));
}

std::string read_prefix(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(file, "it cannot be opened for reading; check its permissions.");
  std::array<char, 512> bytes{};
  stream.read(bytes.data(), bytes.size());
  return {bytes.data(), static_cast<size_t>(stream.gcount())};
}

bool starts_with(const std::string& text, std::string_view prefix) {
  return std::string_view(text).substr(0, prefix.size()) == prefix;
}

// torch.save before 1.6 wrote a pickle of this magic number first.
bool is_legacy_checkpoint(const std::string& head) {
  constexpr std::string_view kMagic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
  return head.size() > 2 && head[0] == '\x80' && head.find(kMagic) != std::string::npos;
}

// An ONNX model is a protobuf whose first field is ir_version and whose second names the producer.
bool is_onnx(const std::string& head) {
  if (head.size() < 8 || head[0] != '\x08') return false;
  return head.find("onnx") != std::string::npos || head.find("pytorch") != std::string::npos ||
         (head[2] == '\x12' && static_cast<unsigned char>(head[3]) < 64);
}

bool is_safetensors(const std::string& head) {
  return head.size() > 10 && head[8] == '{' && head[9] == '"';
}

// Everything that is not a zip gets the sentence that tells the user what it is.
void reject_foreign_file(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) fail(file, "no such file.");
  if (fs::is_directory(status)) fail(file, "it is a folder, not a TorchScript archive.");
  const std::string head = read_prefix(file);
  if (head.empty()) fail(file, "it is empty (0 bytes); the copy or download did not finish.");
  if (starts_with(head, "version https://git-lfs")) {
    fail(file, "it is a Git-LFS pointer, not the weights themselves. Run: git lfs pull");
  }
  if (starts_with(head, "PK\x03\x04")) return;
  if (is_legacy_checkpoint(head)) {
    fail(file,
         "it is a plain state dict (torch.save before PyTorch 1.6), not a TorchScript archive." +
             std::string(kConvert));
  }
  if (is_safetensors(head)) {
    fail(file, "it is a safetensors file, not a TorchScript archive." + std::string(kConvert));
  }
  if (is_onnx(head)) {
    fail(file,
         "it is an ONNX model, whose parameters have lost their names." + std::string(kConvert));
  }
  if (starts_with(head, "\x80")) {
    fail(file, "it is a Python pickle, not a TorchScript archive." + std::string(kConvert));
  }
  fail(file, "it is not a TorchScript archive (a zip file starting with PK was expected)." +
                 std::string(kConvert));
}

std::unique_ptr<PyTorchStreamReader> open_archive(const fs::path& file) {
  reject_foreign_file(file);
  std::unique_ptr<PyTorchStreamReader> reader;
  try {
    reader = std::make_unique<PyTorchStreamReader>(file.string());
  } catch (const std::exception&) {
    fail(file,
         "it is a zip that is truncated, damaged or not written by PyTorch; copy or download "
         "it again.");
  }
  const bool has_pickle = reader->hasRecord("data.pkl");
  if (has_pickle && !reader->hasRecord("constants.pkl")) {
    fail(file, "it is a plain state dict (torch.save), not a TorchScript archive." +
                   std::string(kConvert));
  }
  if (!has_pickle) {
    fail(file,
         "it is a zip without data.pkl, so not a TorchScript archive." + std::string(kConvert));
  }
  return reader;
}

// One class type stands for every module: its single slot holds the attribute dictionary.
class ModuleHolder {
 public:
  ModuleHolder() : unit_(std::make_shared<torch::jit::CompilationUnit>()) {
    type_ = c10::ClassType::create(c10::QualifiedName("__torch__.hdfnet.StoredModule"), unit_,
                                   /*is_module=*/true);
    type_->addAttribute("attributes", c10::AnyType::get());
  }

  c10::StrongTypePtr resolve(const c10::QualifiedName& name) const {
    // A container's type tag, such as Dict[str, Tensor].
    if (name.qualifiedName().find('[') != std::string::npos) {
      return {unit_, torch::jit::Unpickler::defaultTypeParser(name.qualifiedName())};
    }
    if (!starts_with(name.qualifiedName(), "__torch__.")) {
      throw Error(ErrorCode::weights, "its pickle names " + name.qualifiedName() +
                                          ", which no TorchScript module does; it is refused.");
    }
    return {unit_, type_};
  }

  c10::intrusive_ptr<c10::ivalue::Object> load(const c10::IValue& state) const {
    auto object = c10::ivalue::Object::create(c10::StrongTypePtr(unit_, type_), 1);
    object->setSlot(0, state);
    return object;
  }

 private:
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  c10::ClassTypePtr type_;
};

// Tensors are stored uncompressed, so a record larger than the file has a damaged size; reading it
// would allocate whatever it claims.
void check_record_sizes(PyTorchStreamReader& reader, const fs::path& file) {
  const uint64_t file_size = fs::file_size(file);
  for (const std::string& record : reader.getAllRecords()) {
    if (starts_with(record, "code/") || starts_with(record, "debug")) continue;
    const uint64_t size = reader.getRecordSize(record);
    if (size > file_size) {
      throw Error(ErrorCode::weights, "record " + record + " claims " + std::to_string(size) +
                                          " bytes in a file of " + std::to_string(file_size) +
                                          "; it is damaged.");
    }
  }
}

void check_pickle(PyTorchStreamReader& reader) {
  const auto [data, size] = reader.getRecord("data.pkl");
  const std::string fault = pickle_fault({static_cast<const char*>(data.get()), size});
  if (!fault.empty()) throw Error(ErrorCode::weights, fault + "; it is damaged or made to harm.");
}

c10::IValue read_module_tree(PyTorchStreamReader& reader, const ModuleHolder& holder) {
  return torch::jit::readArchiveAndTensors(
      "data", /*pickle_prefix=*/"", /*tensor_prefix=*/"",
      [&](const c10::QualifiedName& name) { return holder.resolve(name); },
      [&](const c10::StrongTypePtr&, const c10::IValue& state) { return holder.load(state); },
      at::Device(at::kCPU), reader);
}

void collect(const c10::IValue& value, const std::string& prefix, int depth, Parameters& found) {
  constexpr int kMaxDepth = 64;  // a module tree that refers to itself must not recurse for ever
  if (!value.isObject() || depth > kMaxDepth) return;
  const c10::IValue& state = value.toObjectRef().getSlot(0);
  if (!state.isGenericDict()) return;
  for (const auto& item : state.toGenericDict()) {
    if (!item.key().isString()) continue;
    const std::string name = prefix + item.key().toStringRef();
    if (item.value().isTensor()) {
      if (item.value().toTensor().defined()) found.emplace(name, item.value().toTensor());
    } else {
      collect(item.value(), name + ".", depth + 1, found);
    }
  }
}

}  // namespace

Parameters load_parameters(const fs::path& file) {
  check_libtorch();
  auto reader = open_archive(file);
  const ModuleHolder holder;
  Parameters found;
  try {
    check_record_sizes(*reader, file);
    check_pickle(*reader);
    collect(read_module_tree(*reader, holder), "", 0, found);
  } catch (const Error& error) {
    fail(file, error.what());
  } catch (const c10::Error& error) {
    fail(file, "it is damaged or not a TorchScript module: " +
                   std::string(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    fail(file, "it is damaged or not a TorchScript module: " + std::string(error.what()));
  }
  if (found.empty()) {
    fail(file,
         "it holds no named parameters (a frozen archive keeps them as constants in its code). "
         "Export it without torch.jit.freeze." +
             std::string(kConvert));
  }
  return found;
}

}  // namespace hdfnet
