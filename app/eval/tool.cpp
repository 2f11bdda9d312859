#include "eval/tool.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <span>

#include "eval/folder_match.h"
#include "eval/folder_scores.h"
#include "eval/precision_recall_plot.h"
#include "eval/report.h"
#include "eval/summary.h"
#include "hdfnet/version.h"
#include "image/saliency_output.h"
#include "run/usable_cores.h"

namespace hdfnet::eval {
namespace {

constexpr int kSomeFailed = 1;
constexpr int kUsage = 2;

struct Options {
  std::string predictions, truths;
  std::string prediction_suffix, truth_suffix;
  std::string json, csv, curves_csv, curves_svg;
  int threads = 0;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--pred", options.predictions, "Folder of saliency maps")->required();
  app.add_option("--gt", options.truths, "Folder of true masks, paired by path without extension")
      ->required();
  app.add_option("--pred-suffix", options.prediction_suffix,
                 "Ending of the maps' names that the masks' lack, such as _sal");
  app.add_option("--gt-suffix", options.truth_suffix,
                 "Ending of the masks' names that the maps' lack, such as _gt");
  app.add_option("--json", options.json, "Write means, curves and each image as JSON");
  app.add_option("--csv", options.csv, "Write one line an image as CSV");
  app.add_option("--pr-csv", options.curves_csv,
                 "Write precision, recall, F and E at each threshold as CSV");
  app.add_option("--pr-svg", options.curves_svg, "Draw the precision-recall curve as SVG");
  app.add_option("--threads", options.threads, "Threads; 0: one a core")
      ->check(CLI::Range(0, 1024));
}

void write(const std::string& file, const std::string& content) {
  if (!file.empty()) app::write_file(file, std::as_bytes(std::span(content)));
}

void write_reports(const Options& options, const Summary& summary, const FolderScores& folder) {
  write(options.json, to_json(summary, folder));
  write(options.csv, to_csv(summary, folder));
  write(options.curves_csv, curves_to_csv(summary));
  write(options.curves_svg, precision_recall_svg(summary, options.predictions));
}

int evaluate(const Options& options, std::ostream& out, std::ostream& err) {
  const FolderMatch match = match_folders(
      {options.predictions, options.truths, options.prediction_suffix, options.truth_suffix});
  const int threads = options.threads > 0 ? options.threads : app::usable_cores();
  FolderScores folder = score_matches(match.matches, threads);
  for (const std::string& mask : match.unmatched) {
    folder.failures.push_back("'" + mask + "' has no saliency map in '" + options.predictions +
                              "'");
  }
  for (const std::string& failure : folder.failures) err << "error: " << failure << '\n';
  if (match.spare_predictions > 0) {
    err << "note: images in '" << options.predictions
        << "' without a true mask, left out: " << match.spare_predictions << '\n';
  }
  if (folder.scores.empty()) {
    err << "error: not one true mask could be compared\n";
    return kSomeFailed;
  }
  const Summary summary = summarise(folder.scores);
  out << to_table(summary, folder.scores.size());
  write_reports(options, summary, folder);
  if (folder.failures.empty()) return 0;
  err << folder.failures.size() << " of " << folder.failures.size() + folder.scores.size()
      << " true masks could not be scored; the means are of the others\n";
  return kSomeFailed;
}

}  // namespace

int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  CLI::App app(
      "Scores saliency maps against true masks: MAE, F-, weighted F-, S- and E-measure, "
      "precision-recall curve.",
      "hdfnet-eval");
  app.set_version_flag("--version", "hdfnet-eval " HDFNET_VERSION);
  Options options;
  add_options(app, options);
  try {
    // CLI11 takes the arguments from the back.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return evaluate(options, out, err);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? 0 : kUsage;
  } catch (const std::exception& error) {
    err << "error: " << error.what() << '\n';
    return kUsage;
  }
}

}  // namespace hdfnet::eval
