// A loop over the frames of a source, as a robot's or a camera's program has it, and its latency:
//
//   live folder RGB_DIR DEPTH_DIR [SETTING=VALUE...]   pictures, paired in the order of their names
//   live video RGB_FILE DEPTH_FILE [SETTING=VALUE...]  two videos of the same length
//   live camera INDEX [SETTING=VALUE...]               a depth camera that OpenNI 2 knows
//
// Besides hdfnet-infer's options: frames=N stops after N frames (a folder begins again until then),
// out=DIR writes the maps as DIR/000000.png and so on.

#include <hdfnet/predictor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <opencv2/imgcodecs.hpp>
#include <stdexcept>
#include <string>
#include <vector>
#ifdef WITH_VIDEO
#include <opencv2/videoio.hpp>
#endif

namespace {

namespace fs = std::filesystem;

struct Frame {
  cv::Mat rgb, depth;
};

class Source {
 public:
  virtual ~Source() = default;
  virtual bool next(Frame& frame) = 0;  ///< false: there are no more
};

class Folders final : public Source {
 public:
  Folders(const fs::path& rgb, const fs::path& depth, bool endless)
      : rgb_(files(rgb)), depth_(files(depth)), endless_(endless) {
    if (rgb_.empty() || rgb_.size() != depth_.size()) {
      throw std::runtime_error("expected as many depth maps as RGB pictures, found " +
                               std::to_string(depth_.size()) + " and " +
                               std::to_string(rgb_.size()) + ".");
    }
  }
  bool next(Frame& frame) override {
    if (at_ == rgb_.size() && !endless_) return false;
    at_ %= rgb_.size();
    frame.rgb = cv::imread(rgb_[at_].string());
    frame.depth = cv::imread(depth_[at_].string(), cv::IMREAD_UNCHANGED);
    ++at_;
    return true;
  }

 private:
  static std::vector<fs::path> files(const fs::path& folder) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_regular_file()) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  std::vector<fs::path> rgb_, depth_;
  bool endless_;
  std::size_t at_ = 0;
};

#ifdef WITH_VIDEO
class Videos final : public Source {
 public:
  Videos(const std::string& rgb, const std::string& depth) : rgb_(rgb), depth_(depth) {
    if (!rgb_.isOpened()) throw std::runtime_error(rgb + " cannot be opened as a video.");
    if (!depth_.isOpened()) throw std::runtime_error(depth + " cannot be opened as a video.");
  }
  bool next(Frame& frame) override { return rgb_.read(frame.rgb) && depth_.read(frame.depth); }

 private:
  cv::VideoCapture rgb_, depth_;
};

class DepthCamera final : public Source {
 public:
  explicit DepthCamera(int index) : camera_(index, cv::CAP_OPENNI2) {
    if (!camera_.isOpened()) {
      throw std::runtime_error("OpenCV finds no OpenNI 2 camera " + std::to_string(index) + ".");
    }
  }
  bool next(Frame& frame) override {
    return camera_.grab() && camera_.retrieve(frame.depth, cv::CAP_OPENNI_DEPTH_MAP) &&
           camera_.retrieve(frame.rgb, cv::CAP_OPENNI_BGR_IMAGE);
  }

 private:
  cv::VideoCapture camera_;
};
#endif

struct Arguments {
  std::vector<std::string> words;
  hdfnet::PredictorSettings settings;
  long frames = 0;  ///< 0: until the source ends
  std::string out;
};

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos) {
      arguments.words.push_back(text);
    } else if (name == "frames") {
      arguments.frames = std::stol(text.substr(equals + 1));
    } else if (name == "out") {
      arguments.out = text.substr(equals + 1);
    } else {
      arguments.settings.set(name, text.substr(equals + 1));
    }
  }
  return arguments;
}

std::unique_ptr<Source> open_source(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words;
  if (words.size() == 3 && words[0] == "folder") {
    return std::make_unique<Folders>(words[1], words[2], arguments.frames > 0);
  }
#ifdef WITH_VIDEO
  if (words.size() == 3 && words[0] == "video") return std::make_unique<Videos>(words[1], words[2]);
  if (words.size() == 2 && words[0] == "camera") {
    return std::make_unique<DepthCamera>(std::stoi(words[1]));
  }
#endif
  throw std::runtime_error(
      "usage: live folder RGB_DIR DEPTH_DIR | video RGB_FILE DEPTH_FILE | camera INDEX "
      "[SETTING=VALUE...] [frames=N] [out=DIR]");
}

/// The value that a share of the sorted values does not exceed.
double percentile(const std::vector<double>& sorted, double share) {
  const double rank = share * static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(rank + 0.5)];
}

void write_map(const std::string& folder, long index, const cv::Mat& map) {
  char name[32];
  std::snprintf(name, sizeof name, "%06ld.png", index);
  const std::string file = (fs::path(folder) / name).string();
  if (!cv::imwrite(file, map)) throw std::runtime_error(file + " cannot be written.");
}

int run(int argc, char** argv) {
  const Arguments arguments = read_arguments(argc, argv);
  const std::unique_ptr<Source> source = open_source(arguments);
  if (!arguments.out.empty()) fs::create_directories(arguments.out);
  const hdfnet::Predictor predictor(arguments.settings);

  using Clock = std::chrono::steady_clock;
  std::vector<double> milliseconds;
  Frame frame;
  const auto begin = Clock::now();
  for (long i = 0; (arguments.frames == 0 || i < arguments.frames) && source->next(frame); ++i) {
    const auto start = Clock::now();
    const cv::Mat map = predictor(frame.rgb, frame.depth);
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    if (!arguments.out.empty()) write_map(arguments.out, i, map);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (milliseconds.empty()) throw std::runtime_error("the source has no frame.");

  std::printf("%zu frames on %s, %s: %.1f a second, with reading and writing\n",
              milliseconds.size(), predictor.device().c_str(), predictor.precision().c_str(),
              static_cast<double>(milliseconds.size()) / seconds);
  std::printf("first frame %.1f ms\n", milliseconds.front());
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("latency in ms: p50 %.1f, p90 %.1f, p99 %.1f, max %.1f\n",
              percentile(milliseconds, 0.5), percentile(milliseconds, 0.9),
              percentile(milliseconds, 0.99), milliseconds.back());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
