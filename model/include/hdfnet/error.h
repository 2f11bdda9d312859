#pragma once

#include <stdexcept>
#include <string>

namespace hdfnet {

/// What kind of thing went wrong; the message says exactly what and what to do.
enum class ErrorCode {
  invalid_argument,  ///< a shape, type or option that the call cannot take
  weights,           ///< the weights file or one of its parameters
  device,            ///< no such device, or this build has no code for it
  out_of_memory,     ///< the device has not enough memory for this batch
  library,           ///< the LibTorch that is loaded is not the one that this was built with
  failed,            ///< anything else
};

/// The one exception type that hdfnet's libraries throw.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace hdfnet
