#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace hdfnet {

/// Parameters and buffers by their dotted state-dict name, on the CPU, as stored in the archive.
using Parameters = std::map<std::string, at::Tensor>;

/// Reads the parameters and buffers of a TorchScript archive (scripted or traced, PyTorch >= 1.5).
///
/// Only tensors are read: none of the archive's code is compiled or run, and its pickle may build
/// nothing but modules, containers, numbers, strings and tensors.
///
/// Throws Error(weights) with a sentence of its own for: a missing or unreadable file, a Git-LFS
/// pointer, an empty or truncated file, a zip that is no TorchScript archive, a plain state dict
/// (old or new torch.save format), an ONNX file, a frozen archive without parameters.
Parameters load_parameters(const std::filesystem::path& archive);

/// Turns quantised parameters (int8 `NAME` with float `NAME_scale`, one scale per output channel)
/// and fp16/bf16 parameters into float32 tensors; the `_scale` entries are consumed.
Parameters dequantize(const Parameters& stored);

/// One of them, as dequantize() gives it; Error(weights) if there is none of this name.
at::Tensor dequantized(const Parameters& stored, const std::string& name);

/// SHA-256 of the file's bytes, as 64 hexadecimal digits.
std::string file_sha256(const std::filesystem::path& file);

}  // namespace hdfnet
