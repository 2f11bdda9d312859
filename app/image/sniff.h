#pragma once

#include "image/source.h"

namespace hdfnet::app {

/// The format that the first bytes show. Throws ImageError that says what the file is instead when
/// it is none that can be read (a web page, a Git LFS pointer, a PDF, ...).
ImageFormat sniff_format(const Source& source);

}  // namespace hdfnet::app
