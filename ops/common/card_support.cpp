#include "common/card_support.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace hdfnet::ops {
namespace {

constexpr int kOldestSupported = 75;

int capability(const Card& card) {
  return 10 * card.major + card.minor;
}

std::string dotted(int number) {
  return std::to_string(number / 10) + "." + std::to_string(number % 10);
}

// One entry of the list: "90", "90-real", "90-virtual", "90a", or a word such as "native".
CardSupport support_by_one(const std::string& entry, const Card& card) {
  size_t digits = 0;
  while (digits < entry.size() && std::isdigit(static_cast<unsigned char>(entry[digits])) != 0) {
    ++digits;
  }
  if (digits < 2 || digits > 4) return CardSupport::unknown;
  const int built = std::stoi(entry.substr(0, digits));
  const std::string kind = entry.substr(digits);
  const bool one_card_only =
      !kind.empty() && std::isalpha(static_cast<unsigned char>(kind[0])) != 0;
  if (one_card_only) return built == capability(card) ? CardSupport::full : CardSupport::none;
  const bool has_binary = kind != "-virtual";
  const bool has_ptx = kind != "-real";
  if (has_binary && built / 10 == card.major && built % 10 <= card.minor) return CardSupport::full;
  return has_ptx && built <= capability(card) ? CardSupport::as_ptx : CardSupport::none;
}

}  // namespace

CardSupport card_support(const std::string& architectures, const Card& card) {
  CardSupport best = CardSupport::none;
  std::istringstream list(architectures);
  for (std::string entry; std::getline(list, entry, ',');) {
    const CardSupport one = support_by_one(entry, card);
    if (one == CardSupport::unknown) return CardSupport::unknown;
    best = std::max(best, one);
  }
  return best;
}

std::string no_kernel_message(const std::string& op, const std::string& architectures,
                              const Card& card) {
  const int number = capability(card);
  std::string text = op + ": no kernel for " + card.name + " (compute capability " +
                     dotted(number) + "): libhdfnet_ops was built for " + architectures;
  if (number < kOldestSupported) {
    return text + ". The oldest card that is supported has " + dotted(kOldestSupported) +
           "; move the tensors to the CPU.";
  }
  if (card_support(architectures, card) == CardSupport::as_ptx) {
    text +=
        ", which holds code for it as PTX, but its driver cannot compile that. Update the NVIDIA "
        "driver, or build for this card: ";
  } else {
    text += ". Build it for this card: ";
  }
  return text + "cmake --preset release -DCMAKE_CUDA_ARCHITECTURES=" + std::to_string(number);
}

std::string no_cuda_message(const std::string& op) {
  return op +
         ": expected tensors on the CPU, because this libhdfnet_ops was built without CUDA "
         "kernels, "
         "but got tensors on a CUDA device. Move them to the CPU, or build with a CUDA toolkit: "
         "cmake --preset release -DHDFNET_CUDA=ON";
}

}  // namespace hdfnet::ops
