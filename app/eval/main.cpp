#include <iostream>

#include "eval/tool.h"

int main(int argc, char** argv) {
  return hdfnet::eval::run({argv + 1, argv + argc}, std::cout, std::cerr);
}
