// Prints what the build installs beside the programs: hdfnet-manual man|bash|zsh|fish, or
// hdfnet-manual help PROGRAM SUMMARY with the text of --help on the standard input.

#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "manual/manual.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string kind = arguments.empty() ? "" : arguments[0];
  if (kind == "man") {
    std::cout << hdfnet::app::man_page();
  } else if (kind == "bash") {
    std::cout << hdfnet::app::bash_completion();
  } else if (kind == "zsh") {
    std::cout << hdfnet::app::zsh_completion();
  } else if (kind == "fish") {
    std::cout << hdfnet::app::fish_completion();
  } else if (kind == "help" && arguments.size() == 3) {
    const std::string help{std::istreambuf_iterator<char>(std::cin), {}};
    if (help.empty()) return 1;
    std::cout << hdfnet::app::man_page_of_help(arguments[1], arguments[2], help);
  } else {
    std::cerr << "usage: hdfnet-manual man|bash|zsh|fish | help PROGRAM SUMMARY < TEXT\n";
    return 2;
  }
  return std::cout.flush() ? 0 : 1;
}
