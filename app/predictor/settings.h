#pragma once

#include "hdfnet/predictor.h"
#include "options/options.h"

namespace hdfnet {

/// The application's options that say the same, so that both run on the same code. Throws
/// app::ValueError for a setting that is out of range or misspelt.
app::Options to_options(const PredictorSettings& settings);

/// The application's form of a map's format. Throws app::ValueError.
app::MapStyle to_style(const MapFormat& format);

}  // namespace hdfnet
