#pragma once

/// Compiles a function for several instruction sets; the loader picks the best that the processor
/// has. Everything the function inlines is compiled along with it.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HDFNET_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HDFNET_VECTOR_CLONES
#endif
