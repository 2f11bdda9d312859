// The emulated card's threads and barriers. Built without ThreadSanitizer, which is told what
// orders what: only that, not how it is done here.
#include "card.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tensor_copies.h"

// Sanitizers follow stacks and threads by these, where there are any.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom,
                                                  std::size_t size);
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* start, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* start, std::size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom,
                                                   std::size_t* size);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace hdfnet::emulated {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
constexpr std::size_t kWindow = 1024;  // addresses' bits below it mean something
constexpr int kMostThreads = 1024;
constexpr std::size_t kMostJobs = 4096;

void release(const void* address) {
  if (__tsan_release != nullptr) __tsan_release(const_cast<void*>(address));
}
void acquire(const void* address) {
  if (__tsan_acquire != nullptr) __tsan_acquire(const_cast<void*>(address));
}

/// What ThreadSanitizer takes for a thread.
class Identity {
 public:
  void begin() {
    if (__tsan_create_fiber != nullptr) fiber_ = __tsan_create_fiber(0);
  }
  void end() {
    if (fiber_ != nullptr) __tsan_destroy_fiber(fiber_);
    fiber_ = nullptr;
  }
  void take() const {
    constexpr unsigned kNoOrder = 1;
    if (fiber_ != nullptr) __tsan_switch_to_fiber(fiber_, kNoOrder);
  }
  static Identity current() {
    Identity identity;
    if (__tsan_get_current_fiber != nullptr) identity.fiber_ = __tsan_get_current_fiber();
    return identity;
  }

 private:
  void* fiber_ = nullptr;
};

/// memcpy of words, of which ThreadSanitizer does not know.
void copy_words(void* to, const void* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes / 4; ++i) {
    static_cast<volatile unsigned*>(to)[i] = static_cast<const volatile unsigned*>(from)[i];
  }
}

/// Stacks are kept from one block to the next.
unsigned char* stack(int i) {
  static std::array<unsigned char*, kMostThreads> all{};
  unsigned char*& one = all[static_cast<std::size_t>(i)];
  if (one == nullptr) {
    void* const memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for stacks");
    one = static_cast<unsigned char*>(memory);
  }
  return one;
}

struct Thread {
  int number = 0;
  uint3 index{};
  ucontext_t context{};
  Identity identity;
  void* fake_stack = nullptr;
  unsigned exchanges = 0;
  int jobs = 0;                     // of the engine, without a barrier
  bool stores = false;              // asked for, and not waited for
  const void* waits_for = nullptr;  // a barrier's address, or that of `jobs`
  Locals locals;
};

/// Threads that go on when all of them are there. Those that have ended count as there.
struct Gathering {
  int expected = 0;
  int arrived = 0;
  unsigned phase = 0;
  char orders[2]{};
  std::vector<int> waiting;
};

struct Warp {
  Gathering gathering;
  alignas(16) unsigned char values[2][32 * 64];
};

struct Job {
  std::function<void()> work;
  std::uint64_t* barrier = nullptr;
  std::int64_t bytes = 0;
  Thread* asker = nullptr;
  char* order = nullptr;
};

/// Of the block that runs.
struct Block {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Gathering all;
  std::array<Gathering, 16> some;
  std::vector<int> ready;
  unsigned char* window = nullptr;  // kWindow bytes longer than what is asked for
  unsigned char* shared = nullptr;  // null before the kernel has said how it is aligned
  std::size_t shared_bytes = 0;
  ucontext_t scheduler{};
  Identity identity;
  void* fake_stack = nullptr;
  const void* stack_bottom = nullptr;
  std::size_t stack_size = 0;
  int running = 0;
  char begin = 0, end = 0;
  const std::function<void()>* kernel = nullptr;
};
Block* block = nullptr;
Thread* me = nullptr;
std::mt19937 chance;
std::vector<Job> jobs;
std::int64_t products_asked_for = 0;

/// From a thread to the scheduler, until the thread is ready again.
void leave(bool for_ever) {
  Thread& thread = *me;
  block->identity.take();
  if (__sanitizer_start_switch_fiber != nullptr) {
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &thread.fake_stack, block->stack_bottom,
                                   block->stack_size);
  }
  swapcontext(&thread.context, &block->scheduler);
  if (__sanitizer_finish_switch_fiber != nullptr) {
    __sanitizer_finish_switch_fiber(thread.fake_stack, nullptr, nullptr);
  }
}

void go_on_with(Thread& thread) {
  me = &thread;
  threadIdx = thread.index;
  if (__sanitizer_start_switch_fiber != nullptr) {
    __sanitizer_start_switch_fiber(&block->fake_stack, stack(thread.number), kStackBytes);
  }
  thread.identity.take();
  swapcontext(&block->scheduler, &thread.context);
  if (__sanitizer_finish_switch_fiber != nullptr) {
    __sanitizer_finish_switch_fiber(block->fake_stack, nullptr, nullptr);
  }
  me = nullptr;
}

/// Whoever waits for this becomes ready.
void wake(const void* waited_for) {
  for (Thread& thread : block->threads) {
    if (thread.waits_for != waited_for) continue;
    thread.waits_for = nullptr;
    block->ready.push_back(thread.number);
  }
}

void sleep_until(const void* woken) {
  me->waits_for = woken;
  leave(false);
}

void complete(Gathering& g) {
  g.arrived = 0;
  ++g.phase;
  for (const int thread : g.waiting) block->ready.push_back(thread);  // insert() is memmove()
  g.waiting.clear();
}

void meet(Gathering& g) {
  if (++g.arrived == g.expected) {
    complete(g);
  } else {
    g.waiting.push_back(me->number);
    leave(false);
  }
}

/// The same, and what was done before is seen behind it.
void synchronize(Gathering& g) {
  const void* const order = &g.orders[g.phase % 2];
  release(order);
  meet(g);
  acquire(order);
}

void end_of(Gathering& g) {
  --g.expected;
  if (g.expected > 0 && g.arrived == g.expected) complete(g);
}

void begin_thread() {
  if (__sanitizer_finish_switch_fiber != nullptr) {
    __sanitizer_finish_switch_fiber(nullptr, &block->stack_bottom, &block->stack_size);
  }
  acquire(&block->begin);
  (*block->kernel)();
  if (me->stores) fail("a thread ends before the stores that it asked for");
  me->locals.clear();
  release(&block->end);
  end_of(block->warps[static_cast<std::size_t>(me->number) / 32].gathering);
  end_of(block->all);
  --block->running;
  leave(true);
}

Warp& my_warp() {
  return block->warps[static_cast<std::size_t>(me->number) / 32];
}

// A barrier in shared memory: the phase's parity, arrivals to come and of a phase, bytes to come,
// and a sign that it is one.
struct State {
  unsigned parity, pending, expected;
  std::int32_t bytes;
};
constexpr std::uint64_t kSign = 0x2b;

void write(std::uint64_t* barrier, const State& s) {
  *barrier = s.parity | std::uint64_t{s.pending} << 1 | std::uint64_t{s.expected} << 13 |
             std::uint64_t{static_cast<std::uint32_t>(s.bytes)} << 25 | kSign << 57;
}
State read(const std::uint64_t* barrier) {
  check_shared(barrier, 8, 8);
  const std::uint64_t word = *barrier;
  if (word >> 57 != kSign) fail("a barrier that nobody started");
  return {static_cast<unsigned>(word & 1), static_cast<unsigned>(word >> 1 & 0xfff),
          static_cast<unsigned>(word >> 13 & 0xfff), static_cast<std::int32_t>(word >> 25)};
}

/// Arrivals and bytes; completes the phase with the last of both.
void change(std::uint64_t* barrier, unsigned arrivals, std::int64_t bytes) {
  State s = read(barrier);
  if (s.pending < arrivals) fail("more arrivals at a barrier than it was started for");
  s.pending -= arrivals;
  s.bytes += static_cast<std::int32_t>(bytes);
  const bool completes = s.pending == 0 && s.bytes == 0;
  if (completes) {
    s.parity ^= 1;
    s.pending = s.expected;
  }
  write(barrier, s);
  if (completes) wake(barrier);
}

/// Does one of the copy engine's jobs, as if by a thread of its own.
void do_job() {
  std::swap(jobs[chance() % jobs.size()], jobs.back());
  Job job = std::move(jobs.back());
  jobs.pop_back();
  Identity engine;
  engine.begin();
  engine.take();
  acquire(job.order);
  job.work();
  job.work = nullptr;
  delete job.order;
  release(job.barrier != nullptr ? static_cast<const void*>(job.barrier) : &job.asker->jobs);
  block->identity.take();
  engine.end();
  if (job.barrier != nullptr) {
    change(job.barrier, 0, -job.bytes);
  } else if (--job.asker->jobs == 0) {
    wake(&job.asker->jobs);
  }
}

/// Nobody can go on.
[[noreturn]] void say_who_waits() {
  for (const Thread& thread : block->threads) {
    const auto* const place = static_cast<const unsigned char*>(thread.waits_for);
    if (place == nullptr || place < block->shared || place >= block->shared + block->shared_bytes) {
      continue;
    }
    const State s = read(reinterpret_cast<const std::uint64_t*>(place));
    std::fprintf(stderr, "Thread %d waits at byte %td of shared memory: %u arrivals, %d bytes\n",
                 thread.number, place - block->shared, s.pending, s.bytes);
  }
  fail("threads wait for ever");
}

void run_block(dim3 block_size, std::size_t shared_bytes, const std::function<void()>& kernel) {
  const int threads = static_cast<int>(block_size.x * block_size.y * block_size.z);
  if (threads < 1 || threads > kMostThreads) fail("a block of no threads, or of more than 1024");
  Block now;
  block = &now;
  now.kernel = &kernel;
  now.identity = Identity::current();
  now.running = threads;
  now.warps = std::vector<Warp>(static_cast<std::size_t>(threads + 31) / 32);
  // Nothing that a thread adds to is allocated anew: it would be another thread's memory.
  now.all.waiting.reserve(kMostThreads);
  for (Gathering& some : now.some) some.waiting.reserve(kMostThreads);
  for (std::size_t w = 0; w < now.warps.size(); ++w) {
    now.warps[w].gathering.waiting.reserve(32);
    now.warps[w].gathering.expected = std::min(32, threads - static_cast<int>(w) * 32);
  }
  now.all.expected = threads;
  now.shared_bytes = shared_bytes;
  void* memory = nullptr;
  if (posix_memalign(&memory, kWindow, shared_bytes + kWindow) != 0) {
    fail("no memory for a block");
  }
  const std::unique_ptr<void, void (*)(void*)> shared(memory, &std::free);
  now.window = static_cast<unsigned char*>(memory);
  std::memset(now.window, 0xff, shared_bytes + kWindow);
  now.ready.reserve(kMostThreads);
  jobs.reserve(kMostJobs);
  now.threads = std::vector<Thread>(static_cast<std::size_t>(threads));
  release(&now.begin);
  for (int t = 0; t < threads; ++t) {
    Thread& thread = now.threads[static_cast<std::size_t>(t)];
    const auto number = static_cast<unsigned>(t);
    thread.number = t;
    thread.index = {number % block_size.x, number / block_size.x % block_size.y,
                    number / block_size.x / block_size.y};
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = stack(t);
    thread.context.uc_stack.ss_size = kStackBytes;
    makecontext(&thread.context, &begin_thread, 0);
    thread.context.uc_stack = {};  // or AddressSanitizer forgets at every change what lies there
    if (__asan_unpoison_memory_region != nullptr) {
      __asan_unpoison_memory_region(stack(t), kStackBytes);
    }
    thread.identity.begin();
    now.ready.push_back(t);
  }
  while (now.running > 0) {
    if (!jobs.empty() && (now.ready.empty() || chance() % 64 == 0)) {
      do_job();
      continue;
    }
    if (now.ready.empty()) say_who_waits();
    std::swap(now.ready[chance() % now.ready.size()], now.ready.back());
    Thread& thread = now.threads[static_cast<std::size_t>(now.ready.back())];
    now.ready.pop_back();
    go_on_with(thread);
  }
  if (!jobs.empty()) fail("the block ended before its copies");
  acquire(&now.end);
  for (Thread& thread : now.threads) thread.identity.end();
  block = nullptr;
}

}  // namespace

Card& card() {
  static Card only;
  return only;
}

std::int64_t products() {
  return products_asked_for;
}

void order_differently(unsigned seed) {
  chance.seed(seed);
}

int lane() {
  return me->number % 32;
}

Locals& locals() {
  return me->locals;
}

unsigned char* dynamic_shared(std::size_t alignment) {
  if (block->shared == nullptr) {
    block->shared = block->window + alignment % kWindow;
    if (__asan_poison_memory_region != nullptr) {
      const std::size_t before = alignment % kWindow;
      __asan_poison_memory_region(block->window, before);
      __asan_poison_memory_region(block->shared + block->shared_bytes, kWindow - before);
    }
  }
  return block->shared;
}

std::size_t offset_in_shared(const void* pointer) {
  check_shared(pointer, 1, 1);
  return static_cast<std::size_t>(static_cast<const unsigned char*>(pointer) - block->window);
}

unsigned char* shared_at(std::size_t offset) {
  return block->window + offset;
}

void check_shared(const void* pointer, std::size_t bytes, std::size_t alignment) {
  const auto* const place = static_cast<const unsigned char*>(pointer);
  if (block->shared == nullptr || place < block->shared ||
      place + bytes > block->shared + block->shared_bytes) {
    fail("an address outside of shared memory");
  }
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    fail("an address that is not aligned");
  }
}

void synchronize_block() {
  synchronize(block->all);
}

void synchronize_some(int id, int threads) {
  Gathering& some = block->some.at(static_cast<std::size_t>(id));
  if (some.arrived > 0 && some.expected != threads) {
    fail("one barrier of some threads with two numbers of them");
  }
  some.expected = threads;
  synchronize(some);
}

void synchronize_warp() {
  synchronize(my_warp().gathering);
}

void exchange_in_warp(const void* mine, std::size_t size, void* all, int first, int count) {
  Warp& warp = my_warp();
  // Two places in turns: nobody comes to the third before everyone has read the first.
  unsigned char* const values = warp.values[me->exchanges++ % 2];
  copy_words(values + static_cast<std::size_t>(lane()) * size, mine, size);
  meet(warp.gathering);
  copy_words(all, values + static_cast<std::size_t>(first) * size,
             static_cast<std::size_t>(count) * size);
}

void start_barrier(std::uint64_t* barrier, int arrivals) {
  const auto expected = static_cast<unsigned>(arrivals);
  check_shared(barrier, 8, 8);
  write(barrier, {0, expected, expected, 0});
}

void arrive(std::uint64_t* barrier, std::int64_t bytes_to_come) {
  release(barrier);
  change(barrier, 1, bytes_to_come);
}

void wait(std::uint64_t* barrier, unsigned parity) {
  while (read(barrier).parity == (parity & 1)) sleep_until(barrier);
  acquire(barrier);
}

void ask_engine(std::function<void()> job, std::uint64_t* barrier, std::int64_t bytes) {
  if (jobs.size() == kMostJobs) fail("more copies under way than the emulated engine holds");
  if (barrier == nullptr) {
    ++me->jobs;
    me->stores = true;
  }
  char* const order = new char;
  release(order);
  jobs.push_back({std::move(job), barrier, bytes, me, order});
}

void wait_for_engine() {
  while (me->jobs != 0) sleep_until(&me->jobs);
  me->stores = false;
  acquire(&me->jobs);
}

void count_product() {
  ++products_asked_for;
}

void fail(const char* what) {
  std::fprintf(stderr, "The emulated card: %s\n", what);
  std::abort();
}

void run(dim3 grid, dim3 size, std::size_t shared_bytes, const std::function<void()>& kernel) {
  gridDim = grid;
  blockDim = size;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block(size, shared_bytes, kernel);
      }
    }
  }
}

}  // namespace hdfnet::emulated

// The runtime's functions, as far as launches ask them.
using hdfnet::emulated::card;

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  card().context_is_bound = true;
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = card().processors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = card().major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = card().minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 * 1024;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 * 1024;
      return cudaSuccess;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = 1024;
      return cudaSuccess;
    default:
      return cudaErrorNotSupported;
  }
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute attribute, int value) {
  return attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value <= 227 * 1024
             ? cudaSuccess
             : cudaErrorInvalidValue;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          size_t shared_bytes) {
  *blocks = std::min(2048 / threads, static_cast<int>(228 * 1024 / (shared_bytes + 1024)));
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
#else
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* result) {
#endif
  const bool found = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *function = found ? reinterpret_cast<void*>(&hdfnet::emulated::encode) : nullptr;
  *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
}
