#include "eval/folder_scores.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <opencv2/core.hpp>
#include <thread>

#include "image/read.h"

namespace hdfnet::eval {
namespace {

/// A grey image of 8 or 16 bits; colours become grey as Pillow makes them.
cv::Mat read_grey(const std::filesystem::path& file) {
  return app::read_depth_raw(file).values;
}

/// What became of one match: scores, or why not.
struct Outcome {
  std::unique_ptr<Scores> scores;
  std::string failure;
};

Outcome score_match(const Match& match) {
  Outcome outcome;
  try {
    outcome.scores =
        std::make_unique<Scores>(score(read_grey(match.prediction), read_grey(match.truth)));
  } catch (const app::ImageError& error) {
    outcome.failure = error.what();
  } catch (const std::exception& error) {
    outcome.failure = "'" + match.prediction.string() + "' against '" + match.truth.string() +
                      "': " + error.what();
  }
  return outcome;
}

}  // namespace

FolderScores score_matches(const std::vector<Match>& matches, int threads) {
  std::vector<Outcome> outcomes(matches.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < matches.size(); i = next++)
      outcomes[i] = score_match(matches[i]);
  };
  {
    const auto useful = std::min<std::size_t>(static_cast<std::size_t>(threads), matches.size());
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < useful; ++i) others.emplace_back(work);
    work();
  }

  FolderScores result;
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (outcomes[i].scores) {
      result.names.push_back(matches[i].name);
      result.scores.push_back(*outcomes[i].scores);
    } else {
      result.failures.push_back(outcomes[i].failure);
    }
  }
  return result;
}

}  // namespace hdfnet::eval
