# Makes C++ of a .cu file: cmake -DFROM=F.cu -DTO=F.cpp -P launches.cmake
file(READ "${FROM}" text)
# Semicolons and brackets mean something to CMake's lists, but not to string(REPLACE) of one string.
string(REGEX REPLACE "extern __shared__ __align__\\(([0-9]+)\\) ([a-z ]+) ([a-z_]+)\\[\\];"
  "auto* const \\3 = reinterpret_cast<\\2*>(::hdfnet::emulated::dynamic_shared(\\1));" text "${text}")
string(REGEX REPLACE "extern __shared__ ([a-z ]+) ([a-z_]+)\\[\\];"
  "auto* const \\2 = reinterpret_cast<\\1*>(::hdfnet::emulated::dynamic_shared());" text "${text}")
string(REPLACE "<<<" " | ::hdfnet::emulated::Configuration(" text "${text}")
string(REPLACE ">>>(" ") | std::forward_as_tuple(" text "${text}")
file(WRITE "${TO}" "#include \"card.h\"\n#line 1 \"${FROM}\"\n${text}")
