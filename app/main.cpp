#include <unistd.h>

#include <iostream>
#include <opencv2/core/utility.hpp>
#include <string>
#include <vector>

#include "application.h"
#include "image/read.h"
#include "torch_network.h"

int main(int argc, char** argv) {
  hdfnet::app::enable_openexr();
  cv::setNumThreads(1);  // the pipeline's own threads work on one picture each
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto provider = hdfnet::app::make_torch_provider();
  const int status = hdfnet::app::run_application(
      arguments, *provider, {std::cin, std::cout, std::cerr, isatty(STDERR_FILENO) != 0});
  std::cout << std::flush;
  if (std::cout) return status;
  std::cerr << "error: the standard output could not be written completely\n";
  return status == 0 ? 1 : status;
}
