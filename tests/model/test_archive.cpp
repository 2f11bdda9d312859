// Opening weights files: TorchScript archives of every kind are read, everything else is refused by
// a sentence of its own.

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/freeze_module.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "hdfnet/error.h"
#include "hdfnet/parameters.h"

namespace hdfnet {
namespace {

namespace fs = std::filesystem;

class ArchiveFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("hdfnet_archive_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  std::string message(const fs::path& file) {
    try {
      load_parameters(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::weights);
      EXPECT_NE(std::string(error.what()).find(file.string()), std::string::npos);
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "message: " << text << "\nexpected: " << part;
}

std::string read_bytes(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// A module tree with a parameter, a buffer, a nested module and an attribute that is no tensor.
torch::jit::Module example_module() {
  torch::jit::Module inner("__torch__.Inner");
  inner.register_parameter("weight", at::arange(6, at::kFloat).view({2, 3}), false);
  torch::jit::Module outer("__torch__.Outer");
  outer.register_module("layer", inner);
  outer.register_buffer("counter", at::tensor({7}, at::kLong));
  outer.register_attribute("note", c10::StringType::get(), std::string("text"));
  outer.define("def forward(self, x):\n  return x + self.layer.weight\n");
  return outer;
}

TEST_F(ArchiveFile, ReadsParametersAndBuffersByName) {
  example_module().save((folder_ / "m.pt").string());
  const Parameters parameters = load_parameters(folder_ / "m.pt");
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_TRUE(at::equal(parameters.at("layer.weight"), at::arange(6, at::kFloat).view({2, 3})));
  EXPECT_EQ(parameters.at("counter").item<int64_t>(), 7);
}

TEST_F(ArchiveFile, RunsNoneOfTheArchivesCode) {
  // A module's __setstate__ runs in torch::jit::load; here it must not. This one would fail.
  torch::jit::Module module("__torch__.Hostile");
  module.register_parameter("weight", at::ones({1}), false);
  module.define(
      "def __getstate__(self):\n  return {\"weight\": self.weight}\n"
      "def __setstate__(self, state: Dict[str, Tensor]):\n"
      "  assert False, \"code of the archive was run\"\n"
      "def forward(self, x):\n  return x\n");
  module.save((folder_ / "hostile.pt").string());
  EXPECT_EQ(load_parameters(folder_ / "hostile.pt").at("weight").item<float>(), 1.0F);
}

TEST_F(ArchiveFile, MissingFile) {
  expect_contains(message(folder_ / "none.pt"), "no such file");
}

TEST_F(ArchiveFile, Folder) {
  expect_contains(message(folder_), "it is a folder");
}

TEST_F(ArchiveFile, EmptyFile) {
  expect_contains(message(write("e.pt", "")), "it is empty");
}

TEST_F(ArchiveFile, GitLfsPointer) {
  expect_contains(
      message(write("l.pt", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n")),
      "it is a Git-LFS pointer, not the weights themselves. Run: git lfs pull");
}

TEST_F(ArchiveFile, TruncatedArchive) {
  example_module().save((folder_ / "m.pt").string());
  const std::string bytes = read_bytes(folder_ / "m.pt");
  expect_contains(message(write("t.pt", bytes.substr(0, bytes.size() / 2))),
                  "it is a zip that is truncated, damaged or not written by PyTorch");
}

TEST_F(ArchiveFile, PlainStateDict) {
  c10::Dict<std::string, at::Tensor> state;
  state.insert("weight", at::ones({2}));
  const std::vector<char> bytes = torch::jit::pickle_save(state);
  const std::string text = message(write("s.pth", {bytes.begin(), bytes.end()}));
  expect_contains(text, "it is a plain state dict");
  expect_contains(text, "weights/export.py --checkpoint");
}

TEST_F(ArchiveFile, PlainStateDictOfAnOldVersion) {
  const std::string head("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e\x80\x02",
                         17);
  expect_contains(message(write("o.pth", head)), "torch.save before PyTorch 1.6");
}

TEST_F(ArchiveFile, OtherPickle) {
  expect_contains(message(write("p.pkl", "\x80\x04\x95 something")), "it is a Python pickle");
}

TEST_F(ArchiveFile, OnnxModel) {
  expect_contains(message(write("x.onnx", std::string("\x08\x07\x12\x07pytorch\x1a\x05", 13))),
                  "it is an ONNX model");
}

TEST_F(ArchiveFile, Safetensors) {
  const std::string head("\x20\0\0\0\0\0\0\0{\"a\":{}}", 16);
  expect_contains(message(write("x.safetensors", head)), "it is a safetensors file");
}

TEST_F(ArchiveFile, AnythingElse) {
  expect_contains(message(write("h.pt", "<html>404</html>")), "it is not a TorchScript archive");
}

TEST_F(ArchiveFile, ForeignZip) {
  // The end-of-central-directory record of an empty zip, behind a local header's magic.
  std::string bytes("PK\x03\x04", 4);
  bytes += std::string("PK\x05\x06", 4) + std::string(18, '\0');
  const std::string text = message(write("z.zip", bytes));
  expect_contains(text, "zip");
}

TEST_F(ArchiveFile, FrozenArchive) {
  torch::jit::Module module = example_module();
  module.eval();
  torch::jit::freeze_module(module).save((folder_ / "f.pt").string());
  expect_contains(message(folder_ / "f.pt"), "it holds no named parameters (a frozen archive");
}

// Each of these takes the process down in LibTorch's unpickler, or gigabytes of memory.
TEST_F(ArchiveFile, PicklesMadeToHarmAreRefused) {
  using namespace std::string_literals;
  const std::string start = "\x80\x02"s;
  struct Case {
    std::string pickle;
    const char* says;
  };
  for (const Case& c : {Case{start + ")" + std::string(300000, '\x85') + ".", "nested objects"},
                        {start + "X\xF0\xFF\xFF\xFFtext.", "ends too early"},
                        {start + "\x8D\0\0\0\0\x10\0\0\0text."s, "ends too early"},
                        {start + ")r\xF0\xFF\xFF\x7F.", "remembers more objects"},
                        {start + "c__torch__\nName", "ends too early"},
                        {start + "G\1.", "ends too early"},
                        {start, "ends too early"},
                        {start + "i.", "has steps that no TorchScript archive has"}}) {
    const std::string file = (folder_ / "harm.pt").string();
    {
      caffe2::serialize::PyTorchStreamWriter writer(file);
      writer.writeRecord("data.pkl", c.pickle.data(), c.pickle.size());
      writer.writeRecord("constants.pkl", "\x80\x02).", 4);
      writer.writeEndOfFile();
    }
    expect_contains(message(file), c.says);
  }
}

TEST_F(ArchiveFile, RandomDamageNeverCrashes) {
  example_module().save((folder_ / "m.pt").string());
  const std::string bytes = read_bytes(folder_ / "m.pt");
  uint64_t state = 1;
  int refused = 0;
  for (int round = 0; round < 30; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 3; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      damaged[(state >> 33) % damaged.size()] = static_cast<char>(state >> 25);
    }
    try {
      load_parameters(write("r.pt", damaged));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5);
}

TEST_F(ArchiveFile, Sha256OfKnownTexts) {
  EXPECT_EQ(file_sha256(write("a", "")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(file_sha256(write("b", "abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(file_sha256(write("c", std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(file_sha256(write("d", std::string(size_t{1} << 20, 'x'))).size(), 64U);
}

}  // namespace
}  // namespace hdfnet
