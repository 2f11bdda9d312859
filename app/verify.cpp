#include "verify.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>

#include "application.h"
#include "run/interrupt.h"
#include "run/pair_files.h"
#include "setup.h"
#include "text/printable.h"
#include "timing/stage_clock.h"

namespace hdfnet::app {
namespace {

/// Largest absolute difference; not a number when either map has one or the sizes differ.
double largest_difference(const Maps& first, const Maps& second) {
  const std::span<const float> one = first.all(), other = second.all();
  if (one.size() != other.size()) return std::nan("");
  double largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double difference = std::abs(static_cast<double>(one[i]) - other[i]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) break;
  }
  return largest;
}

struct Differences {
  double fused_reference = 0;
  double fused_archive = 0;
  double reference_archive = 0;

  bool within(double tolerance) const {
    // Written so that not-a-number is not within.
    return fused_reference <= tolerance && fused_archive <= tolerance &&
           reference_archive <= tolerance;
  }
};

/// The three networks, and room for one pair.
class Comparison {
 public:
  Comparison(const Options& options, NetworkProvider& provider)
      : size_(options.size),
        device_(provider.devices(options.device).front()),
        fused_(provider.make({device_, options.precision, Ddpm::fused})),
        reference_(provider.make({device_, options.precision, Ddpm::reference})),
        archive_(provider.make_archive(device_)),
        rgb_(fused_->allocate(3 * plane())),
        depth_(fused_->allocate(plane())) {}

  const NetworkInfo& info() const { return fused_->info(); }
  Planes planes() const { return {rgb_.get(), depth_.get(), size_.height, size_.width}; }

  Differences compare() {
    const BatchView view{rgb_.get(), depth_.get(), 1, size_.height, size_.width};
    const Maps fused = fused_->forward(view);
    const Maps reference = reference_->forward(view);
    const Maps archive = archive_->forward(view);
    return {largest_difference(fused, reference), largest_difference(fused, archive),
            largest_difference(reference, archive)};
  }

 private:
  std::size_t plane() const { return static_cast<std::size_t>(size_.height) * size_.width; }

  const InputSize size_;
  const std::string device_;
  const std::unique_ptr<Network> fused_, reference_, archive_;
  const std::shared_ptr<float[]> rgb_, depth_;
};

std::string line(const std::string& name, const Differences& differences, bool good) {
  char figures[96];
  std::snprintf(figures, sizeof figures, "%-4s  %-15.2e  %-13.2e  %-17.2e  ", good ? "ok" : "OFF",
                differences.fused_reference, differences.fused_archive,
                differences.reference_archive);
  return figures + printable(name);
}

}  // namespace

double verify_tolerance(const std::string& precision) {
  if (precision == "fp32") return 1e-4;
  return precision == "bf16" ? 1e-1 : 2e-2;
}

int verify(const Plan& plan, const Options& options, NetworkProvider& provider, std::ostream& out,
           Console& console) {
  provider.set_threads(resolve_setup(options, provider, plan.jobs.size(), false).threads);
  provider.load(options.weights);
  Comparison comparison(options, provider);
  const double tolerance = verify_tolerance(comparison.info().precision);
  StageClock clock(false);
  PairFiles files(options, console, clock);

  out << "Largest difference of saliency (0..1) in " << comparison.info().precision << " on "
      << comparison.info().device << "; the archive's own forward runs in fp32. Tolerance "
      << tolerance << "\n      fused-reference  fused-archive  reference-archive\n";
  std::size_t bad = 0;
  for (const Job& job : plan.jobs) {
    if (InterruptGuard::signal() != 0) return 128 + InterruptGuard::signal();
    try {
      PairTimes times;
      files.load(job, comparison.planes(), "verify", times);
      const Differences differences = comparison.compare();
      const bool good = differences.within(tolerance);
      bad += good ? 0 : 1;
      out << line(job.name, differences, good) << '\n' << std::flush;
    } catch (const std::exception& error) {
      ++bad;
      console.error(job.name + ": " + error.what());
    }
    if (bad > 0 && options.fail_fast) break;
  }
  const bool complete = plan.unpaired.empty() || options.allow_unpaired;
  return bad == 0 && complete ? exit_status::ok : exit_status::some_failed;
}

}  // namespace hdfnet::app
