#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <opencv2/core/mat.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "hdfnet/error.h"
#include "hdfnet/precision.h"

/// Saliency maps of RGB + depth pairs, for programs that have them as cv::Mat.
///
///   hdfnet::Predictor predictor;
///   cv::Mat map = predictor(cv::imread("rgb.jpg"), cv::imread("depth.png", cv::IMREAD_UNCHANGED));
///
/// Link HDFNet::predictor. This header needs OpenCV's core alone; hdfnet/engine.h has the network
/// on at::Tensor, and hdfnet/hdfnet.h all of this for C.
namespace hdfnet {

/// How the channels of the RGB pictures are ordered.
enum class ChannelOrder {
  bgr,  ///< as cv::imread and cv::VideoCapture give them
  rgb,
};

enum class MapType {
  grey8,    ///< CV_8UC1, 255 = salient: what hdfnet-infer writes
  grey16,   ///< CV_16UC1, 65535 = salient
  float32,  ///< CV_32FC1, 0..1
};

/// How a map is brought from the network's size to the one asked for.
enum class Upsampling { bilinear, nearest };

/// The form of a saliency map.
struct MapFormat {
  MapType type = MapType::grey8;
  cv::Size size;  ///< empty: that of the RGB picture
  Upsampling upsample = Upsampling::bilinear;
};

/// The settings of a Predictor; the defaults are those of hdfnet-infer, whose options of the same
/// names say more.
struct PredictorSettings {
  std::filesystem::path weights;  ///< empty: weights/hdfnet_vgg16.pt below $HDFNET_HOME, beside the
                                  ///< library (build tree or installation), in the current folder
  std::string device = "auto";    ///< auto, cpu, cuda or cuda:N
  Precision precision = Precision::automatic;
  cv::Size size = {320, 320};  ///< of the network's input, 32 to 8192 each
  int threads = 0;             ///< of the network on the CPU, during a call; 0: one a core
  ChannelOrder channels = ChannelOrder::bgr;
  std::string depth_range = "auto";  ///< auto, none, minmax or LOW:HIGH in the depth's own units
  bool depth_invert = false;         ///< the depth has near = bright; the network wants near = dark
  std::string depth_hole = "0";      ///< the depth value that means "no reading", or none
  MapFormat map;                     ///< what operator() returns

  /// Told of what is doubtful in a pair (an empty depth map, an odd aspect ratio), as sentences.
  /// Called from the thread that called the predictor.
  std::function<void(const std::string&)> on_warning;

  /// Sets one of them by the name and in the spelling of hdfnet-infer's option: weights, device,
  /// precision, size, threads, depth-range, depth-invert, depth-hole, upsample. Throws
  /// Error(invalid_argument).
  void set(std::string_view name, std::string_view value);
};

/// HDFNet with its parameters loaded, ready to be called.
///
/// Pictures. RGB: CV_8U or CV_16U with 1, 3 or 4 channels in the order of settings.channels; alpha
/// is ignored, of 16 bits the upper 8 count, as when hdfnet-infer reads files. Depth: CV_8U,
/// CV_16U, CV_16S, CV_32S, CV_32F or CV_64F, one channel, or three equal ones (cv::imread without
/// IMREAD_UNCHANGED); it is resized to the RGB picture. NaN, infinities, negative numbers, those
/// from 1e10 on and depth_hole are pixels without a reading, which are filled. Neither is kept or
/// written to, any step between rows will do, and a map returned shares no memory with anything.
///
/// Equality. The map of a pair is, to the bit, what hdfnet-infer writes with the same settings, one
/// pair at a time. Other numbers of threads or of pairs in a call may change the last bits.
///
/// Threads. One Predictor may be called from several threads at once: pictures are prepared in
/// parallel, the network takes one call at a time. More Predictors are independent and each hold
/// the parameters (about 180 MB). Construction and destruction are not safe beside a call. A child
/// of fork() cannot use the Predictors of its parent: LibTorch's threads are not there.
///
/// Errors. Everything throws hdfnet::Error, whose code says which kind; a failed call leaves the
/// Predictor usable.
///
/// Lifetime. Movable; one that was moved from can only be assigned to or destroyed. The library
/// must stay loaded while one exists.
class Predictor {
 public:
  /// Loads the weights and makes the network. Throws Error: weights, device, library,
  /// invalid_argument.
  explicit Predictor(const PredictorSettings& settings = {});
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  /// The saliency map of one pair. Throws Error: invalid_argument for a Mat that cannot be used,
  /// out_of_memory, failed.
  cv::Mat operator()(const cv::Mat& rgb, const cv::Mat& depth) const;

  /// The maps of several pairs, which may differ in size, in one pass of the network; when the
  /// device has not enough memory for that, in several. An error names the pair by its index, and
  /// then no map is returned.
  std::vector<cv::Mat> operator()(const std::vector<cv::Mat>& rgb,
                                  const std::vector<cv::Mat>& depth) const;

  /// The same in another form than settings.map.
  cv::Mat operator()(const cv::Mat& rgb, const cv::Mat& depth, const MapFormat& format) const;
  std::vector<cv::Mat> operator()(const std::vector<cv::Mat>& rgb,
                                  const std::vector<cv::Mat>& depth, const MapFormat& format) const;

  std::string device() const;             ///< cpu, cuda:0
  std::string precision() const;          ///< fp32, tf32, fp16, bf16
  std::string variant() const;            ///< VGG16, VGG19, ResNet-50
  std::filesystem::path weights() const;  ///< the file that was loaded

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The library's version, such as 0.1.0.
std::string library_version();

}  // namespace hdfnet
