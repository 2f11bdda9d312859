#include "folder_bench.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hdfnet/version.h"
#include "image/pil.h"
#include "image/read.h"
#include "image/saliency_output.h"
#include "report_options.h"
#include "run/pair_files.h"
#include "run/pipeline.h"
#include "run/plan.h"
#include "run/usable_cores.h"
#include "timing/statistics.h"

namespace hdfnet::bench {
namespace {

struct FolderOptions {
  app::Options files;
  std::filesystem::path answer;
  int batch = 32;
  int side = 320;
  int threads = 0;
  int repeats = 1;
  bool pictures = false;
  ReportOptions report;
};

/// The picture's first channel, at the network's size, as a map from 0 to 1.
std::shared_ptr<const float[]> read_answer(const std::filesystem::path& file, int side) {
  app::ReadInfo info;
  const cv::Mat picture = app::pil_resize_bilinear(app::read_rgb(file, info), {side, side});
  const std::shared_ptr<float[]> map(new float[picture.total()]);
  for (int row = 0; row < side; ++row) {
    const auto* pixels = picture.ptr<unsigned char>(row);
    for (int column = 0; column < side; ++column) {
      map[static_cast<std::size_t>(row) * side + column] =
          static_cast<float>(pixels[std::size_t{3} * column]) / 255.0F;
    }
  }
  return map;
}

/// Has one answer, the same for every pair, and gives it without any work. Takes pictures, as a
/// network on a GPU does, or planes; pictures' maps are finished.
class ReadyNetwork final : public app::Network {
 public:
  ReadyNetwork(const std::shared_ptr<const float[]>& map, const FolderOptions& options)
      : side_(options.side), batch_(options.batch), pictures_(options.pictures) {
    const std::size_t plane = static_cast<std::size_t>(side_) * side_;
    const std::shared_ptr<float[]> maps(new float[plane * batch_]);
    for (int i = 0; i < batch_; ++i) std::copy_n(map.get(), plane, maps.get() + plane * i);
    maps_ = maps;
    info_.device = "none";
    info_.precision = "fp32";
  }

  const app::NetworkInfo& info() const override { return info_; }
  std::shared_ptr<float[]> allocate(std::size_t count) const override {
    return std::shared_ptr<float[]>(new float[count]);
  }
  bool takes_pictures() const override { return pictures_; }
  app::Maps forward(const app::BatchView& batch) override {
    if (batch.count > batch_) throw std::logic_error("the batch is larger than was said");
    app::Maps maps{maps_, batch.count, side_, side_, nullptr};
    if (batch.pictures != nullptr) maps.finished = finished(batch);
    return maps;
  }
  app::NetworkTimes measure(const app::BatchView&, int, const app::Interrupted&) override {
    return {};
  }
  std::optional<app::Ceilings> measure_ceilings() override { return std::nullopt; }

 private:
  using Levels = std::shared_ptr<const unsigned char[]>;

  std::shared_ptr<const std::vector<app::FinishedMap>> finished(const app::BatchView& batch) {
    std::vector<app::FinishedMap> maps(static_cast<std::size_t>(batch.count));
    for (int i = 0; i < batch.count; ++i) {
      const auto& wanted = batch.pictures[i].map;
      if (wanted) maps[static_cast<std::size_t>(i)].levels = levels(*wanted);
    }
    return std::make_shared<const std::vector<app::FinishedMap>>(std::move(maps));
  }

  /// Made once for each size.
  const Levels& levels(const app::LevelMap& wanted) {
    Levels& known = levels_[{wanted.height, wanted.width}];
    if (known == nullptr) {
      const cv::Mat map(side_, side_, CV_32FC1, const_cast<float*>(maps_.get()));
      const cv::Mat picture = app::saliency_image(map, {wanted.width, wanted.height},
                                                  {8, wanted.rounding, app::Upsample::bilinear});
      const std::shared_ptr<unsigned char[]> bytes(new unsigned char[picture.total()]);
      std::copy_n(picture.ptr(), picture.total(), bytes.get());
      known = bytes;
    }
    return known;
  }

  const int side_;
  const int batch_;
  const bool pictures_;
  std::shared_ptr<const float[]> maps_;
  std::map<std::pair<int, int>, Levels> levels_;
  app::NetworkInfo info_;
};

/// One way through the folder.
class Passage {
 public:
  Passage(const FolderOptions& options, const app::Plan& plan,
          const std::shared_ptr<const float[]>& answer)
      : options_(options), plan_(plan), answer_(answer) {}

  Row row() {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    Row row;
    row["pairs"] = written_;
    row["failed"] = failed_;
    row["threads"] = options_.threads;
    row["batch"] = options_.batch;
    row["seconds"] = seconds.count();
    row["pairs/s"] = static_cast<double>(written_) / seconds.count();
    row["decode ms"] = app::summarize(decode_).median;
    row["preprocess ms"] = app::summarize(preprocess_).median;
    row["postprocess ms"] = app::summarize(postprocess_).median;
    row["encode ms"] = app::summarize(encode_).median;
    row["right"] = failed_ == 0;
    return row;
  }

 private:
  void run() {
    app::Console console(std::cerr, /*terminal=*/false, /*quiet=*/true);
    app::StageClock clock(/*keep=*/false);
    app::PairFiles files(options_.files, console, clock);
    const auto none_wider = [](app::Precision) { return std::unique_ptr<app::Network>(); };
    app::RobustNetwork network(std::make_unique<ReadyNetwork>(answer_, options_), none_wider,
                               console);
    app::PipelineSettings settings;
    settings.workers = options_.threads;
    settings.batch = options_.batch;
    settings.height = settings.width = options_.side;
    app::run_pipeline(plan_.jobs, settings, {files, {&network}, clock, console},
                      [this](const app::Job& job, const app::Result& result) { add(job, result); });
  }

  void add(const app::Job& job, const app::Result& result) {
    if (result.status != app::Status::written) {
      ++failed_;
      std::cerr << "hdfnet-bench: " << job.name << ": " << result.error << "\n";
      return;
    }
    ++written_;
    decode_.push_back(result.times.decode);
    preprocess_.push_back(result.times.preprocess);
    postprocess_.push_back(result.times.postprocess);
    encode_.push_back(result.times.encode);
  }

  const FolderOptions& options_;
  const app::Plan& plan_;
  const std::shared_ptr<const float[]> answer_;
  int written_ = 0;
  int failed_ = 0;
  std::vector<double> decode_, preprocess_, postprocess_, encode_;
};

int run_folder(FolderOptions options) {
  if (options.threads == 0) options.threads = app::usable_cores();
  const app::Plan plan = app::make_plan(options.files, nullptr);
  if (plan.jobs.empty()) throw std::runtime_error("no pair was found");
  const auto answer = read_answer(options.answer, options.side);
  std::vector<Row> rows;
  rows.reserve(static_cast<std::size_t>(options.repeats));
  for (int pass = 0; pass < options.repeats; ++pass) {
    rows.push_back(Passage(options, plan, answer).row());
  }
  Row environment;
  environment["hdfnet"] = HDFNET_VERSION;
  environment["size"] = options.side;
  environment["resizing"] = options.pictures ? "none" : "on the host";
  environment["answer"] = options.answer.string();
  options.report.write(environment, rows);
  const bool complete = std::all_of(rows.begin(), rows.end(),
                                    [](const Row& row) { return row["right"].get<bool>(); });
  return complete ? 0 : 1;
}

}  // namespace

void add_folder_command(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<FolderOptions>();
  CLI::App* command = app.add_subcommand("folder",
                                         "Times the reading and the writing of a folder of pairs, "
                                         "without a network: what hdfnet-infer "
                                         "reaches at most on these cores. The files are written");
  command->add_option("--rgb", options->files.rgb, "folder of RGB images")->required();
  command->add_option("--depth", options->files.depth, "folder of depth images")->required();
  command->add_option("--out", options->files.out, "folder for the maps")->required();
  command
      ->add_option("--answer", options->answer,
                   "the network's answer to every pair: a map that hdfnet-infer wrote, because how "
                   "long the writing takes depends on the map")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--batch", options->batch, "pairs at once, as hdfnet-infer on a GPU")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--size", options->side, "height and width of the network's input")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--threads", options->threads, "that read and write, 0: as many as cores")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--pictures", options->pictures,
                    "leaves resizing and normalising out, as hdfnet-infer on a GPU does, where the "
                    "device does them");
  command->add_option("--repeat", options->repeats, "ways through the folder, a row each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  options->report.add_to(*command);
  command->callback([options, &run] { run = [options] { return run_folder(*options); }; });
}

}  // namespace hdfnet::bench
