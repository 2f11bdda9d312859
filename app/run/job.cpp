#include "run/job.h"

namespace hdfnet::app {

const char* name(Status status) {
  switch (status) {
    case Status::written:
      return "written";
    case Status::skipped:
      return "skipped";
    case Status::failed:
      return "failed";
    case Status::unpaired:
      return "unpaired";
    case Status::not_done:
      break;
  }
  return "not_done";
}

}  // namespace hdfnet::app
