#pragma once

#include "eval/normalised_pair.h"

namespace hdfnet::eval {

/// The weighted F-measure (Margolin et al., CVPR 2014) with beta = 1: errors near one another
/// inside the object count less than scattered ones, false alarms count more the farther they are
/// from the object. 0 when the mask has no object pixel.
double weighted_f_measure(const NormalisedPair& pair);

}  // namespace hdfnet::eval
