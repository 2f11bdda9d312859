#include "eval/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace hdfnet::eval {
namespace {

using nlohmann::ordered_json;

struct Column {
  const char* key;    ///< in JSON and CSV
  const char* title;  ///< for people
  double Summary::*value;
};

constexpr Column kColumns[] = {
    {"mae", "MAE", &Summary::mae},
    {"max_f", "max F", &Summary::max_f},
    {"mean_f", "mean F", &Summary::mean_f},
    {"adaptive_f", "adaptive F", &Summary::adaptive_f},
    {"weighted_f", "weighted F", &Summary::weighted_f},
    {"s_measure", "S-measure", &Summary::structure},
    {"max_e", "max E", &Summary::max_e},
    {"mean_e", "mean E", &Summary::mean_e},
    {"adaptive_e", "adaptive E", &Summary::adaptive_e},
};

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

ordered_json to_object(const Summary& summary) {
  ordered_json object;
  for (const Column& column : kColumns) object[column.key] = summary.*column.value;
  return object;
}

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string result = "\"";
  for (const char c : field) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

std::string csv_line(const std::string& name, const Summary& summary) {
  std::string line = quoted(name);
  for (const Column& column : kColumns) {
    line += ',';
    line += number(summary.*column.value, "%.17g");
  }
  return line + "\r\n";
}

}  // namespace

std::string to_table(const Summary& summary, std::size_t images) {
  std::string table = std::to_string(images) + (images == 1 ? " image\n" : " images\n");
  for (const Column& column : kColumns) {
    char line[64];
    std::snprintf(line, sizeof line, "  %-11s %.4f\n", column.title, summary.*column.value);
    table += line;
  }
  return table;
}

std::string to_json(const Summary& summary, const FolderScores& folder) {
  ordered_json document;
  document["images"] = folder.scores.size();
  document["beta_squared"] = kBetaSquared;
  document["mean"] = to_object(summary);
  ordered_json thresholds = ordered_json::array();
  for (int threshold = 255; threshold >= 0; --threshold) thresholds.push_back(threshold);
  document["curves"] = {{"threshold", thresholds},
                        {"precision", summary.precision},
                        {"recall", summary.recall},
                        {"f_measure", summary.f_measure},
                        {"e_measure", summary.e_measure}};
  document["each"] = ordered_json::array();
  for (std::size_t i = 0; i < folder.scores.size(); ++i) {
    ordered_json image = {{"name", folder.names[i]}};
    image.update(to_object(summarise(folder.scores[i])));
    document["each"].push_back(std::move(image));
  }
  document["failures"] = folder.failures;
  // A name that is not UTF-8 must not spoil the whole file.
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string to_csv(const Summary& summary, const FolderScores& folder) {
  std::string csv = "name";
  for (const Column& column : kColumns) csv += std::string(",") + column.key;
  csv += "\r\n";
  for (std::size_t i = 0; i < folder.scores.size(); ++i) {
    csv += csv_line(folder.names[i], summarise(folder.scores[i]));
  }
  return csv + csv_line("mean", summary);
}

std::string curves_to_csv(const Summary& summary) {
  std::string csv = "threshold,precision,recall,f_measure,e_measure\r\n";
  for (std::size_t i = 0; i < summary.precision.size(); ++i) {
    csv += std::to_string(255 - i);
    for (const Curve* curve :
         {&summary.precision, &summary.recall, &summary.f_measure, &summary.e_measure}) {
      csv += ',';
      csv += number((*curve)[i], "%.17g");
    }
    csv += "\r\n";
  }
  return csv;
}

}  // namespace hdfnet::eval
