# LibTorch's messages name source files, its own headers too: what is given to others does not say where it
# was built. For packages only: in daily work the paths help, and compiler caches do not see through nvcc's.
file(REAL_PATH "${HDFNET_TORCH_ROOT}" _torch)
foreach(_map IN ITEMS "${PROJECT_SOURCE_DIR}=." "${HDFNET_TORCH_ROOT}=libtorch" "${_torch}=libtorch")
  target_compile_options(hdfnet_build_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${_map}>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${_map}>)
endforeach()
