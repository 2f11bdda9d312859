#include <iostream>

#include "eval/tool.h"

int main(int argc, char** argv) {
  const int status = hdfnet::eval::run({argv + 1, argv + argc}, std::cout, std::cerr);
  std::cout << std::flush;
  if (std::cout) return status;
  std::cerr << "error: the standard output could not be written completely\n";
  return status == 0 ? 1 : status;
}
