// A TorchScript host as others write them, which knows LibTorch alone; prepare() is what its build
// adds. Runs an archive on stored inputs:
//
//   host ARCHIVE INPUTS OUTPUTS [OPERATOR_LIBRARY]
//
// INPUTS is a list of argument tuples saved by torch.save; OUTPUTS, a tuple, is for torch.load.
#include <dlfcn.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

void prepare();

namespace {

std::vector<char> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() > 3 && dlopen(arguments[3].c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    throw std::runtime_error(dlerror());
  }
  prepare();
  torch::jit::Module network = torch::jit::load(arguments.at(0), at::kCPU);
  std::vector<c10::IValue> outputs;
  const c10::IValue cases = torch::jit::pickle_load(read(arguments.at(1)));
  for (const c10::IValue& inputs : cases.toListRef()) {
    outputs.push_back(network.forward(inputs.toTupleRef().elements().vec()));
  }
  const std::vector<char> bytes = torch::jit::pickle_save(c10::ivalue::Tuple::create(outputs));
  std::ofstream(arguments.at(2), std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
