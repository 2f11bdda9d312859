# What `cmake --install` puts where. The tree may be moved as a whole: every path in it is relative, but
# for that of a LibTorch which lies outside of it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# A LibTorch in this source tree (.venv/) goes along, or the installation would hang on the clone; any
# other is the system's or the user's, and is used where it is.
string(FIND "${HDFNET_TORCH_ROOT}/" "${PROJECT_SOURCE_DIR}/" _place)
if(_place EQUAL 0)
  set(_bundle ON)
else()
  set(_bundle OFF)
endif()
option(HDFNET_BUNDLE_LIBTORCH "Install the libraries of LibTorch along, below lib/hdfnet/" ${_bundle})
set(HDFNET_TORCH_RPATH auto CACHE STRING
  "Folder in which the installed programs look for LibTorch; auto: where it is now, or the bundle; empty: none")
set(_torch_rpath "${HDFNET_TORCH_RPATH}")
if(HDFNET_TORCH_RPATH STREQUAL "auto")
  set(_torch_rpath "${HDFNET_TORCH_ROOT}/lib")
  if(HDFNET_BUNDLE_LIBTORCH)
    set(_torch_rpath "")
  endif()
endif()

set(HDFNET_DATA_DIR ${CMAKE_INSTALL_DATADIR}/hdfnet)
set(HDFNET_BUNDLE_DIR ${CMAKE_INSTALL_LIBDIR}/hdfnet)
set(HDFNET_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/HDFNet)

# Run paths: $ORIGIN is the folder of the file that has them.
file(RELATIVE_PATH _to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set(_program_rpath "$ORIGIN/${_to_lib}")
set(_library_rpath "$ORIGIN")
if(HDFNET_BUNDLE_LIBTORCH)
  list(APPEND _program_rpath "$ORIGIN/${_to_lib}/hdfnet/torch/lib")
  list(APPEND _library_rpath "$ORIGIN/hdfnet/torch/lib")
endif()
set(_programs hdfnet-infer hdfnet-eval hdfnet-bench)
set(_libraries hdfnet hdfnet_ops)
set_target_properties(${_programs} PROPERTIES INSTALL_RPATH "${_program_rpath};${_torch_rpath}")
set_target_properties(${_libraries} PROPERTIES INSTALL_RPATH "${_library_rpath};${_torch_rpath}")

# Programs and libraries; the folders ops, eval and bench install their own.
install(TARGETS hdfnet-infer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS hdfnet LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(HDFNET_BUNDLE_LIBTORCH)
  configure_file(cmake/bundle_libtorch.cmake.in bundle_libtorch.cmake @ONLY)
  install(SCRIPT ${PROJECT_BINARY_DIR}/bundle_libtorch.cmake COMPONENT libtorch)
endif()

# Headers.
install(DIRECTORY app/predictor/include/hdfnet model/include/hdfnet
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/generated/hdfnet/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hdfnet)

# What find_package(HDFNet) and pkg-config read.
find_package(OpenCV 4.5 REQUIRED COMPONENTS core)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" _opencv_minor "${OpenCV_VERSION}")
set(_torch_target cpu)
if(HDFNET_WITH_CUDA)
  set(_torch_target cuda)
endif()
set(_torch_hint "")
if(NOT HDFNET_BUNDLE_LIBTORCH)
  set(_torch_hint "${HDFNET_TORCH_ROOT}")
endif()
configure_package_config_file(cmake/HDFNetConfig.cmake.in HDFNetConfig.cmake
  INSTALL_DESTINATION ${HDFNET_CMAKE_DIR}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR HDFNET_DATA_DIR HDFNET_BUNDLE_DIR)
write_basic_package_version_file(HDFNetConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/HDFNetConfig.cmake
  ${PROJECT_BINARY_DIR}/HDFNetConfigVersion.cmake
  DESTINATION ${HDFNET_CMAKE_DIR})
install(FILES cmake/LibTorch.cmake DESTINATION ${HDFNET_CMAKE_DIR} RENAME HDFNetLibTorch.cmake)
file(RELATIVE_PATH _to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/hdfnet.pc.in hdfnet.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/hdfnet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Weights, settings, examples.
install(FILES weights/hdfnet_vgg16.pt DESTINATION ${HDFNET_DATA_DIR}/weights)
install(DIRECTORY configs DESTINATION ${HDFNET_DATA_DIR})
install(DIRECTORY
  examples/rgb examples/depth examples/depth_mm examples/mask
  examples/c examples/cpp examples/live examples/python
  DESTINATION ${HDFNET_DATA_DIR}/examples
  PATTERN __pycache__ EXCLUDE)

# Documents; manual pages and shell completion are made by the build.
install(DIRECTORY ${HDFNET_MANUAL_DIR}/man DESTINATION ${CMAKE_INSTALL_DATADIR})
install(DIRECTORY
  ${HDFNET_MANUAL_DIR}/bash-completion ${HDFNET_MANUAL_DIR}/zsh ${HDFNET_MANUAL_DIR}/fish
  DESTINATION ${CMAKE_INSTALL_DATADIR})
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES weights/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/weights)
install(FILES ops/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/ops)
