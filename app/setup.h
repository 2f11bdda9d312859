#pragma once

#include <memory>
#include <string>
#include <vector>

#include "network.h"
#include "options/options.h"
#include "run/console.h"
#include "run/robust_network.h"

namespace hdfnet::app {

/// The settings that `auto` and the machine decide.
struct Setup {
  std::vector<std::string> devices;
  int batch = 1;          ///< pairs
  int full_batch = 0;     ///< of RobustNetwork
  std::string why_batch;  ///< of `auto`; empty where the number of pairs decides
  int threads = 1;        ///< in all
  int workers = 1;        ///< of them for reading and writing
  bool on_gpu = false;
};

/// Resolves --device (and, for a launcher's process, the GPU of its local rank), --batch and
/// --threads, for a run of `pairs` pairs. `single`: all there is is one pair, in this run or any
/// other. A GPU then takes it alone; else it computes whole batches, however many pairs are left,
/// of --batch images (`auto`: 31 pairs and a filling), but not more than 32 or the power of two
/// that the pairs do not pass.
Setup resolve_setup(const Options& options, NetworkProvider& provider, std::size_t pairs,
                    bool single);

/// Loads the weights and makes one network per device; a batch of `auto` is made smaller where a
/// device's memory wants it, the same for all. Devices that have none, for want of memory
/// for example, are said on the console; throws what the first one threw when none is left.
std::vector<std::unique_ptr<RobustNetwork>> make_networks(const Options& options, Setup& setup,
                                                          NetworkProvider& provider,
                                                          Console& console);

}  // namespace hdfnet::app
