#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <opencv2/core.hpp>
#include <string>

#include "errors.h"
#include "hdfnet/hdfnet.h"
#include "hdfnet/predictor.h"
#include "hdfnet/version.h"

struct hdfnet_settings {
  hdfnet::PredictorSettings settings;
};

struct hdfnet_predictor {
  hdfnet::Predictor predictor;
  hdfnet::Upsampling upsample;
};

namespace {

using hdfnet::Error;
using hdfnet::ErrorCode;

std::string& last_error() {
  thread_local std::string message;
  return message;
}

hdfnet_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return HDFNET_INVALID_ARGUMENT;
    case ErrorCode::weights:
      return HDFNET_WEIGHTS;
    case ErrorCode::device:
      return HDFNET_DEVICE;
    case ErrorCode::out_of_memory:
      return HDFNET_OUT_OF_MEMORY;
    case ErrorCode::library:
      return HDFNET_LIBRARY;
    case ErrorCode::failed:
      break;
  }
  return HDFNET_FAILED;
}

hdfnet_status fail(hdfnet_status status, const char* message) noexcept {
  try {
    last_error() = message;
  } catch (...) {
    last_error().clear();  // no memory even for the message
  }
  return status;
}

/// Runs `work`; what it throws becomes a status and this thread's message.
template <class Work>
hdfnet_status guarded(Work work) noexcept {
  try {
    hdfnet::with_public_errors("", work);
    return HDFNET_OK;
  } catch (const Error& error) {
    return fail(status_of(error.code()), error.what());
  } catch (...) {
    return fail(HDFNET_FAILED, "an exception of unknown type was thrown.");
  }
}

template <class Pointer>
void check_not_null(const Pointer* pointer, const char* name) {
  if (pointer == nullptr) {
    throw Error(ErrorCode::invalid_argument, std::string(name) + ": found a null pointer.");
  }
}

/// The Mat type of hdfnet_pixels.
int mat_type(const hdfnet_image& image, const char* name) {
  switch (image.pixels) {
    case HDFNET_RGB8:
    case HDFNET_BGR8:
      return CV_8UC3;
    case HDFNET_GREY8:
      return CV_8UC1;
    case HDFNET_GREY16:
      return CV_16UC1;
    case HDFNET_FLOAT32:
      return CV_32FC1;
    default:
      throw Error(ErrorCode::invalid_argument, std::string(name) + ": found pixels " +
                                                   std::to_string(image.pixels) +
                                                   ", which is no value of hdfnet_pixels.");
  }
}

/// The caller's memory as a Mat, without a copy.
cv::Mat view(const hdfnet_image* image, const char* name) {
  check_not_null(image, name);
  check_not_null(image->data, name);
  const int type = mat_type(*image, name);
  if (image->width < 1 || image->height < 1) {
    throw Error(ErrorCode::invalid_argument,
                std::string(name) + ": found a size of " + std::to_string(image->width) + " x " +
                    std::to_string(image->height) + "; at least 1 x 1 is needed.");
  }
  const std::size_t row = static_cast<std::size_t>(image->width) * CV_ELEM_SIZE(type);
  const std::size_t sample = CV_ELEM_SIZE1(type);
  const std::size_t stride = image->stride == 0 ? row : image->stride;
  const auto address = reinterpret_cast<std::uintptr_t>(image->data);
  if (stride < row || stride % sample != 0 || address % sample != 0) {
    throw Error(ErrorCode::invalid_argument,
                std::string(name) + ": found a stride of " + std::to_string(stride) +
                    " bytes; at least " + std::to_string(row) + " are needed for a row of " +
                    std::to_string(image->width) + " pixels, and stride and data aligned to " +
                    std::to_string(sample) + ".");
  }
  constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max();
  if (stride > most / static_cast<std::size_t>(image->height)) {
    throw Error(ErrorCode::invalid_argument,
                std::string(name) + ": found a stride of " + std::to_string(stride) + " bytes; " +
                    std::to_string(image->height) +
                    " rows of that do not fit into memory (rows go downwards: the stride is not "
                    "negative).");
  }
  return {image->height, image->width, type, image->data, stride};
}

void check_pixels(bool allowed, const char* name, const char* expected) {
  if (!allowed) {
    throw Error(ErrorCode::invalid_argument, std::string(name) + ": expected " + expected + ".");
  }
}

/// The predictor takes R,G,B.
cv::Mat rgb_view(const hdfnet_image* image) {
  cv::Mat rgb = view(image, "rgb");
  check_pixels(
      image->pixels == HDFNET_RGB8 || image->pixels == HDFNET_BGR8 || image->pixels == HDFNET_GREY8,
      "rgb", "pixels of HDFNET_RGB8, HDFNET_BGR8 or HDFNET_GREY8");
  if (image->pixels != HDFNET_BGR8) return rgb;
  cv::Mat swapped(rgb.size(), rgb.type());
  constexpr int from_to[] = {0, 2, 1, 1, 2, 0};
  cv::mixChannels(&rgb, 1, &swapped, 1, from_to, 3);
  return swapped;
}

cv::Mat depth_view(const hdfnet_image* image) {
  cv::Mat depth = view(image, "depth");
  check_pixels(depth.channels() == 1, "depth",
               "pixels of HDFNET_GREY8, HDFNET_GREY16 or HDFNET_FLOAT32");
  return depth;
}

cv::Mat map_view(const hdfnet_image* image) {
  cv::Mat map = view(image, "map");
  check_pixels(map.channels() == 1, "map",
               "pixels of HDFNET_GREY8, HDFNET_GREY16 or HDFNET_FLOAT32");
  return map;
}

hdfnet::MapType map_type(const cv::Mat& map) {
  if (map.depth() == CV_16U) return hdfnet::MapType::grey16;
  return map.depth() == CV_32F ? hdfnet::MapType::float32 : hdfnet::MapType::grey8;
}

}  // namespace

const char* hdfnet_last_error(void) {
  return last_error().c_str();
}

const char* hdfnet_version(void) {
  return HDFNET_VERSION;
}

hdfnet_settings* hdfnet_settings_create(void) {
  try {
    auto settings = std::make_unique<hdfnet_settings>();
    settings->settings.channels = hdfnet::ChannelOrder::rgb;
    return settings.release();
  } catch (...) {
    return nullptr;
  }
}

void hdfnet_settings_destroy(hdfnet_settings* settings) {
  delete settings;
}

hdfnet_status hdfnet_settings_set(hdfnet_settings* settings, const char* name, const char* value) {
  return guarded([&] {
    check_not_null(settings, "settings");
    check_not_null(name, "name");
    check_not_null(value, "value");
    settings->settings.set(name, value);
  });
}

hdfnet_status hdfnet_predictor_create(const hdfnet_settings* settings,
                                      hdfnet_predictor** predictor) {
  return guarded([&] {
    check_not_null(predictor, "predictor");
    *predictor = nullptr;
    hdfnet::PredictorSettings used;
    used.channels = hdfnet::ChannelOrder::rgb;
    if (settings != nullptr) used = settings->settings;
    *predictor = new hdfnet_predictor{hdfnet::Predictor(used), used.map.upsample};
  });
}

void hdfnet_predictor_destroy(hdfnet_predictor* predictor) {
  delete predictor;
}

hdfnet_status hdfnet_predict(const hdfnet_predictor* predictor, const hdfnet_image* rgb,
                             const hdfnet_image* depth, const hdfnet_image* map) {
  return guarded([&] {
    check_not_null(predictor, "predictor");
    cv::Mat target = map_view(map);
    const hdfnet::MapFormat format{map_type(target), target.size(), predictor->upsample};
    predictor->predictor(rgb_view(rgb), depth_view(depth), format).copyTo(target);
  });
}
