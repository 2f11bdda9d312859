#pragma once

namespace hdfnet {

/// Registers the operators of libhdfnet_ops with LibTorch's dispatcher, as torch.ops.hdfnet.*, for
/// TorchScript archives that call them. Includes nothing of LibTorch.
///
/// Loading libhdfnet_ops.so does it already. Call it, once and from anywhere before the first
/// torch::jit::load, in a program that links the library: with -Wl,--as-needed the call is what
/// keeps libhdfnet_ops.so among the program's libraries, and of the static libhdfnet_ops.a it is
/// what brings the operators into the program. (hdfnet::ops:: functions, and hdfnet::Engine, call
/// it by themselves.)
///
/// Further calls, also from other threads and in a process that holds a second copy of the library,
/// do nothing. Throws std::runtime_error where the process runs a LibTorch of another major or
/// minor version than the library was compiled for; nothing is then registered. (A call during
/// dlopen writes the sentence to the standard error instead.)
void register_ops();

}  // namespace hdfnet
