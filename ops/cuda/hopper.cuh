#pragma once

// Pieces of compute capability 9.0 (built for 90a): barriers in shared memory, the tensor copy
// engine and the products of a warpgroup (128 threads) for two-byte types.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace hdfnet::ops::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void start_barrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

/// Makes started barriers visible to the copy engine; a __syncthreads() must follow.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

/// The order of bytes that changes nothing, for a kernel's arguments: kept from the compiler there.
inline constexpr unsigned kSameOrder = 0x3210;

/// Arrives once `value` has been computed. Reads of shared memory are under way for some time, and
/// an arrival may overtake them; the copy engine does not wait for them. So one that lets it
/// overwrite what was read takes a value made of that. `order` is kSameOrder.
__device__ __forceinline__ void arrive_after(uint64_t* barrier, float value, unsigned order) {
  asm volatile(
      "{\n .reg .b32 address;\n prmt.b32 address, %0, %1, %2;\n"
      " mbarrier.arrive.shared::cta.b64 _, [address];\n}" ::"r"(shared_address(barrier)),
      "r"(__float_as_uint(value)), "r"(order)
      : "memory");
}

/// Arrives, and holds the barrier until `bytes` have been copied as well.
__device__ __forceinline__ void arrive_and_expect(uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

/// Waits until the barrier's phase of that parity is complete.
__device__ __forceinline__ void wait(uint64_t* barrier, uint32_t parity) {
  const uint32_t address = shared_address(barrier);
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        " selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(address), "r"(parity)
        : "memory");
  }
}

/// Brings a tensor map to where the copy engine looks for it.
__device__ __forceinline__ void prefetch_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Copies a box of a tensor of four dimensions to shared memory; what lies outside becomes zero.
__device__ __forceinline__ void copy_box(void* to, const void* map, uint64_t* barrier, int c0,
                                         int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

/// The same of a tensor of five dimensions.
__device__ __forceinline__ void copy_box(void* to, const void* map, uint64_t* barrier, int c0,
                                         int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

/// The same of a tensor of three dimensions.
__device__ __forceinline__ void copy_box(void* to, const void* map, uint64_t* barrier, int c0,
                                         int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%3, %4, %5}], [%2];" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}

/// Copies a box from shared memory to a tensor of four dimensions, except for what lies outside.
__device__ __forceinline__ void store_box(const void* map, const void* from, int c0, int c1, int c2,
                                          int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];\n"
      " cp.async.bulk.commit_group;" ::"l"(map),
      "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

/// Waits until this thread's store_box have read shared memory; until they have written.
__device__ __forceinline__ void wait_for_stores_to_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/// Copies a run of bytes to shared memory; `to`, `from` and `bytes` are multiples of 16.
__device__ __forceinline__ void copy_run(void* to, const void* from, int bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// Four 8 x 8 matrices of two-byte elements, turned: lane l gives the address of row l % 8 of
/// matrix l / 8, and has elements of its column l / 4.
__device__ __forceinline__ void store_matrices(const unsigned (&from)[4], void* row) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                   shared_address(row)),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

/// An operand in shared memory: rows of 64 two-byte elements (128 bytes), in the copy engine's
/// 128-byte exchange; `group_bytes` from one 8 rows to the next. Step 16 elements by adding 2.
__device__ __forceinline__ uint64_t operand(const void* at, int group_bytes) {
  return static_cast<uint64_t>((shared_address(at) & 0x3ffff) >> 4) | uint64_t{1} << 16 |
         static_cast<uint64_t>(group_bytes >> 4) << 32 | uint64_t{1} << 62;
}

/// Makes what this thread wrote to shared memory visible to products.
__device__ __forceinline__ void publish_operands() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

#define HDFNET_R8(d, i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])

/// multiply_add(d, a, b, keep, T()): d += a * b, 64 rows, 16 products each; `keep` 0 forgets d's
/// former values. With a in shared memory 64 or 128 columns, with a in registers 32, 48 or 64; d
/// holds half as many values a thread as there are columns.
#define HDFNET_PRODUCTS(T, name)                                                                  \
  __device__ __forceinline__ void multiply_add(float(&d)[32], uint64_t a, uint64_t b, int keep,   \
                                               T) {                                               \
    asm volatile(                                                                                 \
        "{\n .reg .pred p;\n setp.ne.b32 p, %34, 0;\n"                                            \
        " wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name                              \
        " {"                                                                                      \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                  \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "                  \
        "%30, %31"                                                                                \
        "}, %32, %33, p, 1, 1, 0, 0;\n}"                                                          \
        : HDFNET_R8(d, 0), HDFNET_R8(d, 8), HDFNET_R8(d, 16), HDFNET_R8(d, 24)                    \
        : "l"(a), "l"(b), "r"(keep));                                                             \
  }                                                                                               \
  __device__ __forceinline__ void multiply_add(float(&d)[64], uint64_t a, uint64_t b, int keep,   \
                                               T) {                                               \
    asm volatile(                                                                                 \
        "{\n .reg .pred p;\n setp.ne.b32 p, %66, 0;\n"                                            \
        " wgmma.mma_async.sync.aligned.m64n128k16.f32." name "." name                             \
        " {"                                                                                      \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                  \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "                  \
        "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "                  \
        "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "                  \
        "%58, %59, %60, %61, %62, %63"                                                            \
        "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                          \
        : HDFNET_R8(d, 0), HDFNET_R8(d, 8), HDFNET_R8(d, 16), HDFNET_R8(d, 24), HDFNET_R8(d, 32), \
          HDFNET_R8(d, 40), HDFNET_R8(d, 48), HDFNET_R8(d, 56)                                    \
        : "l"(a), "l"(b), "r"(keep));                                                             \
  }                                                                                               \
  __device__ __forceinline__ void multiply_add(float(&d)[16], const uint32_t(&a)[4], uint64_t b,  \
                                               int keep, T) {                                     \
    asm volatile(                                                                                 \
        "{\n .reg .pred p;\n setp.ne.b32 p, %21, 0;\n"                                            \
        " wgmma.mma_async.sync.aligned.m64n32k16.f32." name "." name                              \
        " {"                                                                                      \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"                    \
        "}, {%16, %17, %18, %19}, %20, p, 1, 1, 0;\n}"                                            \
        : HDFNET_R8(d, 0), HDFNET_R8(d, 8)                                                        \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));                         \
  }                                                                                               \
  __device__ __forceinline__ void multiply_add(float(&d)[24], const uint32_t(&a)[4], uint64_t b,  \
                                               int keep, T) {                                     \
    asm volatile(                                                                                 \
        "{\n .reg .pred p;\n setp.ne.b32 p, %29, 0;\n"                                            \
        " wgmma.mma_async.sync.aligned.m64n48k16.f32." name "." name                              \
        " {"                                                                                      \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                  \
        "%16, %17, %18, %19, %20, %21, %22, %23"                                                  \
        "}, {%24, %25, %26, %27}, %28, p, 1, 1, 0;\n}"                                            \
        : HDFNET_R8(d, 0), HDFNET_R8(d, 8), HDFNET_R8(d, 16)                                      \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));                         \
  }                                                                                               \
  __device__ __forceinline__ void multiply_add(float(&d)[32], const uint32_t(&a)[4], uint64_t b,  \
                                               int keep, T) {                                     \
    asm volatile(                                                                                 \
        "{\n .reg .pred p;\n setp.ne.b32 p, %37, 0;\n"                                            \
        " wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name                              \
        " {"                                                                                      \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                  \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "                  \
        "%30, %31"                                                                                \
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"                                            \
        : HDFNET_R8(d, 0), HDFNET_R8(d, 8), HDFNET_R8(d, 16), HDFNET_R8(d, 24)                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));                         \
  }

HDFNET_PRODUCTS(__half, "f16")
HDFNET_PRODUCTS(__nv_bfloat16, "bf16")
#undef HDFNET_PRODUCTS

/// TF32: d += a * b, 64 rows, 48 columns, 8 products each; operand b's rows are 32 floats then.
__device__ __forceinline__ void multiply_add(float (&d)[24], const uint32_t (&a)[4], uint64_t b,
                                             int keep, float) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %29, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n48k8.f32.tf32.tf32"
      " {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23"
      "}, {%24, %25, %26, %27}, %28, p, 1, 1;\n}"
      : HDFNET_R8(d, 0), HDFNET_R8(d, 8), HDFNET_R8(d, 16)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));
}

/// Nothing that uses d moves above this.
__device__ __forceinline__ void hold(float (&d)[24]) {
  asm volatile("" : HDFNET_R8(d, 0), HDFNET_R8(d, 8), HDFNET_R8(d, 16)::"memory");
}

#undef HDFNET_R8

}  // namespace hdfnet::ops::cuda
