// The saliency map of one pair: saliency RGB DEPTH MAP.png [SETTING=VALUE...]
// The settings are hdfnet-infer's options: device=cpu, depth-range=500:4000, size=640x480 ...

#include <hdfnet/predictor.h>

#include <iostream>
#include <opencv2/imgcodecs.hpp>
#include <string>

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: saliency RGB DEPTH MAP.png [SETTING=VALUE...]\n";
    return 2;
  }
  try {
    hdfnet::PredictorSettings settings;
    for (int i = 4; i < argc; ++i) {
      const std::string text = argv[i];
      const std::size_t equals = text.find('=');
      settings.set(text.substr(0, equals),
                   equals == std::string::npos ? "" : text.substr(equals + 1));
    }
    settings.on_warning = [](const std::string& text) { std::cerr << "warning: " << text << '\n'; };
    const hdfnet::Predictor predictor(settings);
    const cv::Mat map = predictor(cv::imread(argv[1]), cv::imread(argv[2], cv::IMREAD_UNCHANGED));
    if (!cv::imwrite(argv[3], map)) {
      std::cerr << "error: " << argv[3] << " cannot be written.\n";
      return 1;
    }
    std::cerr << predictor.variant() << " on " << predictor.device() << ", "
              << predictor.precision() << '\n';
  } catch (const hdfnet::Error& error) {
    std::cerr << "error: " << error.what() << '\n';
    return error.code() == hdfnet::ErrorCode::invalid_argument ? 2 : 1;
  }
}
