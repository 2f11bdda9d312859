#include "pickle_check.h"

#include <cstdint>
#include <optional>

namespace hdfnet {
namespace {

/// Steps that put objects into another. ResNet-50's archive, the largest, has 11,253; some 150,000
/// objects nested in one another fill a stack of 8 MiB.
constexpr std::size_t kMostContainers = 25000;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

/// A length of `bytes` bytes, the least first, and the bytes that it counts.
std::optional<std::uint64_t> counted(std::string_view rest, std::size_t bytes) {
  if (rest.size() < bytes) return std::nullopt;
  const std::uint64_t length = little_endian(rest.substr(0, bytes));
  if (length > rest.size() - bytes) return std::nullopt;
  return bytes + length;
}

/// GLOBAL's module and name, a line each.
std::optional<std::uint64_t> two_lines(std::string_view rest) {
  const std::size_t first = rest.find('\n');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = rest.find('\n', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  return second + 1;
}

/// Bytes of the operand; nothing when the pickle ends before it does.
std::optional<std::uint64_t> operand_size(char opcode, std::string_view rest) {
  const auto fixed = [rest](std::uint64_t size) {
    return size <= rest.size() ? std::optional(size) : std::nullopt;
  };
  switch (opcode) {
    case '\x80':  // PROTO
    case 'K':     // BININT1
    case 'h':     // BINGET
    case 'q':     // BINPUT
      return fixed(1);
    case 'M':  // BININT2
      return fixed(2);
    case 'J':  // BININT
    case 'j':  // LONG_BINGET
    case 'r':  // LONG_BINPUT
      return fixed(4);
    case 'G':  // BINFLOAT
      return fixed(8);
    case '\x8a':  // LONG1
      return counted(rest, 1);
    case 'X':  // BINUNICODE
      return counted(rest, 4);
    case '\x8d':  // BINUNICODE8
      return counted(rest, 8);
    case 'c':  // GLOBAL
      return two_lines(rest);
    default:
      return 0;
  }
}

/// BINPERSID, REDUCE, APPEND(S), BUILD, DICT, LIST, SETITEM(S), TUPLE, NEWOBJ, TUPLE1, 2 and 3
constexpr std::string_view kContainers = "QRaebdlsut\x81\x85\x86\x87";

/// The opcodes that LibTorch's unpickler knows, besides those.
constexpr std::string_view kOthers = "().GJKMNX]chjqr}\x80\x88\x89\x8a\x8d";

bool contains(std::string_view opcodes, char opcode) {
  return opcodes.find(opcode) != std::string_view::npos;
}

}  // namespace

std::string pickle_fault(std::string_view pickle) {
  const std::size_t size = pickle.size();
  std::size_t containers = 0;
  while (!pickle.empty()) {
    const char opcode = pickle.front();
    pickle.remove_prefix(1);
    if (opcode == '.') return {};
    const bool container = contains(kContainers, opcode);
    if (!container && !contains(kOthers, opcode)) {
      return "its pickle has steps that no TorchScript archive has";
    }
    if (container && ++containers > kMostContainers) {
      return "its pickle builds more than " + std::to_string(kMostContainers) +
             " nested objects, which no network needs";
    }
    const std::optional<std::uint64_t> operand = operand_size(opcode, pickle);
    if (!operand) break;
    // LONG_BINPUT: the place in the memo, which grows to hold it; places are given out in order.
    if (opcode == 'r' && little_endian(pickle.substr(0, 4)) > size) {
      return "its pickle remembers more objects than it can have";
    }
    pickle.remove_prefix(static_cast<std::size_t>(*operand));
  }
  return "its pickle ends too early";
}

}  // namespace hdfnet
