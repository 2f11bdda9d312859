#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <iostream>

#include "compare_command.h"
#include "folder_bench.h"
#include "hdfnet/version.h"
#include "network_bench.h"
#include "ops_bench.h"
#include "roofline_bench.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Times HDFNet's operators, the network, and the reading and writing around it. Exit status: "
      "0 "
      "every result is right; 1 some is not; 2 usage.");
  app.name("hdfnet-bench");
  app.set_version_flag("--version", "hdfnet-bench " HDFNET_VERSION);
  app.require_subcommand(1);
  std::function<int()> run;
  hdfnet::bench::add_ops_command(app, run);
  hdfnet::bench::add_network_command(app, run);
  hdfnet::bench::add_roofline_command(app, run);
  hdfnet::bench::add_folder_command(app, run);
  hdfnet::bench::add_compare_command(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    const int status = run();
    std::cout << std::flush;
    if (!std::cout) throw std::runtime_error("the standard output could not be written completely");
    return status;
  } catch (const c10::Error& error) {
    std::cerr << "hdfnet-bench: " << error.what_without_backtrace() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "hdfnet-bench: " << error.what() << "\n";
    return 2;
  }
}
