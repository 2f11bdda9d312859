#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <opencv2/core/mat.hpp>
#include <optional>
#include <string>

namespace hdfnet::app {

/// The small pictures of one pair, as `data:` addresses for an <img>.
struct Thumbnails {
  std::string rgb, depth, map, overlay;
  double mean_saliency = 0;  ///< 0..1
};

/// A picture with its longer side at most that of a thumbnail.
cv::Mat shrink(const cv::Mat& picture);

/// Thumbnails from small pictures (shrink()): R,G,B, 8-bit depth, and the 8- or 16-bit map, which
/// is brought to the picture's size.
Thumbnails make_thumbnails(const cv::Mat& rgb, const cv::Mat& depth, const cv::Mat& map);

/// Collects the thumbnails of a run, up to a number that a browser can still show and that keeps
/// the memory of long runs bounded. Safe to use from several threads.
class Gallery {
 public:
  explicit Gallery(int most = 500) : most_(most) {}

  /// Claims one of the places; false when all are taken.
  bool claim() { return claimed_.fetch_add(1) < most_; }
  void add(const std::string& name, Thumbnails thumbnails);
  std::optional<Thumbnails> take(const std::string& name);

 private:
  const int most_;
  std::atomic<int> claimed_{0};
  std::mutex mutex_;
  std::map<std::string, Thumbnails> thumbnails_;
};

}  // namespace hdfnet::app
