#pragma once

#include "eval/normalised_pair.h"

namespace hdfnet::eval {

/// The structure measure (Fan et al., ICCV 2017) with alpha = 0.5: half from object and background
/// as wholes, half from the similarity in the four quadrants about the object's centre of mass.
double structure_measure(const NormalisedPair& pair);

}  // namespace hdfnet::eval
