#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "report.h"

namespace hdfnet::bench {

/// Where a subcommand's report goes, and in which form.
struct ReportOptions {
  std::string format = "table";
  std::string output;

  /// Adds --format and --output.
  void add_to(CLI::App& command) {
    command.add_option("--format", format, "table, md, csv, json")
        ->check(CLI::IsMember({"table", "md", "csv", "json"}))
        ->capture_default_str();
    command.add_option("--output", output, "a file instead of standard output");
  }

  void write(const Row& environment, const std::vector<Row>& rows) const {
    write_report_to(output, parse_format(format), environment, rows);
  }
};

}  // namespace hdfnet::bench
