# Finds a LibTorch (2.6 or later) and defines the imported targets LibTorch::cpu and, for a CUDA
# build of it, LibTorch::cuda. What keeps it from doing so is a sentence in HDFNET_TORCH_PROBLEM.
# Used by the build, and installed for HDFNetConfig.cmake.
#
# The package's own TorchConfig.cmake locates it: any prefix in CMAKE_PREFIX_PATH or Torch_DIR counts,
# else the folders in HDFNET_TORCH_HINTS. The file itself is read but not run, because for a CUDA build
# it demands a whole CUDA toolkit (even for a CPU-only build of this project) and overwrites
# CMAKE_CUDA_ARCHITECTURES and the CUDA flags with its own.

set(HDFNET_LIBTORCH_MINIMUM 2.6.0)
set(HDFNET_TORCH_PROBLEM "")

find_path(HDFNET_TORCH_CMAKE_DIR TorchConfig.cmake
  HINTS ${Torch_DIR} $ENV{Torch_DIR}
  PATHS ${HDFNET_TORCH_HINTS}
  PATH_SUFFIXES share/cmake/Torch
  DOC "Folder that holds LibTorch's TorchConfig.cmake")
if(NOT HDFNET_TORCH_CMAKE_DIR)
  string(CONCAT HDFNET_TORCH_PROBLEM
    "LibTorch was not found. Give the folder of LibTorch >= ${HDFNET_LIBTORCH_MINIMUM}: "
    "-DCMAKE_PREFIX_PATH=/path/to/libtorch "
    "(for PyTorch from pip: python3 -c 'print(__import__(\"torch\").utils.cmake_prefix_path)').")
  return()
endif()
get_filename_component(HDFNET_TORCH_ROOT "${HDFNET_TORCH_CMAKE_DIR}/../../.." ABSOLUTE)

set(_version "")
if(EXISTS "${HDFNET_TORCH_CMAKE_DIR}/TorchConfigVersion.cmake")
  file(STRINGS "${HDFNET_TORCH_CMAKE_DIR}/TorchConfigVersion.cmake" _line
    REGEX "set\\(PACKAGE_VERSION \"")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" _version "${_line}")
endif()
if(NOT _version)
  string(CONCAT HDFNET_TORCH_PROBLEM
    "The version of LibTorch in ${HDFNET_TORCH_ROOT} cannot be read from "
    "share/cmake/Torch/TorchConfigVersion.cmake: the installation is incomplete.")
  return()
endif()
if(_version VERSION_LESS HDFNET_LIBTORCH_MINIMUM)
  string(CONCAT HDFNET_TORCH_PROBLEM
    "LibTorch ${_version} in ${HDFNET_TORCH_ROOT} is too old: "
    "${HDFNET_LIBTORCH_MINIMUM} or later is needed.")
  return()
endif()
set(HDFNET_TORCH_VERSION ${_version})

# Before 2.7 some packages were built for the pre-C++11 std::string, which no distribution's OpenCV or
# yaml-cpp can be linked with.
file(STRINGS "${HDFNET_TORCH_CMAKE_DIR}/TorchConfig.cmake" _abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
if(_abi)
  string(CONCAT HDFNET_TORCH_PROBLEM
    "LibTorch ${_version} in ${HDFNET_TORCH_ROOT} is built with the old C++ ABI "
    "(_GLIBCXX_USE_CXX11_ABI=0), which the system's OpenCV does not have. Take the 'cxx11 ABI' "
    "package of this version, or 2.7 or later.")
  return()
endif()

set(_torch_libraries libc10.so libtorch_cpu.so)
set(HDFNET_TORCH_HAS_CUDA OFF)
if(EXISTS "${HDFNET_TORCH_ROOT}/lib/libtorch_cuda.so")
  set(HDFNET_TORCH_HAS_CUDA ON)
  list(APPEND _torch_libraries libc10_cuda.so)
endif()
foreach(_library IN LISTS _torch_libraries)
  if(NOT EXISTS "${HDFNET_TORCH_ROOT}/lib/${_library}")
    string(CONCAT HDFNET_TORCH_PROBLEM
      "LibTorch in ${HDFNET_TORCH_ROOT} lacks lib/${_library}: the installation is incomplete.")
    return()
  endif()
endforeach()
if(TARGET LibTorch::cpu)
  return()
endif()

set(_torch_includes
  "${HDFNET_TORCH_ROOT}/include"
  "${HDFNET_TORCH_ROOT}/include/torch/csrc/api/include")

function(_hdfnet_torch_library target file)
  add_library(${target} SHARED IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION "${HDFNET_TORCH_ROOT}/lib/${file}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${_torch_includes}"
    INTERFACE_INCLUDE_DIRECTORIES "${_torch_includes}")
endfunction()

_hdfnet_torch_library(LibTorch::c10 libc10.so)
_hdfnet_torch_library(LibTorch::torch_cpu libtorch_cpu.so)
add_library(LibTorch::cpu INTERFACE IMPORTED GLOBAL)
target_link_libraries(LibTorch::cpu INTERFACE LibTorch::torch_cpu LibTorch::c10)

if(HDFNET_TORCH_HAS_CUDA)
  _hdfnet_torch_library(LibTorch::c10_cuda libc10_cuda.so)
  _hdfnet_torch_library(LibTorch::torch_cuda libtorch_cuda.so)
  # Nothing of ours calls into libtorch_cuda directly, its kernels register themselves when it is
  # loaded; so the linker must not drop it, or every GPU "is not available".
  add_library(LibTorch::cuda INTERFACE IMPORTED GLOBAL)
  target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu LibTorch::c10_cuda)
  target_link_options(LibTorch::cuda INTERFACE
    "-Wl,--no-as-needed,${HDFNET_TORCH_ROOT}/lib/libtorch_cuda.so,--as-needed")
  # pip puts the CUDA libraries that LibTorch needs (cuDNN, cuBLAS, ...) beside the package.
  file(GLOB HDFNET_TORCH_RUNTIME_DIRS LIST_DIRECTORIES true "${HDFNET_TORCH_ROOT}/../nvidia/*/lib")
  if(HDFNET_TORCH_RUNTIME_DIRS)
    string(JOIN ":" _rpath_link ${HDFNET_TORCH_ROOT}/lib ${HDFNET_TORCH_RUNTIME_DIRS})
    target_link_options(LibTorch::cuda INTERFACE "-Wl,-rpath-link,${_rpath_link}")
  endif()
endif()
