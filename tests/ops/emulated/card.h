#pragma once

// A card of compute capability 9.0 that the processor emulates, so that kernels run, slowly, where
// there is no GPU: the .cu files are compiled as C++ (launches.cmake rewrites what C++ has no word
// for), with the headers beside this one in place of those that hold PTX.
//
// A block's threads run in turns, and change at barriers, in an order drawn by chance, but the same
// in every run. What is not there yet shows: dynamic shared memory begins as NaN, what a copy or a
// product is under way to is NaN as well until it has been waited for, a product whose operand
// changes meanwhile is NaN, and the copy engine does what it is asked for at any time, in any
// order. Threads that wait for ever end the program. Built with ThreadSanitizer, accesses that no
// barrier orders are reported, the copy engine's and the products' as well. Blocks run one after
// another.
//
// Not modelled: the proxies' fences, loads that an arrival overtakes, wgmma.fence and whether all
// of a warpgroup is there, setmaxnreg, launches that overlap, bank conflicts, time. Static shared
// memory begins as the block before left it. ldmatrix and waits for products order all of a warp's
// accesses.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace hdfnet::emulated {

/// What the card says of itself.
struct Card {
  int processors = 132;
  int major = 9;
  int minor = 0;
  bool context_is_bound = true;  ///< to the thread: cudaSetDevice does it
};
Card& card();

/// How many products of warpgroups threads have asked for since the program began.
std::int64_t products();

/// Another order of threads and copies from here on.
void order_differently(unsigned seed);

/// What the thread that runs keeps, by kind.
using Locals = std::vector<std::shared_ptr<void>>;
Locals& locals();
enum class Local { kCopies, kProducts };
template <typename T, Local kWhich>
T& local() {
  Locals& all = locals();
  constexpr auto kPlace = static_cast<std::size_t>(kWhich);
  if (all.size() <= kPlace) all.resize(kPlace + 1);
  if (all[kPlace] == nullptr) all[kPlace] = std::make_shared<T>();
  return *static_cast<T*>(all[kPlace].get());
}

// Of the thread that runs.
int lane();
/// The block's dynamic shared memory, at no higher alignment than the kernel asks for.
unsigned char* dynamic_shared(std::size_t alignment = 16);
/// Addresses of the window that shared memory lies in, and back.
std::size_t offset_in_shared(const void* pointer);
unsigned char* shared_at(std::size_t offset);
/// The program ends where `bytes` from there on are not the block's, or not aligned.
void check_shared(const void* pointer, std::size_t bytes, std::size_t alignment);

void synchronize_block();
/// Barrier `id` (above 0) of `threads` threads.
void synchronize_some(int id, int threads);
void synchronize_warp();

/// Every lane gives `size` bytes, words of up to 64, and gets those of `count` lanes one after
/// another. It orders nothing.
void exchange_in_warp(const void* mine, std::size_t size, void* all, int first = 0, int count = 32);

// Barriers in shared memory.
void start_barrier(std::uint64_t* barrier, int arrivals);
void arrive(std::uint64_t* barrier, std::int64_t bytes_to_come);
void wait(std::uint64_t* barrier, unsigned parity);

/// Gives the copy engine a job; when it is done `bytes` arrive at the barrier (may be null).
void ask_engine(std::function<void()> job, std::uint64_t* barrier, std::int64_t bytes);
/// Waits for this thread's jobs that have no barrier.
void wait_for_engine();

void count_product();

/// Ends the program: the kernel does what the card cannot, or waits for ever.
[[noreturn]] void fail(const char* what);

/// Runs a kernel's blocks, one after another, and returns when all have ended.
void run(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread);

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;

  Configuration(dim3 blocks, dim3 threads, std::size_t bytes, cudaStream_t of_stream)
      : grid(blocks), block(threads), shared_bytes(bytes), stream(of_stream) {}
};

template <typename... Parameters>
struct Launch {
  void (*kernel)(Parameters...);
  Configuration configuration;
};

/// kernel | Configuration(...) | std::forward_as_tuple(...) is kernel<<<...>>>(...).
template <typename... Parameters>
Launch<Parameters...> operator|(void (*kernel)(Parameters...), const Configuration& configuration) {
  return {kernel, configuration};
}

template <typename... Parameters, typename... Arguments>
void operator|(const Launch<Parameters...>& launch, std::tuple<Arguments...> arguments) {
  const Configuration& c = launch.configuration;
  run(c.grid, c.block, c.shared_bytes, [&] {
    std::apply([&](auto&&... each) { launch.kernel(static_cast<Parameters>(each)...); }, arguments);
  });
}

}  // namespace hdfnet::emulated

#include "builtins.h"
