#pragma once

#include <string>

namespace hdfnet::app {

/// hdfnet-infer's manual page (roff, section 1), from the table of options.
std::string man_page();

/// A manual page made of a program's name and what its --help prints.
std::string man_page_of_help(const std::string& program, const std::string& summary,
                             const std::string& help);

/// Completion of hdfnet-infer's options and of their values, for a shell to source.
std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace hdfnet::app
