#pragma once

#include <string>
#include <string_view>

namespace hdfnet::app {

/// The text for a terminal: control characters and bytes that are not UTF-8 as \xNN, so that a file
/// name cannot move the cursor or break a line.
std::string printable(std::string_view text);

/// The text with a full stop at its end, unless it has an end already.
std::string sentence(std::string text);

/// "1 pair", "2 pairs".
std::string counted(std::size_t count, std::string_view noun);

}  // namespace hdfnet::app
