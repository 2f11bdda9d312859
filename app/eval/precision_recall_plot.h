#pragma once

#include <string>

#include "eval/summary.h"

namespace hdfnet::eval {

/// The precision-recall curve as a self-contained SVG picture; the point of the highest F-measure
/// is marked. `title` is any UTF-8 text.
std::string precision_recall_svg(const Summary& summary, const std::string& title);

}  // namespace hdfnet::eval
