#include "compare_command.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "compare.h"
#include "report_options.h"

namespace hdfnet::bench {
namespace {

struct Options {
  std::string first;
  std::string second;
  ReportOptions report;
};

TimedReport read_file(const std::string& file) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) throw std::runtime_error(file + ": cannot be read");
  return parse_timed_report(text, file);
}

Row line_of(const ComparedRow& row) {
  const bool both = row.change != Change::gone && row.change != Change::added;
  Row line;
  line["what"] = row.name;
  line["A ms"] = row.change == Change::added ? Row() : Row(row.first.median);
  line["B ms"] = row.change == Change::gone ? Row() : Row(row.second.median);
  line["A/B"] = both ? Row(row.ratio()) : Row();
  line["change"] = name(row.change);
  return line;
}

int run_compare(const Options& options) {
  const Comparison comparison = compare(read_file(options.first), read_file(options.second));
  Row environment;
  environment["A"] = options.first;
  environment["B"] = options.second;
  for (const Comparison::Setting& setting : comparison.settings) {
    environment[setting.name] = setting.first + " -> " + setting.second;
  }
  std::vector<Row> rows;
  for (const ComparedRow& row : comparison.rows) rows.push_back(line_of(row));
  options.report.write(environment, rows);
  return 0;
}

}  // namespace

void add_compare_command(CLI::App& app, std::function<int()>& run) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compare",
      "What changed between two reports: hdfnet-infer --timing-json, or ops or network with "
      "--format json. Faster and slower mean that the ranges from the 5th to the 95th percentile "
      "do not overlap");
  command->add_option("A", options->first, "the first report")->required();
  command->add_option("B", options->second, "the second report")->required();
  options->report.add_to(*command);
  command->callback([options, &run] { run = [options] { return run_compare(*options); }; });
}

}  // namespace hdfnet::bench
