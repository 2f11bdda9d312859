#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace hdfnet::bench {

/// Columns of a row in their order; values are numbers, strings, booleans or null.
using Row = nlohmann::ordered_json;

enum class Format { kTable, kMarkdown, kCsv, kJson };

/// Of "table", "md", "csv" or "json".
Format parse_format(const std::string& name);

/// Writes rows that share their columns. JSON also gets `environment` (device, versions, settings).
void write_report(std::ostream& out, Format format, const Row& environment,
                  const std::vector<Row>& rows);

/// The same to a file, or to the standard output where `file` is empty. Throws std::runtime_error
/// when it cannot be written.
void write_report_to(const std::string& file, Format format, const Row& environment,
                     const std::vector<Row>& rows);

}  // namespace hdfnet::bench
