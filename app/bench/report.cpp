#include "report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>

namespace hdfnet::bench {
namespace {

std::string text_of(const Row& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "NO";
  if (value.is_number_integer()) return std::to_string(value.get<int64_t>());
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value.get<double>());
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

void write_lines(std::ostream& out, Format format, const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells(1);
  for (const auto& column : rows.front().items()) cells[0].push_back(column.key());
  for (const Row& row : rows) {
    cells.emplace_back();
    for (const auto& column : row.items()) cells.back().push_back(text_of(column.value()));
  }
  std::vector<size_t> widths(cells[0].size());
  for (const auto& line : cells) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  const bool markdown = format == Format::kMarkdown;
  for (size_t r = 0; r < cells.size(); ++r) {
    for (size_t i = 0; i < cells[r].size(); ++i) {
      if (format == Format::kCsv) {
        out << (i > 0 ? "," : "") << csv_cell(cells[r][i]);
      } else {
        out << (markdown ? "| " : "") << std::string(widths[i] - cells[r][i].size(), ' ')
            << cells[r][i] << (markdown ? " " : "  ");
      }
    }
    out << (markdown ? "|\n" : "\n");
    if (markdown && r == 0) {
      for (const size_t width : widths) out << "|" << std::string(width + 1, '-') << ":";
      out << "|\n";
    }
  }
}

}  // namespace

Format parse_format(const std::string& name) {
  static const std::map<std::string, Format> formats = {{"table", Format::kTable},
                                                        {"md", Format::kMarkdown},
                                                        {"csv", Format::kCsv},
                                                        {"json", Format::kJson}};
  const auto found = formats.find(name);
  if (found == formats.end()) {
    throw std::runtime_error("--format: " + name + " is none of table, md, csv and json");
  }
  return found->second;
}

void write_report(std::ostream& out, Format format, const Row& environment,
                  const std::vector<Row>& rows) {
  if (format == Format::kJson) {
    Row document = environment;
    document["rows"] = rows;
    out << document.dump(1) << "\n";
    return;
  }
  if (format != Format::kCsv) {
    for (const auto& entry : environment.items()) {
      out << entry.key() << ": " << text_of(entry.value())
          << (format == Format::kMarkdown ? "  \n" : "\n");
    }
    out << "\n";
  }
  if (!rows.empty()) write_lines(out, format, rows);
}

void write_report_to(const std::string& file, Format format, const Row& environment,
                     const std::vector<Row>& rows) {
  if (file.empty()) {
    write_report(std::cout, format, environment, rows);
    return;
  }
  std::ofstream out(file);
  if (out) write_report(out, format, environment, rows);
  out.close();
  if (!out) throw std::runtime_error("--output " + file + ": cannot be written");
}

}  // namespace hdfnet::bench
