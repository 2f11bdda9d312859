#pragma once

#include <new>
#include <string>

#include "hdfnet/error.h"
#include "image/read.h"
#include "network.h"
#include "options/values.h"

namespace hdfnet {

inline ErrorCode code_of(app::SetupError::Fault fault) {
  switch (fault) {
    case app::SetupError::Fault::device:
      return ErrorCode::device;
    case app::SetupError::Fault::weights:
      return ErrorCode::weights;
    case app::SetupError::Fault::library:
      break;
  }
  return ErrorCode::library;
}

/// Runs `work` so that whatever it throws leaves as an Error. `where` goes in front of the message.
template <class Work>
auto with_public_errors(const std::string& where, Work work) -> decltype(work()) {
  const auto raise = [&where](ErrorCode code, const char* message) {
    throw Error(code, where + message);
  };
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), where + error.what());
  } catch (const app::OutOfMemory& error) {
    raise(ErrorCode::out_of_memory, error.what());
  } catch (const std::bad_alloc& error) {
    raise(ErrorCode::out_of_memory, error.what());
  } catch (const app::SetupError& error) {
    raise(code_of(error.fault()), error.what());
  } catch (const app::ValueError& error) {
    raise(ErrorCode::invalid_argument, error.what());
  } catch (const app::ImageError& error) {
    raise(ErrorCode::invalid_argument, error.what());
  } catch (const std::exception& error) {
    raise(ErrorCode::failed, error.what());
  }
  throw Error(ErrorCode::failed, where);  // not reached: every handler throws
}

}  // namespace hdfnet
