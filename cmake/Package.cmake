# `cpack` in the build folder: a .tar.gz to unpack anywhere and a .deb, both of what `cmake --install`
# installs. With HDFNET_BUNDLE_LIBTORCH they bring LibTorch along, without it they expect it in
# HDFNET_TORCH_RPATH.
set(CPACK_PACKAGE_NAME hdfnet-infer)
set(CPACK_PACKAGE_VENDOR "The hdfnet-infer authors")
set(CPACK_PACKAGE_CONTACT "The hdfnet-infer authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "RGB-D salient object detection with HDFNet")
set(CPACK_PACKAGE_DESCRIPTION
  "Finds the salient object in pictures with depth: hdfnet-infer for files, libhdfnet.so for C and C++
programs, libhdfnet_ops.so with the network's operators for LibTorch, hdfnet-eval and hdfnet-bench.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_RESOURCE_FILE_README ${PROJECT_SOURCE_DIR}/README.md)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_THREADS 0)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libopencv-dev, cmake")
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
# What the programs link is told by dpkg-shlibdeps; what comes along is no dependency.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
  ${PROJECT_BINARY_DIR}/lib ${HDFNET_TORCH_ROOT}/lib)
file(GLOB _beside LIST_DIRECTORIES true "${HDFNET_TORCH_ROOT}/../nvidia/*/lib")
list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${_beside})
include(CPack)
