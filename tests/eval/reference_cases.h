#pragma once

#include <nlohmann/json.hpp>
#include <opencv2/core/mat.hpp>

#include "eval/summary.h"

namespace hdfnet::eval::test {

struct Images {
  cv::Mat prediction;
  cv::Mat truth;
};

/// The images of one entry of "cases" in reference.json, by the rules of make_reference.py.
Images make_images(const nlohmann::json& entry);

/// reference.json.
const nlohmann::json& reference();

/// Fails the running test where a value or a curve differs from the reference by more than 1e-6.
void expect_equal(const Summary& summary, const nlohmann::json& expected);

}  // namespace hdfnet::eval::test
